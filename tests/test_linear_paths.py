"""The linear estimators as their users meet them: what paths, choices, files and predictions promise."""

from __future__ import annotations

import pickle
from pathlib import Path as File
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import tamis
from helpers_paths import autoregressive
from tamis import BregmanClassifier, BregmanRegressor, Chunked, InverseScaleRegressor, TamisError


def classes(seed: int = 0, count: int = 2, rows: int = 150) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 6))
    scores = X[:, :count] * 2 + rng.standard_normal((rows, count))
    return X, np.array(list("abcd"))[scores.argmax(axis=1)]


PATHS = [
    InverseScaleRegressor(choose="last"),
    InverseScaleRegressor(choose="ebic"),
    InverseScaleRegressor(transformation="fused", choose="last"),
    BregmanRegressor(kappa=30.0, choose="last"),
    BregmanRegressor(penalty="group", groups=[[0, 1], [2, 3], [4, 5]], kappa=10.0, choose="last"),
    BregmanRegressor(loss="huber", kappa=10.0, choose="last"),
    BregmanRegressor(loss="poisson", kappa=10.0, choose="last"),
    BregmanRegressor(transformation="fused+identity", kappa=10.0, choose="last"),
    BregmanClassifier(choose="last"),
    BregmanClassifier(penalty="column", choose="last"),
    BregmanClassifier(transformation="identity", kappa=20.0, choose="last"),
]


def data_for(model: Any, seed: int = 0) -> tuple[Any, Any]:
    if isinstance(model, BregmanClassifier):
        return classes(seed, 3 if model.penalty == "column" else 2)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6))
    eta = 0.8 * X[:, 0] - 0.5 * X[:, 3]
    return X, rng.poisson(np.exp(eta)).astype(float) if getattr(model, "loss", "") == "poisson" else eta + 0.3 * rng.standard_normal(80)


@pytest.mark.parametrize("model", PATHS, ids=str)
def test_a_saved_model_says_the_same(model: Any, tmp_path: File) -> None:
    X, y = data_for(model)
    model.fit(X, y)
    model.save(tmp_path / "model.tamis")
    again = tamis.load(tmp_path / "model.tamis")
    for t in (None, float(model.path_.t[len(model.path_) // 2]), float(model.path_.t[1:3].mean())):
        assert np.array_equal(again.predict(X, t), model.predict(X, t))
        assert np.array_equal(again.coefficients(t)[0], model.coefficients(t)[0])
    assert again.selected_ == model.selected_
    assert again.events_ == model.events_
    assert again.certificate_.sentence() == model.certificate_.sentence()
    again.save(tmp_path / "again.tamis")
    assert (tmp_path / "again.tamis").read_bytes() == (tmp_path / "model.tamis").read_bytes()
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("model", PATHS, ids=str)
def test_a_journal_goes_on_to_the_same_end(model: Any, tmp_path: File) -> None:
    X, y = data_for(model)
    whole = model.fit(X, y).path_
    file = str(tmp_path / "journal")
    model.set_params(journal=file).fit(X, y)
    size = File(file).stat().st_size
    with File(file).open("r+b") as journal:  # as after a kill in the middle of a write
        journal.truncate(int(size * 0.6))
    resumed = model.fit(X, y).path_
    model.set_params(journal=None)
    assert np.array_equal(resumed.t, whole.t)
    for one, other in zip(resumed.knots, whole.knots, strict=True):
        left = dict(zip(one.atoms, one.coefficients, strict=True))
        right = dict(zip(other.atoms, other.coefficients, strict=True))
        assert left.keys() == right.keys()
        assert all(np.allclose(left[atom], right[atom], rtol=1e-9, atol=1e-10) for atom in left)


@pytest.mark.parametrize("model", PATHS, ids=str)
def test_every_knot_is_certified(model: Any) -> None:
    X, y = data_for(model)
    for knot in model.fit(X, y).path_.knots:
        assert knot.certificate.holds, knot.certificate.sentence()
        assert knot.certificate.sentence().startswith("Exact to ")


@pytest.mark.parametrize("model", [InverseScaleRegressor(choose="last"), BregmanRegressor(kappa=20.0, choose="last")], ids=str)
def test_any_container_of_the_same_numbers_gives_the_same_path(model: Any) -> None:
    X, y, _ = autoregressive(90, 12, 3)
    names = [f"c{j}" for j in range(12)]
    frame = pd.DataFrame(X, columns=names)
    expected = model.fit(frame, y).coef_
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        assert np.array_equal(model.fit(other, y).coef_, expected)
        assert model.feature_names_in_.tolist() == names
    for other in (X, sparse.csc_array(X), sparse.csr_matrix(X), Chunked([X[:40], X[40:]]), Chunked([sparse.csr_array(X[:40]), X[40:]])):
        assert np.allclose(model.fit(other, y).coef_, expected, rtol=1e-8, atol=1e-9)
        assert model.selected_[0].startswith("x")


def test_memory_mapped_tables_are_read_in_blocks(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = autoregressive(400, 30, 4)
    np.save(tmp_path / "table.npy", X)
    monkeypatch.setattr("tamis.linear.inputs.BLOCK_BYTES", 1000)
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    model, plain = InverseScaleRegressor().fit(mapped, y), InverseScaleRegressor().fit(X, y)
    assert model.selected_ == plain.selected_
    assert np.allclose(model.coef_, plain.coef_, atol=1e-10)
    assert np.allclose(model.predict(mapped), plain.predict(X))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000))
def test_weights_repeat_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, _ = autoregressive(40, 8, 3, seed)
    weight = rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), weight)
    for model in (InverseScaleRegressor(), InverseScaleRegressor(choose="discrepancy"), BregmanRegressor(kappa=10.0, choose="ebic")):
        weighted, repeated = model.fit(X, y, weight).coef_, model.fit(X[rows], y[rows]).coef_
        assert np.allclose(weighted, repeated, rtol=1e-7, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), power=st.integers(-60, 60), offset=st.sampled_from([0.0, 1e6]))
