"""After selection: weights refitted on the chosen rules, and probabilities for margins that have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.loss import Logistic, Targets
from tamis.core.path import Knot
from tamis.rules.fitting import Fitted
from tamis.solvers.ridge import solve_ridge

Array = NDArray[Any]
RIDGE = 1e-4


def refitted(knot: Knot, built: Sequence[Any]) -> tuple[Array, Array, str]:
    """Weights and constants of the chosen rules by nearly unpenalised likelihood, and a note that says so."""
    parts, gaps = [], []
    for k, part in enumerate(built):
        design = part.lattice.columns(knot.atoms)
        targets = part.rows.targets
        start = knot.coefficients if len(built) == 1 else knot.coefficients[:, [k]]
        level = knot.intercept if len(built) == 1 else knot.intercept[[k]]
        weights, constant, gap = solve_ridge(design, targets, RIDGE * float(targets.weight.sum()) / len(targets.weight), start, level)
        parts.append((weights, constant))
        gaps.append(gap)
    weights = np.concatenate([weights for weights, _ in parts], axis=1)
    constant = np.concatenate([constant for _, constant in parts])
    note = (
        "Weights refitted after selection: the certificate speaks of the selection fit; the refitted weights are within "
        f"{max(gaps):.1e} (relative) of the best for these rules."
    )
    return weights, constant, note


def platt_of(fitted: Fitted) -> tuple[tuple[float, float], ...]:
    """Slope and shift per score column that turn out-of-fold margins into probabilities; empty without folds."""
    if not fitted.folds or any(len(held.kept) <= fitted.chosen for held in fitted.folds):
        return ()
    score = np.concatenate([held.kept[fitted.chosen] for held in fitted.folds])
    truth = np.concatenate([held.task.y for held in fitted.folds])
    weight = np.concatenate([held.task.row_weight for held in fitted.folds])
    return tuple(_slope_and_shift(score[:, k], truth[:, k], weight) for k in range(score.shape[1]))


def _slope_and_shift(score: Array, truth: Array, weight: Array) -> tuple[float, float]:
    """Logistic regression on one score."""
    from tamis.core.design import Dense

    targets = Targets(Logistic(), truth[:, None], weight, np.zeros((len(score), 1)))
    scale = float(np.abs(score).max()) or 1.0
    weights, constant, _ = solve_ridge(Dense(score[:, None] / scale), targets, 1e-6 * float(weight.sum()), np.zeros((1, 1)), np.zeros(1))
    return float(weights[0, 0] / scale), float(constant[0])
