"""Damped paths computed again: the plain recursion from the exact start, on the columns that move, and a proof for all others.

A block of iterations leaves running sums of loss gradients, one number per row. The dual of a column is within (norm of the column)
* (bow of the sums) of its chord, so where chord and bow stay below the threshold nothing moved; the few columns in doubt are looked at
iteration by iteration, and who crosses joins the columns that move before the block counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.linear.recheck_exact import ROUNDING, centred_target, check_intercepts, check_times, own_coefficients
from tamis.linear.recheck_facts import Budget, PathFacts, Worst
from tamis.linear.recheck_gauge import WitnessLoss
from tamis.linear.recheck_rows import Table

Array = NDArray[Any]
HISTORY_BYTES = 32 * 2**20
SHORTEST, LONGEST = 16, 1024
CROWD = 0.1  # of the columns in doubt: a shorter block leaves fewer
LEAST = 1e-5  # times kappa: the size of coefficients below which rounding of duals is all there is to see
QUIET = 1e-13  # a force below this share of what it is summed from is rounding


@dataclass(frozen=True)
class Clock:
    """Knots asked of a recursion: iterate k lives at origin + k * step."""

    origin: float
    step: float

    def placed(self, t: float) -> tuple[int, float]:
        """(last iterate at or before t, time since)."""
        k = max(0, int(np.floor((t - self.origin) / self.step * (1 + 4e-16))))
        return k, max(0.0, t - self.origin - k * self.step)


@dataclass(frozen=True)
class State:
    """An iterate: duals of the columns that move, intercept, and how fast both fall."""

    dual: Array
    level: Array
    slope: Array
    level_slope: Array


class Trace(Protocol):
    """What a block leaves behind."""

    @property
    def states(self) -> dict[int, State]:
        """The iterates that were asked for."""
        ...

    @property
    def dual(self) -> Array:
        """Of the columns that move, at the end."""
        ...

    @property
    def level(self) -> Array:
        """The intercept at the end."""
        ...

    def moved(self, columns: Array) -> Array:
        """How far the duals of some prepared columns are after each iteration: (columns, scores, iterations + 1)."""
        ...

    def pull(self) -> Array:
        """What the block adds to the duals of all columns, as row values."""
        ...

    def bow(self) -> Array:
        """Per score, a bound on how far the moves of a column of norm 1 are from their chord."""
        ...


@dataclass(frozen=True)
class RowTrace:
    """Sums kept per row of the data, for any loss."""

    sums: Array  # (iterations + 1, rows, scores), times the step
    share: Array
    states: dict[int, State]
    dual: Array
    level: Array

    def moved(self, columns: Array) -> Array:
        """As the protocol says."""
        count, rows, scores = self.sums.shape
        flat = np.moveaxis(self.sums, 1, 0).reshape(rows, count * scores)
        return -np.moveaxis((columns.T @ flat).reshape(columns.shape[1], count, scores), 1, 2)

    def pull(self) -> Array:
        """As the protocol says."""
        return -self.sums[-1]

    def bow(self) -> Array:
        """As the protocol says."""
        steps = np.linspace(0.0, 1.0, len(self.sums))
        root = np.sqrt(self.share)[:, None]
        worst = np.zeros(self.sums.shape[2])
        for step, total in zip(steps, self.sums, strict=True):
            worst = np.maximum(worst, np.linalg.norm((total - step * self.sums[-1]) / root, axis=0))
        return worst


@dataclass(frozen=True)
class GramTrace:
    """Sums of coefficients, which say everything about a squared loss."""

    sums: Array  # (iterations + 1, columns that move), times the step
    step: float
    columns: Array
    gram: Array
    share: Array
    target: Array
    states: dict[int, State]
    dual: Array
    level: Array

    def moved(self, columns: Array) -> Array:
        """As the protocol says."""
        weighted = self.share[:, None] * columns
        count = self.step * np.arange(len(self.sums))
        return ((weighted.T @ self.target) * count - (weighted.T @ self.columns) @ self.sums.T)[:, None, :]

    def pull(self) -> Array:
        """As the protocol says."""
        seen = self.step * (len(self.sums) - 1) * self.target[:, 0] - self.columns @ self.sums[-1]
        return (self.share * seen)[:, None]

    def bow(self) -> Array:
        """As the protocol says."""
        away = self.sums - np.linspace(0.0, 1.0, len(self.sums))[:, None] * self.sums[-1]
        return np.sqrt(np.maximum((away @ self.gram * away).sum(axis=1), 0.0)).max(initial=0.0, keepdims=True)


class Mover:
    """The columns that move, and their blocks of iterations."""

    def __init__(self, facts: PathFacts, table: Table, loss: WitnessLoss, step: float, chosen: Array) -> None:
        assert facts.gauge is not None
        self.loss, self.step, self.kappa, self.rate = loss, step, facts.kappa, facts.rate
        self.chosen, self.gauge = chosen, facts.gauge.part(chosen)
        self.columns = table.prepared(chosen)
        self.table = table
        self.gram: Array | None = None
        if loss.name == "squared":
            weighted = table.share[:, None] * self.columns
            self.gram, self.linear = weighted.T @ self.columns, weighted.T @ loss.target

    def block(self, dual: Array, level: Array, count: int, asked: set[int]) -> Trace:
        """So many iterations; the states asked for are kept."""
        if self.gram is not None:
            return self._by_columns(dual, level, count, asked)
        sums, states = np.zeros((count + 1, *self.loss.target.shape)), {}
        for k in range(count):
            gradient = self.loss.gradient(self.columns @ (self.kappa * self.gauge.shrink(dual)) + level)
            slope, level_slope = self.columns.T @ gradient, self.rate * gradient.sum(axis=0)
            if k in asked:
                states[k] = State(dual, level, slope, level_slope)
            sums[k + 1] = sums[k] + self.step * gradient
            dual, level = dual - self.step * slope, level - self.step * level_slope
        return RowTrace(sums, self.table.share, states, dual, level)

    def _by_columns(self, dual: Array, level: Array, count: int, asked: set[int]) -> Trace:
        """The same for a squared loss, whose target is centred, so that the intercept need not move."""
        assert self.gram is not None
        sums, states, still = np.zeros((count + 1, len(dual))), {}, np.zeros_like(level)
        for k in range(count):
            theta = self.kappa * self.gauge.shrink(dual)
            slope = self.gram @ theta - self.linear
            if k in asked:
                states[k] = State(dual, level, slope, still)
            sums[k + 1] = sums[k] + self.step * theta[:, 0]
            dual = dual - self.step * slope
        return GramTrace(sums, self.step, self.columns, self.gram, self.table.share, self.loss.target, states, dual, level)


def first_time(reach: float, force: float, noise: float, claimed: float) -> float:
    """When something first moves; where a force can hardly be told from rounding, whether it ever does is left to the claim."""
    moves = force > 100.0 * noise or (force > 0.01 * noise and np.isfinite(claimed))
    return 1.0 / reach if moves and reach > 0 else np.inf


def examine_damped(facts: PathFacts, last: int, budget: Budget) -> tuple[Worst, float]:
    """The largest mismatch of a damped path up to a knot, and the time up to which it was looked at."""
    worst = Worst()
    if not check_times(facts, last, worst):
        return worst, 0.0
    return Replay(facts, Table(facts.rows, facts.fit_intercept, facts.standardize), last, worst).examine(budget)


class Replay:
    """One path computed again."""

    def __init__(self, facts: PathFacts, table: Table, last: int, worst: Worst) -> None:
        assert facts.gauge is not None
        assert facts.rows.target is not None
        assert facts.steps is not None
        self.facts, self.table, self.last, self.worst, self.gauge = facts, table, last, worst, facts.gauge
        self.steps: Array = facts.steps
        target, self.mean = facts.rows.target, np.zeros(facts.intercepts.shape[1])
        self.noise = ROUNDING * float((table.share @ np.abs(target)).max())  # what a mean of targets cannot tell from zero
        if facts.loss == "squared":
            centred, mean = centred_target(facts, table)
            target, self.mean = centred[:, None], np.array([mean])
            held = np.unique(np.concatenate(facts.positions[: last + 1])).astype(np.intp)
            check_intercepts(facts, table, (held, own_coefficients(facts, held, last)), (centred, mean), worst)
        self.loss = WitnessLoss(facts.loss, target, table.share, facts.delta)
        for k in range(last + 1):
            still = np.flatnonzero(~table.varies[facts.positions[k]] & (facts.values[k] != 0).any(axis=1))
            if len(still):
                worst.see(1.0, partial(self._said, k, int(facts.positions[k][still[0]]), "is constant, and in"))
        self.unit, self.level_unit = LEAST * facts.kappa, facts.delta if facts.loss == "huber" else 1.0

    def examine(self, budget: Budget) -> tuple[Worst, float]:
        """The null model, the time something first moves, and the iterations from there on."""
        facts, times = self.facts, self.facts.times[: self.last + 1]
        theta, level = self._claim(0), self._level(0)
        free = np.flatnonzero(self.gauge.weight == 0)
        self.worst.see_all(np.where(np.delete(theta, free, axis=0) != 0, 1.0, 0.0), lambda *_: "something is selected at t = 0")
        gradient = self.loss.gradient(self.table.dot(free, theta[free]) + level)
        force = self.table.score(gradient)
        self._check_null(free, gradient, force)
        quiet = max(QUIET * float(np.sqrt((gradient**2 / self.table.share[:, None]).sum())), self.noise)
        spread = (self.table.spread / self.table.scale)[:, None] * np.ones_like(force)
        reach = float(self.gauge.reach(-force).max(initial=0.0))
        first = first_time(reach, reach, quiet * float(self.gauge.size(spread).max(initial=0.0)), facts.t0)
        off = 0.0 if facts.t0 == first else abs(facts.t0 / first - 1.0) if np.isfinite(first) else np.inf
        self.worst.see(off, lambda: f"something first moves at t = {first:.6g} and not at {facts.t0:.6g}")
        early = np.flatnonzero(times < first) if np.isfinite(first) else np.arange(len(times))
        for k in early.tolist():
            self._compare(k, theta, level)
        start = np.where((self.gauge.weight == 0)[:, None], theta / facts.kappa, -(first if np.isfinite(first) else 0.0) * force)
        for step in np.unique(self.steps[: self.last + 1][times >= first]):
            knots = np.flatnonzero((times >= first) & (self.steps[: self.last + 1] == step))
            reached = self._follow(knots, Clock(first, float(step)), start, level, budget)
            if reached < times[knots[-1]]:
                return self.worst, reached
        return self.worst, float(times[-1])

    def _check_null(self, free: Array, gradient: Array, force: Array) -> None:
        """Before anything has moved, intercept and free columns are at their best."""
        size = max(float(np.sqrt((gradient**2 / self.table.share[:, None]).sum())), self.noise, 1e-300)
        if self.facts.fit_intercept:
            off = float(np.abs(gradient.sum(axis=0)).max())
            off = 0.0 if off <= self.noise else off / size
            self.worst.see(off, lambda: "the intercept of the null model is not at its best")
        varies = free[self.table.varies[free]]
        off_free = np.abs(force[varies]) / (size * self.table.spread[varies] / self.table.scale[varies])[:, None]
        self.worst.see_all(off_free, lambda i, _: self._said(0, int(varies[i]), "is free and not at its best"))

    def _claim(self, knot: int) -> Array:
        """A knot's coefficients of all prepared columns."""
        return self.facts.dense(knot, self.table.columns) * self.table.scale[:, None]

    def _level(self, knot: int) -> Array:
        """A knot's intercept on prepared columns."""
        own = self.table.center[self.facts.positions[knot]] @ self.facts.values[knot]
        return np.asarray(self.facts.intercepts[knot] + own - self.mean)

    def _follow(self, knots: Array, clock: Clock, start: Array, level: Array, budget: Budget) -> float:
        """Iterations through all these knots; the time they reached."""
        moving = self.gauge.weight == 0
        moving[np.concatenate(self.facts.positions[: self.last + 1])] = True
        mover = self._mover(moving, clock.step)
        places = [clock.placed(float(self.facts.times[k])) for k in knots]
        dual, done, length, reached = start, 0, 4 * SHORTEST, clock.origin
        while places:
            width = dual.shape[1] * (len(mover.chosen) if self.loss.name == "squared" else self.table.count)
            count = max(2, min(length, places[-1][0] + 1 - done, HISTORY_BYTES // (8 * max(1, width))))
            if not budget.spend(count):
                return reached
            asked = {place - done for place, _ in places if place - done < count}
            trace = mover.block(dual[mover.chosen], level, count, asked)
            end = dual + self.table.score(trace.pull())
            end[mover.chosen] = trace.dual
            crossing, doubt = self._crossing(trace, mover.chosen, dual, end)
            if crossing.any():
                moving = moving | crossing
                mover, length = self._mover(moving, clock.step), max(SHORTEST, length // 2)
                continue
            while places and places[0][0] - done < count:
                place, since = places.pop(0)
                state = trace.states[place - done]
                theta = np.zeros(start.shape)
                theta[mover.chosen] = self.facts.kappa * mover.gauge.shrink(state.dual - since * state.slope)
                self._compare(int(knots[len(knots) - len(places) - 1]), theta, state.level - since * state.level_slope)
                reached = float(self.facts.times[knots[len(knots) - len(places) - 1]])
            longer = min(LONGEST, 2 * length) if doubt < CROWD else max(SHORTEST, length // 2)
            dual, level, done, length = end, trace.level, done + count, longer
            reached = max(reached, clock.origin + done * clock.step) if places else reached
        return reached

    def _mover(self, moving: Array, step: float) -> Mover:
        return Mover(self.facts, self.table, self.loss, step, np.flatnonzero(self.gauge.closed(moving)))

    def _crossing(self, trace: Trace, chosen: Array, before: Array, after: Array) -> tuple[Array, float]:
        """Which of the other columns crossed their threshold anywhere in a block, and the share of those that had to be looked at."""
        found = np.zeros(len(before), dtype=bool)
        norms = (self.table.spread / self.table.scale)[:, None] * (1.0 + 1e-9)
        ends = np.maximum(self.gauge.reach(before), self.gauge.reach(after))
        doubtful = ends + self.gauge.size(norms * trace.bow()[None, :]) >= 1.0 - 1e-12
        doubtful[chosen] = False
        if not doubtful.any():
            return found, 0.0
        suspects = np.flatnonzero(doubtful)
        part, doubt = self.gauge.part(suspects), len(suspects) / len(before)
        if part.label is None:
            for run in np.array_split(suspects, max(1, len(suspects) // 64)):
                path = before[run][:, :, None] + trace.moved(self.table.prepared(run))
                found[run] = self.gauge.part(run).reach(path).max(axis=1, initial=0.0) > 1.0
            return found, doubt
        path = before[suspects][:, :, None] + trace.moved(self.table.prepared(suspects))
        found[suspects] = part.reach(path).max(axis=1, initial=0.0) > 1.0
        return found, doubt

    def _compare(self, knot: int, theta: Array, level: Array) -> None:
        """A knot's claim beside what was computed."""
        claim = self._claim(knot)
        self.unit = max(self.unit, float(np.abs(claim).max(initial=0.0)), float(np.abs(theta).max(initial=0.0)))
        off = np.abs(claim - theta) / self.unit
        self.worst.see_all(off, lambda j, c: self._said(knot, j, f"has the coefficient {claim[j, c]:.9g} where {theta[j, c]:.9g} belongs"))
        if self.loss.name != "squared" and self.facts.fit_intercept:
            self.level_unit = max(self.level_unit, float(np.abs(level).max()))
            self._compare_level(knot, theta, level, np.abs(claim - theta))
        elif not self.facts.fit_intercept:
            self.worst.see(float(np.abs(self.facts.intercepts[knot]).max()), lambda: "an intercept is given where none was fitted")

    def _compare_level(self, knot: int, theta: Array, level: Array, off_by: Array) -> None:
        """An intercept in own units beside what was computed, less what follows from coefficients that are off, and from rounding."""
        offset = (self.table.center / self.table.scale)[:, None]
        away = np.abs(self.facts.intercepts[knot] - (level + self.mean - (offset * theta).sum(axis=0)))
        away = away - (np.abs(offset) * (off_by + ROUNDING * np.abs(theta))).sum(axis=0)
        off = max(float(away.max()), 0.0) if np.all(np.isfinite(away)) else np.nan
        self.worst.see(off / self.level_unit, lambda: f"at t = {self.facts.times[knot]:.6g} the intercept is off by {off:.2g}")

    def _said(self, knot: int, column: int, what: str) -> str:
        return f"at t = {self.facts.times[knot]:.6g} {self.facts.rows.names[column]!r} {what}"


__all__ = ["LEAST", "Clock", "examine_damped", "first_time"]
