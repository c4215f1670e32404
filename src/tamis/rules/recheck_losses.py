"""The losses of the recheck, written down a second time from their formulas: value, dual value, reach of a dual point.

u are scores (rows, columns), z a dual point of the same shape, y a vector (+-1, class index or number) and
weight the weights C * s. Nothing here is shared with the code that is being checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EDGE = 1e-12  # relative: rounding of one product at the edge of a domain is not a violation
MARGINS = ("logistic", "squared_hinge", "hinge")
NAMES = (*MARGINS, "squared", "huber", "poisson", "multinomial")


@dataclass(frozen=True)
class Targets:
    """One loss on weighted rows."""

    loss: str
    y: Array
    weight: Array
    offset: Array
    delta: float = 1.345

    def value(self, u: Array) -> float:
        """Sum of weighted losses."""
        score = u + self.offset
        if self.loss == "multinomial":
            top = score.max(axis=1)
            each = np.log(np.exp(score - top[:, None]).sum(axis=1)) + top - score[np.arange(len(score)), self.y.astype(int)]
        else:
            each = self._each(score[:, 0])
        return float((self.weight * each).sum())

    def _each(self, u: Array) -> Array:
        margin, error = self.y * u, np.abs(self.y - u)
        with np.errstate(over="ignore"):
            if self.loss == "logistic":
                return np.maximum(0.0, -margin) + np.log1p(np.exp(-np.abs(margin)))
            if self.loss == "squared_hinge":
                return np.where(margin < 1, (1 - margin) ** 2 / 2, 0.0)
            if self.loss == "hinge":
                return np.where(margin < 1, 1 - margin, 0.0)
            if self.loss == "squared":
                return error**2 / 2
            if self.loss == "huber":
                return np.where(error <= self.delta, error**2 / 2, self.delta * (error - self.delta / 2))
            return np.exp(u) - self.y * u

    def domain(self, z: Array) -> str:
        """Why z is no dual point, or nothing."""
        label = z[np.arange(len(z)), self.y.astype(int)] if self.loss == "multinomial" else z[:, 0]
        slack = EDGE * self.weight
        if self.loss == "multinomial":
            others = z.copy()
            others[np.arange(len(z)), self.y.astype(int)] = 0.0
            if np.any(others > 0) or np.any(label > self.weight + slack) or np.any(np.abs(z.sum(axis=1)) > slack):
                return "some row holds no probabilities"
        elif self.loss in MARGINS:
            pull = label * self.y
            if np.any(pull < 0) or (self.loss != "squared_hinge" and np.any(pull > self.weight + slack)):
                return "some entry has the wrong sign or exceeds its weight"
        elif self.loss == "huber" and np.any(np.abs(label) > self.delta * (self.weight + slack)):
            return "some entry exceeds delta times its weight"
        elif self.loss == "poisson" and np.any(label > self.y * self.weight + slack * (1 + self.y)):
            return "some rate would be negative"
        return ""

    def reach(self, z: Array) -> float:
        """The largest factor by which z can be stretched without leaving the domain."""
        if self.loss == "multinomial":
            pull, limit = z[np.arange(len(z)), self.y.astype(int)], self.weight
        elif self.loss in ("logistic", "hinge"):
            pull, limit = z[:, 0] * self.y, self.weight
        elif self.loss == "huber":
            pull, limit = np.abs(z[:, 0]), self.delta * self.weight
        elif self.loss == "poisson":
            pull, limit = z[:, 0], self.y * self.weight
        else:
            return math.inf
        pulled = pull > 0
        return float((limit[pulled] / pull[pulled]).min()) if pulled.any() else math.inf

    def dual(self, z: Array) -> float:
        """What z is worth before the norm is paid; z must lie in the domain."""
        paid = float((z * self.offset).sum())
        if self.loss == "multinomial":
            share = -z / self.weight[:, None]
            share[np.arange(len(z)), self.y.astype(int)] += 1.0
            return float((self.weight * _entropy(share).sum(axis=1)).sum()) - paid
        pull = z[:, 0]
        if self.loss == "logistic":
            share = pull * self.y / self.weight
            each = self.weight * (_entropy(share) + _entropy(1.0 - share))
        elif self.loss == "hinge":
            each = pull * self.y
        elif self.loss == "poisson":
            rate = np.maximum(self.y - pull / self.weight, 0.0)
            each = self.weight * (rate + _entropy(rate))
        else:  # squared hinge (y is +-1, so y z is the margin form), squared and Huber
            each = pull * self.y - pull**2 / (2 * self.weight)
        return float(each.sum()) - paid


def _entropy(share: Array) -> Array:
    """-x ln x, continued by 0."""
    positive = share > 0
    result = np.zeros_like(share)
    result[positive] = -share[positive] * np.log(share[positive])
    return result


def golden(function: Callable[[float], float], low: float, high: float, steps: int = 90) -> tuple[float, float]:
    """(argument, value) of the maximum of a concave function on [low, high]."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    best = max((at_left, left), (at_right, right), (function(high), high))
    for _ in range(steps):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        best = max(best, (at_left, left), (at_right, right))
        if high - low <= 1e-11 * max(abs(low), abs(high)):
            break
    return best[1], best[0]


