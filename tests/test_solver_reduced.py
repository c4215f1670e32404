"""The problem on a held set: norms and majorisers against their definitions, and both solvers step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_lattice import SHAPES, case, closure, lattice_of, solved, targets_of, weights_of
from helpers_oracle import LOSSES, Instance, dual_norm, generic_optimum
from tamis.core.dual import constant_model
from tamis.core.follow import Problem, Walk
from tamis.core.loss import Targets
from tamis.core.path import Knot
from tamis.core.structure import Held
from tamis.solvers.hierarchical import HierarchicalSolver
from tamis.solvers.mirror import FixedShares, solve_mirror
from tamis.solvers.norm import first_eta, group_norms, inverse_curvature, omega, polish, pulls, row_sizes
from tamis.solvers.reduced import Hierarchical, Penalty, Point, newton_round, objective, solve_reduced

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
RHOS = (2.0, 1.5, 1.1)


def whole(instance: Instance) -> Held:
    """The whole lattice, held."""
    return lattice_of(instance).hold(instance.lattice)


def part_of(instance: Instance, seed: int) -> Held:
    """Half of it, held."""
    rng = np.random.default_rng(seed)
    return lattice_of(instance).hold(closure([atom for atom in instance.lattice if rng.random() < 0.5]))


def random_weights(instance: Instance, held: Held, rng: np.random.Generator) -> np.ndarray:
    """Weights of very different sizes, some zero, allowed by silence and signs."""
    F = rng.normal(size=(len(held), instance.columns)) * 10.0 ** rng.integers(-3, 2, (len(held), 1)) * (rng.random((len(held), 1)) < 0.8)
    F = np.where(held.sign[:, None] * F < 0, -F, F)
    return np.where(held.silent[:, None], 0.0, F)


def start_of(held: Held, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
    level = constant_model(targets, targets.columns)[0]
    return np.zeros((len(held), targets.columns)), level


# ---- norms ---------------------------------------------------------------------------------------------


@given(rho=st.sampled_from([1.05, *RHOS]), shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6), columns=st.booleans())
def test_the_norm_is_its_definition(rho: float, shape: str, seed: int, columns: bool) -> None:
    loss = "multinomial" if columns and shape != "signs" else "squared"
    instance = case(loss, rho, shape, p=5, seed=seed % 7)
    held = whole(instance)
    F = random_weights(instance, held, np.random.default_rng(seed))
    in_order = np.zeros_like(F)
    in_order[[instance.lattice.index(atom) for atom in held.atoms]] = F
    exact = instance.omega(in_order)
    assert omega(held, F, rho) == pytest.approx(exact, rel=1e-12)
    for scale in (1e-200, 1e150):  # scaled before powers are taken
        assert omega(held, scale * F, rho) == pytest.approx(scale * exact, rel=1e-12)


@given(rho=st.sampled_from([1.05, *RHOS]), shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6))
def test_the_quadratic_majorises_and_touches(rho: float, shape: str, seed: int) -> None:
    instance = case("squared", rho, shape, p=5, seed=seed % 5)
    held, rng = part_of(instance, seed), np.random.default_rng(seed)
    F, other = random_weights(instance, held, rng), random_weights(instance, held, rng)
    if not F.any():
        return
    touched = row_sizes(F) > 0
    inverse = inverse_curvature(held, row_sizes(F), rho)
    assert not inverse[held.silent].any()
    assert np.all(inverse[~held.silent] > 0)

    def quadratic(G: np.ndarray) -> float:
        return 0.5 * float((row_sizes(G)[touched] ** 2 / inverse[touched]).sum())

    assert quadratic(F) == pytest.approx(0.5 * omega(held, F, rho) ** 2, rel=1e-10)
    other = np.where(touched[:, None], other, 0.0)
    assert quadratic(other) >= 0.5 * omega(held, other, rho) ** 2 * (1 - 1e-9)
    near = F * (1 + 1e-3 * rng.normal(size=F.shape))
    assert quadratic(near) >= 0.5 * omega(held, near, rho) ** 2 * (1 - 1e-12)


@given(rho=st.sampled_from([1.1, 1.5, 2.0]), seed=st.integers(0, 10**6))
def test_fixed_shares_are_an_upper_norm_that_touches_at_the_best_shares(rho: float, seed: int) -> None:
    """The mirror solver's inner norm: at least Omega for every eta, Omega itself where eta is each group's share."""
    instance = case("squared", rho, "costs", p=4, seed=seed % 5)
    held, rng = whole(instance), np.random.default_rng(seed)
    F = random_weights(instance, held, rng)
    if not F.any():
        return
    exact = 0.5 * omega(held, F, rho) ** 2
    eta = rng.dirichlet(np.ones(len(held)))
    assert FixedShares(held, rho, np.maximum(eta, 1e-9)).value(F) >= exact * (1 - 1e-9)
    best = first_eta(held, row_sizes(F), rho)
    assert FixedShares(held, rho, np.maximum(best, 1e-300)).value(F) == pytest.approx(exact, rel=1e-6)
    assert best == pytest.approx(held.cost * group_norms(held, row_sizes(F), rho) / omega(held, F, rho))


# ---- the dual norm and its polishing ---------------------------------------------------------------------


def shared_power(held: Held, pull: np.ndarray, eta: np.ndarray, rho: float) -> float:
    """sum_w zeta_w |G_w|^rho' with zeta_w = ( sum over ancestors of d^rho eta^(1 - rho) )^(1 / (1 - rho))."""
    zeta = [
        sum(held.cost[a] ** rho * eta[a] ** (1 - rho) for a in held.ancestor[held.owner == w]) ** (1 / (1 - rho)) for w in range(len(held))
    ]
    return float(np.array(zeta) @ pull ** (rho / (rho - 1)))


