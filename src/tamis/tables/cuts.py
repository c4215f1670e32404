"""How columns become conditions: the options, and where the cuts of a column of numbers lie.

A cut lies between two neighbouring distinct training values. Which pairs are chosen depends on ranks and weights
only (a row of weight 2 counts as the row twice); the number written for a cut is the one with the fewest digits
that splits the training rows in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.tables.columns import Array, Floats

KINDS = ("quantile", "uniform", "supervised", "all", "none", "paper", "list")
#: Supervised cuts are chosen among this many quantile places, at most.
SHALLOW = 256


def is_count(value: Any) -> bool:
    """A whole number of at least 1; True is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1


@dataclass(frozen=True)
class Cuts:
    """Where a column of numbers or dates is cut.

    Parameters
    ----------
    count : int
        How many cuts a column gets, at most.
    kind : str
        "quantile" (equal weight between cuts), "uniform" (equal width), "supervised" (each cut splits y best),
        "all" (between every two values), "none" (the column already is a proposition), "paper" (see `paper`).
    readable : bool
        Write each cut with as few digits as possible.
    at : sequence of numbers or ISO dates, optional
        These cut points and no others.
    every : int
        A column with at most this many distinct values is cut between every two.

    Examples
    --------
    >>> from tamis.tables.cuts import Cuts
    >>> Cuts(4, "uniform")
    Cuts(count=4, kind='uniform', readable=True, at=None, every=10)
    >>> Cuts(at=[18, 65]).at
    (18, 65)
    """

    count: int = 8
    kind: str = "quantile"
    readable: bool = True
    at: Sequence[Any] | None = None
    every: int = 10

    def __post_init__(self) -> None:
        if self.at is not None:
            object.__setattr__(self, "at", tuple(self.at))
            object.__setattr__(self, "kind", "list")
        if self.kind not in KINDS:
            raise TamisError(
                f"cuts={self.kind!r} is not a way to cut columns; use one of {', '.join(KINDS[:-1])}, or a list of cut points."
            )
        if self.kind == "list" and self.at is None:
            raise TamisError("Cuts of kind 'list' have no cut points, so nothing would be cut; give them as Cuts(at=[...]).")
        if not is_count(self.count):
            raise TamisError(
                f"The number of cuts is {self.count!r}, so no column could be cut; give a whole number of at least 1 (n_cuts=8)."
            )

    @classmethod
    def paper(cls) -> Cuts:
        """The paper's propositions: 4 equal-width cuts a, each as `x <= a` and `x >= a`."""
        return cls(count=4, kind="paper", readable=False)


@dataclass(frozen=True)
class Levels:
    """Which levels of a text column get conditions of their own.

    Parameters
    ----------
    top : int
        The heaviest levels; the others are pooled as "other", where levels never seen in training belong too.
    negate : bool
        Also give `!=` for each level.

    Examples
    --------
    >>> from tamis.tables.cuts import Levels
    >>> Levels(top=20, negate=False)
    Levels(top=20, negate=False)
    """

    top: int = 50
    negate: bool = True

    def __post_init__(self) -> None:
        if not is_count(self.top):
            raise TamisError(f"Levels(top={self.top!r}) leaves no level a condition of its own; give a whole number of at least 1.")


@dataclass(frozen=True)
class Missing:
    """Whether `x is missing` is a condition.

    Examples
    --------
    >>> from tamis.tables.cuts import Missing
    >>> Missing(indicator=False)
    Missing(indicator=False)
    """

    indicator: bool = True


@dataclass(frozen=True)
class Spread:
    """The distinct values of a column, ascending, and the weight of the rows at or below each."""

    values: Floats
    below: Floats

    @property
    def gaps(self) -> int:
        """How many places a cut can go."""
        return max(len(self.values) - 1, 0)


def spread_of(column: Floats, weights: Floats | None = None) -> Spread:
    """Sort one column (NaN left out) and add up its weights."""
    if weights is None:
        ordered = np.sort(column)
        ordered = ordered[: len(ordered) - int(np.isnan(column).sum())]
        below = np.arange(1.0, len(ordered) + 1.0)
    else:
        order = np.argsort(column)  # ties may come in any order: sums of their weights are exact
        order = order[: len(order) - int(np.isnan(column).sum())]
        ordered, below = column[order], np.cumsum(weights[order])
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.zeros(0, np.int64)
    return Spread(ordered[last] + 0.0, below[last])  # + 0.0: minus zero is zero


def places(cuts: Cuts, spread: Spread, column: Floats, target: Target | None = None) -> Array:
    """Positions k, ascending: one cut between the distinct values k and k + 1."""
    if cuts.kind == "all" or len(spread.values) <= max(cuts.every, 1):
        return np.arange(spread.gaps)
    if cuts.kind == "supervised":
        if target is None:
            raise TamisError("Supervised cuts need y, which was not given, so no cut can be chosen; pass y, or use cuts='quantile'.")
        return supervised_places(cuts.count, spread, column, target)
    return quantile_places(cuts.count, spread)


