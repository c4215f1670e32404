"""Linearised Bregman iterations of a linear model, as knots on a grid of times, with certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate, Scope
from tamis.core.loss import Huber, Squared
from tamis.core.path import Knot
from tamis.core.structure import Gauge
from tamis.linear.exact import PENDING, TOLERANCE, grouped
from tamis.linear.method import Finished, largest_first, own_weights
from tamis.linear.prepare import Prepared, Setup, prepare
from tamis.linear.task import Task
from tamis.solvers.bregman import BregmanProblem, LinearizedBregman, Snapshot

Array = NDArray[Any]
LONGEST = 20.0  # times the first entry's time, where a path ends that is not told where
POINTS = 100
MOST = 50_000  # iterations, where a path ends that is not told where and has to make them one by one


@dataclass(frozen=True)
class Damped:
    """Linearised Bregman iterations: the method for losses and gauges whose coefficients move between events."""

    gauge: Gauge
    setup: Setup = field(default_factory=Setup)
    kappa: float = 100.0
    alpha: float | None = None
    relative_step: float = 1.0
    t_end: float | None = None
    times: tuple[float, ...] | None = None
    name: str = "damped"

    def source(self, task: Task, times: Sequence[float] | None = None, share: Any = None) -> DampedSource:
        """The iterations of a training problem."""
        del share
        return DampedSource(task, self, times if times is not None else self.times)

    def shared(self, task: Task) -> None:
        """Folds share nothing."""

    def weights(self, knot: Knot) -> tuple[Array, Array]:
        """Columns and coefficients of a knot."""
        return own_weights(knot)

    def judged(self, knot: Knot) -> tuple[Array, Array, Array]:
        """What validation looks at: the model itself."""
        return (*own_weights(knot), knot.intercept)

    def candidates(self, task: Task) -> int:
        """How many pieces could be selected."""
        return len(task.columns)

    def between(self, knots: Sequence[Knot], arrays: Mapping[str, Array]) -> DualsBetween:
        """How the model is read between two knots."""
        names = {atom: name for knot in knots for atom, name in zip(knot.atoms, knot.names, strict=True)}
        return DualsBetween(self.gauge, float(arrays["kappa"]), arrays["dual"], arrays["scale"], [knot.t for knot in knots], names)


@dataclass(frozen=True)
class DualsBetween:
    """The model between two knots: duals move in straight lines, coefficients are what the gauge leaves of them."""

    gauge: Gauge
    kappa: float
    duals: Array
    scale: Array
    times: list[float]
    names: Mapping[tuple[int, ...], str]

    def __call__(self, before: Knot, after: Knot, t: float) -> Knot:
        """The model at t."""
        share, i = (t - before.t) / (after.t - before.t), self.times.index(before.t)
        theta = self.kappa * self.gauge.shrink((1 - share) * self.duals[i] + share * self.duals[i + 1])
        free = self.gauge.weight == 0
        theta[free] = 0.0
        for knot, part in ((before, 1 - share), (after, share)):
            for atom, row in zip(knot.atoms, knot.coefficients, strict=True):
                if free[atom[0]]:
                    theta[atom[0]] += part * row * self.scale[atom[0]]
        rows = [j for j in largest_first(theta).tolist() if (j,) in self.names]
        own = theta[rows] / self.scale[rows][:, None]
        atoms = tuple((j,) for j in rows)
        level = (1 - share) * before.intercept + share * after.intercept
        return replace(before, t=t, atoms=atoms, names=tuple(self.names[atom] for atom in atoms), coefficients=own, intercept=level)


class DampedSource:
    """Knots of the iterations at asked times; the first one is the null model, at time zero."""

    def __init__(self, task: Task, method: Damped, times: Sequence[float] | None) -> None:
        self.task, self.method = task, method
        self.status, self.keep_state = "running", False
        self.prepared = prepare(task.columns, task.target, task.weight, method.setup, squared=task.squared)
        self.kappa = method.kappa * unit_of(task, self.prepared)
        self.problem = BregmanProblem(
            self.prepared.design, task.loss, self.prepared.target, self.prepared.weight / self.prepared.rows, method.gauge, self.kappa,
            method.setup.fit_intercept and not task.squared, method.alpha, method.relative_step,
        )  # fmt: skip
        self.run = LinearizedBregman(self.problem)
        said = len(self.run.notes)
        asked = sorted({0.0, *(times if times is not None else self._grid())})
        # a fold may need far more iterations for the same times; it is then cut off like a path that is not told where to end
        free = method.t_end is None and method.times is None and not self._jumps
        self.times = within(asked, self.run.start.t0 + 2 * MOST * self.run.alpha) if free else asked
        # a grid that ends at the most iterations says so in a note
        self.end = "complete" if len(self.times) == len(asked) and len(self.run.notes) == said else "stopped"

    def _grid(self) -> list[float]:
        """From the first entry on, evenly in log t."""
        first = self.run.start.t0
        if not np.isfinite(first):
            return []
        return grid_of(first, first, self.run.alpha, self.method.t_end, self.run.notes, np.inf if self._jumps else MOST)

    @property
    def _jumps(self) -> bool:
        """Whether long stretches without events cost nothing: the solver then knows their end in closed form."""
        return self.task.squared and self.method.gauge.separable

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """The asked times after a knot."""
        times, run = [t for t in self.times if after is None or t > after.t], self.run
        if after is not None and "iteration" in after.state and int(after.state["iteration"]) >= 0:
            run = _resumed(self.problem, after)
        made = 0
        for snapshot in run.follow(times, stop):
            made += 1
            yield self._knot(snapshot)
        self.run.notes = run.notes
        self.status = self.end if made == len(times) else "interrupted"

    def _knot(self, snapshot: Snapshot) -> Knot:
        scaling = self.prepared.scaling
        rows = largest_first(snapshot.theta)
        positions, own, level = scaling.back(rows, snapshot.theta[rows], snapshot.intercept)
        atoms = tuple((int(j),) for j in positions)
        measures = {"size": float(len(rows)), "loss": float(self.task.weight.sum()) * snapshot.loss, "iteration": float(snapshot.iteration)}
        measures |= {"norm": float(np.abs(own).sum()), "step": float(snapshot.alpha)}
        state = {"pull": snapshot.pull}
        if self.keep_state:
            state |= {"iteration": np.array(snapshot.iteration), "alpha": np.array(snapshot.alpha), "pull_at": snapshot.state}
        return Knot(snapshot.t, atoms, tuple(self.task.columns.names[j] for j in positions), own, level, PENDING, measures, state)

    def finish(self, knots: Sequence[Knot]) -> Finished:
        """Duals of all columns recomputed from the rows, and how far each knot's coefficients are from what they say."""
        scale, kappa, gauge = self.prepared.scaling.scale, self.kappa, self.method.gauge
        width, scores = len(scale), self.problem.y.shape[1]
        duals = self._duals(knots)
        free = gauge.weight == 0
        worst, certified = 0.0, []
        for i, knot in enumerate(knots):
            theta = np.zeros((width, scores))
            rows = np.array([atom[0] for atom in knot.atoms], dtype=np.intp)
            theta[rows] = knot.coefficients * scale[rows][:, None]
            said = np.where(free[:, None], theta, kappa * gauge.shrink(duals[i]))
            worst = max(worst, float(np.abs(said - theta).max(initial=0.0)) / max(1.0, float(np.abs(theta).max(initial=0.0))))
            certified.append(replace(knot, certificate=self._claim(knot, worst, width), state={}))
        arrays = {"dual": duals, "scale": scale, "kappa": np.array(kappa), "pace": np.array([self.run.start.t0, self.run.kappa0])}
        return Finished(tuple(certified), tuple(self.run.notes), arrays, self.prepared.scaling.still)

    def _duals(self, knots: Sequence[Knot]) -> Array:
        """(knots, columns, scores) duals, from the pulls of all rows: a few products with many vectors rather than many with one."""
        pulls = np.array([knot.state["pull"] for knot in knots])
        base = self.run.dual(np.zeros_like(pulls[0]))
        count, rows, scores = pulls.shape
        found = np.asarray(self.prepared.design.score(pulls.transpose(1, 0, 2).reshape(rows, count * scores)))
        return np.asarray(found.reshape(-1, count, scores).transpose(1, 0, 2) + base)

    def _claim(self, knot: Knot, worst: float, width: int) -> Certificate:
        space = (
            f"up to here the coefficients are those that the duals of all {grouped(width)} columns, computed again from the rows, leave "
            f"(kappa = {kappa_said(self.method.kappa, self.kappa)}, step {self.run.alpha:.4g})"
        )
        reason = "" if worst <= TOLERANCE else "Standardise the columns, or give a smaller kappa."
        return Certificate(
            "inclusion residual", worst, 0.0, TOLERANCE, Scope(space, f"t = {knot.t:.4g}", len(knot.atoms), width), reason=reason
        )


