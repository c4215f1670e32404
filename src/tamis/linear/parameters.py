"""Every parameter of a linear estimator checked before any work, and turned into the method that follows the path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.structure import Gauge
from tamis.linear.damped import Damped
from tamis.linear.exact import Exact, Limits
from tamis.linear.inputs import penalty_factors
from tamis.linear.method import Method
from tamis.linear.prepare import Setup

Array = NDArray[Any]
CHOICES = ("cv", "cv-best", "aic", "bic", "ebic", "discrepancy", "stability", "last")
PENALTIES = ("entry", "group", "column")
KAPPA = {"squared": 100.0, "huber": 100.0, "logistic": 20.0, "multinomial": 20.0, "poisson": 20.0}
SPLIT_KAPPA = 200.0
EXACT = {"loss": "squared", "penalty": "entry", "kappa": None, "step": "auto"}  # what exact paths say, or leave unsaid


def check_parameters(model: Any, losses: Sequence[str]) -> None:
    """Refuse values no fit could use; those that depend on the data are checked where it is read."""
    if hasattr(model, "loss"):
        one_of("loss", model.loss, losses)
    if hasattr(model, "penalty"):
        one_of("penalty", model.penalty, PENALTIES)
    for name, (fine, wanted) in SIMPLE.items():
        value = getattr(model, name, None)
        if hasattr(model, name) and not fine(value):
            raise TamisError(f"{name}={value!r} cannot be used, so nothing was fitted; give {wanted}.")
    choose = model.choose
    if not (isinstance(choose, str) and choose in CHOICES) and not (number(choose) and 0 <= choose < np.inf):
        raise TamisError(f"choose={choose!r} is not known, so nothing was fitted; use {listed(CHOICES)}, or a time t.")
    if choose == "discrepancy" and getattr(model, "loss", "squared") != "squared":
        raise TamisError("choose='discrepancy' needs a squared loss, so nothing was fitted; use choose='cv'.")
    if choose in ("aic", "bic", "ebic") and getattr(model, "loss", "squared") == "huber":
        raise TamisError(f"choose={choose!r} needs a likelihood and loss='huber' has none, so nothing was fitted; use choose='cv'.")
    _check_folds(model.cv)


def method_of(model: Any, names: Sequence[str], loss: str, scores: int) -> Method:
    """How a model's path is followed."""
    factors = penalty_factors(model.penalty_factor, names)
    nonnegative = _one_sided(model.nonnegative, names)
    setup = Setup(model.fit_intercept, model.standardize, None if np.all(factors == 1) else factors, nonnegative)
    kappa = getattr(model, "kappa", None)
    limits = Limits(np.inf if model.t_max is None else float(model.t_max), getattr(model, "max_features", None))
    times = _times(getattr(model, "t", None))
    plain = loss == "squared" and is_exact(model)
    _check_together(model, plain, times)
    if model.transformation is not None:
        from tamis.linear.split import split_method

        return split_method(model, names, setup, limits, plain, times, scores)
    if plain:
        return Exact(setup, limits, model.choose == "discrepancy")
    gauge = gauge_of(model, names, factors, nonnegative, scores)
    step = getattr(model, "step", "auto")
    alpha = None if step == "auto" else float(step)
    end = None if model.t_max is None else float(model.t_max)
    return Damped(gauge, Setup(model.fit_intercept, model.standardize), float(kappa or KAPPA[loss]), alpha, 1.0, end, times)


def is_exact(model: Any) -> bool:
    """Whether a regression's path is followed event by event: nothing was said that only iterations understand."""
    if hasattr(model, "predict_proba") or getattr(model, "t", None) is not None:
        return False
    return all(getattr(model, name, plain) == plain for name, plain in EXACT.items())


