"""StabilitySelector against a loop written by hand, its bound against pure noise, and its contract."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import (
    BregmanClassifier,
    BregmanRegressor,
    Chunked,
    InverseScaleRegressor,
    RuleClassifier,
    RuleRegressor,
    StabilitySelector,
    TamisError,
)
from tamis.tables.folds import halves, row_hashes
from tamis.tables.frame import as_table

ESTIMATORS = [
    StabilitySelector(n_samples=4),
    StabilitySelector(InverseScaleRegressor(fit_intercept=False), n_samples=3, t=0.5, pairs=False, threshold=0.6),
    StabilitySelector(BregmanRegressor(kappa=50.0), n_samples=2, q=1),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_s_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check skips itself
    check(estimator)


def signals(seed: int = 0, rows: int = 80, columns: int = 15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, 2 * X[:, 3] - 2 * X[:, 8] + rng.normal(size=rows)


def first_to_enter(X: np.ndarray, y: np.ndarray, q: int) -> list[int]:
    """The first q columns with a coefficient on the exact path, one by one."""
    seen: list[int] = []
    for knot in InverseScaleRegressor(choose="last").fit(X, y).path_:
        new = [atom[0] for atom in knot.atoms if atom[0] not in seen]
        if len(seen) + len(new) > q:
            break
        seen += new
    return seen


# ---- frequencies ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pairs", [True, False])
def test_frequencies_are_those_of_a_loop_written_by_hand(pairs: bool) -> None:
    X, y = signals()
    found = StabilitySelector(n_samples=10, q=4, threshold=0.7, pairs=pairs).fit(X, y)
    drawn = halves(row_hashes(as_table(X), y[:, None], 0), np.zeros(80, dtype=int), np.ones(80), 5 if pairs else 10)
    counts = np.zeros(15)
    for half in drawn:
        assert half.sum() == 40
        for rows in [half > 0, half == 0] if pairs else [half > 0]:
            counts[first_to_enter(X[rows], y[rows], 4)] += 1
    assert found.frequencies_.tolist() == (counts / 10).tolist()
    assert found.get_support().tolist() == (counts >= 7).tolist()
    assert found.q_ == 4
    assert found.n_candidates_ == 15


@pytest.mark.parametrize("base", [InverseScaleRegressor(choose="last"), BregmanRegressor(kappa=20.0, choose="last")])
@pytest.mark.parametrize("t", [0.1, 1.2])
def test_at_a_time_what_is_selected_there_is_counted(base: Any, t: float) -> None:
    X, y = signals()
    found = StabilitySelector(base, n_samples=8, t=t).fit(X, y)
    counts, sizes = np.zeros(15), []
    for half in halves(row_hashes(as_table(X), y[:, None], 0), np.zeros(80, dtype=int), np.ones(80), 4):
        for rows in (half > 0, half == 0):
            coef, _ = base.fit(X[rows], y[rows]).coefficients(t)
            counts += coef != 0
            sizes.append(np.count_nonzero(coef))
    assert np.any(counts) == (t > 1)
    assert found.frequencies_.tolist() == (counts / 8).tolist()
    assert found.q_ == pytest.approx(np.mean(sizes))
    assert found.bound_ == pytest.approx(np.mean(sizes) ** 2 / (0.5 * 15))
    assert "estimate" in found.bound_sentence()


def test_columns_that_enter_together_count_only_if_they_fit() -> None:
    X = np.zeros((16, 3))
    X[:, 0] = np.repeat([1.0, -1.0], 8)
    X[:, 1] = np.tile(np.repeat([1.0, -1.0], 4), 2)
    X[:, 2] = np.tile([1.0, -1.0], 8)
    y = 3 * X[:, 0] + X[:, 1] + X[:, 2]
    rows = np.concatenate([X, X]), np.concatenate([y, y])  # every row twice: the halves are equal, and x1 and x2 tie in both
    assert StabilitySelector(n_samples=4, q=2).fit(*rows).frequencies_.tolist() == [1.0, 0.0, 0.0]
    assert StabilitySelector(n_samples=4, q=3).fit(*rows).frequencies_.tolist() == [1.0, 1.0, 1.0]


@settings(max_examples=8)
@given(st.integers(0, 2**20), st.integers(1, 4))
def test_a_weight_of_two_is_the_row_twice_and_order_changes_nothing(seed: int, q: int) -> None:
    X, y = signals(seed, 40, 10)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, 40)
    weighted = StabilitySelector(n_samples=6, q=q, random_state=3).fit(X, y, sample_weight=weight)
    order = rng.permutation(np.repeat(np.arange(40), weight))
    repeated = StabilitySelector(n_samples=6, q=q, random_state=3).fit(X[order], y[order])
    assert weighted.frequencies_.tolist() == repeated.frequencies_.tolist()


@settings(max_examples=5)
@given(st.integers(0, 2**20))
def test_scaling_and_negating_columns_changes_nothing(seed: int) -> None:
    X, y = signals(seed, 40, 10)
    plain = StabilitySelector(n_samples=6, q=3)
    # rows are dealt by content, which scaling changes: the same halves need the same rows, so the base alone sees the scaled ones
    factors = np.random.default_rng(seed).choice([-4.0, -1.0, 0.5, 2.0], 10)
    for half in halves(row_hashes(as_table(X), y[:, None], 0), np.zeros(40, dtype=int), np.ones(40), 3):
        rows = half > 0
        assert first_to_enter(X[rows], y[rows], 3) == first_to_enter(X[rows] * factors, y[rows], 3)
    assert plain.fit(X, y).frequencies_.sum() == pytest.approx(3.0)


def test_the_number_of_processes_changes_no_bit() -> None:
    X, y = signals(rows=2000, columns=80)  # large enough for joblib to map the table into memory
    one, two = (StabilitySelector(n_samples=6, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert one.frequencies_.tobytes() == two.frequencies_.tobytes()
    assert one.selected_ == two.selected_


def test_another_random_state_deals_other_halves() -> None:
    X, y = signals()
    found = [StabilitySelector(n_samples=10, random_state=seed).fit(X, y).frequencies_.tolist() for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    "form", [sparse.csr_array, pd.DataFrame, pl.DataFrame, lambda X: Chunked([X[:30], X[30:]]), lambda X: X.tolist(), np.asfortranarray]
)
def test_whatever_holds_the_rows(form: Any) -> None:
    X, y = signals()
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    plain, found = (StabilitySelector(n_samples=10, q=3).fit(held, y) for held in (X, form(X)))
    assert found.frequencies_.tolist() == plain.frequencies_.tolist()
    assert found.get_support().tolist() == plain.get_support().tolist()


# ---- what can be selected ---------------------------------------------------------------------------------------
def test_planted_signals_are_found() -> None:
    X, y = signals(rows=150, columns=40)
    found = StabilitySelector(n_samples=50, random_state=1).fit(X, y)
    assert sorted(found.selected_) == ["x3", "x8"]
    assert found.frequencies_[[3, 8]].tolist() == [1.0, 1.0]
    assert found.transform(X).tolist() == X[:, [3, 8]].tolist()
    assert found.get_feature_names_out().tolist() == ["x3", "x8"]
    assert found.q_ == round(np.sqrt(0.8 * 40))


def test_a_group_counts_when_it_enters() -> None:
    X, y = signals(rows=120, columns=12)
    groups = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    base = BregmanRegressor(penalty="group", groups=groups)
    found = StabilitySelector(base, n_samples=10, q=2).fit(X, y)
    assert found.kind_ == "groups"
    assert found.frequencies_ == {"{x0, x1, x2}": 0.0, "{x3, x4, x5}": 1.0, "{x6, x7, x8}": 1.0, "{x9, x10, x11}": 0.0}
    assert found.get_support(indices=True).tolist() == [3, 4, 5, 6, 7, 8]
    assert found.n_candidates_ == 4
    assert found.bound_ == pytest.approx(4 / (0.5 * 4))
    labels = ["b", "b", "b", "a", "a", "a", "c", "c", "c", "d", "d", "d"]
    named = StabilitySelector(base.set_params(groups=labels), n_samples=10, q=2).fit(X, y)
    assert list(named.frequencies_.items()) == [("b", 0.0), ("a", 1.0), ("c", 1.0), ("d", 0.0)]


def test_rows_of_a_transformation_are_pieces_and_pick_no_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 30))
    y = X @ np.repeat([0, 2.0, -1], 10) + rng.normal(size=120)
    found = StabilitySelector(InverseScaleRegressor(transformation="fused"), n_samples=10, q=3).fit(X, y)
    assert found.kind_ == "rows of D"
    assert sorted(found.selected_) == ["x19 - x20", "x9 - x10"]
    assert len(found.frequencies_) == found.n_candidates_ == 29
    for use in (found.get_support, lambda: found.transform(X)):
        with pytest.raises(TamisError, match="rows of D, not columns"):
            use()


def test_rules_are_the_same_on_all_samples() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "noise": rng.normal(size=200), "city": rng.choice(["Rome", "Oslo"], 200)})
    y = np.where((X["a"] > 0.5) & (X["city"] == "Rome"), "yes", "no")
    found = StabilitySelector(RuleClassifier(C=3.0, n_cuts=4), n_samples=6, threshold=0.9).fit(X, y)
    assert found.kind_ == "rules"
    assert found.q_ == pytest.approx(sum(found.frequencies_.values()))
    # cut points of halves would differ, and with them the names of the same finding
    whole = RuleClassifier(C=3.0, n_cuts=4).fit(X, y)
    cut = next(text.removeprefix("a > ") for text in whole.selected_ if text.startswith("a > "))
    assert sorted(found.selected_) == [f"a <= {cut} or its opposite", "city = Oslo or its opposite"]
    assert found.bound_ < 0.5
    assert "not bounded" in found.bound_sentence()


def test_conjunctions_are_pieces() -> None:
    X = np.random.default_rng(0).integers(0, 2, (200, 4)).astype(bool)
    found = StabilitySelector(RuleClassifier(cuts="none", C=10.0), n_samples=4).fit(X, X[:, 0] ^ X[:, 1])
    assert found.frequencies_["x0 AND x1"] == 1.0


def test_the_first_rules_of_a_path() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    found = StabilitySelector(RuleRegressor(n_cuts=3, n_path=6), n_samples=2, q=2).fit(X, 3.0 * (X[:, 1] > 0.2))
    assert sum(found.frequencies_.values()) <= 2
    assert any(name.startswith("x1 ") and name.endswith(" or its opposite") for name in found.frequencies_)


def test_a_classifier_as_base() -> None:
    X, _ = signals(rows=200, columns=10)
    y = np.where(X[:, 2] + X[:, 6] + 0.5 * np.random.default_rng(0).normal(size=200) > 0, "up", "down")
    assert sorted(StabilitySelector(BregmanClassifier(), n_samples=6, q=2).fit(X, y).selected_) == ["x2", "x6"]


def test_constant_free_and_forbidden_columns_are_no_candidates() -> None:
    X, y = signals()
    X[:, 5] = 7.0
    factors = np.ones(15)
    factors[0], factors[1] = 0.0, np.inf
    found = StabilitySelector(InverseScaleRegressor(penalty_factor=factors), n_samples=6, q=2).fit(X, y)
    assert found.n_candidates_ == 12
    assert found.frequencies_[[0, 1, 5]].tolist() == [1.0, 0.0, 0.0]
    assert found.frequencies_[1:].sum() == pytest.approx(2.0)  # the free one is not among the first q
    assert "'x0'" in found.notes_[0]


# ---- the bound --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("q", "threshold"), [(3, 0.6), (5, 0.75), (6, 1.0)])
def test_the_bound_s_arithmetic(q: int, threshold: float) -> None:
    X, y = signals()
    found = StabilitySelector(n_samples=2, q=q, threshold=threshold).fit(X, y)
    assert found.bound_ == pytest.approx(q**2 / ((2 * threshold - 1) * 15), rel=1e-12)
    assert f"q = {q}, threshold = {threshold:g}, p = 15" in found.bound_sentence()
    assert not found.certificate_.holds
    assert found.bound_sentence() in found.certificate_.sentence()


@pytest.mark.parametrize("threshold", [0.6, 0.75])
def test_false_selections_on_pure_noise_stay_within_the_bound(threshold: float) -> None:
    false = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = StabilitySelector(n_samples=30, q=4, threshold=threshold).fit(rng.normal(size=(40, 20)), rng.normal(size=40))
        false.append(len(found.selected_))
    assert np.mean(false) + 2 * np.std(false) / np.sqrt(20) <= found.bound_
    assert found.bound_ == pytest.approx({0.6: 4.0, 0.75: 1.6}[threshold])


def test_the_path_holds_the_selection_at_every_threshold() -> None:
    X, y = signals()
    found = StabilitySelector(n_samples=20, threshold=0.6).fit(X, y)
    for threshold in (0.55, 0.6, 0.8, 0.9, 1.0):
        other = StabilitySelector(n_samples=20, threshold=threshold).fit(X, y)
        if threshold >= 0.6:
            assert set(found.path_.selected(threshold)) == set(other.selected_)
    assert found.path_.selected(0.6) == found.selected_


# ---- bad inputs -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"base": 3}, "base=3 follows no path"),
        ({"base": InverseScaleRegressor}, "follows no path"),
        ({"n_samples": 7}, "n_samples=7 is odd"),
        ({"n_samples": 0}, "n_samples=0 cannot be used"),
        ({"q": 0}, "q=0 cannot be used"),
        ({"q": 16}, "q=16 exceeds the 15 columns"),
        ({"q": 2, "t": 1.0}, "q=2 and t=1.0 were both given"),
        ({"t": -1.0}, "t=-1.0 cannot be used"),
        ({"threshold": 0.5}, "threshold=0.5 cannot be used"),
        ({"threshold": 1.01}, "threshold=1.01 cannot be used"),
        ({"pairs": "no"}, "pairs='no' cannot be used"),
        ({"time_limit": -1}, "time_limit=-1 cannot be used"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"base": InverseScaleRegressor(t_max=1.0), "t": 2.0}, "t=2 lies beyond"),
        ({"base": RuleRegressor(C=1.0), "q": 2}, "ask for different places"),
        ({"base": InverseScaleRegressor(nu=-1)}, "nu=-1 cannot be used"),
    ],
)
def test_bad_parameters_are_one_sentence(changed: dict[str, Any], words: str) -> None:
    X, y = signals()
    with pytest.raises(TamisError, match=re.escape(words)) as caught:
        StabilitySelector(**changed).fit(X, y)
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said


def test_rows_that_cannot_be_halved() -> None:
    with pytest.raises(TamisError, match="only one sample"):
        StabilitySelector().fit([[1.0, 2.0]], [1.0])
    with pytest.raises(TamisError, match="only one sample"):
        StabilitySelector().fit([[1.0, 2.0], [2.0, 3.0]], [1.0, 2.0], sample_weight=[1, 0])
    X, y = signals(rows=9)
    with pytest.raises(TamisError, match="The class 'b' has a single row"):
        StabilitySelector(BregmanClassifier()).fit(X, ["a"] * 8 + ["b"])
    labels = np.where(y > np.median(y), "a", "b")
    labels[0] = "c"  # a class whose rows have no weight is none
    assert StabilitySelector(BregmanClassifier(), n_samples=2).fit(X, labels, sample_weight=[0] + [1] * 8).n_samples_ == 2
    with pytest.raises(TamisError, match="in column 'x2'"):
        StabilitySelector().fit(np.where(np.arange(15) == 2, np.nan, X), X[:, 0])
