"""Conditions the user names: an expression, a function of the table, or a column of booleans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.expression_tree import parse
from tamis.core.literal import Literal
from tamis.tables.backends import values_of_any
from tamis.tables.columns import Bools, Values
from tamis.tables.expression import evaluate
from tamis.tables.frame import Table


@dataclass(frozen=True)
class GivenColumn:
    """A column given beside the table: its cells on the rows of the whole input, and where it was given."""

    values: Values
    given: Bools
    token: object

    def on(self, table: Table) -> Values | None:
        """The column on a part of the input it was given with; None for any other table or row."""
        if table.token is not self.token:
            return None
        if table.rows is None:
            return self.values if self.given.all() else None
        return self.values.take(table.rows) if self.given[table.rows].all() else None


Source = Callable[[Any], Any] | GivenColumn


def propositions_of(propositions: Mapping[Any, Any] | None, table: Table) -> tuple[list[Literal], dict[str, Source]]:
    """The user's propositions as conditions, and what those that are no expressions are computed from."""
    literals: list[Literal] = []
    sources: dict[str, Source] = {}
    for name, proposition in (propositions or {}).items():
        if not isinstance(name, str) or not name:
            raise TamisError(f"A proposition has the name {name!r}, so no rule could mention it; name propositions by non-empty text.")
        if name in table.position:
            raise TamisError(f"The proposition {name!r} is named like a column, so a rule could not say which it means; rename it.")
        if isinstance(proposition, str):
            parse(proposition)
            literals.append(Literal(name, "given", proposition, "given"))
        elif callable(proposition):
            literals.append(Literal(name, "given", None, "given"))
            sources[name] = proposition
        else:
            literals.append(Literal(name, "true", None, "boolean"))
            sources[name] = _given_column(name, proposition, table)
    return literals, sources


def _given_column(name: str, cells: Any, table: Table) -> GivenColumn:
    """A column given beside the table, for all rows of the input or for the table's rows."""
    values = as_booleans(values_of_any(cells, name), f"The proposition {name!r}")
    assert values.numbers is not None  # booleans are numbers
    rows = np.arange(table.height) if table.rows is None or len(values) == table.height else table.rows
    if len(values) != len(rows):
        raise TamisError(
            f"The proposition {name!r} has {len(values)} values for {table.n_rows} rows, so they cannot be matched; give one value per row."
        )
    whole, given = np.full(table.height, np.nan), np.zeros(table.height, dtype=bool)
    whole[rows], given[rows] = values.numbers, True
    return GivenColumn(Values("boolean", numbers=whole), given, table.token)


def as_booleans(values: Values, what: str) -> Values:
    """The values if they are true or false (or 0 and 1, or missing), else one sentence."""
    if values.numbers is None or values.kind == "date":
        if values.missing.all():
            return Values("boolean", numbers=np.full(len(values), np.nan))
        raise TamisError(f"{what} gives text or dates instead of true and false, so it is no condition; compare them with something.")
    odd = values.numbers[~values.missing & (values.numbers != 0) & (values.numbers != 1)]
    if len(odd):
        raise TamisError(
            f"{what} gives numbers such as {odd[0]:g} instead of true and false, so it is no condition; compare them with something."
        )
    return Values("boolean", numbers=values.numbers)


def holds_given(literal: Literal, source: Source | None, table: Table) -> Bools:
    """Rows of a table on which an expression or a function holds."""
    if literal.value is not None:
        return evaluate(str(literal.value), table)
    if source is None or isinstance(source, GivenColumn):
        raise TamisError(
            f"The proposition {literal.column!r} was a Python function, which was not kept; give it again, or write it as an expression."
        )
    return called(literal.column, source, table)


def called(name: str, function: Callable[[Any], Any], table: Table) -> Bools:
    """A function of the whole input, then the rows of this table."""
    result = function(table.native)
    shape = np.shape(result)
    whole = table.height
    if shape != (whole,):
        raise TamisError(
            f"The proposition {name!r} returned shape {shape} for {whole} rows, so it is no condition; return one truth value per row."
        )
    values = as_booleans(values_of_any(result, name), f"The proposition {name!r}")
    rows = np.equal(values.numbers, 1.0) if values.numbers is not None else np.zeros(whole, bool)
    return rows if table.rows is None else rows[table.rows]
