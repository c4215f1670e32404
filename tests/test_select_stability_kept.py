"""What a StabilitySelector keeps: in files, and when it is stopped before all samples are done."""

from __future__ import annotations

import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tamis.select.stability as module
from tamis import BregmanRegressor, InverseScaleRegressor, StabilitySelector, TamisError, load
from tamis.scale.executor import executor


def signals(rows: int = 80, columns: int = 15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, 2 * X[:, 3] - 2 * X[:, 8] + rng.normal(size=rows)


@pytest.mark.parametrize(
    "base",
    [None, BregmanRegressor(penalty="group", groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]]), InverseScaleRegressor(transformation="fused")],
)
def test_files_keep_everything(base: Any, tmp_path: Path) -> None:
    X, y = signals(columns=9)
    found = StabilitySelector(base, n_samples=4, q=2).fit(pd.DataFrame(X).add_prefix("c"), y)
    found.save(tmp_path / "a.tamis")
    again = load(tmp_path / "a.tamis")
    again.save(tmp_path / "b.tamis")
    assert (tmp_path / "a.tamis").read_bytes() == (tmp_path / "b.tamis").read_bytes()
    assert again.bound_sentence() == found.bound_sentence()
    assert again.selected_ == found.selected_
    assert str(again.frequencies_) == str(found.frequencies_)
    assert again.to_frame("pandas").equals(found.to_frame("pandas"))
    if base is None:
        assert again.transform(pd.DataFrame(X).add_prefix("c")).tolist() == X[:, found.get_support()].tolist()
    again.report(tmp_path / "page.html")
    assert found.selected_[0] in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_file_whose_parts_do_not_fit_is_refused() -> None:
    X, y = signals()
    meta, arrays = StabilitySelector(n_samples=2).fit(X, y)._to_model()
    for wrong in ({"share": arrays["share"][:-1]}, {"share": arrays["share"] + 2}, {"labels": arrays["labels"] + 1}):
        with pytest.raises(TamisError, match="do not fit together"):
            StabilitySelector._from_model(meta, arrays | wrong)


def test_interrupted_fits_keep_the_samples_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = signals()
    whole = StabilitySelector(n_samples=6, q=3).fit(X, y)
    job, calls = module.Job.__call__, []

    def interrupted(self: Any, weights: Any) -> Any:
        calls.append(1)
        return job(self, weights) if len(calls) <= 3 else "interrupted"

    monkeypatch.setattr(module.Job, "__call__", interrupted)
    found = StabilitySelector(n_samples=100, q=3).fit(X, y)
    assert found.status_ == "interrupted"
    assert found.n_samples_ == 6
    assert "after 6 of 100 samples" in found.notes_[0]
    assert found.frequencies_.tolist() == whole.frequencies_.tolist()


def test_ctrl_c_while_a_base_is_fitted_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = signals()
    fit, calls = InverseScaleRegressor.fit, []

    def slow(self: Any, *arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 7:
            signal.raise_signal(signal.SIGINT)
        return fit(self, *arguments, **named)

    monkeypatch.setattr(InverseScaleRegressor, "fit", slow)
    found = StabilitySelector(q=3).fit(X, y)
    assert (found.status_, found.n_samples_) == ("interrupted", 8)


def test_no_time_at_all_is_an_error_and_enough_is_none() -> None:
    X, y = signals()
    with pytest.raises(TamisError, match="before its first samples were done"):
        StabilitySelector(time_limit=0).fit(X, y)
    assert StabilitySelector(n_samples=4, time_limit=1000).fit(X, y).status_ == "complete"


def test_calling_off_what_has_not_begun_is_no_warning() -> None:
    begun = []

    def slow(part: int) -> int:
        begun.append(part)
        time.sleep(0.02)
        return part

    results = executor(2).map(slow, range(30))
    assert next(iter(results)) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module._closed(results)
    assert len(begun) < 30
