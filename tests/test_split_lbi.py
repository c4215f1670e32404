"""Split linearised Bregman iterations against the recursion written out on dense arrays, and against the exact path."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from helpers_split import Entry, PlainLoop, Rows, entries, loss_gradient, slow_path, targets
from tamis.core.design import Dense, Sparse, Standardized
from tamis.core.errors import TamisError
from tamis.core.loss import LOSSES
from tamis.solvers.split import SplitQuadratic
from tamis.solvers.split_lbi import SplitBregman, SplitProblem, SplitSnapshot
from tamis.structures.gauges import Group
from tamis.structures.transform import as_transform, differences

SMOOTH = ("squared", "huber", "squared_hinge", "logistic", "multinomial", "poisson")


def problem(name: str, seed: int = 0, shape: tuple[int, int] = (60, 8), classes: int = 1, **settings: Any) -> SplitProblem:
    """Coefficients constant over two stretches, seen through a loss."""
    rng = np.random.default_rng(seed)
    rows, width = shape
    classes = 3 if name == "multinomial" else classes
    X = rng.standard_normal(shape) / np.sqrt(width) * 2
    beta = np.repeat(rng.standard_normal((2, classes)), [width // 2, width - width // 2], axis=0)
    y = targets(name, X @ beta + 0.3, rng)
    weight = rng.random(rows) + 0.5
    made = SplitProblem(X, LOSSES[name](), y, weight / weight.sum(), as_transform("fused+identity", width).matrix, 1.5, Entry(), 5.0)
    return replace(made, **settings)


def plain(given: SplitProblem, run: SplitBregman, steps: int) -> list[tuple[Any, Any, Any, Any]]:
    """The recursion as it stands, from the run's own start and with its step."""
    X = given.X.toarray() if sparse.issparse(given.X) else given.X.block(None) if hasattr(given.X, "block") else given.X
    loop = PlainLoop(
        given.loss.name,
        X,
        given.y,
        given.weight,
        given.D if isinstance(given.D, np.ndarray) else given.D.toarray(),
        given.nu,
        given.kappa,
        given.gauge,
    )
    begin = run.start
    return loop.run(run.alpha, steps, begin.beta, begin.intercept, begin.dual, given.intercept)


