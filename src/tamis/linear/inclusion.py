"""How far a path of knots is from solving its own equations, computed from its times and coefficients alone.

R(t), the time integral of the residual, follows from the knots; rho = X'R/n is linear between them. At every knot no
dual may lie outside its bounds, and at both ends of every interval the duals of nonzero coefficients stand at their sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import column_blocks
from tamis.core.path import Knot
from tamis.linear.prepare import Prepared

Array = NDArray[Any]
STRIDE = 8
DOUBT = 1e-6  # columns whose bound comes this close to their limit are computed exactly


@dataclass(frozen=True)
class Residuals:
    """Per knot; `worst` is the largest violation met up to the knot.

    `dual_error` bounds how far the duals can be from those of the exact path (a rigorous but loose bound: a square
    root of rounding); `largest` is the largest speed of any dual, what is left to be explained (NaN where not everyone was asked for).
    """

    worst: Array
    dual_error: Array
    mean_square: Array
    largest: Array


def inclusion(knots: Sequence[Knot], prepared: Prepared, one_sided: Array | None = None, *, everyone: bool = False) -> Residuals:
    """Violations of all knots; `everyone` computes every column's dual at every knot, for the largest speed."""
    times = np.array([knot.t for knot in knots])
    columns, coefficients = _coefficients(knots, prepared)
    residual = np.repeat(prepared.target, len(knots), axis=1)
    if len(columns):
        residual -= prepared.design.dot(columns, coefficients)
    step = np.diff(times)
    total = np.zeros_like(residual)
    np.cumsum(residual[:, :-1] * step, axis=1, out=total[:, 1:])
    over, largest, dual = _duals(prepared, total, residual[:, -1], times, columns, one_sided, everyone)
    sizes = np.linalg.norm(residual, axis=0)
    worst = np.maximum(over, _sign_violations(coefficients, dual, len(knots)))
    worst[1:] = np.maximum(worst[1:], np.diff(sizes) / max(float(sizes[0]), 1e-300))
    worst = np.maximum.accumulate(np.maximum(worst, 0.0))
    return Residuals(worst, _dual_error(coefficients, dual, over, step, sizes, total, prepared), sizes**2 / prepared.rows, largest)


def _coefficients(knots: Sequence[Knot], prepared: Prepared) -> tuple[Array, Array]:
    """Prepared columns that any knot holds, and their coefficients (columns, knots) on the prepared scale."""
    place = {int(j): i for i, j in enumerate(prepared.scaling.kept)}
    held = sorted({atom[0] for knot in knots for atom in knot.atoms if atom[0] in place})
    where = {j: i for i, j in enumerate(held)}
    coefficients = np.zeros((len(held), len(knots)))
    for k, knot in enumerate(knots):
        for (j,), value in zip(knot.atoms, knot.coefficients[:, 0], strict=True):
            if j in where:
                coefficients[where[j], k] = value
    columns = np.array([place[j] for j in held], dtype=np.intp)
    return columns, coefficients * prepared.scaling.scale[columns][:, None]


