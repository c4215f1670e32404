"""Losses: value, gradient, curvature, conjugate and link, vectorised over rows and score columns.

Targets are encoded once, as a (rows, columns) array: +-1 for margins, numbers for regression, one-hot rows
for several classes. Weights `s` are positive, one per row, and multiply the loss inside the conjugate too, so
that for every u:  value(eta, y, s) + conjugate(u, y, s) >= sum(u * eta), with equality at the gradient.
Adding a loss is one class here and one line in LOSSES; the registry-wide tests then run on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, xlogy

Array = NDArray[np.float64]
TINIEST = 1e-300
DOMAIN_SLACK = 1e-12  # relative; conjugates forgive rounding at the edge of their domain, never more


class Loss(Protocol):
    """What a solver may ask of a loss; arrays are (rows, columns), weights (rows,)."""

    name: ClassVar[str]
    smooth: ClassVar[bool]
    parabolic: ClassVar[bool]  # the conjugate is a parabola along every ray, inside its domain

    def value(self, eta: Array, y: Array, s: Array) -> float: ...
    def gradient(self, eta: Array, y: Array, s: Array) -> Array: ...
    def curvature(self, eta: Array, y: Array, s: Array) -> Array: ...
    def conjugate(self, u: Array, y: Array, s: Array) -> float: ...
    def reach(self, u: Array, y: Array, s: Array) -> float: ...


@runtime_checkable
class Stretched(Protocol):
    """What a loss whose conjugate is no parabola along a ray may offer, so that the best length is found in a few steps."""

    def stretched(self, u: Array, y: Array, s: Array) -> tuple[float, float, float]:
        """The conjugate of t u with its first two derivatives in t, at t = 1."""
        ...


def _total(s: Array, each: Array) -> float:
    return float(np.dot(s, each[:, 0]))


@dataclass(frozen=True)
class Squared:
    """Half the squared error."""

    name: ClassVar[str] = "squared"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = True

    def value(self, eta: Array, y: Array, s: Array) -> float:
        return 0.5 * _total(s, (y - eta) ** 2)

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return s[:, None] * (eta - y)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        return np.broadcast_to(s[:, None], eta.shape)

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        return float((u * y + u * u / (2.0 * s[:, None])).sum())

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return float("inf")


@dataclass(frozen=True)
class Huber:
    """Squared within `delta`, linear beyond: errors larger than delta pull with constant force."""

    delta: float = 1.345
    name: ClassVar[str] = "huber"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = True

    def value(self, eta: Array, y: Array, s: Array) -> float:
        error = np.abs(y - eta)
        near = np.minimum(error, self.delta)
        return _total(s, near * (error - 0.5 * near))

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return s[:, None] * np.clip(eta - y, -self.delta, self.delta)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        return s[:, None] * (np.abs(y - eta) <= self.delta)

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        limit = self.delta * s[:, None]
        if np.any(np.abs(u) > limit * (1 + DOMAIN_SLACK)):
            return float("inf")
        return float((u * y + u * u / (2.0 * s[:, None])).sum())

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(self.delta * s[:, None], np.abs(u))


@dataclass(frozen=True)
class Poisson:
    """exp(eta) - y eta: counts with a log link."""

    name: ClassVar[str] = "poisson"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = False

    def value(self, eta: Array, y: Array, s: Array) -> float:
        with np.errstate(over="ignore"):
            return _total(s, np.exp(eta) - y * eta)

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return s[:, None] * (np.exp(eta) - y)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return s[:, None] * np.exp(eta)

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        rate = y + u / s[:, None]
        if np.any(rate < -DOMAIN_SLACK * (1 + y)):
            return float("inf")
        rate = np.maximum(rate, 0.0)
        return _total(s, xlogy(rate, rate) - rate)

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(s[:, None] * y, -u)


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(-y eta)) with y = +-1."""

    name: ClassVar[str] = "logistic"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = False

    def value(self, eta: Array, y: Array, s: Array) -> float:
        margin = y * eta  # numpy's exp and log take a fifth of the time of logaddexp and scipy's entr
        return _total(s, np.log1p(np.exp(-np.abs(margin))) - np.minimum(margin, 0.0))

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(-s[:, None] * y / (1.0 + np.exp(y * eta)))

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        share = expit(eta)
        return np.asarray(s[:, None] * np.maximum(share * (1.0 - share), 1e-12))

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        return self.stretched(u, y, s)[0]

    def stretched(self, u: Array, y: Array, s: Array) -> tuple[float, float, float]:
        share = -u * y / s[:, None]
        if np.any(share < -DOMAIN_SLACK) or np.any(share > 1 + DOMAIN_SLACK):
            return float("inf"), float("inf"), float("inf")
        share = np.clip(share, 0.0, 1.0)
        other = np.maximum(1.0 - share, TINIEST)
        # nothing times its logarithm is nothing: any finite logarithm will do there
        log, log_other = np.log(np.maximum(share, TINIEST)), np.log(other)
        slope = _total(s, share * (log - log_other))
        return slope + _total(s, log_other), slope, _total(s, share / other)

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(s[:, None], -u * y)


