"""The exact inverse scale space path of a prepared least squares problem, as knots with certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate, Scope
from tamis.core.design import Dense, column_blocks
from tamis.core.path import Knot
from tamis.linear.inclusion import Residuals, inclusion
from tamis.linear.method import Finished, own_weights
from tamis.linear.prepare import Prepared, Scaling, Setup, prepare
from tamis.linear.task import Task
from tamis.solvers.duals import ColumnQuadratic, DenseDuals, Duals, GramQuadratic, LazyDuals
from tamis.solvers.inverse_scale import Event, InverseScale

Array = NDArray[Any]
TOLERANCE = 1e-8
SMALL = 2_000_000  # cells up to which speeds are taken from the rows themselves
MOST_SQUARE = 6000  # columns up to which all their products are computed beforehand
REPRODUCED = 1e-7  # share of a column that may be left outside the selected ones' span
MOST_NAMED = 20
PENDING = Certificate("none", float("nan"), float("nan"), TOLERANCE, reason="it is checked when the path has ended.")
ENDS = {"time": "stopped", "size": "stopped", "complete": "complete", "asked": "interrupted"}


@dataclass(frozen=True)
class Limits:
    """Where a path ends at the latest."""

    t_end: float = np.inf
    most: int | None = None


@dataclass(frozen=True)
class Exact:
    """The exact path: the method of `InverseScaleRegressor`, and of `BregmanRegressor` while no damping is asked for."""

    setup: Setup = field(default_factory=Setup)
    limits: Limits = field(default_factory=Limits)
    noise: bool = False  # whether the choice will ask how much any column still correlates with the residual
    name: str = "exact"

    def source(self, task: Task, times: Sequence[float] | None = None, share: SharedGram | None = None) -> ExactSource:
        """The path of a training problem; `share` knows the products of all columns of the whole one."""
        del times  # events come when they come
        if share is not None:
            return ExactSource(task, self, share.scaling_and_gram(task.weight))
        return ExactSource(task, self)

    def shared(self, task: Task) -> SharedGram | None:
        """Products of columns, computed once for all folds; None where folds are better off without."""
        rows, columns = task.columns.design.shape
        plain = isinstance(task.columns.design, Dense) and self.setup.factors is None and self.setup.fit_intercept
        return SharedGram.of(task, self.setup) if plain and columns <= min(rows, MOST_SQUARE) and rows * columns > SMALL else None

    def weights(self, knot: Knot) -> tuple[Array, Array]:
        """Columns and coefficients of a knot."""
        return own_weights(knot)

    def judged(self, knot: Knot) -> tuple[Array, Array, Array]:
        """What validation looks at: the model itself."""
        return (*own_weights(knot), knot.intercept)

    def candidates(self, task: Task) -> int:
        """How many pieces could be selected."""
        return len(task.columns)


class ExactSource:
    """Knots of the exact path, from zero or from where a journal ends."""

    def __init__(self, task: Task, method: Exact, known: tuple[Scaling, tuple[Array, Array, float]] | None = None) -> None:
        self.task, self.method, self.known = task, method, known
        self.status, self.keep_state = "running", False
        self.prepared: Prepared | None = None
        if known is None:
            self.prepared = prepare(task.columns, task.target, task.weight, method.setup, squared=True, rooted=True)
        self.scaling = known[0] if self.prepared is None and known is not None else self._prepared.scaling
        one_sided = method.setup.one_sided
        self.one_sided = None if one_sided is None else one_sided[self.scaling.kept]
        self.rested: set[int] = set()

    @property
    def _prepared(self) -> Prepared:
        assert self.prepared is not None
        return self.prepared

    def duals(self, start: Array | None = None) -> Duals:
        """All duals at every event where that is cheap, close ones and a bound on the others where it is not."""
        if self.known is not None:
            return DenseDuals(GramQuadratic(*self.known[1]), self.one_sided, start)
        prepared, (rows, columns) = self._prepared, self._prepared.design.shape
        target = prepared.target[:, 0]
        if columns <= rows and isinstance(prepared.design, Dense) and rows * columns <= SMALL:
            return DenseDuals(ColumnQuadratic(prepared.design.matrix, target), self.one_sided, start)
        if columns <= min(rows, MOST_SQUARE):
            return DenseDuals(GramQuadratic(*gram_of(prepared)), self.one_sided, start)
        return LazyDuals(prepared.design, target, self.one_sided, start)

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """One knot per event; the first one holds nothing, at time zero."""
        duals = self.duals(None if after is None or after.t == 0 else after.state["dual"])
        limits = self.method.limits
        engine = InverseScale(duals, limits.t_end, limits.most, stop)
        if after is None:
            yield self._knot(nothing(), None)
        elif after.t > 0:
            engine.resume(event_of(after))
        for event in engine.events():
            self.rested |= set(event.resting.tolist())
            yield self._knot(event, duals)
        self.status = ENDS[engine.status]

    def _knot(self, event: Event, duals: Duals | None) -> Knot:
        """An event in the columns' own units."""
        order = np.argsort(-np.abs(event.values), kind="stable")
        positions, values, level = self.scaling.back(event.support[order], event.values[order, None])
        state = {}
        if self.keep_state and duals is not None:
            state = {
                "dual": duals.state(),
                "support": event.support,
                "values": event.values,
                "resting": event.resting,
                "signs": event.signs,
            }
        atoms = tuple((int(j),) for j in positions)
        names = tuple(self.task.columns.names[j] for j in positions)
        return Knot(float(event.t), atoms, names, values, level, PENDING, {"size": float(len(atoms))}, state)

    def finish(self, knots: Sequence[Knot]) -> Finished:
        """The knots with what their residuals say, and notes on columns that repeat others."""
        found = inclusion(knots, self._prepared, self.one_sided, everyone=self.method.noise)
        certified = (_with_claim(knot, k, found, len(self.scaling.kept), float(self.task.weight.sum())) for k, knot in enumerate(knots))
        return Finished(tuple(certified), tuple(self._notes(knots)), still=self.scaling.still)

    def _notes(self, knots: Sequence[Knot]) -> list[str]:
        """Columns that waited at their bound and never got a coefficient, because selected ones reproduce them."""
        names, kept = self.task.columns.names, self.scaling.kept
        place = {int(j): i for i, j in enumerate(kept)}
        held = sorted({place[atom[0]] for knot in knots for atom in knot.atoms if atom[0] in place})
        late = sorted(self.rested - set(held))[:MOST_NAMED]
        if not held or not late:
            return []
        selected, waiting = (self._prepared.design.block(np.array(some)) for some in (held, late))
        share = np.linalg.lstsq(selected, waiting, rcond=None)[0]
        left = np.linalg.norm(waiting - selected @ share, axis=0) / np.linalg.norm(waiting, axis=0)
        alike = np.abs(selected.T @ waiting).argmax(axis=0)
        return [
            f"Column {names[kept[j]]!r} is reproduced by columns already selected (most like {names[kept[held[alike[i]]]]!r}), so it got "
            "no coefficient of its own: fitted values are unique, these coefficients are not."
            for i, j in enumerate(late)
            if left[i] <= REPRODUCED
        ]


