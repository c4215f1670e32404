"""A rule's conditions as SQL: each is true, false or unknown, and unknown ends in ELSE like our missing cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tamis.core.literal import Literal
from tamis.store.export_card import moment_of
from tamis.store.export_sql_dialects import Dialect
from tamis.store.export_sql_propositions import missing_sql, moment_sql, proposition_sql

NEVER = "1 = 0"
ALWAYS = "1 = 1"


def conditions_sql(conditions: Sequence[Literal], dialect: Dialect, kinds: Mapping[str, str]) -> str:
    """All conditions joined by AND; the empty conjunction always holds."""
    # Another condition that keeps a column below a number keeps NaN out too.
    bounded = {condition.column for condition in conditions if condition.operator == "<="}
    return " AND ".join(_condition(condition, dialect, kinds, condition.column in bounded) for condition in conditions) or ALWAYS


def _condition(condition: Literal, dialect: Dialect, kinds: Mapping[str, str], bounded: bool) -> str:
    """One condition, or several joined by AND."""
    column = dialect.identifier(condition.column)
    if condition.operator == "given":
        return proposition_sql(condition.value, dialect, kinds)
    if condition.operator == "missing":
        return missing_sql(condition.column, condition.kind, dialect)
    if condition.operator in ("<=", ">"):
        if condition.kind == "date":
            return _moment(condition, column, dialect)
        return _comparison(condition, dialect.double.format(column), column, dialect, bounded)
    if condition.operator in ("true", "false"):
        return (dialect.is_true if condition.operator == "true" else dialect.is_false).format(column)
    members = (condition.value,) if condition.operator in ("==", "!=") else condition.members
    return _membership(column, [str(member) for member in members], condition.operator in ("==", "in"), dialect)


def _comparison(condition: Literal, value: str, column: str, dialect: Dialect, bounded: bool) -> str:
    """`<=` or `>` on doubles: infinities by name or by what they mean, NaN kept out where it sorts last."""
    cut = float(condition.value)
    if math.isfinite(cut):
        test = f"{value} {condition.operator} {dialect.compared(cut)}"
    elif not dialect.infinity:
        return _beyond(condition.operator, cut > 0, column)
    elif condition.operator == ">" and cut > 0:
        return NEVER
    else:
        test = f"{value} {condition.operator} {'' if cut > 0 else '-'}{dialect.infinity}"
    if condition.operator == ">" and dialect.nan_is_largest and not bounded:
        test += f" AND {value} <= {dialect.infinity}"
    return test


def _moment(condition: Literal, column: str, dialect: Dialect) -> str:
    """`<=` or `>` on timestamps; a cut in a year no database can name lies beyond every cell."""
    if moment_of(condition.value) is None:
        return _beyond(condition.operator, not condition.value.startswith("-"), column)
    return f"{dialect.time.format(column)} {condition.operator} {moment_sql(condition.value, dialect)}"


def _beyond(operator: str, above: bool, column: str) -> str:
    """A comparison with a cut above (or below) every cell: all present cells, or none."""
    return f"{column} IS NOT NULL" if above == (operator == "<=") else NEVER


def _membership(column: str, members: list[str], inside: bool, dialect: Dialect) -> str:
    """`= 'a'` or `IN (...)`; the negative form says IS NOT NULL for the reader, the database knows."""
    value, texts = dialect.text.format(column), [dialect.text_literal(member) for member in members]
    if not texts:
        return NEVER if inside else f"{column} IS NOT NULL"
    if inside:
        return f"{value} = {texts[0]}" if len(texts) == 1 else f"{value} IN ({', '.join(texts)})"
    test = f"{value} <> {texts[0]}" if len(texts) == 1 else f"{value} NOT IN ({', '.join(texts)})"
    return f"{column} IS NOT NULL AND {test}"
