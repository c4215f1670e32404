"""One rule as it is shown: its text, what it favours, and everything measured about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tamis.core.certificate import percent
from tamis.core.literal import Literal
from tamis.rules.text import number_text, weight_text


@dataclass(frozen=True)
class ShownRule:
    """One rule of a rule set with everything measured about it.

    Attributes
    ----------
    index : int
        Its position, most important first.
    text : str
        The conditions, merged and in original units.
    parts : tuple of str
        The same, piece by piece.
    then : str
        What it favours: `churn`, `species = setosa`, or the target of a regression.
    weights : tuple of float
        One per score column.
    conditions : tuple of Literal
        The conjunction behind it. When `opposite` is true the text says when it does *not* hold.
    opposite : bool
        True for a rule shown as a disjunction.
    favoured : class label or None
    importance, support, count, coverage, precision, lift, mean, difference : float
        See `RuleStatistics`.
    """

    index: int
    text: str
    parts: tuple[str, ...]
    then: str
    weights: tuple[float, ...]
    conditions: tuple[Literal, ...]
    opposite: bool
    favoured: Any
    importance: float
    support: float
    count: int
    coverage: float
    precision: float
    lift: float
    mean: float
    difference: float

    @property
    def length(self) -> int:
        """How many conditions were paid for."""
        return len(self.conditions)

    @property
    def weight(self) -> float:
        """The weight, or the one of the favoured class when there are several score columns."""
        return self.weights[0] if len(self.weights) == 1 else max(self.weights)

    def sentence(self) -> str:
        """`IF a <= 3 AND b = x THEN churn (+1.32, covers 18 %, precision 0.71)`."""
        covers = f"covers {percent(self.coverage)}"
        if self.favoured is None:
            return f"IF {self.text} THEN {self.then} {weight_text(self.weight)} (mean {number_text(self.mean)}, {covers})"
        return f"IF {self.text} THEN {self.then} ({weight_text(self.weight)}, {covers}, precision {self.precision:.2f})"
