"""Model files of linear models that are whole as files and make no sense as models: a sentence, or a model that predicts, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from helpers_paths import autoregressive
from tamis import BregmanClassifier, BregmanRegressor, InverseScaleRegressor, StabilitySelector, TamisFileError
from tamis.store.model_file import write_model

MODELS = [
    InverseScaleRegressor(choose="ebic"),
    InverseScaleRegressor(transformation="fused", choose="last"),
    BregmanRegressor(kappa=5.0, choose="last", t=[0.5, 1.0, 2.0]),
    BregmanClassifier(choose="last", t=[1.0, 4.0], penalty="column"),
    StabilitySelector(InverseScaleRegressor(choose="last"), n_samples=10, random_state=0),
]


def spoilt(value: Any) -> list[Any]:
    """What a careless or hostile writer may put in place of an array."""
    return [value[:0], value[..., None], np.full_like(value, -1), np.full_like(value, 10**6), value.astype(np.float64) * np.nan, value[:-1]]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_file_of_nonsense_is_refused_or_harmless(model: Any, tmp_path: Path) -> None:
    X, y, _ = autoregressive(40, 5, 2)
    model.fit(X, np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])] if isinstance(model, BregmanClassifier) else y)
    meta, arrays = model._to_model()
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for name, value in arrays.items():
        cases += [(meta, {**arrays, name: other}) for other in spoilt(np.asarray(value))] if np.ndim(value) else []
        cases.append((meta, {key: held for key, held in arrays.items() if key != name}))
    for name in meta:
        cases += [({**meta, name: other}, arrays) for other in (None, 7, -1.5, "nonsense", [], {}, [None], {"x": 1})]
        cases.append(({key: held for key, held in meta.items() if key != name}, arrays))
    refused = 0
    for number, (some_meta, some_arrays) in enumerate(cases):
        file = tmp_path / f"{number}.tamis"
        write_model(file, type(model).__name__, some_meta, some_arrays)
        try:
            loaded = tamis.load(file)
        except TamisFileError:
            refused += 1
            continue
        if hasattr(loaded, "predict"):
            loaded.predict(np.zeros((2, loaded.n_features_in_)))
    assert refused > len(cases) // 4
