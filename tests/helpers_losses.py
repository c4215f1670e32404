"""Every registered loss as one line of school mathematics, and data to try it on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tamis.core.loss import LOSSES, Huber, SmoothedHinge, Targets

WIDTH = 0.3  # of the smoothed hinge
ALL: dict[str, Any] = {name: make() for name, make in LOSSES.items()} | {"smoothed_hinge": SmoothedHinge(WIDTH)}
DELTA = Huber().delta

MARGINS = ("logistic", "squared_hinge", "hinge", "smoothed_hinge")
NUMBERS = ("squared", "huber")


def _smoothed(y: float, u: float) -> float:
    short = max(0.0, 1 - y * u)
    return short * short / (2 * WIDTH) if short < WIDTH else short - WIDTH / 2


# One row's loss at target y and score u, as a textbook has it; a loss without a line here fails the tests.
FORMULAS: dict[str, Callable[[Any, Any], float]] = {
    "squared": lambda y, u: (y - u) ** 2 / 2,
    "huber": lambda y, u: (y - u) ** 2 / 2 if abs(y - u) < DELTA else DELTA * (abs(y - u) - DELTA / 2),
    "poisson": lambda y, u: math.exp(u) - y * u,
    "logistic": lambda y, u: math.log1p(math.exp(-abs(u))) + max(0.0, -y * u),
    "squared_hinge": lambda y, u: max(0.0, 1 - y * u) ** 2 / 2,
    "hinge": lambda y, u: max(0.0, 1 - y * u),
    "smoothed_hinge": _smoothed,
    "multinomial": lambda y, u: math.log(math.fsum(math.exp(each) for each in u)) - u[list(y).index(1.0)],
}
# Distance of a score from the nearest place where slope or curvature jumps.
CORNERS: dict[str, Callable[[Any, Any], Any]] = {
    "huber": lambda y, u: np.abs(np.abs(y - u) - DELTA),
    "squared_hinge": lambda y, u: np.abs(1 - y * u),
    "hinge": lambda y, u: np.abs(1 - y * u),
    "smoothed_hinge": lambda y, u: np.minimum(np.abs(1 - y * u), np.abs(1 - y * u - WIDTH)),
}


def naive(name: str, eta: Any, y: Any, s: Sequence[float]) -> float:
    """Weighted sum of the formula, row by row."""
    several = name == "multinomial"
    rows = (FORMULAS[name](target if several else target[0], score if several else score[0]) for target, score in zip(y, eta, strict=True))
    return math.fsum(weight * row for weight, row in zip(s, rows, strict=True))


def encoded(draw: st.DrawFn, name: str, rows: int, columns: int) -> Any:
    """Targets as the loss wants them."""
    if name == "multinomial":
        return np.eye(columns)[draw(st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows))]
    counts = st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0])
    one = st.sampled_from([-1.0, 1.0]) if name in MARGINS else st.floats(-5, 5) if name in NUMBERS else counts
    return np.array(draw(st.lists(one, min_size=rows, max_size=rows)))[:, None]


def matrix(draw: st.DrawFn, rows: int, columns: int, low: float, high: float) -> Any:
    """Numbers with many different ones among them: hypothesis draws the seed and some of the entries."""
    values = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).uniform(low, high, (rows, columns))
    for value in draw(st.lists(st.sampled_from([low, high, 0.0, 1.0, -1.0]), max_size=2)):
        values[draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))] = value
    return values


@st.composite
def problems(
    draw: st.DrawFn, names: Sequence[str] = tuple(ALL), decades: float = 0.6, rows: int = 12, columns: int = 6, shifted: bool = True
) -> tuple[str, Targets, Any]:
    """(name, targets, scores): weights within +-`decades` powers of ten, offsets, scores in [-3, 3]."""
    name = draw(st.sampled_from(names))
    count = draw(st.integers(1, rows))
    width = draw(st.integers(2, columns)) if name == "multinomial" else 1
    weight = 10.0 ** matrix(draw, count, 1, -decades, decades)[:, 0]
    offset = matrix(draw, count, width, -1.0, 1.0) if shifted and draw(st.booleans()) else np.zeros((count, width))
    targets = Targets(ALL[name], encoded(draw, name, count, width), weight, offset)
    return name, targets, matrix(draw, count, width, -3.0, 3.0)
