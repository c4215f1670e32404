"""Dual points: made feasible, scaled as well as can be, and rounded to integers.

A free intercept asks that every column of a dual point sums to zero. An integer point does so exactly, and
then every price is an exact sum of integers: the same on every machine, for every thread count and order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.loss import Multinomial, Stretched, Targets

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DualPoint:
    """An exactly balanced dual point: `quantum * units`, units integers of (rows, columns)."""

    units: Integers
    quantum: float

    def pull(self) -> Array:
        """The point as floats."""
        return np.asarray(self.units * self.quantum, dtype=np.float64)

    def folded(self, targets: Targets) -> DualPoint:
        """Per design row, as pricing sees it."""
        return DualPoint(targets.fold(self.units), self.quantum)


def balanced(targets: Targets, pull: Array) -> Array:
    """The nearest simple point whose columns sum to zero, still inside the domain of the conjugate."""
    if isinstance(targets.loss, Multinomial):
        return _balanced_shares(targets, pull)
    heavy, light = float(pull[pull > 0].sum()), float(-pull[pull < 0].sum())
    keep = np.where(pull > 0, min(1.0, light / heavy) if heavy else 1.0, min(1.0, heavy / light) if light else 1.0)
    return pull * keep


def _balanced_shares(targets: Targets, pull: Array) -> Array:
    """Inside each row, probability moves from classes with too much mass to those with too little."""
    weight = targets.weight[:, None]
    share = np.maximum(targets.y - pull / weight, 0.0)
    have, want = (weight * share).sum(axis=0), (weight * targets.y).sum(axis=0)
    keep = np.minimum(1.0, want / np.maximum(have, 1e-300))
    short = np.maximum(want - have, 0.0)
    moved = (share * (1.0 - keep)).sum(axis=1, keepdims=True)
    share = share * keep + moved * short / max(short.sum(), 1e-300)
    return np.asarray(weight * (targets.y - share))


def integer_point(targets: Targets, pull: Array, bits: int) -> DualPoint:
    """Round a balanced point toward zero to `bits` bits and balance it again by unit steps in row order."""
    top = float(np.abs(pull).max(initial=0.0))
    if top == 0.0 or not np.isfinite(top):
        return DualPoint(np.zeros(pull.shape, dtype=np.int64), 1.0)
    quantum = top / (2.0**bits - 1.0)
    units = np.trunc(pull / quantum).astype(np.int64)
    if isinstance(targets.loss, Multinomial):
        _balance_rows_and_columns(units, targets.y.argmax(axis=1))
    else:
        _balance_column(units[:, 0])
    return DualPoint(units, quantum)


def _balance_column(units: Integers) -> None:
    """Take single units off the heavier sign, first rows first, until the sum is exactly zero."""
    excess = int(units.sum())
    heavier = np.maximum(units, 0) if excess > 0 else np.minimum(units, 0)
    if abs(excess) > np.count_nonzero(heavier):  # a few heavy rows against many light ones: first each gives its share
        units -= (heavier * (excess / int(heavier.sum()))).astype(np.int64)
    while (excess := int(units.sum())) != 0:
        step = 1 if excess > 0 else -1
        rows = np.flatnonzero(units * step > 0)[: abs(excess)]
        units[rows] -= step


def _balance_rows_and_columns(units: Integers, label: NDArray[np.intp]) -> None:
    """Row sums zero by the label's entry; column sums zero by moving units between a row's entries.

    A row holds -(probability mass) off its label and the sum of it on its label. A column with a negative sum
    has mass to give up in rows of other labels, so units always find a row that may take them.
    """
    rows = np.arange(len(units))
    units[rows, label] = 0
    units[rows, label] = -units.sum(axis=1)
    columns = units.shape[1]
    for high in range(columns):
        for low in range(columns):
            excess = min(int(units[:, high].sum()), -int(units[:, low].sum()))
            if high == low or excess <= 0:
                continue
            excess = _move(units, high, low, excess, (label == high) & (units[:, low] < 0), -units[:, low])
            # any row may pass mass on between two classes that are not its own
            donors = (label != high) & (label != low) & (units[:, low] < 0)
            _move(units, high, low, excess, donors, -units[:, low])


def _move(units: Integers, high: int, low: int, excess: int, donors: NDArray[np.bool_], room: Integers) -> int:
    """Move up to `room` units per donor row from column high to column low, first rows first; what is left over."""
    where = np.flatnonzero(donors)
    give = np.minimum(np.maximum(excess - np.concatenate([[0], np.cumsum(room[where])[:-1]]), 0), room[where]) if len(where) else where
    units[where, high] -= give
    units[where, low] += give
    return excess - int(give.sum())


def best_scale(targets: Targets, pull: Array, norm: float) -> tuple[float, float]:
    """(dual value, scale t): max over t of dual(t z) - t^2 norm^2 / 2, concave in t. `norm`: any upper bound of the dual norm of z."""
    top = min(2.0, targets.reach(pull))

    def value(at: float) -> float:
        return targets.dual(at * pull) - 0.5 * at * at * norm * norm

    found = _newton_scale(targets, pull, norm, top) if isinstance(targets.loss, Stretched) else None
    scale, best = found or (_highest_parabola if targets.loss.parabolic else _highest)(value, top)
    return best, scale


def _newton_scale(targets: Targets, pull: Array, norm: float, top: float) -> tuple[float, float] | None:
    """(scale, value) by Newton's method from 1, near which the best scale of a nearly optimal point lies; None when that fails."""
    at = 1.0 if top > 1.0 else 0.98 * top
    for _ in range(8):
        value, slope, bend = targets.stretched(at * pull)
        value, slope, bend = value - 0.5 * (at * norm) ** 2, slope / at - at * norm * norm, bend / at**2 - norm * norm
        if not (np.isfinite(value + slope + bend) and bend < 0):
            return None
        if slope * slope <= -2e-12 * bend * abs(value):  # all a parabola could still gain
            return at, value
        at = min(max(at - slope / bend, 0.2 * at), 0.5 * (at + top))
    return None


