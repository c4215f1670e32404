"""The lattice of the recheck: which conjunctions exist, the dual norm's share inside the hull, and all tails outside.

Everything is plain enumeration over rows. Rows are kept packed along the literals (a byte holds eight literals
of one row), so picking the rows of a conjunction and looking at all its extensions reads only those rows.

A conjunction exists when it is short enough, covers enough rows, is free (dropping any of its literals adds rows)
and does not mix signs. To know whether `node + k` is free it is enough to keep, for each literal j of the node,
the rows where only j fails: `node + k` is free iff k fails somewhere on the node and holds somewhere on each of these.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Atom = tuple[int, ...]
BLOCK = 2**20  # cells of a block of rows x literals
DEEP = 8  # deeper counts of extensions take the product over all of them, which is larger


@dataclass(frozen=True)
class Node:
    """A conjunction with its rows, and for each of its literals the rows where only that one fails."""

    atom: Atom
    rows: Array
    defects: tuple[Array, ...]

    @property
    def free(self) -> bool:
        """Every literal excludes some row that the others would cover."""
        return len(self.rows) > 0 and all(len(rows) > 0 for rows in self.defects)


@dataclass(frozen=True)
class Looked:
    """What was found about a node's extensions: do they exist, their pull |G|, and S, which no descendant exceeds."""

    exists: Array
    pull: Array
    largest: Array


@dataclass
class Tails:
    """The verdict on everything outside the hull."""

    highest: float = 0.0
    looked: int = 0
    worst: Atom | None = None


