"""Targets and weights checked once, in sentences, in the words scikit-learn's contract asks for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError

Array = NDArray[Any]
LARGEST, SMALLEST = 1e100, 1e-100  # beyond these, squares and sums of squares leave the range of doubles


def checked_target(y: Any, rows: int) -> Array:
    """One value per row, none of them missing; labels of Python objects all of one type."""
    if y is None:
        raise TamisError("This estimator requires y to be passed, but the target y is None; pass one value per row.")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        said = "A column-vector y was passed when a 1d array was expected; it is used as one column."
        warnings.warn(said, DataConversionWarning, stacklevel=3)
        values = values[:, 0]
    if values.ndim != 1:
        raise TamisError(f"y should be a 1d array, but has shape {values.shape}, so nothing was fitted; give one value per row.")
    if len(values) != rows:
        raise TamisError(
            f"X has {rows} rows but y has {len(values)}, so they cannot be matched: inconsistent numbers of samples; give one y per row."
        )
    if values.dtype.kind == "c":
        raise TamisError("Complex data not supported: y holds complex numbers, so nothing was fitted; give real ones.")
    if values.dtype.kind not in "biufUTO":
        raise TamisError(f"y holds {values.dtype}, such as {values[0]}, so nothing was fitted; turn it into numbers or text.")
    missing = np.array([_absent(value) for value in values.tolist()]) if values.dtype.kind in "OT" else values != values
    if np.any(missing):
        raise TamisError(f"y contains NaN or missing values in {int(missing.sum())} rows, so nothing was fitted; drop those rows first.")
    if values.dtype.kind == "f" and np.any(np.isinf(values)):
        raise TamisError("y contains infinity, so nothing was fitted; drop those rows first.")
    return values if values.dtype.kind not in "OT" else _of_one_type(values)


def _absent(value: Any) -> bool:
    """None, NaN, NaT and pandas' NA, whose comparisons have no truth."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, (float, np.floating)) and value != value)


def _of_one_type(values: Array) -> Array:
    """Python objects as the array they make: truth values, numbers, or text (left as objects)."""
    held = values.tolist()
    if all(isinstance(value, str) for value in held):
        return np.array(held, dtype=object)
    if all(isinstance(value, (bool, np.bool_)) for value in held):
        return np.array(held, dtype=bool)
    if all(isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.complexfloating)) for value in held):
        return np.array(held)
    odd = next((value for value in held if type(value) is not type(held[0])), held[0])
    kinds = f"{held[0]!r} ({type(held[0]).__name__})" + (f" and {odd!r} ({type(odd).__name__})" if odd is not held[0] else "")
    raise TamisError(
        f"y holds {kinds}, which cannot be told apart as labels or numbers, so nothing was fitted; make them all text or all numbers."
    )


def checked_labels(y: Any, rows: int, instead: str = "RuleRegressor") -> Array:
    """Class labels; `instead` names what takes numbers."""
    from sklearn.utils.multiclass import check_classification_targets

    values = checked_target(y, rows)
    try:
        check_classification_targets(values)
    except ValueError as error:
        example = next((value for value in values.tolist() if isinstance(value, float) and not value.is_integer()), values[0])
        said = f"{str(error).partition('.')[0]}, such as {example!r}"
        raise TamisError(f"{said}, so nothing was fitted; use {instead} for numbers, or cut y into classes.") from error
    return values


def checked_numbers(y: Any, rows: int, instead: str = "RuleClassifier") -> Array:
    """A finite number per row, within what double precision can square and add up; `instead` names what takes labels."""
    values = checked_target(y, rows)
    if values.dtype.kind not in "biuf":
        raise TamisError(f"y holds {values.tolist()[0]!r}, which is no number, so nothing was fitted; use {instead} for labels.")
    numbers = values.astype(float)
    size, spread = float(np.abs(numbers).max()), float(numbers.max() / 2 - numbers.min() / 2)
    if size > LARGEST or 0 < spread < SMALLEST:
        raise TamisError(
            f"y reaches {size:.3g} and spreads by {2 * spread:.3g}, beyond what can be computed with, so nothing was fitted; rescale y."
        )
    return numbers


def checked_weight(sample_weight: Any, rows: int) -> Array:
    """Finite, non-negative weights, not all zero."""
    if sample_weight is None:
        return np.ones(rows)
    try:
        weight = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise TamisError(
            f"sample_weight holds something that is no number ({error}), so nothing was fitted; give one number per row."
        ) from error
    weight = np.full(rows, float(weight)) if weight.ndim == 0 else weight
    if weight.ndim != 1:
        raise TamisError("Sample weights must be 1D array or scalar, so nothing was fitted; give one weight per row.")
    if weight.shape != (rows,):
        raise TamisError(f"sample_weight.shape == {weight.shape}, expected {(rows,)}, so nothing was fitted; give one weight per row.")
    if not np.all(np.isfinite(weight)) or weight.min(initial=0.0) < 0:
        raise TamisError("sample_weight holds NaN, infinite or negative values, so nothing was fitted; give weights >= 0.")
    if not weight.any():
        raise TamisError("sample_weight is zero for every row, so there is nothing to learn from; give some rows a positive weight.")
    light, heavy = float(weight[weight > 0].min()), float(weight.max())
    if light < SMALLEST or heavy > LARGEST:
        raise TamisError(
            f"sample_weight runs from {light:.3g} to {heavy:.3g}, beyond what can be computed with, so nothing was fitted; rescale it."
        )
    return weight


def target_name(y: Any) -> str:
    """The name of y if it has one."""
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return str(name) if isinstance(name, str) and name else "target"


def class_factors(class_weight: Any, classes: Array, labels: Array, sample_weight: Array) -> Array:
    """One factor per class: 1, "balanced", or a dict."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise TamisError(
                f"class_weight={class_weight!r} is not known, so nothing was fitted; use None, 'balanced' or a dict of class to weight."
            )
        mass = np.bincount(labels, sample_weight, len(classes))
        return np.asarray(mass.sum() / (len(classes) * np.maximum(mass, 1e-300)))
    unknown = [label for label in class_weight if label not in set(classes.tolist())]
    if unknown:
        raise TamisError(
            f"class_weight names {unknown[0]!r}, which is not a class of y, so nothing was fitted; use the classes {classes.tolist()}."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])


def weighted_median(values: Array, weight: Array) -> float:
    """The smallest value that half of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, 0.5 * below[-1])])
