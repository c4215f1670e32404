"""What every solved problem must satisfy against the oracle's optimum."""

from __future__ import annotations

import numpy as np
import pytest

from helpers_lattice import bound_again, weights_of
from helpers_oracle import Instance, generic_optimum
from tamis.core.path import Knot

CLARABEL = 1e-6  # relative accuracy granted to the cone solver


def check_bracket(instance: Instance, knot: Knot, optimum: float | None = None) -> None:
    """Bound <= optimum <= value, both recomputed from what they stand on; and the knot keeps the lattice's rules."""
    certificate = knot.certificate
    best = generic_optimum(instance).value if optimum is None else optimum
    slack = CLARABEL * abs(best)
    assert certificate.bound <= best + slack
    assert best <= certificate.value + slack
    assert certificate.holds
    assert certificate.value - best <= certificate.gap * abs(certificate.value) + slack

    F = weights_of(instance, knot)
    assert instance.primal(F, knot.intercept) == pytest.approx(certificate.value, rel=1e-9)
    assert certificate.bound <= bound_again(instance, knot) + 1e-7 * abs(best)
    forbidden = np.isnan(instance.free_sign)
    assert not F[forbidden].any()
    assert np.all(np.nan_to_num(instance.free_sign)[:, None] * F >= 0)
    size = np.linalg.norm(knot.coefficients, axis=1)
    assert np.all(size > 0)
    assert list(size) == sorted(size, reverse=True)
