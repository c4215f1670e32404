"""What rule certificates hand to their independent recheck: each knot's claim and the training rows, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.path import Knot, Path
from tamis.rules.build import Built
from tamis.rules.recheck import RuleWitness, WitnessPart, WitnessRows
from tamis.rules.task import Task
from tamis.tables.schema import Schema

Array = NDArray[Any]


def with_witnesses(path: Path, built: Sequence[Built], task: Task) -> Path:
    """Every knot's certificate with its witness; the solver's own state is let go."""
    rows, schema = witness_rows(built[0], task), saved(built[0].schema)
    knots = []
    for knot in path.knots:
        parts = tuple(_part(knot, part, task, k, len(built)) for k, part in enumerate(built))
        knots.append(replace(knot, certificate=knot.certificate.with_witness(RuleWitness(rows, parts, schema)), state={}))
    return replace(path, knots=tuple(knots))


def saved(schema: Schema) -> Mapping[str, Any] | None:
    """The schema as JSON; None when it holds Python functions, which only the fitted model can call."""
    try:
        return schema.to_dict()
    except TamisError:
        return None


def witness_rows(built: Built, task: Task) -> WitnessRows:
    """The training rows, packed as the fit saw them."""
    rows = built.rows
    factor = None
    if task.classes:
        ratio = np.divide(task.weight, task.row_weight, out=np.ones_like(task.weight), where=task.row_weight > 0)
        factor = tuple(float(ratio[task.codes == k][0]) if np.any(task.codes == k) else 1.0 for k in range(len(task.classes)))
    return WitnessRows(
        len(built.schema), len(task.y), rows.target_row, np.ascontiguousarray(rows.literals.words).view(np.uint8), rows.design_row,
        task.codes.astype(float) if task.classes else task.y[:, 0], task.weight, task.row_weight, None, task.classes, factor,
    )  # fmt: skip


def _part(knot: Knot, built: Built, task: Task, k: int, parts: int) -> WitnessPart:
    """The claim of one optimisation problem."""
    state = (
        knot.state
        if parts == 1
        else {name[len(f"class{k}.") :]: value for name, value in knot.state.items() if name.startswith(f"class{k}.")}
    )
    held = int(state["certified_held"])
    pieces = np.split(state["held"], np.cumsum(state["length"]))[:held]
    hull = tuple(tuple(int(i) for i in piece) for piece in pieces)
    eta = np.maximum(state["certified_eta"][:held], 1e-300)
    atoms, weights, intercept = knot.atoms, knot.coefficients, knot.intercept
    if parts > 1:
        mine = np.flatnonzero(weights[:, k])
        atoms, weights, intercept = tuple(atoms[i] for i in mine), weights[mine][:, [k]], intercept[[k]]
    lattice, settings, margin = built.lattice, built.settings, bool(task.classes) and task.loss.name != "multinomial"
    return WitnessPart(
        loss=task.loss.name, C=knot.t, rho=lattice.rho, prices=lattice.growth, atoms=atoms, weights=weights, intercept=intercept,
        hull=hull, eta=eta / eta.sum(), units=state["units"].astype(np.int64), quantum=float(state["quantum"]),
        value=float(state["value"]) if parts > 1 else knot.certificate.value,
        bound=float(state["bound"]) if parts > 1 else knot.certificate.bound,
        max_length=settings.max_length, min_support=lattice.min_units * built.rows.unit, silent=tuple(sorted(lattice.silent)),
        sign=lattice.sign if lattice.sign.any() else None, delta=float(getattr(task.loss, "delta", 1.345)),
        positive=(k if parts > 1 else 1) if margin else None,
    )  # fmt: skip


__all__ = ["saved", "with_witnesses", "witness_rows"]
