"""The lattice of free conjunctions of literals, priced without ever being listed.

An atom is the sorted tuple of its literals' positions. It belongs to the lattice when it has at most
`max_length` literals, covers enough rows, and is free: no proper subset covers the same rows. All three pass
on to subsets, so the lattice is closed downward. Its price is d0 * product of its literals' costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Bits
from tamis.core.dual import DualPoint
from tamis.core.structure import Atom, Held, Priced
from tamis.kernels.dispatch import Literals, Net, RowValues, conjunction_sums
from tamis.kernels.reference import conjunction_words
from tamis.structures.tails import TailSearch, TailSpace, padded


@dataclass(frozen=True)
class Frontier:
    """The minimal atoms outside a held set, as tables a row per atom, and the order in which those of one parent stand together."""

    table: NDArray[np.int64]
    last: NDArray[np.int64]
    parents: NDArray[np.int64]
    starts: NDArray[np.int64]
    order: NDArray[np.intp]
    sign: NDArray[np.int64]  # the only sign a weight may have, 0 for any
    mute: NDArray[np.bool_]  # weights that must stay zero
    price: NDArray[np.float64]


class ConjunctionLattice:
    """Conjunctions of packed literals, with their order, their prices and the search over all of them.

    Parameters
    ----------
    literals : Bits
        Packed truth of each literal; every row must have positive weight.
    rho : float
        Exponent of the norm inside a tail, in (1, 2].
    growth : ndarray
        Per literal, the factor by which it makes a conjunction dearer.
    max_length : int or None
        Longest conjunction; None: any.
    names : sequence of str
        What the literals are called.
    row_units : ndarray of int or None, min_units : int
        Integer row weights and the smallest weighted support in the same units; 0 asks for one covered row.
    silent : sequence of int
        Literals whose own length-1 conjunction must keep weight zero (they still stand in longer ones).
    sign : ndarray of int8 or None
        Per literal 0, or the only sign of a conjunction that holds it; mixed signs exclude a conjunction.
    """

    def __init__(
        self, literals: Bits, *, rho: float, growth: NDArray[np.float64], max_length: int | None = None, names: Sequence[str] = (),
        row_units: NDArray[np.int64] | None = None, min_units: int = 0, silent: Sequence[int] = (),
        sign: NDArray[np.int8] | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        self.literals, self.rho, self.growth, self.names = literals, float(rho), np.asarray(growth, dtype=float), tuple(names)
        self.rows, self.size = literals.shape
        self.max_length = self.size if max_length is None else min(int(max_length), self.size)
        self.row_units, self.min_units, self.threads = row_units, int(min_units), threads
        self.silent = frozenset(int(k) for k in silent)
        self.sign = np.zeros(self.size, dtype=np.int8) if sign is None else np.asarray(sign, dtype=np.int8)
        self.exponent = self.rho / (self.rho - 1.0)
        self._packed = Literals(literals.words, self.rows)
        self._seen: set[Atom] = set()
        self._longer: dict[Atom, set[int]] = {}  # per held atom, the literals that extend it to a held atom
        self._sources: dict[Atom, int] = {}  # minimal atoms outside the held ones, with their support
        self._held: tuple[Atom, ...] = ()
        self._listed: list[Atom] | None = None  # the same, and below as tables
        self._tables: tuple[list[Atom], Frontier] | None = None

    # ---- what atoms are -------------------------------------------------------------------------------
    def name(self, atom: Atom) -> str:
        """The conjunction in words."""
        return " AND ".join(self.names[k] for k in atom) or "always"

    def describe(self) -> str:
        """The whole space, in words."""
        length = "any length" if self.max_length >= self.size else f"up to {self.max_length}"
        if self.max_length == 1:
            return f"single conditions out of {self.size}"
        return f"all conjunctions of {length} of {self.size} conditions"

    def columns(self, atoms: Sequence[Atom]) -> Bits:
        """Packed truth of conjunctions."""
        words = conjunction_words(self.literals.words, padded(atoms))
        tail = self.rows % 64
        if tail:
            words[:, -1] &= np.uint64((1 << tail) - 1)
        return Bits(words, self.rows)

    def cost(self, atom: Atom) -> float:
        """d: how dear an atom is."""
        return float(np.prod(self.growth[list(atom)]))

    def atom_sign(self, atom: Atom) -> int:
        """The only sign its weight may have, 0 for any."""
        return int(np.sign(self.sign[list(atom)].sum())) if atom else 0

    # ---- held sets ------------------------------------------------------------------------------------
    def root(self) -> Held:
        """Only the empty conjunction, whose weight the free intercept makes zero."""
        self._seen, self._sources, self._longer, self._held = set(), {}, {}, ()
        empty: Atom = ()
        zero = np.zeros(1, dtype=np.intp)
        held = Held((empty,), {empty: 0}, self.columns([empty]), zero, zero, np.ones(1), np.ones(1, dtype=bool), np.zeros(1, dtype=np.int8))
        self._note(held, [empty])
        return held

    def grow(self, held: Held, newcomers: Sequence[Atom]) -> Held:
        """Add atoms whose proper subsets are all held (or among the newcomers)."""
        if held.atoms != self._held:  # the sources must be those of the set that grows
            self.hold(held.atoms)
        fresh = sorted((atom for atom in newcomers if atom not in held.index), key=lambda atom: (len(atom), atom))
        index = dict(held.index)
        ancestor, owner = [], []
        for atom in fresh:
            mine = index[atom] = len(index)
            below = [index[part] for size in range(len(atom) + 1) for part in combinations(atom, size)]
            ancestor += below
            owner += [mine] * len(below)
        grown = Held(
            (*held.atoms, *fresh), index, held.columns.joined(self.columns(fresh).words),
            np.concatenate([held.ancestor, np.array(ancestor, dtype=np.intp)]),
            np.concatenate([held.owner, np.array(owner, dtype=np.intp)]),
            np.concatenate([held.cost, [self.cost(atom) for atom in fresh]]),
            np.concatenate([held.silent, [len(atom) == 1 and atom[0] in self.silent for atom in fresh]]),
            np.concatenate([held.sign, np.array([self.atom_sign(atom) for atom in fresh], dtype=np.int8)]),
        )  # fmt: skip
        self._note(grown, fresh)
        return grown

    def hold(self, atoms: Sequence[Atom]) -> Held:
        """A held set from scratch, in the given order (as a journal or a model file kept it)."""
        held = self.root()
        rest = [atom for atom in atoms if atom]
        if not rest:
            return held
        held = self.grow(held, rest)
        if held.atoms[1:] == tuple(rest):
            return held
        # grow sorts newcomers; a resumed fit needs the very order in which they once joined
        held = self._reordered(held, [(), *rest])
        self._held = held.atoms
        return held

    def _reordered(self, held: Held, atoms: list[Atom]) -> Held:
        move = np.array([held.index[atom] for atom in atoms])
        place = np.argsort(move)
        index = {atom: i for i, atom in enumerate(atoms)}
        order = np.lexsort((np.arange(len(held.owner)), place[held.owner]))
        return Held(
            tuple(atoms), index, Bits(held.columns.words[move], held.columns.rows), place[held.ancestor][order], place[held.owner][order],
            held.cost[move], held.silent[move], held.sign[move],
        )  # fmt: skip

    def restrict(self, held: Held, keep: Sequence[int]) -> tuple[Held, NDArray[np.intp]]:
        """The closure of some held atoms, all others' weights being zero; and where its atoms stood."""
        wanted = {part for i in keep for size in range(len(held.atoms[i]) + 1) for part in combinations(held.atoms[i], size)}
        atoms = [atom for atom in held.atoms if atom in wanted or not atom]
        move = np.array([held.index[atom] for atom in atoms], dtype=np.intp)
        place = np.full(len(held), -1, dtype=np.intp)
        place[move] = np.arange(len(move))
        inside = (place[held.owner] >= 0) & (place[held.ancestor] >= 0)
        kept = set(keep)
        silent = held.silent[move] | np.array([int(i) not in kept for i in move])
        small = Held(
            tuple(atoms), {atom: i for i, atom in enumerate(atoms)}, held.columns.part(move),
            place[held.ancestor[inside]], place[held.owner[inside]], held.cost[move], silent, held.sign[move],
        )  # fmt: skip
        return small, move

    # ---- minimal atoms outside ------------------------------------------------------------------------
    def sources(self, held: Held) -> list[Atom]:
        """The minimal conjunctions outside a held set: every conjunction not held contains one of them."""
        if held.atoms != self._held:
            self.hold(held.atoms)
        if self._listed is None:
            self._listed = list(self._sources)
        return self._listed

    def _note(self, held: Held, fresh: Sequence[Atom]) -> None:
        """Keep the list of sources up to date: atoms not held whose proper subsets all are."""
        self._listed = None
        if () in fresh:
            self._admit(held, [(k,) for k in range(self.size)])
        for atom in fresh:
            self._sources.pop(atom, None)
            for j, k in enumerate(atom):
                self._longer.setdefault(atom[:j] + atom[j + 1 :], set()).add(k)
        candidates: set[Atom] = set()
        for atom in fresh:
            if 0 < len(atom) < self.max_length:
                # k extends the atom to a candidate when it extends every parent to a held atom
                common = set.intersection(*(self._longer[atom[:j] + atom[j + 1 :]] for j in range(len(atom))))
                candidates.update(tuple(sorted((*atom, k))) for k in common.difference(atom))
        new = [t for t in candidates if t not in self._seen and t not in held.index]
        self._admit(held, sorted(new, key=lambda atom: (len(atom), atom)))
        self._held = held.atoms

    def _admit(self, held: Held, atoms: Sequence[Atom]) -> None:
        """Of candidates whose parents are all held, keep those the lattice has: enough support, free, one sign."""
        self._seen.update(atoms)
        if self.sign.any():
            atoms = [atom for atom in atoms if abs(self.sign[list(atom)].sum()) == np.abs(self.sign[list(atom)]).sum()]
        counts, step = held.columns.counts, max(1, 2**23 // self.literals.words.shape[1])
        for first in range(0, len(atoms), step):
            part = atoms[first : first + step]
            columns = self.columns(part)
            least = columns.counts > 0
            if self.min_units and self.row_units is not None:
                least = np.asarray(columns.score(self.row_units)) >= self.min_units
            for atom, support, large in zip(part, columns.counts.tolist(), least.tolist(), strict=True):
                if large and all(counts[held.index[atom[:j] + atom[j + 1 :]]] > support for j in range(len(atom))):
                    self._sources[atom] = support

    # ---- pricing --------------------------------------------------------------------------------------
    def price(
        self, point: DualPoint, held: Held, floor: float, count: int = 100, stop: Callable[[], bool] | None = None, *,
        thorough: bool = True, enough: int | None = None,
    ) -> Priced:  # fmt: skip
        """Sources whose tails weigh more than the floor, and a bound over every conjunction outside the held set.

        The search ends as soon as `enough` of them are known (default: `count`).
        """
        sources = self.sources(held)
        if not sources:
            return Priced((), np.zeros(0), 0.0, 0)
        search = self._search(point, sources, floor)
        upper = search.run(count if enough is None else enough, stop, thorough=thorough)
        low = floor * search.known ** (1.0 / self.exponent)
        high = floor * upper ** (1.0 / self.exponent)
        # a search cut short leaves sources undecided: those known to violate come alone then
        violates = low > floor if np.any(low > floor) or not thorough else ~(high <= floor)
        order = sorted(np.flatnonzero(violates), key=lambda i: (-low[i], len(sources[i]), sources[i]))[:count]
        bound = float(high.max(initial=0.0)) if not np.isnan(high).any() else float("inf")
        return Priced(tuple(sources[i] for i in order), low[order], bound, search.looked + len(sources))

    def _frontier(self, sources: list[Atom]) -> Frontier:
        """The sources as tables; made once per held set, which is priced at the end of one knob value and again at the next."""
        if self._tables is None or self._tables[0] is not sources:
            table = padded(sources)
            there = table >= 0
            size = there.sum(axis=1)
            last = table[np.arange(len(table)), size - 1]
            sign = np.sign(np.where(there, self.sign[table], 0).sum(axis=1))
            mute = (size == 1) & np.isin(table[:, 0], list(self.silent))
            price = np.where(there, self.growth[table], 1.0).prod(axis=1)
            self._tables = sources, Frontier(table, last, *_by_parent(table, last), sign, mute, price)
        return self._tables[1]

    def _search(self, point: DualPoint, sources: list[Atom], floor: float) -> TailSearch:
        """Row sums of every source, and the search over their tails set up."""
        space, frontier = self._space(point), self._frontier(sources)
        order = frontier.order
        support, sums = conjunction_sums(
            self._packed, frontier.parents, frontier.starts, frontier.last[order], space.values, self.threads
        )  # fmt: skip
        support[order], sums[order] = support.copy(), sums.copy()
        net, largest = space.measures(sums, frontier.sign)
        scale = floor / point.quantum * frontier.price
        with np.errstate(over="ignore"):
            search = TailSearch(space, frontier.table, scale, (np.where(frontier.mute, 0.0, net) / scale) ** self.exponent)
        search.begin(support, largest)
        return search

    def _space(self, point: DualPoint) -> TailSpace:
        """The lattice below any node, with the dual point as row values."""
        weights = [self.row_units[None]] if self.min_units else []  # type: ignore[index]
        parts = np.concatenate([np.maximum(point.units, 0).T, np.maximum(-point.units, 0).T, *weights])
        offset = max(0, -int(point.units.min(initial=0)))
        shifted = np.concatenate([point.units.T + offset, *weights])
        columns, shrink = point.units.shape[1], 1.0 / (1.0 + self.growth)
        net = Net(RowValues(shifted), offset, columns, self.min_units, shrink, self.sign.astype(np.int64), self.exponent)
        return TailSpace(
            self._packed, self.exponent, shrink, self.max_length, self.sign, RowValues(parts), net, columns, self.min_units, self.threads
        )


def _by_parent(table: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """(parents, where each one's children start, order of children) of conjunctions less their last literals."""
    parents = np.where(np.cumsum(table[:, ::-1] >= 0, axis=1)[:, ::-1] > 1, table, -1)
    order = np.lexsort((last, *parents.T[::-1]))
    ranked = parents[order]
    new = np.concatenate([[True], np.any(ranked[1:] != ranked[:-1], axis=1)])
    first = np.flatnonzero(new)
    return np.ascontiguousarray(ranked[first]), np.append(first, len(order)), order