def _check_together(model: Any, exact: bool, times: tuple[float, ...] | None) -> None:
    """Refuse what would go unheard beside the other parameters."""
    given, split = getattr(model, "group_weights", "sqrt"), model.transformation is not None
    ungrouped = getattr(model, "groups", None) is None
    unheard = (
        (not exact and limits_size(model), f"max_features={limits_size(model)}", "ends exact paths and this one is iterated; use t_max"),
        (times is not None and model.t_max is not None, f"t_max={model.t_max}", "ends a path whose times are chosen, and t gives them"),
        (exact and not ungrouped, "groups", "needs penalty='group' (or 'column') and the penalty is 'entry'"),
        (ungrouped and not (isinstance(given, str) and given == "sqrt"), "group_weights", "needs groups"),
        (not split and model.nu not in (None, "auto"), f"nu={model.nu}", "couples a transformation, and there is none"),
        (
            (exact or not split) and getattr(model, "start", "equilibrium") != "equilibrium",
            "start='zero'",
            "needs split iterations (kappa)",
        ),
        (model.choose == "discrepancy" and (split or not exact), "choose='discrepancy'", "needs an exact path that selects columns"),
    )
    for there, what, why in unheard:
        if there:
            raise TamisError(f"{what} {why}, so nothing was fitted; leave one of them out.")


def limits_size(model: Any) -> int | None:
    """The size at which a path ends, if it is to."""
    return getattr(model, "max_features", None)


def gauge_of(model: Any, names: Sequence[str], factors: Array, nonnegative: Array | None, scores: int) -> Gauge:
    """What coefficients pay: entries, groups of columns, or a column over all classes."""
    from tamis.structures.gauges import Block, Column, Entry, Group

    if model.penalty == "entry" or (model.penalty == "column" and scores == 1 and model.groups is None):
        if model.groups is not None:
            raise TamisError(
                "groups were given with penalty='entry', which has no use for them, so nothing was fitted; say penalty='group'."
            )
        return Entry(factors, nonnegative)
    if nonnegative is not None:
        raise TamisError(f"nonnegative needs penalty='entry' and it is {model.penalty!r}, so nothing was fitted; leave one of them out.")
    if model.penalty == "column" and model.groups is None:
        return Column(len(names), factors)
    if model.groups is None:
        raise TamisError("penalty='group' needs groups, so nothing was fitted; give lists of columns, or a mapping of column to group.")
    if not np.all(factors == 1):
        raise TamisError("penalty_factor is for columns that pay alone, so nothing was fitted; give group_weights instead.")
    labels = group_labels(model.groups, names)
    weights = _group_weights(model.group_weights)
    return Block(labels, scores, weights) if model.penalty == "column" else Group(labels, weights, classes=scores)


def group_labels(groups: Any, names: Sequence[str]) -> Array:
    """The group of every column, from lists of columns (by position or name) or a mapping of column to group."""
    from tamis.structures.gauges import labels_of

    place = {name: j for j, name in enumerate(names)}

    def position(column: Any) -> int:
        if isinstance(column, str):
            if column not in place:
                raise TamisError(
                    f"The groups name {column!r}, which is no column, so nothing was fitted; the columns begin {list(names[:3])}."
                )
            return place[column]
        return int(column)

    if isinstance(groups, Mapping):
        gathered: dict[Any, Any] = {}
        for column, group in groups.items():
            gathered.setdefault(group, []).append(position(column))
        named = {j for members in gathered.values() for j in members}
        alone: dict[Any, Any] = {
            ("column", name): [j] for j, name in enumerate(names) if j not in named
        }  # columns that are not named are groups of one
        return labels_of({**gathered, **alone}, len(names))
    members = list(groups)
    if members and not any(isinstance(member, (list, tuple, set, frozenset, np.ndarray, range)) for member in members):
        if len(members) != len(names):
            raise TamisError(f"groups has {len(members)} labels for {len(names)} columns, so nothing was fitted; give one per column.")
        return np.array(members)
    lists = [[position(column) for column in member] for member in members]
    missing = sorted(set(range(len(names))) - {j for member in lists for j in member})
    if missing:
        raise TamisError(f"The column {names[missing[0]]!r} is in no group, so nothing was fitted; give it one, be it a group of its own.")
    return labels_of(lists, len(names))


def _group_weights(given: Any) -> Any:
    if isinstance(given, str) and given not in ("sqrt", "size", "one"):
        raise TamisError(f"group_weights={given!r} is not known, so nothing was fitted; use 'sqrt', 'one', or a number per group.")
    return 1.0 if isinstance(given, str) and given == "one" else given


