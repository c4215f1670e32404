"""The recheck of linear paths against independent truths, on data in every form, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from helpers_linear_recheck import CLAIM, COLUMNS, GROUPS, ROWS, Array, busy_knot, checked, data, fitted, without, witness_of
from tamis import BregmanRegressor, Chunked, InverseScaleRegressor, TamisError
from tamis.core.certificate import Certificate
from tamis.linear.recheck import LinearWitness, PathFacts, WitnessGauge, WitnessRows


# ---- independent truths ---------------------------------------------------------------------------------------
def plain_loop(
    X: Array, y: Array, kappa: float, step: float, times: Array, gradient: Callable[[Array], Array]
) -> tuple[Array, Array, float]:
    """The recursion on all columns: coefficients at the times, which were ever in, and t0; no intercept, entries, mean loss."""
    n = len(y)
    start = X.T @ gradient(np.zeros(n)) / n
    t = first = 1.0 / np.abs(start).max()
    z, found, ever = -t * start, np.zeros((len(times), X.shape[1])), np.zeros(X.shape[1], dtype=bool)
    for k, goal in enumerate(times):
        if goal < first:
            continue
        while t + step <= goal:
            theta = kappa * np.sign(z) * np.maximum(np.abs(z) - 1, 0)
            ever |= theta != 0
            z, t = z - step * X.T @ gradient(X @ theta) / n, t + step
        theta = kappa * np.sign(z) * np.maximum(np.abs(z) - 1, 0)
        between = z - (goal - t) * X.T @ gradient(X @ theta) / n
        found[k] = kappa * np.sign(between) * np.maximum(np.abs(between) - 1, 0)
    return found, ever, first


def facts_of(X: Array, y: Array, loss: str, times: Array, coefficients: Array, kappa: float, step: float, first: float) -> PathFacts:
    held = [np.flatnonzero(row) for row in coefficients]
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    rows = WitnessRows(len(y), X.shape[1], names, blocks=(X,), target=y[:, None], weight=np.ones(len(y)))
    return PathFacts(
        "damped", rows, times, tuple(held), tuple(row[some][:, None] for row, some in zip(coefficients, held, strict=True)),
        np.zeros((len(times), 1)), fit_intercept=False, standardize=False, loss=loss, delta=0.8, gauge=WitnessGauge(np.ones(X.shape[1])),
        kappa=kappa, t0=first, steps=np.full(len(times), step),
    )  # fmt: skip


GRADIENTS: dict[str, Callable[[Array, Array], Array]] = {
    "squared": lambda score, y: score - y,
    "huber": lambda score, y: np.clip(score - y, -0.8, 0.8),
    "logistic": lambda score, y: -y / (1 + np.exp(y * score)),
}


@pytest.mark.parametrize("loss", GRADIENTS)
def test_columns_that_come_and_go_between_knots_are_found(loss: str) -> None:
    rng = np.random.default_rng(2)
    common = rng.normal(size=(40, 3))
    X = common @ rng.normal(size=(3, 200)) + 0.5 * rng.normal(size=(40, 200))
    y = np.sign(common[:, 0] + 0.3 * rng.normal(size=40)) if loss == "logistic" else common[:, 0] + 0.3 * rng.normal(size=40)
    kappa = 10.0
    step = len(y) / (kappa * np.linalg.norm(X, 2) ** 2)

    def gradient(score: Array) -> Array:
        return GRADIENTS[loss](score, y)

    _, _, first = plain_loop(X, y, kappa, step, np.zeros(1), gradient)
    times = np.array([0.0, 25.0 * first])
    found, ever, _ = plain_loop(X, y, kappa, step, times, gradient)
    assert (ever & (found[-1] == 0)).sum() >= 1  # these no knot speaks of
    facts = facts_of(X, y, loss, times, found, kappa, step, first)
    assert checked(facts).value <= 1e-10
    wrong = found.copy()
    wrong[-1, np.flatnonzero(found[-1] == 0)[0]] = 1e-6 * np.abs(found).max()
    assert checked(replace(facts_of(X, y, loss, times, wrong, kappa, step, first))).refuted


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(2.0, 40.0), st.floats(0.2, 1.9), st.booleans())
def test_the_replay_equals_a_plain_loop(seed: int, kappa: float, relative: float, huber: bool) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 30)), rng.normal(size=12)
    loss = "huber" if huber else "squared"
    step = relative * len(y) / (kappa * np.linalg.norm(X, 2) ** 2)

    def gradient(score: Array) -> Array:
        return GRADIENTS[loss](score, y)

    _, _, first = plain_loop(X, y, kappa, step, np.zeros(1), gradient)
    times = np.concatenate([[0.0], first * np.sort(rng.uniform(0.5, 8.0, 4))])
    found, _, _ = plain_loop(X, y, kappa, step, times, gradient)
    facts = facts_of(X, y, loss, times, found, kappa, step, first)
    assert checked(facts).value <= 1e-9
    if found[-1].any():
        assert checked(replace(facts, steps=facts.steps * 0.5)).value > 1e-9


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=5, unique_by=lambda b: round(b, 2)), st.floats(0.01, 100.0))
def test_hard_thresholding_is_the_exact_path_of_orthonormal_columns(effects: list[float], unit: float) -> None:
    b = np.array(effects) * unit * np.where(np.arange(len(effects)) % 2, -1, 1)
    X = np.sqrt(8.0) * np.linalg.qr(np.random.default_rng(0).normal(size=(8, len(b))))[0]
    order = np.argsort(-np.abs(b))
    rows = WitnessRows(8, len(b), tuple("abcde"[: len(b)]), blocks=(X,), target=(X @ b)[:, None], weight=np.full(8, 3.0))
    held = tuple(order[:k] for k in range(len(b) + 1))
    times = np.concatenate([[0.0], 1.0 / np.abs(b[order])])
    values = tuple(b[some][:, None] for some in held)
    facts = PathFacts("exact", rows, times, held, values, np.zeros((len(times), 1)), fit_intercept=False, standardize=False)
    assert checked(facts).value <= 1e-12
    shrunk = replace(facts, values=tuple(own * (1 - 1e-6) for own in values))
    assert checked(shrunk).refuted
    early = times.copy()
    early[-1] *= 1 - 1e-6
    assert checked(replace(facts, times=early)).refuted
    assert checked(without(facts, len(b) - 1)).refuted


def test_weights_are_repeated_rows_to_the_recheck_too() -> None:
    X, y, _ = data("number")
    count = np.random.default_rng(0).integers(0, 4, ROWS)
    model = InverseScaleRegressor(choose="last").fit(X, y, sample_weight=count)
    found = model.certificate_.recheck(X, y, sample_weight=count)
    assert not found.refuted
    facts = witness_of(model).facts
    repeated = replace(facts.rows, rows=int(count.sum()))
    again = LinearWitness(replace(facts, rows=repeated), len(facts.times) - 1).check(
        CLAIM, np.repeat(X, count, axis=0), np.repeat(y, count)
    )
    assert not again.refuted
    assert again.value <= 1e-9


# ---- forms of data --------------------------------------------------------------------------------------------
def test_sparse_chunked_and_frames_are_read_as_the_fit_read_them() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, y, weight = data("number")
    X = np.where(np.abs(X) > 1.2, X, 0.0)
    weight[[2, 40]] = 0.0
    names = [f"col {j}" for j in range(COLUMNS)]
    columns = {name: X[:, j] for j, name in enumerate(names)}
    frames = (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns))
    forms = (X, sparse.csr_array(X), sparse.csc_matrix(X), Chunked([X[:17], sparse.csr_array(X[17:50]), X[50:]]), *frames)
    for form in forms:
        for model in (InverseScaleRegressor(choose="last"), BregmanRegressor(kappa=5.0, choose="last", t_max=5.0)):
            model.fit(form, y, sample_weight=weight)
            held = model.certificate_.recheck()
            assert not held.refuted, held.reason
            for other in forms:
                again = model.certificate_.recheck(other, y, sample_weight=weight)
                assert not again.refuted, again.reason
    backwards = pd.DataFrame(columns)[names[::-1]]
    model = InverseScaleRegressor(choose="last").fit(frames[0], pd.Series(y), sample_weight=weight)
    assert not model.certificate_.recheck(backwards, pa.array(y), sample_weight=weight).refuted
    with pytest.raises(TamisError, match="no column 'col 3'"):
        model.certificate_.recheck(frames[0].drop(columns="col 3"), y, sample_weight=weight)


def test_constant_columns_and_large_offsets_are_no_violations() -> None:
    X, y, weight = data("number")
    X = X.copy()
    X[:, 2], X[:, 4] = 7.0, X[:, 4] + 1e5
    for model in (InverseScaleRegressor(), BregmanRegressor(kappa=5.0), BregmanRegressor(kappa=5.0, penalty="group", groups=GROUPS)):
        model.set_params(choose="last").fit(X, y + 1e4, sample_weight=weight)
        found = model.certificate_.recheck()
        assert not found.refuted, found.reason


def test_scales_of_target_and_columns_do_not_blind_it() -> None:
    X, y, weight = data("number")
    for factor in (1e-6, 1e6):
        for model in (InverseScaleRegressor(), BregmanRegressor(kappa=5.0)):
            model.set_params(choose="last").fit(X, factor * y, sample_weight=weight)
            assert not model.certificate_.recheck().refuted
            facts = witness_of(model).facts
            knot = busy_knot(facts)
            values = facts.values[knot].copy()
            values[0] *= 1 + 1e-5
            assert checked(replace(facts, values=tuple(values if k == knot else own for k, own in enumerate(facts.values)))).refuted


def test_a_path_on_which_nothing_ever_enters() -> None:
    X, _, weight = data("number")
    for model in (InverseScaleRegressor(), BregmanRegressor(kappa=5.0), BregmanRegressor(kappa=5.0, t=[1.0, 2.0])):
        model.set_params(choose="last").fit(X, np.full(ROWS, 2.0), sample_weight=weight)
        assert not model.certificate_.recheck().refuted
        assert model.certificate_.recheck(X, np.arange(ROWS), sample_weight=weight).refuted


def test_a_step_halved_on_the_way_is_replayed_as_it_was_taken() -> None:
    X = np.column_stack([np.append(np.ones(100), 5.0), np.sin(np.arange(101))])  # one row that small coefficients already blow up
    y = np.append(np.full(100, 10.0), 0.0)
    model = BregmanRegressor("poisson", kappa=2.0, fit_intercept=False, choose="last").fit(X, y)
    usual = witness_of(model).facts.steps[-1]
    model.set_params(step=1.9 * usual).fit(X, y)
    assert any("half" in note for note in model.notes_)
    assert witness_of(model).facts.steps[-1] < usual
    found = model.certificate_.recheck()
    assert not found.refuted, found.reason
    split = BregmanRegressor(
        "poisson", kappa=20.0, transformation="identity", nu=1.0, start="zero", fit_intercept=False, t=[0.01, 0.1, 2.0, 2.5, 3.0],
        choose="last",
    ).fit(X, y)  # fmt: skip
    assert any("half" in note for note in split.notes_)
    steps = witness_of(split).facts.steps
    assert steps[-1] < steps[0]
    found = split.certificate_.recheck()
    assert not found.refuted, found.reason


# ---- limits and sentences -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["squared", "logistic", "split squared"])
def test_a_long_replay_stops_and_says_so(name: str) -> None:
    model, *_ = fitted(name)
    short = model.certificate_.recheck(iterations=100)
    assert not short.refuted
    assert "was not looked at" in short.reason
    assert "was not looked at" in model.certificate_.recheck(seconds=-1.0).reason
    assert "was not looked at" not in model.certificate_.recheck().reason


def test_sentences() -> None:
    model, X, y, weight = fitted("logistic")
    assert model.certificate_.recheck().sentence().startswith(f"Recheck agrees: the path was replayed from {ROWS} rows up to t = ")
    facts = witness_of(model).facts
    none = replace(facts, positions=tuple(held[:0] for held in facts.positions), values=tuple(own[:0] for own in facts.values))
    moved = checked(none)
    assert moved.sentence().startswith("Recheck refutes the certificate: at t = ")
    assert "has the coefficient 0 where " in moved.reason
    check = model.certificate_.recheck
    with pytest.raises(TamisError, match=r"40 rows .* fitted on 60 rows"):
        check(X[:40], y[:40], sample_weight=weight[:40])
    with pytest.raises(TamisError, match="7 columns"):
        check(X[:, :7], y, sample_weight=weight)
    with pytest.raises(TamisError, match="label 'maybe' is not one of"):
        check(X, np.where(np.arange(ROWS) == 3, "maybe", y), sample_weight=weight)
    with pytest.raises(TamisError, match="with X and y"):
        check(X)
    with pytest.raises(TamisError, match="no table"):
        check(X[0], y)
    with pytest.raises(TamisError, match="no number"):
        fitted("exact")[0].certificate_.recheck(X, y)
    with pytest.raises(TamisError, match="claims nothing"):
        LinearWitness(facts, 0).check(Certificate("none", 0.0, 0.0, 1e-8))


def test_twice_what_was_claimed_is_granted_and_no_more() -> None:
    facts = witness_of(fitted("exact")[0]).facts
    knot = busy_knot(facts)
    values = facts.values[knot] * (1 + 1e-5)
    changed = replace(facts, values=tuple(values if k == knot else own for k, own in enumerate(facts.values)))
    moved = LinearWitness(changed, len(facts.times) - 1)
    off = moved.check(CLAIM).value
    assert moved.check(CLAIM).refuted
    assert not moved.check(replace(CLAIM, value=off / 1.9)).refuted
    assert moved.check(replace(CLAIM, value=off / 2.1)).refuted


def test_a_file_holds_no_training_rows_and_steps_that_do_not_fit_are_refused(tmp_path: File) -> None:
    model, X, *_ = fitted("squared")
    meta, arrays = model._to_model()
    assert all(ROWS not in np.shape(value) for value in arrays.values())
    assert X[0, 0] not in np.concatenate([np.ravel(value) for value in arrays.values()])
    broken = arrays | {"witness.steps": arrays["witness.steps"][:-1]}
    with pytest.raises(TamisError, match="do not fit"):
        BregmanRegressor._from_model(meta, broken)
