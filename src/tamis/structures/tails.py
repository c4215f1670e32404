"""Bounds over whole tails of the conjunction lattice: how heavy can everything below a node be?

For a source t (a minimal conjunction outside the held set) the certificate needs

    N(t) = ( sum over w below t of ( |G_w| / (d_t * prod of (1 + c_k) over w minus t) )^rho' )^(1/rho')

Each N(t) lies in an interval: what has been looked at, plus a bound on the rest. Below a node u no |G_w| exceeds
S(u), the larger of its positive and negative row sums, and how many extensions there are is a closed sum. All
intervals are refined together, the heaviest unknown first, until each is decided against the threshold; each
refinement is one batched kernel call. Everything is in units of threshold * d_t, raised to rho'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tamis.kernels.dispatch import Leaves, Literals, Net, RowValues, conjunction_sums, leaf_powers
from tamis.kernels.reference import NEGLIGIBLE

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BATCH_PAIRS = 200_000  # pairs whose sums are held at once
BATCH_LEAVES = 4_000_000  # pairs of which only power sums are kept
FAIR_EFFORT = 300_000  # conjunctions looked at before a search that has found violators is cut short
EXACT_DEPTH = 8  # deeper counts use the uncapped product, an upper bound of them


@dataclass(frozen=True)
class TailSpace:
    """What the lattice looks like below any node."""

    literals: Literals
    exponent: float
    shrink: Floats  # per literal: 1 / (1 + c_k)
    max_length: int
    sign: NDArray[np.int8]  # per literal: 0, or the only sign a weight below it may have
    values: RowValues  # positive parts per column, negative parts per column, then row weights if any
    net: Net
    columns: int
    min_weight: int  # smallest weighted support (units of the last group), 0: any covered row
    threads: int = 1

    @cached_property
    def signed(self) -> bool:
        """Whether any literal restricts signs."""
        return bool(self.sign.any())

    def later_count(self, shrink: Floats, depth: Integers) -> Floats:
        """(rows, extensions): how much all non-empty sets of the extensions behind each position weigh, `depth` (rows,) deep."""
        weight = shrink**self.exponent
        behind = np.zeros_like(weight)
        deepest = int(depth.max(initial=0))
        for level in range(1, min(deepest, EXACT_DEPTH) + 1):
            behind = np.where((depth >= level)[:, None], _sum_behind(weight * (1.0 + behind)), behind)
        if deepest > EXACT_DEPTH:
            behind = np.where((depth > EXACT_DEPTH)[:, None], np.expm1(_sum_behind(np.log1p(weight))), behind)
        return behind * (1.0 + 1e-12)

    def all_count(self, depth: int) -> float:
        """How much all non-empty sets of at most `depth` literals weigh, whichever they are."""
        with_all = np.concatenate([[0.0], self.shrink])[None]  # the first position has every literal behind it
        return float(self.later_count(with_all, np.array([depth]))[0, 0]) if depth > 0 else 0.0

    def measures(self, sums: Integers, sign: Integers) -> tuple[Floats, Floats]:
        """(|G|, S) from the group sums of nodes that may only have weights of the given sign (0: any)."""
        positive = sums[..., : self.columns].astype(np.float64)
        negative = sums[..., self.columns : 2 * self.columns].astype(np.float64)
        net, largest = positive - negative, np.maximum(positive, negative)
        if np.any(sign):
            up, down = (sign > 0)[..., None], (sign < 0)[..., None]
            net = np.where(up, np.maximum(net, 0.0), np.where(down, np.minimum(net, 0.0), net))
            largest = np.where(up, positive, np.where(down, negative, largest))
        return np.sqrt((net**2).sum(axis=-1)), np.sqrt((largest**2).sum(axis=-1))


@dataclass
class _Open:
    """Nodes whose extensions have not been looked at, as parallel arrays."""

    source: Integers
    bound: Floats
    expansion: Integers
    position: Integers
    support: Integers
    factor: Floats
    left: Integers

    def take(self, keep: NDArray[np.bool_] | Integers) -> _Open:
        return _Open(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))

    def joined(self, other: _Open) -> _Open:
        return _Open(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__dataclass_fields__))


@dataclass
class TailSearch:
    """Refines the intervals [known, known + rest] of many sources against 1 until all are decided."""

    space: TailSpace
    sources: Integers  # conjunctions, a row each, padded with -1
    scale: Floats  # threshold * d_t per source, in units of the integer point
    known: Floats
    looked: int = 0

    def begin(self, support: Integers, largest: Floats) -> None:
        """One open node per source: the source itself, with every other literal as extension."""
        count = len(self.sources)
        left = self.space.max_length - (self.sources >= 0).sum(axis=1)
        weigh = {int(depth): self.space.all_count(int(depth)) for depth in np.unique(left)}
        with np.errstate(over="ignore"):
            bound = (largest / self.scale) ** self.space.exponent * np.array([weigh[int(depth)] for depth in left])
        # an expansion is a conjunction (a row of `paths`) with its extensions in order (a stretch of `order`)
        self.paths, self.order = self.sources, np.arange(len(self.space.shrink))
        self.first, self.end = np.zeros(count, dtype=np.int64), np.full(count, len(self.order))
        place = np.arange(count)
        self.open = _Open(place, bound, place, np.full(count, -1), support, np.ones(count), left)
        self.open = self.open.take((bound > 0) | np.isnan(bound))
        self.skipped = np.zeros(count)  # at most what leaves too light to be added weigh together
        self.upper = self.known + self.rest()

    def rest(self) -> Floats:
        """Bound on what has not been looked at, per source; summed afresh, so nothing drifts."""
        return self.skipped + np.bincount(self.open.source, self.open.bound, len(self.sources))

    def run(self, enough: int, stop: Callable[[], bool] | None = None, *, thorough: bool = True) -> Floats:
        """Refine until decided; returns the upper ends, which are valid whenever it ends.

        It ends early when `enough` sources are known to violate, when stopped, or when a fair effort has been
        made and some violate (or, not being thorough, in any case).
        """
        per_source = 4
        while True:
            undecided = (self.known <= 1.0) & ~(self.upper <= 1.0)
            found = int((self.known > 1.0).sum())
            if found >= enough or (self.looked > FAIR_EFFORT and (found or not thorough)):
                return self.upper
            self.open = self.open.take(undecided[self.open.source])
            if len(self.open.source) == 0 or (stop is not None and stop()):
                return self.upper
            chosen = self._heaviest(per_source)
            nodes = self.open.take(chosen)
            self.open = self.open.take(~chosen)
            self._look(nodes)
            self.upper[undecided] = (self.known + self.rest())[undecided]
            per_source = min(2 * per_source, 512)

    def _heaviest(self, per_source: int) -> NDArray[np.bool_]:
        """Open nodes that must be looked at: per source the heaviest, until what remains would fit under 1."""
        source, bound = self.open.source, self.open.bound
        order = np.lexsort((-bound, source))
        first = _starts(np.bincount(source, minlength=len(self.sources)))[source[order]]
        heaviest_first = bound[order]
        before = np.concatenate([[0.0], np.cumsum(heaviest_first)])[:-1]
        remaining = self.rest()[source[order]] - (before - before[first])
        needed = ~(remaining <= 1.0 - self.known[source[order]]) & (np.arange(len(order)) - first < per_source)
        needed[np.unique(first)] = True  # whatever rounding says, each undecided source goes on
        picked = order[needed]
        cost = np.where(self.open.left[picked] > 1, BATCH_LEAVES // BATCH_PAIRS, 1)
        heavy = np.argsort(-bound[picked], kind="stable")
        fits = np.cumsum(cost[heavy]) * len(self.space.shrink) <= BATCH_LEAVES
        fits[:1] = True
        chosen = np.zeros(len(source), dtype=bool)
        chosen[picked[heavy[fits]]] = True
        return chosen

    def _look(self, nodes: _Open) -> None:
        """Look at every extension of the nodes; those with nothing below them only add to what is known."""
        last = nodes.left <= 1
        if np.any(last):
            self._sum_leaves(nodes.take(last))
        if not np.all(last):
            self._expand(nodes.take(~last))

    def _sum_leaves(self, nodes: _Open) -> None:
        """Extensions at the length limit: their powers are all that matters."""
        paths, starts, flat = self._paths(nodes)
        leaves = Leaves(paths, starts, flat, nodes.support, nodes.factor / self.scale[nodes.source], self._signs(paths))
        powers, looked = leaf_powers(self.space.literals, leaves, self.space.net, self.space.threads)
        np.add.at(self.known, nodes.source, powers)
        np.add.at(self.skipped, nodes.source, NEGLIGIBLE * looked)
        self.looked += int(looked.sum())

    def _expand(self, nodes: _Open) -> None:
        """Look at every extension of the nodes: what is known grows, and each extension becomes an open node."""
        space = self.space
        paths, starts, flat = self._paths(nodes)
        support, sums = conjunction_sums(space.literals, paths, starts, flat, space.values, space.threads)

        owner = np.repeat(np.arange(len(paths)), np.diff(starts))
        sign = self._signs(paths)[owner]
        sign = np.where(sign == 0, space.sign[flat], sign)
        net, largest = space.measures(sums, sign)
        # a literal that drops no row is implied: nothing below it is free; nor may support be too small
        useful = (support > 0) & (support < nodes.support[owner])
        if space.min_weight:
            useful &= sums[:, -1] >= space.min_weight
        self.looked += int(useful.sum())
        factor = nodes.factor[owner] * space.shrink[flat]
        with np.errstate(over="ignore"):
            weigh = (factor * net / self.scale[nodes.source[owner]]) ** space.exponent
        np.add.at(self.known, nodes.source[owner[useful]], weigh[useful])
        self._open_children(nodes, paths, flat, owner, useful, support, factor, largest)

    def _paths(self, nodes: _Open) -> tuple[Integers, Integers, Integers]:
        """(conjunctions padded with -1, where each one's extensions start, extensions) of the nodes.

        A source is extended by every literal; its own drop no row, so they count for nothing.
        """
        at = self.first[nodes.expansion] + nodes.position
        newest = np.where(nodes.position >= 0, self.order[np.maximum(at, 0)], -1)
        paths = np.column_stack([self.paths[nodes.expansion], newest])
        starts = _starts(self.end[nodes.expansion] - at - 1)
        flat = self.order[np.arange(starts[-1]) + np.repeat(at + 1 - starts[:-1], np.diff(starts))]
        if self.space.signed:
            owner = np.repeat(np.arange(len(paths)), np.diff(starts))
            agrees = self.space.sign[flat] * self._signs(paths)[owner] >= 0
            starts, flat = _starts(np.bincount(owner[agrees], minlength=len(paths))), flat[agrees]
        return paths, starts, flat

    def _signs(self, paths: Integers) -> Integers:
        """The only sign weights may have at each conjunction, 0 for any."""
        if not self.space.signed:
            return np.zeros(len(paths), dtype=np.int64)
        return np.asarray(np.sign(np.where(paths >= 0, self.space.sign[paths], 0).sum(axis=1)), dtype=np.int64)

    def _open_children(
        self, nodes: _Open, paths: Integers, flat: Integers, owner: Integers, useful: NDArray[np.bool_], support: Integers,
        factor: Floats, largest: Floats,
    ) -> None:  # fmt: skip
        """Order each node's useful extensions by S, lightest first; each gets the heavier ones behind it as extensions."""
        deeper = useful & (nodes.left[owner] > 1)
        if not np.any(deeper):
            return
        kept = np.flatnonzero(deeper)
        kept, mine, heavier = _within(owner[kept], len(paths), kept, largest[kept])
        shrink = np.where(heavier >= 0, self.space.shrink[flat[heavier]], 0.0)
        behind = self.space.later_count(shrink, np.maximum(nodes.left - 1, 0))[heavier >= 0]
        with np.errstate(over="ignore"):
            bound = (factor[kept] * largest[kept] / self.scale[nodes.source[mine]]) ** self.space.exponent * behind
        base, edges = len(self.paths), _starts(np.bincount(mine, minlength=len(paths)))
        position = np.arange(len(kept)) - edges[mine]
        edges += len(self.order)
        self.paths, self.order = _stacked(self.paths, paths), np.concatenate([self.order, flat[kept]])
        self.first, self.end = np.concatenate([self.first, edges[:-1]]), np.concatenate([self.end, edges[1:]])
        keep = (bound > 0) | np.isnan(bound)
        children = _Open(
            nodes.source[mine], bound, base + mine, position, support[kept], factor[kept], nodes.left[mine] - 1,
        )  # fmt: skip
        self.open = self.open.joined(children.take(keep))


def _sum_behind(terms: Floats) -> Floats:
    """For each position, the sum of all later ones; nothing is subtracted, so small terms behind large ones stay."""
    sums = np.zeros_like(terms)
    sums[:, :-1] = np.cumsum(terms[:, :0:-1], axis=1)[:, ::-1]
    return sums


def _starts(sizes: Integers) -> Integers:
    """Where stretches of these sizes start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _within(owner: Integers, owners: int, items: Integers, key: Floats) -> tuple[Integers, Integers, Integers]:
    """Items by rising key within their owners: (items, their owners, both as a table with a row per owner).

    `owner` is sorted. Rows are filled up with -1 from the left, so that "behind" is the same for every row.
    """
    starts = _starts(np.bincount(owner, minlength=owners))
    place = np.arange(len(owner)) - starts[owner]
    shape = (owners, int(np.diff(starts).max()))
    keys, table = np.full(shape, -np.inf), np.full(shape, -1, dtype=np.int64)
    keys[owner, place], table[owner, place] = key, items
    table = np.take_along_axis(table, np.argsort(keys, axis=1, kind="stable"), axis=1)
    return table[table >= 0], owner, table


def _stacked(above: Integers, below: Integers) -> Integers:
    """One table of paths from two, the narrower filled up with -1."""
    table = np.full((len(above) + len(below), max(above.shape[1], below.shape[1])), -1, dtype=np.int64)
    table[: len(above), : above.shape[1]] = above
    table[len(above) :, : below.shape[1]] = below
    return table


def padded(paths: Sequence[tuple[int, ...]]) -> Integers:
    """Paths as rows of equal length, filled up with -1."""
    lengths = np.array([len(path) for path in paths])
    table = np.full((len(paths), int(lengths.max(initial=0))), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = [k for path in paths for k in path]
    return table
