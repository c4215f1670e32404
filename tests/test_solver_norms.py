"""The hierarchical norm of a held set and its dual norm: direct sums, Hölder, one-dimensional minima, and a cone solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from helpers_lattice import SHAPES, case, closure, lattice_of
from helpers_oracle import TIGHT, Instance
from tamis.core.structure import Held
from tamis.solvers.norm import first_eta, group_norms, inverse_curvature, omega, polish, pulls, row_sizes

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
RHOS = (2.0, 1.5, 1.1, 1.05)


def hull_of(shape: str, rho: float, seed: int, p: int = 5) -> tuple[Instance, Held, np.random.Generator]:
    """A random closed part of a random lattice, of at most a dozen atoms, in any of the shapes."""
    rng = np.random.default_rng(seed)
    instance = case("squared", rho, shape, p=p, seed=seed % 9)
    picks = [instance.lattice[i] for i in rng.integers(0, len(instance.lattice), 4)]
    atoms = [atom for atom in closure(picks) if atom in instance.lattice][:12]
    return instance, lattice_of(instance).hold(atoms), rng


hulls = st.builds(hull_of, st.sampled_from(SHAPES), st.sampled_from(RHOS), st.integers(0, 10**6))
Hull = tuple[Instance, Held, np.random.Generator]


def below(held: Held, v: int) -> list[int]:
    """Positions of an atom and of the longer ones that contain it."""
    return [w for w, atom in enumerate(held.atoms) if set(held.atoms[v]) <= set(atom)]


def above(held: Held, w: int) -> list[int]:
    return [v for v, atom in enumerate(held.atoms) if set(atom) <= set(held.atoms[w])]


def sizes(held: Held, rng: np.random.Generator) -> np.ndarray:
    """Sizes over many magnitudes, some zero."""
    return np.abs(rng.normal(size=len(held))) * 10.0 ** rng.integers(-6, 4, len(held)) * (rng.random(len(held)) < 0.8)


def any_eta(held: Held, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(rng.dirichlet(np.full(len(held), 2.0)) + 1e-4)


def allowed(held: Held, rng: np.random.Generator, columns: int = 1) -> np.ndarray:
    """Weights as signs and silence permit."""
    F = rng.normal(size=(len(held), columns)) * 10.0 ** rng.integers(-3, 2, (len(held), 1))
    F = np.where(held.sign[:, None] * F < 0, -F, F)
    return np.where(held.silent[:, None], 0.0, F)


# ---- the norm --------------------------------------------------------------------------------------------------


@given(hulls, st.sampled_from([1.0, 1e-300, 1e-150, 1e150, 1e290]))
def test_group_norms_are_direct_sums(hull: Hull, scale: float) -> None:
    instance, held, rng = hull
    size, rho = sizes(held, rng), instance.rho
    exact = [sum(size[w] ** rho for w in below(held, v)) ** (1 / rho) for v in range(len(held))]
    assert group_norms(held, scale * size, rho) == pytest.approx([scale * value for value in exact], rel=1e-11, abs=0)
    F = size[:, None]
    assert omega(held, F, rho) == pytest.approx(sum(held.cost[v] * exact[v] for v in range(len(held))), rel=1e-11)


def test_nothing_has_norm_zero() -> None:
    _, held, _ = hull_of("full", 1.5, 0)
    assert group_norms(held, np.zeros(len(held)), 1.5).tolist() == [0.0] * len(held)
    assert omega(held, np.zeros((len(held), 2)), 1.5) == 0.0
    assert first_eta(held, np.zeros(len(held)), 1.5) == pytest.approx(np.full(len(held), 1 / len(held)))
    assert inverse_curvature(held, np.zeros(len(held)), 1.5).tolist() == [0.0] * len(held)


@given(hulls, st.integers(1, 3))
def test_the_norm_is_a_norm(hull: Hull, columns: int) -> None:
    """Homogeneous, and never more for a sum than for its parts."""
    instance, held, rng = hull
    F, G = (rng.normal(size=(len(held), columns)) for _ in range(2))
    assert omega(held, -3.5 * F, instance.rho) == pytest.approx(3.5 * omega(held, F, instance.rho), rel=1e-12)
    assert omega(held, F + G, instance.rho) <= (omega(held, F, instance.rho) + omega(held, G, instance.rho)) * (1 + 1e-12)
    assert row_sizes(F) == pytest.approx([np.linalg.norm(row) for row in F], rel=1e-14)


@given(hulls)
def test_the_majoriser_is_its_formula(hull: Hull) -> None:
    """1 / (|F_w|^(rho - 2) Omega sum over ancestors of d N^(1 - rho)) for atoms with weight; the weights' scale does not show."""
    instance, held, rng = hull
    size, rho = 0.1 + np.abs(rng.normal(size=len(held))), instance.rho
    norms = [sum(size[w] ** rho for w in below(held, v)) ** (1 / rho) for v in range(len(held))]
    total = sum(held.cost[v] * norms[v] for v in range(len(held)))
    for w, found in enumerate(inverse_curvature(held, size, rho)):
        pull = sum(held.cost[v] * norms[v] ** (1 - rho) for v in above(held, w))
        assert found == (0 if held.silent[w] else pytest.approx(size[w] ** (2 - rho) / (total * pull), rel=1e-10))
    assert inverse_curvature(held, 1e-100 * size, rho) == pytest.approx(inverse_curvature(held, size, rho), rel=1e-9)


