"""Folds that see rows by what they hold, not by where they stand.

Equal rows are laid out as whole units of weight along one line per class, in an order shuffled by the rows'
content, and the line is dealt out to the folds unit by unit. So a weight of 2 is exactly the row twice, the order
of rows changes nothing, and the copies of a frequent row spread over the folds as separate rows would.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.tables.frame import Table

Array = NDArray[Any]


def fold_weights(hashes: NDArray[np.uint64], codes: Array, weight: Array, cv: Any) -> list[tuple[Array, Array]]:
    """(training weight, validation weight) per fold, each one per row; folds whose training part lacks a class are left out.

    `hashes` say which rows are equal, and in which order rows are dealt: see `row_hashes` and `matrix_hashes`.
    """
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise TamisError(
                f"cv={cv} leaves nothing to validate on, so nothing was fitted; give at least 2 folds, or C to fit without folds."
            )
        held_out = _dealt(hashes, codes, weight, int(cv))
    else:
        held_out = _split(cv, codes, weight)
    present = np.unique(codes[weight > 0])
    folds = []
    for validation in held_out:
        training = np.maximum(weight - validation, 0.0)
        training[training < 1e-9 * weight] = 0.0
        if validation.any() and len(np.unique(codes[training > 0])) == len(present):
            folds.append((training, validation))
    return folds if len(folds) > 1 else []


def _split(cv: Any, codes: Array, weight: Array) -> list[Array]:
    """Validation weights of a scikit-learn splitter, or of an iterable of (train, test) positions."""
    pairs = cv.split(np.zeros((len(weight), 1)), codes) if hasattr(cv, "split") else cv
    held_out = []
    for _, test in pairs:
        validation = np.zeros(len(weight))
        validation[test] = weight[test]
        held_out.append(validation)
    return held_out


def _dealt(hashes: NDArray[np.uint64], codes: Array, weight: Array, count: int) -> list[Array]:
    """Validation weights of each fold."""
    distinct, group = np.unique(hashes, return_inverse=True)
    total = np.bincount(group, weight, len(distinct))
    unit = min(1.0, float(total.sum()) / max(1, int((total > 0).sum())))
    shares = np.zeros((count, len(distinct)))
    label = np.zeros(len(distinct), dtype=int)
    label[group] = codes
    start = 0
    for code in np.unique(label):
        mine = np.flatnonzero(label == code)  # in hash order: shuffled, and the same for any row order
        ends = np.cumsum(total[mine]) / unit + start
        shares[:, mine] = _measure(np.concatenate([[start], ends[:-1]]), ends, count)
        start += round(float(total[mine].sum()) / unit)  # the next class goes on where this one stopped
    with np.errstate(invalid="ignore"):
        part = np.where(total > 0, shares * unit / total, 0.0)
    return [part[fold][group] * weight for fold in range(count)]


def _measure(first: Array, last: Array, count: int) -> Array:
    """How much of each interval [first, last) lies in unit cells whose number is congruent to each fold."""

    def below(x: Array) -> Array:
        """Of [0, x), the part in each fold's cells."""
        x = np.where(np.abs(x - np.rint(x)) < 1e-9, np.rint(x), x)
        cell, inside = np.floor(x), x - np.floor(x)
        rounds, place = cell // count, cell % count
        fold = np.arange(count)[:, None]
        return np.asarray(rounds + (fold < place) + (fold == place) * inside)

    return below(last) - below(first)


def row_hashes(table: Table, target: Array, seed: int) -> NDArray[np.uint64]:
    """64 bits per row from all its cells and its target."""
    result = _seeded(table.n_rows, seed)
    for name in range(len(table.names)):
        values = table.column(name)
        if values.numbers is not None:
            cells = _float_bits(values.numbers)
        else:
            texts = np.array([zlib.crc32(str(level).encode()) for level in values.levels], dtype=np.uint64)
            codes = np.asarray(values.codes)
            cells = np.where(codes >= 0, np.append(texts, np.uint64(0))[codes], np.uint64(0xFFFF_FFFF_FFFF))
        result = _mix(result * np.uint64(0x2545F4914F6CDD1D) + cells)
    return _with_target(result, target)


def matrix_hashes(blocks: Iterable[tuple[slice, Array]], rows: int, target: Array, seed: int) -> NDArray[np.uint64]:
    """The same for a matrix of numbers, given as blocks of its rows."""
    result = _seeded(rows, seed)
    for where, block in blocks:
        salt = _mix(np.arange(1, block.shape[1] + 1, dtype=np.uint64))
        # integers wrap around and add up in any order, so that equal rows stay equal wherever they stand
        step = max(1, 2**20 // max(1, block.shape[1]))
        for first in range(0, len(block), step):
            cells = _mix(_float_bits(block[first : first + step]) ^ salt)
            result[where.start + first : where.start + first + len(cells)] += cells.sum(axis=1, dtype=np.uint64)
    return _with_target(_mix(result), target)


def _seeded(rows: int, seed: int) -> NDArray[np.uint64]:
    return _mix(np.full(rows, np.uint64((seed + 0x9E3779B97F4A7C15) % 2**64)))


def _with_target(result: NDArray[np.uint64], target: Array) -> NDArray[np.uint64]:
    for column in target.T:
        result = _mix(result * np.uint64(0x2545F4914F6CDD1D) + _float_bits(np.asarray(column, dtype=float)))
    return result


def _float_bits(numbers: Array) -> NDArray[np.uint64]:
    numbers = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, no negative zero
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.uint64)


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser: every input bit reaches every output bit."""
    bits = bits ^ (bits >> np.uint64(30))
    bits = bits * np.uint64(0xBF58476D1CE4E5B9)
    bits = bits ^ (bits >> np.uint64(27))
    bits = bits * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def halves(hashes: NDArray[np.uint64], codes: Array, weight: Array, count: int) -> Sequence[Array]:
    """Weights of `count` subsamples of half the rows, by content."""
    samples = []
    for sample in range(count):
        salted = _mix(hashes + np.uint64((1 + sample) * 0x9E3779B97F4A7C15 % 2**64))
        samples.append(_dealt(salted, codes, weight, 2)[0])
    return samples