def _one_sided(given: Any, names: Sequence[str]) -> Array | None:
    """Which columns may not have a negative coefficient: all, none, or those named."""
    if given is False or given is None:
        return None
    if given is True:
        return np.ones(len(names), dtype=bool)
    chosen = np.zeros(len(names), dtype=bool)
    for column in given:
        if isinstance(column, str) and column not in names:
            raise TamisError(
                f"nonnegative names {column!r}, which is no column, so nothing was fitted; the columns begin {list(names[:3])}."
            )
        where = list(names).index(column) if isinstance(column, str) else int(column)
        if not 0 <= where < len(names):
            raise TamisError(f"nonnegative names column {where} of {len(names)}, so nothing was fitted; count from 0.")
        chosen[where] = True
    return chosen


def _times(given: Any) -> tuple[float, ...] | None:
    """Asked times in order."""
    if given is None:
        return None
    try:
        times = np.atleast_1d(np.asarray(given, dtype=float))
    except (TypeError, ValueError) as error:
        raise TamisError(
            f"t={given!r} holds something that is no number, so nothing was fitted; give one time or a list of times."
        ) from error
    if times.ndim != 1 or not len(times) or not np.all(np.isfinite(times)) or times.min() < 0:
        raise TamisError(f"t={given!r} cannot be followed, so nothing was fitted; give finite times >= 0.")
    return tuple(sorted(set(times.tolist())))


def said(value: Any) -> str:
    """A parameter in words that are the same on every run: large or unprintable things by what they are."""
    text = repr(value)
    if " at 0x" in text or len(text) > 200:
        shape = getattr(value, "shape", None)
        return f"<{type(value).__name__}{'' if shape is None else f' of shape {tuple(shape)}'}>"
    return text


def one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a word nobody knows."""
    if not (isinstance(value, str) and value in known):
        raise TamisError(f"{name}={value!r} is not known, so nothing was fitted; use {listed(known)}.")


def listed(known: Sequence[str]) -> str:
    """'a', 'b' or 'c'"""
    head = ", ".join(map(repr, known[:-1]))
    return f"{head} or {known[-1]!r}" if head else repr(known[-1])


def number(value: Any) -> bool:
    """A number that is no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _positive(value: Any) -> bool:
    return number(value) and 0 < value < np.inf


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_folds(cv: Any) -> None:
    if _whole(cv) and cv >= 2:
        return
    if number(cv) or isinstance(cv, (str, bytes, bool)) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise TamisError(
            f"cv={cv!r} cannot be used, so nothing was fitted; give at least 2 folds, a splitter or pairs of row positions "
            "(choose='ebic', 'last' or a time needs none)."
        )


SIMPLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fit_intercept": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "standardize": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "max_features": (lambda value: value is None or (_whole(value) and value >= 1), "a whole number above 0, or None"),
    "t_max": (lambda value: value is None or _positive(value), "a time above 0, or None"),
    "kappa": (lambda value: value is None or _positive(value), "a number above 0, or None for the default"),
    "nu": (lambda value: value is None or value == "auto" or _positive(value), "a number above 0, or 'auto'"),
    "step": (lambda value: (isinstance(value, str) and value == "auto") or _positive(value), "a step above 0, or 'auto'"),
    "sigma": (lambda value: value is None or _positive(value), "the standard deviation of the noise, or None"),
    "n_jobs": (lambda value: value is None or (_whole(value) and value != 0), "a number of processes, -1 for all cores, or None"),
    "time_limit": (lambda value: value is None or (number(value) and value >= 0), "seconds, or None"),
    "journal": (lambda value: value is None or isinstance(value, (str, os.PathLike)), "a file name, or None"),
    "start": (lambda value: value in ("equilibrium", "zero"), "'equilibrium' or 'zero'"),
    "class_weight": (
        lambda value: value is None or isinstance(value, Mapping) or value == "balanced",
        "'balanced', a mapping of label to weight, or None",
    ),
}  # fmt: skip