@given(hulls, st.integers(1, 3))
def test_pulls_leave_out_what_no_weight_may_follow(hull: Hull, columns: int) -> None:
    _, held, rng = hull
    scores = rng.normal(size=(len(held), 1 if held.sign.any() else columns))
    for row, found, silent, sign in zip(scores, pulls(held, scores), held.silent, held.sign, strict=True):
        wanted = 0.0 if silent else max(sign * row[0], 0.0) if sign else np.sqrt((row**2).sum())
        assert found == pytest.approx(wanted, rel=1e-14, abs=0)


# ---- the dual norm ---------------------------------------------------------------------------------------------


def shared_power(held: Held, pull: np.ndarray, eta: np.ndarray, rho: float) -> float:
    """H(eta): the sum over w of |G_w|^rho' ( sum over ancestors of d^rho eta^(1 - rho) )^(1 / (1 - rho))."""
    share = held.cost**rho * eta ** (1 - rho)
    return float(sum(pull[w] ** (rho / (rho - 1)) * sum(share[v] for v in above(held, w)) ** (1 / (1 - rho)) for w in range(len(held))))


@given(hulls, st.floats(0, 1))
@settings(max_examples=150)
def test_the_shared_power_is_concave_in_the_group_weights(hull: Hull, part: float) -> None:
    instance, held, rng = hull
    pull, first, second = rng.random(len(held)), any_eta(held, rng), any_eta(held, rng)
    low, high = (shared_power(held, pull, eta, instance.rho) for eta in (first, second))
    between = shared_power(held, pull, part * first + (1 - part) * second, instance.rho)
    assert between >= (part * low + (1 - part) * high) * (1 - 1e-10)


@given(hulls, st.sampled_from([1, 3, 30]))
@settings(max_examples=150)
def test_no_weights_pull_more_than_the_bound_allows(hull: Hull, steps: int) -> None:
    """Hölder: <F, G> <= bound * Omega(F), for any F, whatever eta the bound starts from; also for those F that pull hardest."""
    instance, held, rng = hull
    columns = 1 if held.sign.any() else int(rng.integers(1, 4))
    G = rng.normal(size=(len(held), columns))
    force = pulls(held, G)
    limit, eta = polish(held, force, any_eta(held, rng), instance.rho, steps=steps)
    share = held.cost**instance.rho * eta ** (1 - instance.rho)
    along = (force / held.over_ancestors(share)) ** (1 / (instance.rho - 1))  # where the reweighted norm is sharpest
    direction = np.where(held.silent[:, None] | (held.sign[:, None] * G < 0), 0.0, G / np.maximum(row_sizes(G), 1e-300)[:, None])
    for F in (*(allowed(held, rng, columns) for _ in range(5)), direction * along[:, None]):
        assert float((F * G).sum()) <= limit * omega(held, F, instance.rho) * (1 + 1e-9)


@given(hulls)
@settings(max_examples=100)
def test_the_kept_bound_is_never_above_the_first_nor_rises_with_more_steps(hull: Hull) -> None:
    instance, held, rng = hull
    pull, eta = pulls(held, rng.normal(size=(len(held), 1))), any_eta(held, rng)
    bounds = [polish(held, pull, eta, instance.rho, steps=steps, slack=1e-12)[0] for steps in (1, 2, 4, 9, 30, 80)]
    assert bounds == sorted(bounds, reverse=True)
    again, _ = polish(held, pull, polish(held, pull, eta, instance.rho)[1], instance.rho, steps=1)
    assert again == pytest.approx(polish(held, pull, eta, instance.rho)[0], rel=1e-9)


