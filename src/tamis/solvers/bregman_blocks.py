"""A block of iterations on a few rows of theta, and the trace it leaves.

All that the other rows need to know of a block is the running sum of the loss gradients, one number per row of the data: their dual is
the design's score of it. A trace gives these sums at any iteration, and bounds how far they stray from a straight line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.core.structure import Gauge
from tamis.solvers.bregman_pool import Held

Array = NDArray[Any]
HISTORY_BYTES = 32 * 2**20
FEW, FEW_CELLS = 160, 20_000  # rows and numbers below which finding the zeros costs more than multiplying by them
STRIDE, FINE, SHORT = 32, 8, 128  # iterations between two looks at how a trace bends: few in blocks up to SHORT
Moves = Callable[[Array, Array], Array]  # some columns and some steps to what the columns' duals moved by: (columns, classes, steps)


class Trace(Protocol):
    """What happened in a block of `length` iterations."""

    @property
    def length(self) -> int:
        """How many iterations."""
        ...

    @property
    def stride(self) -> int:
        """Iterations between two looks at how the trace bends: stretches that begin and end there have cheap bows."""
        ...

    def pulls(self, steps: Array) -> Array:
        """Minus alpha times the summed gradients up to each step: (rows, classes, steps)."""
        ...

    def moves(self, across: Array) -> Moves:
        """How duals move: a function of which rows of `across` (columns, rows of the data) are meant, and of steps."""
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

    @property
    def lift(self) -> float:
        """What the column of ones is multiplied by for its coefficient to move at the rate of all others."""
        return float(np.sqrt(self.intercept_rate / self.kappa))

    def raised(self, dual: Array, eta: Array) -> Array:
        """Duals with that of the intercept, if it moves, behind."""
        return np.append(dual, eta[None, :] / (self.kappa * self.lift), axis=0) if self.intercept_rate else dual.copy()


@dataclass(frozen=True)
class RowTrace:
    """Sums of gradients, stored per row of the data."""

    sums: Array
    strays: Array
    inverse_root: Array
    length: int
    stride: int = STRIDE
    steady: int = 0

    def pulls(self, steps: Array) -> Array:
        """As the protocol says."""
        return np.moveaxis(self.sums[steps], 0, -1)

    def moves(self, across: Array) -> Moves:
        """As the protocol says."""

        def moved(rows: Array, steps: Array) -> Array:
            pulls = self.pulls(steps)
            return np.asarray((across[rows] @ pulls.reshape(len(pulls), -1)).reshape(len(rows), *pulls.shape[1:]))

        return moved

    def bow(self, first: int, last: int) -> Array:
        """As the protocol says; looked at every so many steps, and bounded in between."""
        steps, between = _sampled(self.strays, self.stride, first, last)
        share = ((steps - first) / (last - first))[:, None, None]
        begin, end = self.sums[first], self.sums[last]
        away = (self.sums[steps] - begin - share * (end - begin)) * self.inverse_root
        return np.asarray((np.sqrt(np.einsum("mic,mic->mc", away, away).max(axis=0)) + between) * (1 + 1e-9))


@dataclass(frozen=True)
class CoefficientTrace:
    """Squared loss: sums of coefficients, from which those of the gradients follow."""

    held: Held
    y: Array
    weight: Array
    alpha: float
    length: int

    def total(self, steps: Array) -> Array:
        """Sums of the coefficients (and the intercept) over the first `steps` iterations: one row per entry of steps."""
        raise NotImplementedError

    def pulls(self, steps: Array) -> Array:
        """As the protocol says."""
        total = self.total(steps)
        size = self.held.size
        fitted = self.held.dot(total[:, :size].T)
        if total.shape[1] > size:
            fitted += total[:, -1]
        return np.asarray(self.alpha * self.weight[:, None, None] * (self.y[:, :, None] * steps - fitted[:, None, :]))

    def moves(self, across: Array) -> Moves:
        """As the protocol says; products with the columns held are formed once, so that a step costs as many numbers as are held."""
        weighted = self.alpha * self.weight * across
        products, target, level = self.held.score(weighted.T).T, weighted @ self.y[:, 0], weighted.sum(axis=1)

        def moved(rows: Array, steps: Array) -> Array:
            total = self.total(steps)
            found = target[rows][:, None] * steps - products[rows] @ total[:, : self.held.size].T
            if total.shape[1] > self.held.size:
                found -= level[rows][:, None] * total[:, -1]
            return np.asarray(found[:, None, :])

        return moved


@dataclass(frozen=True)
class GramTrace(CoefficientTrace):
    """Squared loss, iteration by iteration.

    Attributes
    ----------
    sums : array of shape (steps + 1, rows held, and the intercept)
        Of shares: coefficients / kappa, the intercept's also / lift.
    stepped : array
        alpha * kappa * products of the columns held, and of the column of ones times lift.
    unit : array
        What turns shares into coefficients.
    steady : int
        For how many iterations, at least, the support has been what it is at the end.
    """

    sums: Array
    strays: Array
    stepped: Array
    unit: Array
    stride: int
    steady: int

    def total(self, steps: Array) -> Array:
        """As above."""
        return np.asarray(self.sums[steps] * self.unit)

    def bow(self, first: int, last: int) -> Array:
        """As the protocol says; looked at every so many steps, and bounded in between."""
        places = self._places
        low, high = np.searchsorted(places, [first, last])
        if high == len(places) or places[low] != first or places[high] != last:
            places, (_, squares, rounding) = np.array([0]), self._bends(_sampled(self.strays, self.stride, first, last)[0])
        else:
            inner, _, rounding = self._whole_bends
            share = (places[low : high + 1] - first) / (last - first)
            part = inner[low : high + 1, low : high + 1]
            back = 1.0 - share
            squares = part.diagonal() + back**2 * part[0, 0] + share**2 * part[-1, -1] + 2.0 * share * back * part[0, -1]
            squares = squares - 2.0 * (back * part[:, 0] + share * part[:, -1])
        between = _sampled(self.strays, self.stride, first, last)[1]
        return np.asarray((np.sqrt(max(float(squares.max()), 0.0)) + rounding + between) * (1 + 1e-9))

    @cached_property
    def _places(self) -> Array:
        return _sampled(self.strays, self.stride, 0, self.length)[0]

    @cached_property
    def _whole_bends(self) -> tuple[Array, Array, float]:
        return self._bends(self._places)

    def _bends(self, steps: Array) -> tuple[Array, Array, float]:
        """Distances of the sums at some steps from their chord: products among each other, squares, and what rounding may hide."""
        share = ((steps - steps[0]) / (steps[-1] - steps[0]))[:, None]
        begin, end = self.sums[steps[0]], self.sums[steps[-1]]
        away = self.sums[steps] - begin - share * (end - begin)
        scale = self.alpha * float(self.unit[0])
        inner = scale * ((away @ self.stepped) @ away.T)
        largest = np.sqrt(scale * float(np.abs(self.stepped.diagonal()).max(initial=0.0)))
        hidden = np.sqrt(1e-15 * (len(self.stepped) + 2)) * float(np.abs(away).sum(axis=1).max())
        return inner, inner.diagonal(), float(largest * (1e-12 * np.abs(end).max(initial=0.0) + hidden))


def _stride(steps: int) -> int:
    return FINE if steps <= SHORT else STRIDE


def _sampled(strays: Array, stride: int, first: int, last: int) -> tuple[Array, Array]:
    """Steps between first and last that are looked at, and how far the sums may stray from the chord between two of them.

    Over L steps a sum strays from its chord by at most L / 2 times the distance of its terms from any one value.
    """
    inside = np.arange(first // stride + 1, (last - 1) // stride + 1) * stride
    steps = np.concatenate([[first], inside, [last]])
    return steps, 0.5 * min(stride, last - first) * strays[first // stride : (last - 1) // stride + 1].max(axis=0)


def _stray(terms: Array, scale: Array) -> Array:
    """How far (per class) terms are from the one in their middle."""
    away = (terms - terms[len(terms) // 2]) * scale
    return np.asarray(np.sqrt(np.einsum("mic,mic->mc", away, away).max(axis=0)))


def _strays(terms: Array, scale: Array, stride: int = STRIDE) -> Array:
    """The same for every `stride` terms."""
    return np.array([_stray(terms[low : low + stride], scale) for low in range(0, len(terms), stride)])


def _shares(gauge: Gauge, extra: int, level: Array) -> Callable[[Array, Array], Any]:
    """A function that writes shrink(dual) into its second argument; behind the gauge's rows may come the intercept, which is free.

    Single entries that are in are stored as their distance from the threshold, which `level` is changed to: beside a threshold of 1
    the last digits of a small distance would be lost, and be missed when their sums are taken.
    """
    if not gauge.separable:
        rows = len(gauge.weight)

        def general(level: Array, share: Array) -> None:
            share[:rows] = gauge.shrink(level[:rows])
            share[rows:] = level[rows:]

        return general
    # where soft thresholding is flat; the intercept has no flat part
    lower, upper = (np.append(edge, np.zeros((extra, 1)), axis=0) for edge in gauge.flat())
    shift = np.where(level > upper, upper, np.where(level < lower, lower, 0.0))
    level -= shift
    lower, upper = lower - shift, upper - shift
    room = np.empty_like(level)
    lower, upper = np.broadcast_to(lower, level.shape).copy(), np.broadcast_to(upper, level.shape).copy()

    def separate(level: Array, share: Array) -> None:
        np.maximum(level, lower, out=room)
        np.minimum(room, upper, out=room)
        np.subtract(level, room, out=share)

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

    The intercept is one more row, whose column is constant.
    """
    loss, y, weight = data
    single, extra = y.shape[1] == 1, 1 if pace.intercept_rate else 0
    if extra:
        columns = np.append(columns, np.full((len(y), 1), pace.lift), axis=1)
    level = pace.raised(dual, eta)
    theta = np.empty_like(level)
    shrink, slope = _shares(gauge, extra, level), _gradients(loss, y, weight)
    shrink(level, theta)
    sums = np.zeros((steps + 1, *y.shape))
    stepped, columns = np.ascontiguousarray(pace.alpha * columns.T), np.asfortranarray(pace.kappa * columns)
    flat_level, flat_theta, flat_sums = (level[:, 0], theta[:, 0], sums[:, :, 0]) if single else (level, theta, sums)
    few, thin = columns.size > FEW_CELLS, False
    active, part = np.arange(len(theta)), columns
    for step in range(steps):
        if few and step % FINE == 0:
            thin = bool(1.3 * np.count_nonzero(flat_theta if single else theta.any(axis=1)) < len(theta))
        if thin:
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
    stride = _stride(steps)
    strays = _strays(sums[1:], pace.alpha * inverse, stride) if pace.traced else np.zeros((0, 1))
    np.cumsum(sums, axis=0, out=sums)
    sums *= -pace.alpha
    return RowTrace(sums, strays, inverse, steps, stride)


