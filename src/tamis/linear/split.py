"""Split paths: sparse in D beta rather than in beta, exactly for least squares, by damped iterations for other losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.core.certificate import Certificate, Scope
from tamis.core.design import Dense, Design, Sparse
from tamis.core.errors import TamisError
from tamis.core.path import Knot
from tamis.core.structure import Gauge
from tamis.linear.damped import MOST, grid_of, kappa_said, unit_of, within
from tamis.linear.exact import ENDS, PENDING, TOLERANCE, Limits, event_of, grouped, nothing
from tamis.linear.method import Finished, Method, largest_first
from tamis.linear.prepare import Prepared, Setup, prepare
from tamis.linear.task import Task
from tamis.solvers.duals import DenseDuals
from tamis.solvers.inverse_scale import Event, InverseScale
from tamis.solvers.split import SplitQuadratic, nu_default
from tamis.solvers.split_lbi import SplitBregman, SplitProblem, SplitSnapshot, SplitState
from tamis.structures.transform import Transform, as_transform

Array = NDArray[Any]


@dataclass(frozen=True)
class Split:
    """What both split methods share: D with the names of its rows, how loosely gamma follows it, and what predicts."""

    transform: Transform
    names: tuple[str, ...]
    setup: Setup
    nu: float | None = None

    def shared(self, task: Task) -> None:
        """Folds share nothing."""

    def weights(self, knot: Knot) -> tuple[Array, Array]:
        """The dense coefficients predict."""
        beta = knot.state["beta"]
        return np.arange(len(beta)), beta

    def judged(self, knot: Knot) -> tuple[Array, Array, Array]:
        """What validation looks at: what the selection says and no more; dense coefficients fit well before anything is selected."""
        projected = self.projected(knot)
        return np.arange(len(projected)), projected, self.projected_level(knot, projected)

    def projected_level(self, knot: Knot, projected: Array) -> Array:
        """The intercept that goes with projected coefficients: columns are centred, so the mean prediction stays."""
        return np.asarray(knot.intercept + knot.state["center"] @ (knot.state["beta"] - projected))

    def candidates(self, task: Task) -> int:
        """How many pieces could be selected."""
        del task
        return self.transform.shape[0]

    def nu_of(self, prepared: Prepared, rooted: bool) -> float:
        """The asked nu, or the one at which neither data nor coupling rule."""
        if self.nu is not None:
            return self.nu
        matrix = matrix_of(prepared.design)
        if not rooted:  # then the rows do not carry their weights yet
            root = np.sqrt(prepared.weight)
            matrix = sparse.csr_array(matrix.multiply(root[:, None])) if sparse.issparse(matrix) else root[:, None] * matrix
        return nu_default(matrix, self.transform.matrix)

    def knot(self, t: float, beta: Array, gamma: Array, level: Array, state: Mapping[str, Array], measures: Mapping[str, float]) -> Knot:
        """A model: the rows of D that are not zero, and beside them the dense and the projected coefficients."""
        rows = largest_first(gamma)
        names = tuple(self.names[i] for i in rows)
        found = {"size": float(len(rows)), "norm": float(np.abs(gamma).sum()), **measures}
        return Knot(t, tuple((int(i),) for i in rows), names, gamma[rows], level, PENDING, found, {"beta": beta, **state})

    def arrays(self, knots: Sequence[Knot]) -> dict[str, Array]:
        """Dense and projected coefficients of every knot."""
        projected = [self.projected(knot) for knot in knots]
        levels = [self.projected_level(knot, found) for knot, found in zip(knots, projected, strict=True)]
        return {
            "beta": np.array([knot.state["beta"] for knot in knots]), "projected": np.array(projected), "projected_level": np.array(levels),
        }  # fmt: skip

    def losses(self, task: Task, arrays: Mapping[str, Array]) -> list[float]:
        """Training loss of every knot's projected model: information criteria judge what is selected, as validation does."""
        pairs = zip(arrays["projected"], arrays["projected_level"], strict=True)
        return [float(task.loss.value(task.columns.design.dot(None, beta) + level, task.target, task.weight)) for beta, level in pairs]

    def projected(self, knot: Knot) -> Array:
        """Coefficients that obey what is selected: D beta is zero off the support."""
        support = np.zeros((self.transform.shape[0], knot.coefficients.shape[1]), dtype=bool)
        support[[atom[0] for atom in knot.atoms]] = knot.coefficients != 0
        return self.transform.project(knot.state["beta"], support)


