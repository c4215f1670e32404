"""Dual points stay in their domain, sum to exactly zero, and are worth what can be made of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from helpers_losses import ALL, MARGINS, NUMBERS, naive, problems
from tamis.core.dual import DualPoint, allowed_norm, balanced, best_scale, constant_model, integer_point
from tamis.core.loss import Targets

EXTREME = 12.0  # weights from 1e-12 to 1e12
ONE_COLUMN = [name for name in ALL if name != "multinomial"]


def in_domain(targets: Targets, pull: Any) -> bool:
    return bool(np.isfinite(targets.dual(pull)))


def noise(targets: Targets) -> float:
    """What float64 cannot tell from nothing: the multinomial point is a weight times a difference of numbers near 1."""
    return 4 * np.finfo(float).eps * float(targets.weight.sum()) if targets.columns > 1 else 0.0


# ---- balanced --------------------------------------------------------------------------------------------------------
@given(st.sampled_from([0.6, EXTREME]).flatmap(lambda decades: problems(decades=decades)))
def test_a_balanced_point_sums_to_zero_inside_the_domain(problem: tuple[str, Targets, Any]) -> None:
    _, targets, score = problem
    pull = targets.pull(score)
    point = balanced(targets, pull)
    assert in_domain(targets, point)
    assert np.all(np.abs(point.sum(axis=0)) <= 1e-12 * len(point) * np.abs(point).max(initial=0.0) + noise(targets))
    if targets.columns == 1:
        assert np.all(point * pull >= 0)
        assert np.all(np.abs(point) <= np.abs(pull))
        # only the heavier sign gives way
        heavier = 1.0 if pull.sum() > 0 else -1.0
        np.testing.assert_array_equal(point[pull * heavier < 0], pull[pull * heavier < 0])
    else:
        assert np.all(np.abs(point.sum(axis=1)) <= 1e-12 * targets.weight)
    again = balanced(targets, point)
    np.testing.assert_allclose(again, point, rtol=1e-9, atol=1e-9 * np.abs(point).max(initial=0.0) + noise(targets))


def test_nothing_balances_a_point_of_one_sign() -> None:
    targets = Targets(ALL["logistic"], np.ones((3, 1)), np.ones(3), np.zeros((3, 1)))
    assert not balanced(targets, targets.pull(np.zeros((3, 1)))).any()
    assert not balanced(targets, np.zeros((3, 1))).any()


def test_the_best_constant_is_balanced_already() -> None:
    y = np.eye(3)[[0, 0, 1, 2, 2, 2]]
    targets = Targets(ALL["multinomial"], y, np.arange(1.0, 7.0), np.zeros(y.shape))
    level, _ = constant_model(targets, 3)
    pull = targets.pull(np.broadcast_to(level, y.shape))
    np.testing.assert_allclose(balanced(targets, pull), pull, atol=1e-14)


# ---- integer points --------------------------------------------------------------------------------------------------
@given(
    st.sampled_from([0.3, 2.0, EXTREME]).flatmap(lambda decades: problems(decades=decades, rows=25)), st.sampled_from([3, 11, 15, 23, 31])
)
def test_an_integer_point_sums_to_exactly_zero_inside_the_domain(problem: tuple[str, Targets, Any], bits: int) -> None:
    name, targets, score = problem
    pull = balanced(targets, targets.pull(score))
    point = integer_point(targets, pull, bits)
    assert point.units.dtype == np.int64
    assert not point.units.sum(axis=0).any()
    assert name != "multinomial" or not point.units.sum(axis=1).any()
    assert in_domain(targets, point.pull())
    assert np.abs(point.units).max(initial=0) <= 2**bits * targets.columns  # a label's entry balances all others of its row
    if name != "multinomial":  # toward zero, never across
        assert np.all(np.abs(point.pull()) <= np.abs(pull) * (1 + 1e-12))
        assert np.all(point.units * pull >= 0)


@given(problems(decades=0.3, rows=25), st.sampled_from([11, 15, 23, 31]))
def test_an_integer_point_loses_little(problem: tuple[str, Targets, Any], bits: int) -> None:
    _, targets, score = problem
    pull = balanced(targets, targets.pull(score))
    point = integer_point(targets, pull, bits)
    rows = len(pull)
    # each entry moves by less than its own rounding and its share of everybody's
    largest = np.abs(pull).max(initial=0.0)
    assert np.abs(point.pull() - pull).max(initial=0.0) <= (2 + rows) * targets.columns * largest / 2.0 ** (bits - 1) + noise(targets)
    lost = abs(targets.dual(point.pull()) - targets.dual(pull))
    assert lost <= 60 * rows * targets.columns * largest / 2.0**bits + 100 * noise(targets)


@given(problems(decades=EXTREME, rows=25))
def test_extreme_weights_lose_little_too(problem: tuple[str, Targets, Any]) -> None:
    _, targets, score = problem
    pull = balanced(targets, targets.pull(score))
    top = np.abs(pull).max(initial=0.0)
    point = integer_point(targets, pull, 31)
    assert np.abs(point.pull() - pull).max(initial=0.0) <= 60 * len(pull) * top / 2.0**31 + noise(targets)


@pytest.mark.parametrize("bits", [11, 15, 23])
def test_one_heavy_row_against_many_light_ones_is_balanced_at_once(bits: int) -> None:
    # each light row is worth a few units or none, so that nearly all of the heavy one has to go
    count = 300_000
    y = np.concatenate([[1.0], np.full(count, -1.0)])[:, None]
    weight = np.concatenate([[float(count)], np.ones(count)])
    targets = Targets(ALL["logistic"], y, weight, np.zeros(y.shape))
    pull = balanced(targets, targets.pull(np.zeros(y.shape)))
    start = time.process_time()
    point = integer_point(targets, pull, bits)
    assert time.process_time() - start < 2.0
    assert point.units.sum() == 0
    light = np.trunc(0.5 / point.quantum)
    assert point.units[0, 0] == light * count
    assert np.all(point.units[1:, 0] == -light)


@pytest.mark.parametrize("pull", [np.zeros((4, 1)), np.full((4, 1), np.nan), np.full((4, 1), np.inf)])
def test_no_point_is_the_zero_point(pull: Any) -> None:
    targets = Targets(ALL["squared"], np.ones((4, 1)), np.ones(4), np.zeros((4, 1)))
    assert not integer_point(targets, pull, 15).units.any()


@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=9), st.integers(0, 99))
def test_folding_adds_integers(units: list[list[int]], seed: int) -> None:
    table = np.array(units, dtype=np.int64)
    starts = np.unique(np.random.default_rng(seed).integers(0, len(table), 3)) * np.array(1)
    starts = np.unique(np.concatenate([[0], starts]))
    targets = Targets(
        ALL["multinomial"], np.eye(3)[np.zeros(len(table), dtype=int)], np.ones(len(table)), np.zeros(table.shape), 0.0, starts
    )
    folded = DualPoint(table, 0.25).folded(targets)
    assert folded.units.dtype == np.int64
    assert folded.quantum == 0.25
    np.testing.assert_array_equal(folded.units, [part.sum(axis=0) for part in np.split(table, starts[1:])])
    np.testing.assert_array_equal(DualPoint(table, 0.25).pull(), table / 4)


# ---- scale and norm --------------------------------------------------------------------------------------------------
def worth(targets: Targets, pull: Any, norm: float) -> Callable[[float], float]:
    return lambda t: targets.dual(t * pull) - 0.5 * t * t * norm * norm


@st.composite
def scaled(draw: st.DrawFn) -> tuple[Targets, Any, float]:
    """Targets, a balanced dual point that is not zero, and a norm that makes its best scale anything from 0 to beyond 2."""
    _, targets, score = draw(problems(rows=8))
    pull = balanced(targets, targets.pull(score)) * draw(st.sampled_from([1.0, 0.9, 0.3]))
    size = float(np.abs(pull).sum())
    assume(size > 1e-6 * targets.weight.sum())
    return targets, pull, draw(st.floats(0.01, 30.0)) * float(np.sqrt(size))


@given(scaled())
def test_best_scale_is_the_best_of_a_fine_grid(case: tuple[Targets, Any, float]) -> None:
    targets, pull, norm = case
    value, scale = best_scale(targets, pull, norm)
    worths = worth(targets, pull, norm)
    top = min(2.0, targets.reach(pull))
    assert 0 < scale <= top
    assert value == pytest.approx(worths(scale), rel=1e-12)
    grid = [worths(t) for t in (1.0, *np.linspace(0, top, 501)[1:], *np.geomspace(1e-6, 1, 50))]
    size = abs(targets.value(np.zeros((targets.design_rows, targets.columns)))) + targets.weight.sum()
    assert value >= max(grid) - 1e-6 * size


@given(st.integers(0, 999), st.floats(0.3, 3.0))
def test_best_scale_of_squared_errors_has_a_formula(seed: int, share: float) -> None:
    draw = np.random.default_rng(seed)
    y, weight = draw.normal(size=(9, 1)), draw.uniform(0.5, 2, 9)
    targets = Targets(ALL["squared"], y, weight, draw.normal(size=(9, 1)))
    pull = balanced(targets, targets.pull(np.zeros((9, 1))))
    own = float((pull**2 / weight[:, None]).sum())
    norm = share * float(np.sqrt(own))
    best = float((pull * (y - targets.offset)).sum()) / (own + norm**2)
    value, scale = best_scale(targets, pull, norm)
    if 0 < best <= 2:
        assert scale == pytest.approx(best, rel=1e-3)
        assert value == pytest.approx(0.5 * best**2 * (own + norm**2), rel=1e-6)


@given(scaled(), st.floats(1.001, 3))
def test_allowed_norm_is_the_inverse_of_best_scale(case: tuple[Targets, Any, float], factor: float) -> None:
    targets, pull, norm = case
    target = best_scale(targets, pull, norm)[0]
    size = abs(targets.value(np.zeros((targets.design_rows, targets.columns)))) + targets.weight.sum()
    allowed = allowed_norm(targets, pull, target)
    assert best_scale(targets, pull, allowed)[0] == pytest.approx(target, abs=2e-6 * size)
    dearer = best_scale(targets, pull, factor * norm)[0]
    assert allowed_norm(targets, pull, dearer) >= allowed * (1 - 1e-9)
    # and by brute force: no scale allows more
    ts = np.linspace(0, min(2.0, targets.reach(pull)), 401)[1:]
    rooms = np.array([2 * (targets.dual(t * pull) - target) for t in ts])
    assert np.all(rooms - (allowed * ts) ** 2 <= 4e-6 * size)


def test_nothing_is_allowed_beyond_what_the_point_is_worth() -> None:
    y = np.array([[1.0], [-1.0]])
    targets = Targets(ALL["logistic"], y, np.ones(2), np.zeros((2, 1)))
    pull = targets.pull(np.zeros((2, 1)))
    most = best_scale(targets, pull, 0.0)[0]
    assert most == pytest.approx(2 * np.log(2))
    assert allowed_norm(targets, pull, most + 1e-9) == 0.0
    assert allowed_norm(targets, pull, most - 1e-3) > 0.0
    assert allowed_norm(targets, pull, float("nan")) == 0.0
    assert allowed_norm(targets, pull * np.nan, 0.1) == 0.0
    assert not best_scale(targets, pull * np.nan, 1.0)[0] > -np.inf
    assert not best_scale(targets, pull, float("nan"))[0] > -np.inf


# ---- the constant model ----------------------------------------------------------------------------------------------
def objective(name: str, targets: Targets) -> Callable[[Any], float]:
    return lambda level: naive(name, targets.offset + np.atleast_1d(level), targets.y, targets.weight)


@given(st.sampled_from([0.6, 4.0, EXTREME]).flatmap(lambda decades: problems(ONE_COLUMN, decades=decades)))
def test_no_constant_beats_the_constant_model(problem: tuple[str, Targets, Any]) -> None:
    name, targets, _ = problem
    level, value = constant_model(targets, 1)
    at = objective(name, targets)
    size = targets.weight.sum()
    assert level.shape == (1,)
    if name == "poisson" and level[0] < -700:
        assert not targets.y.any()  # no event at all: the best constant lies at minus infinity
        assert value <= 1e-200 * size
        return
    assert value == pytest.approx(at(level[0]), rel=1e-9, abs=1e-12 * size)
    found = (
        [minimize_scalar(at, bracket=(low, low + 1), options={"maxiter": 200}).x for low in (-8.0, 0.0, 8.0)] if name != "poisson" else []
    )
    ends = [sign * y - offset for y, offset in zip(targets.y[:, 0], targets.offset[:, 0], strict=True) for sign in (1.0, -1.0)]
    tried = [*found, *ends, *np.linspace(-8, 8, 97), *(level[0] + np.array([-1e-3, -1e-6, 1e-6, 1e-3]))]
    best = min(at(float(u)) for u in tried if abs(u) < 600)
    assert value <= best + 1e-9 * min(size, max(abs(best), 1e-20 * size) * 1e3)


@given(problems(["multinomial"]))
def test_no_constants_beat_the_multinomial_constants(problem: tuple[str, Targets, Any]) -> None:
    name, targets, _ = problem
    level, value = constant_model(targets, targets.columns)
    at = objective(name, targets)
    size = targets.weight.sum()
    assert value == pytest.approx(targets.value(np.broadcast_to(level, targets.y.shape)), rel=1e-12)
    found = minimize(at, np.zeros(targets.columns), method="BFGS", options={"gtol": 1e-10 * size})
    assert value <= found.fun + 1e-8 * size
    pull = targets.pull(np.broadcast_to(level, targets.y.shape))
    assert np.abs(pull.sum(axis=0)).max() <= 1e-5 * size


@pytest.mark.parametrize("name", MARGINS)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_label_only_costs_nothing(name: str, label: float) -> None:
    targets = Targets(ALL[name], np.full((5, 1), label), np.full(5, 1e6), np.linspace(-1, 1, 5)[:, None])
    level, value = constant_model(targets, 1)
    assert value == pytest.approx(0.0, abs=1e-6)
    assert np.sign(level[0]) == label


@pytest.mark.parametrize("name", [*NUMBERS, "poisson"])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e6, 1e13, 1e18])
def test_targets_of_any_size(name: str, size: float) -> None:
    y = size * np.array([[1.0], [2.0], [3.0], [3.5]])
    targets = Targets(ALL[name], y, np.array([1.0, 2.0, 1.0, 1.0]), np.zeros((4, 1)))
    level, value = constant_model(targets, 1)
    mean = float(np.average(y, weights=targets.weight[:, None]))
    at = objective(name, targets)
    if name == "huber":
        assert value <= min(at(float(u)) for u in (mean, *y[:, 0], *np.linspace(size, 3.5 * size, 101))) * (1 + 1e-12)
    else:
        assert level[0] == pytest.approx(np.log(mean) if name == "poisson" else mean, rel=1e-9)


@settings(max_examples=30)
@given(st.integers(2, 6), st.integers(0, 99))
def test_a_class_nobody_has_gets_no_share(columns: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, columns - 1, 20)  # the last class never occurs
    y, weight = np.eye(columns)[labels], draw.uniform(0.5, 2, 20)
    for offset in (np.zeros(y.shape), 0.1 * draw.normal(size=y.shape)):
        targets = Targets(ALL["multinomial"], y, weight, offset)
        level, value = constant_model(targets, columns)
        without = Targets(ALL["multinomial"], y[:, :-1], weight, offset[:, :-1])
        assert value == pytest.approx(constant_model(without, columns - 1)[1], rel=1e-9, abs=1e-9 * weight.sum())
        assert ALL["multinomial"].shares(level + offset)[:, -1].max() < 1e-9
