"""What linear certificates hand to their independent recheck: the path's claims, its problem and the training rows, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.chunked import Chunked
from tamis.core.path import Knot, Path
from tamis.linear.recheck import LinearWitness, PathFacts, WitnessGauge, WitnessMatrix, WitnessRows
from tamis.linear.task import Task

Array = NDArray[Any]
HALVINGS = 40  # of a step that counts outgrew


def with_witnesses(path: Path, task: Task, model: Any) -> Path:
    """Every knot's certificate with its witness."""
    design: Any = task.columns.design
    blocks = tuple(design.blocks) if isinstance(design, Chunked) else (design.matrix,)
    used = int(np.count_nonzero(task.weight > 0))
    rows = replace(_rows(model, used, task.columns.names), blocks=blocks, target=task.target, weight=task.weight)
    t0, rate, steps = _pace(path.knots, model)
    return _carrying(path, _facts(path, model, rows, (t0, rate, float(getattr(task.loss, "delta", 0.0)), steps)))


def _carrying(path: Path, facts: PathFacts) -> Path:
    knots = (replace(knot, certificate=knot.certificate.with_witness(LinearWitness(facts, k))) for k, knot in enumerate(path.knots))
    return replace(path, knots=tuple(knots))


def _rows(model: Any, rows: int, names: Sequence[str]) -> WitnessRows:
    """What a file keeps of the training rows."""
    classes = tuple(model.classes_.tolist()) if hasattr(model, "classes_") else ()
    given = getattr(model, "class_weight", None)
    weight = tuple(float(given.get(label, 1.0)) for label in classes) if isinstance(given, Mapping) else given
    return WitnessRows(rows, len(names), tuple(names), hasattr(model, "feature_names_in_"), classes, weight)


def _facts(path: Path, model: Any, rows: WitnessRows, pace: tuple[float, float, float, Array | None]) -> PathFacts:
    """The claims and the problem, from a fitted or a restored model."""
    method, knots = model._method, path.knots
    t0, rate, delta, steps = pace
    setup, gauge, transform = method.setup, getattr(method, "gauge", None), getattr(method, "transform", None)
    return PathFacts(
        method=method.name, rows=rows, times=np.array([knot.t for knot in knots]),
        positions=tuple(np.array([atom[0] for atom in knot.atoms], dtype=np.intp) for knot in knots),
        values=tuple(knot.coefficients for knot in knots), intercepts=np.array([knot.intercept for knot in knots]),
        fit_intercept=bool(setup.fit_intercept), standardize=bool(setup.standardize), loss=model._loss_name, delta=delta,
        factors=setup.factors, one_sided=setup.one_sided, gauge=None if gauge is None else _gauge(gauge),
        kappa=float(model._arrays["kappa"]) if "kappa" in model._arrays else 0.0, t0=t0, rate=rate, steps=steps,
        start=getattr(method, "start", "equilibrium"),
        nu=float(model._arrays["nu"]) if "nu" in model._arrays else 0.0,
        transform=None if transform is None else _matrix(transform.matrix), pieces=tuple(getattr(method, "names", ())),
        beta=model._arrays.get("beta"),
    )  # fmt: skip


def _gauge(gauge: Any) -> WitnessGauge:
    return WitnessGauge(
        gauge.weight, getattr(gauge, "label", None), bool(getattr(gauge, "joint", False)), getattr(gauge, "nonnegative", None)
    )


def _matrix(matrix: Any) -> WitnessMatrix:
    return WitnessMatrix(matrix.data, matrix.indices, matrix.indptr, int(matrix.shape[1]))


def _pace(knots: Sequence[Knot], model: Any) -> tuple[float, float, Array | None]:
    """(when something first moves, the rate of a damped intercept, the step each knot was reached with) of damped paths."""
    if "pace" not in model._arrays:
        return np.inf, 0.0, None
    first, rate = (float(value) for value in model._arrays["pace"])
    return first, rate, np.array([knot.measures["step"] for knot in knots])


def stored(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a model file keeps for witnesses, beside what it holds already; never the training rows."""
    witness = path.knots[0].certificate.witness
    if not isinstance(witness, LinearWitness):
        return {}, {}
    facts = witness.facts
    weight = facts.rows.class_weight
    meta = {"rows": facts.rows.rows, "class_weight": list(weight) if isinstance(weight, tuple) else weight}
    arrays = {"pace": np.array([facts.t0, facts.rate, facts.delta])}
    return meta, arrays if facts.steps is None else arrays | {"steps": facts.steps}


def restored(path: Path, model: Any, names: Sequence[str], meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Path:
    """The path with its witnesses, which then need the training data to be given again."""
    weight = meta["class_weight"]
    rows = replace(_rows(model, int(meta["rows"]), names), class_weight=tuple(map(float, weight)) if isinstance(weight, list) else weight)
    t0, rate, delta = (float(value) for value in arrays["pace"])
    steps = arrays.get("steps")
    if (steps is None) == ("kappa" in model._arrays) or (steps is not None and steps.shape != (len(path.knots),)):
        raise ValueError("the steps of the path do not fit its knots")
    return _carrying(path, _facts(path, model, rows, (t0, rate, delta, steps)))
