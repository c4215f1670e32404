"""The exact split quadratic against dense pseudo-inverses and least squares, on every route, and the paths it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tamis.solvers.split_normal as normal
from helpers_split import DenseSplit, area, entries, slow_path
from tamis.core.errors import TamisError
from tamis.solvers.duals import DenseDuals
from tamis.solvers.inverse_scale import InverseScale
from tamis.solvers.split import SplitQuadratic, nu_default
from tamis.structures.transform import Transform, as_transform, differences, from_matrix, graph, grid, identity


def pairs(width: int) -> Transform:
    return graph([(i, j) for i in range(width) for j in range(i)], width)


def ranking(rng: Any, items: int, count: int) -> tuple[Any, Any]:
    """Comparisons of items with scores in tiers; sparse, blind to a common shift."""
    who = [tuple(rng.choice(items, 2, replace=False)) for _ in range(count)]
    X = graph(who, items).matrix
    return X, X @ np.repeat([3.0, 1.0, -1.0, -3.0], items // 4) + rng.standard_normal(count)


TRANSFORMS = {
    "identity": identity(12),
    "fused": differences(12),
    "fused+identity": as_transform("fused+identity", 12),
    "grid": grid((3, 4)),
    "pairs": pairs(12),
    "two islands": graph([(i, i + 1) for i in (0, 1, 2, 3, 6, 7, 8, 9)], 12),
    "general": from_matrix(np.random.default_rng(5).standard_normal((9, 12))),
}


def agree(model: SplitQuadratic, X: Any, y: Any, D: Any, nu: float, tolerance: float = 1e-12) -> None:
    """Everything a path asks for, against the dense truth."""
    truth = DenseSplit(X, y, D, nu)
    rng = np.random.default_rng(9)
    support = rng.choice(len(D), 4, replace=False)
    values = rng.standard_normal(4)
    gamma = np.zeros(len(D))
    gamma[support] = values
    size = max(1.0, 1.0 / nu)
    assert np.abs(model.linear - truth.linear).max() < tolerance * size
    assert np.abs(model.matrix() - truth.matrix).max() < tolerance * size
    assert np.abs(model.diagonal - np.diag(truth.matrix)).max() < tolerance * size
    assert np.abs(model.block(support, support[:2]) - truth.matrix[np.ix_(support, support[:2])]).max() < tolerance * size
    assert np.abs(model.block(support, int(support[1])) - truth.matrix[support, support[1]]).max() < tolerance * size
    assert np.abs(model.speed(support, values) - (truth.linear - truth.matrix @ gamma)).max() < 3 * tolerance * size
    beta = model.beta(gamma)
    assert np.abs(beta - truth.beta(gamma)).max() < 10 * tolerance
    stationary = X.T @ (X @ beta - y) / len(y) + D.T @ (D @ beta - gamma) / nu
    assert np.abs(stationary).max() < 10 * tolerance * size
    assert np.abs(model.linear - truth.matrix @ gamma - (D @ beta - gamma) / nu).max() < 10 * tolerance * size


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("rows", [7, 30])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_all_routes_equal_the_dense_pseudo_inverse(name: str, rows: int, formed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not formed:
        monkeypatch.setattr("tamis.solvers.split.FORM_LIMIT", 0)
        monkeypatch.setattr("tamis.solvers.split.CHUNK", 5)
    monkeypatch.setattr(normal, "FILLED", 2.0)
    rng = np.random.default_rng(rows)
    X, y, D = rng.standard_normal((rows, 12)), rng.standard_normal(rows), TRANSFORMS[name].matrix
    routes = ["dense", "sparse"] + (["woodbury"] if rows < 12 else [])
    for route in [each for each in routes if name != "general" or each == "dense"]:
        for nu in (0.05, 2.0, 100.0):
            agree(SplitQuadratic(X, y, D, nu, route=route), X, y, D.toarray(), nu, 1e-11)
            agree(SplitQuadratic(sparse.csr_array(X), y, D, nu, route=route), X, y, D.toarray(), nu, 1e-11)


@pytest.mark.parametrize("route", ["dense", "sparse"])
@pytest.mark.parametrize("transform", ["pairs", "fused"])
def test_a_shift_that_nobody_sees_is_projected_out(route: str, transform: str) -> None:
    rng = np.random.default_rng(3)
    X, y = ranking(rng, 12, 150)
    D = TRANSFORMS[transform].matrix
    model = SplitQuadratic(X, y, D, 1.5, route=route)
    agree(model, X.toarray(), y, D.toarray(), 1.5)
    assert abs(model.beta(rng.standard_normal(D.shape[0])).sum()) < 1e-12


def test_unseen_directions_that_are_no_shifts_and_columns_of_any_scale() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 6))
    D = np.eye(6)[:3] - np.eye(6)[3:]
    blind = np.concatenate([np.arange(1.0, 4.0)] * 2)  # D does not see it, and now X does not either
    X -= np.outer(X @ blind, blind) / (blind @ blind)
    X = np.column_stack([X, np.zeros(30)])
    D = np.column_stack([D, np.zeros(3)])
    y = rng.standard_normal(30)
    for route in ("dense", None):
        agree_small(SplitQuadratic(X, y, D, 2.0, route=route), DenseSplit(X, y, D, 2.0))
    with pytest.raises(normal.SingularError):
        SplitQuadratic(sparse.csr_array(X), y, D, 2.0, route="sparse")
    # a column in other units, with D in the same: the cut is relative to each column's own size, so nothing is lost
    units = 10.0 ** np.array([6, -6, 3, 0, 1, 2, 0])
    scaled = SplitQuadratic(X * units, y, D * units, 2.0)
    assert np.allclose(scaled.matrix(), DenseSplit(X, y, D, 2.0).matrix, atol=1e-10)


def agree_small(model: SplitQuadratic, truth: DenseSplit) -> None:
    gamma = np.array([1.0, 0.0, -2.0])
    assert np.allclose(model.matrix(), truth.matrix, atol=1e-12)
    assert np.allclose(model.linear, truth.linear, atol=1e-12)
    assert np.allclose(model.beta(gamma), truth.beta(gamma), atol=1e-11)


@pytest.mark.parametrize(
    ("shape", "thin", "D", "way"),
    [
        ((300, 200), False, differences(200), normal.DenseInverse),
        ((300, 200), True, differences(200), normal.SparseInverse),
        ((100, 400), False, grid((20, 20)), normal.WoodburyInverse),
        ((100, 400), False, identity(400), normal.WoodburyInverse),
        ((40, 60), False, identity(60), normal.DenseInverse),
        ((100, 200), False, pairs(200), normal.DenseInverse),
    ],
)
def test_the_route_follows_the_shape_and_is_right(shape: tuple[int, int], thin: bool, D: Transform, way: type) -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.02 if thin else 1.0)
    y = rng.standard_normal(shape[0])
    held = sparse.csr_array(X) if thin else X
    assert isinstance(normal.normal_inverse(held, D.matrix, 0.5), way)
    model = SplitQuadratic(held, y, D.matrix, 3.0)
    gamma = np.where(rng.random(D.shape[0]) < 0.1, 1.0, 0.0)
    beta, A = model.beta(gamma), D.matrix
    assert np.abs(X.T @ (X @ beta - y) / len(y) + A.T @ (A @ beta - gamma) / 3.0).max() < 1e-12
    on = np.flatnonzero(gamma)
    assert np.abs(model.speed(on, gamma[on]) - (A @ beta - gamma) / 3.0).max() < 1e-12
    some = rng.choice(D.shape[0], 5, replace=False)
    assert np.allclose(model.block(some, some), model.block(some, some).T, atol=1e-13)
    assert np.allclose(np.diag(model.block(some, some)), model.diagonal[some], atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_the_quadratic_is_the_partial_minimum_of_the_coupled_loss(seed: int, nu: float) -> None:
    rng = np.random.default_rng(seed)
    rows, width = int(rng.integers(2, 9)), int(rng.integers(2, 7))
    X, y = rng.standard_normal((rows, width)), rng.standard_normal(rows)
    D = as_transform("fused+identity", width).matrix
    model, truth = SplitQuadratic(X, y, D, nu), DenseSplit(X, y, D.toarray(), nu)
    gamma = rng.standard_normal(2 * width - 1)
    claimed = 0.5 * gamma @ model.matrix() @ gamma - model.linear @ gamma
    assert np.isclose(claimed, truth.least(gamma) - truth.least(np.zeros_like(gamma)), rtol=1e-8, atol=1e-10 * (1 + y @ y / nu))
    assert np.all(np.abs(model.linear) <= model.unit * np.sqrt(model.diagonal) * (1 + 1e-9))
    assert model.unit >= truth.unit * (1 - 1e-6)


def test_nu_default_is_the_ratio_of_squared_norms() -> None:
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((40, 10)), differences(10).matrix
    want = np.linalg.norm(D.toarray(), 2) ** 2 / (np.linalg.norm(X, 2) ** 2 / 40)
    assert np.isclose(nu_default(X, D), want, rtol=1e-12)
    assert np.isclose(nu_default(sparse.csr_array(X), D), want, rtol=1e-12)
    assert nu_default(np.zeros((3, 2)), identity(2).matrix) == 1.0
    big = rng.standard_normal((900, 800))
    assert np.isclose(normal.spectral_norm(big), np.linalg.norm(big, 2), rtol=1e-6)


@pytest.mark.parametrize("nu", [0.0, -1.0, float("nan"), float("inf")])
def test_nu_must_be_a_number_above_zero(nu: float) -> None:
    with pytest.raises(TamisError, match="nu="):
        SplitQuadratic(np.eye(2), np.ones(2), np.eye(2), nu)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(TamisError, match=r"\(3, 2\), y \(3,\) and the transform \(1, 3\)"):
        SplitQuadratic(np.ones((3, 2)), np.ones(3), np.ones((1, 3)), 1.0)


def test_a_target_unseen_by_the_transform_gives_an_empty_path() -> None:
    X = np.random.default_rng(0).standard_normal((40, 8))
    model = SplitQuadratic(X, X @ np.full(8, 1e3), differences(8).matrix, 1.0)
    assert not np.any(model.linear)
    assert len(slow_path(model)[0]) == 1


# ---- paths ----------------------------------------------------------------------------------------------


def spikes(seed: int) -> tuple[Any, Any, Any]:
    """The paper's design: 50 coefficients, three stretches of five."""
    beta = np.zeros(50)
    beta[7:12], beta[20:25], beta[32:37] = -2, 2, -2
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 50))
    return X, X @ beta + rng.standard_normal(50), beta