def gram_steps(
    products: tuple[Array, Array], held: Held, dual: Array, eta: Array, steps: int, pace: Pace, gauge: Gauge,
    data: tuple[Any, Array, Array],
) -> GramTrace:  # fmt: skip
    """Iterate on some rows of theta with the products of their columns, which are scaled in place; squared loss only."""
    from scipy.linalg.blas import dsymv  # reads half of a symmetric matrix, and reading is what a step costs

    stepped, pushed = products
    extra = 1 if pace.intercept_rate else 0
    unit = np.full(len(pushed), pace.kappa)
    if extra:
        stepped[-1] *= pace.lift
        stepped[:, -1] *= pace.lift
        pushed[-1] *= pace.lift
        unit[-1] *= pace.lift
    stepped *= pace.alpha * pace.kappa
    pushed *= pace.alpha
    level = pace.raised(dual, eta)
    # the shares of some iterations, and the first of those that follow
    stride = _stride(steps)
    window = np.empty((stride + 1, *level.shape))
    shrink = _shares(gauge, extra, level)
    shrink(level, window[0])
    flat_level, flat, slots = level[:, 0], list(window[:, :, 0]), list(window)
    mirrored, move = stepped.T, np.empty_like(pushed)
    sums = np.empty((steps + 1, len(pushed)))
    sums[0] = 0.0
    few, active, part = len(pushed) > FEW, np.zeros(0, dtype=np.intp), stepped[:0]
    # as a norm of fitted values: at most the root of the largest curvature times that of coefficients
    scale, strays, steady = pace.alpha * np.sqrt(pace.curvature) * unit, [], 0
    for low in range(0, steps, stride):
        count = min(stride, steps - low)
        thin = few and 2 * np.count_nonzero(flat[0]) < len(pushed)
        for step in range(count):
            now = flat[step]
            np.add(sums[low + step], now, out=sums[low + step + 1])
            if thin:
                found = now.nonzero()[0]
                if len(found) != len(active) or (found != active).any():
                    active, part = found, stepped[found]
                np.subtract(pushed, now[active] @ part, out=move)
            else:
                move[:] = pushed
                dsymv(-1.0, mirrored, now, 1.0, move, lower=1, overwrite_y=1)
            # the move is summed before it is added: added in two large parts, it would leave the same rounding behind at every step
            np.add(flat_level, move, out=flat_level)
            shrink(level, slots[step + 1])
        if pace.traced:
            strays.append(_stray(window[:count], scale[:, None]))
        steady = steady + count if np.array_equal(flat[0] != 0, flat[count] != 0) else 0
        window[0] = window[count]
    _, y, weight = data
    return GramTrace(held, y, weight, pace.alpha, steps, sums, np.array(strays), stepped, unit, stride, steady)