@dataclass(frozen=True)
class Lattice:
    """Rows, an integer dual point on them, and the definition of the lattice.

    Attributes
    ----------
    bits : ndarray of uint8 (rows, bytes)
        Literals of each row, eight to a byte, first literal in the highest bit.
    weight : ndarray (rows,)
        Row weights, all positive.
    units : ndarray of int64 (rows, columns)
        The dual point; sums of it are exact.
    prices : ndarray (literals,)
        Factor by which each literal makes a conjunction dearer.
    rho : float
    max_length : int
    min_support : float
        Row weight a conjunction must cover; 0: any covered row will do.
    silent : frozenset of int
        Literals whose own conjunction of length 1 has weight zero.
    sign : ndarray of int (literals,)
        The only sign a conjunction with this literal may have; 0 for any.
    whole : bool
        Whether row weights are whole numbers, so that supports are exact. If not, a support within 1e-6 of the
        minimum may have been rounded either way by others, and is let pass.
    """

    bits: Array
    weight: Array
    units: Array
    prices: Array
    rho: float
    max_length: int
    min_support: float
    silent: frozenset[int]
    sign: Array
    whole: bool = True
    _ticks: Iterator[int] = field(default_factory=count, repr=False)

    @cached_property
    def exponent(self) -> float:
        """rho' = rho / (rho - 1)."""
        return self.rho / (self.rho - 1.0)

    @cached_property
    def size(self) -> int:
        """How many literals there are."""
        return len(self.prices)

    @cached_property
    def _parts(self) -> Array:
        """Per row: one, the weight, the positive and the negative part of the dual point."""
        ones = np.ones((len(self.weight), 1))
        return np.hstack([ones, self.weight[:, None], np.maximum(self.units, 0), np.maximum(-self.units, 0)]).astype(np.float64)

    @cached_property
    def root(self) -> Node:
        """The empty conjunction."""
        return Node((), np.arange(len(self.weight), dtype=np.int32), ())

    def price(self, atom: Sequence[int]) -> float:
        """d: the product of the prices of its literals."""
        return float(np.prod(self.prices[list(atom)]))

    def sign_of(self, atom: Sequence[int]) -> int:
        """The one sign its weight may have, 0 for any."""
        return int(np.sign(self.sign[list(atom)].sum())) if len(atom) else 0

    def holds(self, rows: Array, literal: int) -> Array:
        """On which of the rows the literal holds."""
        return (self.bits[rows, literal >> 3] >> (7 - (literal & 7))) & 1 == 1

    def child(self, node: Node, literal: int) -> Node:
        """The node with one more literal."""
        inside = self.holds(node.rows, literal)
        defects = [rows[self.holds(rows, literal)] for rows in node.defects]
        atom = tuple(sorted((*node.atom, literal)))
        defects.insert(atom.index(literal), node.rows[~inside])
        return Node(atom, node.rows[inside], tuple(defects))

    def node(self, atom: Sequence[int]) -> Node:
        """Any conjunction, from scratch."""
        node = self.root
        for literal in atom:
            node = self.child(node, literal)
        return node

    def objection(self, node: Node) -> str:
        """Why the conjunction does not belong to the lattice, or nothing."""
        if len(node.atom) > self.max_length:
            return f"has more than {self.max_length} conditions"
        signs = self.sign[list(node.atom)]
        if abs(int(signs.sum())) != int(np.abs(signs).sum()):
            return "mixes conditions of opposite monotone signs"
        least = self.min_support * (1 - (1e-12 if self.whole else 1e-6))
        if len(node.rows) == 0 or (self.min_support > 0 and float(self.weight[node.rows].sum()) < least):
            return "covers too few rows"
        return "" if node.free else "covers the same rows as a shorter one"

    def pull(self, node: Node) -> float:
        """|G| of a node as the dual norm counts it."""
        if len(node.atom) == 1 and node.atom[0] in self.silent:
            return 0.0
        total = self.units[node.rows].sum(axis=0).astype(np.float64)
        sign = self.sign_of(node.atom)
        return float(np.linalg.norm(total)) if sign == 0 else max(0.0, sign * float(total[0]))

    def look(self, node: Node, extensions: Array) -> Looked:
        """Examine node + k for every extension k, in blocks of rows."""
        columns = self.units.shape[1]
        sums = np.zeros((len(extensions), self._parts.shape[1]))
        step = max(1, BLOCK // max(self.size, 1))
        for first in range(0, len(node.rows), step):
            rows = node.rows[first : first + step]
            sums += self._truth(rows, extensions).T.astype(np.float64) @ self._parts[rows]
        covered, up, down = sums[:, 0], sums[:, 2 : 2 + columns], sums[:, 2 + columns :]
        exists = (covered > 0) & (covered < len(node.rows))
        if self.min_support > 0:
            exists &= sums[:, 1] >= self.min_support * (1 + (-1e-12 if self.whole else 1e-6))
        for rows in node.defects:
            exists &= self._somewhere(rows, extensions)
        sign = self.sign_of(node.atom)
        signs = self.sign[extensions] if sign == 0 else np.full(len(extensions), sign)
        exists &= (self.sign[extensions] == 0) | (self.sign[extensions] == signs)
        net = up - down
        pull, largest = np.linalg.norm(net, axis=1), np.linalg.norm(np.maximum(up, down), axis=1)
        if columns == 1 and signs.any():
            pull = np.where(signs == 0, pull, np.maximum(signs * net[:, 0], 0.0))
            largest = np.where(signs == 0, largest, np.where(signs > 0, up[:, 0], down[:, 0]))
        if not node.atom and self.silent:
            pull = np.where(np.isin(extensions, list(self.silent)), 0.0, pull)
        return Looked(exists, pull, largest)

    def _truth(self, rows: Array, literals: Array) -> Array:
        """Booleans (rows, literals)."""
        return np.unpackbits(self.bits[rows], axis=1, count=self.size)[:, literals]

    def _somewhere(self, rows: Array, literals: Array) -> Array:
        """Which literals hold on at least one of the rows; most are settled by the first few."""
        found, first, step = np.zeros(len(literals), dtype=bool), 0, 64
        while first < len(rows) and not found.all():
            open_ones = np.flatnonzero(~found)
            found[open_ones] = self._truth(rows[first : first + step], literals[open_ones]).any(axis=0)
            first, step = first + step, min(4 * step, max(64, BLOCK // max(self.size, 1)))
        return found

    def weigh(self, literals: Array, depth: int) -> Array:
        """For each position, how much all non-empty sets of at most `depth` literals behind it weigh in a tail."""
        shrunk = (1.0 + self.prices[literals]) ** -self.exponent
        if depth <= 0:
            return np.zeros(len(literals))
        if depth > DEEP:
            return np.expm1(_behind(np.log1p(shrunk)))
        exactly, total = np.ones(len(literals)), np.zeros(len(literals))
        for _ in range(depth):
            exactly = _behind(shrunk * exactly)
            total += exactly
        return total

    def inside(self, atoms: Sequence[Atom], pull: Array, eta: Array) -> float:
        """U_W: an upper bound of the dual norm over the hull, from any positive eta."""
        place = {atom: i for i, atom in enumerate(atoms)}
        pairs = [(place[part], i) for i, atom in enumerate(atoms) for size in range(len(atom) + 1) for part in combinations(atom, size)]
        upper, lower = np.array(pairs).T
        price = np.array([self.price(atom) for atom in atoms])
        share = price**self.rho * eta ** (1.0 - self.rho)
        part = pull / np.bincount(lower, share[upper], len(atoms))
        top = float(part.max(initial=0.0))
        if not top > 0:
            return 0.0 if top == 0 else math.nan
        norms = np.bincount(upper, ((part / top) ** self.exponent)[lower], len(atoms)) ** (1.0 / self.exponent)
        return float((share / price * norms).max() * top)

    def outside(self, atoms: Sequence[Atom], limit: float) -> tuple[Array, Tails, str]:
        """(pull of every hull atom, verdict on all tails, objection): walks the hull once as a prefix tree.

        A tail is refined until it is below the limit or has been found above it. The objection says which atom of
        the hull does not belong there.
        """
        place = {atom: i for i, atom in enumerate(atoms)}
        pulls, tails = np.zeros(len(atoms)), Tails()
        beside = {atom: np.zeros(self.size, dtype=bool) for atom in atoms}  # which literals lead to another hull atom
        followers: dict[Atom, list[int]] = {atom: [] for atom in atoms}
        for atom in atoms:
            for j in range(len(atom)):
                parent = atom[:j] + atom[j + 1 :]
                if parent not in place:
                    return pulls, tails, f"the hull holds {atom} but not its part {parent}"
                beside[parent][atom[j]] = True
            if atom:
                followers[atom[:-1]].append(atom[-1])
        floor = max(limit, 1e-12 * float(np.abs(self.units).sum()), 1e-300)
        stack = [self.root]
        while stack:
            node = stack.pop()
            objection = self.objection(node)
            if objection and node.atom:
                return pulls, tails, f"the hull holds {node.atom}, which {objection}"
            pulls[place[node.atom]] = self.pull(node)
            if len(node.atom) < self.max_length:
                self._tails_of(node, self._newcomers(node.atom, beside), floor, tails)
            stack += [self.child(node, literal) for literal in followers[node.atom]]
        return pulls, tails, ""

    def _newcomers(self, atom: Atom, beside: dict[Atom, Array]) -> Array:
        """Literals k behind the last one for which atom + k is not held but all its parts are."""
        fits = ~beside[atom]
        fits[: atom[-1] + 1 if atom else 0] = False
        for j in range(len(atom)):
            fits &= beside[atom[:j] + atom[j + 1 :]]
        return np.flatnonzero(fits)

    def _tails_of(self, node: Node, newcomers: Array, limit: float, tails: Tails) -> None:
        """Bound the tails of node + k for every newcomer k."""
        if len(newcomers) == 0:
            return
        found = self.look(node, newcomers)
        tails.looked += len(newcomers)
        every = np.concatenate([[0], np.arange(self.size)])  # position 0 has all literals behind it
        weigh = float(self.weigh(every, self.max_length - len(node.atom) - 1)[0])
        for i in np.flatnonzero(found.exists):
            literal, largest = int(newcomers[i]), float(found.largest[i])
            unit = limit * self.price((*node.atom, literal))
            known = (float(found.pull[i]) / unit) ** self.exponent
            total = known + ((largest / unit) ** self.exponent * weigh if weigh else 0.0)
            if known <= 1.0 < total:
                total = self._refine(self.child(node, literal), known, largest, unit, tails)
            high = math.inf if math.isnan(total) else limit * total ** (1.0 / self.exponent)
            if high > tails.highest:
                tails.highest, tails.worst = high, (*node.atom, literal)

    def _refine(self, source: Node, known: float, largest: float, unit: float, tails: Tails) -> float:
        """known + rest for one source, heaviest unknown first, until it is at most 1, or what is known exceeds 1.

        An open entry is a node that has not been looked below: (bound, parent, literal, extensions, factor), where
        `factor` turns a sum of the dual point into its share of the tail.
        """
        others = np.array([k for k in range(self.size) if k not in source.atom], dtype=np.int64)
        depth = self.max_length - len(source.atom)
        rest = (largest / unit) ** self.exponent * float(self.weigh(np.concatenate([[0], others]), depth)[0])
        heap: list[Any] = [(-rest, next(self._ticks), source, -1, others, 1.0 / unit)]
        while heap and known <= 1.0 < known + rest:
            bound, _, parent, literal, extensions, factor = heapq.heappop(heap)
            rest += bound
            node = parent if literal < 0 else self.child(parent, literal)
            gained, entries = self._below(node, extensions, factor)
            known += gained
            for entry in entries:
                rest -= entry[0]
                heapq.heappush(heap, entry)
            tails.looked += len(extensions)
            if len(heap) % 64 == 0:
                rest = -math.fsum(entry[0] for entry in heap)  # summed again: no drift
        return known - math.fsum(entry[0] for entry in heap)

    def _below(self, node: Node, extensions: Array, factor: float) -> tuple[float, list[Any]]:
        """(what the node's extensions add to the known part, the open entries below them)."""
        found = self.look(node, extensions)
        kept = np.flatnonzero(found.exists)
        kept = kept[np.argsort(found.largest[kept], kind="stable")]  # the heavier, the fewer literals come behind it
        literals = extensions[kept]
        factors = factor / (1.0 + self.prices[literals])
        gained = float(((found.pull[kept] * factors) ** self.exponent).sum())
        bounds = (found.largest[kept] * factors) ** self.exponent * self.weigh(literals, self.max_length - len(node.atom) - 1)
        entries = [
            (-float(bounds[i]), next(self._ticks), node, int(literals[i]), literals[i + 1 :], float(factors[i]))
            for i in np.flatnonzero(bounds > 0)
        ]
        return gained, entries


def _behind(values: Array) -> Array:
    """For each position, the sum of the values behind it."""
    total = np.cumsum(values[::-1])[::-1]
    return np.append(total[1:], 0.0)
