"""From a knot and the problem it solved to the witness its certificate carries: the claim's numbers and the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.loss import Huber, Multinomial
from tamis.core.path import Knot
from tamis.rules.build import Built
from tamis.rules.recheck import RuleWitness, WitnessPart, WitnessRows
from tamis.rules.task import Task

Array = NDArray[Any]


def witness_of(knot: Knot, built: Sequence[Built], task: Task) -> RuleWitness | None:
    """The witness of one knot; None when the knot kept no state to prove its bound with.

    Parameters
    ----------
    knot : Knot
        As the walk along C returned it, one-vs-rest classes merged.
    built : sequence of Built
        The problem behind it, or one per class.
    task : Task
        What was learned, for all classes together.
    """
    prefixes = [""] if len(built) == 1 else [f"class{k}." for k in range(len(built))]
    if any(f"{prefix}{name}" not in knot.state for prefix in prefixes for name in ("units", *(["claim"] if prefix else []))):
        return None
    parts = [
        _part(knot, problem, prefix, k if len(built) > 1 else None) for k, (problem, prefix) in enumerate(zip(built, prefixes, strict=True))
    ]
    groups = [_targets_of_rows(problem, task, k if len(built) > 1 else None) for k, problem in enumerate(built)]
    return RuleWitness(_rows(built[0], task, groups[0]), tuple(parts))


def _rows(built: Built, task: Task, group: Array) -> WitnessRows:
    """The training rows, their literals held once per design row."""
    rows, there = built.rows, len(built.rows.design_row)
    pattern = np.full(len(task.weight), 0, dtype=np.int32)
    pattern[:there] = np.maximum(rows.design_row, 0)
    target = task.codes.astype(np.float64) if task.classes else np.asarray(task.y[:, 0], dtype=np.float64)
    return WitnessRows(
        literals=len(built.schema),
        n_rows=len(task.weight),
        group=group,
        bits=rows.literals.words.view(np.uint8),
        pattern=pattern,
        y=target,
        weight=task.weight,
        row_weight=task.row_weight,
        classes=task.classes,
        class_weight=_class_factors(task),
    )


def _class_factors(task: Task) -> tuple[float, ...] | None:
    """What class weights multiply each class by, read off its rows; None when they change nothing."""
    if not task.classes or np.array_equal(task.weight, task.row_weight):
        return None
    factors = np.ones(len(task.classes))
    there = task.row_weight > 0
    factors[task.codes[there]] = task.weight[there] / task.row_weight[there]
    return tuple(float(factor) for factor in factors)


def _targets_of_rows(built: Built, task: Task, k: int | None) -> Array:
    """For each training row its entry in the dual point: rows with the same literals and target share one; -1 without weight."""
    rows, targets = built.rows, built.rows.targets
    place = np.full(len(task.weight), -1, dtype=np.int64)
    place[: len(rows.design_row)] = rows.design_row
    if targets.starts is None:
        return place.astype(np.int32)
    own = task.y if k is None else task.y[:, [k]]
    key = own.argmax(axis=1) if isinstance(targets.loss, Multinomial) else own[:, 0]
    merged = targets.y.argmax(axis=1) if isinstance(targets.loss, Multinomial) else targets.y[:, 0]
    there = np.flatnonzero(place >= 0)
    # targets and rows sorted together: each row takes the number of the target just before it
    first, second = np.concatenate([targets.owner, place[there]]), np.concatenate([merged, key[there]])
    is_row = np.concatenate([np.zeros(len(merged), dtype=bool), np.ones(len(there), dtype=bool)])
    order = np.lexsort((is_row, second, first))
    number = np.concatenate([np.arange(len(merged)), np.full(len(there), -1)])[order]
    last = np.maximum.accumulate(np.where(number >= 0, np.arange(len(order)), 0))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = number[last]
    place[there] = found[len(merged) :]
    return place.astype(np.int32)


def _part(knot: Knot, built: Built, prefix: str, k: int | None) -> WitnessPart:
    """One problem's claim; of merged classes, the rules with a weight for this class."""
    state = {name[len(prefix) :]: value for name, value in knot.state.items() if name.startswith(prefix)}
    lattice, loss = built.lattice, built.rows.targets.loss
    weights = knot.coefficients if k is None else knot.coefficients[:, [k]]
    kept = np.flatnonzero(np.abs(weights).max(axis=1, initial=0.0) > 0)
    certified = int(state["certified_held"])
    pieces = np.split(state["held"], np.cumsum(state["length"])[:-1])[:certified]
    scale = built.rows.unit if built.lattice.min_units else 0.0
    value, bound = (knot.certificate.value, knot.certificate.bound) if k is None else state["claim"]
    return WitnessPart(
        loss=loss.name,
        C=knot.t,
        rho=lattice.rho,
        prices=lattice.growth,
        atoms=tuple(knot.atoms[i] for i in kept),
        weights=weights[kept],
        intercept=np.atleast_1d(knot.intercept if k is None else knot.intercept[[k]]),
        hull=tuple(tuple(int(literal) for literal in piece) for piece in pieces),
        eta=state["certified_eta"][:certified],
        units=state["units"],
        quantum=float(state["quantum"]),
        value=float(value),
        bound=float(bound),
        max_length=None if lattice.max_length >= lattice.size else lattice.max_length,
        min_support=lattice.min_units * scale,
        silent=tuple(sorted(lattice.silent)),
        sign=lattice.sign.astype(np.int64) if lattice.sign.any() else None,
        delta=float(loss.delta) if isinstance(loss, Huber) else 1.345,
        positive=_positive(built, k),
    )


def _positive(built: Built, k: int | None) -> int | None:
    """Which class is +1."""
    if built.rows.targets.loss.name not in ("logistic", "squared_hinge", "hinge"):
        return None
    return 1 if k is None else k
