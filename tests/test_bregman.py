"""The engine against the plain dense loop, and the facts about the path that need no loop."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from helpers_bregman import LOSSES, data, gauge_of, pieces_of, plain, run_of, worst
from tamis.core.design import Dense
from tamis.core.errors import TamisError
from tamis.core.loss import Hinge, Poisson, Squared
from tamis.solvers import bregman_pool, bregman_verify, bregman_walk
from tamis.solvers.bregman import BregmanProblem, LinearizedBregman
from tamis.structures.gauges import Entry

KINDS = ("entry", "group", "group1", "column", "block")
SPECIAL = np.r_[0.0, np.inf, np.linspace(0.5, 1.5, 22)]


@pytest.fixture
def on_working_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems are worked on whole, and with products in double precision; the tests want the other way, too."""
    for name in ("SMALL_CELLS", "SMALL_ROWS", "SMALL_GRAM", "MANY"):
        monkeypatch.setattr(bregman_walk, name, 0)
    monkeypatch.setattr(bregman_pool, "LIGHT_CELLS", 0)


@pytest.fixture
def unforeseen(monkeypatch: pytest.MonkeyPatch, on_working_sets: None) -> None:
    """Nobody is expected: every row that enters does so behind the engine's back, and blocks begin long."""
    monkeypatch.setattr(bregman_walk, "AHEAD", 0.0)
    monkeypatch.setattr(bregman_walk, "SHORTEST", 150)


