"""Columns that were ever worked on, kept side by side in memory with their products, and products with all columns at half the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Dense, Design

Array = NDArray[Any]
POOL_BYTES = 512 * 2**20
LINE = 8  # numbers in a cache line
SPREAD = 2.0  # multiplying by zeros is cheaper than copying columns up to this share of columns not asked for
LIGHT_CELLS, LIGHT_BYTES = 500_000, 2 * 2**30
LIGHT_ROWS = 1024  # summed at a time in single precision: what is lost grows with it
LIGHT_RANGE = 1e15  # numbers and column norms further from 1 than this are left in double precision


@dataclass(frozen=True)
class Held:
    """Some columns where they lie in memory.

    Attributes
    ----------
    buffer : array of shape (rows of the data, columns at hand)
    place : array, optional
        Which of them; by default all.
    """

    buffer: Array
    place: Array | None = None

    @property
    def size(self) -> int:
        """How many columns."""
        return self.buffer.shape[1] if self.place is None else len(self.place)

    @cached_property
    def matrix(self) -> Array:
        """The columns side by side, each contiguous; not to be written to."""
        return self.buffer if self.place is None else np.asarray(self.buffer.T[self.place].T)

    @cached_property
    def _spread(self) -> bool:
        return self.place is not None and self.buffer.shape[1] <= SPREAD * len(self.place) and "matrix" not in self.__dict__

    def dot(self, weights: Array) -> Array:
        """Columns times weights."""
        if self.place is None or not self._spread:
            return np.asarray(self.matrix @ weights)
        all_weights = np.zeros((self.buffer.shape[1], *weights.shape[1:]))
        all_weights[self.place] = weights
        return np.asarray(self.buffer @ all_weights)

    def score(self, pull: Array) -> Array:
        """Products of each column with row vectors."""
        if self.place is None or not self._spread:
            return np.asarray(self.matrix.T @ pull)
        return np.asarray((self.buffer.T @ pull)[self.place])

    def take(self, some: Array) -> Array:
        """Some of these columns."""
        return np.asarray(self.buffer.T[some if self.place is None else self.place[some]].T)


def aligned(side: int) -> Array:
    """An empty square matrix that begins with a cache line, as its lines do when 8 divides `side`: read a tenth faster, again and again."""
    memory = np.empty(8 * (side * side + LINE), dtype=np.uint8)
    first = -memory.ctypes.data % (8 * LINE)
    return memory[first : first + 8 * side * side].view(np.float64).reshape(side, side)


class Pool:
    """Columns that were ever worked on, side by side in memory, with their weighted products among each other."""

    def __init__(self, design: Design, weight: Array, y: Array | None) -> None:
        self.design, self.weight, self.y = design, weight, y
        self._all: Array | None = None
        self._clear()

    def _clear(self) -> None:
        self._place = np.full(self.design.shape[1], -1, dtype=np.intp)
        self._columns = np.zeros((self.design.shape[0], 0), order="F")
        self._gram = np.zeros((0, 0))
        self._target = np.zeros(0)
        self._count = 0

    def _hold(self, rows: Array) -> Array:
        """Places of these rows, after fetching what is missing."""
        new = rows[self._place[rows] < 0]
        if len(new):
            if 8 * self._columns.shape[0] * (self._count + len(new)) > POOL_BYTES and self._count:
                self._clear()
                new = rows
            self._fetch(new)
        return self._place[rows]

    def _fetch(self, new: Array) -> None:
        count = self._count + len(new)
        if count > self._columns.shape[1]:
            room = min(self.design.shape[1], max(2 * self._columns.shape[1], count + 16))
            wider = np.empty((self._columns.shape[0], room), order="F")
            wider[:, : self._count] = self._columns[:, : self._count]
            self._columns = wider
            if self.y is not None:
                gram = np.empty((room, room))
                gram[: self._count, : self._count] = self._gram[: self._count, : self._count]
                self._gram, self._target = gram, np.append(self._target[: self._count], np.zeros(room - self._count))
        part = np.asarray(self.design.block(new), dtype=np.float64)
        self._columns[:, self._count : count] = part
        if self.y is not None:
            weighted = self.weight[:, None] * part
            cross = self._columns[:, :count].T @ weighted
            self._gram[:count, self._count : count] = cross
            self._gram[self._count : count, : self._count] = cross[: self._count].T
            self._target[self._count : count] = weighted.T @ self.y[:, 0]
        self._place[new] = np.arange(self._count, count)
        self._count = count

    def peek(self, rows: Array) -> Array:
        """Columns that are looked at once."""
        place = self._place[rows]
        known = place >= 0
        if known.all():
            return np.asarray(self._columns.T[place].T)
        part = np.empty((self.design.shape[0], len(rows)), order="F")
        part[:, known] = self._columns.T[place[known]].T
        part[:, ~known] = self.design.block(rows[~known])
        return part

    def held(self, rows: Array) -> Held:
        """Some columns, or all of them."""
        if len(rows) == self.design.shape[1]:
            if self._all is None:
                self._all = np.asfortranarray(self.design.block(), dtype=np.float64)
            return Held(self._all)
        place = self._hold(rows)
        return Held(self._columns[:, : self._count], place)

    def products(self, rows: Array, intercept: bool) -> tuple[Array, Array]:
        """X'WX and X'Wy of some columns, with the column of ones last if there is an intercept; new arrays."""
        place = self._hold(rows)
        size = len(place)
        gram, target = aligned(size + intercept), self._target[place]
        gram[:size, :size] = self._gram.take(place, axis=0).take(place, axis=1)
        if not intercept or self.y is None:
            return gram, target
        gram[:size, size] = gram[size, :size] = Held(self._columns[:, : self._count], place).score(self.weight)
        gram[size, size] = self.weight.sum()
        return gram, np.append(target, self.weight @ self.y[:, 0])


class Screen:
    """Products of all columns with row vectors, in single precision where that may be, with a bound on what it loses.

    Parameters
    ----------
    design : Design
    norms : array
        Weighted norms of the columns.
    weight : array
        Positive wherever anything is asked of a row.
    """

    def __init__(self, design: Design, norms: Array, weight: Array) -> None:
        self.design = design
        self.light: Dense | None = None
        cells = design.shape[0] * design.shape[1]
        some = norms[norms > 0]
        near = len(some) > 0 and some.min() > 1 / LIGHT_RANGE and some.max() < LIGHT_RANGE
        if isinstance(design, Dense) and cells > LIGHT_CELLS and 4 * cells <= LIGHT_BYTES and near:
            half = np.asarray(design.block(), dtype=np.float32)
            if half.min() > -LIGHT_RANGE and half.max() < LIGHT_RANGE:
                self.light = Dense(half)
        root = np.sqrt(weight)[:, None]
        self._inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        # any order of summation: every term is rounded at most once per addition, once as a product, twice as input
        self._loss = 1.01 * (min(LIGHT_ROWS, design.shape[0]) + 3) * 2.0**-24

    def score(self, pull: Array) -> tuple[Array, Array]:
        """Products with all columns, and per class how far they may be off, per unit of a column's norm."""
        largest = float(np.abs(pull).max(initial=0.0))
        if self.light is None or not 0 < largest < np.inf:
            return np.asarray(self.design.score(pull)), np.zeros(pull.shape[1])
        matrix, scaled = self.light.block(), (pull / largest).astype(np.float32)
        found = np.zeros((matrix.shape[1], pull.shape[1]))
        for low in range(0, len(matrix), LIGHT_ROWS):
            found += matrix[low : low + LIGHT_ROWS].T @ scaled[low : low + LIGHT_ROWS]
        return largest * found, self._loss * np.sqrt(((pull * self._inverse) ** 2).sum(axis=0))
