"""What a fit measures about its rules: those of every knot on the training rows, the chosen ones also out of fold.

Sums over all rules at once, from packed bits; `RuleSet.measure` gives the same numbers rule by rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Bits
from tamis.core.literal import Literal
from tamis.core.scorecard import ScoreCard
from tamis.kernels.reference import conjunction_words
from tamis.rules.fitting import Fitted, Held
from tamis.rules.statistics import RuleStatistics, favoured_classes
from tamis.rules.task import Task
from tamis.structures.tails import padded
from tamis.tables.schema import Schema

Array = NDArray[Any]
Atom = tuple[int, ...]
BLOCK = 256  # rules summed at once


def path_statistics(fitted: Fitted, task: Task, card: ScoreCard) -> RuleStatistics:
    """Every rule of every knot, in the order of `path.pieces`, on the training rows; each read as at its last knot."""
    rows, pieces = fitted.built[0].rows, list(fitted.path.pieces)
    there = np.flatnonzero(rows.design_row >= 0)
    values = _values(task.rows(there))
    folded = np.zeros((rows.literals.rows, values.shape[1]))
    for column in range(values.shape[1]):
        folded[:, column] = np.bincount(rows.design_row[there], values[:, column], rows.literals.rows)
    latest = {atom: row for knot in fitted.path for atom, row in zip(knot.atoms, knot.coefficients, strict=True)}
    weights = np.array([latest[atom] for atom in pieces]).reshape(len(pieces), len(card.constant))
    found = _statistics(_sums(rows.literals, pieces, folded), folded.sum(axis=0), "training rows")
    return found.favouring(favoured_classes(card, weights))


def out_of_fold(fitted: Fitted, schema: Schema) -> RuleStatistics | None:
    """The chosen rules on rows they were not learned from.

    A rule counts in those folds whose own model, made without the held-out rows, has it among its strongest (as many
    as were chosen). Its sums are scaled up from these folds to all; a rule that no fold found has none.
    """
    atoms = fitted.knot.atoms
    folds = [held for held in fitted.folds if len(held.knots) > fitted.chosen]
    if not atoms or not folds or len(folds) < len(fitted.folds):
        return None
    judged = [_values(held.task) for held in folds]
    every = sum((values.sum(axis=0) for values in judged), np.zeros(judged[0].shape[1]))
    sums, weight = np.zeros((len(atoms), len(every))), np.zeros(len(atoms))
    for held, values in zip(folds, judged, strict=True):
        found = _found(held, fitted.chosen, schema, atoms)
        there = np.array([atom is not None for atom in found])
        sums[there] += _sums(held.scorer.literals, [atom for atom in found if atom is not None], values)
        weight += there * values[:, 1].sum()
    if not weight.any():
        return None
    scale = np.divide(every[1], weight, out=np.zeros(len(weight)), where=weight > 0)
    return _statistics(scale[:, None] * sums, every, "held-out rows")


def _found(held: Held, chosen: int, schema: Schema, atoms: Sequence[Atom]) -> list[Atom | None]:
    """For each chosen rule the same rule in the fold's own literals, None where the fold's model does not have it."""
    place = _places(held.built[0].schema.literals)
    strongest = {frozenset(atom) for atom in held.knots[chosen].atoms[: len(atoms)]}
    found: list[Atom | None] = []
    for atom in atoms:
        there = [place.get(_key(schema.literals[k]), -1) for k in atom]
        found.append(tuple(sorted(there)) if min(there) >= 0 and frozenset(there) in strongest else None)
    return found


def _places(literals: Sequence[Literal]) -> Mapping[Any, int]:
    return {_key(literal): k for k, literal in enumerate(literals)}


def _key(literal: Literal) -> Any:
    return literal.column, literal.operator, literal.value, literal.members


def _values(task: Task) -> Array:
    """Per row: itself, its weight, and its weight per class or times y."""
    weight = task.row_weight
    if task.classes:
        masses = np.zeros((len(weight), len(task.classes)))
        masses[np.arange(len(weight)), task.codes] = weight
    else:
        masses = weight[:, None] * task.y[:, :1]
    return np.column_stack([weight > 0, weight, masses])


def _conjunctions(literals: Bits, atoms: Sequence[Atom]) -> Bits:
    return Bits(conjunction_words(literals.words, padded(atoms)), literals.rows)


def _sums(literals: Bits, atoms: Sequence[Atom], values: Array) -> Array:
    """Sums of the values over the rows of each conjunction, a block of rules and rows at a time; exact for whole numbers."""
    sums = np.zeros((len(atoms), values.shape[1]))
    for first in range(0, len(atoms), BLOCK):
        some = slice(first, first + BLOCK)
        for rows, part in _conjunctions(literals, atoms[some]).chunks(None):
            sums[some] += part.T @ values[rows]
    return sums


def _statistics(sums: Array, every: Array, rows: str) -> RuleStatistics:
    """Columns as `_values` made them."""
    return RuleStatistics(
        count=np.rint(sums[:, 0]).astype(np.int64), support=sums[:, 1], mass=sums[:, 2:], favoured=np.full(len(sums), -1, dtype=np.int64),
        total_count=round(float(every[0])), total_support=float(every[1]), total_mass=every[2:], rows=rows,
    )  # fmt: skip
