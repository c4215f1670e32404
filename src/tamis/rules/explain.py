"""Why one row gets its score: the constant, the rules that fire, and the rules one condition away.

A row is judged here by plain Python, one cell at a time, with the meaning every export shares: no condition
holds on a missing cell except `missing` itself; an unseen level makes `=` false and `!=` true.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.core.certificate import percent
from tamis.core.errors import TamisError
from tamis.core.literal import Literal, value_text
from tamis.core.scorecard import ScoreCard
from tamis.rules.text import weight_text

MISSING_TYPES = ("NAType", "NaTType")  # pandas' own missing values, recognised without importing pandas
Truth = Callable[[Literal, Mapping[str, Any]], bool]


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ in MISSING_TYPES:
        return True
    return bool(np.isscalar(value) and not isinstance(value, str | bytes) and value != value)


def level_text(value: Any) -> str:
    """A cell of a level column as the text its level has: `3` for 3 and 3.0, `True` for True."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, str) else value_text(plain)


def moment(value: Any, column: str) -> np.datetime64:
    """A date cell or an ISO text as a moment; time zones are taken out as UTC."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        return np.datetime64(value.isoformat() if hasattr(value, "isoformat") else value)
    except (TypeError, ValueError):
        said = f"{value!r} in column {column!r} is not a date"
        raise TamisError(f"{said}, so the row cannot be explained; give a date or ISO text.") from None


def number(value: Any, column: str) -> float:
    """A numeric cell as a float; a text is an error, never a guess."""
    if not isinstance(value, numbers.Number | np.generic) and not hasattr(value, "__float__"):
        raise TamisError(f"{value!r} in column {column!r} is not a number, so the row cannot be explained; give the column's own type.")
    return float(value)


def holds(literal: Literal, row: Mapping[str, Any]) -> bool:
    """Whether one condition holds on one row given as {column: cell}."""
    if literal.operator == "given":
        return _given(literal, row)
    if literal.column not in row:
        said = f"The row has no column {literal.column!r}, which a rule reads"
        raise TamisError(f"{said}, so it cannot be explained; add the column (None if missing).")
    value = row[literal.column]
    if literal.operator == "missing" or is_missing(value):
        return literal.operator == "missing" and is_missing(value)
    if literal.operator in ("true", "false"):
        return bool(value) is (literal.operator == "true")
    if literal.operator in ("==", "!="):
        return (level_text(value) == str(literal.value)) is (literal.operator == "==")
    if literal.operator in ("in", "not in"):
        return (level_text(value) in literal.members) is (literal.operator == "in")
    date = literal.kind == "date"
    cell, cut = (moment(value, literal.column), np.datetime64(literal.value)) if date else (number(value, literal.column), literal.value)
    return bool(cell <= cut) is (literal.operator == "<=")


def _given(literal: Literal, row: Mapping[str, Any]) -> bool:
    """A user's proposition: its own column in the row if there is one, else its callable."""
    if literal.column in row:
        value = row[literal.column]
        return not is_missing(value) and bool(value)
    raise TamisError(
        f"The proposition {literal.column!r} is computed from other columns, so it cannot be judged on a plain row without the schema; "
        f"explain through model.rules_, or put a {literal.column!r} cell in the row."
    )


def row_as_dict(row: Any, columns: Sequence[str]) -> dict[str, Any]:
    """One row (a mapping, a Series, a frame of one row, or a sequence in column order) as {column: cell}."""
    if isinstance(row, Mapping):
        return dict(row)
    if hasattr(row, "to_dict") and hasattr(row, "index") and not hasattr(row, "columns"):
        return dict(row.to_dict())
    if hasattr(row, "columns") or hasattr(row, "column_names"):
        import narwhals as nw

        frame = nw.from_native(row, eager_only=True)
        if len(frame) != 1:
            said = f"explain takes one row and was given {len(frame)}"
            raise TamisError(f"{said}, so it does not know which to explain; pass frame[i : i + 1].")
        return dict(zip(frame.columns, frame.row(0), strict=True))
    cells = list(np.asarray(row, dtype=object).ravel()) if not isinstance(row, list | tuple) else list(row)
    if len(cells) != len(columns):
        said = f"The row has {len(cells)} cells but the model was fitted on {len(columns)} columns"
        raise TamisError(f"{said}, so it cannot be explained; pass a dict.")
    return dict(zip(columns, cells, strict=True))


@dataclass(frozen=True)
class Contribution:
    """One rule that holds on the row: its position in the rule set, its text, what it adds to each score."""

    index: int
    text: str
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Near:
    """One rule that fails on the row by a single condition: what would have to hold, and what it would add."""

    index: int
    text: str
    missing: str
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Explanation:
    """The score of one row, taken apart.

    Attributes
    ----------
    score : tuple of float
        One per score column: constant plus the weights of the rules that fired, in exactly this order.
    constant : tuple of float
    fired : tuple of Contribution
    near : tuple of Near
        Rules one condition away.
    probability : dict or None
        Class to probability; None where the model has no probabilities.
    prediction : class label or float
    names : tuple of str
        What the score columns are called; one empty name when there is one column.
    """

    score: tuple[float, ...]
    constant: tuple[float, ...]
    fired: tuple[Contribution, ...]
    near: tuple[Near, ...]
    probability: dict[Any, float] | None
    prediction: Any
    names: tuple[str, ...] = ("",)

    def __str__(self) -> str:
        """The sum, line by line."""
        lines = [f"prediction {value_text(self.prediction)}: {self._numbers(self.score, signed=False)}"]
        if self.probability is not None:
            lines[0] += " (" + ", ".join(f"{value_text(label)} {percent(share)}" for label, share in self.probability.items()) + ")"
        lines.append(f"  {self._numbers(self.constant)}  constant")
        lines += [f"  {self._numbers(part.weights)}  {part.text}" for part in self.fired]
        lines += [f"  one condition away ({self._numbers(rule.weights)}): {rule.text}, if {rule.missing}" for rule in self.near]
        return "\n".join(lines)

    def _numbers(self, values: Sequence[float], signed: bool = True) -> str:
        shown = [weight_text(value) if signed else f"score {value:.4g}" for value in values]
        return shown[0] if len(shown) == 1 else ", ".join(f"{name} {text}" for name, text in zip(self.names, shown, strict=True))


def probability_matrix(card: ScoreCard, scores: Any) -> Any:
    """Class probabilities (rows, classes) of scores (rows, columns), as the card's link defines them; None when it has none."""
    values = np.asarray(scores, dtype=np.float64)
    if card.link == "softmax":
        raised = np.exp(values - values.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)
    if card.link not in ("logistic", "ovr", "platt"):
        return None
    if card.link == "platt":
        slope, shift = np.array(card.platt, dtype=np.float64).T
        values = slope * values + shift
    each = sigmoid(values)
    if each.shape[1] == 1:
        return np.hstack([1.0 - each, each])
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])


def sigmoid(score: Any) -> Any:
    """Two branches, so that neither overflows."""
    small = np.exp(-np.minimum(np.abs(score), 700.0))
    return np.where(score >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def predicted(card: ScoreCard, score: Sequence[float]) -> Any:
    """The class (score above zero, or the first maximum), or the number a regression predicts."""
    if not card.classes:
        return math.exp(min(score[0], 700.0)) if card.link == "exp" else float(score[0])
    if len(score) == 1:
        return card.classes[1] if score[0] > 0 else card.classes[0]
    return card.classes[int(np.argmax(score))]
