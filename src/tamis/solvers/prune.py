"""The fewest rules whose model still meets the certificate.

For rho > 1 few weights are exactly zero. So after solving to half of what was asked, the largest weights are
kept, re-optimised with all others at zero, and as many dropped as the asked-for gap allows. The pruned model is
a primal point like any other: the certificate printed is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate
from tamis.core.follow import Problem
from tamis.core.loss import Targets
from tamis.core.structure import Held, Hierarchy
from tamis.solvers.norm import row_sizes
from tamis.solvers.reduced import Point

Floats = NDArray[np.float64]
Model = tuple[list[int], Floats, Floats, float]


def fewest(
    problem: Problem, targets: Targets, held: Held, point: Point, certificate: Certificate, reducer: Callable[..., Point], share: float
) -> Model:
    """(positions, weights, intercepts, objective) of the smallest kept set, found by bisection on its size.

    Weights above `share` of the largest all stay; with a share, dropping everything below it is tried first.
    """
    size = np.where(held.silent, 0.0, row_sizes(point.weights))
    order = [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 1e-9 * size.max(initial=0.0)]
    allowed = _allowed_value(certificate)
    best: Model = (order, point.weights[order], point.intercept, point.value)
    low, high = int(np.count_nonzero(size > share * size.max(initial=0.0))) if share else 0, len(order)
    middle = low if share else high // 2
    while low < high:
        model = _refit(problem, targets, held, point, order[:middle], allowed, reducer)
        if model[3] <= allowed:
            best, high = model, middle
        else:
            low = middle + 1
        middle = (low + high) // 2
    return best


def _allowed_value(certificate: Certificate) -> float:
    """The largest objective with which the certificate still holds; a little above the present one if it does not."""
    if not certificate.holds:
        return certificate.value + 1e-3 * abs(certificate.value - certificate.bound)
    low, high = certificate.value, certificate.value + abs(certificate.value)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replace(certificate, value=middle).holds else (low, middle)
    return low


def _refit(
    problem: Problem, targets: Targets, held: Held, point: Point, keep: list[int], allowed: float, reducer: Callable[..., Point]
) -> Model:
    """The model on the kept atoms alone."""
    structure = problem.structure
    assert isinstance(structure, Hierarchy)
    small, moved = structure.restrict(held, keep)
    weights = np.where(small.silent[:, None], 0.0, point.weights[moved])
    room = max(abs(allowed - point.value), 1e-12 * abs(allowed))
    found = reducer(small, targets, (weights, point.intercept), structure.rho, lambda _: 0.1 * room, rounds=25)
    place = {int(i): j for j, i in enumerate(moved)}
    rows = [place[i] for i in keep]
    return keep, found.weights[rows], found.intercept, found.value