def test_other_units_change_nothing_but_units(seed: int, power: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    X, y, _ = autoregressive(50, 6, 2, seed)
    scale = 10.0 ** rng.uniform(-3, 3, 6) * 10.0**power
    for model in (InverseScaleRegressor(choose="ebic"), BregmanRegressor(kappa=20.0, choose="ebic")):
        plain = model.fit(X, y)
        chosen, coefficients, fitted = plain.selected_, plain.coef_, plain.predict(X)
        moved = (X + offset / 1e3) * scale
        model.fit(moved, 10.0**-power * y + offset * (power == 0))
        assert model.selected_ == chosen
        assert np.allclose(model.coef_ * scale, coefficients * 10.0**-power, rtol=1e-6, atol=1e-8 * 10.0**-power)
        # columns a thousand times their spread away from zero cost three digits
        assert np.allclose(model.predict(moved), 10.0**-power * fitted + offset * (power == 0), rtol=1e-6, atol=1e-6 * 10.0**-power)


def test_the_complete_path_ends_at_least_squares() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = InverseScaleRegressor(choose="last").fit(X, y)
    truth = LinearRegression().fit(X, y)
    assert np.allclose(model.coef_, truth.coef_, rtol=1e-8)
    assert model.intercept_ == pytest.approx(truth.intercept_)
    assert model.status_ == "complete"
    # between events the model stays, and behind the last one, too
    path = model.path_
    middle = float(path.t[3:5].mean())
    assert np.array_equal(model.coefficients(middle)[0], model.coefficients(float(path.t[3]))[0])
    assert np.array_equal(model.coefficients(1e9)[0], model.coef_)
    assert not model.coefficients(0.5 * path.t[1])[0].any()


def test_every_knot_is_least_squares_on_what_it_holds() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = InverseScaleRegressor(choose="last").fit(X, y)
    for knot in model.path_.knots[1:]:
        held = [atom[0] for atom in knot.atoms]
        assert np.allclose(knot.coefficients[:, 0], LinearRegression().fit(X[:, held], y).coef_, rtol=1e-7)


def test_validation_equals_a_loop_written_by_hand() -> None:
    X, y, _ = autoregressive(60, 10, 3)
    folds = [(np.flatnonzero(np.arange(60) % 4 != k), np.flatnonzero(np.arange(60) % 4 == k)) for k in range(4)]
    model = InverseScaleRegressor(cv=folds).fit(X, y)
    paths = [InverseScaleRegressor(choose="last").fit(X[train], y[train]) for train, _ in folds]
    for k, t in enumerate(model.path_.t[: len(model.path_.scores["mean"])]):
        errors = [np.mean((y[test] - path.predict(X[test], float(t))) ** 2) for path, (_, test) in zip(paths, folds, strict=True)]
        assert np.allclose(model.path_.scores["folds"][:, k], errors, rtol=1e-9)
    grid = model.path_.scores["grid"]
    curve = np.array(
        [
            np.mean([np.mean((y[test] - path.predict(X[test], float(t))) ** 2) for path, (_, test) in zip(paths, folds, strict=True)])
            for t in grid
        ]
    )
    spread = np.array(
        [
            np.std(
                [np.mean((y[test] - path.predict(X[test], float(t))) ** 2) for path, (_, test) in zip(paths, folds, strict=True)], ddof=1
            )
            / 2
            for t in grid
        ]
    )
    best = int(np.argmin(curve))
    first = grid[np.flatnonzero(curve <= curve[best] + spread[best])[0]]
    assert model.t_ == model.path_.at(float(first)).t


def test_products_shared_by_folds_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = autoregressive(300, 20, 5)
    X = X * 10.0 ** np.linspace(-3, 3, 20) + 50.0
    weight = np.random.default_rng(0).random(300) + 0.1
    alone = InverseScaleRegressor().fit(X, y, weight)
    monkeypatch.setattr("tamis.linear.exact.SMALL", 0)
    shared = InverseScaleRegressor().fit(X, y, weight)
    assert np.allclose(alone.path_.scores["mean"], shared.path_.scores["mean"], rtol=1e-8)
    assert np.allclose(alone.path_.t, shared.path_.t, rtol=1e-8)
    assert alone.selected_ == shared.selected_


def test_folds_in_processes_give_the_same_bits() -> None:
    X, y, _ = autoregressive(80, 30, 4)
    one, two = InverseScaleRegressor().fit(X, y), InverseScaleRegressor(n_jobs=2).fit(X, y)
    assert np.array_equal(one.path_.scores["grid_mean"], two.path_.scores["grid_mean"])
    assert one.t_ == two.t_


@pytest.mark.parametrize("choose", ["cv", "cv-best", "aic", "bic", "ebic", "discrepancy", "stability", "last", 0.2])
def test_every_way_of_choosing_chooses(choose: Any) -> None:
    X, y, beta = autoregressive(200, 25, 4)
    model = InverseScaleRegressor(choose=choose).fit(X, y)
    assert model.path_.knots[[knot.t for knot in model.path_.knots].index(model.t_)].names == model.selected_
    if choose in ("cv", "ebic", "discrepancy"):
        assert {int(name[1:]) for name in model.selected_} == set(np.flatnonzero(beta).tolist())
    if choose == 0.2:
        assert model.t_ <= 0.2


def test_extended_bic_counts_all_models_of_a_size() -> None:
    from math import comb, log

    X, y, _ = autoregressive(70, 15, 3)
    path = InverseScaleRegressor(choose="ebic").fit(X, y).path_
    values = []
    for knot in path.knots:
        columns = [atom[0] for atom in knot.atoms]
        rest = y - knot.intercept[0] - X[:, columns] @ knot.coefficients[:, 0]
        k = len(columns)
        values.append(70 * log(float(rest @ rest) / 70) + k * log(70) + log(comb(15, k)))
    assert path.select("ebic").t == path.knots[int(np.argmin(values))].t


def test_unpenalised_and_forbidden_columns() -> None:
    X, y, _ = autoregressive(80, 6, 2)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = InverseScaleRegressor(penalty_factor={"e": 0, "f": np.inf}, choose="last").fit(frame, y)
    assert all("e" in knot.names and "f" not in knot.names for knot in model.path_.knots)
    first = model.path_.knots[0]
    assert first.coefficients[0, 0] == pytest.approx(LinearRegression().fit(frame[["e"]], y).coef_[0])
    dear = InverseScaleRegressor(penalty_factor={"a": 1e6}, choose="last").fit(frame, y)
    assert [name for _, kind, name in dear.events_ if kind == "enters"][-1] == "a"
    positive = InverseScaleRegressor(nonnegative=["a", "b", "c", "d", "e", "f"], choose="last").fit(frame, y)
    assert positive.coef_.min() >= 0


def test_constant_and_repeated_columns_are_named() -> None:
    X, y, _ = autoregressive(60, 5, 2)
    frame = pd.DataFrame(np.hstack([X, np.full((60, 1), 3.0), X[:, :1]]), columns=["a", "b", "c", "d", "e", "still", "twin"])
    model = InverseScaleRegressor(choose="last").fit(frame, y)
    assert any("'still' is constant" in note for note in model.notes_)
    assert any("'twin' is reproduced" in note and "'a'" in note for note in model.notes_)
    assert model.coef_[5] == model.coef_[6] == 0.0


def test_a_time_limit_keeps_the_path_so_far() -> None:
    X, y, _ = autoregressive(200, 400, 20)
    model = InverseScaleRegressor(time_limit=0.0).fit(X, y)
    assert model.status_ == "budget"
    assert len(model.path_) >= 1
    assert model.certificate_.holds


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (InverseScaleRegressor(choose="best"), {}, "choose='best' is not known"),
    (InverseScaleRegressor(max_features=0), {}, "max_features=0"),
    (InverseScaleRegressor(t_max=-1.0), {}, "t_max=-1.0"),
    (InverseScaleRegressor(cv=1), {}, "cv=1"),
    (InverseScaleRegressor(penalty_factor={"no": 1}), {}, "'no'"),
    (InverseScaleRegressor(penalty_factor=[1.0, -1.0]), {}, "penalty_factor"),
    (InverseScaleRegressor(transformation="fussed"), {}, "fussed"),
    (BregmanRegressor(step=1e9, kappa=10.0), {}, "largest stable"),
    (BregmanRegressor(penalty="group"), {}, "needs groups"),
    (BregmanRegressor(penalty="group", groups=[[0, 1], [1, 2, 3]], kappa=10.0), {}, "both hold"),
    (BregmanRegressor(penalty="group", groups=[[0, 1], [2]], kappa=10.0), {}, "'x3' is in no group"),
    (BregmanRegressor(penalty="group", groups=[[], [0, 1, 2, 3]], kappa=10.0), {}, "is empty"),
    (BregmanRegressor(penalty="group", groups={"zz": 1}), {}, "'zz'"),
    (BregmanRegressor(kappa=-1.0), {}, "kappa=-1.0"),
    (BregmanRegressor(kappa=5.0, max_features=2), {}, "max_features=2"),
    (BregmanRegressor(kappa=5.0, t=[1.0], t_max=2.0), {}, "t_max=2.0"),
    (BregmanRegressor(groups=[[0, 1], [2, 3]]), {}, "groups needs"),
    (BregmanRegressor(kappa=5.0, group_weights="one"), {}, "group_weights needs groups"),
    (InverseScaleRegressor(nu=2.0), {}, "nu=2.0"),
    (BregmanRegressor(start="zero"), {}, "start='zero'"),
    (BregmanRegressor(kappa=5.0, choose="discrepancy"), {}, "choose='discrepancy'"),
    (InverseScaleRegressor(n_jobs=0), {}, "n_jobs=0"),
    (BregmanRegressor(loss="hinge"), {}, "loss='hinge'"),
    (BregmanRegressor(loss="poisson"), {"y": -np.ones(30)}, "y >= 0"),
    (BregmanRegressor(t=[-1.0]), {}, "t="),
    (BregmanRegressor(choose="discrepancy", loss="huber"), {}, "squared loss"),
    (BregmanClassifier(), {"y": np.zeros(30)}, "one class"),
    (InverseScaleRegressor(), {"X": np.full((30, 4), np.nan)}, "NaN in column 'x0'"),
    (InverseScaleRegressor(), {"X": np.full((30, 4), np.inf)}, "infinity"),
    (InverseScaleRegressor(), {"X": np.full((30, 4), 1e200)}, "rescale"),
    (InverseScaleRegressor(), {"X": pd.DataFrame({"word": ["a", "b"] * 15})}, "'word' holds text"),
    (InverseScaleRegressor(), {"sample_weight": np.zeros(30)}, "zero for every row"),
    (BregmanRegressor(transformation=np.ones((2, 9)), kappa=5.0), {}, "9"),
]


