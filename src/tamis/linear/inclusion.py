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


@dataclass(frozen=True)
class Residuals:
    """Per knot; `worst` is the largest violation met up to the knot.

    `dual_error` bounds how far the duals can be from those of the exact path (a rigorous but loose bound: a square
    root of rounding); `largest` is the largest speed of any dual, what is left to be explained.
    """

    worst: Array
    dual_error: Array
    mean_square: Array
    largest: Array


def inclusion(knots: Sequence[Knot], prepared: Prepared, one_sided: Array | None = None) -> Residuals:
    """Violations of all knots, with one product of the columns with all knots' integrals."""
    times = np.array([knot.t for knot in knots])
    columns, coefficients = _coefficients(knots, prepared)
    residual = np.repeat(prepared.target, len(knots), axis=1)
    if len(columns):
        residual -= prepared.design.dot(columns, coefficients)
    step = np.diff(times)
    total = np.zeros_like(residual)
    np.cumsum(residual[:, :-1] * step, axis=1, out=total[:, 1:])
    over, largest, dual = _duals(prepared, total, residual[:, -1], step, columns, one_sided)
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
    prepared: Prepared, total: Array, last: Array, step: Array, columns: Array, one_sided: Array | None
) -> tuple[Array, Array, Array]:
    """(excess over the bounds, largest speed) per knot over all columns, and the duals of some columns (columns, knots)."""
    over, largest = np.full(total.shape[1], -np.inf), np.zeros(total.shape[1])
    dual = np.zeros((len(columns), total.shape[1]))
    # no more duals at once than the columns of one block have cells
    for run in column_blocks(prepared.design.shape[1], max(prepared.rows, total.shape[1])):
        block = prepared.design.block(run)
        rho = block.T @ total / prepared.rows
        sided = rho if one_sided is None else np.where(one_sided[run][:, None], rho, np.abs(rho))
        over = np.maximum(over, (np.abs(rho) if one_sided is None else sided).max(axis=0) - 1.0)
        speed = np.abs(np.concatenate([np.diff(rho, axis=1) / step, (block.T @ last)[:, None] / prepared.rows], axis=1))
        largest = np.maximum(largest, speed.max(axis=0))
        inside = np.flatnonzero((columns >= run.start) & (columns < run.stop))
        dual[inside] = rho[columns[inside] - run.start]
    return over, largest, dual


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
