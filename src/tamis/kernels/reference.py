"""The kernels' truth, in plain numpy: the compiled loops must equal these, integer sums to the last bit.

Booleans are packed 64 rows to a little-endian word. Integer row values are held twice: as plain integers, for
one matrix product in the narrowest floats that are exact, and as bit planes, for AND + popcount on packed words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
EXACT, NARROW = 2**53, 2**24  # integers up to here are exact in float64, in float32
NEGLIGIBLE = 1e-16  # powers below this are counted, not added
TWIN_CELLS = 2**22


def pack_rows(truth: NDArray[np.bool_]) -> Words:
    """(columns, rows) booleans to (columns, words)."""
    columns, rows = truth.shape
    padded = np.zeros((columns, 8 * max(1, -(-rows // 64))), dtype=np.uint8)
    packed = np.packbits(truth, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8")


def unpack_rows(words: Words, rows: int) -> NDArray[np.bool_]:
    """(columns, words) to (columns, rows) booleans."""
    as_bytes = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=rows, bitorder="little").view(np.bool_)


@dataclass(frozen=True)
class Literals:
    """Packed literals, by literal and by word, and as floats where a numpy twin wants them."""

    words: Words
    rows: int

    @cached_property
    def by_word(self) -> Words:
        """(words, literals): one word of every literal side by side, which is how the compiled loops read them."""
        return np.ascontiguousarray(self.words.T)

    @cached_property
    def counted(self) -> tuple[Words, NDArray[np.int64], NDArray[np.bool_]]:
        """What must be counted to know every literal's sums: (words, columns), each literal's column, and whether it is mirrored.

        Of two literals that are each other's opposite on all rows, one is counted; the other is what the first leaves of
        the node. The last column is true everywhere: the node itself.
        """
        everywhere = pack_rows(np.ones((1, self.rows), dtype=bool))[0]
        opposite = {(everywhere & ~word).tobytes(): k for k, word in enumerate(self.words)}
        partner = np.array([opposite.get(word.tobytes(), k) for k, word in enumerate(self.words)], dtype=np.int64)
        mirrored = partner < np.arange(len(self.words))
        column = np.where(mirrored, 0, np.cumsum(~mirrored) - 1)
        column[mirrored] = column[partner[mirrored]]
        return np.ascontiguousarray(np.vstack([self.words[~mirrored], everywhere]).T), column, mirrored

    def products(self, rows: Any, owner: Integers, extensions: Integers) -> Floats:
        """Sums of non-negative row values, (nodes, rows) floats, over literals: for node `owner[i]`, literal `extensions[i]`."""
        _, column, mirrored = self.counted
        sums = rows @ self._columns(rows.dtype)
        found = sums.ravel()[owner * sums.shape[1] + column[extensions]]
        opposite = mirrored[extensions]
        if opposite.any():
            found = np.where(opposite, sums[:, -1][owner] - found, found)
        return np.asarray(found, dtype=np.float64)

    def _columns(self, dtype: Any) -> Any:
        """(rows, counted columns) in these floats, made once."""
        if dtype not in self._made:
            self._made[dtype] = np.ascontiguousarray(unpack_rows(np.ascontiguousarray(self.counted[0].T), self.rows).T.astype(dtype))
        return self._made[dtype]

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True)
class RowValues:
    """Non-negative integers per row, in several groups: (groups, rows)."""

    values: Integers

    @cached_property
    def planes(self) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
        """Bit planes in fours (planes, words), and for each four its group and the shift of its first plane."""
        width = max(1, -(-self.values.shape[1] // 64))
        words, group, shift = [], [], []
        for g, row in enumerate(self.values):
            for first in range(0, int(row.max(initial=0)).bit_length(), 4):
                words += [pack_rows(((row >> bit) & 1).astype(bool)[None])[0] for bit in range(first, first + 4)]
                group.append(g)
                shift.append(first)
        stacked = np.stack(words) if words else np.zeros((0, width), dtype=np.uint64)
        return stacked, np.array(group, dtype=np.int64), np.array(shift, dtype=np.int64)

    @cached_property
    def floats(self) -> Any:
        """The values as the narrowest floats that hold every sum of them, refused when none does."""
        most = max(int(self.values.sum(axis=1).max(initial=0)), self.values.shape[1])
        if most >= EXACT:
            raise OverflowError("row values too large for an exact float64 sum")
        return self.values.astype(np.float32 if most < NARROW else np.float64)


def conjunction_words(literals: Words, nodes: Any) -> Words:
    """Packed rows of conjunctions given as an (nodes, depth) array of literal positions padded with -1."""
    full = np.full((len(nodes), literals.shape[1]), ~np.uint64(0))
    for depth in range(nodes.shape[1]):
        held = nodes[:, depth] >= 0
        full[held] &= literals[nodes[held, depth]]
    return full


def conjunction_sums(
    literals: Literals, nodes: Any, starts: Integers, extensions: Integers, values: RowValues
) -> tuple[Integers, Integers]:
    """For each node and each of its extension literals: rows covered by both, and the sums of `values` over them.

    nodes: (nodes, depth) literal positions padded with -1; extensions[starts[i]:starts[i+1]] belong to node i.
    Returns (count,) and (count, groups).
    """
    rows, size = literals.rows, np.diff(starts)
    support = np.zeros(len(extensions), dtype=np.int64)
    sums = np.zeros((len(extensions), len(values.values)), dtype=np.int64)
    owner = np.repeat(np.arange(len(nodes)), size)
    weights = np.concatenate([np.ones((1, rows), dtype=values.floats.dtype), values.floats])
    masks = conjunction_words(literals.words, nodes)
    step = max(1, TWIN_CELLS // max(rows, 1))
    # few extensions per node: pair by pair; many: a matrix product with every literal
    if len(extensions) * 4 < len(nodes) * len(literals.words) or rows * len(literals.words) > 2 * TWIN_CELLS:
        for first in range(0, len(extensions), step):
            part = slice(first, first + step)
            covered = unpack_rows(masks[owner[part]] & literals.words[extensions[part]], rows)
            found = (covered.astype(weights.dtype) @ weights.T).astype(np.int64)
            support[part], sums[part] = found[:, 0], found[:, 1:]
        return support, sums
    for first in range(0, len(nodes), step):
        covered = unpack_rows(masks[first : first + step], rows)
        inside = slice(starts[first], starts[min(first + step, len(nodes))])
        place = (owner[inside] - first, extensions[inside])
        support[inside] = literals.products(covered * weights[0], *place).astype(np.int64)
        for group, row in enumerate(weights[1:]):
            sums[inside, group] = literals.products(covered * row, *place).astype(np.int64)
    return support, sums


@dataclass(frozen=True)
class Leaves:
    """Nodes all of whose extensions are to be looked at once, and only their weighed powers summed.

    Attributes
    ----------
    nodes, starts, extensions
        As in `conjunction_sums`.
    support : ndarray of int (nodes,)
        Rows of each node; an extension that drops none of them is implied and does not count.
    factor : ndarray (nodes,)
        Multiplies |G| before the power.
    sign : ndarray of int (nodes,)
        The only sign of G that counts, 0 for any.
    """

    nodes: Any
    starts: Integers
    extensions: Integers
    support: Integers
    factor: Floats
    sign: Integers


@dataclass(frozen=True)
class Net:
    """The signed row values of a pricing call, shifted to be non-negative, then row weights if they matter.

    `shifted` holds one group per column, value + offset, so that a net sum is the group's sum minus offset times
    the support; a last group of row weights follows when `least` > 0.
    """

    shifted: RowValues
    offset: int
    columns: int
    least: int
    shrink: Floats
    sign: Integers
    exponent: float


def leaf_powers(literals: Literals, leaves: Leaves, net: Net) -> tuple[Floats, Integers]:
    """Per node: the sum over its useful extensions k of (factor * shrink_k * |G|)^exponent, and how many they are."""
    count, rows = len(leaves.nodes), literals.rows
    powers, looked = np.zeros(count), np.zeros(count, dtype=np.int64)
    masks = conjunction_words(literals.words, leaves.nodes)
    step = max(1, TWIN_CELLS // max(rows, len(literals.words)))
    for first in range(0, count, step):
        last = min(first + step, count)
        covered = unpack_rows(masks[first:last], rows)
        owner = np.repeat(np.arange(last - first), np.diff(leaves.starts[first : last + 1]))
        useful, weighed = _weighed(literals, covered, owner, leaves, slice(first, last), net)
        large = np.flatnonzero(useful & (weighed > NEGLIGIBLE ** (1.0 / net.exponent)))
        with np.errstate(over="ignore"):
            powers[first:last] = np.bincount(owner[large], _power(weighed[large], net.exponent), last - first)
        looked[first:last] = np.bincount(owner[useful], minlength=last - first)
    return powers, looked


def _weighed(
    literals: Literals, covered: NDArray[np.bool_], owner: Integers, leaves: Leaves, part: slice, net: Net
) -> tuple[NDArray[np.bool_], Floats]:
    """Per extension of a slice of the nodes: whether it is useful, and factor * shrink * |G|."""
    values, extensions = net.shifted.floats, leaves.extensions[leaves.starts[part.start] : leaves.starts[part.stop]]
    support = literals.products(covered.astype(values.dtype), owner, extensions)
    useful = (support > 0) & (support < leaves.support[part][owner])
    sign = np.where(leaves.sign[part][owner] == 0, net.sign[extensions], leaves.sign[part][owner])
    square = np.zeros_like(support)
    for column in range(net.columns):
        value = literals.products(covered * values[column], owner, extensions) - net.offset * support
        if sign.any():
            value = np.where(sign == 0, value, np.maximum(sign * value, 0.0))
        square += value**2
    if net.least:
        useful &= literals.products(covered * values[net.columns], owner, extensions) >= net.least
    return useful, leaves.factor[part][owner] * net.shrink[extensions] * np.sqrt(square)


def _power(base: Floats, exponent: float) -> Floats:
    """base ** exponent, by squaring where the exponent is whole but for its last bits, as rho / (rho - 1) is at the usual rho."""
    whole = round(exponent)
    if abs(exponent - whole) >= 1e-13 * exponent:
        return base**exponent
    result, square = base if whole & 1 else np.ones_like(base), base
    while whole := whole >> 1:
        square = square * square
        result = result * square if whole & 1 else result
    return result
