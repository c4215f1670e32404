"""Problems for selection paths, degenerate ones among them, and slow, obvious truths to compare with."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np

from tamis.core.design import Dense
from tamis.solvers.duals import ColumnQuadratic, DenseDuals, GramQuadratic, LazyDuals
from tamis.solvers.inverse_scale import Event, InverseScale

Array = Any
KINDS = ("plain", "correlated", "repeated", "negated", "summed", "zero", "integer", "binary")


def degenerate(seed: int, kind: str, standardised: bool = True) -> tuple[Array, Array]:
    """A small least squares problem of a kind that breaks careless code; more columns than rows in half of the cases."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(5, 60)), int(rng.integers(1, 80))
    X = rng.standard_normal((n, p))
    if kind == "correlated":
        X = X @ (np.eye(p) + 1.6 * rng.standard_normal((p, p)) / np.sqrt(p))
    part = X[:, : max(1, p // 3)]
    more = {"repeated": [part], "negated": [-part], "summed": [X[:, :1] + X[:, -1:], X[:, :1] - X[:, -1:]], "zero": [np.zeros((n, 2))]}
    X = np.hstack([X, *more.get(kind, [])])
    if kind == "integer":
        X = rng.integers(-2, 3, (n, p)).astype(float)
    if kind == "binary":
        X = (rng.random((n, p)) < 0.4).astype(float)
    beta = np.zeros(X.shape[1])
    beta[: min(3, len(beta))] = [2.0, -1.0, 0.5][: min(3, len(beta))]
    y = (
        rng.integers(-3, 4, n).astype(float)
        if kind in ("integer", "binary") and seed % 3 == 0
        else X @ beta + (seed % 2) * rng.standard_normal(n)
    )
    if standardised:
        X, y = X - X.mean(axis=0), y - y.mean()
        size = np.sqrt((X * X).mean(axis=0))
        X = X / np.where(size > 1e-12, size, 1.0)
    return np.asfortranarray(X), y


def duals_of(X: Array, y: Array, how: str, one_sided: Array | None = None) -> Any:
    """The three ways of knowing the duals."""
    n = len(y)
    if how == "lazy":
        return LazyDuals(Dense(X), y, one_sided)
    if how == "rows":
        return DenseDuals(ColumnQuadratic(X, y), one_sided)
    return DenseDuals(GramQuadratic(X.T @ X / n, X.T @ y / n, float(np.linalg.norm(y)) / np.sqrt(n)), one_sided)


def follow(X: Array, y: Array, how: str, one_sided: Array | None = None, **limits: Any) -> tuple[Array, Array, InverseScale]:
    """(times, coefficients (columns, knots), engine) of the path, the empty model first."""
    engine = InverseScale(duals_of(X, y, how, one_sided), **limits)
    events = list(engine.events())
    return (*arrays(events, X.shape[1]), engine)


def arrays(events: list[Event], columns: int) -> tuple[Array, Array]:
    """Times and dense coefficients, the empty model first."""
    times = np.array([0.0, *(event.t for event in events)])
    return times, np.array([np.zeros(columns), *(event.dense(columns) for event in events)]).T


def violations(X: Array, y: Array, times: Array, coefficients: Array, one_sided: Array | None = None) -> dict[str, float]:
    """How far a path is from its own equations, straight from their definition."""
    residual = y[:, None] - X @ coefficients
    step = np.diff(times)
    total = np.hstack([np.zeros((len(y), 1)), np.cumsum(residual[:, :-1] * step, axis=1)])
    rho = X.T @ total / len(y)
    sign = np.sign(coefficients)
    over = np.abs(rho) if one_sided is None else np.where(one_sided[:, None], rho, np.abs(rho))
    late = np.where(sign[:, :-1] != 0, np.abs(sign[:, :-1] - rho[:, 1:]), 0.0)
    length = np.linalg.norm(residual, axis=0)
    return {
        "outside": max(0.0, float(over.max() - 1.0)),
        "sign": max(float(np.where(sign != 0, np.abs(sign - rho), 0.0).max()), float(late.max(initial=0.0))),
        "rising": max(0.0, float(np.diff(length).max(initial=0.0) / max(length[0], 1e-300))),
    }


def brute_force(X: Array, y: Array, events: int) -> tuple[Array, Array]:
    """The path with every sign-constrained fit found by trying all subsets of the boundary (few columns only)."""
    (n, p), t = X.shape, 0.0
    rho, times, found = np.zeros(p), [0.0], [np.zeros(p)]
    for _ in range(events):
        speed = X.T @ (y - X @ found[-1]) / n
        with np.errstate(all="ignore"):
            wait = np.where(np.abs(speed) > 1e-10, (np.sign(speed) - rho) / speed, np.inf)
        wait[wait <= 1e-9] = np.inf
        if not np.isfinite(wait.min()):
            break
        t, rho = t + wait.min(), rho + wait.min() * speed
        boundary = np.flatnonzero(np.abs(rho) > 1 - 1e-8)
        best = (float(y @ y), (0.0,) * p)
        for subset in chain.from_iterable(combinations(boundary, k) for k in range(1, len(boundary) + 1)):
            trial = np.zeros(p)
            trial[list(subset)] = np.linalg.lstsq(X[:, subset], y, rcond=None)[0]
            if (trial * np.sign(rho) >= 0).all():
                best = min(best, (float(((y - X @ trial) ** 2).sum()), tuple(trial)))
        times.append(t)
        found.append(np.array(best[1]))
    return np.array(times), np.array(found).T


def autoregressive(n: int, p: int, nonzero: int, seed: int = 0, noise: float = 1.0) -> tuple[Array, Array, Array]:
    """Standardised columns each correlated with the one before, a sparse signal, and a centred target."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    beta = np.zeros(p)
    beta[rng.choice(p, nonzero, replace=False)] = rng.choice([-1, 1], nonzero) * rng.uniform(1, 2, nonzero)
    y = X @ beta + noise * rng.standard_normal(n)
    return np.asfortranarray(X), y - y.mean(), beta
