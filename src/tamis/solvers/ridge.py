"""Ridge-penalised losses on a few columns, by Newton's method with a duality gap: refits and calibrations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from tamis.core.design import Design
from tamis.core.dual import balanced
from tamis.core.loss import Targets

Floats = NDArray[np.float64]


def solve_ridge(
    design: Design, targets: Targets, ridge: float, weights: Floats, level: Floats, rounds: int = 100
) -> tuple[Floats, Floats, float]:
    """(weights, constants, relative gap) of min ridge / 2 |weights|^2 + loss, constants free.

    A loss with a corner is rounded off more and more tightly.
    """
    width, gap = 1.0, np.inf
    score = design.dot(None, weights) + level
    for _ in range(rounds):
        work = targets if targets.loss.smooth else targets.with_loss(targets.loss.smoothed(width))
        pull = work.pull(score)
        value = 0.5 * ridge * float((weights**2).sum()) + targets.value(score)
        feasible = balanced(targets, pull)
        force = design.score(targets.fold(feasible))
        bound = targets.dual(feasible) - 0.5 * float((force**2).sum()) / ridge
        gap = min(gap, (value - bound) / max(abs(value), 1e-300))
        if gap <= 1e-9:
            break
        step, rise = _newton(design, work, ridge, weights, score, pull)
        moved = _search(design, work, ridge, (weights, level, score), (step, rise))
        if moved is None and (targets.loss.smooth or width < 1e-7):
            break
        weights, level, score = moved or (weights, level, score)
        width *= 0.4
    return weights, level, float(max(gap, 0.0))


def _newton(design: Design, work: Targets, ridge: float, weights: Floats, score: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """The Newton step for weights and constants of all columns together."""
    curvature, (count, columns) = work.curvature(score), weights.shape
    folded = work.fold(pull)
    slope = np.concatenate([design.score(folded) - ridge * weights, folded.sum(axis=0)[None]])
    size = count + 1
    matrix = np.zeros((columns * size, columns * size))
    for a in range(columns):
        for b in range(columns):
            row = curvature[:, a, b] if curvature.ndim == 3 else curvature[:, a]
            block = matrix[a * size : (a + 1) * size, b * size : (b + 1) * size]
            block[:count, :count] = design.gram(None, np.ascontiguousarray(row))
            block[:count, count] = block[count, :count] = design.score(row[:, None])[:, 0]
            block[count, count] = row.sum()
    diagonal = np.einsum("ii->i", matrix)
    penalty = np.tile(np.append(np.full(count, ridge), 0.0), columns)
    diagonal += penalty + 1e-12 * max(float(diagonal.max(initial=0.0)), 1e-300)
    step = solve(matrix, slope.T.ravel(), assume_a="sym").reshape(columns, size).T
    return step[:count], step[count]


def _search(design: Design, work: Targets, ridge: float, at: tuple[Floats, Floats, Floats], move: tuple[Floats, Floats]) -> Any:
    """Halve the step until the objective falls; None when it cannot."""
    weights, level, score = at
    along = design.dot(None, move[0]) + move[1]
    now = 0.5 * ridge * float((weights**2).sum()) + work.value(score)
    step = 1.0
    while step > 1e-8:
        new = weights + step * move[0]
        if 0.5 * ridge * float((new**2).sum()) + work.value(score + step * along) < now:
            return new, level + step * move[1], score + step * along
        step *= 0.5
    return None
