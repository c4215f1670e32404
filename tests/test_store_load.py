"""`tamis.load`: the right class for a kind, and one sentence for everything that is not a model it knows."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from helpers_store import one_sentence
from tamis.core.errors import TamisError, TamisFileError
from tamis.store import load as loading
from tamis.store.load import KINDS, load
from tamis.store.model_file import write_model


class Sample:
    """A model as small as can be."""

    def __init__(self, slope: float, weights: Any) -> None:
        self.slope, self.weights = slope, weights

    @classmethod
    def _from_model(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> Sample:
        if "raise" in meta:
            raise {"file": TamisFileError("Theirs."), "tamis": TamisError("Theirs too."), "stop": KeyboardInterrupt()}[meta["raise"]]
        return cls(1.0 / meta["slope"], arrays["weights"][0])


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sample_models")
    vars(module)["Sample"] = Sample
    monkeypatch.setitem(sys.modules, "sample_models", module)
    monkeypatch.setitem(loading.KINDS, "Sample", "sample_models:Sample")


def test_the_class_is_found_by_its_kind(tmp_path: Path) -> None:
    write_model(tmp_path / "a.tamis", "Sample", {"slope": 2.0}, {"weights": np.array([3])})
    for file in (tmp_path / "a.tamis", str(tmp_path / "a.tamis")):
        model = load(file)
        assert isinstance(model, Sample)
        assert (model.slope, model.weights) == (0.5, 3)


def test_an_unknown_kind_is_one_sentence_and_imports_nothing(tmp_path: Path) -> None:
    for kind in ("os:system", "../../x", "SequenceRules", "x" * 500):
        write_model(tmp_path / "a.tamis", kind, {}, {})
        before = set(sys.modules)
        with pytest.raises(TamisFileError) as caught:
            load(tmp_path / "a.tamis")
        assert f"holds a {kind[:50]!r}, which this tamis does not know, so nothing was loaded; install a newer" in one_sentence(
            caught.value
        )
        assert "RuleClassifier, RuleRegressor" in str(caught.value)
        assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("meta", "arrays", "why"),
    [
        ({}, {"weights": [1]}, "KeyError: 'slope'"),
        ({"slope": 0}, {"weights": [1]}, "ZeroDivisionError"),
        ({"slope": "steep"}, {"weights": [1]}, "TypeError"),
        ({"slope": 1}, {}, "KeyError: 'weights'"),
        ({"slope": 1}, {"weights": np.zeros(0)}, "IndexError"),
        ({"raise": "tamis"}, {}, "TamisError: Theirs too."),
    ],
)
def test_content_that_makes_no_model_is_one_sentence(tmp_path: Path, meta: Any, arrays: Any, why: str) -> None:
    write_model(tmp_path / "a.tamis", "Sample", meta, arrays)
    with pytest.raises(TamisFileError, match=r"does not describe a Sample .*so nothing was loaded; go back to an earlier copy") as caught:
        load(tmp_path / "a.tamis")
    assert why in one_sentence(caught.value)


def test_other_errors_pass(tmp_path: Path) -> None:
    write_model(tmp_path / "a.tamis", "Sample", {"raise": "file"}, {})
    with pytest.raises(TamisFileError, match=r"^Theirs\.$"):
        load(tmp_path / "a.tamis")
    write_model(tmp_path / "a.tamis", "Sample", {"raise": "stop"}, {})
    with pytest.raises(KeyboardInterrupt):
        load(tmp_path / "a.tamis")
    with pytest.raises(TamisFileError, match="There is no file"):
        load(tmp_path / "none.tamis")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Sample"}))
def test_every_kind_is_a_class_that_can_be_loaded(kind: str) -> None:
    module, _, name = KINDS[kind].partition(":")
    model_class = getattr(importlib.import_module(module), name)
    assert model_class.__name__ == kind
    assert callable(model_class._from_model)
