"""The original paper's way to solve the held problem: mirror descent on the group weights.

For fixed group weights eta on the simplex the problem is one weighted l_rho norm, solved by reweighting; the value
of that inner problem is convex in eta, and eta follows its entropic gradient step. Slower than `reduced`, kept as
an independent road to the same optimum; both are judged by the same certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.core.loss import Targets
from tamis.core.structure import Held
from tamis.solvers.norm import ETA_FLOOR, first_eta, pulls, row_sizes
from tamis.solvers.reduced import HINGE_LAST, HINGE_SHRINK, HINGE_START, Point, certified, newton_round

Floats = NDArray[np.float64]
INNER_ROUNDS = 6


@dataclass(frozen=True)
class FixedShares:
    """Half the squared norm in which eta says how atoms share their prices: at least Omega^2 / 2, equal at the best eta."""

    held: Held
    rho: float
    eta: Floats

    @property
    def zeta(self) -> Floats:
        """( sum over ancestors of d^rho eta^(1 - rho) )^(1 / (1 - rho))."""
        return np.asarray(self.held.over_ancestors(self.held.cost**self.rho * self.eta ** (1.0 - self.rho)) ** (1.0 / (1.0 - self.rho)))

    def value(self, weights: Floats) -> float:
        """Of these weights."""
        size, price = row_sizes(weights), self.zeta ** (1.0 - self.rho)
        top = float(size.max(initial=0.0))
        return 0.5 * (top * float(price @ (size / top) ** self.rho) ** (1.0 / self.rho)) ** 2 if top > 0 else 0.0

    def inverse(self, size: Floats) -> Floats:
        """1 / curvature of the quadratic majoriser."""
        if not size.any():  # only silent atoms are held
            return np.zeros(len(size))
        price = self.zeta ** (1.0 - self.rho)
        floored = np.maximum(size, 1e-12 * size.max())
        norm = float(price @ floored**self.rho) ** (1.0 / self.rho)
        return np.where(self.held.silent, 0.0, (floored / norm) ** (2.0 - self.rho) / price)


def solve_mirror(
    held: Held, targets: Targets, start: tuple[Floats, Floats], rho: float, slack: Callable[[float], float], *,
    eta: Floats | None = None, stop: Callable[[], bool] | None = None, rounds: int = 400,
    hopeful: bool = True,
) -> Point:  # fmt: skip
    """Same contract as `solve_reduced`; every start is improved before its gap is looked at."""
    del hopeful
    weights, intercept = start
    size = row_sizes(weights)
    share = first_eta(held, size if size.any() else np.where(held.silent, 0.0, 1.0 / held.cost), rho)
    share = _normalised(share if eta is None or len(eta) != len(held) else 0.5 * (eta / eta.sum() + share))
    score = held.columns.dot(None, weights) + intercept
    width, best = HINGE_START, None
    for done in range(rounds):
        work = targets if targets.loss.smooth else targets.with_loss(targets.loss.smoothed(width))
        for _ in range(INNER_ROUNDS):
            moved = newton_round(held, work, (weights, intercept, score), work.pull(score), FixedShares(held, rho, share))
            if moved is None:
                break
            weights, intercept, score = moved[:3]
        pull = work.pull(score)
        best, here = certified(held, targets, work, (weights, intercept, score), pull, share, best, rho)
        best = replace(best, rounds=done)
        if best.value - best.bound <= slack(best.value) or (stop is not None and stop()):
            break
        if work is not targets and here <= 0.25 * (best.value - best.bound):
            width = max(width * HINGE_SHRINK, HINGE_LAST)
        share = _mirror_step(held, pulls(held, held.columns.score(targets.fold(pull))), share, rho, done + 1)
    assert best is not None
    return best


def _mirror_step(held: Held, pull: Floats, eta: Floats, rho: float, step: int) -> Floats:
    """eta times the exponential of a gradient step of length sqrt(2 ln n / step)."""
    exponent = rho / (rho - 1.0)
    top = float(pull.max(initial=0.0))
    if top == 0.0:
        return eta
    zeta = FixedShares(held, rho, eta).zeta
    powers = (pull / top) ** exponent
    total = float(zeta @ powers)
    # the common factors of the gradient cancel in the normalised step; its sign does not
    slope = held.cost**rho * eta ** (-rho) * held.over_descendants(zeta**rho * powers) * total ** (2.0 / exponent - 1.0)
    length = np.sqrt(2.0 * np.log(max(len(eta), 2)) / step) / max(float(slope.max()), 1e-300)
    return _normalised(eta * np.exp(np.minimum(length * slope, 50.0)))


def _normalised(eta: Floats) -> Floats:
    eta = np.maximum(eta / eta.sum(), ETA_FLOOR)
    return np.asarray(eta / eta.sum())
