"""From a fitted model to the content of its report.

Any model with a `path_` can be reported: its pieces are then shown under the names the path gives them. A
model with `rules_` says more, and `tamis.report.build_rules` says it; one with `coef_` along a path of times
says other things, and `tamis.report.build_linear` says them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tamis.core.certificate import at_least
from tamis.core.errors import TamisError
from tamis.core.path import Path
from tamis.report.content import Baseline, Claim, Figure, PathPicture, Piece, ReportContent, ScoreColumn, Stop
from tamis.report.wording import SPACE, count, distance, knob_text, with_error

STATUS = {
    "complete": "",
    "stopped": "The path ended where going on would not have helped.",
    "interrupted": "The path was interrupted; what had been reached until then is shown.",
    "budget": "The path ended when its time or size limit was reached.",
}
CHOICES = {
    "cv": "the simplest model within one standard error of the best, by cross-validation",
    "cv-best": "the best mean score in cross-validation",
    "aic": "the lowest AIC",
    "bic": "the lowest BIC",
    "ebic": "the lowest extended BIC",
    "discrepancy": "the first model whose residual looks like noise",
    "stability": "the most stable selection over resamples",
    "last": "the end of the path",
}
LOSSES = {"logistic": "log-loss", "multinomial": "log-loss", "squared": "squared loss", "poisson": "Poisson loss", "huber": "Huber loss"}
ERRORS = {
    "accuracy": "error rate",
    "macro_f1": "1 − macro-F1",
    "auc": "1 − AUC",
    "mse": "mean squared error",
    "r2": "1 − R²",
    "d2": "Poisson deviance",
}
OWN = "model"
"""The name a model's own line has in `baselines_`."""

SHAPE = {"rows_given": "rows", "columns_given": "columns"}
LONGEST_VALUE = 200


def report(model: Any, file: str | os.PathLike[str]) -> None:
    """Write the report of a fitted model: one HTML file that opens from disk.

    Parameters
    ----------
    model : fitted estimator
        Anything with a `path_`.
    file : path
        Written whole, or not at all.
    """
    from tamis.report.page import write_report

    write_report(content_of(model), file)


def content_of(model: Any) -> ReportContent:
    """What the report of a fitted model says, as plain data.

    Parameters
    ----------
    model : fitted estimator
        With `path_`; also read where present: `rules_`, `certificate_`, `baselines_`, `notes_`, `C_`.
    """
    path: Path | None = getattr(model, "path_", None)
    if path is None:
        raise TamisError(f"This {type(model).__name__} has no path yet, so there is nothing to report; fit it first.")
    if not path.knots:
        raise TamisError("The path has no knot, so there is nothing to report; give the fit more time or a larger budget.")
    if hasattr(model, "rules_"):
        from tamis.report.build_rules import rule_content

        return rule_content(model)
    if hasattr(model, "coef_") and path.knob == "t":
        from tamis.report.build_linear import linear_content

        return linear_content(model)
    return path_content(path, title=type(model).__name__, chosen=chosen_knot(model, path), **common(model, path))


def path_content(path: Path, *, title: str, chosen: int | None = None, **said: Any) -> ReportContent:
    """The content of a bare path: pieces under their own names, weights, certificates, validation.

    Parameters
    ----------
    path : Path
    title : str
    chosen : int, optional
        Position of the chosen knot; the last one by default.
    **said
        Further fields of `ReportContent`.
    """
    stops = stops_of(path, range(len(path.knots)))
    columns = len(path.knots[0].intercept) if path.knots else 1
    shown = (ScoreColumn(),) if columns == 1 else tuple(ScoreColumn(f"column {index}") for index in range(columns))
    picture = path_picture(path, stops, len(stops) - 1 if chosen is None else chosen)
    return ReportContent(title, picture, tuple(Piece(name) for name in path.pieces.values()), columns=shown, **said)


def stops_of(path: Path, positions: Sequence[int]) -> list[Stop]:
    """Knots ready to be shown: pieces by their place in `path.pieces`, weights, constants, claims, validation."""
    place = {atom: index for index, atom in enumerate(path.pieces)}
    stops = []
    for index in positions:
        knot = path.knots[index]
        weights = tuple(tuple(map(float, row)) for row in knot.coefficients)
        atoms = tuple(place[atom] for atom in knot.atoms)
        constant = tuple(map(float, knot.intercept))
        stops.append(Stop(float(knot.t), Claim.of(knot.certificate), atoms, weights, constant, *validation(path, index)))
    return stops


def path_picture(path: Path, stops: Sequence[Stop], chosen: int, by: str = "", status: Mapping[str, str] = STATUS) -> PathPicture:
    """The path with its validation score named and how it was chosen said; a path of times stays put between its knots or is drawn on."""
    said = [f"Chosen: {by}." if by else "", status.get(path.status, "")]
    note, timed = " ".join(filter(None, said)), path.knob == "t"
    finer = [path.scores.get(name, ()) for name in ("grid", "grid_mean", "grid_error")]
    curve = tuple((float(t), float(mean), float(error)) for t, mean, error in zip(*finer, strict=True))
    return PathPicture(
        path.knob, tuple(stops), chosen, score_name(path), scale="time" if timed else "auto", note=note,
        steps=timed and path.between is None, curve=curve,
    )  # fmt: skip


