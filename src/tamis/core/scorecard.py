"""The portable form of a fitted additive rule model: what every export writes and every report lists.

    score_k(row) = constant_k + sum over rules whose conditions all hold of weight_k

It holds no arrays of the training data and knows no estimator, so a score in SQL, Python or ONNX can be
checked against it literally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tamis.core.literal import Literal

LINKS = ("identity", "logistic", "softmax", "ovr", "exp", "platt", "none")


@dataclass(frozen=True, slots=True)
class Rule:
    """A conjunction of conditions and its weight in each score column."""

    conditions: tuple[Literal, ...]
    weights: tuple[float, ...]

    def text(self) -> str:
        """`a <= 3 AND colour = red`; the empty conjunction reads `always`."""
        return " AND ".join(condition.text() for condition in self.conditions) or "always"


@dataclass(frozen=True, slots=True)
class Column:
    """An input column of the model: its name, what it holds, and (ordered kinds) its levels in order."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """Rules, constants and link of a fitted model, enough to score any row anywhere.

    Attributes
    ----------
    rules : tuple of Rule
    constant : tuple of float
        One per score column.
    link : str
        `identity` and `exp` (regression); `logistic` and `platt` (two classes: the score's sign decides, the
        probability of classes[1] is the sigmoid of the score, or of slope * score + shift); `softmax`,
        `ovr` (one score per class, first maximum wins; probabilities are the softmax, or the sigmoids divided
        by their sum); `none` (classes without probabilities: two classes by sign, more by first maximum).
    classes : tuple
        Class labels as plain Python values (str, int, float, bool); empty for regression.
    columns : tuple of Column
        The input columns in training order.
    target : str
        What is predicted, for texts.
    platt : tuple of (slope, shift), one per score column
        Only for link `platt`.
    """

    rules: tuple[Rule, ...]
    constant: tuple[float, ...]
    link: str
    classes: tuple[Any, ...] = ()
    columns: tuple[Column, ...] = ()
    target: str = "target"
    platt: tuple[tuple[float, float], ...] = ()
