"""The report of a linear path: columns or rows of D with their times of entry, coefficients in own units, and what t means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.core.path import Path
from tamis.report.build import OWN, SHAPE, baselines, chosen_knot, how_chosen, path_picture, score_name, stops_of, validation
from tamis.report.content import Event, Figure, Measure, Piece, Profile, ReportContent, ScoreColumn, Value
from tamis.report.wording import count, knob_text, number, residual, with_error
from tamis.rules.text import outcome_text

MOST_STOPS = 400
"""Knots a report walks through."""
MOST_EVENTS = 60
MOST_PROFILE = 1000
KNOB, ALPHA = "t grows as regularisation falls", "1/t is what the lasso calls alpha"
STATUS = {
    "complete": "",
    "stopped": "The path ended at the limit that was set for it.",
    "interrupted": "The path was interrupted; what had been reached until then is shown.",
    "budget": "The path ended when its time limit was reached.",
}
METHODS = {
    "exact": "exact inverse scale space path",
    "split": "exact split inverse scale space path",
    "damped": "linearised Bregman iterations",
    "split damped": "split linearised Bregman iterations",
}
PENALTIES = {"group": "groups of columns", "column": "one column over all classes at a time"}


def linear_content(model: Any) -> ReportContent:
    """Everything the report of a fitted InverseScaleRegressor, BregmanRegressor or BregmanClassifier says."""
    path: Path = model.path_
    split = transform_of(model) is not None
    word, words = words_of(model)
    shown = walked(path, chosen_knot(model, path))
    stops = stops_of(path, shown)
    if split:  # the constant belongs to the dense coefficients, which are not what is listed
        stops = [replace(stop, constant=()) for stop in stops]
    picture = path_picture(path, stops, shown.index(chosen_knot(model, path)), how_chosen(model), STATUS)
    return ReportContent(
        f"Which {words} {'tell' if hasattr(model, 'classes_') else 'explain'} {named(model)}"
        f"{' apart' if hasattr(model, 'classes_') else ''}?",
        replace(
            picture, score=scored(path), note=f"{KNOB}{'' if split else f'; {ALPHA}'}. {picture.note}{_spread_note(path, shown)}".strip()
        ),
        pieces_of(model, path),
        subtitle=subtitle_of(model, path),
        columns=score_columns(model, split),
        measures=measures_of(model),
        figures=figures_of(model, path, words, split),
        baselines=baselines(model),
        baseline_score=scored(path),
        baseline_note=_compared(path),
        notes=(*map(str, model.notes_), *_split_notes(model)),
        provenance=provenance_of(model, path),
        word=word,
        words=words,
        nothing=f"no {word} has entered yet" if split else "every row gets the constant",
        events=tuple(Event(float(t), what, name) for t, what, name in model.events_[:MOST_EVENTS]),
        events_note=_events_note(model.events_),
        profile=profile_of(model),
        own_units=not split,
    )


# ---- words ------------------------------------------------------------------------------------------------------
def transform_of(model: Any) -> Any:
    """D of a split model, None of others."""
    try:
        return model.transformation_
    except AttributeError:
        return None


def chain(transform: Any) -> bool:
    """Whether D holds the differences of all neighbouring columns, so that columns lie along a line."""
    matrix = transform.matrix
    sizes = np.diff(matrix.indptr)
    pairs = np.flatnonzero(sizes == 2)
    ends = np.sort(matrix.indices[matrix.indptr[pairs][:, None] + np.arange(2)], axis=1)
    opposed = matrix.data[matrix.indptr[pairs]] == -matrix.data[matrix.indptr[pairs] + 1]
    steps = ends[opposed & (ends[:, 1] - ends[:, 0] == 1), 0]
    return bool(matrix.shape[1] > 1 and len(np.unique(steps)) == matrix.shape[1] - 1)


def words_of(model: Any) -> tuple[str, str]:
    """What one piece, and several, are called."""
    transform = transform_of(model)
    if transform is None or transform.words == "identity":
        return "column", "columns"
    return ("difference", "differences") if transform.words == "fused" else ("row of D", "rows of D")


def named(model: Any) -> str:
    """The target, or what stands for it; of a classifier, its classes."""
    target = model._target_name
    if hasattr(model, "classes_"):
        return f"the classes of {target}" if target != "target" else "the classes"
    return target if target != "target" else "the target"


def subtitle_of(model: Any, path: Path) -> str:
    """The data and the method, in one sentence."""
    recorded = path.provenance
    sizes = [f"{count(recorded[name])} {label}" for name, label in SHAPE.items() if name in recorded]
    method = METHODS.get(model._method.name, "path")
    damping = getattr(model._method, "kappa", None)
    details = [f"kappa = {number(damping)}"] if damping else []
    transform = transform_of(model)
    if transform is not None:
        details.append(f"sparse in D beta with D = {transform.words}, {count(transform.shape[0])} rows")
    penalty = PENALTIES.get(getattr(model, "penalty", "entry"))
    details += [penalty] if penalty else []
    said = f"{method} ({', '.join(details)})" if details else method
    return f"{', '.join(sizes)}; {said}, {model._loss_name} loss."


def scored(path: Path) -> str:
    """What the validation score is called; counts are judged by their deviance."""
    counts = (path.provenance.get("scoring"), path.provenance.get("loss")) == ("deviance", "poisson")
    return "Poisson deviance" if counts else score_name(path)


def score_columns(model: Any, split: bool) -> tuple[ScoreColumn, ...]:
    """One column of coefficients, or one per class; with a transform their sign pushes nothing by itself."""
    classes = [label.item() if hasattr(label, "item") else label for label in getattr(model, "classes_", ())]
    word = "gamma" if split else "coefficient"
    if len(classes) > 2:
        return tuple(ScoreColumn(str(label)) for label in classes)
    if split:
        return (ScoreColumn(word),)
    if classes:
        against, towards = (outcome_text("logistic", classes, model._target_name, favoured) for favoured in (0, 1))
        return (ScoreColumn(word, against, towards),)
    of = model._target_name if model._target_name != "target" else "of the target"
    return (ScoreColumn(word, f"less {of}", f"more {of}"),)


# ---- pieces and events ------------------------------------------------------------------------------------------
def measures_of(model: Any) -> tuple[Measure, ...]:
    """The columns of the table of pieces."""
    together = "between two kept times" if model.path_.between is not None else "together"
    measures = [
        Measure("order", "entered as", "count", note=f"1 is the first to enter; several that enter {together} share their place"),
        Measure("enters", "at t", "number", note="when it first entered" + ("" if transform_of(model) else f"; {ALPHA}")),
    ]
    if groups_of(model):
        measures.insert(0, Measure("group", "group", "text"))
    return tuple(measures)


def groups_of(model: Any) -> tuple[str, ...]:
    """The group of every column, where columns enter in groups."""
    groups = getattr(model, "groups", None)
    if groups is None or transform_of(model) is not None:
        return ()
    from tamis.linear.parameters import group_labels

    names = column_names(model)
    if isinstance(groups, Mapping):
        return tuple(str(groups.get(name, groups.get(j, name))) for j, name in enumerate(names))
    return tuple(str(label) for label in group_labels(groups, names))


def column_names(model: Any) -> tuple[str, ...]:
    """The columns' own names, or x0, x1, ..."""
    given = getattr(model, "feature_names_in_", None)
    return tuple(map(str, given)) if given is not None else tuple(f"x{j}" for j in range(model.n_features_in_))


