"""A fitted selector as JSON-able data and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisFileError
from tamis.select.frequencies import Found
from tamis.select.pieces import bases
from tamis.store.kept import rebuilt, stored_parameters, with_parameters

Array = NDArray[Any]
FACTS = ("kind", "log_candidates", "q", "estimated", "mean", "samples", "pairs", "threshold")


def to_model(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Frequencies and all that follows from them; neither rows nor fitted bases are among it."""
    found = model._found
    base = None if model.base is None else {"kind": type(model.base).__name__, "parameters": stored_parameters(model.base)}
    meta = {
        "parameters": stored_parameters(model), "base": base, "status": model.status_, "notes": list(model.notes_),
        "n_features_in": int(model.n_features_in_), "target": model._target_name,
        "feature_names_in": [str(name) for name in getattr(model, "feature_names_in_", ())] or None,
        "found": {name: getattr(found, name) for name in FACTS}, "names": list(found.names), "free": list(found.free),
    }  # fmt: skip
    arrays = {"share": found.share}
    return meta, arrays if found.labels is None else {**arrays, "labels": np.asarray(found.labels, dtype=np.int64)}


def from_model(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Inverse of `to_model`."""
    return rebuilt(cls, meta, arrays, _restored)


def _restored(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    model = with_parameters(cls, meta["parameters"])
    if meta["base"] is not None:
        model.base = with_parameters(bases()[meta["base"]["kind"]], meta["base"]["parameters"])
    model.n_features_in_, model._target_name = int(meta["n_features_in"]), str(meta["target"])
    if meta["feature_names_in"]:
        model.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
    facts = {name: meta["found"][name] for name in FACTS}
    share, labels = np.asarray(arrays["share"], dtype=float), arrays.get("labels")
    model._found = Found(**facts, names=tuple(map(str, meta["names"])), share=share, labels=labels, free=tuple(map(str, meta["free"])))
    _check(model._found, model.n_features_in_)
    model.status_, model.notes_ = str(meta["status"]), tuple(map(str, meta["notes"]))
    model._settle()
    return model


def _check(found: Found, columns: int) -> None:
    """Numbers that fit together, whoever wrote the file."""
    fine = found.share.shape == (len(found.names),) and bool(np.all((found.share >= 0) & (found.share <= 1)))
    fine = fine and 0.5 < found.threshold <= 1 and set(found.free) <= set(found.names)
    if found.labels is not None:
        labels = found.labels
        fine = fine and labels.shape == (columns,) and bool(np.all((labels >= 0) & (labels < len(found.names))))
    if not fine:
        raise TamisFileError("The selection's pieces, frequencies and columns do not fit together, so it was not loaded; save it again.")
