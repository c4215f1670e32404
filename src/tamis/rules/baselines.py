"""What every rule model is compared with: a constant, and the best certified model over single conditions.

The comparison says in words whether conjunctions are worth their length here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.dual import constant_model
from tamis.rules.fitting import Fitted, Held, Plan, fit_path
from tamis.rules.task import Task

Array = NDArray[Any]


def baselines(plan: Plan, fitted: Fitted, scoring: str | None) -> dict[str, dict[str, Any]]:
    """Name -> kind, score (mean error, lower is better), its standard error, rules, gap, and a sentence."""
    single = _single(plan, fitted, scoring)
    found = {"constant": _constant(plan, fitted, scoring), "single conditions": _row("single conditions", single, plan, scoring)}
    found["model"] = _row("rules", fitted, plan, scoring)
    found["model"]["sentence"] = _verdict(fitted, single, found, scoring)
    return found


def _single(plan: Plan, fitted: Fitted, scoring: str | None) -> Fitted:
    """Length 1 on the same literals, folds and certificate; the model itself where it already is that."""
    if plan.settings.max_length == 1:
        return fitted
    alone = plan.single()
    folds = [Held([_shortened(alone, held, k) for k in range(len(held.built))], held.scorer, held.task, held.rows) for held in fitted.folds]
    built = [_again(alone, part) for part in fitted.built]
    by: Any = plan.model.choose if plan.model.C is None and plan.model.choose in ("cv", "cv-best", "ebic", "bic", "aic") else "last"
    return fit_path(alone, built, by, folds, scoring=scoring)


def _shortened(plan: Plan, held: Held, k: int) -> Any:
    return _again(plan, held.built[k])


def _again(plan: Plan, part: Any) -> Any:
    """The same rows under a lattice of single conditions."""
    from dataclasses import replace

    from tamis.structures.lattice import ConjunctionLattice

    old = part.lattice
    lattice = ConjunctionLattice(
        part.rows.literals, rho=old.rho, growth=old.growth, max_length=1, names=old.names, row_units=old.row_units,
        min_units=old.min_units, silent=sorted(old.silent), sign=old.sign, threads=old.threads,
    )  # fmt: skip
    return replace(part, problem=replace(part.problem, structure=lattice), settings=plan.settings)


def _row(kind: str, fitted: Fitted, plan: Plan, scoring: str | None) -> dict[str, Any]:
    """One line of the comparison."""
    score, error = _score(fitted, plan, scoring)
    knot = fitted.knot
    sentence = f"{len(knot.atoms)} rules. {knot.certificate.sentence()}"
    return {"kind": kind, "score": score, "error": error, "rules": len(knot.atoms), "gap": knot.certificate.gap, "sentence": sentence}


def _score(fitted: Fitted, plan: Plan, scoring: str | None) -> tuple[float, float]:
    """Validated where there were folds, else on the training rows (said so by an error of NaN)."""
    means = fitted.path.scores.get("mean", ())
    if fitted.chosen < len(means):
        return float(means[fitted.chosen]), float(fitted.path.scores["error"][fitted.chosen])
    return _training(fitted, plan.task, scoring), float("nan")


def _training(fitted: Fitted, task: Task, scoring: str | None) -> float:
    """Error of the chosen knot on the training rows."""
    knot, rows = fitted.knot, fitted.built[0].rows
    held = fitted.built[0].lattice.columns(knot.atoms)
    score = held.dot(None, knot.coefficients) + knot.intercept if len(knot.atoms) else np.tile(knot.intercept, (rows.literals.rows, 1))
    there = rows.design_row >= 0
    return task.rows(np.flatnonzero(there)).error(np.asarray(score)[rows.design_row[there]], scoring)


def _constant(plan: Plan, fitted: Fitted, scoring: str | None) -> dict[str, Any]:
    """Majority, frequencies or mean, learned per fold."""
    kind = "majority" if plan.task.classes else "mean"

    def level(built: Any) -> Array:
        return np.concatenate([constant_model(part.rows.targets, part.rows.targets.columns)[0] for part in built])

    if fitted.folds:
        errors = np.array([held.task.error(np.tile(level(held.built), (len(held.rows), 1)), scoring) for held in fitted.folds])
        score, error = float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(len(errors)))
    else:
        there = np.flatnonzero(plan.task.weight > 0)
        score, error = plan.task.rows(there).error(np.tile(level(fitted.built), (len(there), 1)), scoring), float("nan")
    return {"kind": kind, "score": score, "error": error, "rules": 0, "gap": 0.0, "sentence": f"The {kind} for every row."}


def _verdict(fitted: Fitted, single: Fitted, found: dict[str, dict[str, Any]], scoring: str | None) -> str:
    """Do conjunctions pay, by the folds' paired differences?"""
    what = {None: "mean loss", "loss": "mean loss"}.get(scoring, f"error ({scoring})")
    if fitted is single:
        return "Only single conditions were allowed."
    difference = found["single conditions"]["score"] - found["model"]["score"]
    folds, alone = fitted.path.scores.get("folds"), single.path.scores.get("folds")
    if folds is None or alone is None or fitted.chosen >= folds.shape[1] or single.chosen >= alone.shape[1]:
        return f"On the training rows, conjunctions change the {what} by {-difference:+.3g} against single conditions (not validated)."
    paired = alone[:, single.chosen] - folds[:, fitted.chosen]
    spread = float(paired.std(ddof=1) / np.sqrt(len(paired)))
    worth = "worth it here" if difference > 2 * spread else "not worth it here" if difference < spread else "perhaps worth it here"
    return f"Conjunctions improve the {what} by {difference:+.3g} +- {spread:.2g} over single conditions: {worth}."
