"""One condition on one column, as pure data: made by `tables`, read by every text and every export.

A condition never holds on a missing cell, except `missing` itself. That is what lets SQL's three-valued
logic, a Python dict and our packed bits agree row by row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

OPERATORS = ("<=", ">", "==", "!=", "in", "not in", "true", "false", "missing", "given")
KINDS = ("numeric", "integer", "date", "level", "ordered", "boolean", "given")


@dataclass(frozen=True, slots=True)
class Literal:
    """A condition such as `tenure <= 11`, `contract == "monthly"` or `age is missing`.

    Attributes
    ----------
    column : str
        Name of the column it reads (for `given` literals: the proposition's name).
    operator : str
        `<=`, `>` (kinds numeric, integer, date), `==`, `!=` (level), `in`, `not in` (level, ordered; see
        `members`), `true`, `false` (boolean), `missing` (any kind), `given` (a user's proposition).
    value : float, str or None
        The cut, as a float (numeric, integer) or ISO text (date); the level as text; for `given` the
        expression, or None when the proposition was a Python callable and cannot leave Python.
    kind : str
        What the column holds: one of KINDS.
    members : tuple of str
        The levels meant by `in` and `not in`.
    label : str
        Display text that replaces the default one; empty for the default.
    """

    column: str
    operator: str
    value: Any = None
    kind: str = "numeric"
    members: tuple[str, ...] = ()
    label: str = ""

    def text(self) -> str:
        """The condition as people read it, in original units."""
        if self.label:
            return self.label
        if self.operator == "missing":
            return f"{self.column} is missing"
        if self.operator in ("true", "given"):
            return self.column
        if self.operator == "false":
            return f"not {self.column}"
        if self.operator in ("in", "not in"):
            return f"{self.column} {self.operator} {{{', '.join(self.members)}}}"
        symbol = {"==": "="}.get(self.operator, self.operator)
        return f"{self.column} {symbol} {value_text(self.value)}"

    def relabelled(self, label: str) -> Literal:
        """The same condition with another display text."""
        return replace(self, label=label)


def value_text(value: Any) -> str:
    """A cut or a level as text: the shortest decimal that reads back as the same number, integers without `.0`."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
    return str(value)