@pytest.mark.parametrize(("what", "want"), [("identity", (0.9912, 1.0, 1.0)), ("fused+identity", (0.9963, 0.9999, 0.9999))])
def test_order_of_entry_reaches_the_papers_table(what: str, want: tuple[float, ...]) -> None:
    D = as_transform(what, 50).matrix
    for nu, goal in zip((1, 5, 10), want, strict=True):
        found = []
        for seed in range(5):
            X, y, beta = spikes(seed)
            times, gammas = slow_path(SplitQuadratic(X, y, D, nu))
            found.append(area(entries(times, gammas), D @ beta != 0))
        assert np.mean(found) == pytest.approx(goal, abs=6e-5)


def test_the_engine_and_the_slow_loop_walk_the_same_path() -> None:
    X, y, _ = spikes(0)
    for D in (as_transform("fused+identity", 50).matrix, pairs(50).matrix[::9]):
        model = SplitQuadratic(X, y, D, 5.0)
        times, gammas = slow_path(model)
        events = [event for event in InverseScale(DenseDuals(model), most=40).events() if event.t <= times[-1]]
        at = {round(float(t), 9): gamma for t, gamma in zip(times, gammas.T, strict=True)}
        assert len(events) > 30
        for event in events:
            assert np.abs(event.dense(model.size) - at[round(event.t, 9)]).max() < 1e-8


