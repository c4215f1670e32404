"""Split linearised Bregman iterations: a sparse gamma follows D beta while beta fits, for every smooth loss and any gauge.

    beta_{k+1}  = beta_k - kappa alpha (gradient of the loss - D'd_k),      d_k = (gamma_k - D beta_k) / nu
    z_{k+1}     = z_k - alpha d_k
    gamma_{k+1} = kappa shrink(z_{k+1})

Both lines use d_k. The intercept is a coordinate of beta that D does not see. Iterate k lives at t0 + k alpha, and between
iterates beta and z are linear, so the clock depends neither on the step nor on the times asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.core.errors import TamisError
from tamis.solvers.split_normal import spectral_norm
from tamis.solvers.split_smooth import Smooth, equilibrium

Floats = NDArray[np.float64]
RISE = 1e-11  # relative to the loss at the start: what rounding may add to a loss that never rises
UNSEEN = 1e-12  # D beta* smaller than this, relative to what it is made of, is rounding
SMALL = 50_000  # entries up to which D is held dense: products of tiny sparse matrices are all overhead
LOOKED = 16  # iterations between two looks at `stop`
STARTS = ("equilibrium", "zero")


class GammaGauge(Protocol):
    """What gamma pays, for arrays (rows of D, classes)."""

    def shrink(self, dual: Floats) -> Floats:
        """The proximal point at threshold 1."""
        ...

    def dual_norm(self, values: Floats) -> float:
        """The largest over the pieces."""
        ...


def never() -> bool:
    """The default for `stop`."""
    return False


@dataclass(frozen=True)
class SplitProblem:
    """A loss of X beta + intercept, coupled to a sparse gamma by ||D beta - gamma||^2 / (2 nu).

    Parameters
    ----------
    X : array, sparse matrix, or a design of tamis.core.design
        One row per target; a design that is neither dense nor sparse is written out.
    loss, y, weight
        A smooth loss of tamis.core.loss, its targets (n, classes), and positive weights (n,) that sum to 1.
    D : sparse matrix of shape (m, columns)
        The transform.
    nu, kappa : float
        How loosely gamma follows D beta; how little gamma is damped.
    gauge : GammaGauge
        What gamma pays.
    alpha : float, optional
        Length of a step in time; else relative_step / (kappa * curvature bound).
    relative_step : float
        Below 2, where the loss could rise.
    start : {"equilibrium", "zero"}
        The fit without gamma, at the time at which gamma is about to move; or nothing at all, at time 0.
    intercept : bool
        Whether scores have a free constant per class.
    """

    X: Any
    loss: Any
    y: Floats
    weight: Floats
    D: Any
    nu: float
    gauge: GammaGauge
    kappa: float
    alpha: float | None = None
    relative_step: float = 1.0
    start: str = "equilibrium"
    intercept: bool = True

    def __post_init__(self) -> None:
        for name in ("nu", "kappa", "alpha", "relative_step"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise TamisError(f"{name}={value!r} is not a finite number above 0, so nothing was fitted; give one.")
        if self.relative_step >= 2:
            raise TamisError(f"relative_step={self.relative_step!r} lets the loss rise, so nothing was fitted; give a number below 2.")
        if self.start not in STARTS:
            raise TamisError(f"start={self.start!r} is not known, so nothing was fitted; use 'equilibrium' or 'zero'.")
        if np.any(np.asarray(getattr(self.gauge, "weight", 1.0)) == 0):
            raise TamisError("A row of the transform has weight 0, so gamma would copy it and couple nothing; leave that row out.")
        rows, columns = self.X.shape
        if self.y.ndim != 2 or self.y.shape[0] != rows or self.weight.shape != (rows,) or self.D.shape[1] != columns:
            raise TamisError(
                f"X has shape {tuple(self.X.shape)}, y {self.y.shape}, the weights {self.weight.shape} and the transform {self.D.shape}, "
                "which do not fit together; give one target row and weight per row of X and one column of the transform per column."
            )


@dataclass(frozen=True)
class SplitState:
    """An iterate, with the clock it was made by: enough to go on exactly."""

    origin: float
    origin_iteration: int
    alpha: float
    iteration: int
    free: Floats
    dual: Floats

    @property
    def t(self) -> float:
        """When this iterate lives."""
        return self.origin + (self.iteration - self.origin_iteration) * self.alpha


@dataclass(frozen=True)
class SplitSnapshot:
    """What is known at time t; `iteration` is the last iterate at or before it, kept in `state`."""

    t: float
    iteration: int
    beta: Floats
    intercept: Floats
    gamma: Floats
    dual: Floats
    loss: float
    state: SplitState


@dataclass(frozen=True)
class SplitStart:
    """Where a run begins: the first iterate and its time, infinite when gamma never moves."""

    t: float
    beta: Floats
    intercept: Floats
    dual: Floats


@dataclass(frozen=True)
class _Iterate:
    """A state with what the next step needs."""

    state: SplitState
    gamma: Floats
    loss: float
    free_slope: Floats
    dual_slope: Floats


class _RisingError(ArithmeticError):
    """The loss rose: the step was too long."""


class SplitBregman:
    """The iterations of a problem, asked for at any times.

    Attributes
    ----------
    start : SplitStart
        Where the run begins.
    alpha : float
        The step in use; counts may halve it.
    largest_alpha : float
        Steps must stay below this.
    notes : list of str
        What a user should know of the run.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.loss import Squared
    >>> from tamis.solvers.split_lbi import SplitBregman, SplitProblem
    >>> class Entry:
    ...     def shrink(self, dual):
    ...         return dual - np.clip(dual, -1, 1)
    ...     def dual_norm(self, values):
    ...         return float(np.abs(values).max())
    >>> y, weight = np.array([[2.0], [6.0]]), np.full(2, 0.5)
    >>> run = SplitBregman(SplitProblem(np.eye(2), Squared(), y, weight, np.eye(2), 2.0, Entry(), kappa=1000.0, intercept=False))
    >>> round(run.start.t, 3)
    0.667
    >>> [snapshot.gamma.ravel().round(2) for snapshot in run.follow([0.5, 1.0, 5.0])]
    [array([0., 0.]), array([0., 6.]), array([2., 6.])]
    """

    def __init__(self, problem: SplitProblem) -> None:
        self.problem = problem
        self.notes: list[str] = []
        D = sparse.csr_array(problem.D, dtype=np.float64)
        A = _matrix(problem.X)
        if problem.intercept:
            ones = np.ones((A.shape[0], 1))
            A = sparse.csr_array(sparse.hstack([A, ones])) if sparse.issparse(A) else np.column_stack([A, ones])
            D = sparse.csr_array((D.data, D.indices, D.indptr), shape=(D.shape[0], A.shape[1]))
        self._part = Smooth(A, problem.loss, problem.y, problem.weight)
        self._D: Any = D.toarray() if D.shape[0] * D.shape[1] <= SMALL else D
        self._Dt: Any = np.ascontiguousarray(self._D.T) if isinstance(self._D, np.ndarray) else sparse.csr_array(D.T)
        free, dual, begin = self._begin(D)
        self._slack = RISE * self._part.worth
        curvature = self._part.curvature_norm(free) + (1.0 + spectral_norm(D) ** 2) / problem.nu
        self.largest_alpha = 2.0 / (problem.kappa * curvature)
        if problem.alpha is not None and problem.alpha >= self.largest_alpha:
            raise TamisError(
                f"alpha={problem.alpha!r} is too long a step, so the loss could rise; "
                f"stay below {self.largest_alpha:.6g}, the largest stable one, or leave alpha out."
            )
        self.alpha = 0.5 * problem.relative_step * self.largest_alpha if problem.alpha is None else float(problem.alpha)
        self._beginning = SplitState(begin, 0, self.alpha, 0, free, dual)
        self.start = SplitStart(begin, *self._parted(free), dual)

    def _begin(self, D: Any) -> tuple[Floats, Floats, float]:
        """First coefficients, first dual and its time."""
        problem = self.problem
        nothing = np.zeros((D.shape[0], problem.y.shape[1]))
        if problem.start == "zero":
            return self._part.zero.copy(), nothing, 0.0
        free = equilibrium(self._part, D, problem.nu)
        pull = np.asarray(D @ free / problem.nu)
        scale = max(self._part.force, float((abs(D).T @ (abs(D) @ np.abs(free))).max(initial=0.0)) / problem.nu)
        force = problem.gauge.dual_norm(pull)
        if np.abs(D.T @ pull).max(initial=0.0) <= UNSEEN * scale or force == 0.0:
            self.notes.append("Nothing pulls gamma away from 0, so the path is empty: the fit without it is final.")
            return free, nothing, float("inf")
        return free, pull / force, 1.0 / force

    def _parted(self, free: Floats) -> tuple[Floats, Floats]:
        """Coefficients of the columns, and the intercept."""
        if not self.problem.intercept:
            return free.copy(), np.zeros(free.shape[1])
        return free[:-1].copy(), free[-1].copy()

    def _iterate(self, state: SplitState) -> _Iterate:
        """A state with gamma, loss and slopes; the first iterate has gamma = 0 by definition, whatever rounding says."""
        kappa, nu = self.problem.kappa, self.problem.nu
        gamma = np.zeros_like(state.dual) if state.iteration == 0 else kappa * self.problem.gauge.shrink(state.dual)
        apart = (gamma - self._D @ state.free) / nu
        value, gradient = self._part.both(state.free)
        loss = value + 0.5 * nu * float(np.vdot(apart, apart))
        return _Iterate(state, gamma, loss, -kappa * (gradient - self._Dt @ apart), -apart)

    def _next(self, now: _Iterate) -> _Iterate:
        state, alpha = now.state, self.alpha
        moved = replace(
            state, iteration=state.iteration + 1, free=state.free + alpha * now.free_slope, dual=state.dual + alpha * now.dual_slope
        )
        then = self._iterate(moved)
        if not then.loss <= now.loss + self._slack + RISE * abs(now.loss):
            raise _RisingError(f"The loss rose from {now.loss!r} to {then.loss!r} at iteration {moved.iteration}.")
        return then

    def follow(
        self, times: Sequence[float], stop: Callable[[], bool] = never, after: SplitSnapshot | None = None
    ) -> Iterator[SplitSnapshot]:
        """Snapshots at the times, in ascending order; ends early when told to stop.

        Parameters
        ----------
        times : sequence of float
            Any; the iterates do not depend on them.
        stop : callable
            Looked at every few iterations.
        after : SplitSnapshot, optional
            Go on from its iterate instead of from the start.
        """
        base = self._beginning if after is None else after.state
        self.alpha = base.alpha
        now = self._iterate(base)
        for goal in _ascending(times):
            if base.iteration > 0 and goal < base.t:
                raise TamisError(f"t={goal!r} lies before {base.t!r}, where this run goes on, so it is not known here; start afresh.")
            while True:
                try:
                    arrived = self._until(now, goal, stop)
                except _RisingError:
                    if self._part.bounded:
                        raise
                    base = self._halved(base)
                    now = self._iterate(base)
                    continue
                break
            if arrived is None:
                return
            now = arrived
            yield self._snapshot(now, goal)

    def _until(self, now: _Iterate, goal: float, stop: Callable[[], bool]) -> _Iterate | None:
        """The last iterate at or before the goal; None when stopped."""
        state = now.state
        while state.origin + (state.iteration + 1 - state.origin_iteration) * self.alpha <= goal:
            if state.iteration % LOOKED == 0 and stop():
                return None
            now = self._next(now)
            state = now.state
        return now

    def _halved(self, base: SplitState) -> SplitState:
        """The same beginning with half the step; for counts, whose curvature has no bound."""
        self.alpha = base.alpha / 2
        self.notes.append(
            f"The loss rose, as rates outgrew the guess of their curvature; begun again with half the step, {self.alpha:.6g}."
        )
        if base.alpha / self._beginning.alpha < 1e-12:
            raise TamisError("No step is short enough for the loss to fall, so the run has no meaning; scale the columns of X.")
        renewed = replace(base, origin=base.t, origin_iteration=base.iteration, alpha=self.alpha)
        if base.iteration == 0:
            self._beginning = renewed
        return renewed

    def _snapshot(self, now: _Iterate, t: float) -> SplitSnapshot:
        """Between iterates beta and z are linear; before the first one gamma is 0 and z grows from 0."""
        state, problem = now.state, self.problem
        if t <= state.t and state.iteration == 0:
            share = t / state.t if 0 < state.t < np.inf else 0.0
            free, dual, gamma, loss = state.free, share * state.dual, np.zeros_like(state.dual), now.loss
            if state.t == np.inf:
                dual = np.zeros_like(dual)
        else:
            ahead = t - state.t
            free = state.free + ahead * now.free_slope
            dual = state.dual + ahead * now.dual_slope
            gamma = now.gamma if ahead == 0 else problem.kappa * problem.gauge.shrink(dual)
            apart = gamma - self._D @ free
            loss = now.loss if ahead == 0 else self._part.value(free) + 0.5 * float(np.vdot(apart, apart)) / problem.nu
        return SplitSnapshot(float(t), state.iteration, *self._parted(free), gamma.copy(), dual.copy(), loss, state)


def _matrix(X: Any) -> Any:
    """An array or a sparse matrix, whatever the design."""
    held = X if sparse.issparse(X) or isinstance(X, np.ndarray) else getattr(X, "matrix", None)
    if held is None:
        held = X.block(None)
    return sparse.csr_array(held, dtype=np.float64) if sparse.issparse(held) else np.asarray(held, dtype=np.float64)


def _ascending(times: Sequence[float]) -> list[float]:
    """The times in order, or a sentence."""
    goals = sorted(float(t) for t in times)
    for t in goals:
        if not (np.isfinite(t) and t >= 0):
            raise TamisError(f"t={t!r} is no time on a path, so nothing can be given there; ask for finite times from 0 on.")
    return goals
