"""How a linear path is fitted: the path, the same on folds, and the choice of a knot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.choose import choose, fold_scores, instability, with_facts
from tamis.core.chunked import Chunked
from tamis.core.design import Sparse
from tamis.core.follow import Observer, Stream, Watch
from tamis.core.path import Knot, Path
from tamis.linear.method import Finished, Method
from tamis.linear.task import LIKELIHOODS, SCORINGS, Task, some_rows
from tamis.scale.executor import executor
from tamis.store.knots import Section
from tamis.tables.folds import fold_weights, halves, matrix_hashes

Array = NDArray[Any]
SUBSAMPLES = 20
CELLS = 4_000_000  # predictions held at once while a fold is judged


@dataclass(frozen=True)
class Plan:
    """Everything a fit needs, decided before any solving."""

    task: Task
    method: Method
    by: str | float
    cv: Any = 5
    seed: int = 0
    watch: Watch = field(default_factory=Watch)
    observe: Sequence[Observer] = ()
    journal: Any = None
    sigma: float | None = None
    n_jobs: int = 1

    def elsewhere(self) -> Plan:
        """The plan as another process can be given it: with the time that is left, and nobody to tell."""
        left = None if self.watch.deadline is None else max(0.0, self.watch.deadline - time.monotonic())
        return replace(self, watch=Watch(left), observe=(), journal=None)


@dataclass(frozen=True)
class Fitted:
    """A path with the position chosen on it, how it was chosen, and what belongs to its knots."""

    path: Path
    chosen: int
    by: str | float
    finished: Finished

    @property
    def knot(self) -> Knot:
        """The chosen knot."""
        return self.path.knots[self.chosen]


def fit_path(plan: Plan) -> Fitted:
    """Follow, validate, choose."""
    used = plan.task.part(plan.task.weight)
    source = plan.method.source(used)
    source.keep_state = plan.journal is not None
    knots, status = _followed(plan, source, "path")
    finished = source.finish(knots)
    loss, candidates = plan.task.loss.name, plan.method.candidates(plan.task)
    path = Path(finished.knots, status, "t", notes=finished.notes)
    path = with_facts(
        path, rows=float(plan.task.weight.sum()), candidates=float(candidates), likelihood=LIKELIHOODS.get(loss), loss=loss,
        scoring=SCORINGS[loss], log_candidates=float(np.log(max(1, candidates))), sigma=plan.sigma, interpolation=plan.method.name,
    )  # fmt: skip
    if plan.by in ("cv", "cv-best") and len(path) > 1 and not plan.watch.stop():
        path = replace(path, scores=_validated(plan, path))
    if plan.by == "stability" and len(path) > 1:
        found = _instability(plan, path, candidates)
        path = path if found is None else replace(path, scores={**path.scores, "instability": found})
    by = _possible(path, plan.by)
    return Fitted(path, choose(path, by), by, finished)


def _followed(plan: Plan, source: Any, phase: str) -> tuple[list[Knot], str]:
    section = None if plan.journal is None else Section(plan.journal, phase)
    stream = Stream(source, plan.watch, plan.observe, section, phase)
    knots = list(stream)
    return knots, stream.status


def _possible(path: Path, by: str | float) -> str | float:
    """The choice asked for, or what can stand in for it when there was no time or nothing to validate on."""
    if len(path) <= 1:
        return "last"
    unvalidated = by in ("cv", "cv-best") and not len(path.scores.get("mean", ()))
    if unvalidated or (by == "stability" and "instability" not in path.scores):
        return "ebic" if path.provenance.get("likelihood") and path.status not in ("interrupted", "budget") else "last"
    return by


# ---- folds --------------------------------------------------------------------------------------------------
def hashes_of(task: Task, seed: int) -> Any:
    """What tells equal rows from others, whatever holds them."""
    design = task.columns.design
    blocks: Iterator[tuple[slice, Array]]
    if isinstance(design, Chunked):
        blocks = design.parts()
    elif isinstance(design, Sparse):
        rows, step = design.matrix.tocsr(), max(1, CELLS // max(1, design.shape[1]))
        blocks = (
            (slice(first, min(first + step, design.shape[0])), rows[first : first + step].toarray())
            for first in range(0, design.shape[0], step)
        )
    else:
        blocks = iter([(slice(0, design.shape[0]), np.ascontiguousarray(design.block()))])
    return matrix_hashes(blocks, design.shape[0], task.target, seed)


def _validated(plan: Plan, path: Path) -> dict[str, Array]:
    """Errors on folds, at the knots and wherever any fold's path changes; empty when there is nothing to validate on."""
    task, times = plan.task, path.t
    folds = fold_weights(hashes_of(task, plan.seed), task.codes, task.weight, plan.cv)
    work = FoldWork(plan if plan.n_jobs == 1 else plan.elsewhere(), tuple(float(t) for t in times), plan.method.shared(task))
    curves, weights = [], []
    for (_, validation), curve in zip(folds, executor(plan.n_jobs, "processes").map(work, enumerate(folds)), strict=True):
        if plan.watch.stop() or curve is None:
            return {}
        curves.append(curve)
        weights.append(float(validation.sum()))
    if not curves:
        return {}
    # beyond the end of a fold's path that was cut off, nothing is known of it; a complete one stays as it is
    last = min([np.inf, *(float(known[-1]) for known, _, status in curves if status != "complete")])
    grid = np.unique(np.concatenate([times, *(known for known, _, _ in curves)]))
    grid = grid[(grid <= max(last, float(times[0]))) & (grid <= times[-1])]
    weight = np.array(weights)
    fine = fold_scores(np.array([_at(known, errors, grid) for known, errors, _ in curves]), weight)
    own = fold_scores(np.array([_at(known, errors, times[times <= grid[-1]]) for known, errors, _ in curves]), weight)
    return own | {"grid": grid, "grid_mean": fine["mean"], "grid_error": fine["error"]}


