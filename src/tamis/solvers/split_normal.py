"""Solving with K = (factor X'X + D'D)^+, the matrix behind split inverse scale space, by whichever way the data makes cheap.

Dense Cholesky, sparse factorisation, or Woodbury when there are more columns than rows. Directions that neither X nor D sees
(the common shift of all scores in a ranking) are taken out, never divided by their rounding: K is the pseudo-inverse, and a
direction counts as unseen when its eigenvalue, with columns scaled to a unit diagonal, is at most 1e-12 of the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from tamis.core.errors import TamisError

Floats = NDArray[np.float64]
CUT = 1e-12  # relative; see above
EXACT_NORM = 600  # up to this many rows or columns spectral norms come from a full eigenvalue problem
SPARSE_FROM = 150  # columns below which dense matrices win
DENSE_LIMIT = 8000  # columns beyond which no dense square matrix is formed
FILLED = 0.1  # share of nonzeros beyond which a sparse factorisation does not pay


class Inverse(Protocol):
    """K, as something that multiplies."""

    @property
    def rank(self) -> int:
        """Directions that are seen."""
        ...

    def solve(self, right: Floats) -> Floats:
        """K times a vector (columns,) or a matrix (columns, any)."""
        ...


class SingularError(ArithmeticError):
    """A fast way found a direction that it cannot leave out; the dense way can."""


def normal_inverse(X: Any, D: Any, factor: float, route: str | None = None) -> Inverse:
    """(factor X'X + D'D)^+ for X dense or sparse and D sparse; the route is chosen by shape unless named."""
    rows, columns = X.shape
    D = sparse.csr_array(D)
    ways: dict[str, Callable[[Any, Any, float], Inverse]] = {"dense": DenseInverse, "sparse": SparseInverse, "woodbury": WoodburyInverse}
    order: tuple[str, ...]
    if route is not None:
        return ways[route](X, D, factor)
    if columns >= SPARSE_FROM and columns > rows:
        order = ("woodbury", "dense")
    elif columns >= SPARSE_FROM and sparse.issparse(X):
        order = ("sparse", "dense")
    else:
        order = ("dense",)
    for way in order:
        if way == "dense" and columns > DENSE_LIMIT:
            break
        try:
            return ways[way](X, D, factor)
        except SingularError:
            continue
    raise TamisError(
        f"{columns} columns are too many for a transform with so many connections, or that leaves directions undetermined, so nothing was "
        f"fitted; add the identity to the transform, use a sparser one, or at most {DENSE_LIMIT} columns."
    )


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def _unit_diagonal(diagonal: Floats) -> Floats:
    """Scales that give a matrix a unit diagonal; 1 where it has none."""
    return 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


class DenseInverse:
    """Cholesky on the matrix scaled to a unit diagonal; eigenvectors when that is singular."""

    def __init__(self, X: Any, D: Any, factor: float) -> None:
        matrix = factor * _dense(X.T @ X) + (D.T @ D).toarray()
        scale = _unit_diagonal(matrix.diagonal())
        matrix = matrix * scale * scale[:, None]
        self._scale = scale
        self._half: Floats | None = None
        factorised, info = linalg.lapack.dpotrf(matrix, lower=0, clean=0)
        if info == 0:
            known, info = linalg.lapack.dpocon(factorised, np.abs(matrix).sum(axis=0).max())
        if info == 0 and known > CUT:
            self._factor, self.rank = factorised, len(matrix)
        else:
            self._half = _half_of_pseudo_inverse(matrix, scale)
            self.rank = self._half.shape[1]

    def solve(self, right: Floats) -> Floats:
        """K @ right."""
        if self._half is not None:
            return np.asarray(self._half @ (self._half.T @ right))
        scaled = (right.T * self._scale).T
        solved, _ = linalg.lapack.dpotrs(self._factor, scaled, lower=0)
        return np.asarray((solved.reshape(right.shape).T * self._scale).T)


def _half_of_pseudo_inverse(matrix: Floats, scale: Floats) -> Floats:
    """A with A A' = M^+ for M = S^-1 matrix S^-1: P G P with G any symmetric generalised inverse and P the projection on M's range."""
    values, vectors = linalg.eigh(matrix)
    kept = values > CUT * values[-1]
    half = (scale[:, None] * vectors[:, kept]) / np.sqrt(values[kept])
    if not np.all(kept):
        unseen, _ = linalg.qr(scale[:, None] * vectors[:, ~kept], mode="economic")
        half -= unseen @ (unseen.T @ half)
    return np.asarray(half)


@dataclass(frozen=True)
class Shifts:
    """Components of coefficients whose common shift a matrix does not see, each with one coefficient grounded at zero."""

    label: NDArray[np.intp]
    unseen: NDArray[np.bool_]  # per component
    ground: NDArray[np.intp]  # one column per unseen component

    @classmethod
    def of(cls, matrix: Any) -> Shifts:
        """Read off a sparse symmetric positive semidefinite matrix: 1_C'M 1_C = 0 is M 1_C = 0."""
        count, label = sparse.csgraph.connected_components(matrix, directed=False)
        moved = np.abs(matrix @ np.ones(matrix.shape[0]))
        size = np.zeros(count)
        np.maximum.at(size, label, matrix.diagonal())
        most = np.zeros(count)
        np.maximum.at(most, label, moved)
        unseen = most <= CUT * size
        first = np.full(count, matrix.shape[0])
        np.minimum.at(first, label, np.arange(matrix.shape[0]))
        return cls(label, unseen, first[unseen])

    def centred(self, values: Floats) -> Floats:
        """Values with the mean taken off every unseen component."""
        if not len(self.ground):
            return values
        average = self.averages()
        return np.asarray(values - average.T @ (average @ values))

    def averages(self) -> Any:
        """Orthonormal indicators of the unseen components, (components, columns)."""
        count = np.bincount(self.label)
        order = np.cumsum(self.unseen) - 1
        inside = np.flatnonzero(self.unseen[self.label])
        value = 1.0 / np.sqrt(count[self.label[inside]])
        return sparse.csr_array((value, (order[self.label[inside]], inside)), shape=(len(self.ground), len(self.label)))


