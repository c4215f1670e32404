"""A block of iterations on a few rows of theta, and the trace it leaves.

All that the other rows need to know of a block is the running sum of the loss gradients, one number per row of the data: their dual is
the design's score of it. A trace gives these sums at any iteration, and bounds how far they stray from a straight line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Design
from tamis.core.structure import Gauge

Array = NDArray[Any]
POOL_BYTES = 512 * 2**20
HISTORY_BYTES = 32 * 2**20
FEW, FEW_CELLS = 160, 20_000  # rows and numbers below which finding the zeros costs more than multiplying by them
STRIDE = 32  # iterations between two looks at how a trace bends


class Trace(Protocol):
    """What happened in a block of `length` iterations."""

    @property
    def length(self) -> int:
        """How many iterations."""
        ...

    def pulls(self, steps: Array) -> Array:
        """Minus alpha times the summed gradients up to each step: (rows, classes, steps)."""
        ...

    def bow(self, first: int, last: int) -> Array:
        """Per class, how far the pulls between two steps can be from the chord, as a norm that the column norms match."""
        ...


class TooSteepError(ArithmeticError):
    """The curvature met on the way was larger than the one the step was made for."""


@dataclass(frozen=True)
class Pace:
    """The fixed numbers of an iteration: kappa, step, the intercept's rate (0: none), the largest score the step allows for.

    `curvature` bounds the eigenvalues of the weighted products of all columns and the column of ones.
    """

    kappa: float
    alpha: float
    intercept_rate: float
    ceiling: float
    curvature: float
    traced: bool = True


class Pool:
    """Columns that were ever worked on, side by side in memory, with their weighted products among each other."""

    def __init__(self, design: Design, weight: Array, y: Array | None) -> None:
        self.design, self.weight, self.y = design, weight, y
        self._all: Array | None = None
        self._clear()

    def _clear(self) -> None:
        self._place = np.full(self.design.shape[1], -1, dtype=np.intp)
        self._columns = np.zeros((self.design.shape[0], 0), order="F")
        self._gram = np.zeros((0, 0))
        self._target = np.zeros(0)
        self._count = 0

    def _hold(self, rows: Array) -> Array:
        """Places of these rows, after fetching what is missing."""
        new = rows[self._place[rows] < 0]
        if len(new):
            if 8 * self._columns.shape[0] * (self._count + len(new)) > POOL_BYTES and self._count:
                self._clear()
                new = rows
            self._fetch(new)
        return self._place[rows]

    def _fetch(self, new: Array) -> None:
        count = self._count + len(new)
        if count > self._columns.shape[1]:
            room = min(self.design.shape[1], max(2 * self._columns.shape[1], count + 16))
            wider = np.zeros((self._columns.shape[0], room), order="F")
            wider[:, : self._count] = self._columns[:, : self._count]
            self._columns = wider
            if self.y is not None:
                gram = np.zeros((room, room))
                gram[: self._count, : self._count] = self._gram[: self._count, : self._count]
                self._gram, self._target = gram, np.append(self._target[: self._count], np.zeros(room - self._count))
        part = np.asarray(self.design.block(new), dtype=np.float64)
        self._columns[:, self._count : count] = part
        if self.y is not None:
            weighted = self.weight[:, None] * part
            cross = self._columns[:, :count].T @ weighted
            self._gram[:count, self._count : count] = cross
            self._gram[self._count : count, : self._count] = cross[: self._count].T
            self._target[self._count : count] = weighted.T @ self.y[:, 0]
        self._place[new] = np.arange(self._count, count)
        self._count = count

    def peek(self, rows: Array) -> Array:
        """Columns that are looked at once."""
        if (self._place[rows] >= 0).all():
            return self.columns(rows)
        return np.asarray(self.design.block(rows), dtype=np.float64)

    def columns(self, rows: Array) -> Array:
        """Some columns, or all of them, each contiguous; not to be written to."""
        if len(rows) == self.design.shape[1]:
            if self._all is None:
                self._all = np.asfortranarray(self.design.block(), dtype=np.float64)
            return self._all
        place = self._hold(rows)
        return np.asarray(self._columns.T[place].T)

    def products(self, rows: Array, intercept: bool) -> tuple[Array, Array]:
        """X'WX and X'Wy of some columns, with the column of ones last if there is an intercept."""
        place = self._hold(rows)
        gram, target = self._gram[np.ix_(place, place)], self._target[place]
        if not intercept or self.y is None:
            return gram, target
        mean = self._columns.T[place] @ self.weight
        gram = np.block([[gram, mean[:, None]], [mean[None, :], np.array([[self.weight.sum()]])]])
        return gram, np.append(target, self.weight @ self.y[:, 0])


@dataclass(frozen=True)
class RowTrace:
    """Sums of gradients, stored per row of the data."""

    sums: Array
    strays: Array
    inverse_root: Array
    length: int

    def pulls(self, steps: Array) -> Array:
        """As the protocol says."""
        return np.moveaxis(self.sums[steps], 0, -1)

    def bow(self, first: int, last: int) -> Array:
        """As the protocol says; looked at every STRIDE steps, and bounded in between."""
        steps, between = _sampled(self.strays, first, last)
        share = ((steps - first) / (last - first))[:, None, None]
        begin, end = self.sums[first], self.sums[last]
        away = (self.sums[steps] - begin - share * (end - begin)) * self.inverse_root
        return np.asarray((np.sqrt(np.einsum("mic,mic->mc", away, away).max(axis=0)) + between) * (1 + 1e-9))


@dataclass(frozen=True)
class GramTrace:
    """Squared loss: sums of coefficients, from which those of the gradients follow."""

    sums: Array  # (steps + 1, rows held, and the intercept)
    strays: Array
    gram: Array
    columns: Array
    y: Array
    weight: Array
    alpha: float
    length: int

    def pulls(self, steps: Array) -> Array:
        """As the protocol says."""
        total = self.sums[steps]
        fitted = self.columns @ total[:, : self.columns.shape[1]].T
        if total.shape[1] > self.columns.shape[1]:
            fitted += total[:, -1]
        return np.asarray(self.alpha * self.weight[:, None, None] * (self.y[:, :, None] * steps - fitted[:, None, :]))

    def bow(self, first: int, last: int) -> Array:
        """As the protocol says; looked at every STRIDE steps, and bounded in between."""
        steps, between = _sampled(self.strays, first, last)
        share = ((steps - first) / (last - first))[:, None]
        begin, end = self.sums[first], self.sums[last]
        away = self.sums[steps] - begin - share * (end - begin)
        squares = ((away @ self.gram) * away).sum(axis=1)
        rounding = 1e-12 * float(np.abs(end).max(initial=0.0)) * float(np.sqrt(np.abs(self.gram.diagonal()).max(initial=0.0)))
        return np.asarray((self.alpha * (np.sqrt(max(float(squares.max()), 0.0)) + rounding) + between) * (1 + 1e-9))


def _sampled(strays: Array, first: int, last: int) -> tuple[Array, Array]:
    """Steps between first and last that are looked at, and how far the sums may stray from the chord between two of them.

    Over L steps a sum strays from its chord by at most L / 2 times the distance of its terms from any one value.
    """
    inside = np.arange(first // STRIDE + 1, (last - 1) // STRIDE + 1) * STRIDE
    steps = np.concatenate([[first], inside, [last]])
    return steps, 0.5 * STRIDE * strays[first // STRIDE : (last - 1) // STRIDE + 1].max(axis=0)


def _strays(terms: Array, scale: Array) -> Array:
    """For every STRIDE terms, how far (per class) they are from the one in their middle."""
    found = []
    for low in range(0, len(terms), STRIDE):
        part = terms[low : low + STRIDE]
        away = (part - part[len(part) // 2]) * scale
        found.append(np.sqrt(np.einsum("mic,mic->mc", away, away).max(axis=0)))
    return np.array(found)


def _thetas(gauge: Gauge, kappa: float, rate: float, level: Array) -> Callable[[Array, Array], Any]:
    """A function that writes kappa * shrink(dual) into its second argument, after which may come the intercept at its own rate.

    Single entries that are in are stored as their distance from the threshold, which `level` is changed to: beside a threshold of 1
    the last digits of a small distance would be lost, and be missed when their sums are taken.
    """
    extra = 1 if rate else 0
    if not gauge.separable:
        rows = len(gauge.weight)

        def general(level: Array, theta: Array) -> None:
            np.multiply(gauge.shrink(level[:rows]), kappa, out=theta[:rows])
            theta[rows:] = rate * level[rows:]

        return general
    # where soft thresholding is flat; the intercept has no flat part
    lower, upper = (np.append(edge, np.zeros((extra, 1)), axis=0) for edge in gauge.flat())
    shift = np.where(level > upper, upper, np.where(level < lower, lower, 0.0))
    level -= shift
    lower, upper = lower - shift, upper - shift
    scale = np.append(np.full((len(gauge.weight), 1), kappa), np.full((extra, 1), rate), axis=0)
    room: list[Array] = []

    def separate(level: Array, theta: Array) -> None:
        if not room:
            room.append(np.empty_like(level))
        np.maximum(level, lower, out=room[0])
        np.minimum(room[0], upper, out=room[0])
        np.subtract(level, room[0], out=theta)
        np.multiply(theta, scale, out=theta)

    return separate


def _gradients(loss: Any, y: Array, weight: Array) -> Callable[[Array], Array]:
    """The loss's gradient at scores, flat when there is one class, with what does not change multiplied out before."""
    if y.shape[1] > 1:
        return lambda score: np.asarray(loss.gradient(score, y, weight))
    target = y[:, 0]
    if loss.name == "squared":
        return lambda score: np.asarray(weight * (score - target))
    if loss.name == "logistic":
        from scipy.special import expit

        outer, inner = -weight * target, -target

        def logistic(score: Array) -> Array:
            score *= inner
            expit(score, score)
            score *= outer
            return score

        return logistic
    return lambda score: np.asarray(loss.gradient(score[:, None], y, weight)[:, 0])


