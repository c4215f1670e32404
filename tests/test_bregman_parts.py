"""The parts of the engine, each against brute force: gradients, curvature, bows, crossings, jumps, pooled columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_bregman import LOSSES, data, designs, gauge_of
from tamis.core.design import Dense
from tamis.solvers import bregman_blocks, bregman_pool, bregman_start
from tamis.solvers.bregman_blocks import Pace, RowTrace, gram_steps, row_steps
from tamis.solvers.bregman_jump import jump
from tamis.solvers.bregman_pool import Held, Pool, Screen
from tamis.solvers.bregman_start import column_norms, largest_curvature
from tamis.solvers.bregman_verify import Ends, Guard, first_crossing
from tamis.structures.gauges import Entry


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_loss_stated(loss: str) -> None:
    X, y, weight = data(loss, 20, 5, seed=1)
    rng = np.random.default_rng(1)
    theta, eta = 0.3 * rng.standard_normal((5, y.shape[1])), 0.2 * rng.standard_normal(y.shape[1])

    def value(theta: Any, eta: Any) -> float:
        return float(LOSSES[loss].value(X @ theta + eta, y, weight))

    pull = bregman_blocks._gradients(LOSSES[loss], y, weight)
    score = X @ theta + eta
    found = np.reshape(pull(score[:, 0].copy() if y.shape[1] == 1 else score), y.shape)
    width = 1e-5
    for k in range(y.shape[1]):
        unit = np.zeros_like(eta)
        unit[k] = width
        assert (value(theta, eta + unit) - value(theta, eta - unit)) / (2 * width) == pytest.approx(found.sum(axis=0)[k], abs=1e-8)
        for row in range(5):
            step = np.zeros_like(theta)
            step[row, k] = width
            assert (value(theta + step, eta) - value(theta - step, eta)) / (2 * width) == pytest.approx((X.T @ found)[row, k], abs=1e-8)


@pytest.mark.parametrize("loss", ["huber", "logistic", "multinomial", "squared"])
def test_the_curvature_bound_bounds(loss: str) -> None:
    X, y, weight = data(loss, 40, 6, seed=2)
    classes, bound = y.shape[1], bregman_start.CURVATURE[loss]
    worst = 0.0
    for scale in (0.0, 0.1, 1.0):
        curvature = LOSSES[loss].curvature(scale * X[:, :classes], y, weight)
        full = curvature if curvature.ndim == 3 else curvature[:, :, None]
        hessian = np.einsum("ij,iab,ik->jakb", X, full, X).reshape(6 * classes, -1)
        worst = max(worst, np.linalg.eigvalsh(hessian)[-1])
    assert worst <= bound * np.linalg.eigvalsh(X.T @ (weight[:, None] * X))[-1] * (1 + 1e-12)


@pytest.mark.parametrize("side", [0, 400])
@pytest.mark.parametrize(("rows", "columns"), [(60, 150), (150, 60), (300, 290)])
@pytest.mark.parametrize("intercept", [0.0, 2.5])
def test_the_largest_eigenvalue_is_a_true_and_tight_bound(
    rows: int, columns: int, intercept: float, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bregman_start, "EXACT_SIDE", side)
    for seed in range(4):
        X, _, weight = data("squared", rows, columns, seed, correlation=0.1 * seed)
        joint = np.sqrt(weight)[:, None] * np.column_stack([X, np.full(rows, np.sqrt(intercept))])
        truth = np.linalg.eigvalsh(joint.T @ joint)[-1]
        assert truth <= largest_curvature(Dense(X), weight, intercept) <= truth * 1.002


def test_column_norms_in_any_container() -> None:
    X, _, weight = data("squared", 30, 12, seed=3)
    for design, matrix in designs(X).values():
        np.testing.assert_allclose(column_norms(design, weight), np.sqrt(weight @ matrix**2), rtol=1e-12)


def test_pooled_columns_and_products_are_the_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, weight = data("squared", 30, 60, seed=4)
    rng = np.random.default_rng(4)
    for limit in (bregman_pool.POOL_BYTES, 8 * 30 * 20):
        monkeypatch.setattr(bregman_pool, "POOL_BYTES", limit)
        pool = Pool(Dense(X), weight, y)
        for _ in range(12):
            rows = np.sort(rng.choice(60, rng.integers(1, 15), replace=False))
            part = X[:, rows]
            held = pool.held(rows)
            weights, pull = rng.standard_normal((len(rows), 2)), rng.standard_normal((30, 2))
            for _ in range(2):  # where they lie, then as a copy
                np.testing.assert_allclose(held.dot(weights), part @ weights, atol=1e-13)
                np.testing.assert_allclose(held.score(pull), part.T @ pull, atol=1e-13)
                np.testing.assert_array_equal(held.matrix, part)
            np.testing.assert_array_equal(held.take(np.arange(1)), part[:, :1])
            np.testing.assert_array_equal(pool.peek(rows), part)
            gram, target = pool.products(rows, intercept=True)
            joint = np.column_stack([part, np.ones(30)])
            np.testing.assert_allclose(gram, joint.T @ (weight[:, None] * joint), atol=1e-13)
            np.testing.assert_allclose(target, joint.T @ (weight * y[:, 0]), atol=1e-13)


@given(st.integers(0, 10**6), st.sampled_from([1, 3]), st.floats(-12, 12))
def test_screened_products_are_as_good_as_they_say(seed: int, classes: int, magnitude: float) -> None:
    rng = np.random.default_rng(seed)
    rows = 1100 + int(rng.integers(0, 1100))
    X = rng.standard_normal((rows, 5)) * 10.0 ** rng.uniform(-6, 6, 5) + rng.choice([0.0, 10.0])
    weight = rng.uniform(0, 1, rows) * (rng.random(rows) < 0.9)
    weight /= weight.sum()
    pull = 10.0**magnitude * weight[:, None] * rng.standard_normal((rows, classes)) * 10.0 ** rng.uniform(-9, 0, (rows, 1))
    norms = column_norms(Dense(X), weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bregman_pool, "LIGHT_CELLS", 0)
        screen = Screen(Dense(X), norms, weight)
    assert screen.light is not None
    found, off = screen.score(pull)
    truth = np.asarray(X.T.astype(np.longdouble) @ pull, dtype=float)
    assert np.all(np.abs(found - truth) <= norms[:, None] * off)
    assert off.max() <= 1e-4 * np.sqrt((pull[weight > 0] ** 2 / weight[weight > 0, None]).sum(axis=0)).max()


@pytest.mark.parametrize("change", [1e30, 1e-30, "sparse"])
def test_what_single_precision_cannot_hold_stays_double(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bregman_pool, "LIGHT_CELLS", 0)
    X, _, weight = data("squared", 30, 12, seed=6)
    design = designs(X)["sparse"][0] if change == "sparse" else Dense(X * np.r_[change, np.ones(11)])
    screen = Screen(design, column_norms(design, weight), weight)
    pull = np.random.default_rng(6).standard_normal((30, 2))
    assert screen.light is None
    np.testing.assert_array_equal(screen.score(pull)[0], design.score(pull))
    assert not screen.score(pull)[1].any()


@pytest.mark.parametrize("side", [1, 7, 8, 40])
def test_aligned_squares_begin_with_a_cache_line(side: int) -> None:
    square = bregman_pool.aligned(side)
    assert square.shape == (side, side)
    assert square.dtype == np.float64
    assert square.flags.c_contiguous
    assert square.ctypes.data % 64 == 0


def away(trace: Any, weight: Any, first: int, last: int) -> Any:
    """The true distance from the chord, per class."""
    steps = np.arange(first, last + 1)
    pulls = trace.pulls(steps)
    share = (steps - first) / (last - first)
    chord = pulls[:, :, :1] * (1 - share) + pulls[:, :, -1:] * share
    return np.sqrt((((pulls - chord) / np.sqrt(weight)[:, None, None]) ** 2).sum(axis=0)).max(axis=1)


def traces(seed: int, steps: int, kappa: float = 20.0, relative: float = 1.0) -> tuple[list[Any], Any]:
    """The same block by rows, by products, and in closed form: every coefficient is free, so no support can change."""
    X, y, weight = data("squared", 25, 8, seed)
    X[:, 7] = X[:, 6]  # a mode that never moves
    joint = np.sqrt(weight)[:, None] * np.column_stack([X * np.sqrt(kappa), np.sqrt(kappa) * np.ones(25)])
    largest = np.linalg.eigvalsh(joint.T @ joint)[-1]
    pace = Pace(kappa, relative / largest, kappa, np.inf, largest / kappa)
    free = Entry(np.zeros(8))
    rng = np.random.default_rng(seed)
    dual, eta = rng.standard_normal((8, 1)) / kappa, rng.standard_normal(1)
    pool = Pool(Dense(X), weight, y)
    products = [pool.products(np.arange(8), intercept=True) for _ in range(2)]
    task = (LOSSES["squared"], y, weight)
    return [
        row_steps(X, dual, eta, steps, pace, free, task),
        gram_steps(products[0], Held(X), dual, eta, steps, pace, free, task),
        jump(products[1], Held(X), kappa * dual, eta, steps, pace, y, weight),
    ], weight


@given(st.integers(0, 1000), st.integers(2, 400), st.sampled_from([0.02, 0.5, 1.0, 1.9]))
def test_rows_products_and_closed_form_are_the_same_block(seed: int, steps: int, relative: float) -> None:
    (rows, products, closed), _ = traces(seed, steps, relative=relative)
    asked = np.unique(np.r_[0, 1, 2, steps // 3, steps - 1, steps])
    truth = rows.pulls(asked)
    scale = np.abs(truth).max()
    np.testing.assert_allclose(products.pulls(asked), truth, atol=1e-12 * scale)
    np.testing.assert_allclose(closed.pulls(asked), truth, atol=1e-11 * scale)


@given(st.integers(0, 1000), st.integers(2, 300), st.sampled_from([0.02, 1.0, 1.9]), st.data())
def test_no_trace_strays_further_than_its_bow(seed: int, steps: int, relative: float, draw: Any) -> None:
    found, weight = traces(seed, steps, relative=relative)
    first = draw.draw(st.integers(0, steps - 1))
    last = draw.draw(st.integers(first + 1, steps))
    for trace in found:
        true = away(trace, weight, first, last)
        assert np.all(true <= trace.bow(first, last) + 1e-15)


def test_bows_are_not_far_from_the_truth() -> None:
    found, weight = traces(5, 256, relative=0.01)
    for trace in found:
        assert trace.bow(0, 256) < 4 * away(trace, weight, 0, 256) + 1e-12


@st.composite
def wild_traces(draw: Any) -> Any:
    """Gradients that wander, so that duals rise and fall within a block."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    steps, classes = draw(st.integers(2, 260)), draw(st.sampled_from([1, 2]))
    terms = np.cumsum(rng.standard_normal((steps, 12, classes)), axis=0) * draw(st.sampled_from([1e-4, 1e-3, 1e-2]))
    return rng, terms - draw(st.booleans()) * terms.mean(axis=0)