def best_dual(targets: Targets, z: Array, norm: float) -> tuple[float, float]:
    """(scale t, value) of max over t of dual(t z) - (t norm)^2 / 2; every t gives a lower bound of the optimum."""

    def worth(t: float) -> float:
        return targets.dual(t * z) - (t * norm) ** 2 / 2

    reach = targets.reach(z)
    high = min(2.0, reach)
    while high < reach and high < 1e6 and worth(min(2 * high, reach)) > worth(high):
        high = min(2 * high, reach)
    return golden(worth, 0.0, high)


def allowed_norm(targets: Targets, z: Array, bound: float) -> float:
    """The largest dual norm of z with which it would still prove `bound`; 0 if none would, infinite if z = 0 does.

    max over t of 2 (dual(t z) - bound) / t^2, a ratio, is raised until no t improves it (Dinkelbach).
    """
    if targets.dual(np.zeros_like(z)) >= bound:
        return math.inf
    scale, worth = best_dual(targets, z, 0.0)
    if not worth > bound:
        return 0.0
    square = 0.0
    for _ in range(60):
        better = 2.0 * (targets.dual(scale * z) - bound) / scale**2
        if not better > square * (1 + 1e-13):
            break
        square = better
        scale, _ = best_dual(targets, z, math.sqrt(square))
    return math.sqrt(square)


def constant_value(targets: Targets, columns: int) -> float:
    """The objective of the best constant model, by golden section along one column after the other."""
    level, rows = np.zeros(columns), len(targets.y)
    if targets.loss == "multinomial":
        mass = np.bincount(targets.y.astype(int), targets.weight, columns)
        level = np.log(np.maximum(mass / mass.sum(), 1e-300))
    value = targets.value(np.broadcast_to(level, (rows, columns)))
    if targets.loss == "multinomial" and not targets.offset.any():
        return value  # the logarithms of the class shares are the best constants
    for _ in range(200):
        before = value
        for column in range(columns):
            level[column], value = _best_level(targets, level, column)
        if columns == 1 or not value < before - 1e-13 * abs(before):
            break
    return value


def _best_level(targets: Targets, level: Array, column: int) -> tuple[float, float]:
    """(best constant of one column, objective) with the other columns fixed; the bracket is doubled until it holds."""
    shape = (len(targets.y), len(level))

    def loss(at: float) -> float:
        moved = level.copy()
        moved[column] = at
        return -targets.value(np.broadcast_to(moved, shape))

    start = float(level[column])
    width = 1.0
    while width < 1e9 and (loss(start - 2 * width) > loss(start - width) or loss(start + 2 * width) > loss(start + width)):
        width *= 2
    at, worth = golden(loss, start - 2 * width, start + 2 * width)
    return (at, -worth) if worth >= loss(start) else (start, -loss(start))
