"""Columns brought to one scale and targets to the middle, and coefficients brought back to their own units.

Time on a path is measured in the units of prepared columns: mean 0 and mean square 1 under the row weights (only
the mean is taken out where columns are not standardised). Weights have mean 1, so that repeating a row is weighting it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import CACHED, Dense, Design, Picked, Projected, Standardized, Weighted, column_blocks, column_sums
from tamis.linear.inputs import Columns

Array = NDArray[Any]


@dataclass(frozen=True)
class Setup:
    """What a fit makes of its columns.

    Attributes
    ----------
    fit_intercept, standardize : bool
    factors : ndarray (columns,)
        How much dearer each column is; 0 = free, infinity = left out.
    one_sided : ndarray of bool or None
        Columns whose coefficients may not be negative.
    """

    fit_intercept: bool = True
    standardize: bool = True
    factors: Array | None = None
    one_sided: Array | None = None


@dataclass(frozen=True)
class Scaling:
    """Between columns in their own units and prepared ones.

    Attributes
    ----------
    kept : ndarray of int
        Positions of the penalised columns among all.
    center, scale : ndarray (kept,)
        From a column to its prepared form: (x - center) / scale.
    mean : ndarray
        What was subtracted from the targets.
    free : Free or None
        Columns without a price, fitted beside the others.
    still : ndarray of int
        Columns that do not vary, and so never enter.
    """

    kept: Array
    center: Array
    scale: Array
    mean: Array
    free: Free | None = None
    still: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def back(self, columns: Array, values: Array, level: Any = 0.0) -> tuple[Array, Array, Array]:
        """(positions, coefficients, intercept) in their own units of a model of prepared columns."""
        own = (values.T / self.scale[columns]).T
        positions, level = self.kept[columns], self.mean + level - self.center[columns] @ own
        if self.free is None:
            return positions, own, level
        beside = self.free.values(columns, values)
        return np.concatenate([self.free.positions, positions]), np.concatenate([beside, own]), level - self.free.center @ beside


@dataclass(frozen=True)
class Prepared:
    """A training problem on one scale.

    Attributes
    ----------
    scaling : Scaling
    design : Design
        Penalised columns: centred, scaled, with sqrt(weight) in the rows when `rooted`.
    target : ndarray (rows, scores)
        Centred when the loss is squared, and weighted like the rows when `rooted`.
    weight : ndarray (rows,)
        Mean 1.
    """

    scaling: Scaling
    design: Design
    target: Array
    weight: Array

    @property
    def rows(self) -> int:
        """Rows of the problem."""
        return len(self.weight)


@dataclass(frozen=True)
class Free:
    """Columns that are fitted without a price: least squares on what the others leave."""

    positions: Array
    center: Array
    solve: Array  # (free columns, rows): their least squares coefficients
    design: Design  # the penalised columns before anything was projected out
    goal: Array

    def values(self, columns: Array, values: Array) -> Array:
        """Coefficients of the free columns beside those of some prepared columns."""
        return np.asarray(self.solve @ (self.goal - self.design.dot(columns, values)))


def prepare(
    columns: Columns, target: Array, weight: Array, setup: Setup, *, squared: bool, rooted: bool = False, whole: bool = False
) -> Prepared:  # fmt: skip
    """Bring a training problem to one scale; rows without weight are left out by the caller.

    `rooted`: fold the weights of a squared loss into rows and targets; prices of columns become part of their scale.
    `whole`: columns that do not vary stay as they are, because something else than the rows speaks of them, too.
    """
    rows, count = columns.design.shape
    weight = weight * (len(weight) / weight.sum())
    factors = np.ones(count) if setup.factors is None or not rooted else setup.factors
    center, spread = _spread(columns.design, weight, setup.fit_intercept)
    scale = np.where(spread > 0, spread, 1.0) if setup.standardize else np.ones(count)
    still = np.flatnonzero(spread == 0)
    kept = np.flatnonzero((factors > 0) & np.isfinite(factors) & (spread > 0)) if rooted and not whole else np.arange(count)
    if not (rooted or whole):
        scale[still] = np.inf  # such columns become exactly zero, and stay in the groups they belong to
    mean = (weight @ target) / rows if squared and setup.fit_intercept else np.zeros(target.shape[1])
    centred = _centred(columns.design, kept, center, scale * np.where(np.isfinite(factors) & (factors > 0), factors, 1.0))
    scaling = Scaling(kept, center[kept], (scale * np.where(factors > 0, factors, 1.0))[kept], mean, still=still)
    goal = target - mean
    if not rooted:
        return Prepared(scaling, centred, goal, weight)
    if np.any(weight != 1.0):
        root = np.sqrt(weight)
        goal = root[:, None] * goal
        centred = Dense(np.asfortranarray(root[:, None] * centred.matrix)) if isinstance(centred, Dense) else Weighted(centred, root)
    if np.any(factors == 0):
        centred, goal, free = _without_free(columns, np.flatnonzero(factors == 0), center, weight, centred, goal)
        scaling = replace(scaling, free=free)
    return Prepared(scaling, centred, goal, weight)


def _spread(design: Design, weight: Array, centred: bool) -> tuple[Array, Array]:
    """What is subtracted from each column, and the root mean square of what is left: 0 for columns that do not vary."""
    if not centred:
        size = np.sqrt(column_sums(design, lambda block, _: weight @ block**2) / len(weight))
        return np.zeros(len(size)), size
    standard = Standardized.of(design, weight)
    return standard.center, np.where(np.asarray(standard.varies), standard.scale, 0.0)


def _centred(design: Design, kept: Array, center: Array, scale: Array) -> Design:
    """The kept columns, centred and scaled: copied when dense, on the fly when not."""
    if isinstance(design, Dense):
        return Dense(_prepared_matrix(design.matrix, kept, center, scale))
    part = _Picked(design, kept) if len(kept) < design.shape[1] else design
    return Standardized(part, center[kept], scale[kept])


def _prepared_matrix(matrix: Array, kept: Array, center: Array, scale: Array) -> Array:
    """A dense copy, centred and scaled, by runs of columns."""
    made = np.empty((len(matrix), len(kept)), order="F")
    whole = len(kept) == matrix.shape[1]
    for run in column_blocks(len(kept), len(matrix), CACHED):
        where = run if whole else kept[run]  # slices, that nothing is copied twice
        np.subtract(matrix[:, where], center[where], out=made[:, run])
        made[:, run] /= scale[where]
    return made


def _without_free(
    columns: Columns, positions: Array, center: Array, weight: Array, design: Design, goal: Array
) -> tuple[Design, Array, Free]:
    """The problem that is left when some columns are fitted freely: everything outside their span."""
    root = np.sqrt(weight)
    block = root[:, None] * (columns.design.block(positions) - center[positions])
    left, sizes, right = np.linalg.svd(block, full_matrices=False)
    used = sizes > 1e-12 * sizes.max(initial=0.0)
    basis = left[:, used]
    outside = Projected(design, basis)
    solve = (right[used].T / sizes[used]) @ basis.T
    return outside, outside.outside(goal), Free(positions, center[positions], solve, design, goal)


@dataclass(frozen=True)
class _Picked:
    """Some columns of a design, as a design."""

    inner: Design
    columns: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], len(self.columns)

    def _of(self, columns: Picked) -> Array:
        return self.columns if columns is None else self.columns[columns]

    def block(self, columns: Picked = None) -> Array:
        return self.inner.block(self._of(columns))

    def dot(self, columns: Array | None, weights: Array) -> Array:
        return self.inner.dot(self._of(columns), weights)

    def score(self, residual: Array) -> Array:
        return np.asarray(self.inner.score(residual)[self.columns])

    def gram(self, columns: Array | None = None, weights: Array | None = None) -> Array:
        return self.inner.gram(self._of(columns), weights)
