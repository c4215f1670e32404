"""Tables given to an estimator: its columns learned or compared, in the words scikit-learn's contract asks for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.tables.frame import Table, as_table


def checked_table(model: Any, X: Any, *, reset: bool) -> Table:
    """The input as a Table; its names and number of columns are learned (`reset`) or compared with those learned."""
    table = as_table(X)
    if not table.n_rows:
        shape = (0, len(table.names))
        raise TamisError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required; pass at least one row.")
    if reset:
        model.n_features_in_ = len(table.names)
        if table.named:
            model.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
    else:
        _compare_names(model, table)
        if len(table.names) != model.n_features_in_:
            raise TamisError(
                f"X has {len(table.names)} features, but {type(model).__name__} is expecting {model.n_features_in_} features as input; "
                "give the columns the model was fitted on."
            )
    return table


def _compare_names(model: Any, table: Table) -> None:
    """The same names in the same order, as scikit-learn asks of every estimator; a warning where only one side has names."""
    fitted, name = getattr(model, "feature_names_in_", None), type(model).__name__
    if fitted is None or not table.named:
        if table.named:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=4)
        elif fitted is not None:
            warnings.warn(f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=4)
        return
    if list(table.names) == list(fitted):
        return
    new, lost = sorted(set(table.names) - set(fitted)), sorted(set(fitted) - set(table.names))
    said = "The feature names should match those that were passed during fit.\n"
    said += _listed("Feature names unseen at fit time:", new) + _listed("Feature names seen at fit time, yet now missing:", lost)
    if not new and not lost:
        said += "Feature names must be in the same order as they were in fit.\n"
    raise TamisError(said)


def _listed(head: str, names: Sequence[str], most: int = 5) -> str:
    shown = [*names[:most], *(["..."] if len(names) > most else [])]
    return "".join(f"{line}\n" for line in (head, *(f"- {name}" for name in shown))) if names else ""