def same(snapshot: SplitSnapshot, iterate: tuple[Any, Any, Any, Any]) -> None:
    got = (snapshot.beta, snapshot.intercept, snapshot.gamma, snapshot.dual)
    for mine, theirs in zip(got, iterate, strict=True):
        assert np.abs(mine - theirs).max(initial=0.0) <= 1e-10 * max(1.0, np.abs(theirs).max(initial=0.0))
    assert (
        np.array_equal(snapshot.gamma != 0, iterate[2] != 0)
        or np.abs(snapshot.gamma[(snapshot.gamma != 0) != (iterate[2] != 0)]).max() < 1e-12
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("start", ["equilibrium", "zero"])
@pytest.mark.parametrize("shape", [(60, 8), (6, 8)])
@pytest.mark.parametrize("name", SMOOTH)
def test_iterates_are_those_of_the_plain_recursion(name: str, shape: tuple[int, int], start: str, intercept: bool) -> None:
    given = problem(name, shape=shape, start=start, intercept=intercept, relative_step=0.25 if name == "poisson" else 1.0)
    run = SplitBregman(given)
    begin = run.start.t
    assert (begin == 0) == (start == "zero")
    last = 3000 if name == "poisson" else 400
    steps = [0, 1, 2, 50, last]
    times = [begin + (k + 0.5) * run.alpha for k in steps]
    truth = plain(given, run, last + 1)
    for k, snapshot in zip(steps, run.follow(times), strict=True):
        assert snapshot.iteration == k
        # between two iterates beta and z are half way, and gamma is what z shrinks to
        half = [(a + b) / 2 for a, b in zip(truth[k], truth[k + 1], strict=True)]
        half[2] = given.kappa * given.gauge.shrink(half[3])
        same(snapshot, tuple(half))
    assert snapshot.gamma.any()
    assert not run.notes


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_gauges_with_pieces_and_several_columns(name: str) -> None:
    for gauge in (Rows(), Group(np.arange(15) // 4), Group(np.arange(15) // 4, joint=True, classes=3)):
        given = problem(name, classes=3, gauge=gauge)
        run = SplitBregman(given)
        assert gauge.dual_norm(given.D @ run.start.beta / given.nu) == pytest.approx(1 / run.start.t, rel=1e-12)
        truth = plain(given, run, 300)
        found = list(run.follow([run.start.t + (k + 1e-9) * run.alpha for k in (10, 300)]))
        assert [snapshot.iteration for snapshot in found] == [10, 300]
        for k, snapshot in zip((10, 300), found, strict=True):
            assert np.abs(snapshot.gamma - truth[k][2]).max() < 1e-6
            same(SplitSnapshot(0, k, *run._parted(snapshot.state.free), truth[k][2], snapshot.state.dual, 0, snapshot.state), truth[k])


def test_sparse_data_designs_and_large_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    base = problem("logistic")
    want = [snapshot.beta for snapshot in SplitBregman(base).follow([5.0, 20.0])]
    held = sparse.csr_array(base.X)
    for X in (held, Dense(base.X), Sparse(held)):
        for snapshot, beta in zip(SplitBregman(replace(base, X=X)).follow([5.0, 20.0]), want, strict=True):
            assert np.abs(snapshot.beta - beta).max() < 1e-10
    given = replace(base, X=Standardized.of(Dense(base.X), base.weight))
    run = SplitBregman(given)
    (snapshot,) = run.follow([run.start.t + 30.5 * run.alpha])
    assert np.abs(snapshot.state.dual - plain(given, run, 30)[30][3]).max() < 1e-10
    monkeypatch.setattr("tamis.solvers.split_lbi.SMALL", 0)
    for snapshot, beta in zip(SplitBregman(base).follow([5.0, 20.0]), want, strict=True):
        assert np.abs(snapshot.beta - beta).max() < 1e-10


@pytest.mark.parametrize("shape", [(80, 8), (9, 16)])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_equilibrium_is_where_an_independent_minimiser_ends(name: str, shape: tuple[int, int]) -> None:
    given = problem(name, seed=3, shape=shape)
    begin = SplitBregman(given).start
    classes, D = given.y.shape[1], given.D.toarray()
    pull = loss_gradient(name, given.X @ begin.beta + begin.intercept, given.y, given.weight)
    assert np.abs(pull.sum(axis=0)).max() < 1e-13
    assert np.abs(given.X.T @ pull + D.T @ D @ begin.beta / given.nu).max() < 1e-13
    assert np.abs(begin.dual - begin.t * D @ begin.beta / given.nu).max() < 1e-13
    assert np.abs(begin.dual).max() == pytest.approx(1.0, rel=1e-14)

    def objective(flat: Any) -> Any:
        free = flat.reshape(-1, classes)
        score = given.X @ free[:-1] + free[-1]
        slope = loss_gradient(name, score, given.y, given.weight)
        each = [slice(None)] if name == "multinomial" else [[j] for j in range(classes)]
        value = sum(given.loss.value(score[:, j], given.y[:, j], given.weight) for j in each)
        return value + np.sum((D @ free[:-1]) ** 2) / (2 * given.nu), np.vstack(
            [given.X.T @ slope + D.T @ D @ free[:-1] / given.nu, slope.sum(axis=0)]
        ).ravel()

    found = minimize(objective, np.zeros((shape[1] + 1) * classes), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    assert np.abs(found.x.reshape(-1, classes)[:-1] - begin.beta).max() < 1e-5
    assert objective(np.vstack([begin.beta, begin.intercept]).ravel())[0] <= found.fun + 1e-12


def test_equilibrium_with_more_columns_than_rows_and_differences_only() -> None:
    given = problem("logistic", shape=(60, 200), D=differences(200).matrix, nu=50.0)
    begin = SplitBregman(given).start
    pull = loss_gradient("logistic", given.X @ begin.beta + begin.intercept, given.y, given.weight)
    assert np.abs(given.X.T @ pull + given.D.T @ (given.D @ begin.beta) / given.nu).max() < 1e-13
    assert np.abs(pull.sum()) < 1e-13


def test_before_the_start_gamma_is_zero_and_the_dual_grows_from_nothing() -> None:
    run = SplitBregman(problem("squared"))
    begin = run.start
    for snapshot in run.follow([0.0, 0.3 * begin.t, begin.t]):
        assert snapshot.iteration == 0
        assert not snapshot.gamma.any()
        assert np.array_equal(snapshot.beta, begin.beta)
        assert np.allclose(snapshot.dual, snapshot.t / begin.t * begin.dual, atol=1e-15)


@given(st.integers(0, 10**6), st.sampled_from(SMOOTH), st.floats(0.1, 3.0))
@settings(max_examples=25)
def test_the_clock_does_not_depend_on_the_times_asked_for(seed: int, name: str, first: float) -> None:
    run = SplitBregman(problem(name, seed % 50))
    rng = np.random.default_rng(seed)
    begin, alpha = run.start.t, run.alpha
    common = [0.5 * begin, begin + 20.3 * alpha, begin + 77.9 * alpha]
    more = [*common, first * begin, *(begin + alpha * rng.uniform(0, 100, 6))][:: rng.choice([-1, 1])]
    more = [t for t in more if t < begin + 100 * alpha]
    few = {snapshot.t: snapshot for snapshot in run.follow(common)}
    many = {snapshot.t: snapshot for snapshot in run.follow(more)}
    for t in common:
        assert np.array_equal(few[t].beta, many[t].beta)
        assert np.array_equal(few[t].gamma, many[t].gamma)
        assert few[t].loss == many[t].loss


@pytest.mark.parametrize("name", SMOOTH)
def test_going_on_from_a_snapshot_gives_the_same_iterates(name: str) -> None:
    given = problem(name)
    run = SplitBregman(given)
    begin = run.start.t
    whole = list(run.follow([0.5 * begin, 1.7 * begin, 3.1 * begin, 6.0 * begin]))
    for k in (0, 1, 2):
        rest = list(SplitBregman(given).follow([3.1 * begin, 6.0 * begin], after=whole[k]))
        for one, other in zip(rest, whole[2:], strict=True):
            assert one.iteration == other.iteration
            assert np.array_equal(one.beta, other.beta)
            assert np.array_equal(one.dual, other.dual)
    with pytest.raises(TamisError, match="lies before"):
        list(run.follow([0.5 * begin], after=whole[3]))


@pytest.mark.parametrize("share", [0.5, 1.0, 1.9])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_joint_loss_never_rises_below_the_largest_step(name: str, share: float) -> None:
    given = problem(name, seed=5, relative_step=share)
    run = SplitBregman(given)
    times = run.start.t + run.alpha * np.arange(200)
    values = [snapshot.loss for snapshot in run.follow(times)]
    assert all(after <= before + 1e-12 for before, after in pairwise(values))
    assert values[-1] < values[0] - 1e-6
    X, D = np.column_stack([given.X, np.ones(60)]), given.D.toarray()
    factor = {"logistic": 0.25, "multinomial": 0.5}.get(name, 1.0)
    if name != "poisson":
        h = factor * np.linalg.norm(np.sqrt(given.weight)[:, None] * X, 2) ** 2
        assert run.alpha == pytest.approx(share / (5.0 * (h + (1 + np.linalg.norm(D, 2) ** 2) / 1.5)), rel=1e-9)


def test_a_step_that_is_too_long_is_refused_with_the_largest_that_is_not() -> None:
    given = problem("squared")
    most = SplitBregman(given).largest_alpha
    with pytest.raises(TamisError, match=f"stay below {most:.6g}, the largest stable one") as caught:
        SplitBregman(replace(given, alpha=1.001 * most))
    assert "alpha=" in str(caught.value)
    assert SplitBregman(replace(given, alpha=0.95 * most)).alpha == 0.95 * most


@pytest.mark.parametrize(
    ("change", "quoted"),
    [
        ({"relative_step": 2.1}, "relative_step=2.1"),
        ({"kappa": -1.0}, "kappa=-1.0"),
        ({"nu": float("nan")}, "nu=nan"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"start": "nowhere"}, "start='nowhere'"),
        ({"D": np.eye(3)}, "do not fit together"),
        ({"gauge": Group(np.zeros(15, dtype=int), weights=0.0)}, "weight 0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(change: dict[str, Any], quoted: str) -> None:
    with pytest.raises(TamisError, match=quoted):
        problem("squared", **change)


def test_losses_with_corners_and_impossible_times_are_refused() -> None:
    with pytest.raises(TamisError, match="'hinge'"):
        SplitBregman(replace(problem("logistic"), loss=LOSSES["hinge"]()))
    with pytest.raises(TamisError, match="t=-1"):
        list(SplitBregman(problem("squared")).follow([-1.0]))


def test_separable_classes_have_no_equilibrium_where_the_transform_is_blind() -> None:
    X = np.linspace(-1, 1, 20)[:, None] * np.ones(4)
    given = replace(problem("logistic", shape=(20, 4)), X=X, y=np.sign(X[:, :1]), D=differences(4).matrix)
    with pytest.raises(TamisError, match="start='zero'"):
        SplitBregman(given)
    assert np.isfinite(next(iter(SplitBregman(replace(given, start="zero")).follow([3.0]))).loss)
    assert SplitBregman(replace(given, D=as_transform("fused+identity", 4).matrix)).start.t < np.inf


def test_nothing_to_select_is_an_empty_path_that_says_so() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    for y, D in ((X @ np.full((5, 1), 100.0), differences(5).matrix), (np.full((30, 1), 7.0), as_transform(None, 5).matrix)):
        run = SplitBregman(replace(problem("squared", shape=(30, 5)), X=X, y=y, D=D))
        assert run.start.t == np.inf
        assert "empty" in run.notes[0]
        (snapshot,) = run.follow([1e6])
        assert not snapshot.gamma.any()
        assert np.abs(X @ snapshot.beta + snapshot.intercept - y).max() < 1e-9
        assert len(list(run.follow([1e7], after=snapshot))) == 1


def test_counts_that_outgrow_the_guess_are_begun_again_with_half_the_step() -> None:
    X = np.column_stack([np.append(np.ones(100), 5.0), np.sin(np.arange(101))])  # one row that small coefficients already blow up
    y = np.append(np.full(100, 10.0), 0.0)[:, None]
    given = SplitProblem(X, LOSSES["poisson"](), y, np.full(101, 1 / 101), np.eye(2), 1.0, Entry(), 20.0, start="zero", intercept=False)
    run = SplitBregman(given)
    guess = run.alpha
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(run.follow([2.0, 2.5, 3.0]))
    assert run.alpha < guess
    assert any("half the step" in note for note in run.notes)
    assert np.isfinite([snapshot.loss for snapshot in found]).all()
    k = found[-1].iteration
    truth = plain(given, run, k)[k]
    assert found[-1].state.t == pytest.approx(k * run.alpha)
    assert np.abs(found[-1].state.dual - truth[3]).max() < 1e-10
    again = list(SplitBregman(given).follow([3.0]))
    assert np.array_equal(again[-1].beta, found[-1].beta)


def test_it_stops_when_told() -> None:
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 5

    run = SplitBregman(problem("squared"))
    found = list(run.follow([1.01 * run.start.t, 1e4], stop))
    assert len(found) <= 1
    assert len(asked) == 6


def test_entries_at_kappa_200_are_those_of_the_exact_path() -> None:
    beta = np.zeros(50)
    beta[7:12], beta[20:25], beta[32:37] = -2, 2, -2
    rng = np.random.default_rng(4)
    X = rng.standard_normal((50, 50))
    y = X @ beta + rng.standard_normal(50)
    D = as_transform("fused+identity", 50).matrix
    exact = entries(*slow_path(SplitQuadratic(X, y, D, 10.0)))
    run = SplitBregman(SplitProblem(X, LOSSES["squared"](), y[:, None], np.full(50, 0.02), D, 10.0, Entry(), 200.0, intercept=False))
    assert run.start.t == pytest.approx(exact.min(), rel=1e-10)
    end = 10 * run.start.t
    times = np.linspace(run.start.t, end, 8000)
    first = entries(times, np.array([snapshot.gamma[:, 0] for snapshot in run.follow(times)]).T)
    seen = np.isfinite(first)
    assert seen.sum() > 30
    assert np.median(np.abs(first / exact - 1)[seen]) < 0.005
    assert set(np.flatnonzero(exact < 0.9 * end)) <= set(np.flatnonzero(seen))


def test_larger_kappa_comes_closer_to_the_exact_path() -> None:
    given = problem("squared", seed=2, intercept=False, weight=np.full(60, 1 / 60))
    model = SplitQuadratic(given.X, given.y[:, 0], given.D, given.nu)
    times, gammas = slow_path(model)
    middle = (times[2:-1] + times[3:]) / 2
    away = []
    for kappa in (1.0, 4.0, 16.0):
        run = SplitBregman(replace(given, kappa=kappa))
        found = np.array([snapshot.gamma[:, 0] for snapshot in run.follow(middle)])
        away.append(np.median(np.abs(found - gammas[:, 2:-1].T).max(axis=1)))
    assert away[0] > 3 * away[1] > 9 * away[2]
