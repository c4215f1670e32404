"""Weights whose sums are exact, so that neither row order nor the number of threads can change a schema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.tables.columns import Array, Floats
from tamis.tables.cuts import Target


def summable(amounts: Floats) -> Floats:
    """Round to multiples of one power of two so small that every partial sum is exact in a double.

    Whole numbers (and any multiples of a power of two that leave room) come back unchanged.
    """
    whole = float(np.sort(np.abs(amounts)).sum())
    if not whole > 0 or not math.isfinite(whole):
        return amounts
    exponent = math.frexp(whole)[1] - 52
    if exponent <= -1074:  # all are multiples of the smallest double already
        return amounts
    quantum = 2.0**exponent
    return np.asarray(np.rint(amounts / quantum) * quantum)


def checked_weights(sample_weight: Any, n_rows: int) -> Floats | None:
    """Weights as floats, None when every row counts once; one sentence when they cannot be used."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise TamisError(f"sample_weight has shape {weights.shape} for {n_rows} rows, so rows cannot be weighted; give one weight per row.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise TamisError(
            "sample_weight holds NaN, infinite or negative weights, so rows cannot be weighted; give finite weights of at least 0."
        )
    if not weights.any():
        raise TamisError("Every sample_weight is 0, so no row counts and nothing can be learned; give some rows a positive weight.")
    return None if (weights == 1).all() else weights


def checked_labels(y: Any, n_rows: int) -> Array | None:
    """y as one value per row."""
    if y is None:
        return None
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise TamisError(f"y has shape {labels.shape} for {n_rows} rows, so supervised cuts cannot be chosen; give one value per row.")
    return labels


def target_of(labels: Array | None, weights: Floats | None) -> Target | None:
    """What supervised cuts tell apart: numbers with fractions are a quantity, anything else names classes."""
    if labels is None:
        return None
    ones = np.ones(len(labels)) if weights is None else weights
    if labels.dtype.kind == "f":
        amounts = summable(ones * labels)
        centre = float(np.sort(amounts).sum()) / float(np.sort(ones).sum())  # far from zero, squares would drown the differences
        return Target(ones, amounts=summable(ones * (labels - centre)))
    codes = _class_codes(labels)
    return Target(ones, labels=codes, classes=int(codes.max()) + 1)


def _class_codes(labels: Array) -> Array:
    """Class numbers; labels of mixed types are told apart by their text."""
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        return np.unique(labels.astype(str), return_inverse=True)[1]
