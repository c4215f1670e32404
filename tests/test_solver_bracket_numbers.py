"""Bound <= optimum <= value for regression, for unusual sizes, and for what the solver may be asked to do differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers_bracket import check_bracket
from helpers_lattice import SHAPES, case, solved
from helpers_oracle import LOSSES, REGRESSIONS, Instance, generic_optimum

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
RHOS = (2.0, 1.5, 1.1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("loss", REGRESSIONS)
def test_small_problems(loss: str, rho: float, shape: str) -> None:
    instance = case(loss, rho, shape)
    check_bracket(instance, solved(instance))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("loss", REGRESSIONS)
def test_problems_of_six_conditions(loss: str, rho: float) -> None:
    for shape in ("full", "capped"):
        instance = case(loss, rho, shape, p=6, rows=30)
        check_bracket(instance, solved(instance, tolerance=0.002))


@pytest.mark.parametrize(("loss", "rho", "p"), [("squared", 1.1, 7), ("huber", 1.5, 7), ("poisson", 2.0, 7), ("squared", 1.5, 8)])
def test_problems_of_seven_and_eight_conditions(loss: str, rho: float, p: int) -> None:
    instance = case(loss, rho, "full", p=p, rows=40)
    check_bracket(instance, solved(instance))


@pytest.mark.parametrize("loss", LOSSES)
def test_whatever_is_asked_of_the_solver(loss: str) -> None:
    """One newcomer at a time, other pruning, tighter targets, few held atoms let in at once: the same optimum."""
    instance = case(loss, 1.25, "full", seed=1)
    best = generic_optimum(instance).value
    options: list[dict[str, Any]] = [
        {"batch": 1}, {"prune": None}, {"prune": 0.01}, {"prune": 0.5}, {"tolerance": 1e-4},
        {"tolerance": 1e-4, "gain_tolerance": 1e-3, "prune": None},
    ]  # fmt: skip
    for some in options:
        check_bracket(instance, solved(instance, **some), best)


@pytest.mark.parametrize("C", [1e-6, 1e-3, 1e3])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_the_loss_over_nine_decades(loss: str, C: float) -> None:
    """Scaled so that the cone solver need not see the decades: C, and all row weights by its inverse, leave the problem as it is."""
    instance = case(loss, 1.5, "capped", seed=2)
    best = generic_optimum(instance).value
    scaled = replace(instance, C=C, weight=instance.s * instance.C / C)
    knot = solved(scaled)
    check_bracket(scaled, knot, best)
    assert knot.certificate.value == pytest.approx(solved(instance).certificate.value, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_where_nothing_can_be_gained(loss: str) -> None:
    """C so small that the constant is the best there is, to the last millionth."""
    instance = replace(case(loss, 1.1, "full", seed=3), C=1e-7)
    knot = solved(instance)
    assert knot.certificate.holds
    assert knot.certificate.bound <= knot.certificate.value
    assert knot.certificate.nothing_to_gain or len(knot.atoms)
    F = np.zeros((len(instance.lattice), instance.columns))
    assert knot.certificate.constant == pytest.approx(instance.primal(F, _constant(instance)), rel=1e-6)


def _constant(instance: Instance) -> np.ndarray:
    """The best constant, by the cone solver on a lattice without conditions."""
    bare = replace(instance, truth=instance.truth[:, :0], prices=None, sign=None, silent=(), C=1.0)
    return generic_optimum(bare).beta
