"""The hierarchical norm on a held set, and certified upper bounds of its dual.

    Omega(F) = sum_v d_v N_v,   N_v = ( sum over descendants w of v of |F_w|^rho )^(1/rho)

Its dual norm is a minimum over ways kappa to share each atom's price among its ancestors, so every kappa gives
an upper bound. Shares come from group weights eta; `polish` improves eta by a multiplicative step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.core.structure import Held

Floats = NDArray[np.float64]
ETA_FLOOR = 1e-12


def row_sizes(weights: Floats) -> Floats:
    """Euclidean norm of each row."""
    return np.abs(weights[:, 0]) if weights.shape[1] == 1 else np.sqrt((weights**2).sum(axis=1))


def group_norms(held: Held, size: Floats, rho: float) -> Floats:
    """N_v for every held atom."""
    top = float(size.max(initial=0.0))
    if top == 0.0:
        return np.zeros(len(size))
    return np.asarray(top * held.over_descendants((size / top) ** rho) ** (1.0 / rho))


def omega(held: Held, weights: Floats, rho: float) -> float:
    """The norm itself."""
    return float(held.cost @ group_norms(held, row_sizes(weights), rho))


def inverse_curvature(held: Held, size: Floats, rho: float) -> Floats:
    """1 / omega_w of the quadratic that majorises Omega^2 / 2 at these sizes; zero for silent atoms.

    Scale-free in `size`; floors keep atoms at zero able to come back.
    """
    norms = group_norms(held, size, rho)
    total = float(held.cost @ norms)
    if total == 0.0:
        return np.zeros(len(size))
    pull = held.over_ancestors(held.cost * np.maximum(norms, 1e-14 * norms.max()) ** (1.0 - rho))
    inverse = np.maximum(size, 1e-12 * size.max()) ** (2.0 - rho) / (total * pull)
    return np.where(held.silent, 0.0, inverse)


def pulls(held: Held, scores: Floats) -> Floats:
    """|G_w| as the dual norm counts it: silent atoms not at all, signed atoms only in their direction."""
    size = row_sizes(scores)
    if held.sign.any():
        size = np.where(held.sign == 0, size, np.maximum(held.sign * scores[:, 0], 0.0))
    return np.where(held.silent, 0.0, size)


def polish(held: Held, pull: Floats, eta: Floats, rho: float, steps: int = 30, slack: float = 1e-5) -> tuple[float, Floats]:
    """(upper bound of the dual norm on the held set, the eta that gives it).

    At the best eta every group with weight has the same value, the dual norm, and none has more. So each group's
    eta follows its value, with a gain that grows while it keeps going one way and shrinks when it turns round:
    a group on its way to zero gets there in a few steps instead of hundreds. H(eta)^(1/rho'), the mean value, is
    a lower bound of the same norm; stop when the two meet.
    """
    exponent = rho / (rho - 1.0)
    if not pull.max(initial=0.0) > 0:
        return (0.0, eta) if pull.max(initial=0.0) == 0 else (np.inf, eta)
    best, best_eta, weight = np.inf, eta, held.cost**rho
    gain, before = np.ones(len(eta)), np.zeros(len(eta))
    for _ in range(steps):
        eta = np.maximum(eta / eta.sum(), ETA_FLOOR)
        eta = eta / eta.sum()
        share = weight * eta ** (1.0 - rho)
        part = pull / held.over_ancestors(share)
        top = part.max()
        value = share / held.cost * held.over_descendants((part / top) ** exponent) ** (1.0 / exponent) * top
        largest = float(value.max())
        if largest < best:
            best, best_eta = largest, eta
        mean = largest * float(eta @ (value / largest) ** exponent) ** (1.0 / exponent)
        if not mean < best * (1.0 - slack):
            break
        way = np.log(np.maximum(value, 1e-300) / mean)
        gain = np.where(way * before > 0, np.minimum(1.4 * gain, 60.0), np.maximum(0.5 * gain, 0.3))
        before = way
        eta = eta * np.exp(np.clip(exponent * gain * way, -7.0, 3.0))
    return best, best_eta


def first_eta(held: Held, size: Floats, rho: float) -> Floats:
    """Group weights from the primal: each group's share of the norm."""
    shares = held.cost * group_norms(held, size, rho)
    total = shares.sum()
    return shares / total if total > 0 else np.full(len(size), 1.0 / len(size))
