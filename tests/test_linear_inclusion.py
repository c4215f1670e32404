"""What a certificate of an exact path computes: the same by looking at everybody and by excluding most columns with a bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers_paths import KINDS, autoregressive, degenerate, violations
from tamis.core.design import Dense
from tamis.core.loss import Squared
from tamis.linear.exact import Exact
from tamis.linear.inclusion import inclusion
from tamis.linear.inputs import Columns
from tamis.linear.prepare import Setup
from tamis.linear.task import Task


def path_of(X: Any, y: Any, one_sided: Any = None) -> tuple[Any, list[Any]]:
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    source = Exact(Setup(one_sided=one_sided)).source(Task(Columns(Dense(X), names), y[:, None], np.ones(len(y)), Squared()))
    return source, list(source.knots(None, lambda: False))


@pytest.mark.parametrize("seed", range(60))
def test_excluding_columns_by_their_chords_changes_no_verdict(seed: int) -> None:
    X, y = degenerate(seed, KINDS[seed % 8], standardised=False) if seed % 2 else autoregressive(60, 150, 10, seed)[:2]
    rng = np.random.default_rng(seed)
    source, knots = path_of(X, y, rng.random(X.shape[1]) < 0.5 if seed % 3 == 0 else None)
    if len(knots) > 2:  # one coefficient off, and one time
        spoilt = int(rng.integers(1, len(knots)))
        values = knots[spoilt].coefficients * np.where(np.arange(len(knots[spoilt].coefficients)) == 0, 1 + 1e-3, 1.0)[:, None]
        moved = [*knots[:spoilt], replace(knots[spoilt], coefficients=values), *knots[spoilt + 1 :]]
        shifted = [*knots[:-1], replace(knots[-1], t=knots[-1].t * (1 + 1e-6))]
    else:
        moved = shifted = knots
    for path in (knots, moved, shifted):
        whole, quick = (inclusion(path, source.prepared, source.one_sided, everyone=everyone) for everyone in (True, False))
        assert np.allclose(whole.worst, quick.worst, rtol=1e-6, atol=1e-13)
        assert np.allclose(whole.mean_square, quick.mean_square)
        assert np.all(np.isnan(quick.largest))


@pytest.mark.parametrize("seed", range(20))
def test_the_violations_are_those_of_the_definition(seed: int) -> None:
    X, y = degenerate(seed, KINDS[seed % 8])
    source, knots = path_of(X, y)
    kept = source.scaling.kept
    coefficients = np.zeros((X.shape[1], len(knots)))
    for k, knot in enumerate(knots):
        coefficients[[atom[0] for atom in knot.atoms], k] = knot.coefficients[:, 0]
    scaled = coefficients[kept] * source.scaling.scale[:, None]
    times = np.array([knot.t for knot in knots])
    truth = max(violations((X[:, kept] - source.scaling.center) / source.scaling.scale, y - y.mean(), times, scaled).values())
    assert inclusion(knots, source.prepared).worst[-1] == pytest.approx(truth, rel=1e-3, abs=1e-12)


def test_the_bound_on_the_duals_holds_on_spoilt_paths() -> None:
    X, y, _ = autoregressive(80, 30, 5)
    source, knots = path_of(X, y)
    exact = duals(X, y, knots)
    rng = np.random.default_rng(0)
    for _ in range(20):
        spoilt = [
            replace(knot, coefficients=knot.coefficients * (1 + 1e-4 * rng.standard_normal(knot.coefficients.shape))) for knot in knots
        ]
        found = inclusion(spoilt, source.prepared)
        over = np.maximum.accumulate(np.maximum(np.abs(duals(X, y, spoilt)).max(axis=0) - 1.0, 0.0))
        away = np.abs(duals(X, y, spoilt) / (1.0 + over) - exact).max(axis=0)
        assert np.all(away <= found.dual_error + 1e-12)


def duals(X: Any, y: Any, knots: list[Any]) -> Any:
    """(columns, knots)"""
    coefficients = np.zeros((X.shape[1], len(knots)))
    for k, knot in enumerate(knots):
        coefficients[[atom[0] for atom in knot.atoms], k] = knot.coefficients[:, 0]
    residual = y[:, None] - X @ coefficients
    step = np.diff([knot.t for knot in knots])
    return X.T @ np.hstack([np.zeros((len(y), 1)), np.cumsum(residual[:, :-1] * step, axis=1)]) / len(y)
