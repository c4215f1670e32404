"""From a table and a task to the problem a solver follows, and from a knot back to scores on any table."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Bits
from tamis.core.dual import balanced, constant_model
from tamis.core.errors import TamisError
from tamis.core.follow import Problem, Walk
from tamis.core.path import Knot
from tamis.kernels.reference import conjunction_words, pack_rows, unpack_rows
from tamis.rules.rows import Rows, compress
from tamis.rules.settings import Settings
from tamis.rules.task import Task
from tamis.solvers.hierarchical import HierarchicalSolver
from tamis.structures.lattice import ConjunctionLattice
from tamis.structures.tails import padded
from tamis.tables.frame import Table
from tamis.tables.schema import Schema

Array = NDArray[Any]
FOLD_TOLERANCE = 0.05
SMALLEST_GRID, GRID_DECADES = 2.0, 4.0


@dataclass(frozen=True)
class Built:
    """A problem with the rows and the schema behind it."""

    problem: Problem
    rows: Rows
    schema: Schema
    settings: Settings

    @property
    def lattice(self) -> ConjunctionLattice:
        """The problem's structure."""
        assert isinstance(self.problem.structure, ConjunctionLattice)
        return self.problem.structure

    def solver(self, final: bool = True, keep_state: bool = True) -> HierarchicalSolver:
        """A solver for it; `final`: for the model to be shown, certified and pruned, not for a fold of a cross-validation."""
        from tamis.solvers.mirror import solve_mirror
        from tamis.solvers.reduced import solve_reduced

        settings = self.settings
        prune = 0.0 if settings.prune == "certified" else settings.prune
        reducer = solve_mirror if settings.solver == "mirror" else solve_reduced
        return HierarchicalSolver(
            max_atoms=settings.max_nodes,
            prune=prune if final else None,
            reducer=reducer,
            keep_state=keep_state,
            thorough=final,
        )


def build(schema: Schema, table: Table, task: Task, settings: Settings, tolerance: float | None = None) -> list[Built]:
    """The lattice over the schema's literals on these rows, and the problem on it; one per class against the rest."""
    settings.check_work(len(schema))
    rows = compress(schema.truth(table), task.loss, task.y, task.weight, task.row_weight)
    apart = task.versus_rest and task.y.shape[1] > 1
    return [_problem(schema, part, settings, tolerance) for part in (map(rows.column, range(task.y.shape[1])) if apart else [rows])]


def _problem(schema: Schema, rows: Rows, settings: Settings, tolerance: float | None) -> Built:
    sign = settings.signs(schema)
    if sign.any() and rows.targets.columns > 1:
        raise TamisError(
            "monotone constraints need a single score and this model has one per class, so nothing was fitted; "
            "use multi_class='ovr' or two classes."
        )
    support = rows.literals.counts if settings.min_support == 1 else np.asarray(rows.literals.score(rows.row_units))
    lattice = ConjunctionLattice(
        rows.literals, rho=settings.rho, growth=settings.growth * schema.costs, max_length=settings.max_length, names=schema.texts,
        row_units=rows.row_units, min_units=least_units(settings.min_support, rows), silent=settings.silent(schema, support),
        sign=sign, threads=settings.threads,
    )  # fmt: skip
    return Built(Problem(lattice, rows.targets, tolerance or settings.tolerance, settings.gain_tolerance, "C"), rows, schema, settings)


def least_units(min_support: float, rows: Rows) -> int:
    """The smallest support in integer row weights; 0 asks for one covered row, whatever its weight."""
    if min_support == 1:
        return 0
    wanted = min_support * float(rows.row_units.sum()) if min_support < 1 else min_support / rows.unit
    return max(1, int(np.ceil(wanted * (1 - 1e-12))))


def log_candidates(built: Built) -> float:
    """Log of how many conjunctions there are."""
    size = len(built.schema)
    return log(max(1, sum(comb(size, j) for j in range(1, built.lattice.max_length + 1))))


def knob_grid(built: Built, count: int) -> list[float]:
    """C from where the gain first reaches the tolerance, over four decades, geometric."""
    targets = built.rows.targets
    level, objective = constant_model(targets, targets.columns)
    work = targets if targets.loss.smooth else targets.with_loss(targets.loss.smoothed(0.1))
    if work is not targets:
        level = constant_model(work, work.columns)[0]
    pull = targets.fold(balanced(targets, work.pull(np.broadcast_to(level, (targets.design_rows, targets.columns)))))
    if not len(built.schema):
        return [1.0]
    force = np.sqrt((built.rows.literals.score(pull) ** 2).sum(axis=1)) / (1.0 + built.lattice.growth)
    strongest = float(force.max(initial=0.0))
    if not strongest > 1e-12 * max(1.0, float(np.abs(pull).sum())):
        return [1.0]
    smallest = SMALLEST_GRID * built.settings.tolerance * objective / strongest**2
    return [float(value) for value in smallest * np.logspace(0.0, GRID_DECADES, count)]


def fitted_perfectly(knot: Knot) -> bool:
    """Less than one percent of the constant model's loss is left: more C would only raise the weights."""
    constant = knot.certificate.constant
    return constant is not None and knot.measures["loss"] * knot.t < 0.01 * constant


def walk(
    built: Built, schedule: list[float], watch: Any, *, phase: str = "path", final: bool = True, journal: Any = None, **options: Any
) -> Walk:  # fmt: skip
    """A run of the hierarchical solver along C. Knots keep the solver's state for their witnesses, or to be resumed from a journal."""
    solver = built.solver(final, keep_state=final or journal is not None)
    return Walk(built.problem, solver, schedule, watch, phase=phase, ends=fitted_perfectly, journal=journal, **options)


@dataclass(frozen=True)
class Scorer:
    """Packed literals of some rows, ready to score any knot on them."""

    literals: Bits

    @classmethod
    def of(cls, schema: Schema, table: Table) -> Scorer:
        """Evaluate every literal once."""
        words = [pack_rows(np.asarray(column)[None])[0] for column in schema.truth(table)]
        width = max(1, -(-table.n_rows // 64))
        return cls(Bits(np.stack(words) if words else np.zeros((0, width), dtype=np.uint64), table.n_rows))

    def scores(self, knot: Knot) -> Array:
        """(rows, columns)."""
        result = np.tile(np.asarray(knot.intercept, dtype=float), (self.literals.rows, 1))
        if len(knot.atoms):
            held = Bits(conjunction_words(self.literals.words, padded(knot.atoms)), self.literals.rows)
            result += held.dot(None, knot.coefficients)
        return result


def rule_scores(schema: Schema, table: Table, atoms: tuple[tuple[int, ...], ...], weights: Array, constant: Array) -> Array:
    """Scores of rules on a table, evaluating only the literals they use, a packed column at a time."""
    used = sorted({k for atom in atoms for k in atom})
    place = {k: i for i, k in enumerate(used)}
    packed = np.array([pack_rows(np.asarray(column)[None])[0] for column in schema.truth(table, used)]) if used else None
    result = np.tile(np.asarray(constant, dtype=float), (table.n_rows, 1))
    if packed is None:
        return result
    words = conjunction_words(packed, padded([tuple(place[k] for k in atom) for atom in atoms]))
    step = max(1, 2**22 // max(1, len(atoms)) // 64)
    for first in range(0, words.shape[1], step):
        rows = slice(64 * first, min(table.n_rows, 64 * (first + step)))
        covered = unpack_rows(words[:, first : first + step], rows.stop - rows.start)
        result[rows] += covered.T.astype(float) @ weights
    return result
