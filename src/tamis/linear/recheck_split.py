"""Split damped paths computed again: both lines of the recursion, with dense coefficients, from the exact start.

With d_k = (gamma_k - D beta_k) / nu: beta loses kappa * step * (gradient of the loss - D'd_k), z loses step * d_k, and gamma is what the
gauge leaves of z, times kappa.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.linear.recheck_exact import ROUNDING, centred_target, check_intercepts, check_times
from tamis.linear.recheck_facts import Budget, PathFacts, Worst
from tamis.linear.recheck_gauge import WitnessGauge, WitnessLoss
from tamis.linear.recheck_replay import LEAST, Clock, first_time
from tamis.linear.recheck_rows import Table

Array = NDArray[Any]
LOOK = 64  # iterations between two looks at the budget
QUIET = 1e-12  # a pull below this share of what it is summed from is rounding


@dataclass(frozen=True)
class Point:
    """Coefficients, intercept and dual, at an iterate or between two."""

    beta: Array
    level: Array
    dual: Array

    def moved(self, slope: Point, by: float) -> Point:
        """Straight on."""
        return Point(self.beta + by * slope.beta, self.level + by * slope.level, self.dual + by * slope.dual)


def examine_split_damped(facts: PathFacts, last: int, budget: Budget) -> tuple[Worst, float]:
    """The largest mismatch of a split damped path up to a knot, and the time up to which it was looked at."""
    worst = Worst()
    if not check_times(facts, last, worst):
        return worst, 0.0
    return SplitReplay(facts, last, worst).examine(budget)


class SplitReplay:
    """One split path computed again."""

    def __init__(self, facts: PathFacts, last: int, worst: Worst) -> None:
        assert facts.gauge is not None
        assert facts.transform is not None
        assert facts.beta is not None
        assert facts.rows.target is not None
        assert facts.steps is not None
        self.facts, self.last, self.worst, self.steps = facts, last, worst, facts.steps
        self.gauge: WitnessGauge = facts.gauge
        self.beta: Array = facts.beta
        self.table = Table(facts.rows, facts.fit_intercept, standardize=False, whole=True)
        self.every = np.arange(self.table.columns)
        self.onto, self.back = facts.transform.products()
        target, self.mean = facts.rows.target, np.zeros(facts.intercepts.shape[1])
        self.squared = facts.loss == "squared"
        if self.squared:
            centred, mean = centred_target(facts, self.table)
            target, self.mean = centred[:, None], np.array([mean])
            check_intercepts(facts, self.table, (self.every, self.beta[: last + 1, :, 0].T), (centred, mean), worst)
        self.moves = facts.fit_intercept and not self.squared
        self.loss = WitnessLoss(facts.loss, target, self.table.share, facts.delta)
        self.products = self._products() if self.squared and self.table.columns <= self.table.count else None
        self.units = {"beta": 1e-300, "gamma": LEAST * facts.kappa, "level": facts.delta if facts.loss == "huber" else 1.0}

    def _products(self) -> tuple[Array, Array]:
        """X'WX and X'Wy of a squared loss with few columns."""
        gram = np.empty((self.table.columns, self.table.columns))
        for run in self.table.runs():
            gram[:, run] = self.table.score(self.table.share[:, None] * self.table.prepared(run))
        return gram, self.table.score(self.table.share[:, None] * self.loss.target)

    def _gradient(self, beta: Array, level: Array) -> tuple[Array, Array]:
        """Of the loss: by coefficients and by the intercept."""
        if self.products is not None:
            return self.products[0] @ beta - self.products[1], np.zeros_like(level)
        each = self.loss.gradient(self.table.dot(self.every, beta) + level)
        return self.table.score(each), each.sum(axis=0) if self.moves else np.zeros_like(level)

    def _slope(self, point: Point, gamma: Array) -> Point:
        """How fast everything moves at an iterate."""
        kappa = self.facts.kappa
        apart = (gamma - self.onto(point.beta)) / self.facts.nu
        by_beta, by_level = self._gradient(point.beta, point.level)
        return Point(-kappa * (by_beta - self.back(apart)), -kappa * by_level, -apart)

    def examine(self, budget: Budget) -> tuple[Worst, float]:
        """The start, and the iterations from there on."""
        facts, times = self.facts, self.facts.times[: self.last + 1]
        zero = np.zeros((len(facts.pieces), self.mean.size))
        first, start = self._start(zero)
        early = np.flatnonzero(times <= first)
        for k in early.tolist():
            self._compare(k, start, zero)
        for step in np.unique(self.steps[: self.last + 1][times > first]):
            knots = np.flatnonzero((times > first) & (self.steps[: self.last + 1] == step))
            reached = self._follow(knots, Clock(first, float(step)), start, budget)
            if reached < times[knots[-1]]:
                return self.worst, reached
        return self.worst, float(times[-1])

    def _start(self, zero: Array) -> tuple[float, Point]:
        """Where iterations begin; an equilibrium is claimed by the first knot, and must be one."""
        facts = self.facts
        if facts.start == "zero":
            nothing = np.zeros((self.table.columns, self.mean.size))
            self.worst.see(0.0 if facts.t0 == 0 else np.inf, lambda: f"a start from zero begins at t = 0 and not at {facts.t0:.6g}")
            return 0.0, Point(nothing, np.zeros_like(self.mean), zero)
        claim = Point(self.beta[0], self._level(0), zero)
        slope = self._slope(claim, zero)
        each = self.loss.gradient(np.zeros_like(self.loss.target))
        force = max(float(np.abs(self.table.score(each)).max(initial=0.0)), 1e-300)
        self.worst.see_all(
            np.abs(slope.beta) / (facts.kappa * force), lambda j, _: f"at the start {facts.rows.names[j]!r} is not at its best"
        )
        if self.moves:
            off = float(np.abs(slope.level).max()) / facts.kappa / max(float(np.abs(each).sum()), 1e-300)
            self.worst.see(off, lambda: "at the start the intercept is not at its best")
        pull = slope.dual
        reach = float(self.gauge.reach(pull).max(initial=0.0))
        scale = max(force, float(np.abs(self.back(np.abs(self.onto(claim.beta)))).max(initial=0.0)) / facts.nu)
        first = first_time(reach, float(np.abs(self.back(pull)).max(initial=0.0)), QUIET * scale, facts.t0)
        off_time = 0.0 if facts.t0 == first else abs(facts.t0 / first - 1.0) if np.isfinite(first) else np.inf
        self.worst.see(off_time, lambda: f"gamma first moves at t = {first:.6g} and not at {facts.t0:.6g}")
        return first, Point(claim.beta, claim.level, pull * first if np.isfinite(first) else zero)

    def _level(self, knot: int) -> Array:
        """A knot's intercept on centred columns."""
        return np.asarray(self.facts.intercepts[knot] + self.table.center @ self.beta[knot] - self.mean)

    def _follow(self, knots: Array, clock: Clock, start: Point, budget: Budget) -> float:
        """Iterations through all these knots; the time they reached."""
        point, done, reached = start, 0, clock.origin
        gamma = np.zeros_like(start.dual)
        for k in knots.tolist():
            place, since = clock.placed(float(self.facts.times[k]))
            while done < place:
                if done % LOOK == 0 and not budget.spend(LOOK):
                    return reached
                point = point.moved(self._slope(point, gamma), clock.step)
                gamma = self.facts.kappa * self.gauge.shrink(point.dual)
                done += 1
            now = point.moved(self._slope(point, gamma), since)
            self._compare(k, now, gamma if since == 0 else self.facts.kappa * self.gauge.shrink(now.dual))
            reached = float(self.facts.times[k])
        return reached

    def _compare(self, knot: int, point: Point, gamma: Array) -> None:
        """A knot's claim beside what was computed."""
        pairs = {"beta": (self.beta[knot], point.beta), "gamma": (self.facts.dense(knot, len(gamma)), gamma)}
        for what, names in (("beta", self.facts.rows.names), ("gamma", self.facts.pieces)):
            claim, found = pairs[what]
            self.units[what] = max(self.units[what], float(np.abs(claim).max(initial=0.0)), float(np.abs(found).max(initial=0.0)))
            self.worst.see_all(np.abs(claim - found) / self.units[what], partial(self._differs, knot, names, claim, found))
        if self.moves:
            self.units["level"] = max(self.units["level"], float(np.abs(point.level).max()))
            offset = self.table.center[:, None]
            away = np.abs(self.facts.intercepts[knot] - (point.level + self.mean - (offset * point.beta).sum(axis=0)))
            off_by = np.abs(self.beta[knot] - point.beta) + ROUNDING * np.abs(point.beta)
            away = away - (np.abs(offset) * off_by).sum(axis=0)
            off = max(float(away.max()), 0.0) if np.all(np.isfinite(away)) else np.nan
            self.worst.see(off / self.units["level"], lambda: f"at t = {self.facts.times[knot]:.6g} the intercept is off by {off:.2g}")
        elif not self.facts.fit_intercept:
            self.worst.see(float(np.abs(self.facts.intercepts[knot]).max()), lambda: "an intercept is given where none was fitted")

    def _differs(self, knot: int, names: tuple[str, ...], claim: Array, found: Array, row: int, column: int) -> str:
        at = f"at t = {self.facts.times[knot]:.6g} {names[row]!r}"
        return f"{at} is {claim[row, column]:.9g} where {found[row, column]:.9g} belongs"