@dataclass(frozen=True)
class FoldWork:
    """What is done on one fold, wherever it runs."""

    plan: Plan
    times: tuple[float, ...]
    share: Any

    def __call__(self, fold: tuple[int, tuple[Array, Array]]) -> tuple[Array, Array, str] | None:
        """Times, errors and status of a fold's path; None when there was no time for it."""
        k, (training, validation) = fold
        plan, task = self.plan, self.plan.task
        part = replace(task, weight=training) if self.share is not None else task.part(training)
        source = plan.method.source(part, self.times, self.share)
        knots, _ = _followed(replace(plan, journal=None), source, f"fold-{k}")
        if plan.watch.stop():
            return None
        return np.array([knot.t for knot in knots]), fold_errors(plan.method, task, knots, validation), source.status


def _at(known: Array, errors: Array, times: Array) -> Array:
    """Errors at some times of a path that changes at known ones."""
    return errors[np.maximum(np.searchsorted(known, times * (1 + 1e-12), side="right") - 1, 0)]


def fold_errors(method: Method, task: Task, knots: Sequence[Knot], validation: Array) -> Array:
    """The mean error of every knot on rows that were held out."""
    rows = np.flatnonzero(validation > 0)
    held = replace(task, target=task.target[rows], weight=validation[rows])
    models = [method.judged(knot) for knot in knots]
    used = np.unique(np.concatenate([columns for columns, _, _ in models])).astype(np.intp)
    scores = len(knots[0].intercept)
    place = np.full(len(task.columns), -1)
    place[used] = np.arange(len(used))
    design = some_rows(task.columns.design, rows)
    block = design.block(used) if len(used) else np.zeros((len(rows), 0))
    errors = np.empty(len(knots))
    step = max(1, CELLS // max(1, len(rows) * scores))
    for first in range(0, len(knots), step):
        some = models[first : first + step]
        dense = np.zeros((len(used), len(some), scores))
        for i, (columns, values, _) in enumerate(some):
            dense[place[columns], i] = values
        eta = (block @ dense.reshape(len(used), len(some) * scores)).reshape(len(rows), len(some), scores)
        for i in range(len(some)):
            errors[first + i] = held.error(eta[:, i] + some[i][2])
    return errors


def _instability(plan: Plan, path: Path, candidates: int) -> Array | None:
    """How much the pieces at each knot's time change over subsamples of half the rows."""
    task, times = plan.task, [float(t) for t in path.t]
    samples = []
    for k, weight in enumerate(halves(hashes_of(task, plan.seed), task.codes, task.weight, SUBSAMPLES)):
        knots, status = _followed(replace(plan, journal=None), plan.method.source(task.part(weight), times), f"sample-{k}")
        if plan.watch.stop():
            break
        part = Path(tuple(knots), status)
        samples.append([part.at(t) for t in times])
    return instability(samples, len(path), candidates) if samples else None