def pieces_of(model: Any, path: Path) -> tuple[Piece, ...]:
    """Every piece any knot holds, with when it entered."""
    groups, entered, last, place = groups_of(model), 0, -math.inf, 1
    first: dict[tuple[int, ...], tuple[int, float]] = {}
    for knot in path.knots:
        for atom in knot.atoms:
            if atom not in first:
                entered += 1
                place = place if knot.t == last else entered
                last = knot.t
                first[atom] = (place, float(knot.t))
    pieces = []
    for atom, name in path.pieces.items():
        values: dict[str, Value] = {"order": first[atom][0], "enters": first[atom][1]}
        pieces.append(Piece(name, values=values | ({"group": groups[atom[0]]} if groups else {})))
    return tuple(pieces)


def walked(path: Path, chosen: int) -> list[int]:
    """Positions of the knots a report walks through: all, or the chosen one with others spread over log t and over the events."""
    if len(path.knots) <= MOST_STOPS:
        return list(range(len(path.knots)))
    times = path.t
    positive = np.flatnonzero(times > 0)
    wanted = np.geomspace(times[positive[0]], times[-1], MOST_STOPS // 2)
    found = np.clip(np.searchsorted(times, wanted * (1 + 1e-12), side="right") - 1, 0, len(times) - 1)
    evenly = np.linspace(0, len(times) - 1, MOST_STOPS // 2 - 1).round()
    return sorted({chosen, *map(int, found), *map(int, evenly)})


def _spread_note(path: Path, shown: Sequence[int]) -> str:
    """That knots were left out."""
    if len(shown) == len(path.knots):
        return ""
    return f" Of its {count(len(path.knots))} knots {count(len(shown))} are shown; `path_` has all of them."


def _events_note(events: Sequence[Any]) -> str:
    more = len(events) - MOST_EVENTS
    return f"And {count(more)} more: `events_` lists all of them." if more > 0 else ""


# ---- numbers ----------------------------------------------------------------------------------------------------
def figures_of(model: Any, path: Path, words: str, split: bool) -> tuple[Figure, ...]:
    """The few numbers at the top."""
    chosen = chosen_knot(model, path)
    knot, certificate = path.knots[chosen], model.certificate_
    candidates = path.provenance.get("candidates")
    shown = [Figure(words, count(len(knot.atoms)), f"of {count(candidates)}" if candidates else "")]
    own = (getattr(model, "baselines_", {}) or {}).get(OWN)  # where the choice was made, which may lie between knots
    mean, error = (own["score"], own["error"]) if own else validation(path, chosen)
    if mean is not None:
        folds = len(path.scores.get("folds", ()))
        shown.append(Figure(scored(path), with_error(mean, error), f"mean of {folds} folds" if folds else "cross-validated"))
    alpha = "" if split else f"alpha = 1/t = {number(1 / knot.t)}" if knot.t > 0 else "before the first entry"
    shown.append(Figure("t", knob_text(knot.t), alpha))
    if certificate.kind != "none" and math.isfinite(certificate.gap):
        shown.append(Figure("exact to", residual(certificate.gap), f"{residual(certificate.tolerance)} was asked for"))
    shown.append(Figure("knots", count(len(path.knots)), "on the whole path"))
    return tuple(shown)


def _compared(path: Path) -> str:
    where = "on the same folds, with one standard error" if "mean" in path.scores else "on the training rows, not validated"
    return f"Measured {where}; lower is better."


def provenance_of(model: Any, path: Path) -> tuple[tuple[str, str], ...]:
    """Versions, shape, and every parameter that is not the default, as the fit recorded them."""
    recorded = path.provenance
    rows = {str(name): str(version) for name, version in dict(recorded.get("versions", {})).items()}
    rows |= {label: count(recorded[name]) for name, label in SHAPE.items() if name in recorded}
    defaults = {name: repr(value) for name, value in type(model)().get_params(deep=False).items()}
    said = dict(recorded.get("parameters", {}))
    changed = {name: str(text).strip("'\"") for name, text in said.items() if defaults.get(name) != text}
    return (*rows.items(), *(changed.items() if changed else [("parameters", "all at their defaults")]))


# ---- split models -----------------------------------------------------------------------------------------------
def _split_notes(model: Any) -> list[str]:
    """The three outputs of a split model."""
    transform = transform_of(model)
    if transform is None:
        return []
    rows, columns = (count(size) for size in transform.shape)
    said = (
        f"A split model has three outputs: beta (`coef_`, dense, {columns} coefficients) predicts; gamma (`gamma_`, listed here, {rows} "
        "rows) is what was selected of D beta; and the projected beta (`projected_coef_`) is the nearest to beta at which D beta is zero "
        "wherever gamma is. Cross-validation judged the projected one."
    )
    return [said]


def profile_of(model: Any) -> Profile | None:
    """Coefficients along the columns, where D says that columns lie along a line."""
    transform = transform_of(model)
    if transform is None or not chain(transform) or np.ndim(model.projected_coef_) != 1:
        return None
    names = column_names(model)
    every = max(1, math.ceil(len(names) / MOST_PROFILE))
    beta, projected = (np.asarray(values, dtype=float).ravel()[::every] for values in (model.coef_, model.projected_coef_))
    note = "Grey: beta, dense. In colour: the projected beta, which changes only where a selected row of D lets it."
    note += f" Every {every}th column is drawn." if every > 1 else ""
    curves = (("beta", tuple(map(float, beta))), ("projected beta", tuple(map(float, projected))))
    return Profile("Coefficients along the columns", note, curves, names[0], names[-1])
