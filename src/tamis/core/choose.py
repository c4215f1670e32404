"""Choosing a knot: cross-validation with the one-standard-error rule, information criteria, stability, or a value.

Folds keep step with the main path: after every knot the validation errors are known, so a path ends where
more of the knob only overfits, and whatever interrupts it leaves a path that can still be chosen from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.follow import Run
from tamis.core.path import Knot, Path

Array = NDArray[Any]
PATIENCE = 3  # knots without a new best mean error after which the path ends
INSTABILITY = 0.05  # largest mean instability of pieces that "stability" accepts (StARS)


@dataclass
class Fold:
    """A path on part of the rows, and how to judge its knots on the rest (lower is better)."""

    walk: Run
    error: Callable[[Knot], float]
    weight: float = 1.0
    errors: list[float] = field(default_factory=list)


def race(main: Run, folds: Sequence[Fold], *, patience: int = PATIENCE) -> Path:
    """Advance the main path and its folds together, knot by knot, until the end or until validation says enough.

    Folds ask for less and are cheaper, so they run `patience` knots ahead: the main path, which is certified, is not
    followed to where validation has already seen only overfitting. One knot beyond the best is kept for the eye.
    """
    knots: list[Knot] = []
    ahead, path = [iter(fold.walk) for fold in folds], iter(main)
    leading, enough = bool(folds), math.inf
    while len(knots) < enough:
        if leading:
            leading, enough = _lead(main, folds, ahead, patience)
            if leading and len(folds[0].errors) <= patience:
                continue
        knot = next(path, None)
        if knot is None:
            break
        knots.append(knot)
    status = "stopped" if main.status == "running" else main.status
    return Path(tuple(knots), status, main.problem.knob, {name: found[..., : len(knots)] for name, found in _scores(folds).items()})


def _lead(main: Run, folds: Sequence[Fold], runs: Sequence[Iterator[Knot]], patience: int) -> tuple[bool, float]:
    """One more knot of every fold: whether they go on, and after how many knots the main path should end."""
    found = [next(run, None) for run in runs]
    if main.watch.stop():  # the folds' knots may be cut short, so they are not judged; the main path ends by itself
        return False, math.inf
    reached = len(folds[0].errors)
    if any(knot is None for knot in found):
        return False, math.inf if all(fold.walk.status == "complete" for fold in folds) else max(reached, 1)
    for fold, knot in zip(folds, found, strict=True):
        assert knot is not None
        fold.errors.append(fold.error(knot))
    if _worn_out(folds, patience):
        return False, reached + 2 - patience
    return True, math.inf


def _worn_out(folds: Sequence[Fold], patience: int) -> bool:
    """The best mean error lies so far back that it will stay the best."""
    mean = _scores(folds)["mean"]
    return bool(len(mean) - 1 - int(np.argmin(mean)) >= patience)


def _scores(folds: Sequence[Fold]) -> dict[str, Array]:
    """Scores of the knots that all folds reached."""
    if not folds:
        return {}
    reached = min(len(fold.errors) for fold in folds)
    return fold_scores(np.array([fold.errors[:reached] for fold in folds], dtype=float), np.array([fold.weight for fold in folds]))


def fold_scores(table: Array, weight: Array) -> dict[str, Array]:
    """Mean error, its standard error over folds, and every fold's errors, from a table (folds, values of the knob)."""
    share = weight[:, None] / weight.sum()
    mean = (share * table).sum(axis=0)
    spread = np.sqrt((share * (table - mean) ** 2).sum(axis=0) / max(len(table) - 1, 1))
    return {"mean": mean, "error": spread, "folds": table}


def choose(path: Path, by: str | float = "cv", *, max_pieces: int | None = None) -> int:
    """Position of the chosen knot.

    "cv": the smallest model whose mean error is within one standard error of the best; "cv-best": the best
    mean; "aic", "bic", "ebic": least criterion; "discrepancy": the first knot that leaves nothing larger than noise;
    "stability": the largest stable model; "last"; or a knob value.
    """
    if not len(path):
        raise TamisError("The path has no knot, so none can be chosen; give the fit more time or a larger budget.")
    if isinstance(by, (int, float)) and not isinstance(by, bool):
        return path.knots.index(path.at(float(by)))
    ways: dict[str, Callable[[Path], int]] = {
        "cv": _one_standard_error, "cv-best": lambda path: _validated(path)[2](int(np.argmin(_validated(path)[0]))),
        "discrepancy": _discrepancy,
        "aic": lambda path: _least(path, "aic"), "bic": lambda path: _least(path, "bic"), "ebic": lambda path: _least(path, "ebic"),
        "stability": _stable, "last": lambda path: len(path) - 1,
    }  # fmt: skip
    if by not in ways:
        raise TamisError(
            f"choose={by!r} is not known, so no knot can be chosen; use one of {', '.join(map(repr, ways))}, or a value of {path.knob}."
        )
    chosen = ways[by](path)
    if max_pieces is not None:
        few = [i for i in range(chosen + 1) if len(path.knots[i].atoms) <= max_pieces]
        chosen = few[-1] if few else 0
    return chosen


def _validated(path: Path) -> tuple[Array, Array, Callable[[int], int]]:
    """Mean errors, their standard errors, and the knot that each belongs to.

    Folds may have been judged at other values of the knob than the knots' own ("grid"): their path changes at other times.
    """
    if "mean" not in path.scores or not len(path.scores["mean"]):
        raise TamisError(
            "This path was not cross-validated, so choose='cv' has nothing to go by; fit with choose='cv', or use 'ebic' or a value."
        )
    if "grid" not in path.scores:
        return path.scores["mean"], path.scores["error"], lambda i: i
    grid = path.scores["grid"]
    return path.scores["grid_mean"], path.scores["grid_error"], lambda i: path.knots.index(path.at(float(grid[i])))