@dataclass(frozen=True)
class SplitExact(Split):
    """Exact split inverse scale space: beta at its best given gamma, gamma constant between events."""

    limits: Limits = field(default_factory=Limits)
    name: str = "split"

    def source(self, task: Task, times: Sequence[float] | None = None, share: Any = None) -> SplitExactSource:
        """The path of a training problem."""
        del times, share
        return SplitExactSource(task, self)


class SplitExactSource:
    """Knots of the exact split path."""

    def __init__(self, task: Task, method: SplitExact) -> None:
        self.task, self.method = task, method
        self.status, self.keep_state = "running", False
        self.prepared = prepare(task.columns, task.target, task.weight, method.setup, squared=True, rooted=True, whole=True)
        self.nu = method.nu_of(self.prepared, rooted=True)
        self.model = SplitQuadratic(matrix_of(self.prepared.design), self.prepared.target[:, 0], method.transform.matrix, self.nu)

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """One knot per event; the first one has no gamma, at time zero."""
        start = None if after is None or after.t == 0 else after.state["dual"]
        duals = DenseDuals(self.model, start=start)
        engine = InverseScale(duals, self.method.limits.t_end, self.method.limits.most, stop)
        if after is None:
            yield self._knot(nothing(), None)
        elif after.t > 0:
            engine.resume(event_of(after))
        for event in engine.events():
            yield self._knot(event, duals)
        self.status = ENDS[engine.status]

    def _knot(self, event: Event, duals: DenseDuals | None) -> Knot:
        gamma = event.dense(self.model.size)
        prepared = self.model.beta(gamma)[:, None]
        _, beta, level = self.prepared.scaling.back(np.arange(len(prepared)), prepared)
        state = {"center": self.prepared.scaling.center}
        if self.keep_state and duals is not None:
            state |= {
                "dual": duals.state(),
                "support": event.support,
                "values": event.values,
                "resting": event.resting,
                "signs": event.signs,
            }
        return self.method.knot(float(event.t), beta, gamma[:, None], level, state, {})

    def finish(self, knots: Sequence[Knot]) -> Finished:
        """Stationarity of beta, and the duals of gamma from (D beta - gamma) / nu alone, without the matrix the solver used."""
        design, D = matrix_of(self.prepared.design), self.method.transform.matrix
        target = self.prepared.target
        beta = np.column_stack([knot.state["beta"][:, 0] for knot in knots]) * self.prepared.scaling.scale[:, None]
        gamma = np.zeros((D.shape[0], len(knots)))
        for k, knot in enumerate(knots):
            gamma[[atom[0] for atom in knot.atoms], k] = knot.coefficients[:, 0]
        apart = np.asarray(D @ beta) - gamma
        residual = target - design @ beta
        slope = np.abs(np.asarray(D.T @ apart) / self.nu - np.asarray(design.T @ residual) / len(target)).max(axis=0, initial=0.0)
        worst = slope / max(float(np.abs(design.T @ target).max(initial=0.0)) / len(target), 1e-300)
        step = np.diff([knot.t for knot in knots])
        dual = np.zeros_like(apart)
        np.cumsum(apart[:, :-1] * (step / self.nu), axis=1, out=dual[:, 1:])
        sign = np.sign(gamma)
        worst = np.maximum(worst, np.abs(dual).max(axis=0, initial=0.0) - 1.0)
        worst = np.maximum(worst, np.where(sign != 0, np.abs(sign - dual), 0.0).max(axis=0, initial=0.0))
        worst[1:] = np.maximum(worst[1:], np.where(sign[:, :-1] != 0, np.abs(sign[:, :-1] - dual[:, 1:]), 0.0).max(axis=0, initial=0.0))
        worst = np.maximum.accumulate(worst)
        arrays = self.method.arrays(knots)
        loss = self.method.losses(self.task, arrays)
        rows = grouped(D.shape[0])
        what = f"beta is at its best given gamma, and no dual of {rows} rows of D leaves its bounds, those selected standing at it"
        certified = tuple(
            replace(
                knot, certificate=_claim(knot, float(worst[k]), what), measures={**knot.measures, "loss": loss[k]}, state={}
            )
            for k, knot in enumerate(knots)
        )  # fmt: skip
        return Finished(certified, (f"nu = {self.nu:.6g}.",), {**arrays, "nu": np.array(self.nu)})