def allowed_norm(targets: Targets, pull: Array, target: float) -> float:
    """The largest dual norm that would still certify `target`: max over t of sqrt(2 (dual(t z) - target)) / t; 0 if none.

    The best scale for one norm shows a scale that allows a larger one, until none does (Dinkelbach). Every step is an
    allowed norm itself, and NaN allows nothing.
    """
    room = 2.0 * (targets.dual(pull) - target) if targets.reach(pull) >= 1.0 else 0.0
    norm = float(np.sqrt(room)) if room > 0 else 0.0
    for _ in range(50):
        value, scale = best_scale(targets, pull, norm)
        room = 2.0 * (value - target) + (scale * norm) ** 2
        larger = float(np.sqrt(room)) / scale if room > 0 and scale > 0 else 0.0
        if not larger > norm * (1.0 + 1e-9):
            break
        norm = larger
    return norm


def _highest(value: Callable[[float], float], top: float) -> tuple[float, float]:
    """Maximise a quasi-concave function on (0, top]: (where, value).

    Close to the optimum of a problem the best scale of its dual point is near 1, so parabolas through three points
    around 1 come first, short of the end of the domain, where slopes may be infinite. Where they do not foresee their
    own vertex, Brent's method settles the matter between the neighbours of the best point met.
    """
    if not top > 0:
        return top, value(top)
    edge = min(top, 1.06) if top <= 1.0 else min(1.06, 0.5 * (1.0 + top))
    low = 0.94 * min(top, 1.0)
    points = [(at, value(at)) for at in (low, 1.0 if edge > 1.001 else 0.5 * (low + edge), edge)]
    best = 1
    for _ in range(5):
        first = min(max(best - 1, 0), len(points) - 3)
        left, middle, right = points[first : first + 3]
        vertex, foreseen = _vertex(left, middle, right)
        inside = left[0] < vertex < right[0]
        at = min(max(vertex, 0.5 * left[0]), 0.5 * (right[0] + top))
        found = value(at)
        points = sorted({**dict(points), at: found}.items())
        best = max(range(len(points)), key=lambda i: _by_value(points[i]))
        if inside and abs(found - foreseen) <= max(0.01 * (points[best][1] - max(left[1], right[1])), 1e-11 * abs(found)):
            return points[best]
    between = (points[best - 1][0] if best else 0.0, points[best + 1][0] if best + 1 < len(points) else top)
    return max(points[best], *((end, value(end)) for end in (1e-12 * top, top)), _brent(value, *between), key=_by_value)