def row_steps(columns: Array, dual: Array, eta: Array, steps: int, pace: Pace, gauge: Gauge, data: tuple[Any, Array, Array]) -> RowTrace:
    """Iterate on some rows of theta with their columns at hand; any loss.

    The intercept is one more row: its dual is eta / rate, and its column is one.
    """
    loss, y, weight = data
    rate, single = pace.intercept_rate, y.shape[1] == 1
    if rate:
        columns = np.append(columns, np.ones((len(y), 1)), axis=1)
    level = np.append(dual, eta[None, :] / rate, axis=0) if rate else dual.copy()
    theta = np.empty_like(level)
    shrink, slope = _thetas(gauge, pace.kappa, rate, level), _gradients(loss, y, weight)
    shrink(level, theta)
    sums = np.zeros((steps + 1, *y.shape))
    stepped, columns = np.ascontiguousarray(pace.alpha * columns.T), np.asfortranarray(columns)
    flat_level, flat_theta, flat_sums = (level[:, 0], theta[:, 0], sums[:, :, 0]) if single else (level, theta, sums)
    few = columns.size > FEW_CELLS
    active, part = np.arange(len(theta)), columns
    for step in range(steps):
        if few:
            found = np.flatnonzero(flat_theta if single else theta.any(axis=1))
            if len(found) != len(active) or (found != active).any():
                active, part = found, columns.T[found].T
            score = part @ flat_theta[active]
        else:
            score = columns @ flat_theta
        if pace.ceiling < np.inf and score.max() > pace.ceiling:
            raise TooSteepError
        gradient = slope(score)
        flat_sums[step + 1] = gradient
        flat_level -= stepped @ gradient
        shrink(level, theta)
    root = np.sqrt(weight)[:, None]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    strays = _strays(sums[1:], pace.alpha * inverse) if pace.traced else np.zeros((0, 1))
    np.cumsum(sums, axis=0, out=sums)
    sums *= -pace.alpha
    return RowTrace(sums, strays, inverse, steps)


