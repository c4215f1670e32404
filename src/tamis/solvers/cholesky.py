"""A Cholesky factor of the Gram matrix of the held columns, changed one column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dpotrs, dtrtrs

Floats = NDArray[np.float64]
DEPENDENT = 1e-12  # a column whose remainder is below this share of its squared length depends on those held

SHORT = 96  # up to so many rows one QR factorisation is quicker than a loop of rotations


class Factor:
    """L with L L' = H[P, P]; `append` and `remove` cost about |P|^2 instead of the |P|^3 of a new factor."""

    def __init__(self, room: int = 16) -> None:
        self._lower: Floats = np.zeros((room, room), order="F")
        self.size = 0

    @property
    def lower(self) -> Floats:
        """The factor itself."""
        return self._lower[: self.size, : self.size]

    def append(self, column: Floats, diagonal: float) -> bool:
        """Hold one more column, given its products with the held ones and itself; False if it depends on them."""
        k = self.size
        solved = dtrtrs(self.lower, column, lower=1)[0] if k else column
        pivot = diagonal - float(solved @ solved)
        if not pivot > DEPENDENT * diagonal:
            return False
        if k == len(self._lower):
            larger = np.zeros((2 * k, 2 * k), order="F")
            larger[:k, :k] = self._lower
            self._lower = larger
        self._lower[k, :k] = solved
        self._lower[k, k] = np.sqrt(pivot)
        self.size = k + 1
        return True

    def remove(self, position: int) -> None:
        """Let one column go: its row is taken out, and the rows after it, one entry too long, are made triangular again."""
        k, lower = self.size, self._lower
        lower[position : k - 1, :k] = lower[position + 1 : k, :k]
        if k - position > SHORT:
            self._rotate(position)
        elif k - position > 1:
            tail = lower[position : k - 1, position:k]
            upper = dgeqrf(tail.T)[0]
            signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
            lower[position : k - 1, position : k - 1] = np.tril(upper[: k - 1 - position].T * signs)
        lower[k - 1, :k] = 0.0
        lower[:k, k - 1] = 0.0
        self.size = k - 1

    def _rotate(self, position: int) -> None:
        """Rotations of neighbouring columns: fewer operations where many rows follow."""
        k, lower = self.size, self._lower
        for i in range(position, k - 1):
            a, b = lower[i, i], lower[i, i + 1]
            length = np.hypot(a, b)
            cosine, sine = a / length, b / length
            left, right = lower[i : k - 1, i].copy(), lower[i : k - 1, i + 1].copy()
            lower[i : k - 1, i] = cosine * left + sine * right
            lower[i : k - 1, i + 1] = cosine * right - sine * left

    def solve(self, right: Any) -> Floats:
        """x with H[P, P] x = right."""
        if not self.size:
            return np.zeros(0)
        found: Floats = dpotrs(self.lower, right, lower=1)[0]
        return found
