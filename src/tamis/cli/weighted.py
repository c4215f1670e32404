"""`tamis export` of a linear model: a plain weighted sum of columns as SQL, Python or JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.report.build_linear import column_names
from tamis.store.export_python_parts import ENDINGS, PROBABILITIES, SIGMOID
from tamis.store.export_sql_dialects import Dialect, dialect_named

BLOCK = 200  # terms per parenthesis: databases refuse expressions nested very deep


def weighted_sum(model: Any, form: str, dialect: str, table: str, key: list[str]) -> str:
    """The chosen model's scores in another language; missing cells give no score, as the model takes none."""
    if form == "onnx":
        raise TamisError("A linear model is not written as ONNX, so nothing was written; say --to json, python or sql.")
    if form == "sql":
        return _sql(model, dialect_named(dialect), table, key)
    return _python(model) if form == "python" else _json(model)


def _parts(model: Any) -> tuple[list[dict[str, float]], list[float]]:
    """Coefficients by column (those that are not zero) and constant, per score."""
    names = column_names(model)
    rows = np.atleast_2d(np.asarray(model.coef_, dtype=float))
    constants = np.atleast_1d(np.asarray(model.intercept_, dtype=float))
    return [{names[j]: float(row[j]) for j in np.flatnonzero(row)} for row in rows], [float(value) for value in constants]


def _classes(model: Any) -> list[Any]:
    return [label.item() if hasattr(label, "item") else label for label in getattr(model, "classes_", ())]


def _link(model: Any) -> str:
    """What turns scores into predictions."""
    if hasattr(model, "classes_"):
        return "logistic" if len(model.classes_) == 2 else "softmax"
    return "exp" if model._loss_name == "poisson" else "identity"


def _json(model: Any) -> str:
    """Everything about the chosen model that a weighted sum needs, with its certificate's sentence."""
    weights, constants = _parts(model)
    document = {
        "format": "tamis-linear", "version": 1, "estimator": type(model).__name__, "target": model._target_name, "link": _link(model),
        "classes": _classes(model), "columns": list(column_names(model)), "t": model.t_,
        "scores": [{"constant": constant, "coefficients": row} for row, constant in zip(weights, constants, strict=True)],
        "certificate": model.certificate_.sentence(),
    }  # fmt: skip
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _python(model: Any) -> str:
    """A module without imports beyond math: score(row), predict(row) and, for classes, probability(row)."""
    weights, constants = _parts(model)
    link = _link(model)
    one = len(weights) == 1
    lines = [
        f'"""Scores of the {type(model).__name__} of {model._target_name!r}, written by tamis; a row is a mapping of column to number."""'
    ]
    lines += ["", "import math", "", f"CONSTANTS = {constants!r}", f"WEIGHTS = {weights!r}"]
    lines += [f"CLASSES = {_classes(model)!r}"] if _classes(model) else []
    total = (
        "[constant + sum(weight * float(row[name]) for name, weight in weights.items()) for constant, weights in zip(CONSTANTS, WEIGHTS)]"
    )
    lines += ["", "", "def score(row):", '    """The weighted sum of the columns."""', f"    return {total}{'[0]' if one else ''}", ""]
    if link in ("identity", "exp"):
        return "\n".join(lines) + "\n" + ENDINGS[link]
    return (
        "\n".join(lines)
        + "\n"
        + SIGMOID
        + "\n"
        + PROBABILITIES[f"{link} {'one' if one else 'many'}"]
        + "\n"
        + ENDINGS["one" if one else "many"]
    )


def _sql(model: Any, dialect: Dialect, table: str, key: list[str]) -> str:
    """One SELECT: the keys, the scores, and the prediction read off them."""
    weights, constants = _parts(model)
    classes, link = _classes(model), _link(model)
    names = ["score"] if len(weights) == 1 else [f"score_{number}" for number in range(1, len(weights) + 1)]
    taken = [name for name in key if name.casefold() in {*names, "prediction", "label"}]
    if taken:
        raise TamisError(f"The key column {taken[0]!r} has the name of another column of the result, so no SQL was written; rename it.")
    keys = [dialect.identifier(name) for name in key]
    quoted = [dialect.identifier(name) for name in names]
    sums = [f"{_sum(row, constant, dialect)} AS {name}" for row, constant, name in zip(weights, constants, quoted, strict=True)]
    if not classes:
        value, name = (f"EXP({quoted[0]})" if link == "exp" else quoted[0]), "prediction"
    elif len(quoted) == 1:
        value, name = f"CASE WHEN {quoted[0]} > 0 THEN {_label(classes[1], dialect)} ELSE {_label(classes[0], dialect)} END", "label"
        value = f"CASE WHEN {quoted[0]} IS NOT NULL THEN {value} END"
    else:
        value, name = _first_largest(quoted, classes, dialect), "label"
    outer = ",\n  ".join([*keys, *quoted, f"{value} AS {dialect.identifier(name)}"])
    inner = ",\n    ".join([*keys, *sums])
    fence = f"\n  {dialect.fence}" if dialect.fence else ""
    return f"SELECT\n  {outer}\nFROM (\n  SELECT\n    {inner}\n  FROM {dialect.identifier(table)}{fence}\n) AS scored\n"


def _sum(weights: dict[str, float], constant: float, dialect: Dialect) -> str:
    """constant + weight * column + ..., in parentheses of BLOCK terms."""
    terms = [dialect.number(constant)]
    terms += [f"{dialect.number(weight)} * {dialect.double.format(dialect.identifier(name))}" for name, weight in weights.items()]
    blocks = [" + ".join(terms[start : start + BLOCK]) for start in range(0, len(terms), BLOCK)]
    return " + ".join([blocks[0], *(f"({block})" for block in blocks[1:])])


def _first_largest(scores: list[str], classes: list[Any], dialect: Dialect) -> str:
    """The class of the largest score, the first one on ties."""
    cases = []
    for here, (score, label) in enumerate(zip(scores, classes, strict=True)):
        others = [f"{score} {'>' if there < here else '>='} {other}" for there, other in enumerate(scores) if there != here]
        cases.append(f"WHEN {' AND '.join(others)} THEN {_label(label, dialect)}")
    return f"CASE {' '.join(cases)} END"


def _label(value: Any, dialect: Dialect) -> str:
    """A class label as a value of the result."""
    if isinstance(value, bool):
        return dialect.booleans[int(value)]
    if isinstance(value, int):
        return str(value)
    return dialect.number(value) if isinstance(value, float) else dialect.string(str(value))