@dataclass(frozen=True)
class SquaredHinge:
    """Half the square of max(0, 1 - y eta)."""

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = True

    def value(self, eta: Array, y: Array, s: Array) -> float:
        return 0.5 * _total(s, np.maximum(0.0, 1.0 - y * eta) ** 2)

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return -s[:, None] * y * np.maximum(0.0, 1.0 - y * eta)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        return s[:, None] * (y * eta < 1.0)

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        pull = -u * y
        if np.any(pull < -DOMAIN_SLACK * s[:, None]):
            return float("inf")
        return -float((pull - pull * pull / (2.0 * s[:, None])).sum())

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return float("inf")


@dataclass(frozen=True)
class SmoothedHinge:
    """The hinge with its corner rounded over `width`; only ever used to find a dual point of the true hinge.

    It is the largest a (1 - y eta) - width (a - centre)^2 / 2 over shares a in [0, 1]. The nearer the centre lies to the
    shares of the hinge's own optimum, the less the rounding costs there, whatever the width.
    """

    width: float = 1.0
    centre: Any = 0.0
    name: ClassVar[str] = "smoothed_hinge"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = True

    def shares(self, eta: Array, y: Array) -> Array:
        """The best a of each row."""
        return np.asarray(np.clip(self.centre + (1.0 - y * eta) / self.width, 0.0, 1.0))

    def value(self, eta: Array, y: Array, s: Array) -> float:
        share = self.shares(eta, y)
        return _total(s, share * (1.0 - y * eta) - 0.5 * self.width * (share - self.centre) ** 2)

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return np.asarray(-s[:, None] * y * self.shares(eta, y))

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        share = self.centre + (1.0 - y * eta) / self.width
        # never quite zero: where all rows are flat a Newton step still needs a length
        return s[:, None] * np.where((share >= 0) & (share <= 1), 1.0, 1e-3) / self.width

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        pull = -u * y
        if np.any(pull < -DOMAIN_SLACK * s[:, None]) or np.any(pull > s[:, None] * (1 + DOMAIN_SLACK)):
            return float("inf")
        return -float((pull - 0.5 * self.width * s[:, None] * (pull / s[:, None] - self.centre) ** 2).sum())

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(s[:, None], -u * y)


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y eta); solvers work on `smoothed(width)` and certify the true hinge."""

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False
    parabolic: ClassVar[bool] = True

    def smoothed(self, width: float, centre: Any = 0.0) -> SmoothedHinge:
        """The loss a Newton step may work on; within width / 2 of the hinge per unit weight."""
        return SmoothedHinge(width, centre)

    def value(self, eta: Array, y: Array, s: Array) -> float:
        return _total(s, np.maximum(0.0, 1.0 - y * eta))

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return -s[:, None] * y * (y * eta < 1.0)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        return np.zeros_like(eta)

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        pull = -u * y
        if np.any(pull < -DOMAIN_SLACK * s[:, None]) or np.any(pull > s[:, None] * (1 + DOMAIN_SLACK)):
            return float("inf")
        return -float(pull.sum())

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(s[:, None], -u * y)


@dataclass(frozen=True)
class Multinomial:
    """logsumexp(eta) - eta_label, one column per class, y one-hot."""

    name: ClassVar[str] = "multinomial"
    smooth: ClassVar[bool] = True
    parabolic: ClassVar[bool] = False

    def value(self, eta: Array, y: Array, s: Array) -> float:
        top = eta.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(eta - top).sum(axis=1)) + top[:, 0]
        return float(np.dot(s, log_sum - (eta * y).sum(axis=1)))

    def shares(self, eta: Array) -> Array:
        """Class probabilities."""
        raised = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def gradient(self, eta: Array, y: Array, s: Array) -> Array:
        return s[:, None] * (self.shares(eta) - y)

    def curvature(self, eta: Array, y: Array, s: Array) -> Array:
        share = self.shares(eta)
        columns = share.shape[1]
        return s[:, None, None] * (share[:, :, None] * (np.eye(columns)[None] - share[:, None, :]))

    def conjugate(self, u: Array, y: Array, s: Array) -> float:
        share = y + u / s[:, None]
        if np.any(share < -DOMAIN_SLACK) or np.any(np.abs(u.sum(axis=1)) > 1e-9 * s):
            return float("inf")
        return -float(np.dot(s, entr(np.maximum(share, 0.0)).sum(axis=1)))

    def reach(self, u: Array, y: Array, s: Array) -> float:
        return _smallest_ratio(np.broadcast_to(s[:, None], u.shape) * y, -u * y)


def _smallest_ratio(limit: Array, pull: Array) -> float:
    """The largest factor that keeps pull <= limit where pull is positive."""
    positive = pull > 0
    if not np.any(positive):
        return float("inf")
    return float((np.broadcast_to(limit, pull.shape)[positive] / pull[positive]).min())


LOSSES: dict[str, type[Any]] = {
    "squared": Squared,
    "huber": Huber,
    "poisson": Poisson,
    "logistic": Logistic,
    "squared_hinge": SquaredHinge,
    "hinge": Hinge,
    "multinomial": Multinomial,
}


@dataclass(frozen=True)
class Targets:
    """A loss with its data: encoded y, weights already multiplied by the knob, offsets, and a constant.

    Rows that no atom can tell apart share one row of the design. `starts` then says where each design row's
    targets begin; scores come per design row, dual points stay per target and are folded for pricing.
    The constant carries what merging equal targets took out of the objective.
    """

    loss: Any
    y: Array
    weight: Array
    offset: Array
    constant: float = 0.0
    starts: NDArray[np.intp] | None = None

    @property
    def columns(self) -> int:
        """Score columns."""
        return int(self.y.shape[1])

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The design row of each target."""
        if self.starts is None:
            return np.arange(len(self.y))
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.y))))

    def spread(self, score: Array) -> Array:
        """Scores per design row to scores per target, offsets added."""
        return (score if self.starts is None else score[self.owner]) + self.offset

    def fold(self, values: Any) -> Any:
        """Sums over the targets of each design row."""
        return values if self.starts is None else np.add.reduceat(values, self.starts, axis=0)

    def value(self, score: Array) -> float:
        """Weighted loss at scores per design row."""
        return float(self.loss.value(self.spread(score), self.y, self.weight)) + self.constant

    def pull(self, score: Array) -> Array:
        """The dual point at these scores, per target: minus the gradient."""
        return -np.asarray(self.loss.gradient(self.spread(score), self.y, self.weight))

    def curvature(self, score: Array) -> Array:
        """Second derivative per design row."""
        return np.asarray(self.fold(np.asarray(self.loss.curvature(self.spread(score), self.y, self.weight))))

    def dual(self, pull: Array) -> float:
        """What the dual point is worth before the norm is paid: minus the conjugate, minus the offsets' share."""
        return -float(self.loss.conjugate(-pull, self.y, self.weight)) - float((pull * self.offset).sum()) + self.constant

    def stretched(self, pull: Array) -> tuple[float, float, float]:
        """`dual` of t times the point with its first two derivatives in t, at t = 1; for losses that are Stretched."""
        value, slope, bend = self.loss.stretched(-pull, self.y, self.weight)
        offset = float((pull * self.offset).sum())
        return self.constant - value - offset, -slope - offset, -bend

    def reach(self, pull: Array) -> float:
        """How far the dual point can be stretched and stay in the domain."""
        return float(self.loss.reach(-pull, self.y, self.weight))

    def at(self, factor: float) -> Targets:
        """The same data with weights multiplied."""
        return replace(self, weight=self.weight * factor, constant=self.constant * factor)

    def with_loss(self, loss: Any) -> Targets:
        """The same data under another loss."""
        return replace(self, loss=loss)

    @property
    def design_rows(self) -> int:
        """How many rows the design has."""
        return len(self.y) if self.starts is None else len(self.starts)
