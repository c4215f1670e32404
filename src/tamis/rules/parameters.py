"""Every parameter of a rule estimator checked before any work: one sentence about the first that makes no sense."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tamis.core.errors import TamisError

CHOICES = ("cv", "cv-best", "aic", "bic", "ebic", "stability", "last")
CRITERIA = ("aic", "bic", "ebic")
SCORINGS = {
    "logistic": ("loss", "log_loss", "accuracy", "macro_f1", "auc"),
    "squared_hinge": ("loss", "accuracy", "macro_f1", "auc"),
    "hinge": ("loss", "accuracy", "macro_f1", "auc"),
    "squared": ("loss", "mse", "r2"),
    "huber": ("loss", "mse", "r2"),
    "poisson": ("loss", "deviance", "d2", "mse", "r2"),
}
LIKELY = ("logistic", "squared", "poisson")


def check_parameters(model: Any, losses: tuple[str, ...]) -> None:
    """Refuse values no fit could use; those that depend on the table are checked where it is read."""
    _one_of("loss", model.loss, losses)
    for name, (fine, wanted) in SIMPLE.items():
        value = getattr(model, name, None)
        if not fine(value):
            raise TamisError(f"{name}={value!r} cannot be used, so nothing was fitted; give {wanted}.")
    _one_of("lattice", model.lattice, ("conjunction", "disjunction"))
    _one_of("complements", model.complements, ("one", "both"))
    _one_of("solver", model.solver, ("mm", "mirror"))
    if hasattr(model, "multi_class"):
        _one_of("multi_class", model.multi_class, ("grouped", "ovr"))
    if model.scoring is not None:
        _one_of("scoring", model.scoring, SCORINGS[model.loss], f" with loss={model.loss!r}")
    _check_choice(model)
    _check_folds(model.cv)
    _check_seed(model.random_state)


def _one_of(name: str, value: Any, known: tuple[str, ...], where: str = "") -> None:
    if not (isinstance(value, str) and value in known):
        raise TamisError(f"{name}={value!r} is not known{where}, so nothing was fitted; use {_listed(known)}.")


def _listed(known: tuple[str, ...]) -> str:
    head = ", ".join(map(repr, known[:-1]))
    return f"{head} or {known[-1]!r}" if head else repr(known[-1])


def _check_choice(model: Any) -> None:
    choose = model.choose
    if not (isinstance(choose, str) and choose in CHOICES) and not (_number(choose) and 0 < choose < np.inf):
        raise TamisError(f"choose={choose!r} is not known, so nothing was fitted; use {_listed(CHOICES)}, or a value of C.")
    if isinstance(choose, str) and choose in CRITERIA and model.loss not in LIKELY:
        raise TamisError(
            f"choose={choose!r} needs a likelihood and loss={model.loss!r} has none, so nothing was fitted; "
            "use choose='cv', or another loss."
        )


def _check_folds(cv: Any) -> None:
    """A number of folds, a splitter, or something that can be gone through."""
    if _whole(cv) and cv >= 2:
        return
    if _number(cv) or isinstance(cv, (str, bytes, bool)) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise TamisError(
            f"cv={cv!r} cannot be used, so nothing was fitted; "
            "give at least 2 folds, a splitter or pairs of row positions (C=... needs none)."
        )


def _check_seed(random_state: Any) -> None:
    seeded = random_state is None or isinstance(random_state, np.random.RandomState) or random_state is np.random
    if not seeded and not (_whole(random_state) and 0 <= random_state < 2**32):
        raise TamisError(
            f"random_state={random_state!r} cannot be used, so nothing was fitted; give a whole number from 0 to 2**32 - 1, or None."
        )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _class_weight(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_number(weight) and 1e-100 < weight < 1e100 for weight in value.values())
    return value is None or (isinstance(value, str) and value == "balanced")


def _prune(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value == "certified") or (_number(value) and 0 < value < 1)


def _path(value: Any) -> bool:
    return value is None or (isinstance(value, (str, os.PathLike)) and bool(os.fspath(value)))


# What depends on one value alone.
SIMPLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "rho": (lambda value: _number(value) and 1.05 <= value <= 2, "a number between 1.05 and 2"),
    "growth": (lambda value: _number(value) and 0 < value < np.inf, "a positive number"),
    "max_length": (lambda value: value is None or (_whole(value) and value >= 1), "a whole number >= 1, or None"),
    "min_support": (lambda value: _number(value) and value > 0, "a share of the rows below 1, or a number of rows from 1 on"),
    "tolerance": (lambda value: _number(value) and 0 < value < 1, "a number between 0 and 1"),
    "gain_tolerance": (lambda value: _number(value) and 0 < value <= 1, "a number between 0 and 1"),
    "prune": (_prune, "'certified', None, or a share of the largest weight between 0 and 1"),
    "max_nodes": (lambda value: _whole(value) and value >= 2, "a whole number >= 2"),
    "C": (lambda value: value is None or (_number(value) and 1e-100 < value < 1e100), "a positive number, or None for a path"),
    "n_cuts": (lambda value: _whole(value) and value >= 1, "a whole number >= 1"),
    "class_weight": (_class_weight, "None, 'balanced', or a dict of class to positive weight"),
    "costs": (_mapping, "None, or a dict of column or condition to factor"),
    "propositions": (_mapping, "None, or a dict of name to expression, function or boolean column"),
    "monotone": (
        lambda value: _mapping(value) or isinstance(value, (list, tuple, np.ndarray)),
        "None, a dict of column to 1 or -1, or one number per column",
    ),
    "max_literals": (lambda value: _whole(value) and value >= 1, "a whole number >= 1"),
    "max_rules": (lambda value: value is None or (_whole(value) and value >= 0), "a whole number >= 0, or None"),
    "refit": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "n_path": (lambda value: _whole(value) and value >= 1, "a whole number of knots >= 1"),
    "time_limit": (lambda value: value is None or (_number(value) and value > 0), "a positive number of seconds, or None"),
    "journal": (_path, "the path of a file, or None"),
    "n_jobs": (lambda value: value is None or (_whole(value) and value != 0), "a whole number of threads, -1 for all cores, or None"),
    "verbose": (lambda value: isinstance(value, (bool, np.bool_)) or (_whole(value) and value >= 0), "0, 1 or True"),
}