class SparseFactor:
    """A sparse positive definite matrix, factorised; refuses one that is singular."""

    def __init__(self, matrix: Any) -> None:
        self._scale = _unit_diagonal(matrix.diagonal())
        turn = sparse.diags_array(self._scale)
        scaled = sparse.csc_array(turn @ matrix @ turn)
        self._diagonal = bool(scaled.nnz == scaled.shape[0] and np.all(scaled.diagonal() != 0))
        if self._diagonal or not scaled.shape[0]:
            return
        if scaled.nnz > max(FILLED * scaled.shape[0] ** 2, 50 * scaled.shape[0]):
            raise SingularError
        try:
            self._lu = splu(scaled, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError:
            raise SingularError from None
        if self._lu.U.diagonal().min() <= CUT:
            raise SingularError

    def solve(self, right: Floats) -> Floats:
        """matrix^-1 @ right."""
        scaled = (right.T * self._scale).T
        inner = scaled if self._diagonal or not len(right) else self._lu.solve(np.ascontiguousarray(scaled))
        return np.asarray((inner.T * self._scale).T)


class SparseInverse:
    """A sparse factorisation of what is left when unseen shifts are grounded, projected back."""

    def __init__(self, X: Any, D: Any, factor: float) -> None:
        held = sparse.csr_array(X)
        matrix = sparse.csr_array(factor * (held.T @ held) + D.T @ D)
        self._shifts = Shifts.of(matrix)
        self._kept = np.setdiff1d(np.arange(matrix.shape[0]), self._shifts.ground)
        self._inner = SparseFactor(matrix[self._kept][:, self._kept])
        self.rank = len(self._kept)

    def solve(self, right: Floats) -> Floats:
        """K @ right."""
        result = np.zeros_like(right)
        result[self._kept] = self._inner.solve(self._shifts.centred(right)[self._kept])
        return self._shifts.centred(result)


class WoodburyInverse:
    """A system of the size of the rows beside D'D, which is sparse.

    Where D'D does not see the shift of a component (differences alone), D'D is made definite by `stiffness` on one coefficient of it,
    and the same is taken off again inside the small system, where it cancels exactly: its block there is 0.
    """

    def __init__(self, X: Any, D: Any, factor: float) -> None:
        rows, columns = X.shape
        self.rank = columns
        matrix = sparse.csr_array(D.T @ D)
        shifts = Shifts.of(matrix)
        if len(shifts.ground) > rows + 50:
            raise SingularError
        stiffness = float(matrix.diagonal().mean()) or 1.0
        added = np.zeros(columns)
        added[shifts.ground] = stiffness
        self._inner = SparseFactor(sparse.csr_array(matrix + sparse.diags_array(added)))
        self._X, self._D, self._factor = X, D, factor
        one = _components_of(shifts) / np.sqrt(stiffness)
        self._wide = np.column_stack([self._inner.solve(_dense(X.T)), one])
        across = _dense(X @ self._wide)
        small = np.zeros((rows + one.shape[1],) * 2)
        small[:rows] = across
        small[:rows, :rows] += np.eye(rows) / factor
        small[rows:, :rows] = across[:, rows:].T
        self._size = _unit_diagonal(np.maximum(np.abs(small).max(axis=1), 1e-300))
        small = small * self._size * self._size[:, None]
        self._small = linalg.lu_factor(small, check_finite=False)
        known, info = linalg.lapack.dgecon(self._small[0], np.abs(small).sum(axis=0).max())
        if info != 0 or known <= CUT:
            raise SingularError

    def _once(self, right: Floats) -> Floats:
        inner = ((self._wide.T @ right).T * self._size).T
        solved = (linalg.lu_solve(self._small, inner, check_finite=False).T * self._size).T
        return np.asarray(self._inner.solve(right) - self._wide @ solved)

    def solve(self, right: Floats) -> Floats:
        """K @ right, refined once: the difference of two large terms loses digits."""
        result = self._once(right)
        missing = right - self._factor * (self._X.T @ (self._X @ result)) - self._D.T @ (self._D @ result)
        return np.asarray(result + self._once(missing))


def _components_of(shifts: Shifts) -> Floats:
    """Plain indicators of the unseen components, (columns, components)."""
    return np.asarray((shifts.averages().toarray() > 0).T, dtype=np.float64)


def spectral_norm(matrix: Any) -> float:
    """Largest singular value; beyond a size where it is exact, from Lanczos steps and never below the truth by more than 1e-3."""
    rows, columns = matrix.shape
    if min(rows, columns) <= EXACT_NORM:
        gram = _dense(matrix @ matrix.T if rows <= columns else matrix.T @ matrix)
        return float(np.sqrt(max(0.0, linalg.eigvalsh(gram, driver="evd")[-1])))  # the drivers for a part of them fail on equal ones
    operator = LinearOperator((columns, columns), matvec=partial(_both, matrix), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(columns)
    top = eigsh(operator, k=1, v0=start, tol=1e-5, return_eigenvectors=False)[0]
    return float(np.sqrt(max(0.0, top)))


def _both(matrix: Any, vector: Floats) -> Floats:
    return np.asarray(matrix.T @ (matrix @ vector.ravel()))