def times_of(run: LinearizedBregman, end: float = 8.0, count: int = 25) -> Any:
    return run.start.t0 * np.geomspace(0.7, end, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_small_problems_equal_the_plain_loop(loss: str, kind: str) -> None:
    run, X, pieces = run_of(loss, kind, seed=1)
    assert worst(run, X, pieces, times_of(run)) < 1e-10


@pytest.mark.usefixtures("on_working_sets")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_working_sets_equal_the_plain_loop(loss: str, kind: str) -> None:
    run, X, pieces = run_of(loss, kind, seed=2)
    assert worst(run, X, pieces, times_of(run)) < 1e-10


@pytest.mark.usefixtures("on_working_sets")
@pytest.mark.parametrize("container", ["sparse", "standardized"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_free_and_excluded_rows_in_any_container(loss: str, intercept: bool, container: str) -> None:
    run, X, pieces = run_of(loss, "entry", seed=3, weights=SPECIAL, intercept=intercept, container=container)
    assert worst(run, X, pieces, times_of(run)) < 1e-10
    last = next(run.follow([20 * run.start.t0]))
    assert not last.theta[1].any()
    assert last.theta[0].any()


@pytest.mark.usefixtures("unforeseen")
@pytest.mark.parametrize(("loss", "kind"), [("squared", "entry"), ("squared", "group"), ("logistic", "entry"), ("multinomial", "column")])
def test_crossings_nobody_foresaw_are_found(loss: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missed = []
    whole = bregman_walk.Walk.advance

    def watched(self: Any, goal: int) -> Any:
        stretch = whole(self, goal)
        missed.append(not stretch.quiet)
        return stretch

    monkeypatch.setattr(bregman_walk.Walk, "advance", watched)
    run, X, pieces = run_of(loss, kind, seed=4, shape=(30, 60))
    assert worst(run, X, pieces, times_of(run)) < 1e-10
    assert sum(missed) >= 3


@pytest.mark.usefixtures("unforeseen")
@pytest.mark.parametrize("many", [0.0, 0.1])
@pytest.mark.parametrize(("wide", "blur"), [(0.02, 1e-4), (0.02, 1.0), (1e-9, 1.0)])
@pytest.mark.parametrize(("loss", "kind"), [("squared", "entry"), ("squared", "block"), ("multinomial", "entry")])
def test_screening_may_be_as_wrong_as_it_says(
    loss: str, kind: str, wide: float, blur: float, many: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, X, pieces = run_of(loss, kind, seed=21, shape=(30, 60))
    rng, norms, weight = np.random.default_rng(21), run._norms, run.problem.weight[:, None]

    def wrong(self: Any, pull: Any) -> Any:
        off = wide * np.sqrt((pull**2 / weight).sum(axis=0))
        exact = X.T @ pull
        return exact + rng.choice([-0.99, 0.0, 0.99], exact.shape) * norms[:, None] * off, off

    stand = bregman_walk.Walk._stand

    def watched(self: Any, *state: Any) -> Any:
        stretch = stand(self, *state)
        away = np.abs(self.dual - self.course.dual(self.pull))
        assert np.all(away <= norms[:, None] * self.blur + 1e-13)
        return stretch

    monkeypatch.setattr(bregman_walk.Walk, "_stand", watched)
    monkeypatch.setattr(bregman_pool.Screen, "score", wrong)
    monkeypatch.setattr(bregman_walk, "BLUR", blur)
    monkeypatch.setattr(bregman_walk, "BENT", blur)
    monkeypatch.setattr(bregman_verify, "MANY", many)
    assert run._screen.light is not None
    assert worst(run, X, pieces, times_of(run)) < 1e-10


@pytest.mark.parametrize("kappa", [300.0, 3000.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_jumps_equal_the_plain_loop(kappa: float, intercept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL_CELLS", "SMALL_ROWS", "SMALL_GRAM"):
        monkeypatch.setattr(bregman_walk, name, 0)
    if kappa == 3000.0:
        monkeypatch.setattr(bregman_pool, "LIGHT_CELLS", 0)
    jumps = []
    one = bregman_walk.Walk._jump

    def watched(self: Any, goal: int) -> Any:
        stretch = one(self, goal)
        jumps.append(stretch.last - stretch.first)
        return stretch

    monkeypatch.setattr(bregman_walk.Walk, "_jump", watched)
    weights = np.ones(12) if intercept else np.r_[0.0, np.ones(11)]
    run, X, pieces = run_of("squared", "entry", seed=5, shape=(25, 12), kappa=kappa, intercept=intercept, weights=weights)
    # in double precision the loop itself loses ten digits over so many small steps
    assert worst(run, X, pieces, times_of(run, end=2.5, count=12), np.longdouble) < 1e-10
    assert sum(jumps) > 0.3 * (1.5 * run.start.t0 / run.alpha)


@pytest.mark.usefixtures("on_working_sets")
def test_the_grid_changes_nothing() -> None:
    run, _, _ = run_of("logistic", "entry", seed=6)
    t0 = run.start.t0
    common = t0 * np.array([3.0, 4.1, 7.3])
    coarse = list(run.follow(common))
    fine = {snapshot.t: snapshot for snapshot in run.follow(np.sort(np.r_[common, t0 * np.linspace(0.1, 9, 300)]))}
    for snapshot in coarse:
        np.testing.assert_allclose(fine[snapshot.t].theta, snapshot.theta, rtol=0, atol=1e-11)
        assert fine[snapshot.t].iteration == snapshot.iteration
    assert run.iterate(7).t == pytest.approx(t0 + 7 * run.alpha, rel=1e-14)
    between = 0.5 * (run.iterate(7).dual + run.iterate(8).dual)
    halfway = next(run.follow([t0 + 7.5 * run.alpha]))
    np.testing.assert_allclose(halfway.dual, between, atol=1e-12)
    assert halfway.iteration == 7


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dead_phase_is_exact(loss: str) -> None:
    weights = np.r_[0.0, np.linspace(0.5, 1.5, 23)]
    run, X, _ = run_of(loss, "entry", seed=7, weights=weights)
    problem, classes = run.problem, run.problem.y.shape[1]
    part = np.column_stack([X[:, 0], np.ones(len(X))])

    def value(flat: Any) -> float:
        return float(problem.loss.value(part @ flat.reshape(2, classes), problem.y, problem.weight))

    best = minimize(value, np.zeros(2 * classes), method="BFGS", options={"gtol": 1e-9})
    assert run.start.loss <= best.fun + 1e-12
    gradient = problem.loss.gradient(X @ run.start.theta + run.start.intercept, problem.y, problem.weight)
    assert np.abs(part.T @ gradient).max() < 1e-12
    np.testing.assert_allclose(run.start.gradient, X.T @ gradient, atol=1e-13)
    t0 = run.start.t0
    assert t0 == pytest.approx(1 / (np.abs(X.T @ gradient)[1:] / weights[1:, None]).max(), rel=1e-10)
    before, at, after = run.follow([0.999 * t0, t0, 1.001 * t0])
    assert before.iteration == -1
    assert not before.theta[1:].any()
    assert not np.abs(at.theta[1:]).max() > 1e-9
    assert after.theta[1:].any()
    np.testing.assert_allclose(before.dual[1:], -0.999 * t0 * run.start.gradient[1:], atol=1e-12)


@pytest.mark.parametrize("relative", [0.5, 1.0, 1.9])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_never_rises(loss: str, relative: float) -> None:
    run, X, pieces = run_of(loss, "entry", seed=8, relative_step=relative)
    list(run.follow([6 * run.start.t0]))
    steps = min(1500, int(5 * run.start.t0 / run.alpha))
    losses = [run.problem.loss.value(X @ theta + eta, run.problem.y, run.problem.weight) for _, theta, eta in plain(run, X, pieces, steps)]
    assert np.diff(losses).max() <= 1e-12 * abs(losses[0])
    assert losses[-1] < losses[0]


def test_steps_that_are_too_long_are_refused() -> None:
    with pytest.raises(TamisError, match=r"relative_step=2\.1 makes the iteration unstable"):
        run_of("squared", seed=9, relative_step=2.1)
    X, y, weight = data("logistic", 30, 24, 9)
    problem = BregmanProblem(Dense(X), LOSSES["logistic"], y, weight, Entry(np.ones(24)), 10.0)
    with pytest.raises(TamisError, match="less than the largest stable alpha") as refusal:
        LinearizedBregman(replace(problem, alpha=10.0))
    limit = float(re.findall(r"alpha, ([0-9.e-]+)", str(refusal.value))[0].rstrip("."))
    joined = np.column_stack([X, np.ones(30)]) * np.sqrt(weight)[:, None] / 2
    assert limit == pytest.approx(2 / (10 * np.linalg.norm(joined, 2) ** 2), rel=2e-3)
    assert LinearizedBregman(replace(problem, alpha=0.99 * limit)).alpha == 0.99 * limit


def test_orthonormal_columns_appear_unshrunk_at_their_time() -> None:
    rng = np.random.default_rng(10)
    Q = np.linalg.qr(rng.standard_normal((20, 6)))[0] * np.sqrt(20)
    truth = np.array([[3.0], [-2.0], [1.5], [1.0], [-0.5], [0.2]])
    y = Q @ truth + np.linalg.qr(np.column_stack([Q, rng.standard_normal(20)]))[0][:, -1:]
    run = LinearizedBregman(BregmanProblem(Dense(Q), Squared(), y, np.full(20, 1 / 20), Entry(np.ones(6)), 1e5, intercept=False))
    assert run.start.t0 == pytest.approx(1 / 3)
    for snapshot in run.follow([0.4, 0.6, 0.8, 1.2, 2.5, 6.0]):
        np.testing.assert_allclose(snapshot.theta, np.where(np.abs(truth) > 1 / snapshot.t, truth, 0.0), atol=1e-9)


def test_scaling_the_target_scales_time() -> None:
    X, y, weight = data("squared", 30, 24, 11)
    one = LinearizedBregman(BregmanProblem(Dense(X), Squared(), y, weight, Entry(np.ones(24)), 10.0, intercept=False))
    # theta / kappa must keep its share of z, so kappa grows with the square of the factor
    ten = LinearizedBregman(BregmanProblem(Dense(X), Squared(), 10 * y, weight, Entry(np.ones(24)), 100.0, intercept=False))
    times = times_of(one)
    for first, second in zip(one.follow(times), ten.follow(times / 10), strict=True):
        np.testing.assert_allclose(second.theta, 10 * first.theta, atol=1e-9)


@pytest.mark.usefixtures("on_working_sets")
@pytest.mark.parametrize("loss", ["squared", "multinomial", "poisson"])
def test_interrupted_and_resumed_is_the_same(loss: str) -> None:
    run, _, _ = run_of(loss, "entry", seed=12)
    times = times_of(run)
    whole = list(run.follow(times))
    count = iter(range(10**6))
    head = list(run.follow(times, stop=lambda: next(count) > 14)) if loss != "poisson" else whole[:12]
    assert 0 < len(head) < len(whole)
    again = LinearizedBregman.resume(run.problem, head[-1])
    tail = list(again.follow(times[len(head) :]))
    for first, second in zip(whole[len(head) :], tail, strict=True):
        np.testing.assert_allclose(second.theta, first.theta, rtol=0, atol=1e-12 * max(1.0, np.abs(first.theta).max()))
        np.testing.assert_allclose(second.pull, first.pull, rtol=0, atol=1e-12)
    with pytest.raises(TamisError, match="lies before the snapshot"):
        list(again.follow(times[5:]))


@pytest.mark.usefixtures("on_working_sets")
def test_repeating_rows_is_weighting_them() -> None:
    X, y, _ = data("logistic", 30, 24, 13)
    count = np.random.default_rng(13).integers(1, 4, 30)
    weight = count / count.sum()
    long = np.repeat(np.arange(30), count)
    alpha = 0.01
    one = LinearizedBregman(BregmanProblem(Dense(X), LOSSES["logistic"], y, weight, Entry(np.ones(24)), 10.0, alpha=alpha))
    many = BregmanProblem(
        Dense(X[long]), LOSSES["logistic"], y[long], np.full(len(long), 1 / len(long)), Entry(np.ones(24)), 10.0, alpha=alpha
    )
    for first, second in zip(one.follow(times_of(one)), LinearizedBregman(many).follow(times_of(one)), strict=True):
        np.testing.assert_allclose(second.theta, first.theta, atol=1e-9)
        np.testing.assert_allclose(second.intercept, first.intercept, atol=1e-9)


def test_nothing_to_explain_is_an_empty_path() -> None:
    X, y, weight = data("squared", 30, 24, 14)
    run = LinearizedBregman(BregmanProblem(Dense(X), Squared(), np.full_like(y, 2.5), weight, Entry(np.ones(24)), 10.0))
    assert run.start.t0 == np.inf
    assert "nothing ever enters" in run.notes[0]
    last = list(run.follow([1.0, 1e6]))[-1]
    assert not last.theta.any()
    assert last.intercept[0] == pytest.approx(2.5)


def test_poisson_restarts_are_told() -> None:
    # the last row's rate outgrows what is assumed of it: its count is 0 and its first column five times that of all others
    X = np.column_stack([np.append(np.ones(29), 5.0), np.sin(np.arange(30.0))])
    y, pieces = np.append(np.full(29, 10.0), 0.0)[:, None], pieces_of("entry", 2, 1)
    problem = BregmanProblem(Dense(X), Poisson(), y, np.full(30, 1 / 30), gauge_of("entry", 2, 1), 20.0, False, relative_step=1.9)
    run = LinearizedBregman(problem)
    first = run.alpha
    end = run.start.t0 + 40 * first
    models = list(run.follow(np.linspace(run.start.t0, end, 5).tolist()))
    assert run.notes
    assert all("began again with half" in note for note in run.notes)
    assert run.alpha == first * 0.5 ** len(run.notes)
    truth = plain(run, X, pieces, models[-1].iteration)
    for model in models[1:]:
        assert np.allclose(run.iterate(model.iteration).theta, truth[model.iteration][1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kappa": -1.0}, "kappa=-1.0 cannot be used"),
        ({"loss": Hinge()}, "cannot follow the loss 'hinge'"),
        ({"weight": np.ones(30)}, "the weights sum to 30"),
        ({"gauge": Entry(np.ones(3))}, "the gauge knows 3 rows and X has 24 columns"),
        ({"y": np.zeros((30, 2))}, "y has 2 columns"),
    ],
)
def test_problems_that_make_no_sense_are_refused(change: dict[str, Any], words: str) -> None:
    run, _, _ = run_of("squared")
    with pytest.raises(TamisError, match=re.escape(words)):
        replace(run.problem, **change)


def test_one_class_and_falling_times_are_refused() -> None:
    run, _, _ = run_of("logistic")
    with pytest.raises(TamisError, match="no finite best fit"):
        LinearizedBregman(replace(run.problem, y=np.ones((30, 1))))
    for times in ([2.0, 1.0], [1.0, np.inf], [-1.0, 1.0], [np.nan]):
        with pytest.raises(TamisError, match="never decrease"):
            next(run.follow(times))
    with pytest.raises(TamisError, match="iterate -1 does not exist"):
        run.iterate(-1)


@pytest.mark.usefixtures("on_working_sets")
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "multinomial"])
def test_the_order_and_the_direction_of_columns_do_not_matter(loss: str) -> None:
    run, X, _ = run_of(loss, "column", seed=16)
    rng = np.random.default_rng(16)
    order, sign = rng.permutation(24), rng.choice([-1.0, 1.0], 24)
    turned = LinearizedBregman(replace(run.problem, design=Dense(X[:, order] * sign)))
    times = times_of(run)
    for first, second in zip(run.follow(times), turned.follow(times), strict=True):
        np.testing.assert_allclose(second.theta, first.theta[order] * sign[:, None], atol=1e-9)
        np.testing.assert_allclose(second.intercept, first.intercept, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_constant_added_to_the_target_goes_to_the_intercept(loss: str) -> None:
    run, _, _ = run_of(loss, "entry", seed=17)
    lifted = LinearizedBregman(replace(run.problem, y=run.problem.y + 7.0))
    times = times_of(run)
    for first, second in zip(run.follow(times), lifted.follow(times), strict=True):
        np.testing.assert_allclose(second.theta, first.theta, atol=1e-9)
        np.testing.assert_allclose(second.intercept, first.intercept + 7.0, atol=1e-9)


def test_half_the_step_moves_the_path_half_as_far() -> None:
    run, _, _ = run_of("logistic", "entry", seed=18, alpha=0.02)
    t = 4.0 * run.start.t0
    finest, *coarser = (
        next(LinearizedBregman(replace(run.problem, alpha=0.02 / cut)).follow([t])).pull for cut in (256, 8, 4, 2, 1)
    )  # fmt: skip
    away = [float(np.linalg.norm(pull - finest)) for pull in coarser]
    for shorter, longer in pairwise(away):
        assert 1.5 < longer / shorter < 2.7


def test_distance_to_the_inverse_scale_space_falls_with_kappa_as_proved() -> None:
    # ||R_kappa - R||^2 <= n / (2 kappa) * the integral of ||beta||^2, with R the integral of the residual
    rng = np.random.default_rng(19)
    Q = np.linalg.qr(rng.standard_normal((40, 8)))[0] * np.sqrt(40)
    truth = np.array([3.0, -2.0, 1.5, 1.2, -0.9, 0.6, 0.4, -0.3])
    y = Q @ truth
    entry = 1 / np.abs(truth)
    ratios = []
    for kappa in (4.0, 32.0, 256.0):
        problem = BregmanProblem(Dense(Q), Squared(), y[:, None], np.full(40, 1 / 40), Entry(np.ones(8)), kappa, False, relative_step=0.02)
        for snapshot in LinearizedBregman(problem).follow(np.linspace(0.4, 6, 29)):
            since = np.maximum(snapshot.t - entry, 0.0)
            exact = y * snapshot.t - Q @ (truth * since)
            bound = 40 / (2 * kappa) * float(truth**2 @ since)
            if bound > 0:
                ratios.append(float(np.linalg.norm(40 * snapshot.pull[:, 0] - exact)) / np.sqrt(bound))
    assert max(ratios) < 1.02
    assert max(ratios) > 0.3