@dataclass(frozen=True)
class SplitDamped(Split):
    """Split linearised Bregman iterations, for any loss and gauge."""

    gauge: Any = None
    kappa: float = 200.0
    alpha: float | None = None
    start: str = "equilibrium"
    t_end: float | None = None
    times: tuple[float, ...] | None = None
    name: str = "split damped"

    def source(self, task: Task, times: Sequence[float] | None = None, share: Any = None) -> SplitDampedSource:
        """The iterations of a training problem."""
        del share
        return SplitDampedSource(task, self, times if times is not None else self.times)

    def between(self, knots: Sequence[Knot], arrays: Mapping[str, Array]) -> SplitBetween:
        """How the model is read between two knots."""
        return SplitBetween(self, arrays, [knot.t for knot in knots])


@dataclass(frozen=True)
class SplitBetween:
    """The model between two knots: duals and dense coefficients move in straight lines."""

    method: SplitDamped
    arrays: Mapping[str, Array]
    times: list[float]

    def __call__(self, before: Knot, after: Knot, t: float) -> Knot:
        """The model at t."""
        share, i = (t - before.t) / (after.t - before.t), self.times.index(before.t)
        beta, dual = ((1 - share) * self.arrays[name][i] + share * self.arrays[name][i + 1] for name in ("beta", "dual"))
        level = (1 - share) * before.intercept + share * after.intercept
        gamma = float(self.arrays["kappa"]) * self.method.gauge.shrink(dual)
        return replace(self.method.knot(t, beta, gamma, level, {}, before.measures), certificate=before.certificate)


class SplitDampedSource:
    """Knots of split iterations at asked times; the first one at time zero."""

    def __init__(self, task: Task, method: SplitDamped, times: Sequence[float] | None) -> None:
        self.task, self.method = task, method
        self.status, self.keep_state = "running", False
        self.prepared = prepare(task.columns, task.target, task.weight, method.setup, squared=task.squared, whole=True)
        self.nu = method.nu_of(self.prepared, rooted=False)
        self.kappa = method.kappa * unit_of(task, self.prepared)
        self.problem = SplitProblem(
            self.prepared.design, task.loss, self.prepared.target, self.prepared.weight / self.prepared.rows, method.transform.matrix,
            self.nu,
            method.gauge, self.kappa, method.alpha, 1.0, method.start, method.setup.fit_intercept and not task.squared,
        )  # fmt: skip
        self.run = SplitBregman(self.problem)
        said = len(self.run.notes)
        asked = sorted({0.0, *(times if times is not None else self._grid())})
        free = method.t_end is None and method.times is None
        self.times = within(asked, self.run.start.t + 2 * MOST * self.run.alpha) if free else asked
        self.end = "complete" if len(self.times) == len(asked) and len(self.run.notes) == said else "stopped"

    def _grid(self) -> list[float]:
        """From the first entry on, evenly in log t; from a zero start, from the first step on."""
        first = self.run.start.t if self.run.start.t > 0 else self.run.alpha
        if not np.isfinite(first):
            return []
        scale = first if self.method.start == "equilibrium" else self._first_entry()
        return grid_of(first, scale, self.run.alpha, self.method.t_end, self.run.notes)

    def _first_entry(self) -> float:
        """When gamma would first move if beta were at its best from the beginning."""
        found = SplitBregman(replace(self.problem, start="equilibrium")).start.t
        return found if np.isfinite(found) else self.run.alpha

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """The asked times after a knot."""
        times = [t for t in self.times if after is None or t > after.t]
        made = 0
        for snapshot in self.run.follow(times, stop, None if after is None else _journaled(after)):
            made += 1
            yield self._knot(snapshot)
        self.status = self.end if made == len(times) else "interrupted"

    def _knot(self, snapshot: SplitSnapshot) -> Knot:
        _, beta, level = self.prepared.scaling.back(np.arange(len(snapshot.beta)), snapshot.beta, snapshot.intercept)
        measures = {"iteration": float(snapshot.iteration), "step": float(snapshot.state.alpha)}
        state = {"dual": snapshot.dual, "center": self.prepared.scaling.center}
        if self.keep_state:
            kept = snapshot.state
            state |= {"free": kept.free, "dual_at": kept.dual}
            state["clock"] = np.array([kept.origin, kept.origin_iteration, kept.alpha, kept.iteration])
        return self.method.knot(snapshot.t, beta, snapshot.gamma, level, state, measures)

    def finish(self, knots: Sequence[Knot]) -> Finished:
        """Whether gamma is what the gauge leaves of its dual at every knot."""
        worst, certified = 0.0, []
        rows = self.method.transform.shape[0]
        for knot in knots:
            gamma = np.zeros((rows, knot.coefficients.shape[1]))
            gamma[[atom[0] for atom in knot.atoms]] = knot.coefficients
            said = self.kappa * self.method.gauge.shrink(knot.state["dual"])
            worst = max(worst, float(np.abs(said - gamma).max(initial=0.0)) / max(1.0, float(np.abs(gamma).max(initial=0.0))))
            said_kappa = kappa_said(self.method.kappa, self.kappa)
            space = (
                f"gamma is what its dual leaves on all {grouped(rows)} rows of D (kappa = {said_kappa}, step {self.run.alpha:.4g}), which "
                "holds by construction; recheck() replays the iterations themselves"
            )
            certified.append(replace(knot, certificate=_claim(knot, worst, space), state={}))
        arrays = {**self.method.arrays(knots), "nu": np.array(self.nu), "kappa": np.array(self.kappa)}
        arrays["pace"] = np.array([self.run.start.t, 0.0])
        losses = self.method.losses(self.task, arrays)
        certified = [replace(knot, measures={**knot.measures, "loss": loss}) for knot, loss in zip(certified, losses, strict=True)]
        arrays["dual"] = np.array([knot.state["dual"] for knot in knots])
        return Finished(tuple(certified), (f"nu = {self.nu:.6g}.", *self.run.notes), arrays)