def validated_score(path: Path, position: int, by: Any) -> tuple[float, float] | None:
    """Mean error and standard error of a chosen knot: where the choice was made, if validation made it; None if never validated."""
    if not len(path.scores.get("mean", ())):
        return None
    mean, error, knot_of = _validated(path)
    if "grid" in path.scores and by in ("cv", "cv-best"):
        best = int(np.argmin(mean))
        at = best if by == "cv-best" else int(np.flatnonzero(mean <= mean[best] + error[best])[0])
        if knot_of(at) == position:
            return float(mean[at]), float(error[at])
    last = min(position, len(path.scores["mean"]) - 1)
    return float(path.scores["mean"][last]), float(path.scores["error"][last])


def _one_standard_error(path: Path) -> int:
    mean, error, knot_of = _validated(path)
    best = int(np.argmin(mean))
    return knot_of(int(np.flatnonzero(mean <= mean[best] + error[best])[0]))


def _discrepancy(path: Path) -> int:
    """The first knot whose residual correlates with no column more than noise would: sigma sqrt(2 log p / n).

    Without a known sigma every knot is judged by its own residual variance.
    """
    facts = path.provenance
    if "candidates" not in facts or any("largest" not in knot.measures for knot in path.knots):
        raise TamisError(
            "This path does not know how much its residuals correlate with all columns, so 'discrepancy' has nothing to go by; "
            "fit with choose='discrepancy' (squared loss, columns as pieces), or use 'cv' or 'ebic'."
        )
    rows = float(facts["rows"])
    noise = math.sqrt(2.0 * math.log(max(float(facts["candidates"]), 2.0)) / rows)
    for i, knot in enumerate(path.knots):
        free = max(rows - len(knot.atoms) - 1.0, 1.0)
        sigma = facts.get("sigma") or math.sqrt(2.0 * knot.measures["loss"] / free)
        if knot.measures["largest"] <= float(sigma) * noise:
            return i
    return len(path) - 1


def _least(path: Path, criterion: str) -> int:
    """Least information criterion; needs the loss to be minus a log-likelihood, and the size of the space searched."""
    facts = path.provenance
    if not facts.get("likelihood"):
        raise TamisError(
            f"choose={criterion!r} needs a likelihood and loss {facts.get('loss')!r} has none; "
            "use loss='logistic', 'squared' or 'poisson', or choose='cv'."
        )
    # a model with nearly as many pieces as rows fits anything, and minus its log-likelihood has no bottom
    few = [i for i, knot in enumerate(path.knots) if len(knot.atoms) <= max(1.0, 0.5 * float(facts["rows"]))] or [0]
    return min(few, key=lambda i: information(path, i, criterion))


def information(path: Path, position: int, criterion: str, gamma: float = 0.5) -> float:
    """-2 log-likelihood plus the price of the pieces; "ebic" adds 2 gamma per piece times the log of the number of candidates."""
    knot, facts = path.knots[position], path.provenance
    rows, pieces = float(facts["rows"]), len(knot.atoms) * max(1, knot.coefficients.shape[1] - 1)
    loss = float(knot.measures["loss"])
    if criterion == "ebic" and "candidates" in facts:
        return _extended(float(facts["candidates"]), len(knot.atoms), gamma) + information(path, position, "bic")
    minus_two = rows * math.log(max(2.0 * loss / rows, 1e-300)) if facts["likelihood"] == "normal" else 2.0 * loss
    price = {"aic": 2.0, "bic": math.log(rows), "ebic": math.log(rows) + 2.0 * gamma * float(facts["log_candidates"])}[criterion]
    return float(minus_two + price * pieces)


def _extended(candidates: float, chosen: int, gamma: float) -> float:
    """2 gamma log of the number of models with so many pieces."""
    chosen = min(chosen, int(candidates))
    ways = math.lgamma(candidates + 1) - math.lgamma(chosen + 1) - math.lgamma(candidates - chosen + 1)
    return 2.0 * gamma * ways


def _stable(path: Path) -> int:
    """The last knot before which the mean instability of pieces stays small."""
    if "instability" not in path.scores:
        raise TamisError("This path was not resampled, so choose='stability' has nothing to go by; fit with choose='stability'.")
    worst = np.maximum.accumulate(path.scores["instability"])
    below = np.flatnonzero(worst <= INSTABILITY)
    return int(below[-1]) if len(below) else 0


def instability(samples: Sequence[Sequence[Knot]], knots: int, candidates: int | None = None) -> Array:
    """Per knot, the mean of 2 f (1 - f), f being how often subsamples select a piece: over all candidates where they can be counted,
    over those that any subsample selects where they cannot.
    """
    result = np.zeros(knots)
    for j in range(knots):
        chosen: dict[tuple[int, ...], int] = {}
        for sample in samples:
            for atom in sample[min(j, len(sample) - 1)].atoms if sample else ():
                chosen[atom] = chosen.get(atom, 0) + 1
        share = np.array(list(chosen.values())) / max(len(samples), 1)
        result[j] = float(np.sum(2 * share * (1 - share))) / (candidates or len(share)) if len(share) else 0.0
    return result


def with_facts(path: Path, **facts: Any) -> Path:
    """The path with more provenance."""
    return replace(path, provenance={**path.provenance, **facts})
