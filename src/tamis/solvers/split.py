"""The quadratic that exact split inverse scale space runs on: sparse gamma near D beta, beta at its best for gamma.

With L(beta, gamma) = ||y - X beta||^2 / (2 n) + ||D beta - gamma||^2 / (2 nu) and K = (nu X'X/n + D'D)^+ the best beta is
K (nu X'y/n + D'gamma), and what is left is gamma' Sigma gamma / 2 - q' gamma with Sigma = (I - D K D') / nu, q = D K X'y / n.
Sigma is formed only where it is small; else its columns come from beta by one solve each.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.core.errors import TamisError
from tamis.solvers.split_normal import normal_inverse, spectral_norm

Floats = NDArray[np.float64]
FORM_LIMIT = 2000  # rows of D up to which Sigma is formed, if it is no more work than solves
CHUNK = 256  # rows of D solved for at a time
NOTHING = 1e-12  # relative to the size of y: a gradient smaller than this is rounding, and the path is empty


def nu_default(X: Any, D: Any) -> float:
    """||D||^2 / (||X||^2 / n): at this nu neither the data nor the coupling rules."""
    size = spectral_norm(X)
    return float(spectral_norm(sparse.csr_array(D)) ** 2 * X.shape[0] / size**2) if size > 0 else 1.0


class SplitQuadratic:
    """f(gamma) = min over beta of L(beta, gamma), as an inverse scale space engine wants it: linear part, blocks, speeds.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, columns)
        Centred, if there is an intercept, with the square roots of the weights (of mean 1) multiplied into its rows.
    y : array of shape (n,)
        Treated as X was.
    D : array or sparse matrix of shape (m, columns)
        The transform.
    nu : float
        How loosely gamma follows D beta.
    route : {"dense", "sparse", "woodbury"}, optional
        How K is factorised; chosen by shape when not given.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.solvers.split import SplitQuadratic
    >>> model = SplitQuadratic(np.eye(2), np.array([2.0, 6.0]), np.eye(2), nu=2.0)
    >>> model.speed([1], [4.0])
    array([0.5, 0.5])
    >>> model.beta(np.array([0.0, 4.0]))
    array([1., 5.])
    """

    def __init__(self, X: Any, y: Any, D: Any, nu: float, *, route: str | None = None) -> None:
        if not (np.isfinite(nu) and nu > 0):
            raise TamisError(f"nu={nu!r} is not a finite number above 0, so gamma cannot follow D beta; give one, or leave nu='auto'.")
        self._X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        self._D = sparse.csr_array(D, dtype=np.float64)
        self._y = np.asarray(y, dtype=np.float64)
        rows, columns = self._X.shape
        if self._D.shape[1] != columns or self._y.shape != (rows,):
            raise TamisError(
                f"X has shape {self._X.shape}, y {self._y.shape} and the transform {self._D.shape}, which do not fit together; "
                "give one y per row of X and one column of the transform per column of X."
            )
        self.nu = float(nu)
        self._inverse = normal_inverse(self._X, self._D, self.nu / rows, route)
        pull = self._X.T @ self._y
        self._free = self._inverse.solve(self.nu / rows * pull)  # beta at gamma = 0
        self._start = np.asarray(self._D @ self._free / self.nu)
        if np.abs(self._start).max(initial=0.0) * np.sqrt(self.nu) <= NOTHING * self._power:
            self._start = np.zeros_like(self._start)
        self._columns: dict[int, Floats] = {}

    @property
    def size(self) -> int:
        """How many entries gamma has."""
        return int(self._D.shape[0])

    @property
    def linear(self) -> Floats:
        """Minus the gradient at gamma = 0."""
        return self._start

    @property
    def _power(self) -> float:
        """Root mean square of y."""
        return float(np.linalg.norm(self._y) / np.sqrt(len(self._y)))

    @cached_property
    def unit(self) -> float:
        """A scale of gradients: |speed_j| <= unit * sqrt(diagonal_j) as long as the loss does not exceed that of gamma = 0.

        It is sqrt(2 L(beta, 0)), equal to sqrt(q' Sigma^+ q) when X can fit y exactly and else somewhat larger.
        """
        missing = self._y - self._X @ self._free
        coupled = self._D @ self._free
        return float(np.sqrt(missing @ missing / len(missing) + coupled @ coupled / self.nu))

    @cached_property
    def diagonal(self) -> Floats:
        """Diagonal of Sigma."""
        if self._forms:
            return self._sigma.diagonal().copy()
        columns = self._D.shape[1]
        result = np.zeros(self.size)
        if self.size <= columns:
            for first in range(0, self.size, CHUNK):
                part = self._D[first : first + CHUNK]
                result[first : first + CHUNK] = np.asarray(part.multiply(self._inverse.solve(part.T.toarray()).T).sum(axis=1)).ravel()
        else:  # fewer columns than rows: K in column chunks
            for first in range(0, columns, CHUNK):
                chosen = np.arange(first, min(first + CHUNK, columns))
                unit = np.zeros((columns, len(chosen)))
                unit[chosen, np.arange(len(chosen))] = 1.0
                part = self._D[:, chosen]
                result += np.asarray(part.multiply(self._D @ self._inverse.solve(unit)).sum(axis=1)).ravel()
        return np.asarray(np.maximum(0.0, (1.0 - result) / self.nu))

    @property
    def _forms(self) -> bool:
        """Whether Sigma is kept as a matrix."""
        return self.size <= min(FORM_LIMIT, 2 * self._D.shape[1])

    @cached_property
    def _sigma(self) -> Floats:
        return self.matrix()

    def matrix(self) -> Floats:
        """Sigma, formed."""
        sigma = (np.eye(self.size) - self._D @ self._inverse.solve(self._D.T.toarray())) / self.nu
        return np.asarray((sigma + sigma.T) / 2)

    def block(self, rows: Any, columns: Any) -> Floats:
        """Sigma[rows][:, columns]; a single column comes as a vector."""
        if np.ndim(columns) == 0:
            return np.asarray(self.block(rows, [columns])[:, 0])
        rows, columns = np.asarray(rows, dtype=np.intp), np.asarray(columns, dtype=np.intp)
        if self._forms:
            return np.asarray(self._sigma[rows[:, None], columns])
        if not len(rows) or not len(columns):
            return np.zeros((len(rows), len(columns)))
        solved = self._solved(columns)
        return np.asarray(((rows[:, None] == columns) - self._D[rows] @ solved) / self.nu)

    def _solved(self, columns: NDArray[np.intp]) -> Floats:
        """K D_j' for these rows j of D; each is solved for once."""
        fresh = [int(j) for j in columns if int(j) not in self._columns]
        if fresh:
            found = self._inverse.solve(self._D[fresh].T.toarray())
            self._columns.update((j, np.ascontiguousarray(found[:, at])) for at, j in enumerate(fresh))
        return np.column_stack([self._columns[int(j)] for j in columns])

    def speed(self, support: Any, values: Any) -> Floats:
        """q - Sigma[:, support] @ values: how fast every entry of the dual moves."""
        support, values = np.asarray(support, dtype=np.intp), np.asarray(values, dtype=np.float64)
        if not len(support):
            return self.linear.copy()
        if self._forms:
            return np.asarray(self.linear - values @ self._sigma[support])
        gamma = np.zeros(self.size)
        gamma[support] = values
        # Sigma times gamma, and not D beta - gamma at once: the linear part stays what it is, to the last digit
        followed = self._D @ self._inverse.solve(self._D.T @ gamma)
        return np.asarray(self.linear - (gamma - followed) / self.nu)

    def beta(self, gamma: Any) -> Floats:
        """The best coefficients for this gamma: dense, they predict."""
        return np.asarray(self._free + self._inverse.solve(self._D.T @ np.asarray(gamma, dtype=np.float64)))