@pytest.mark.parametrize(("model", "given", "said"), BAD, ids=[f"{index}-{said}" for index, (_, _, said) in enumerate(BAD)])
def test_bad_input_is_one_sentence(model: Any, given: dict[str, Any], said: str) -> None:
    rng = np.random.default_rng(0)
    X, y = given.get("X", rng.standard_normal((30, 4))), given.get("y", rng.standard_normal(30))
    with pytest.raises(TamisError) as raised:
        model.fit(X, y, given.get("sample_weight"))
    text = str(raised.value)
    assert said in text
    assert "\n" not in text
    assert text.endswith((".", "?"))


def test_a_path_cut_off_by_its_iterations_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = classes()
    assert BregmanClassifier(choose="last").fit(X, y).status_ == "complete"
    monkeypatch.setattr("tamis.linear.damped.MOST", 100)
    model = BregmanClassifier(choose="last").fit(X, y)
    assert model.status_ == "stopped"
    assert any("after 100 iterations" in note for note in model.notes_)


def test_stability_without_time_for_a_sample_chooses_no_saturated_model() -> None:
    X, y, _ = autoregressive(60, 20, 3)
    model = InverseScaleRegressor(choose="stability", time_limit=1e-9).fit(X, y)
    assert model.status_ == "budget"


