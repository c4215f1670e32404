"""The pruned model against plain bisection, and what warm starts, slow atoms and opening searches may and may not change."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_lattice import SHAPES, case, closure, held_sets, instances, lattice_of, point, solved, targets_of
from helpers_oracle import LOSSES, Instance
from tamis.core.certificate import Certificate
from tamis.core.dual import constant_model
from tamis.core.follow import Problem, follow
from tamis.core.loss import Targets
from tamis.core.structure import Atom, Held, Hierarchy
from tamis.solvers import prune
from tamis.solvers.hierarchical import HierarchicalSolver
from tamis.solvers.mirror import solve_mirror
from tamis.solvers.norm import row_sizes
from tamis.solvers.reduced import Point, objective, solve_reduced

SMOOTH = [loss for loss in LOSSES if loss != "hinge"]


def pruned(instance: Instance, **options: Any) -> tuple[tuple[Any, ...], prune.Model]:
    """What the pruning of one fit was asked, and what it answered."""
    seen: list[tuple[tuple[Any, ...], prune.Model]] = []
    original = prune.fewest

    def watched(*asked: Any) -> prune.Model:
        seen.append((asked, original(*asked)))
        return seen[-1][1]

    with mock.patch.object(prune, "fewest", watched):
        solved(instance, **options)
    return seen[-1]


def best_head(asked: tuple[Any, ...], order: list[int], size: int) -> float:
    """The optimal objective of the first `size` atoms, solved from scratch to next to nothing."""
    problem, targets, held, solution = asked[:4]
    structure = problem.structure
    assert isinstance(structure, Hierarchy)
    small = structure.restrict(held, order[:size])[0]
    start = np.zeros((len(small), targets.columns)), constant_model(targets, targets.columns)[0]
    found = solve_reduced(small, targets, start, structure.rho, lambda _: 1e-6 * abs(solution.value))
    assert found.value - found.bound <= 1.01e-6 * abs(solution.value)
    return found.value


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(
    ("loss", "rho"), [("logistic", 1.1), ("squared", 1.5), ("squared_hinge", 1.1), ("poisson", 1.1), ("multinomial", 1.5)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pruning_keeps_what_plain_bisection_keeps(loss: str, rho: float, share: float, seed: int) -> None:
    """Certified, and no atom of the same order more than the optima of its heads, found from scratch, ask for."""
    asked, (keep, weights, intercept, value) = pruned(case(loss, rho, "full", p=6, rows=60, seed=seed), prune=share)
    _, targets, held, solution, certificate = asked[:5]
    assert isinstance(certificate, Certificate)
    size = np.where(held.silent, 0.0, row_sizes(solution.weights))
    order = [int(i) for i in np.argsort(-size, kind="stable")]
    above = int((size > share * size.max()).sum()) if share else 0
    assert keep == order[: len(keep)]
    allowed = prune._allowed_value(certificate)
    assert value <= allowed
    small, _ = asked[0].structure.restrict(held, keep)
    own = np.zeros((len(small), targets.columns))
    own[[small.index[held.atoms[i]] for i in keep]] = weights
    assert objective(small, targets, own, intercept, asked[0].structure.rho)[0] == pytest.approx(value, rel=1e-12)

    low, high = above, len(order)  # plain bisection on the optimal objectives, which fall with every atom
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if best_head(asked, order, middle) <= allowed else (middle + 1, high)
    room = 0.1 * (allowed - solution.value)
    assert len(keep) >= low
    if len(keep) > max(low, above):  # refits stop within the room, so one that just fits may be passed by
        assert best_head(asked, order, len(keep) - 1) > allowed - room - 2e-6 * abs(solution.value)
    if len(keep) < np.count_nonzero(size > 1e-9 * size.max()):
        assert value <= best_head(asked, order, len(keep)) + room + 2e-6 * abs(solution.value)


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_head_is_worth_what_the_objective_says(loss: str) -> None:
    """What is dropped without solving is judged by the true objective, and no shorter head found on the way would do."""
    asked, _ = pruned(case(loss, 1.1, "offset", p=6, rows=60))
    problem, targets, held, solution, certificate, reducer, _ = asked
    pruning = prune.Pruning(problem, targets, held, solution, prune._allowed_value(certificate), reducer)
    size = np.where(held.silent, 0.0, row_sizes(solution.weights))
    order = [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 0]
    values = []
    for count in range(len(order) + 1):
        kept = np.zeros_like(solution.weights)
        kept[order[:count]] = solution.weights[order[:count]]
        values.append(objective(held, targets, kept, solution.intercept, problem.structure.rho)[0])
        assert pruning.head(order[:count])[3] == pytest.approx(values[-1], rel=1e-12)
    for least in (0, 1, len(order) // 2, len(order)):
        found = len(pruning.shortest_head(order, least)[0])
        assert found >= least
        assert found == len(order) or values[found] <= pruning.allowed
        assert found == least or values[found - 1] > pruning.allowed


# ---- starts --------------------------------------------------------------------------------------------------------


def whole(instance: Instance) -> tuple[Held, Targets]:
    return lattice_of(instance).hold(instance.lattice), targets_of(instance).at(instance.C)


@pytest.mark.parametrize("reducer", [solve_reduced, solve_mirror])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_start_without_hope_ends_as_well_as_any(loss: str, reducer: Any) -> None:
    instance = case(loss, 1.5, "full", p=5, rows=30)
    held, targets = whole(instance)
    cold = np.zeros((len(held), targets.columns)), constant_model(targets, targets.columns)[0]
    share = 5e-3 if reducer is solve_mirror else 1e-3

    def slack(value: float) -> float:
        return share * abs(value)

    good = solve_reduced(held, targets, cold, 1.5, slack)
    for start in (cold, (good.weights, good.intercept)):
        found: Point = reducer(held, targets, start, 1.5, slack, hopeful=False)
        assert found.value - found.bound <= slack(found.value)
        assert found.bound <= good.value * (1 + 1e-12)
        assert good.bound <= found.value * (1 + 1e-12)
    # not even a stop leaves a solver without a point and its bound
    stopped: Point = reducer(held, targets, cold, 1.5, slack, hopeful=False, stop=lambda: True)
    assert stopped.bound <= good.value * (1 + 1e-12)
    assert stopped.value <= objective(held, targets, *cold, 1.5)[0] * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [2e-3, 5e-4])
def test_atoms_that_grow_from_nothing_take_a_few_rounds(share: float, seed: int) -> None:
    """Majorising multiplies sizes: without help an atom below the linear system's reach takes dozens of rounds, or the round limit."""
    rng = np.random.default_rng(seed)
    table = rng.random((600, 6))
    truth = np.column_stack([op(table, cut) for cut in (0.2, 0.4, 0.6, 0.8) for op in (np.less_equal, np.greater)])
    margin = 2.0 * ((table[:, 0] > 0.4) & (table[:, 1] <= 0.6)) - 1.0 + 1.2 * (table[:, 2] > 0.6)
    y = np.where(rng.random(600) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    instance = Instance(truth, y, "logistic", rho=1.1, max_length=1)
    held = lattice_of(instance).hold(instance.lattice)
    weights, level, eta = np.zeros((len(held), 1)), np.zeros(1), None
    for C in np.geomspace(0.05, 200, 18):
        found = solve_reduced(held, targets_of(instance).at(C), (weights, level), 1.1, lambda value: share * abs(value), eta=eta)
        assert found.value - found.bound <= share * found.value
        assert found.rounds <= 6
        weights, level, eta = found.weights, found.intercept, found.eta


# ---- opening searches ----------------------------------------------------------------------------------------------


@given(
    instances(most_literals=5).flatmap(lambda it: st.tuples(st.just(it), held_sets(it))),
    st.integers(0, 10**6),
    st.sampled_from([0.3, 0.8, 1.5]),
)
@settings(max_examples=60)
def test_a_search_that_ends_early_still_tells_the_truth(part: tuple[Instance, list[Atom]], seed: int, height: float) -> None:
    """Whoever comes in violates, and the bound covers every atom outside, by brute force over the lattice."""
    instance, atoms = part
    lattice = lattice_of(instance)
    held = lattice.hold(atoms)
    units = np.random.default_rng(seed).integers(-50, 51, (len(instance.y), instance.columns))
    tails = {t: instance.tail(t, units.astype(float)) for t in instance.sources(list(held.atoms))}
    if not tails or not max(tails.values()) > 0:
        return
    floor = height * max(tails.values())
    priced = lattice.price(point(units), held, floor, 10**6, enough=1)
    assert all(tails[t] >= floor * (1 - 1e-9) for t in priced.newcomers)
    assert priced.bound >= max(tails.values()) * (1 - 1e-9)
    whole_search = lattice.price(point(units), held, floor, 10**6)
    assert set(priced.newcomers) <= set(whole_search.newcomers)
    assert bool(priced.newcomers) == bool(whole_search.newcomers)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_knot_of_a_path_brackets_what_a_fit_alone_finds(loss: str, shape: str) -> None:
    """Warm starts and opening searches change the way, not the claim: two certificates of one problem always overlap."""
    if loss == "multinomial" and shape == "signs":
        return
    instance = case(loss, 1.5, shape, p=5, rows=30)
    schedule = [0.2, 0.5, 1.5, 5.0, 15.0]

    def knots(values: list[float]) -> Any:
        return follow(Problem(lattice_of(instance), targets_of(instance), 0.01, 0.1, "C"), HierarchicalSolver(), values).knots

    for knot in knots(schedule):
        (alone,) = knots([knot.t])
        assert knot.certificate.holds
        slack = 1e-9 * abs(alone.certificate.value)
        assert knot.certificate.bound <= alone.certificate.value + slack
        assert alone.certificate.bound <= knot.certificate.value + slack
        assert set(closure(knot.atoms)) <= set(instance.lattice)
