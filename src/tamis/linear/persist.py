"""A fitted linear model as JSON-able data and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier

from tamis.core.errors import TamisFileError
from tamis.core.path import Path
from tamis.linear.parameters import method_of
from tamis.linear.witness import restored, stored
from tamis.store.kept import rebuilt, stored_parameters, with_parameters

Array = NDArray[Any]
MOST_COLUMNS = 10_000_000


def to_model(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything a fitted model needs to predict, report and be verified again; the training rows are not among it."""
    path_meta, path_arrays = model.path_.to_arrays()
    parameters = {name: value for name, value in stored_parameters(model).items() if name != "transformation"}
    meta = {
        "parameters": parameters, "path": path_meta, "t": model.t_,
        "status": model.status_, "notes": list(model.notes_), "baselines": model.baselines_, "target": model._target_name,
        "n_features_in": int(model.n_features_in_), "loss": model._loss_name, "scores": len(model.path_.knots[0].intercept),
        "feature_names_in": [str(name) for name in getattr(model, "feature_names_in_", ())] or None,
        "classes": np.asarray(getattr(model, "classes_", ())).tolist() or None,
        "arrays": sorted(model._arrays),
    }  # fmt: skip
    arrays = {f"path.{name}": value for name, value in path_arrays.items()} | {
        f"own.{name}": value for name, value in model._arrays.items()
    }
    said, claims = stored(model.path_)
    if said:
        meta["witness"] = said
        arrays |= {f"witness.{name}": value for name, value in claims.items()}
    if "beta" in model._arrays:
        transform = model.transformation_
        matrix = transform.matrix
        meta["transform"] = {"words": transform.words, "rows": list(model._method.names), "shape": list(matrix.shape)}
        arrays |= {"transform.data": matrix.data, "transform.indices": matrix.indices, "transform.indptr": matrix.indptr}
    return meta, arrays


def from_model(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Inverse of `to_model`."""
    return rebuilt(cls, meta, arrays, _restored)


def _restored(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    model = with_parameters(cls, meta["parameters"])
    model.n_features_in_, model._target_name, model._loss_name = int(meta["n_features_in"]), str(meta["target"]), str(meta["loss"])
    given = meta["feature_names_in"]
    if not 0 < model.n_features_in_ <= MOST_COLUMNS or not (given is None or _are_names(given, model.n_features_in_)):
        raise TamisFileError("The file's columns cannot be those of a model, so it was not loaded; save the model again.")
    if given:
        model.feature_names_in_ = np.array(given, dtype=object)
    if is_classifier(model) != bool(meta["classes"]):
        raise TamisFileError("The file's class labels do not fit its kind of model, so it was not loaded; save the model again.")
    if meta["classes"]:
        model.classes_ = np.array(meta["classes"])
    if "transform" in meta:
        model.transformation = _transform(meta["transform"], arrays)
    names = given or [f"x{j}" for j in range(model.n_features_in_)]
    model._method = method_of(model, tuple(names), model._loss_name, int(meta["scores"]))
    model._arrays = {name: arrays[f"own.{name}"] for name in meta["arrays"]}
    path = Path.from_arrays(meta["path"], {name[5:]: value for name, value in arrays.items() if name.startswith("path.")})
    _check_shapes(model, path)
    if "witness" in meta:
        own = {name[8:]: value for name, value in arrays.items() if name.startswith("witness.")}
        path = restored(path, model, names, meta["witness"], own)
    model.path_ = model._readable(path)
    model.t_, model.status_, model.notes_, model.baselines_ = float(meta["t"]), meta["status"], tuple(meta["notes"]), meta["baselines"]
    knot = model.path_.at(model.t_)
    model.certificate_, model.selected_, model.events_ = knot.certificate, knot.names, model.path_.events()
    model._publish_coefficients(knot)
    return model


def _are_names(given: Any, count: int) -> bool:
    return isinstance(given, list) and len(given) == count and all(isinstance(name, str) for name in given)


def _transform(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    from tamis.structures.transform import Transform

    parts = tuple(arrays[f"transform.{name}"] for name in ("data", "indices", "indptr"))
    if any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise TamisFileError("The file's transform has places that are no whole numbers, so it was not loaded; save the model again.")
    return Transform(sparse.csr_array(parts, shape=tuple(meta["shape"])), str(meta["words"]), tuple(map(str, meta["rows"])))


def _check_shapes(model: Any, path: Path) -> None:
    """Positions and widths that fit together, whoever wrote the file."""
    split = "beta" in model._arrays
    width = model._method.transform.shape[0] if split else model.n_features_in_
    scores = len(path.knots[0].intercept) if path.knots else 1
    fine = bool(path.knots) and all(
        knot.coefficients.ndim == 2 and knot.coefficients.shape[1] == scores == len(knot.intercept)
        and all(len(atom) == 1 and 0 <= atom[0] < width for atom in knot.atoms)
        for knot in path.knots
    )  # fmt: skip
    shapes = {"beta": model.n_features_in_, "projected": model.n_features_in_, "dual": width}
    for name, rows in shapes.items():
        if name in model._arrays:
            fine = fine and model._arrays[name].shape == (len(path.knots), rows, scores)
    if not fine or (hasattr(model, "classes_") and scores != (1 if len(model.classes_) == 2 else len(model.classes_))):
        raise TamisFileError("The path's pieces, coefficients and columns do not fit together, so the model was not loaded; save it again.")