def _claim(knot: Knot, worst: float, what: str) -> Certificate:
    """The claim of one knot: everything up to it holds."""
    reason = "" if worst <= TOLERANCE else "Scale the columns, or give another nu."
    return Certificate(
        "inclusion residual", worst, 0.0, TOLERANCE, Scope(f"up to here {what}", f"t = {knot.t:.4g}", len(knot.atoms), 0), reason=reason
    )


def _journaled(knot: Knot) -> SplitSnapshot:
    """The snapshot behind a journaled knot, as far as going on needs it."""
    origin, origin_iteration, alpha, iteration = knot.state["clock"].tolist()
    state = SplitState(origin, int(origin_iteration), alpha, int(iteration), knot.state["free"], knot.state["dual_at"])
    return SplitSnapshot(knot.t, int(iteration), knot.state["beta"], knot.intercept, np.zeros(0), knot.state["dual"], 0.0, state)


def matrix_of(design: Design) -> Any:
    """A dense array of the prepared columns, or the sparse matrix itself where nothing was subtracted."""
    if isinstance(design, Dense | Sparse):
        return design.matrix
    scaled = getattr(design, "inner", None)
    center, scale = getattr(design, "center", None), getattr(design, "scale", None)
    if isinstance(scaled, Sparse) and center is not None and scale is not None and not np.any(center):
        return sparse.csr_array(scaled.matrix.multiply(1.0 / scale))
    return design.block(None)


def split_method(
    model: Any, names: Sequence[str], setup: Setup, limits: Limits, plain: bool, times: tuple[float, ...] | None, scores: int
) -> Method:
    """The split method that a model's parameters ask for; columns keep their own units, which D speaks of."""
    transform = as_transform(model.transformation, names)
    if setup.factors is not None or setup.one_sided is not None:
        raise TamisError(
            "penalty_factor and nonnegative are about columns, and a transformation selects rows of D, so nothing was fitted; drop one."
        )
    setup = Setup(setup.fit_intercept, standardize=False)
    rows = transform.names(names)
    nu = None if model.nu in (None, "auto") else float(model.nu)
    if plain:
        return SplitExact(transform, rows, setup, nu, limits)
    from tamis.linear.parameters import SPLIT_KAPPA, gauge_of

    gauge: Gauge = gauge_of(model, rows, np.ones(len(rows)), None, scores)
    step = getattr(model, "step", "auto")
    kappa = getattr(model, "kappa", None) or SPLIT_KAPPA
    return SplitDamped(
        transform, rows, setup, nu, gauge, float(kappa), None if step == "auto" else float(step), getattr(model, "start", "equilibrium"),
        None if model.t_max is None else float(model.t_max), times,
    )  # fmt: skip