def certified(X: Any, y: Any, D: Any, nu: float, times: Any, gammas: Any, model: SplitQuadratic) -> tuple[float, float]:
    """Largest dual beyond 1, and largest distance of rho from the sign of a coefficient; through beta and not through Sigma."""
    betas = np.array([model.beta(gamma) for gamma in gammas.T]).T
    rho = np.column_stack([np.zeros(len(D)), np.cumsum((D @ betas - gammas)[:, :-1] / nu * np.diff(times), axis=1)])
    return float(np.abs(rho).max() - 1), float(np.abs(rho - np.sign(gammas))[gammas != 0].max())


@given(st.integers(0, 10**6), st.sampled_from(["identity", "fused", "fused+identity", "grid:2x4"]))
@settings(max_examples=30)
def test_paths_satisfy_their_inclusion(seed: int, what: str) -> None:
    rng = np.random.default_rng(seed)
    X, y, D = rng.standard_normal((12, 8)), rng.standard_normal(12), as_transform(what, 8).matrix
    model = SplitQuadratic(X, y, D, 2.0)
    times, gammas = slow_path(model)
    beyond, off = certified(X, y, D.toarray(), 2.0, times, gammas, model)
    assert beyond < 1e-8
    assert off < 1e-8


def test_tiers_of_a_ranking_are_found_on_the_path() -> None:
    exact = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = ranking(rng, 12, 150)
        D = pairs(12)
        model = SplitQuadratic(X, y, D.matrix, nu_default(X, D.matrix))
        times, gammas = slow_path(model)
        beyond, off = certified(X, y, D.matrix.toarray(), model.nu, times, gammas, model)
        assert max(beyond, off) < 1e-8
        truth = np.arange(12) // 3
        for gamma in gammas.T:
            label = np.unique(D.project(model.beta(gamma), gamma != 0).round(9), return_inverse=True)[1]
            if label.max() == 3 and np.array_equal(label, 3 - truth):
                exact += 1
                break
    assert exact >= 4


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_permuting_rows_of_the_transform_permutes_gamma(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, D = rng.standard_normal((15, 6)), rng.standard_normal(15), as_transform("fused+identity", 6).matrix
    order = rng.permutation(11)
    times, gammas = slow_path(SplitQuadratic(X, y, D, 1.0))
    again, permuted = slow_path(SplitQuadratic(X, y, D[order], 1.0))
    assert np.allclose(times, again, rtol=1e-8)
    assert np.allclose(gammas[order], permuted, atol=1e-7)


def test_with_the_identity_and_nu_to_zero_it_is_plain_inverse_scale_space() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, 6))
    y = X @ np.array([3.0, -2.0, 1.0, 0, 0, 0]) + rng.standard_normal(60)

    class Plain:
        size, linear, diagonal = 6, X.T @ y / 60, (X * X).sum(axis=0) / 60
        unit = float(np.linalg.norm(y) / np.sqrt(60))

        def block(self, rows: Any, columns: Any) -> Any:
            return X[:, rows].T @ X[:, columns] / 60

        def speed(self, support: Any, values: Any) -> Any:
            return X.T @ (y - X[:, list(support)] @ values) / 60

    times, betas = slow_path(Plain())
    away = []
    for nu in (1e-1, 1e-3, 1e-5):
        again, gammas = slow_path(SplitQuadratic(X, y, np.eye(6), nu))
        assert len(again) == len(times)
        away.append(max(np.abs(again / np.maximum(times, 1e-300) - 1)[1:].max(), np.abs(gammas - betas).max()))
    assert away[0] > away[1] > away[2]
    assert away[2] < 2e-3