def _duals(
    prepared: Prepared, total: Array, last: Array, times: Array, columns: Array, one_sided: Array | None, everyone: bool
) -> tuple[Array, Array, Array]:
    """(excess over the bounds, largest speed) per knot over all columns, and the duals of some columns (columns, knots).

    Between every few knots a dual is within |x_j| |R - chord of R| / n of its own chord. Unless `everyone` is asked for, columns that
    this keeps inside their bounds are only looked at at the ends of these stretches, and the largest speed is not known (NaN).
    """
    knots = len(times)
    over, largest = np.full(knots, -np.inf), np.full(knots, 0.0 if everyone else np.nan)
    dual = np.zeros((len(columns), knots))
    ends, bow = _stretches(total, times)
    # no more duals at once than the columns of one block have cells
    for run in column_blocks(prepared.design.shape[1], max(prepared.rows, knots)):
        block = prepared.design.block(run)
        inside = np.flatnonzero((columns >= run.start) & (columns < run.stop))
        exact = np.arange(block.shape[1])
        if not everyone:
            rough = _sided(block.T @ total[:, ends] / prepared.rows, one_sided, run)
            reach = np.sqrt(np.einsum("ij,ij->j", block, block)) / prepared.rows
            doubtful = (np.maximum(rough[:, :-1], rough[:, 1:]) + reach[:, None] * bow >= 1.0 - DOUBT).any(axis=1)
            doubtful[columns[inside] - run.start] = True
            over[ends] = np.maximum(over[ends], rough.max(axis=0, initial=-np.inf) - 1.0)
            exact = np.flatnonzero(doubtful)
        rho = block[:, exact].T @ total / prepared.rows
        over = np.maximum(over, _sided(rho, one_sided, slice(run.start, run.stop), exact).max(axis=0, initial=-np.inf) - 1.0)
        if everyone:
            after = (block.T @ last)[:, None] / prepared.rows
            largest = np.maximum(largest, np.abs(np.hstack([np.diff(rho, axis=1) / np.diff(times), after])).max(axis=0, initial=0.0))
        dual[inside] = rho[np.searchsorted(exact, columns[inside] - run.start)]
    return np.maximum(over, -1.0), largest, dual


def _stretches(total: Array, times: Array) -> tuple[Array, Array]:
    """Every STRIDE-th knot and the last, and how far R bows away from its chord between two of them."""
    knots = len(times)
    ends = np.unique(np.append(np.arange(0, knots, STRIDE), knots - 1))
    left = np.minimum(np.arange(knots) // STRIDE, max(len(ends) - 2, 0))
    if len(ends) < 2:
        return ends, np.zeros(0)
    share = (times - times[ends[left]]) / (times[ends[left + 1]] - times[ends[left]])
    away = np.linalg.norm(total - ((1 - share) * total[:, ends[left]] + share * total[:, ends[left + 1]]), axis=0)
    return ends, np.maximum.reduceat(away, ends[:-1])


def _sided(rho: Array, one_sided: Array | None, run: slice, rows: Array | None = None) -> Array:
    """How near duals are to the bounds they have: 1 is there."""
    if one_sided is None:
        return np.abs(rho)
    sided = one_sided[run] if rows is None else one_sided[run][rows]
    return np.where(sided[:, None], rho, np.abs(rho))


def _sign_violations(coefficients: Array, dual: Array, knots: int) -> Array:
    """Largest distance of a held dual from its sign: at the knot, and at the end of the interval before it."""
    sign = np.sign(coefficients)
    at = np.where(sign != 0, np.abs(sign - dual), 0.0).max(axis=0, initial=0.0)
    before = np.zeros(knots)
    before[1:] = np.where(sign[:, :-1] != 0, np.abs(sign[:, :-1] - dual[:, 1:]), 0.0).max(axis=0, initial=0.0)
    return np.maximum(at, before)


def _dual_error(coefficients: Array, dual: Array, over: Array, step: Array, sizes: Array, total: Array, prepared: Prepared) -> Array:
    """Cumulative bound on |rho - exact rho|, after pulling the duals back into their box."""
    excess = np.maximum(np.maximum.accumulate(over), 0.0)
    inside = dual / (1.0 + excess)
    left = np.maximum(1.0 - np.sign(coefficients) * inside, 0.0)
    right = np.zeros_like(left)
    right[:, :-1] = np.maximum(1.0 - np.sign(coefficients[:, :-1]) * inside[:, 1:], 0.0)
    gap = (np.abs(coefficients) * np.where(coefficients != 0, np.maximum(left, right), 0.0)).sum(axis=0)
    spent = np.concatenate([[0.0], np.cumsum(step * gap[:-1])])
    moved = np.concatenate([[0.0], np.cumsum(step * sizes[:-1])])
    away = np.sqrt(2.0 * prepared.rows * spent) + excess * (moved + np.maximum.accumulate(np.linalg.norm(total, axis=0)))
    return np.asarray(away / np.sqrt(prepared.rows))