def _highest_parabola(value: Callable[[float], float], top: float) -> tuple[float, float]:
    """The same for a parabola, which three points give away; what is returned is an evaluated point all the same."""
    if not top > 0:
        return top, value(top)
    points = [(at, value(at)) for at in (1e-12 * top, 0.5 * top, top)]
    at = min(max(_vertex(*points)[0], 1e-12 * top), top)
    return max(*points, (at, value(at)), key=_by_value)


def _vertex(low: tuple[float, float], middle: tuple[float, float], high: tuple[float, float]) -> tuple[float, float]:
    """Where the parabola through three points is highest, and how high; the right end where it is not concave."""
    rise, fall = (middle[1] - low[1]) / (middle[0] - low[0]), (middle[1] - high[1]) / (high[0] - middle[0])
    if not rise + fall > 0:
        return high
    at = middle[0] + 0.5 * (rise * (high[0] - middle[0]) - fall * (middle[0] - low[0])) / (rise + fall)
    return at, low[1] + (at - low[0]) * (rise - (rise + fall) * (at - middle[0]) / (high[0] - low[0]))


def _brent(value: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """The highest point between two ends that need not be looked at."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(lambda at: -value(float(at)), bounds=(low, high), method="bounded", options={"xatol": 1e-5 * high})
    return float(found.x), -float(found.fun)


def _by_value(pair: tuple[float, float]) -> float:
    return pair[1] if pair[1] == pair[1] else -np.inf


def constant_model(targets: Targets, columns: int) -> tuple[Array, float]:
    """(intercepts, objective) of the best model without any piece: what every gain is measured against."""
    if isinstance(targets.loss, Multinomial) and not np.any(targets.offset):
        mass = (targets.weight[:, None] * targets.y).sum(axis=0)
        level = np.log(np.maximum(mass / mass.sum(), 1e-300))
        level -= level.mean()
    elif columns == 1:
        level = np.array([_flat_level(targets)])
    else:
        level = _newton_levels(targets, columns)
    return level, targets.value(np.broadcast_to(level, (targets.design_rows, columns)))


def _flat_level(targets: Targets) -> float:
    """Where the summed gradient changes sign; brackets by doubling, then Brent."""
    from scipy.optimize import brentq

    rows = np.zeros((targets.design_rows, 1))

    def slope(level: float) -> float:
        return -float(targets.pull(rows + level).sum())

    low, high, width = -1.0, 1.0, 1.0
    while slope(low) > 0 and width < 1e300:
        width, low = 2 * width, low - width
    while slope(high) < 0 and width < 1e300:
        width, high = 2 * width, high + width
    if slope(low) * slope(high) >= 0:
        return low if abs(slope(low)) < abs(slope(high)) else high
    level: Any = brentq(slope, low, high, xtol=1e-13, rtol=1e-13, maxiter=200)
    candidates = (level, round(level, 9), low, high)
    return float(min(candidates, key=lambda at: targets.value(rows + at)))


def _newton_levels(targets: Targets, columns: int) -> Array:
    """Intercepts of several columns with offsets, by damped Newton."""
    level, rows = np.zeros(columns), targets.design_rows
    value = targets.value(np.broadcast_to(level, (rows, columns)))
    for _ in range(100):
        score = np.broadcast_to(level, (rows, columns))
        step = np.linalg.lstsq(targets.curvature(score).sum(axis=0) + 1e-12 * np.eye(columns), targets.pull(score).sum(axis=0), rcond=None)[
            0
        ]
        size = 1.0
        while (new := targets.value(np.broadcast_to(level + size * step, (rows, columns)))) > value and size > 1e-9:
            size *= 0.5
        if new > value - 1e-15 * abs(value):
            break
        level, value = level + size * step, new
    return np.asarray(level)
