"""Bound <= optimum <= value for classification, the optimum being Clarabel's over every listed conjunction."""

from __future__ import annotations

import pytest

from helpers_bracket import check_bracket
from helpers_lattice import SHAPES, case, solved
from helpers_oracle import MARGINS

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
LOSSES = (*MARGINS, "multinomial")
RHOS = (2.0, 1.5, 1.1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("loss", LOSSES)
def test_small_problems(loss: str, rho: float, shape: str) -> None:
    if loss == "multinomial" and shape == "signs":
        shape = "full"  # signs need a single score
    instance = case(loss, rho, shape)
    check_bracket(instance, solved(instance))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("loss", LOSSES)
def test_problems_of_six_conditions(loss: str, rho: float) -> None:
    """With an implied condition and a pair of complements among them."""
    for shape in ("full", "capped"):
        instance = case(loss, rho, shape, p=6, rows=30)
        check_bracket(instance, solved(instance, tolerance=0.002))


@pytest.mark.parametrize(
    ("loss", "rho", "p"), [("logistic", 1.1, 7), ("squared_hinge", 1.5, 7), ("multinomial", 2.0, 7), ("hinge", 1.5, 8)]
)
def test_problems_of_seven_and_eight_conditions(loss: str, rho: float, p: int) -> None:
    instance = case(loss, rho, "full", p=p, rows=40)
    check_bracket(instance, solved(instance))
