"""A design in blocks of rows, for tables that do not fit in memory at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tamis.core.design import BLOCK_BYTES, Array, Picked
from tamis.core.errors import TamisError


class Chunked:
    """A matrix in blocks of rows that need not fit in memory together, such as parts of a memory-mapped file.

    Parameters
    ----------
    blocks : sequence of arrays or scipy sparse matrices (rows, columns)
        Read in order, each as often as needed; anything numpy can turn into an array will do.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import Chunked
    >>> Chunked([np.ones((3, 2)), np.zeros((2, 2))]).shape
    (5, 2)
    """

    def __init__(self, blocks: Any) -> None:
        self.blocks = [block if hasattr(block, "shape") else np.asarray(block, dtype=float) for block in blocks]
        widths = {block.shape[1] if len(block.shape) == 2 else None for block in self.blocks}
        if len(widths) != 1 or None in widths:
            raise TamisError(
                f"The blocks of a Chunked matrix have {sorted(map(str, widths))} columns, so they are no matrix; "
                "give at least one block of rows, all with the same columns."
            )
        ends = np.cumsum([block.shape[0] for block in self.blocks])
        self._rows = [slice(int(end - block.shape[0]), int(end)) for end, block in zip(ends, self.blocks, strict=True)]
        self._shape = (int(ends[-1]), int(widths.pop() or 0))

    @classmethod
    def of(cls, matrix: Any, block_bytes: int = BLOCK_BYTES) -> Chunked:
        """Cut a matrix, for instance a memory-mapped one, into blocks of rows."""
        step = max(1, block_bytes // max(1, 8 * matrix.shape[1]))
        return cls([matrix[first : first + step] for first in range(0, matrix.shape[0], step)])

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)"""
        return self._shape

    def parts(self, columns: Picked = None) -> Iterator[tuple[slice, Array]]:
        """(which rows, their cells as floats), block by block."""
        for rows, block in zip(self._rows, self.blocks, strict=True):
            part = block if columns is None else block.tocsc()[:, columns] if hasattr(block, "tocsc") else block[:, columns]
            yield rows, np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=float)

    def block(self, columns: Picked = None) -> Array:
        """Some columns of all rows, side by side."""
        return np.concatenate([part for _, part in self.parts(columns)])

    def dot(self, columns: Array | None, weights: Array) -> Array:
        """Columns times weights."""
        return np.concatenate([part @ weights for _, part in self.parts(columns)])

    def score(self, residual: Array) -> Array:
        """Columns' products with row vectors, summed block by block in order."""
        return np.asarray(sum(part.T @ residual[rows] for rows, part in self.parts()))

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        """Columns' products with each other."""
        return np.asarray(sum(part.T @ (part if weights is None else weights[rows, None] * part) for rows, part in self.parts(columns)))
