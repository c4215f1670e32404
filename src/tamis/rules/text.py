"""Conditions and rules as people read them: intervals merged, sets merged, nothing said twice.

The text is a small language, so that what is read is what is computed:

    rule      = piece (" AND " piece)*        or, for a disjunction, piece (" OR " piece)*
    piece     = low "<" name "<=" high | name op value | name "in {" levels "}" | name "not in {" levels "}"
              | name | "not " name | name " is missing"

Names and levels that could be misread (they hold an operator, a brace, a quote, AND, OR, ...) stand in double
quotes, escaped as in JSON. A test parses every text back into its rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal, value_text

LATTICES = ("conjunction", "disjunction")
BOUNDED = ("<=", ">")
AMONG = ("==", "!=", "in", "not in")
OPPOSITE = {"<=": ">", ">": "<=", "==": "!=", "!=": "==", "in": "not in", "not in": "in", "true": "false", "false": "true"}
MISREAD = re.compile(r'[<>=!{}",\n\r\t\\]|(^|\s)(AND|OR|THEN)(\s|$)|^\s|\s$|^$|\s\s')
MISREAD_NAME = re.compile(r"^not\s|(^|\s)is missing$")


def quoted(text: str, name: bool = False) -> str:
    """The text itself, or in double quotes where a reader (or a parser) could take it for something else."""
    odd = MISREAD.search(text) or (name and MISREAD_NAME.search(text))
    return json.dumps(text, ensure_ascii=False) if odd else text


def cut_order(value: Any) -> Any:
    """A cut as something that sorts: numbers as they are, ISO dates as moments."""
    return np.datetime64(value) if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class Piece:
    """What a rule says about one column, all its conditions taken together.

    `low < column <= high` when a bound is set; `column in members` (or not in them) when members are; else
    `operator` is one of true, false, missing, given.
    """

    column: str
    kind: str
    low: Any = None
    high: Any = None
    members: tuple[str, ...] = ()
    operator: str = ""
    label: str = ""

    def text(self) -> str:
        """The piece when it has to hold."""
        name = quoted(self.column, name=True)
        if self.label:
            return self.label
        if self.operator in AMONG:
            return _members_text(name, self.operator in ("==", "in"), self.members)
        if self.operator:
            return {"missing": f"{name} is missing", "false": f"not {name}"}.get(self.operator, name)
        return self._interval_text(name)

    def opposite_text(self) -> str:
        """The piece when it has to fail on a row whose cell is not missing."""
        name = quoted(self.column, name=True)
        if self.operator in AMONG:
            return _members_text(name, self.operator not in ("==", "in"), self.members)
        if self.operator:
            return {"false": name, "true": f"not {name}"}.get(self.operator, f"NOT ({self.text()})")
        below = None if self.low is None else Piece(self.column, self.kind, high=self.low)
        above = None if self.high is None else Piece(self.column, self.kind, low=self.high)
        return " OR ".join(side.text() for side in (below, above) if side is not None)

    def _interval_text(self, name: str) -> str:
        low, high, sign = self.low, self.high, "<"
        if self.kind == "integer" and low is not None and float(low).is_integer():
            low, sign = float(low) + 1, "<="
        if high is None:
            return f"{name} {'>' if sign == '<' else '>='} {value_text(low)}"
        if low is None:
            return f"{name} <= {value_text(high)}"
        if sign == "<=" and low == high:
            return f"{name} = {value_text(low)}"
        return f"{value_text(low)} {sign} {name} <= {value_text(high)}"


def _members_text(name: str, inside: bool, members: Sequence[str]) -> str:
    shown = [quoted(member) for member in members]
    if len(shown) == 1:
        return f"{name} {'=' if inside else '!='} {shown[0]}"
    return f"{name} {'in' if inside else 'not in'} {{{', '.join(shown)}}}"


def pieces_of(conditions: Sequence[Literal]) -> tuple[Piece, ...]:
    """One piece per column, in the order columns first appear; contradictions are left as they were said."""
    groups: dict[str, list[Literal]] = {}
    for condition in conditions:
        groups.setdefault(condition.column, []).append(condition)
    pieces: list[Piece] = []
    for group in groups.values():
        merged = _merged(group)
        pieces += [merged] if merged is not None else [piece for piece in map(_single, group) if piece is not None]
    return tuple(pieces)


def _single(literal: Literal) -> Piece | None:
    piece = _merged([literal])
    assert piece is not None  # one condition alone cannot contradict itself
    return piece


def _merged(group: Sequence[Literal]) -> Piece | None:
    """The conditions of one column as one piece, or None when no row could satisfy them."""
    first = group[0]
    label = first.label if len({(c.operator, c.value, c.members) for c in group}) == 1 else ""
    operators = {condition.operator for condition in group}
    if operators <= set(BOUNDED):
        return _interval(group, label)
    if operators <= set(AMONG):
        return _among(group, label)
    if len(operators) == 1:
        return Piece(first.column, first.kind, operator=first.operator, label=label)
    return None


def _interval(group: Sequence[Literal], label: str) -> Piece | None:
    lows = [c.value for c in group if c.operator == ">"]
    highs = [c.value for c in group if c.operator == "<="]
    low, high = max(lows, key=cut_order, default=None), min(highs, key=cut_order, default=None)
    if low is not None and high is not None and cut_order(low) >= cut_order(high):
        return None
    return Piece(group[0].column, group[0].kind, low=low, high=high, label=label)


def _among(group: Sequence[Literal], label: str) -> Piece | None:
    inside = [_levels(c) for c in group if c.operator in ("==", "in")]
    outside = {level for c in group if c.operator in ("!=", "not in") for level in _levels(c)}
    first = group[0]
    if not inside:
        listed = dict.fromkeys(level for c in group for level in _levels(c))
        return Piece(first.column, first.kind, members=tuple(listed), operator="not in", label=label)
    left = tuple(level for level in inside[0] if level not in outside and all(level in other for other in inside))
    return Piece(first.column, first.kind, members=left, operator="in", label=label) if left or len(group) == 1 else None


def _levels(literal: Literal) -> tuple[str, ...]:
    return literal.members if literal.operator in ("in", "not in") else (str(literal.value),)


def can_flip(conditions: Iterable[Literal]) -> bool:
    """Whether the rule's opposite has a plain text: every condition has an opposite condition and no label of its own."""
    return all(condition.operator in OPPOSITE and not condition.label for condition in conditions)


