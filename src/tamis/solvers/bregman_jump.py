"""Many iterations at once: squared loss, single entries, and a support whose signs stay as they are.

Then an iteration is linear, and in the eigenvectors of the support's products every mode is a geometric sequence. Coefficients, their
sums and the bow of the trace are closed forms of the iteration number, so a large kappa costs no more than a small one: what is paid
for is changes of the support.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.solvers.bregman_blocks import STRIDE, CoefficientTrace, Pace
from tamis.solvers.bregman_pool import Held

Array = NDArray[Any]
SERIES = 1e-4


@dataclass(frozen=True)
class JumpTrace(CoefficientTrace):
    """The trace of an iteration on a fixed support; every step in closed form.

    Attributes
    ----------
    turn : array
        Eigenvectors, from modes to coefficients (and intercept).
    first, change : arrays
        Each mode at the start, and what the first iteration adds to it.
    rate : array
        What an iteration takes off each mode: alpha times its eigenvalue.
    size : array
        What each mode weighs in fitted values.
    """

    turn: Array
    first: Array
    change: Array
    rate: Array
    size: Array

    @property
    def stride(self) -> int:
        """Any bow is cheap."""
        return STRIDE

    def total(self, steps: Array) -> Array:
        """Sums of the coefficients (and intercept) over the first `steps` iterations: one row per entry of steps."""
        count = np.asarray(steps, dtype=np.float64)[:, None]
        return np.asarray((count * self.first + self.change * _twice_summed(self.rate, count)) @ self.turn.T)

    def bow(self, first: int, last: int) -> Array:
        """As the protocol says, mode by mode."""
        # a mode's sum bends by |1 - rate|^step per step, and over any stretch by no more than it has left to fade
        left = np.abs(self.change) * np.abs(1.0 - self.rate) ** first
        span = 0.125 * float(last - first) ** 2
        bend = left * np.minimum(span, np.divide(2.0, self.rate**2, out=np.full_like(self.rate, np.inf), where=self.rate > 1e-150))
        rounding = 1e-13 * last * float(np.sqrt(((self.size * self.first) ** 2).sum()))
        return np.array([self.alpha * (float(np.sqrt(((self.size * bend) ** 2).sum())) * (1 + 1e-9) + rounding)])


def _twice_summed(rate: Array, count: Array) -> Array:
    """Sum over i < count of (1 - (1 - rate)^i) / rate, without losing digits where rate * count is small."""
    small = rate * count < SERIES
    safe = np.where(small, 1.0, rate)
    power = np.where(safe < 1.0, np.exp(count * np.log1p(-np.minimum(safe, 0.5))), 0.0)
    power = np.where(safe <= 0.5, power, (1.0 - safe) ** count)
    direct = (count - (1.0 - power) / safe) / safe
    tail = 1.0 - (count - 2.0) * rate / 3.0 * (1.0 - (count - 3.0) * rate / 4.0)
    return np.where(small, 0.5 * count * (count - 1.0) * tail, direct)


def jump(products: tuple[Array, Array], held: Held, theta: Array, eta: Array, steps: int, pace: Pace, y: Array, weight: Array) -> JumpTrace:
    """The trace of `steps` iterations from coefficients that keep their signs.

    Parameters
    ----------
    products : (X'WX, X'Wy) of the support, with the column of ones last if there is an intercept
    """
    gram, target = products
    now = np.append(theta[:, 0], eta) if pace.intercept_rate else theta[:, 0]
    root = np.sqrt(np.append(np.full(len(theta), pace.kappa), np.full(len(now) - len(theta), pace.intercept_rate)))
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    values = np.maximum(values, 0.0)
    first = vectors.T @ (now / root)
    change = vectors.T @ (root * (target - gram @ now)) * pace.alpha
    return JumpTrace(held, y, weight, pace.alpha, steps, root[:, None] * vectors, first, change, pace.alpha * values, np.sqrt(values))