def test_reading_beyond_the_path_is_refused() -> None:
    X, y = classes()
    model = BregmanClassifier(t_max=None).fit(X, y)
    with pytest.raises(TamisError, match="beyond the end of the path"):
        model.predict(X, 2 * float(model.path_.t[-1]))
    with pytest.raises(TamisError, match="no time on a path"):
        model.predict(X, -1.0)
    assert np.isfinite(model.predict_proba(X, 0.0)).all()


def test_refining_the_grid_of_times_changes_nothing_at_common_times() -> None:
    X, y, _ = autoregressive(50, 10, 3)
    coarse = BregmanRegressor(kappa=20.0, t=[0.5, 1.0, 2.0], choose="last").fit(X, y)
    fine = BregmanRegressor(kappa=20.0, t=np.linspace(0.1, 2.0, 39), choose="last").fit(X, y)
    for t in (0.5, 1.0, 2.0):
        assert np.allclose(coarse.coefficients(t)[0], fine.coefficients(t)[0], rtol=1e-9, atol=1e-11)


def test_jumps_of_a_signal_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0.0, 3.0, -1.0, 2.0], 25)
    y = truth + 0.3 * rng.standard_normal(100)
    model = InverseScaleRegressor(transformation="fused").fit(np.eye(100), y)
    assert set(model.selected_) == {"x24 - x25", "x49 - x50", "x74 - x75"}
    assert np.flatnonzero(model.gamma_).tolist() == [24, 49, 74]
    fitted = model.intercept_ + model.projected_coef_
    assert np.unique(fitted.round(9)).size == 4
    assert np.abs(fitted - truth).max() < 0.2
    with pytest.raises(AttributeError, match="without a transformation"):
        _ = InverseScaleRegressor().fit(np.eye(100), y).gamma_
