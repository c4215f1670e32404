"""Linearised Bregman iterations: the whole path of a sparse model, any smooth loss, any gauge.

With z = rho + theta / kappa, rho a subgradient of the gauge,

    z_{k+1} = z_k - alpha grad_theta L(theta_k, eta_k),  theta_{k+1} = kappa shrink(z_{k+1}),  eta_{k+1} = eta_k - kappa0 alpha grad_eta L.

Until t0 nothing has entered, and that phase is skipped exactly. Iterate k lives at time t0 + k alpha; in between z is linear, so any
time may be asked and the clock never depends on which. Large t is little regularised; 1 / t is what the lasso calls alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Design
from tamis.core.errors import TamisError
from tamis.core.structure import Gauge
from tamis.solvers.bregman_blocks import Pace, TooSteepError
from tamis.solvers.bregman_pool import Pool, Screen
from tamis.solvers.bregman_start import CURVATURE, NullModel, column_norms, largest_curvature, null_model
from tamis.solvers.bregman_walk import Course, Stretch, Walk

Array = NDArray[Any]
RESTARTS = 40


@dataclass(frozen=True)
class BregmanProblem:
    """What is followed: minimise sum of weight * loss(X theta + eta) along time, theta charged by a gauge.

    Attributes
    ----------
    design : Design
    loss : Loss
        Squared, Huber, Poisson, Logistic (y = +-1) or Multinomial (y one-hot).
    y, weight : arrays of shape (rows, classes) and (rows,)
        The weights sum to 1.
    gauge : Gauge
    kappa : float
        Damping: larger is nearer to the inverse scale space flow, and takes more iterations.
    intercept : bool
    alpha : float, optional
        The step; by default `relative_step` over the largest curvature.
    relative_step : float
        Below 2, where the loss never rises.
    kappa0 : float, optional
        The rate of the intercept.
    """

    design: Design
    loss: Any
    y: Array
    weight: Array
    gauge: Gauge
    kappa: float = 100.0
    intercept: bool = True
    alpha: float | None = None
    relative_step: float = 1.0
    kappa0: float | None = None

    def __post_init__(self) -> None:
        for name in ("kappa", "alpha", "relative_step", "kappa0"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise TamisError(f"{name}={value!r} cannot be used, so nothing was fitted; give a positive number.")
        if self.loss.name not in (*CURVATURE, "poisson"):
            raise TamisError(
                f"Bregman iterations cannot follow the loss {self.loss.name!r}, so nothing was fitted; "
                f"choose one of {', '.join((*CURVATURE, 'poisson'))}."
            )
        if self.y.shape[1] > 1 and self.loss.name != "multinomial":
            raise TamisError(
                f"y has {self.y.shape[1]} columns and the loss {self.loss.name!r} takes 1, so nothing was fitted; fit them one at a time."
            )
        if len(self.gauge.weight) != self.design.shape[1]:
            raise TamisError(
                f"the gauge knows {len(self.gauge.weight)} rows and X has {self.design.shape[1]} columns, so nothing was fitted; "
                "make them agree."
            )
        if abs(float(np.sum(self.weight)) - 1.0) > 1e-9:
            raise TamisError(f"the weights sum to {np.sum(self.weight):g}, so nothing was fitted; divide them by their sum.")


@dataclass(frozen=True)
class Start:
    """The end of the dead phase: until t0 the model is the null model; `gradient` is that of theta there."""

    t0: float
    theta: Array
    intercept: Array
    gradient: Array
    loss: float


@dataclass(frozen=True)
class Snapshot:
    """The model at one time.

    Attributes
    ----------
    t : float
    iteration : int
        Of the last iterate at or before t; -1 before t0.
    theta, intercept : arrays of shape (columns of X, classes) and (classes,)
    pull : array of shape (rows, classes)
        Minus the time integral of the loss gradient per row of X: the dual of every penalised row of theta is X'pull.
    loss : float
    alpha : float
        The step of the run.
    state : array
        The pull at the last iterate, from which a run can be resumed.
    """

    t: float
    iteration: int
    theta: Array
    intercept: Array
    pull: Array
    loss: float
    alpha: float
    state: Array = field(repr=False)
    _source: LinearizedBregman = field(repr=False, compare=False)

    @cached_property
    def dual(self) -> Array:
        """z = rho + theta / kappa, of shape (columns of X, classes)."""
        return self._source.dual(self.pull)


class Resumable(Protocol):
    """What resuming needs of a snapshot."""

    @property
    def iteration(self) -> int:
        """The last iterate at or before the snapshot."""
        ...

    @property
    def alpha(self) -> float:
        """The step of the run."""
        ...

    @property
    def state(self) -> Array:
        """The pull at that iterate."""
        ...


def never() -> bool:
    """Do not stop."""
    return False


class LinearizedBregman:
    """The iterates of a problem, computed on working sets and verified for all other rows.

    Parameters
    ----------
    problem : BregmanProblem

    Attributes
    ----------
    start : Start
    alpha : float
        The step in time between two iterates.
    notes : list of str
        What a reader of the path should know.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.design import Dense
    >>> from tamis.core.loss import Squared
    >>> from tamis.structures.gauges import Entry
    >>> X = np.sqrt(2) * np.eye(2)
    >>> y = X @ np.array([[3.0], [1.0]])
    >>> path = LinearizedBregman(BregmanProblem(Dense(X), Squared(), y, np.full(2, 0.5), Entry(np.ones(2)), 1e4, intercept=False))
    >>> round(path.start.t0, 6)
    0.333333
    >>> [snapshot.theta[:, 0].round(6).tolist() for snapshot in path.follow([0.3, 0.9, 1.1])]
    [[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]]
    """

    def __init__(self, problem: BregmanProblem) -> None:
        self._set_up(problem, None)

    def _set_up(self, problem: BregmanProblem, step: float | None) -> None:
        self.problem = problem
        self.notes: list[str] = []
        design, gauge, classes = problem.design, problem.gauge, problem.y.shape[1]
        free = np.flatnonzero(gauge.weight == 0)
        self._null: NullModel = null_model(design, problem.loss, problem.y, problem.weight, free, problem.intercept)
        theta = np.zeros((design.shape[1], classes))
        theta[free] = self._null.theta
        gradient = np.asarray(design.score(self._null.gradient))
        self._norms = column_norms(design, problem.weight)
        self._screen = Screen(design, self._norms, problem.weight)
        # below what rounding alone would leave there is no gradient
        noise = 1e-13 * np.sqrt(float((self._null.gradient**2 / np.maximum(problem.weight, 1e-300)[:, None]).sum()))
        level, quiet = gauge.dual_norm(-gradient), gauge.dual_norm(np.repeat(noise * self._norms[:, None], classes, axis=1))
        t0 = 1.0 / level if level > quiet else np.inf
        self.start = Start(t0, theta, self._null.intercept, gradient, self._null.loss)
        if t0 == np.inf:
            self.notes.append("Nothing penalised can lower the loss, so nothing ever enters: the path is the null model at every time.")
        self._choose_step(step)
        self._pool = Pool(design, problem.weight, problem.y if problem.loss.name == "squared" else None)
        self._resumed: tuple[int, Array] | None = None

    def _choose_step(self, step: float | None) -> None:
        """alpha, kappa0 and what the step assumes of the curvature."""
        problem = self.problem
        light = self._screen.light
        own = largest_curvature(problem.design, problem.weight, 0.0, light)
        ratio = (1.0 if problem.alpha is not None else own) if problem.kappa0 is None else problem.kappa0 / problem.kappa
        self.kappa0 = problem.kappa * ratio if problem.intercept else 0.0
        joint, self._curvature = own, own + 1.0
        if problem.intercept:
            lean = float(np.linalg.norm(problem.design.score(problem.weight)))
            joint = max(own, ratio) if lean <= 1e-10 * np.sqrt(own) else largest_curvature(problem.design, problem.weight, ratio, light)
        each = CURVATURE.get(problem.loss.name)
        if each is None:
            each = float(max(problem.y.max(), np.exp(self._scores_at_null().max())))
        limit = 2.0 / (problem.kappa * each * joint) if joint > 0 else np.inf
        relative = problem.relative_step if problem.alpha is None else 2.0 * problem.alpha / limit
        if relative >= 2.0:
            raise TamisError(
                f"alpha={problem.alpha:g} makes the iteration unstable, so nothing was fitted; give less than the largest stable alpha, "
                f"{limit:.6g}."
                if problem.alpha is not None
                else f"relative_step={problem.relative_step:g} makes the iteration unstable, so nothing was fitted; give less than 2."
            )
        self.alpha = problem.alpha or (0.5 * relative * limit if np.isfinite(limit) else 1.0)
        self._ceiling = np.inf if problem.loss.name in CURVATURE else float(np.log(each * 2.0 / relative) - 1e-12)
        if step is not None and step != self.alpha:
            self._ceiling += float(np.log(self.alpha / step))
            self.alpha = step

    def _scores_at_null(self) -> Array:
        free = self._null.free
        part = self.problem.design.dot(free, self._null.theta) if len(free) else 0.0
        return np.asarray(part + self._null.intercept)

    @classmethod
    def resume(cls, problem: BregmanProblem, snapshot: Resumable) -> LinearizedBregman:
        """Go on from a snapshot of the same problem: the same iterates as a run that was never interrupted."""
        run = cls.__new__(cls)
        run._set_up(problem, snapshot.alpha)
        if snapshot.iteration >= 0:
            run._resumed = snapshot.iteration, snapshot.state
        return run

    @cached_property
    def _base(self) -> Array:
        """Duals before any pull; free rows carry their coefficients, and lose what rounding left of their gradient."""
        free = self._null.free
        base = self.start.theta / self.problem.kappa
        if len(free) and np.isfinite(self.start.t0):
            base[free] += self.start.t0 * self.start.gradient[free]
        return base

    @property
    def _origin(self) -> Array:
        return -(self.start.t0 if np.isfinite(self.start.t0) else 0.0) * self._null.gradient

    @property
    def _course(self) -> Course:
        problem = self.problem
        pace = Pace(problem.kappa, self.alpha, self.kappa0, self._ceiling, self._curvature)
        return Course(
            problem.design, problem.loss, problem.y, problem.weight, problem.gauge, pace, self._base, self.start.intercept, self._origin,
            self._norms, self._screen,
        )  # fmt: skip

    def dual(self, pull: Array) -> Array:
        """z of every row of theta, from the pull."""
        return self._course.dual(pull)

    def iterate(self, k: int) -> Snapshot:
        """Iterate k, which lives at t0 + k alpha."""
        if k < 0:
            raise TamisError(f"iterate {k} does not exist; count from 0.")
        return next(iter(self._run([(self.start.t0 + k * self.alpha, k, 0.0)], never)))

    def follow(self, times: Sequence[float], stop: Callable[[], bool] = never) -> Iterator[Snapshot]:
        """The model at each of some times, which must not decrease; ends early when `stop` says so.

        Poisson loss has no largest curvature: when a run meets one above what its step allows for, it starts again with half the step.
        So that all models of a path come from one run, they are handed out together at its end.
        """
        asked = [float(t) for t in times]
        if any(not 0 <= t < np.inf for t in asked) or any(late < early for early, late in pairwise(asked)):
            raise TamisError(
                f"the times {asked[:5]} cannot be followed, so nothing was fitted; give finite times from 0 on that never decrease."
            )
        if np.isinf(self._ceiling):
            yield from self._run([self._placed(t) for t in asked], stop)
            return
        for _ in range(RESTARTS):
            try:
                yield from list(self._run([self._placed(t) for t in asked], stop))
                return
            except TooSteepError:
                self._halve()
        raise TamisError(f"after {RESTARTS} halvings of the step the loss is still too steep, so the path ends; standardise the columns.")

    def _halve(self) -> None:
        """Twice the curvature, half the step, from the beginning."""
        self.notes.append(
            f"With the step {self.alpha:.6g} the fitted means grew past what it allows for, so the run began again with half of it."
        )
        self.alpha *= 0.5
        self._ceiling += float(np.log(2.0))
        self._resumed = None

    def _placed(self, t: float) -> tuple[float, int, float]:
        """A time as (t, last iterate at or before it, time since)."""
        if t < self.start.t0:
            return t, -1, 0.0
        count = (t - self.start.t0) / self.alpha
        k = int(np.floor(count + 1e-12 + 4e-16 * count))
        return t, k, max(0.0, t - self.start.t0 - k * self.alpha)

    def _run(self, goals: list[tuple[float, int, float]], stop: Callable[[], bool]) -> Iterator[Snapshot]:
        """Snapshots at goals in order."""
        waiting = list(goals)
        while waiting and waiting[0][1] < 0:
            if stop():
                return
            yield self._null_snapshot(waiting.pop(0)[0])
        if not waiting:
            return
        course = self._course
        first, pull = self._resumed or (0, self._origin)
        if waiting[0][1] < first:
            raise TamisError(
                f"the time {waiting[0][0]:g} lies before the snapshot this run was resumed from, so it cannot be given; start a new run."
            )
        walk = Walk(course, self._pool, first, pull)
        while waiting:
            if stop():
                return
            stretch = walk.advance(waiting[-1][1] + 2)
            while waiting and (waiting[0][1] < stretch.last):
                yield self._snapshot(course, stretch, waiting.pop(0))
                if waiting and stop():
                    return

    def _null_snapshot(self, t: float) -> Snapshot:
        start = self.start
        return Snapshot(
            t, -1, start.theta.copy(), start.intercept.copy(), -t * self._null.gradient, start.loss, self.alpha, self._origin, self
        )

    def _snapshot(self, course: Course, stretch: Stretch, goal: tuple[float, int, float]) -> Snapshot:
        """The model `since` after iterate k, which lies in a verified stretch."""
        t, k, since = goal
        pace, gauge, rows, held = course.pace, course.gauge, stretch.rows, stretch.held
        state = pull = stretch.pull_at(k)
        part = gauge.restrict(rows)
        eta = course.eta(state)
        level = pace.kappa * part.shrink(course.base[rows] + held.score(state))
        score = held.dot(level) + eta
        if since > 0:
            pull = state - since * course.loss.gradient(score, course.y, course.weight)
            eta = course.eta(pull)
            level = pace.kappa * part.shrink(course.base[rows] + held.score(pull))
            score = held.dot(level) + eta
        theta = np.zeros(course.base.shape)
        theta[rows] = level
        if since > 0 and k == stretch.last - 1 and not stretch.quiet:
            # somebody outside the working set enters with the next iterate, perhaps before t
            theta = pace.kappa * gauge.shrink(course.dual(pull))
            score = course.design.dot(None, theta) + eta
        loss = float(course.loss.value(score, course.y, course.weight))
        return Snapshot(t, k, theta, np.array(eta), pull, loss, self.alpha, state, self)