@dataclass(frozen=True)
class SharedGram:
    """Products of all columns on all rows, from which those of a fold are what is left without its held-out rows.

    Columns are centred on the whole table's means first, so that what is subtracted is small and no digits are lost.
    """

    columns: Array
    target: Array
    weight: Array
    center: Array
    mean: Array
    gram: Array
    linear: Array
    power: float
    standardize: bool

    @classmethod
    def of(cls, task: Task, setup: Setup) -> SharedGram:
        """From the whole problem."""
        assert isinstance(task.columns.design, Dense)
        share = task.weight / task.weight.sum()
        center, mean = share @ task.columns.design.matrix, share @ task.target
        columns, target = task.columns.design.matrix - center, (task.target - mean)[:, 0]
        weighted = task.weight[:, None] * columns
        return cls(
            columns, target, task.weight, center, mean, weighted.T @ columns, weighted.T @ target, float(task.weight @ target**2),
            setup.standardize,
        )  # fmt: skip

    def scaling_and_gram(self, weight: Array) -> tuple[Scaling, tuple[Array, Array, float]]:
        """The problem of a fold, given its training weights on all rows."""
        out = np.flatnonzero(weight != self.weight)
        lost, total = (self.weight - weight)[out], float(weight.sum())
        part, goal = self.columns[out], self.target[out]
        weighted = lost[:, None] * part
        shift, level = -(lost @ part) / total, -float(lost @ goal) / total
        gram = (self.gram - weighted.T @ part) / total - np.outer(shift, shift)
        linear = (self.linear - weighted.T @ goal) / total - shift * level
        power = max((self.power - float(lost @ goal**2)) / total - level**2, 0.0)
        spread = np.sqrt(np.maximum(np.diag(gram), 0.0))
        varies = spread > 1e-12 * np.maximum(np.abs(self.center + shift), 1e-300)
        scale = np.where(varies, spread, 1.0) if self.standardize else np.ones(len(spread))
        kept = np.flatnonzero(varies)
        scaling = Scaling(kept, (self.center + shift)[kept], scale[kept], self.mean + level, still=np.flatnonzero(~varies))
        inside = np.ix_(kept, kept)
        return scaling, ((gram / np.outer(scale, scale))[inside], (linear / scale)[kept], float(np.sqrt(power)))


