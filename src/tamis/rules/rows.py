"""Rows that no literal tells apart become one design row: exact, and a huge saving on categorical tables.

Literals are packed one at a time, so memory is bits, not booleans. Rows are sorted by a hash of their bits, so
the order in which they came changes nothing, to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Bits
from tamis.core.loss import Targets
from tamis.kernels.reference import pack_rows, unpack_rows

Array = NDArray[Any]
AVERAGED = ("squared", "poisson")  # losses whose targets may be averaged, at a constant in the objective


@dataclass(frozen=True)
class Rows:
    """The training rows, compressed.

    Attributes
    ----------
    literals : Bits
        Packed literals over design rows (distinct bit patterns).
    targets : Targets
        At knob value 1, sorted by design row.
    row_units : ndarray of int
        Row weights per design row as integers, and `unit` the weight one of them stands for.
    design_row, target_row : ndarray
        For each training row (in the user's order) its design row and its target, -1 for rows without weight.
    """

    literals: Bits
    targets: Targets
    row_units: NDArray[np.int64]
    unit: float
    design_row: NDArray[np.int64]
    target_row: NDArray[np.int64]

    def column(self, k: int) -> Rows:
        """The same rows with one column of the targets: one class against the rest."""
        targets = self.targets
        return replace(self, targets=replace(targets, y=targets.y[:, [k]], offset=targets.offset[:, [k]]))


def compress(truth: Iterable[Array], loss: Any, y: Array, weight: Array, row_weight: Array, offset: Array | None = None) -> Rows:
    """Pack, sort and merge.

    `weight` multiplies the loss (sample times class weight); `row_weight` counts rows for supports (sample weight).
    """
    kept = np.flatnonzero(weight > 0)
    everything = len(kept) == len(weight)
    design_row = np.full(len(weight), -1, dtype=np.int64)
    y, weight, row_weight = y[kept], weight[kept], row_weight[kept]
    shift = np.zeros_like(y) if offset is None else offset[kept]
    packed, hashes = _pack(truth, None if everything else kept, len(kept))
    order = np.lexsort((weight, *y.T[::-1], *shift.T[::-1], hashes[1], hashes[0]))
    new_pattern = np.ones(len(kept), dtype=bool)
    new_pattern[1:] = np.any(hashes[:, order[1:]] != hashes[:, order[:-1]], axis=0)
    words, new_pattern = _permuted(packed, order, new_pattern)

    same = ~new_pattern[1:] & np.all(shift[order[1:]] == shift[order[:-1]], axis=1)
    if loss.name not in AVERAGED:
        same &= np.all(y[order[1:]] == y[order[:-1]], axis=1)
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    targets, constant = _merged(loss, y[order], weight[order], first)
    pattern_of_row = np.cumsum(new_pattern) - 1
    starts = np.flatnonzero(np.concatenate([[True], np.diff(pattern_of_row[first]) > 0]))
    total = np.add.reduceat(weight[order], first)
    patterns = int(pattern_of_row[-1]) + 1
    row_units, unit = _integer_weights(np.bincount(pattern_of_row, row_weight[order], patterns))
    design_row[kept[order]] = pattern_of_row
    target_row = np.full(len(design_row), -1, dtype=np.int64)
    target_row[kept[order]] = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    merged = Targets(loss, targets, total, shift[order][first], constant, starts if len(starts) < len(first) else None)
    return Rows(Bits(words, patterns), merged, row_units, unit, design_row, target_row)


def _pack(truth: Iterable[Array], kept: Array | None, rows: int) -> tuple[list[Array], NDArray[np.uint64]]:
    """Packed literals in the rows' own order, and two independent 64-bit hashes of every row's bits."""
    generator = np.random.Generator(np.random.PCG64(20111))
    hashes = np.zeros((2, rows), dtype=np.uint64)
    packed = []
    for column in truth:
        held = column if kept is None else column[kept]
        packed.append(pack_rows(held[None])[0])
        salt = generator.integers(1, 2**63, size=2, dtype=np.uint64)
        hashes[0] += held * salt[0]
        hashes[1] += held * salt[1]
    return packed, hashes


def _permuted(packed: list[Array], order: Array, new_pattern: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Literals over the distinct patterns. Equal hashes are checked bit by bit; a collision only splits, never merges."""
    rows = len(order)
    for words in packed:
        bits = unpack_rows(words[None], rows)[0][order]
        new_pattern[1:] |= bits[1:] != bits[:-1]
    pick = order[new_pattern]
    shape = (len(packed), max(1, -(-len(pick) // 64)))
    result = np.empty(shape, dtype=np.uint64)
    for k, words in enumerate(packed):
        result[k] = pack_rows(unpack_rows(words[None], rows)[0][pick][None])[0]
    return result, new_pattern


def _merged(loss: Any, y: Array, weight: Array, first: Array) -> tuple[Array, float]:
    """Targets of merged rows, and the constant by which their summed loss exceeds that of the mean."""
    if loss.name not in AVERAGED:
        return y[first], 0.0
    total = np.add.reduceat(weight, first)
    mean = np.add.reduceat(weight[:, None] * y, first, axis=0) / total[:, None]
    if loss.name == "poisson":
        return mean, 0.0  # linear in y: nothing is lost
    size = np.diff(np.append(first, len(y)))
    spread = 0.5 * float((weight[:, None] * (y - np.repeat(mean, size, axis=0)) ** 2).sum())
    return mean, spread


def _integer_weights(weight: Array) -> tuple[NDArray[np.int64], float]:
    """Weights as integers: exactly when they are whole numbers, else to one part in 2^24 of the largest."""
    if np.all(weight == np.rint(weight)) and weight.max() < 2**40:
        return weight.astype(np.int64), 1.0
    unit = float(weight.max()) / 2**24
    return np.maximum(np.rint(weight / unit), 1).astype(np.int64), unit