@given(hulls, st.sampled_from([1e-250, 1e-12, 1e12, 1e250]))
@settings(max_examples=100)
def test_the_bound_grows_with_the_pull_and_only_with_it(hull: Hull, scale: float) -> None:
    """Homogeneous in the pull at any size, and deaf to the sum of the group weights it starts from."""
    instance, held, rng = hull
    pull, eta = rng.random(len(held)), any_eta(held, rng)
    limit, better = polish(held, pull, eta, instance.rho)
    scaled, same = polish(held, scale * pull, 7.0 * eta, instance.rho)
    assert scaled == pytest.approx(scale * limit, rel=1e-9)
    assert same == pytest.approx(better, rel=1e-6)
    assert better.sum() == pytest.approx(1.0)
    assert np.all(better > 0)


def test_group_weights_that_start_at_zero_still_give_a_bound() -> None:
    """Their floor keeps every share finite."""
    _, held, rng = hull_of("full", 1.1, 3)
    force, eta = pulls(held, rng.normal(size=(len(held), 1))), np.zeros(len(held))
    eta[0] = 1.0
    limit, better = polish(held, force, eta, 1.1, steps=300)
    assert np.isfinite(limit)
    assert np.all(np.isfinite(better))
    assert limit == pytest.approx(polish(held, force, np.ones(len(held)), 1.1, steps=300)[0], rel=1e-4)


# ---- the dual norm itself --------------------------------------------------------------------------------------


def hardest_pull(held: Held, G: np.ndarray, rho: float) -> float:
    """max <F, G> over Omega(F) <= 1 and the signs and silence of the atoms, by Clarabel."""
    import cvxpy as cp

    F = cp.Variable(G.shape)
    size = cp.abs(F[:, 0]) if G.shape[1] == 1 else cp.norm(F, 2, axis=1)
    groups = [below(held, v) for v in range(len(held))]
    norms = [cp.pnorm(size[group], rho) if len(group) > 1 else size[group[0]] for group in groups]
    ball: list[Any] = [sum(float(cost) * norm for cost, norm in zip(held.cost, norms, strict=True)) <= 1]
    ball += [F[w] == 0 for w in np.flatnonzero(held.silent)] + [int(held.sign[w]) * F[w] >= 0 for w in np.flatnonzero(held.sign)]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(F, G))), ball)
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value)


@pytest.mark.parametrize("shape", ["full", "silent", "signs", "costs"])
@pytest.mark.parametrize("rho", [2.0, 1.5, 1.1])
def test_polishing_meets_the_dual_norm_of_small_hulls(rho: float, shape: str) -> None:
    """From either side: never below what a cone solver finds, and as near to it as was asked."""
    for seed in range(3):
        _, held, rng = hull_of(shape, rho, seed)
        G = rng.normal(size=(len(held), 1 if shape == "signs" else 2))
        exact = hardest_pull(held, G, rho)
        limit, _ = polish(held, pulls(held, G), np.ones(len(held)), rho, steps=2000, slack=1e-6)
        assert exact * (1 - 1e-6) <= limit <= exact * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize("rho", RHOS)
def test_one_atom_below_the_root_shares_its_price_in_the_best_way(rho: float) -> None:
    """Two groups: the bound is the smallest larger value over one number, the root's share of the atom."""
    instance = case("squared", rho, "costs")
    held, power = lattice_of(instance).hold([(), (0,)]), rho / (rho - 1)
    for root, atom in ((0.0, 1.0), (1.0, 1.0), (3.0, 0.2), (0.1, 40.0)):
        force = np.array([root, atom])

        def larger(kappa: float, force: np.ndarray = force) -> float:
            first = (force[0] ** power + (kappa * force[1]) ** power) ** (1 / power) / held.cost[0]
            return float(max(first, (1 - kappa) * force[1] / held.cost[1]))

        best = minimize_scalar(larger, bounds=(0, 1), method="bounded", options={"xatol": 1e-12}).fun
        assert polish(held, force, np.ones(2), rho, steps=2000, slack=1e-9)[0] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("rho", RHOS)
def test_a_root_alone_has_the_plain_dual_norm(rho: float) -> None:
    held = lattice_of(case("squared", rho, "full")).root()
    assert polish(held, np.array([2.5]), np.ones(1), rho)[0] == pytest.approx(2.5 / held.cost[0])
