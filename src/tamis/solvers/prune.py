"""The fewest rules whose model still meets the certificate.

For rho > 1 few weights are exactly zero. So after solving to half of what was asked, the largest weights are
kept, re-optimised with all others at zero, and as many dropped as the asked-for gap allows. The pruned model is
a primal point like any other: the certificate printed is its own.

Most of the way needs no solving: dropping small weights as they are costs little. From the fewest for which that
is enough the search goes on downward, and a model that cannot be good enough is given up when its bound says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate
from tamis.core.follow import Problem
from tamis.core.loss import Targets
from tamis.core.structure import Held, Hierarchy
from tamis.solvers.norm import omega, row_sizes
from tamis.solvers.reduced import Point

Floats = NDArray[np.float64]
Model = tuple[list[int], Floats, Floats, float]


def fewest(
    problem: Problem, targets: Targets, held: Held, point: Point, certificate: Certificate, reducer: Callable[..., Point], share: float
) -> Model:
    """(positions, weights, intercepts, objective) of the smallest kept set; one atom fewer of the same order would not do.

    Weights above `share` of the largest all stay; with a share, dropping everything below it is tried first.
    """
    size = np.where(held.silent, 0.0, row_sizes(point.weights))
    order = [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 1e-9 * size.max(initial=0.0)]
    pruning = Pruning(problem, targets, held, point, _allowed_value(certificate), reducer)
    low = int(np.count_nonzero(size > share * size.max(initial=0.0))) if share else 0
    best = pruning.shortest_head(order, low)
    high, step = len(best[0]), len(best[0]) - low if share else 1
    failed, solved = False, len(best[0]) == len(order)
    while low < high:
        middle = (low + high) // 2 if failed else max(low, high - step)
        model = pruning.refit(order[:middle], best, decide=True)
        if model[3] <= pruning.allowed:
            best, high, step, solved = model, middle, 2 * step, True
        else:
            low, failed = middle + 1, True
    return best if solved else pruning.refit(best[0], best)


def _allowed_value(certificate: Certificate) -> float:
    """The largest objective with which the certificate still holds; a little above the present one if it does not."""
    if not certificate.holds:
        return certificate.value + 1e-3 * abs(certificate.value - certificate.bound)
    low, high = certificate.value, certificate.value + abs(certificate.value)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replace(certificate, value=middle).holds else (low, middle)
    return low


@dataclass(frozen=True)
class Pruning:
    """A solved point whose atoms are to be dropped, and the objective that may be reached on the way."""

    problem: Problem
    targets: Targets
    held: Held
    point: Point
    allowed: float
    reducer: Callable[..., Point]

    def head(self, keep: list[int]) -> Model:
        """The point's own weights of some atoms, all others zero."""
        structure = self.problem.structure
        assert isinstance(structure, Hierarchy)
        kept = np.zeros_like(self.point.weights)
        kept[keep] = self.point.weights[keep]
        score = self.held.columns.dot(np.array(keep, dtype=np.intp), kept[keep]) + self.point.intercept
        value = 0.5 * omega(self.held, kept, structure.rho) ** 2 + self.targets.value(score)
        return keep, kept[keep], self.point.intercept, value

    def shortest_head(self, order: list[int], least: int) -> Model:
        """The first few atoms whose weights will do as they are: not fewer than `least`, found by doubling and then halving."""
        best: Model = (order, self.point.weights[order], self.point.intercept, self.point.value)
        low, step = least, 1
        while low < len(best[0]):
            middle = min(low + step, len(best[0])) - 1
            model = self.head(order[:middle])
            if model[3] <= self.allowed:
                best, step = model, max((middle - low) // 2, 1)
            else:
                low, step = middle + 1, 2 * step
        return best

    def refit(self, keep: list[int], start: Model, *, decide: bool = False) -> Model:
        """The model on the kept atoms alone; to decide, given up as soon as its bound says that it will not do."""
        structure = self.problem.structure
        assert isinstance(structure, Hierarchy)
        small, moved = structure.restrict(self.held, keep)
        known = np.zeros_like(self.point.weights)
        known[start[0]] = start[1]
        weights = np.where(small.silent[:, None], 0.0, known[moved])
        room = 0.1 * max(abs(self.allowed - self.point.value), 1e-12 * abs(self.allowed))

        def slack(value: float) -> float:
            return max(room, value - self.allowed) if decide else room

        found = self.reducer(small, self.targets, (weights, start[2]), structure.rho, slack, rounds=25, hopeful=False)
        place = {int(i): j for j, i in enumerate(moved)}
        rows = [place[i] for i in keep]
        return keep, found.weights[rows], found.intercept, found.value
