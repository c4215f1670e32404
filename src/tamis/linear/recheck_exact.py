"""Exact paths recomputed from their times and coefficients alone.

Between knots coefficients stand still, so every dual is an integral of residuals: at each knot none may lie outside its bounds,
those of coefficients that are not zero stand at the bound of their sign on both sides of it, and the residual never grows. For split
paths the dual of gamma is the integral of (D beta - gamma) / nu, and beta must be at its best given gamma.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.linear.recheck_facts import PathFacts, Worst
from tamis.linear.recheck_rows import Table

Array = NDArray[Any]
CHUNK_BYTES = 64 * 2**20
EPSILON = float(np.finfo(float).eps)
ROUNDING = 16 * EPSILON


def examine_exact(facts: PathFacts, last: int) -> Worst:
    """The largest violation of an exact path up to a knot."""
    worst, names, price = Worst(), facts.rows.names, factors_of(facts)
    if not check_times(facts, last, worst):
        return worst
    table = Table(facts.rows, facts.fit_intercept, facts.standardize)
    held = np.unique(np.concatenate(facts.positions[: last + 1])).astype(np.intp)
    own = own_coefficients(facts, held, last)
    penalised = table.varies & (price > 0) & np.isfinite(price)
    out = ~penalised[held] & (price[held] != 0)
    worst.see_all(np.where(own[out] != 0, 1.0, 0.0), lambda i, _: f"{names[held[out][i]]!r} cannot enter and has a coefficient")
    free = np.flatnonzero((price == 0) & table.varies)
    target, mean = centred_target(facts, table)
    check_intercepts(facts, table, (held, own), (target, mean), worst)
    dual, sizes = np.zeros(own.shape), np.zeros(last + 1)
    size = max(float(np.sqrt(table.share @ target**2)), 1e-300)
    place = {int(j): i for i, j in enumerate(held)}
    coefficients = own * table.scale[held][:, None]
    norms = table.spread / table.scale
    terms = np.diff(facts.times[: last + 1]) @ (size + norms[held] @ np.abs(coefficients[:, :-1]))
    worst.slack = float(2.0 * EPSILON * terms * np.max(norms[penalised] / price[penalised], initial=0.0))
    for knots, residual, moved in _integrals(facts, table, target, (held, coefficients)):
        sizes[knots] = np.sqrt(table.share @ residual**2)
        weighted = table.share[:, None] * residual
        for run in table.runs(free):
            slope = np.abs(table.prepared(run).T @ weighted) / (table.spread[run] / table.scale[run] * size)[:, None]
            worst.see_all(slope, partial(said_of, facts, run, knots, "is free and not at its best"))
        for run in table.runs(np.flatnonzero(penalised)):
            rho = table.prepared(run).T @ moved / price[run][:, None]
            beyond = np.abs(rho) if facts.one_sided is None else np.where(facts.one_sided[run][:, None], rho, np.abs(rho))
            worst.see_all(beyond - 1.0, partial(said_of, facts, run, knots, "has a dual beyond its bound"))
            for i, j in enumerate(run.tolist()):
                if j in place:
                    dual[place[j], knots] = rho[i]
    worst.see_all(
        (np.diff(sizes) / max(float(sizes[0]), 1e-300))[None, :], lambda _, k: f"at t = {facts.times[k + 1]:.6g} the residual grows"
    )
    signed = np.where(penalised[held][:, None], coefficients, 0.0)
    check_signs(facts, signed, dual, tuple(names[j] for j in held), worst)
    if facts.one_sided is not None:
        below = np.where(facts.one_sided[held][:, None] & (signed < 0), 1.0, 0.0)
        worst.see_all(below, lambda i, k: said(facts, k, names[held[i]], "may not be negative and is"))
    return worst


def factors_of(facts: PathFacts) -> Array:
    """Prices of all columns."""
    return np.ones(facts.rows.columns) if facts.factors is None else facts.factors


def own_coefficients(facts: PathFacts, held: Array, last: int) -> Array:
    """(held, knots) of one score, in own units."""
    own = np.zeros((len(held), last + 1))
    for k in range(last + 1):
        own[np.searchsorted(held, facts.positions[k]), k] = facts.values[k][:, 0]
    return own


def centred_target(facts: PathFacts, table: Table) -> tuple[Array, float]:
    """One target without its mean, if there is an intercept to hold it."""
    assert facts.rows.target is not None
    target = facts.rows.target[:, 0]
    if not facts.fit_intercept:
        return target, 0.0
    first = float(table.share @ target)
    mean = first + float(table.share @ (target - first))
    return target - mean, mean


def check_times(facts: PathFacts, last: int, worst: Worst) -> bool:
    """Whether times begin at zero and never decrease; without that there is nothing to compute."""
    times = facts.times[: last + 1]
    fine = bool(times[0] == 0 and np.all(np.isfinite(times)) and np.all(np.diff(times) >= 0))
    worst.see(0.0 if fine else np.inf, lambda: "the times do not begin at 0 and increase")
    return fine


def check_intercepts(facts: PathFacts, table: Table, own: tuple[Array, Array], target: tuple[Array, float], worst: Worst) -> None:
    """With a squared loss the intercept puts the mean residual at zero; what rounding leaves of large offsets is allowed for."""
    columns, coefficients = own
    goal, mean = target
    knots = coefficients.shape[1]
    terms = table.center[columns][:, None] * coefficients
    away = np.abs(facts.intercepts[:knots, 0] - (mean - terms.sum(axis=0)))
    slack = ROUNDING * (abs(mean) + np.abs(terms).sum(axis=0))
    size = max(float(np.sqrt(table.share @ goal**2)), 1e-300)
    worst.see_all(
        np.maximum(away - slack, 0.0)[None, :] / size, lambda _, k: f"at t = {facts.times[k]:.6g} the intercept is not at its best"
    )


def check_signs(facts: PathFacts, coefficients: Array, dual: Array, names: tuple[str, ...], worst: Worst) -> None:
    """Duals of what is not zero stand at the bound of its sign, at the knot and until the next."""
    sign = np.sign(coefficients)
    here = np.where(sign != 0, np.abs(sign - dual), 0.0)
    until = np.where(sign[:, :-1] != 0, np.abs(sign[:, :-1] - dual[:, 1:]), 0.0)
    worst.see_all(here, lambda i, k: said(facts, k, names[i], "has a coefficient and its dual is not at the bound of its sign"))
    worst.see_all(until, lambda i, k: said(facts, k + 1, names[i], "has a coefficient and its dual left the bound of its sign"))


def said(facts: PathFacts, knot: int, name: str, what: str) -> str:
    """Who does what, and when."""
    return f"at t = {facts.times[knot]:.6g} {name!r} {what}"


def said_of(facts: PathFacts, run: Array, knots: Array, what: str, column: int, knot: int) -> str:
    """As `said`, of a column in a run at one of some knots."""
    return said(facts, int(knots[knot]), facts.rows.names[run[column]], what)


def _integrals(facts: PathFacts, table: Table, target: Array, held: tuple[Array, Array]) -> Iterator[tuple[Array, Array, Array]]:
    """(knots, residuals, share * time integrals of residuals), for some knots at a time."""
    columns, coefficients = held
    knots, step = coefficients.shape[1], np.diff(facts.times[: coefficients.shape[1]], prepend=0.0)
    width = max(1, CHUNK_BYTES // (8 * max(1, table.count)))
    total, before = np.zeros(table.count), np.zeros(table.count)
    for first in range(0, knots, width):
        some = np.arange(first, min(first + width, knots))
        residual = target[:, None] - table.dot(columns, coefficients[:, some])
        earlier = np.column_stack([before, residual[:, :-1]])
        moved = total[:, None] + np.cumsum(earlier * step[some], axis=1)
        total, before = moved[:, -1], residual[:, -1]
        yield some, residual, table.share[:, None] * moved


def examine_split(facts: PathFacts, last: int) -> Worst:
    """The largest violation of an exact split path up to a knot."""
    assert facts.transform is not None
    assert facts.beta is not None
    worst, knots = Worst(), last + 1
    if not check_times(facts, last, worst):
        return worst
    table = Table(facts.rows, facts.fit_intercept, standardize=False, whole=True)
    every = np.arange(table.columns)
    beta = facts.beta[:knots, :, 0].T
    gamma = np.column_stack([facts.dense(k, len(facts.pieces))[:, 0] for k in range(knots)])
    target, mean = centred_target(facts, table)
    check_intercepts(facts, table, (every, beta), (target, mean), worst)
    onto, back = facts.transform.products()
    apart = onto(beta) - gamma
    slope = -back(apart) / facts.nu
    pull = np.zeros_like(slope)
    for some, residual, _ in _integrals(facts, table, target, (every, beta)):
        pull[:, some] = table.score(table.share[:, None] * residual)
    force = max(float(np.abs(table.score(table.share * target)).max(initial=0.0)), 1e-300)
    names = facts.rows.names
    worst.see_all(np.abs(pull + slope) / force, lambda i, k: said(facts, k, names[i], "is not at its best given gamma"))
    dual = np.zeros_like(apart)
    np.cumsum(apart[:, :-1] * (np.diff(facts.times[:knots]) / facts.nu), axis=1, out=dual[:, 1:])
    worst.see_all(np.abs(dual) - 1.0, lambda i, k: said(facts, k, facts.pieces[i], "has a dual beyond its bound"))
    check_signs(facts, gamma, dual, facts.pieces, worst)
    return worst
