"""The data as columns of atoms: dense, sparse, packed bits, or standardised without being copied.

A solver sees only these five calls, so it never knows how columns are stored:
`block(columns)`, `dot(columns, weights)`, `score(residual)`, `gram(columns, weights)` and `shape`.
Sums over many rows run in blocks of bounded size and in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.kernels.dispatch import Literals, RowValues, conjunction_sums
from tamis.kernels.reference import pack_rows, unpack_rows

Array = NDArray[Any]
Picked = Array | slice | None
BLOCK_BYTES = 64 * 2**20
CACHED = 2**21  # bytes that a processor keeps near while it goes over them more than once
CONSTANT = 1e-12  # a column whose spread is below this share of its mean does not vary


class Design(Protocol):
    """Columns of atoms; `columns` is an integer array of positions, None means all; `block` takes a slice, too, and may return a view."""

    @property
    def shape(self) -> tuple[int, int]: ...
    def block(self, columns: Picked = None) -> Array: ...
    def dot(self, columns: Array | None, weights: Array) -> Array: ...
    def score(self, residual: Array) -> Array: ...
    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array: ...


@dataclass(frozen=True)
class Dense:
    """A plain float matrix."""

    matrix: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def block(self, columns: Picked = None) -> Array:
        return self.matrix if columns is None else self.matrix[:, columns]

    def dot(self, columns: Array | None, weights: Array) -> Array:
        return np.asarray(self.block(columns) @ weights)

    def score(self, residual: Array) -> Array:
        return np.asarray(self.matrix.T @ residual)

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        part = self.block(columns)
        return np.asarray(part.T @ (part if weights is None else weights[:, None] * part))


@dataclass(frozen=True)
class Sparse:
    """A scipy sparse matrix, held by columns."""

    matrix: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", self.matrix.tocsc())

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def block(self, columns: Picked = None) -> Array:
        return np.asarray((self.matrix if columns is None else self.matrix[:, columns]).toarray())

    def dot(self, columns: Array | None, weights: Array) -> Array:
        return np.asarray((self.matrix if columns is None else self.matrix[:, columns]) @ weights)

    def score(self, residual: Array) -> Array:
        return np.asarray(self.matrix.T @ residual)

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        part = self.matrix if columns is None else self.matrix[:, columns]
        scaled = part if weights is None else part.multiply(weights[:, None])
        return np.asarray((part.T @ scaled).toarray())


@dataclass(frozen=True)
class Standardized:
    """Another design with columns centred and scaled on the fly: (x - center) / scale, never formed.

    Gram matrices of shifted data lose their digits when corrected afterwards, so `gram` centres before it multiplies.
    """

    inner: Design
    center: Array
    scale: Array
    varies: Array | None = None

    @classmethod
    def of(cls, inner: Design, row_weights: Array | None = None) -> Standardized:
        """Weighted mean 0 and variance 1; constant columns keep scale 1."""
        rows, _ = inner.shape
        share = np.full(rows, 1.0 / rows) if row_weights is None else row_weights / row_weights.sum()
        center = inner.score(share)

        def left(block: Array, columns: Any) -> Array:
            """Mean and mean square of what a first mean leaves: so no digits depend on the offset."""
            rest = block - center[columns]
            return np.array([share @ rest, np.einsum("i,ij,ij->j", share, rest, rest)])

        mean, square = column_sums(inner, left)
        center, scale = center + mean, np.sqrt(np.maximum(square - mean * mean, 0.0))
        varies = scale > CONSTANT * np.maximum(np.abs(center), 1e-300)
        return cls(inner, center, np.where(varies, scale, 1.0), varies)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def block(self, columns: Picked = None) -> Array:
        pick = slice(None) if columns is None else columns
        return np.asarray((self.inner.block(columns) - self.center[pick]) / self.scale[pick])

    def dot(self, columns: Array | None, weights: Array) -> Array:
        pick = slice(None) if columns is None else columns
        scaled = (weights.T / self.scale[pick]).T
        return np.asarray(self.inner.dot(columns, scaled) - self.center[pick] @ scaled)

    def score(self, residual: Array) -> Array:
        total = residual.sum(axis=0)
        return np.asarray(((self.inner.score(residual) - np.multiply.outer(self.center, total)).T / self.scale).T)

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        positions = np.arange(self.shape[1]) if columns is None else columns
        part = self.block(positions)
        return np.asarray(part.T @ (part if weights is None else weights[:, None] * part))


@dataclass
class _Floats:
    """Columns as floats with room for more behind: sets that grow from one another share one, filled up to `used`."""

    matrix: Array
    used: int

    def grown(self, before: int, fresh: Array) -> _Floats:
        """With fresh columns behind the first `before`: in place where nobody else's stand there and there is room."""
        rows, needed = len(self.matrix), before + fresh.shape[1]
        if self.used != before or needed > self.matrix.shape[1]:
            room = max(needed, BLOCK_BYTES // (8 * max(rows, 1)))  # memory that is never written to costs nothing
            wider = _Floats(np.empty((rows, room), order="F"), before)
            wider.matrix[:, :before] = self.matrix[:, :before]
            return wider.grown(before, fresh)
        self.matrix[:, before:needed] = fresh
        self.used = needed
        return self


@dataclass(frozen=True)
class Weighted:
    """Another design with every row multiplied by a number: what turns weighted squares into plain ones."""

    inner: Design
    root: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def block(self, columns: Picked = None) -> Array:
        return np.asarray(self.root[:, None] * self.inner.block(columns))

    def dot(self, columns: Array | None, weights: Array) -> Array:
        return np.asarray((self.inner.dot(columns, weights).T * self.root).T)

    def score(self, residual: Array) -> Array:
        return self.inner.score((residual.T * self.root).T)

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        square = self.root**2
        return self.inner.gram(columns, square if weights is None else square * weights)


@dataclass(frozen=True)
class Projected:
    """Another design with some directions taken out of every column: what is left when they are fitted freely.

    `basis` has orthonormal columns.
    """

    inner: Design
    basis: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def outside(self, rows: Array) -> Array:
        """The part of row vectors that the basis does not reach."""
        return np.asarray(rows - self.basis @ (self.basis.T @ rows))

    def block(self, columns: Picked = None) -> Array:
        return self.outside(self.inner.block(columns))

    def dot(self, columns: Array | None, weights: Array) -> Array:
        return self.outside(self.inner.dot(columns, weights))

    def score(self, residual: Array) -> Array:
        return self.inner.score(self.outside(residual))

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        part = self.block(columns)
        return np.asarray(part.T @ (part if weights is None else weights[:, None] * part))


def column_blocks(columns: int, rows: int, most: int = BLOCK_BYTES) -> Iterator[slice]:
    """Runs of columns whose cells take at most `most` bytes as floats; slices, so that a dense matrix is not copied."""
    step = max(1, most // (8 * max(1, rows)))
    for first in range(0, columns, step):
        yield slice(first, min(first + step, columns))


def column_sums(design: Design, value: Callable[[Array, Any], Array]) -> Array:
    """Numbers per column (in the last axis), computed on dense runs of columns."""
    rows, columns = design.shape
    runs = column_blocks(columns, rows, CACHED if isinstance(design, Dense) else BLOCK_BYTES)
    parts = [value(design.block(run), run) for run in runs] or [value(np.zeros((rows, 0)), slice(0, 0))]
    return np.concatenate(parts, axis=-1)


@dataclass(frozen=True)
class Bits:
    """Boolean columns packed 64 rows to a word: (columns, words) of uint64, row i at bit i % 64 of word i // 64."""

    words: NDArray[np.uint64]
    rows: int
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def pack(cls, truth: Array) -> Bits:
        """From a boolean matrix (rows, columns)."""
        return cls(pack_rows(np.asarray(truth, dtype=bool).T), len(truth))

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.words)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """True rows per column."""
        return np.asarray(np.bitwise_count(self.words).sum(axis=1, dtype=np.int64))

    def truth(self, columns: Picked = None) -> NDArray[np.bool_]:
        """Boolean matrix (rows, columns)."""
        return unpack_rows(self.words if columns is None else self.words[columns], self.rows).T

    def part(self, columns: Array) -> Bits:
        """Some of the columns; their floats are copied where there already are floats to copy."""
        small = Bits(self.words[columns], self.rows)
        if "floats" in self._cache:
            small._keep(_Floats(np.asfortranarray(self.block(columns)), len(small.words)))
        return small

    def joined(self, more: NDArray[np.uint64]) -> Bits:
        """With more packed columns behind; floats that are there already are kept."""
        wider = Bits(np.concatenate([self.words, more]), self.rows)
        if "floats" in self._cache and wider.fits():
            wider._keep(self._cache["floats"].grown(len(self.words), unpack_rows(more, self.rows).T))
        return wider

    def _keep(self, floats: _Floats) -> None:
        self._cache["floats"] = floats
        self._cache["dense"] = floats.matrix[:, : len(self.words)]

    def fits(self) -> bool:
        """Small enough to be held as floats once."""
        return self.rows * len(self.words) * 8 <= BLOCK_BYTES

    def block(self, columns: Picked = None) -> Array:
        if not self.fits():
            return np.ascontiguousarray(self.truth(columns)).astype(np.float64)
        if "dense" not in self._cache:
            self._keep(_Floats(np.asfortranarray(self.truth().astype(np.float64)), len(self.words)))
        dense: Array = self._cache["dense"]
        return dense if columns is None else dense[:, columns]

    def chunks(self, columns: Array | None, dtype: Any = np.float64) -> Iterator[tuple[slice, Array]]:
        """Row blocks of at most BLOCK_BYTES as (rows, floats of rows x columns)."""
        words = self.words if columns is None else self.words[columns]
        step = max(1, BLOCK_BYTES // (64 * 8 * max(1, len(words))))
        for first in range(0, max(1, words.shape[1]), step):
            rows = slice(64 * first, min(self.rows, 64 * (first + step)))
            part = unpack_rows(words[:, first : first + step], rows.stop - rows.start)
            yield rows, part.astype(dtype).T

    def dot(self, columns: Array | None, weights: Array) -> Array:
        if self.fits():
            return np.asarray(self.block(columns) @ weights)
        result = np.empty((self.rows, *weights.shape[1:]))
        for rows, part in self.chunks(columns):
            result[rows] = part @ weights
        return result

    def score(self, residual: Array) -> Array:
        if self.fits():
            return np.asarray(self.block().T @ residual)
        values = residual.reshape(self.rows, -1)
        units, quantum = (values, 1.0) if values.dtype.kind in "iu" else quantised(values)
        return (self.sums(units) * quantum).reshape(len(self.words), *residual.shape[1:])

    def sums(self, units: Array) -> NDArray[np.int64]:
        """Exact sums of integers (rows, groups) over the true rows of every column."""
        least = units.min(axis=0, initial=0).astype(np.int64)
        values = RowValues(np.ascontiguousarray((units - least).T, dtype=np.int64))
        whole = np.array([[-1]])
        support, found = conjunction_sums(self._literals, whole, np.array([0, len(self.words)]), np.arange(len(self.words)), values)
        return np.asarray(found + support[:, None] * least)

    @property
    def _literals(self) -> Literals:
        """The columns as the kernels want them, made once."""
        if "literals" not in self._cache:
            self._cache["literals"] = Literals(self.words, self.rows)
        literals: Literals = self._cache["literals"]
        return literals

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        if self.fits():
            part = self.block(columns)
            return np.asarray(part.T @ (part if weights is None else weights[:, None] * part))
        total: Array = np.zeros(())
        for rows, part in self.chunks(columns, np.float32):
            total = total + part.T @ (part if weights is None else weights[rows, None].astype(np.float32) * part)
        return np.asarray(total, dtype=np.float64)


def quantised(values: Array, bits: int = 31) -> tuple[Array, float]:
    """Floats as integers times one quantum: to 31 bits of the largest, whatever the number of rows."""
    quantum = float(np.abs(values).max(initial=0.0)) / (2.0**bits - 1.0) or 1.0
    return np.rint(values / quantum).astype(np.int64), quantum