def trace_of(terms: Any, weight: Any) -> RowTrace:
    inverse = 1 / np.sqrt(weight)[:, None]
    sums = np.concatenate([np.zeros((1, *terms.shape[1:])), np.cumsum(terms, axis=0)])
    return RowTrace(sums, bregman_blocks._strays(terms, inverse), inverse, len(terms))


@given(wild_traces(), st.sampled_from(["entry", "group", "column", "block"]))
def test_the_first_crossing_is_the_first(case: Any, kind: str) -> None:
    rng, terms = case
    weight = rng.uniform(0.5, 1.5, 12) / 12
    trace, columns = trace_of(terms, weight), rng.standard_normal((12, 15))
    gauge = gauge_of(kind, 15, terms.shape[2])
    start = rng.uniform(-0.5, 0.5, (15, terms.shape[2]))
    duals = start[:, :, None] + np.einsum("ij,ick->jck", columns, trace.pulls(np.arange(trace.length + 1)))
    outside = np.ones(15, dtype=bool)
    outside[0:15:5] = kind == "entry"
    above = np.flatnonzero((gauge.reach(duals[:, :, 1:])[outside] > 1).any(axis=0))
    if kind in ("group", "block"):
        outside[:], above = True, np.flatnonzero((gauge.reach(duals[:, :, 1:]) > 1).any(axis=0))
    norms = np.sqrt(weight @ columns**2)
    found = first_crossing(trace, Guard(gauge), norms, Ends(start, duals[:, :, -1]), outside, lambda rows: columns[:, rows])
    assert found == (above[0] + 1 if len(above) else None)