def slopes(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences, relative to each coordinate."""
    found = []
    for i, value in enumerate(at):
        step = np.zeros_like(at)
        step[i] = 1e-5 * value
        found.append((function(at + step) - function(at - step)) / (2e-5 * value))
    return np.array(found)


@given(rho=st.sampled_from(RHOS), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_one_polishing_step_reads_the_slopes_of_the_shared_power(rho: float, seed: int) -> None:
    """H is homogeneous of degree one, its slopes are the groups' values to the power rho', and it lies below the largest of them."""
    instance = case("squared", rho, "costs", p=4, seed=seed % 5)
    held, rng = part_of(instance, seed), np.random.default_rng(seed)
    pull = rng.random(len(held))
    eta = rng.dirichlet(np.full(len(held), 2.0)) + 1e-3
    eta /= eta.sum()
    power = rho / (rho - 1)
    value = shared_power(held, pull, eta, rho)
    assert shared_power(held, pull, 3.7 * eta, rho) == pytest.approx(3.7 * value, rel=1e-12)
    gradient = slopes(lambda at: shared_power(held, pull, at, rho), eta)
    assert gradient @ eta == pytest.approx(value, rel=1e-6)
    limit, kept = polish(held, pull, eta, rho, steps=1)
    assert limit**power == pytest.approx(gradient.max(), rel=1e-6)
    assert kept == pytest.approx(eta)
    assert value ** (1 / power) <= limit * (1 + 1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", RHOS)
def test_polished_bounds_close_in_on_the_dual_norm(rho: float, shape: str) -> None:
    """Never below the dual norm, never rising with more steps, equal to the definition of U_W at the eta returned, and soon tight."""
    instance = case("squared" if shape == "signs" else "multinomial", rho, shape, p=5)
    held, rng = whole(instance), np.random.default_rng(2)
    z = rng.normal(size=(len(instance.y), instance.columns))
    z -= z.mean(axis=0)
    exact = dual_norm(instance, z)
    pull = pulls(held, held.columns.score(z))
    eta = np.full(len(held), 1.0 / len(held))
    bounds = []
    for steps in (1, 2, 3, 5, 8, 12, 30, 300):
        limit, better = polish(held, pull, eta, rho, steps=steps)
        assert limit == pytest.approx(instance.inside(list(held.atoms), better, z), rel=1e-9)
        assert limit >= exact * (1 - 1e-7)
        bounds.append(limit)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] <= exact * (1 + 2e-4)
    assert polish(held, np.zeros(len(held)), eta, rho)[0] == 0.0
    assert polish(held, np.full(len(held), np.nan), eta, rho)[0] == np.inf


# ---- the solvers -----------------------------------------------------------------------------------------


def penalties(held: Held, rho: float) -> list[Penalty]:
    shares = np.random.default_rng(0).dirichlet(np.full(len(held), 5.0))
    return [Hierarchical(held, rho), FixedShares(held, rho, np.maximum(shares, 1e-6) / np.maximum(shares, 1e-6).sum())]


@pytest.mark.parametrize("shape", ["full", "silent", "signs", "offset", "weights"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_never_rises(loss: str, shape: str) -> None:
    """Round by round, for the hierarchical norm and for that of fixed shares, from zero and from wild weights."""
    if loss == "multinomial" and shape == "signs":
        return
    for rho in RHOS:
        instance = case(loss, rho, shape, p=5)
        held, targets = whole(instance), targets_of(instance).at(instance.C)
        if not targets.loss.smooth:
            targets = targets.with_loss(targets.loss.smoothed(0.3))
        rng = np.random.default_rng(4)
        wild = random_weights(instance, held, rng)
        for penalty in penalties(held, rho):
            for weights, level in (start_of(held, targets), (wild / np.abs(wild).sum(), rng.normal(size=targets.columns))):
                at = (weights, level, held.columns.dot(None, weights) + level)
                values = [penalty.value(at[0]) + targets.value(at[2])]
                for _ in range(12):
                    moved = newton_round(held, targets, at, targets.pull(at[2]), penalty)
                    if moved is None:
                        break
                    at = moved[:3]
                    assert at[2] == pytest.approx(held.columns.dot(None, at[0]) + at[1], rel=1e-9, abs=1e-9)
                    assert not at[0][held.silent].any()
                    assert np.all(held.sign[:, None] * at[0] >= 0)
                    values.append(penalty.value(at[0]) + targets.value(at[2]))
                assert all(after <= before for before, after in pairwise(values))
                assert values[-1] < values[0]


def gap_to(share: float) -> Callable[[float], float]:
    return lambda value: share * abs(value)


@pytest.mark.parametrize("reducer", [solve_reduced, solve_mirror])
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("loss", LOSSES)
def test_both_solvers_bracket_the_optimum_on_the_whole_lattice(loss: str, rho: float, reducer: Callable[..., Point]) -> None:
    instance = case(loss, rho, "full", p=4, seed=5)
    held, targets = whole(instance), targets_of(instance).at(instance.C)
    best = generic_optimum(instance).value
    share = 2e-3 if reducer is solve_mirror else 1e-4 if loss == "hinge" else 1e-5
    found = reducer(held, targets, start_of(held, targets), rho, gap_to(share))
    assert found.value - found.bound <= share * abs(found.value)
    assert found.bound <= best + 1e-6 * abs(best)
    assert best <= found.value + 1e-6 * abs(best)
    assert objective(held, targets, found.weights, found.intercept, rho) == pytest.approx((found.value, found.norm), rel=1e-9)
    assert np.abs(found.pull.sum(axis=0)).max() <= 1e-9 * np.abs(found.pull).sum()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", RHOS)
def test_majorising_and_mirror_descent_agree(rho: float, shape: str) -> None:
    """Two roads, one optimum: their values differ by no more than the sum of their gaps, on the whole search too."""
    for loss in ("logistic", "squared_hinge", "multinomial"):
        if loss == "multinomial" and shape == "signs":
            continue
        instance = case(loss, rho, shape, p=5, seed=6)
        first, second = solved(instance), solved(instance, reducer=solve_mirror)
        gaps = [knot.certificate.value - knot.certificate.bound for knot in (first, second)]
        assert abs(first.certificate.value - second.certificate.value) <= sum(gaps)
        assert max(knot.certificate.bound for knot in (first, second)) <= min(knot.certificate.value for knot in (first, second)) * (
            1 + 1e-9
        )
        assert first.certificate.holds
        assert second.certificate.holds


def test_a_good_start_is_used_and_a_stop_is_heard() -> None:
    instance = case("logistic", 1.5, "full", p=6, rows=40)
    held, targets = whole(instance), targets_of(instance).at(instance.C)
    cold = solve_reduced(held, targets, start_of(held, targets), 1.5, gap_to(1e-6))
    warm = solve_reduced(held, targets, (cold.weights, cold.intercept), 1.5, gap_to(1e-6), eta=cold.eta)
    assert warm.rounds < cold.rounds
    assert warm.value <= cold.value
    stopped = solve_reduced(held, targets, start_of(held, targets), 1.5, gap_to(1e-6), stop=lambda: True)
    assert stopped.rounds == 0
    assert stopped.bound <= cold.value


def test_a_stricter_gap_never_gives_a_worse_model() -> None:
    instance = case("squared", 1.1, "full", p=6, rows=40)
    held, targets = whole(instance), targets_of(instance).at(instance.C)
    found = [solve_reduced(held, targets, start_of(held, targets), 1.1, gap_to(share)) for share in (1e-1, 1e-2, 1e-3, 1e-5)]
    values, bounds = [point.value for point in found], [point.bound for point in found]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)


def test_pruning_keeps_few_and_stays_within_the_claim() -> None:
    """The pruned model's own objective is what the certificate prints, and pruning never keeps more than there was."""
    instance = case("logistic", 1.1, "full", p=6, rows=40, seed=1)
    plain = solved(instance, prune=None)
    pruned = solved(instance)
    assert len(pruned.atoms) < len(plain.atoms)
    assert pruned.certificate.holds
    F = weights_of(instance, pruned)
    assert instance.primal(F, pruned.intercept) == pytest.approx(pruned.certificate.value, rel=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.8])