def gram_of(prepared: Prepared) -> tuple[Array, Array, float]:
    """(H, q, unit) of the least squares problem."""
    design, rows = prepared.design, prepared.rows
    target = prepared.target[:, 0]
    if isinstance(design, Dense):
        matrix = design.gram()
    else:
        columns = design.shape[1]
        matrix = np.empty((columns, columns))
        for run in column_blocks(columns, rows):
            matrix[:, run] = design.score(design.block(run))
        matrix = 0.5 * (matrix + matrix.T)
    return matrix / rows, design.score(target) / rows, float(np.linalg.norm(target)) / np.sqrt(rows)


def nothing() -> Event:
    """Time zero, before anything has entered."""
    empty = np.zeros(0, dtype=np.intp)
    return Event(0.0, empty, np.zeros(0), empty, np.zeros(0))


def event_of(knot: Knot) -> Event:
    """The event behind a journaled knot."""
    state = knot.state
    support, resting = state["support"].astype(np.intp), state["resting"].astype(np.intp)
    return Event(knot.t, support, state["values"], resting, state["signs"])


def _with_claim(knot: Knot, k: int, found: Residuals, columns: int, rows_weight: float) -> Knot:
    """The claim of one knot: everything up to it holds."""
    space = (
        f"up to here no dual of {grouped(columns)} columns leaves its bounds, and those of selected ones stand at the bound of their sign"
    )
    reason = "" if found.worst[k] <= TOLERANCE else "Standardise the columns, or leave out those that nearly repeat others."
    scope = Scope(space, f"t = {knot.t:.4g}", len(knot.atoms), columns)
    certificate = Certificate("inclusion residual", float(found.worst[k]), 0.0, TOLERANCE, scope, reason=reason)
    measures = {
        **knot.measures, "loss": 0.5 * rows_weight * float(found.mean_square[k]), "dual_error": float(found.dual_error[k]),
        "norm": float(np.abs(knot.coefficients).sum()),
    }  # fmt: skip
    if np.isfinite(found.largest[k]):
        measures["largest"] = float(found.largest[k])
    return replace(knot, certificate=certificate, measures=measures, state={})


def grouped(count: int) -> str:
    """12 345 rather than 12345."""
    return f"{count:,}".replace(",", " ")
