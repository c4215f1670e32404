"""A fitted rule model as JSON-able data and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate
from tamis.core.path import Path
from tamis.rules.ruleset import RuleSet
from tamis.rules.statistics import RuleStatistics
from tamis.store.export_json import from_json, to_json
from tamis.store.kept import rebuilt, stored_parameters, with_parameters
from tamis.tables.schema import Schema

Array = NDArray[Any]


def to_model(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything a fitted model needs to predict, explain, export, report and be verified again."""
    path_meta, path_arrays = model.path_.to_arrays()
    measured, measured_arrays = model.rules_.measured.to_record()
    along, along_arrays = model.path_statistics_.to_record()
    meta = {
        "parameters": stored_parameters(model),
        "schema": model.schema_.to_dict(), "card": to_json(model.rules_.card), "path": path_meta, "statistics": measured,
        "path_statistics": along,
        "certificate": model.certificate_.to_dict(), "baselines": model.baselines_, "status": model.status_, "C": model.C_,
        "notes": list(model.notes_), "n_features_in": int(model.n_features_in_),
        "feature_names_in": [str(name) for name in getattr(model, "feature_names_in_", ())] or None,
        "atoms": [list(atom) for atom in model.atoms_], "target": model._target_name,
    }  # fmt: skip
    arrays = {"weights": model.weights_, "constant": model.constant_}
    for prefix, found in (("path", path_arrays), ("statistics", measured_arrays), ("path_statistics", along_arrays)):
        arrays |= {f"{prefix}.{name}": value for name, value in found.items()}
    witness = model.certificate_.witness
    if witness is not None:
        meta["witness"], stored = witness.to_meta()
        arrays |= {f"witness.{name}": value for name, value in stored.items()}
    return meta, arrays


def from_model(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Inverse of `to_model`."""
    return rebuilt(cls, meta, arrays, _restored)


def _restored(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    model = with_parameters(cls, meta["parameters"])
    model.schema_, model.card_ = Schema.from_dict(meta["schema"]), from_json(meta["card"])
    model.path_ = Path.from_arrays(meta["path"], _part(arrays, "path."))
    model.certificate_ = Certificate.from_dict(meta["certificate"])
    if "witness" in meta:
        from tamis.rules.recheck import RuleWitness

        model.certificate_ = model.certificate_.with_witness(
            replace(RuleWitness.from_meta(meta["witness"], _part(arrays, "witness.")), schema=meta["schema"])
        )
    model._target_name = str(meta["target"])
    model.baselines_, model.status_, model.C_ = meta["baselines"], meta["status"], meta["C"]
    model.notes_, model.n_features_in_ = tuple(meta["notes"]), meta["n_features_in"]
    if meta["feature_names_in"]:
        model.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
    model.atoms_ = tuple(tuple(int(k) for k in atom) for atom in meta["atoms"])
    model.weights_, model.constant_ = arrays["weights"], arrays["constant"]
    if model.card_.classes:
        model.classes_ = np.array(model.card_.classes)
    statistics = RuleStatistics.from_record(meta["statistics"], _part(arrays, "statistics."))
    if "path_statistics" in meta:
        model.path_statistics_ = RuleStatistics.from_record(meta["path_statistics"], _part(arrays, "path_statistics."))
    model.rules_ = RuleSet(model.card_, statistics, model.certificate_, model.schema_, lattice=model.lattice, keep_order=True)
    model.selected_ = tuple(rule.text for rule in model.rules_)
    return model


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