def test_a_relative_cut_stops_where_the_certificate_would_break(share: float) -> None:
    """Every weight above the share stays; of the others so many that the model shown is certified."""
    instance = case("logistic", 1.1, "full", p=6, rows=40, seed=1)
    plain, cut, fewest = solved(instance, prune=None), solved(instance, prune=share), solved(instance)
    size = row_sizes(solved(instance, prune=1e-12).coefficients)
    above = int((size > share * size.max()).sum())
    assert cut.certificate.holds
    assert max(above, len(fewest.atoms)) <= len(cut.atoms) <= len(plain.atoms)
    if above >= len(fewest.atoms):
        assert len(cut.atoms) == above
    F = weights_of(instance, cut)
    assert instance.primal(F, cut.intercept) == pytest.approx(cut.certificate.value, rel=1e-9)


@dataclass
class Kept:
    """A journal's section with the knots of an earlier run."""

    earlier: list[Knot]

    def knots(self) -> list[Knot]:
        return self.earlier

    def append(self, knot: Knot) -> None:
        self.earlier = [*self.earlier, knot]


@pytest.mark.parametrize("loss", ["logistic", "multinomial", "hinge"])
def test_a_resumed_path_goes_on_as_it_would_have(loss: str) -> None:
    """Knots after a resumed one are those of the straight run, to the last bit: a state restored is the state left."""
    instance = case(loss, 1.5, "full", p=6, rows=40)
    schedule = [0.5, 2.0, 8.0]

    def knots(earlier: list[Knot]) -> list[Knot]:
        problem = Problem(lattice_of(instance), targets_of(instance))
        return list(Walk(problem, HierarchicalSolver(), schedule, journal=Kept(earlier)))

    straight = knots([])
    assert straight[-1].certificate.scope.held > straight[0].certificate.scope.held
    for done in (1, 2):
        for a, b in zip(straight, knots(straight[:done]), strict=True):
            assert a.atoms == b.atoms
            assert np.array_equal(a.coefficients, b.coefficients)
            assert np.array_equal(a.intercept, b.intercept)
            assert (a.certificate.value, a.certificate.bound, a.measures) == (b.certificate.value, b.certificate.bound, b.measures)