@given(wild_traces())
def test_who_leaves_is_found_as_well_as_who_enters(case: Any) -> None:
    rng, terms = case
    weight = rng.uniform(0.5, 1.5, 12) / 12
    trace, columns = trace_of(terms[:, :, :1], weight), rng.standard_normal((12, 8))
    cost = np.r_[0.0, 1e300, rng.uniform(0.5, 2, 6)]
    sign = np.r_[1.0, 0.0, 1.0, -1.0, 1.0, 0.0, 0.0, 0.0]
    start = np.where(sign != 0, sign * np.where(cost > 0, 1.4 * cost, 1.0), 0.2)[:, None]
    duals = start[:, :, None] + np.einsum("ij,ick->jck", columns, trace.pulls(np.arange(trace.length + 1)))
    wrong = [np.zeros(trace.length, bool)]
    for row in range(2, 8):
        path = duals[row, 0, 1:]
        wrong.append(sign[row] * path < cost[row] if sign[row] else np.abs(path) > cost[row])
    breaks = np.flatnonzero(np.any(wrong, axis=0))
    guard, norms = Guard(Entry(cost), sign), np.sqrt(weight @ columns**2)
    found = first_crossing(trace, guard, norms, Ends(start, duals[:, :, -1]), np.ones(8, bool), lambda rows: columns[:, rows])
    assert found == (breaks[0] + 1 if len(breaks) else None)


def test_an_excursion_between_two_quiet_ends_is_seen() -> None:
    steps = 200
    bump = np.zeros((steps, 1, 1))
    bump[90:100], bump[100:110] = 0.1, -0.1  # rises by 1 and falls back
    trace = trace_of(bump, np.ones(1))
    quiet, loud = np.array([[-0.5]]), np.array([[0.5]])
    for start, expected in ((quiet, None), (loud, 96)):
        found = first_crossing(trace, Guard(Entry(np.ones(1))), np.ones(1), Ends(start, start), np.ones(1, bool), lambda _: np.ones((1, 1)))
        assert found == expected