def text_of(conditions: Sequence[Literal], lattice: str = "conjunction") -> str:
    """The conditions of a rule as text; for a disjunction, the text of the rule's opposite.

    Parameters
    ----------
    conditions : sequence of Literal
        What must hold together.
    lattice : {"conjunction", "disjunction"}
        "conjunction" joins them by AND. "disjunction" says when they do *not* all hold: their opposites joined
        by OR (for cells that are not missing), so a rule on `not a` and `not b` reads `a OR b`.

    Examples
    --------
    >>> from tamis.core.literal import Literal
    >>> from tamis.rules.text import text_of
    >>> low, high = Literal("age", ">", 18.0), Literal("age", "<=", 65.0)
    >>> text_of([low, high, Literal("colour", "!=", "red", "level")])
    '18 < age <= 65 AND colour != red'
    >>> text_of([Literal("colour", "!=", "red", "level"), Literal("colour", "!=", "blue", "level")], "disjunction")
    'colour in {red, blue}'
    """
    if lattice not in LATTICES:
        raise TamisError(f"lattice is {lattice!r}, so the rule cannot be written; use one of {', '.join(map(repr, LATTICES))}.")
    pieces = pieces_of(conditions)
    if lattice == "conjunction":
        return " AND ".join(piece.text() for piece in pieces) or "always"
    if not can_flip(conditions):
        return f"NOT ({' AND '.join(piece.text() for piece in pieces)})" if pieces else "never"
    return " OR ".join(piece.opposite_text() for piece in pieces) or "never"


def condition_texts(conditions: Sequence[Literal], lattice: str = "conjunction") -> tuple[str, ...]:
    """The merged pieces one by one, as a list of conditions for a table or a report."""
    flip = lattice == "disjunction"
    return tuple(piece.opposite_text() if flip else piece.text() for piece in pieces_of(conditions))


def weight_text(weight: float) -> str:
    """A weight with its sign and as many digits as it needs: +1.32, -0.041, +12.5."""
    size = abs(weight)
    if size == 0 or not np.isfinite(size):
        return f"{weight:+.2f}"
    if size < 1e-4 or size >= 1e6:
        return f"{weight:+.2e}"
    digits = 2 if size >= 0.095 else 1 - int(np.floor(np.log10(size)))
    return f"{weight:+.{digits}f}"


def number_text(value: float) -> str:
    """A measured number with about three significant digits and no exponent where people expect none."""
    if not np.isfinite(value):
        return "unknown"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        digits = 2 if value == 0 else max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:.{min(digits, 6)}f}"
    return f"{value:.2e}"


def outcome_text(link: str, classes: Sequence[Any], target: str, favoured: int) -> str:
    """What stands behind THEN: the target itself for yes/no classes, `target = class` for others, the mean for regression."""
    if not classes:
        return f"log {quoted(target)}" if link == "exp" else quoted(target)
    label = classes[favoured]
    if len(classes) == 2 and target and list(classes) in ([False, True], [0, 1]) and target != "target":
        return quoted(target) if favoured == 1 else f"not {quoted(target)}"
    return f"{quoted(target or 'target')} = {quoted(value_text(label))}"
