"""How a rule model is fitted: the main path and its folds in step, then the choice of a knot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.choose import Fold, choose, instability, race, with_facts
from tamis.core.follow import Observer, Walk, Watch
from tamis.core.path import Knot, Path
from tamis.rules.build import FOLD_TOLERANCE, Built, Scorer, build, knob_grid, log_candidates, walk
from tamis.rules.joint import JointWalk
from tamis.rules.journaling import Section
from tamis.rules.settings import Settings
from tamis.rules.task import Task
from tamis.tables.folds import fold_weights, halves, row_hashes
from tamis.tables.frame import Table
from tamis.tables.schema import Schema

Array = NDArray[Any]
SUBSAMPLES = 20
LIKELIHOODS = {"logistic": "binomial", "multinomial": "multinomial", "squared": "normal", "poisson": "poisson"}


@dataclass(frozen=True)
class Held:
    """One fold: what was learned on, what is validated on, its knots so far, and out-of-fold scores per knot if kept."""

    built: Sequence[Built]
    scorer: Scorer
    task: Task
    rows: Array
    kept: list[Array] = field(default_factory=list)
    knots: list[Knot] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """Everything a fit needs, decided before any solving."""

    model: Any
    table: Table
    task: Task
    schema: Schema
    settings: Settings
    learn: Callable[[Array], Schema]
    schedule: Sequence[float] = ()
    watch: Watch = field(default_factory=Watch)
    observe: Sequence[Observer] = ()
    journal: Any = None

    def built(self, schema: Schema, task: Task, tolerance: float | None = None) -> list[Built]:
        """One problem, or one per class when classes are fitted against the rest."""
        return build(schema, self.table, task, self.settings, tolerance)

    def run(self, built: Sequence[Built], phase: str, final: bool) -> Walk | JointWalk:
        """A walk along the schedule, joined over classes where there are several problems."""
        walks = []
        for k, part in enumerate(built):
            name = phase if len(built) == 1 else f"{phase}-class{k}"
            section = None if self.journal is None else Section(self.journal, name)
            walks.append(walk(part, list(self.schedule), self.watch, phase=phase, final=final, observe=self.observe, journal=section))
        return walks[0] if len(walks) == 1 else JointWalk(walks, self.task.classes)

    def single(self) -> Plan:
        """The same plan over single conditions."""
        return replace(self, settings=replace(self.settings, max_length=1))


@dataclass(frozen=True)
class Fitted:
    """A path with the position chosen on it, and by what it could be chosen."""

    path: Path
    chosen: int
    built: Sequence[Built]
    folds: Sequence[Held] = ()
    by: Any = "last"

    @property
    def knot(self) -> Knot:
        """The chosen knot."""
        return self.path.knots[self.chosen]


def schedule_of(built: Sequence[Built], C: float | None, count: int) -> list[float]:
    """The given C alone, or a grid from the smallest start of any class to the largest end."""
    if C is not None:
        return [float(C)]
    grids = [knob_grid(part, count) for part in built]
    low, high = min(grid[0] for grid in grids), max(grid[-1] for grid in grids)
    return [float(value) for value in np.geomspace(low, high, count)] if high > low else [low]


def fold_data(plan: Plan, cv: Any, seed: int) -> list[Held]:
    """Schemas and problems of every fold: literals are learned from its training rows only."""
    task = plan.task
    folds = []
    for training, validation in fold_weights(row_hashes(plan.table, task.y, seed), task.codes, task.row_weight, cv):
        factor = np.divide(task.weight, task.row_weight, out=np.zeros_like(task.weight), where=task.row_weight > 0)
        schema = plan.learn(training)
        part = replace(task, weight=factor * training, row_weight=training)
        rows = np.flatnonzero(validation > 0)
        judged = replace(task, y=task.y[rows], weight=(factor * validation)[rows], row_weight=validation[rows])
        folds.append(Held(plan.built(schema, part, FOLD_TOLERANCE), Scorer.of(schema, plan.table.subset(rows)), judged, rows))
    return folds


def racing(plan: Plan, folds: Sequence[Held], scoring: str | None, keep_scores: bool, name: str = "fold") -> list[Fold]:
    """The folds as runs that judge every knot."""

    def judge(held: Held) -> Callable[[Knot], float]:
        def error(knot: Knot) -> float:
            held.knots.append(knot)
            score = held.scorer.scores(knot)
            if keep_scores:
                held.kept.append(score)
            return held.task.error(score, scoring)

        return error

    return [
        Fold(plan.run(held.built, f"{name}-{k}", final=False), judge(held), float(held.task.row_weight.sum()))
        for k, held in enumerate(folds)
    ]


def fit_path(
    plan: Plan,
    built: Sequence[Built],
    by: Any,
    folds: Sequence[Held],
    *,
    scoring: str | None = None,
    keep_scores: bool = False,
    max_rules: int | None = None,
) -> Fitted:
    """Follow the path with its folds and choose a knot."""
    main: Any = plan.run(built, "path" if plan.settings.max_length != 1 else "single", final=True)
    name = "fold" if plan.settings.max_length != 1 else "single-fold"
    path = race(main, racing(plan, folds, scoring, keep_scores, name))
    loss = plan.task.loss.name
    path = with_facts(
        path, rows=float(plan.task.row_weight.sum()), log_candidates=log_candidates(built[0]), likelihood=LIKELIHOODS.get(loss),
        loss=loss, scoring="loss" if scoring is None else scoring,
    )  # fmt: skip
    if by == "stability" and len(path) > 1:
        path = replace(path, scores={**path.scores, "instability": _instability(plan, path)})
    by = _possible(path, by)
    return Fitted(path, choose(path, by, max_pieces=max_rules), built, folds, by)


def _possible(path: Path, by: Any) -> Any:
    """The choice asked for; without validated knots a criterion, or the last knot where a run was cut off."""
    if len(path) <= 1:
        return "last"
    if by in ("cv", "cv-best") and not len(path.scores.get("mean", ())):
        return "ebic" if path.provenance.get("likelihood") and path.status not in ("interrupted", "budget") else "last"
    return by


def _instability(plan: Plan, path: Path) -> Array:
    """How much the rules of each knot change over subsamples of half the rows, with the literals of the full table."""
    task = plan.task
    hashes = row_hashes(
        plan.table, task.y, int(plan.model.random_state or 0) if isinstance(plan.model.random_state, (int, np.integer)) else 0
    )
    reduced = replace(plan, schedule=[float(t) for t in path.t], journal=None)
    samples: list[list[Knot]] = []
    for weight in halves(hashes, task.codes, task.row_weight, SUBSAMPLES):
        factor = np.divide(task.weight, task.row_weight, out=np.zeros_like(task.weight), where=task.row_weight > 0)
        part = replace(task, weight=factor * weight, row_weight=weight)
        if plan.watch.stop():
            break
        samples.append(list(reduced.run(reduced.built(plan.schema, part, FOLD_TOLERANCE), f"sample-{len(samples)}", final=True)))
    return instability(samples, len(path))