def quantile_places(count: int, spread: Spread) -> Array:
    """The gaps whose weight below is nearest to j / (count + 1) of the whole; the lower one on ties."""
    below = spread.below[:-1]
    wanted = spread.below[-1] * np.arange(1, count + 1) / (count + 1)
    right = np.clip(np.searchsorted(below, wanted), 0, len(below) - 1)
    left = np.maximum(right - 1, 0)
    return np.unique(np.where(wanted - below[left] <= below[right] - wanted, left, right))


def uniform_points(count: int, spread: Spread) -> Floats:
    """Equal-width cut points between the smallest and the largest finite value."""
    finite = spread.values[np.isfinite(spread.values)]
    if len(finite) < 2:
        return np.zeros(0)
    share = np.arange(1, count + 1) / (count + 1)
    return np.asarray(finite[0] * (1 - share) + finite[-1] * share)


@dataclass(frozen=True)
class Target:
    """What supervised cuts should tell apart.

    `labels` are class numbers below `classes` (entropy is split), or None: then the variance of y is, and
    `amounts` holds weight * y. All sums are exact (see `weights.summable`), so row order cannot break ties.
    """

    weights: Floats
    labels: Array | None = None
    classes: int = 0
    amounts: Floats | None = None

    def per_place(self, column: Floats, edges: Floats) -> Floats:
        """Sums between the edges, (edges + 1, classes) or (edges + 1, 2)."""
        present = ~np.isnan(column)
        part = np.searchsorted(edges, column[present], side="left")
        weights, parts = self.weights[present], len(edges) + 1
        if self.labels is not None:
            both = part * self.classes + self.labels[present]
            sums: Floats = np.bincount(both, weights, parts * self.classes).astype(np.float64)
            return sums.reshape(parts, self.classes)
        assert self.amounts is not None  # a target has labels or amounts
        return np.stack([np.bincount(part, weights, parts), np.bincount(part, self.amounts[present], parts)], axis=1)


def supervised_places(count: int, spread: Spread, column: Floats, target: Target) -> Array:
    """Best-first: cut again where it reduces the impurity of y most, until `count` cuts or nothing is gained."""
    candidates = quantile_places(SHALLOW, spread)
    between = target.per_place(column, spread.values[candidates])
    sums = np.concatenate([np.zeros((1, between.shape[1])), np.cumsum(between, axis=0)])
    classes = target.labels is not None
    enough = 1e-9 * float(np.abs(_impurity(np.concatenate([between, sums[-1:]]), classes)).sum())
    open_parts = [(0, len(candidates) + 1)]
    chosen: list[int] = []
    while open_parts and len(chosen) < count:
        best = [(*_best_split(sums, start, stop, classes), start, stop) for start, stop in open_parts]
        gain, at, start, stop = max(best, key=lambda part: (part[0], -part[1]))
        if not gain > enough:
            break
        chosen.append(at - 1)
        open_parts.remove((start, stop))
        open_parts += [part for part in ((start, at), (at, stop)) if part[1] - part[0] > 1]
    return np.sort(candidates[np.array(chosen, dtype=np.int64)])


def _best_split(sums: Floats, start: int, stop: int, classes: bool) -> tuple[float, int]:
    """The largest reduction of impurity by one cut inside [start, stop), and where; the lowest on ties."""
    inside = np.arange(start + 1, stop)
    parts = _impurity(sums[inside] - sums[start], classes) + _impurity(sums[stop] - sums[inside], classes)
    gains = _impurity(sums[stop : stop + 1] - sums[start], classes)[0] - parts
    best = int(np.argmax(gains))
    return float(gains[best]), int(inside[best])


def _impurity(sums: Floats, classes: bool) -> Floats:
    """Weighted entropy of class weights, or the part of the weighted sum of squares that depends on the split."""
    if not classes:
        weight, total = sums[:, 0], sums[:, 1]
        return -np.divide(total**2, weight, out=np.zeros(len(sums)), where=weight > 0)
    weight = sums.sum(axis=1, keepdims=True)
    share = np.divide(sums, weight, out=np.ones_like(sums), where=(weight > 0) & (sums > 0))
    return -np.asarray((sums * np.log(share)).sum(axis=1))


def readable_cut(low: float, high: float) -> float | None:
    """The number a with the fewest digits such that low <= a < high, from the middle half of the gap if possible.

    On ties the one nearest the midpoint. None when no finite number lies there.
    """
    if math.isinf(low) and math.isinf(high):
        return 0.0
    if math.isinf(low):
        low = -min(max(2 * abs(high), 1.0), 1.7e308) if high < 0 else -1.0
        if low >= high:
            return None
    reach = high if math.isfinite(high) else min(low + max(abs(low), 1.0), 1.7e308)
    middle, quarter = low / 2 + reach / 2, reach / 4 - low / 4
    first, last = middle - quarter, middle + quarter
    if first <= 0 <= last and low <= 0 < high:
        return 0.0
    # Rounding the midpoint to d digits gives the nearest number of d digits: the first that stays inside wins.
    for digits in range(17):
        cut = float(f"{middle:.{digits}e}")
        if first <= cut <= last and low <= cut < high:
            return cut
    return low
