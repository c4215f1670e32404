"""The kernels' truth, in plain numpy: slow loops elsewhere must equal these to the last bit.

Booleans are packed 64 rows to a little-endian word. Integer row values are held twice: as plain integers, for
one matrix product in float64 (exact below 2^53), and as bit planes, for AND + popcount on packed words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
EXACT = 2**53  # integers up to here are exact in float64


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
class RowValues:
    """Non-negative integers per row, in several groups (positive part, negative part, weights, ...): (groups, rows)."""

    values: Integers

    @cached_property
    def planes(self) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
        """Bit planes (planes, words), the group of each, and the power of two it stands for."""
        words, group, power = [], [], []
        for g, row in enumerate(self.values):
            for bit in range(int(row.max(initial=0)).bit_length()):
                words.append(pack_rows(((row >> bit) & 1).astype(bool)[None])[0])
                group.append(g)
                power.append(1 << bit)
        stacked = np.stack(words) if words else np.zeros((0, max(1, -(-self.values.shape[1] // 64))), dtype=np.uint64)
        return stacked, np.array(group, dtype=np.int64), np.array(power, dtype=np.int64)

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The values as floats, refused when a sum of them could be inexact."""
        if int(self.values.sum(axis=1).max(initial=0)) >= EXACT:
            raise OverflowError("row values too large for an exact float64 sum")
        return self.values.astype(np.float64)


def conjunction_words(literals: Words, nodes: Any) -> Words:
    """Packed rows of conjunctions given as an (nodes, depth) array of literal positions padded with -1."""
    full = np.full((len(nodes), literals.shape[1]), ~np.uint64(0))
    for depth in range(nodes.shape[1]):
        held = nodes[:, depth] >= 0
        full[held] &= literals[nodes[held, depth]]
    return full


def conjunction_sums(literals: Words, rows: int, nodes: Any, starts: Integers, extensions: Integers, values: RowValues) -> tuple[Integers, Integers]:
    """For each node and each of its extension literals: rows covered by both, and the sums of `values` over them.

    nodes: (nodes, depth) literal positions padded with -1; extensions[starts[i]:starts[i+1]] belong to node i.
    Returns (count,) and (count, groups).
    """
    support = np.zeros(len(extensions), dtype=np.int64)
    sums = np.zeros((len(extensions), len(values.values)), dtype=np.int64)
    owner = np.repeat(np.arange(len(nodes)), np.diff(starts))
    weights = np.concatenate([np.ones((1, rows)), values.floats])
    step = max(1, 2**22 // max(rows, 1))
    masks = conjunction_words(literals, nodes)
    for first in range(0, len(extensions), step):
        part = slice(first, first + step)
        covered = unpack_rows(masks[owner[part]] & literals[extensions[part]], rows)
        found = (covered.astype(np.float64) @ weights.T).astype(np.int64)
        support[part], sums[part] = found[:, 0], found[:, 1:]
    return support, sums