def score_name(path: Path) -> str:
    """What the validation score is called: the error it is, lower being better."""
    scoring = str(path.provenance.get("scoring") or "loss")
    loss = str(path.provenance.get("loss") or "")
    if scoring in ("loss", "log_loss", "deviance"):
        return LOSSES.get(loss, f"{loss.replace('_', ' ')} loss".strip())
    return ERRORS.get(scoring, f"error ({scoring.replace('_', ' ')})")


def validation(path: Path, index: int) -> tuple[float | None, float | None]:
    """Mean and standard error at a knot, where they are known."""
    return _entry(path.scores.get("mean"), index), _entry(path.scores.get("error"), index)


def _entry(values: Any, index: int) -> float | None:
    """One entry of an optional array; a path cut short has fewer."""
    if values is None or index >= len(values) or not math.isfinite(float(values[index])):
        return None
    return float(values[index])


def chosen_knot(model: Any, path: Path) -> int:
    """Position of the knot a fitted model chose: the one at its knob value."""
    value = getattr(model, f"{path.knob}_", None)
    if value is None or not path.knots:
        return len(path.knots) - 1
    return min(range(len(path.knots)), key=lambda index: abs(path.knots[index].t - float(value)))


def how_chosen(model: Any) -> str:
    """The rule that chose the knot, in words."""
    choose = getattr(model, "choose", None) if getattr(model, "C", None) is None else model.C
    return CHOICES.get(choose, "") if isinstance(choose, str) else "the value that was asked for" if choose is not None else ""


def common(model: Any, path: Path, words: str = "pieces") -> dict[str, Any]:
    """What every family's report shares: figures, notes, provenance, comparison."""
    where = "on the same folds, with one standard error" if "mean" in path.scores else "on the training rows, not validated"
    return {
        "figures": figures(model, path, words),
        "baselines": baselines(model),
        "baseline_score": score_name(path),
        "baseline_note": f"Measured {where}; lower is better.",
        "notes": tuple(map(str, getattr(model, "notes_", ()))),
        "provenance": provenance(model, path),
    }


def figures(model: Any, path: Path, words: str) -> tuple[Figure, ...]:
    """The few numbers at the top."""
    chosen = chosen_knot(model, path)
    knot = path.knots[chosen]
    certificate = getattr(model, "certificate_", knot.certificate)
    found = len(getattr(model, "rules_", knot.atoms))
    looked = certificate.scope.looked
    shown = [Figure(words, count(found), f"{count(looked)} were looked at" if looked else "")]
    mean, error = validation(path, chosen)
    if mean is not None:
        folds = len(path.scores.get("folds", ()))
        shown.append(Figure(score_name(path), with_error(mean, error), f"mean of {folds} folds" if folds else "cross-validated"))
    if certificate.kind != "none" and math.isfinite(certificate.gap):
        reached, asked = (distance(value, certificate.is_residual) for value in (certificate.gap, certificate.tolerance))
        label, note = ("exact to", "") if certificate.is_residual else ("distance to the best", "at most; ")
        shown.append(Figure(label, reached, f"{note}{asked} was asked for"))
    if certificate.constant is not None and not certificate.nothing_to_gain:
        shown.append(
            Figure("share of the possible gain", at_least(certificate.gain_share).replace(" ", SPACE), "at least, over a constant")
        )
    elif path.status == "complete":
        shown.append(Figure(path.knob, knob_text(knot.t), f"of {len(path.knots)} values" if len(path.knots) > 1 else ""))
    return tuple(shown)


def baselines(model: Any) -> tuple[Baseline, ...]:
    """The comparison a model carries, its own line last."""
    listed: Mapping[str, Mapping[str, Any]] = getattr(model, "baselines_", {}) or {}
    return tuple(_baseline(name, row) for name, row in sorted(listed.items(), key=lambda item: item[0] == OWN))


def _baseline(name: str, row: Mapping[str, Any]) -> Baseline:
    """One line of the comparison."""
    said, own = str(row.get("sentence") or ""), name == OWN
    # A constant has nothing to certify: its gap of zero would only puzzle.
    distance = row.get("gap") if row.get("rules") else None
    return Baseline("this model" if own else name, row.get("score"), row.get("error"), row.get("rules"), distance, said, own)


def provenance(model: Any, path: Path) -> tuple[tuple[str, str], ...]:
    """Versions and shape of the data as the path recorded them, then every parameter that is not the default."""
    recorded = path.provenance
    rows = {str(name): str(version) for name, version in dict(recorded.get("versions", {})).items()}
    rows |= {label: count(recorded[name]) for name, label in SHAPE.items() if name in recorded}
    changed = {name: _worded(value) for name, value in changed_parameters(model).items()}
    return (*rows.items(), *(changed.items() if changed else [("parameters", "all at their defaults")]))


def changed_parameters(model: Any) -> dict[str, Any]:
    """Parameters that differ from the constructor's defaults."""
    import inspect

    if not hasattr(model, "get_params"):
        return {}
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    return {name: value for name, value in model.get_params(deep=False).items() if repr(defaults.get(name)) != repr(value)}


def _worded(value: Any) -> str:
    """A parameter as text, never so long that it hides the others."""
    text = value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} …"
