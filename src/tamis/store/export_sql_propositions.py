"""A user's proposition as an SQL condition: where it is unknown for us it is NULL there, and NULL ends in ELSE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tamis.core.errors import TamisError
from tamis.core.expression_tree import (
    Absolute,
    Among,
    Arithmetic,
    Compare,
    Condition,
    Joined,
    Missing,
    Name,
    Number,
    Opposite,
    Text,
    Truth,
    Value,
    parse,
)
from tamis.store.export_card import moment_of
from tamis.store.export_propositions import reading_of
from tamis.store.export_sql_dialects import Dialect

_SYMBOLS = {"==": "=", "!=": "<>"}


def proposition_sql(text: str, dialect: Dialect, kinds: Mapping[str, str]) -> str:
    """The proposition `text` in parentheses, for columns that hold `kinds`."""
    return f"({_Writer(dialect, kinds).condition(parse(text))})"


def missing_sql(column: str, kind: str, dialect: Dialect) -> str:
    """NULL, and NaN where the column may hold one; never NULL itself."""
    quoted = dialect.identifier(column)
    if kind in ("numeric", "integer") and dialect.not_a_number:
        return f"({quoted} IS NULL OR {dialect.not_a_number.format(dialect.double.format(quoted))})"
    return f"{quoted} IS NULL"


def moment_sql(text: str, dialect: Dialect) -> str:
    """An ISO date or time as a timestamp literal with microseconds."""
    moment = moment_of(text)
    if moment is None:
        raise TamisError(f"{text!r} is not an ISO date of the years 1 to 9999, so no SQL was written; write dates like '2024-01-31'.")
    return dialect.time_literal.format(dialect.string(moment.isoformat(" ", "microseconds")))


@dataclass(frozen=True)
class _Writer:
    """Writes one tree; parentheses around everything that is joined."""

    dialect: Dialect
    kinds: Mapping[str, str]

    def condition(self, node: Condition) -> str:
        """Whatever can hold."""
        match node:
            case Joined(operator=operator, parts=parts):
                return f" {operator.upper()} ".join(f"({self.condition(part)})" for part in parts)
            case Opposite(condition=inner):
                return f"NOT ({self.condition(inner)})"
            case Missing(column=column):
                return missing_sql(column, self.kinds[column], self.dialect)
            case Truth(column=column):
                return self.dialect.is_true.format(self.dialect.identifier(column))
            case Among(value=value, members=members):
                tests = [Compare("==", value, member) for member in members]
                return " OR ".join(self.condition(test) for test in tests) if len(tests) > 1 else self.condition(tests[0])
            case Compare(operator=operator, left=left, right=right):
                reading = reading_of(node, self.kinds)
                return f"{self.side(left, reading)} {_SYMBOLS.get(operator, operator)} {self.side(right, reading)}"

    def side(self, node: Value, reading: str) -> str:
        """One side of a comparison; a NaN, read or calculated, becomes NULL: unknown, and not the largest number."""
        written = self.value(node, reading)
        if reading == "number" and self.dialect.no_nan and not isinstance(node, Number):
            return self.dialect.no_nan.format(written)
        return written

    def value(self, node: Value, reading: str) -> str:
        """Whatever can be compared."""
        match node:
            case Number(value=number):
                return f"({self.dialect.number(number)})" if number < 0 else self.dialect.number(number)
            case Text(value=text):
                return moment_sql(text, self.dialect) if reading == "moment" else self.dialect.text_literal(text)
            case Name(column=column):
                return self.cell(column, reading)
            case Absolute(value=value):
                return f"ABS({self.value(value, 'number')})"
            case Arithmetic(operator="/", left=left, right=right):
                return f"({self.value(left, 'number')} / NULLIF({self.value(right, 'number')}, 0))"
            case Arithmetic(operator=operator, left=left, right=right):
                return f"({self.value(left, 'number')} {operator} {self.value(right, 'number')})"

    def cell(self, column: str, reading: str) -> str:
        """A column as a double, a timestamp or a text, NULL where missing."""
        quoted, dialect = self.dialect.identifier(column), self.dialect
        if reading == "moment":
            return dialect.time.format(quoted)
        if reading == "text":
            return dialect.text.format(quoted)
        return dialect.double.format(quoted)