def gram_steps(
    products: tuple[Array, Array], columns: Array, dual: Array, eta: Array, steps: int, pace: Pace, gauge: Gauge,
    data: tuple[Any, Array, Array],
) -> GramTrace:  # fmt: skip
    """Iterate on some rows of theta with the products of their columns; squared loss only."""
    from scipy.linalg.blas import dsymv  # reads half of a symmetric matrix, and reading is what a step costs

    gram, target = products
    _, y, weight = data
    rate = pace.intercept_rate
    level = np.append(dual[:, 0], eta / rate)[:, None] if rate else dual.copy()
    now = np.empty_like(level)
    shrink = _thetas(gauge, pace.kappa, rate, level)
    shrink(level, now)
    flat_level, flat_now = level[:, 0], now[:, 0]  # views
    stepped, pushed = pace.alpha * gram, pace.alpha * target
    mirrored, move = stepped.T, np.empty_like(pushed)
    sums = np.empty((steps + 1, len(now)))
    sums[0] = 0.0
    few, thin = len(now) > FEW, False
    active, part = np.zeros(0, dtype=np.intp), stepped[:0]
    for step in range(steps):
        sums[step + 1] = flat_now
        if few and step % 8 == 0:
            thin = 2 * np.count_nonzero(flat_now) < len(flat_now)
        if thin:
            found = flat_now.nonzero()[0]
            if len(found) != len(active) or (found != active).any():
                active, part = found, stepped[found]
            np.subtract(pushed, flat_now[active] @ part, out=move)
        else:
            move[:] = pushed
            dsymv(-1.0, mirrored, flat_now, 1.0, move, lower=1, overwrite_y=1)
        # the move is summed before it is added: added in two large parts, it would leave the same rounding behind at every step
        flat_level += move
        shrink(level, now)
    # as a norm of fitted values: at most the root of the largest curvature times that of coefficients
    strays = _strays(sums[1:, :, None], np.asarray(pace.alpha * np.sqrt(pace.curvature))) if pace.traced else np.zeros((0, 1))
    np.cumsum(sums, axis=0, out=sums)
    return GramTrace(sums, strays, gram, columns, y, weight, pace.alpha, steps)