def grid_of(first: float, scale: float, alpha: float, t_end: float | None, notes: list[str], most: float = MOST) -> list[float]:
    """Times from the first entry on, evenly in log t: to `t_end`, or to LONGEST times `scale` unless that takes too many iterations."""
    last = LONGEST * scale if t_end is None else t_end
    if t_end is None and (last - first) / alpha > most:
        last = first + most * alpha
        notes.append(
            f"The path ends at t = {last:.4g}, after {grouped(int(most))} iterations, each of which moves little; "
            "give t_max to follow it further, or a smaller kappa for longer steps."
        )
    return [float(t) for t in np.geomspace(first, last, POINTS)] if last > first else [first]


def within(times: list[float], last: float) -> list[float]:
    """Times up to the last one, if that is finite."""
    return [t for t in times if not t > last]


def unit_of(task: Task, prepared: Prepared) -> float:
    """What kappa is measured in: coefficients of a regression have the size of its target, those of other losses a size of their own.

    So that measuring the target in other units changes the path's clock and nothing else.
    """
    if not isinstance(task.loss, Squared | Huber):
        return 1.0
    weight = prepared.weight / prepared.weight.sum()
    middle = weight @ prepared.target
    return float(np.sqrt(weight @ ((prepared.target - middle) ** 2)[:, 0])) or 1.0


def kappa_said(asked: float, used: float) -> str:
    """kappa as it was asked for, and what it is measured in."""
    return f"{asked:g}" if used == asked else f"{asked:g} standard deviations of the target"


def _resumed(problem: BregmanProblem, after: Knot) -> LinearizedBregman:
    """A run that goes on from a journaled knot."""
    state = after.state
    return LinearizedBregman.resume(problem, Mark(int(state["iteration"]), float(state["alpha"]), state["pull_at"]))


@dataclass(frozen=True)
class Mark:
    """What resuming needs of a snapshot."""

    iteration: int
    alpha: float
    state: Array
