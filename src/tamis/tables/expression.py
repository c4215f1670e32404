"""Which rows of a table satisfy a proposition written as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    is_number,
    parse,
)
from tamis.tables.columns import NUMERIC, Array, Bools, Floats, Values, micros
from tamis.tables.frame import Table

COMPARE = {"<=": np.less_equal, "<": np.less, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}
COMPUTE = {"+": np.add, "-": np.subtract, "*": np.multiply}


@dataclass(frozen=True)
class Verdict:
    """Three-valued truth: rows in neither are unknown."""

    yes: Bools
    no: Bools


def evaluate(text: str, table: Table) -> Bools:
    """Rows on which the proposition holds; unknown counts as no.

    Examples
    --------
    >>> from tamis.tables.expression import evaluate
    >>> from tamis.tables.frame import as_table
    >>> evaluate("age > 30 or not member", as_table({"age": [40, None, 20], "member": [True, False, None]})).tolist()
    [True, True, False]
    """
    return _Evaluation(text, table).condition(parse(text)).yes


@dataclass(frozen=True)
class _Evaluation:
    """One proposition over one table."""

    text: str
    table: Table

    def refusal(self, why: str) -> TamisError:
        return TamisError(f"The proposition {self.text!r} {why}.")

    def column(self, name: str) -> Values:
        if name not in self.table.position:
            known = ", ".join(map(repr, self.table.names[:8])) + (" and more" if len(self.table.names) > 8 else "")
            raise self.refusal(f"reads the column {name!r}, which the table does not have; its columns are {known}")
        return self.table.column(name)

    def condition(self, node: Condition) -> Verdict:
        match node:
            case Joined(operator=operator, parts=parts):
                verdicts = [self.condition(part) for part in parts]
                yes, no = [verdict.yes for verdict in verdicts], [verdict.no for verdict in verdicts]
                if operator == "and":
                    return Verdict(np.logical_and.reduce(yes), np.logical_or.reduce(no))
                return Verdict(np.logical_or.reduce(yes), np.logical_and.reduce(no))
            case Opposite(condition=inner):
                verdict = self.condition(inner)
                return Verdict(verdict.no, verdict.yes)
            case Missing(column=name):
                absent = self.column(name).missing
                return Verdict(absent, ~absent)
            case Truth(column=name):
                return self.truth(name)
            case Among(value=value, members=members):
                parts = tuple(Compare("==", value, member) for member in members)
                return self.condition(Joined("or", parts))
            case Compare():
                return self.comparison(node)

    def truth(self, name: str) -> Verdict:
        """A column of booleans standing alone."""
        values = self.column(name)
        if values.kind != "boolean" and not values.missing.all():
            raise self.refusal(f"uses the column {name!r} as a condition, but it holds no booleans; compare it, as in '{name} > 0'")
        if values.numbers is None:
            return Verdict(np.zeros(len(values), bool), np.zeros(len(values), bool))
        return Verdict(values.numbers == 1, values.numbers == 0)

    def comparison(self, node: Compare) -> Verdict:
        """Both sides as numbers, as moments, or as texts."""
        compared = [self.column(side.column) for side in (node.left, node.right) if isinstance(side, Name)]
        kinds = {values.kind for values in compared}
        if any(values.missing.all() for values in compared):
            nowhere = np.zeros(self.table.n_rows, bool)
            return Verdict(nowhere, nowhere)
        if is_number(node.left) or is_number(node.right) or (kinds and kinds <= set(NUMERIC)):
            left, right = self.number(node.left), self.number(node.right)
        elif "date" in kinds:
            left, right = self.moment(node.left), self.moment(node.right)
        else:
            return self.text_comparison(node, kinds)
        known = ~(np.isnan(left) | np.isnan(right))
        yes = COMPARE[node.operator](left, right) & known
        return Verdict(*np.broadcast_arrays(yes, ~yes & known, np.zeros(self.table.n_rows, bool))[:2])

    def number(self, node: Value) -> Floats:
        """A value as numbers, NaN where missing."""
        match node:
            case Number(value=value):
                return np.float64(value) + np.zeros(1)
            case Name(column=name):
                values = self.column(name)
                if values.numbers is not None and values.kind in NUMERIC:
                    return values.numbers
                if values.missing.all():  # a column of nothing may have come in as any type
                    return np.full(len(values), np.nan)
                held = {"boolean": "booleans", "date": "dates"}.get(values.kind, "text")
                raise self.refusal(f"uses the column {name!r} as a number, but it holds {held}; correct the proposition or the column")
            case Absolute(value=value):
                return np.abs(self.number(value))
            case Arithmetic(operator=operator, left=left, right=right):
                return self.calculation(operator, self.number(left), self.number(right))
        raise self.refusal("compares a number with text; put both on the same footing")

    def calculation(self, operator: str, left: Floats, right: Floats) -> Floats:
        """One arithmetic step; a division by zero has no value, as in SQL with NULLIF."""
        with np.errstate(all="ignore"):
            if operator == "/":
                return np.where(right == 0, np.nan, left / right)
            return np.asarray(COMPUTE[operator](left, right), dtype=np.float64)

    def moment(self, node: Value) -> Floats:
        """A value as microseconds since 1970."""
        match node:
            case Name(column=name):
                values = self.column(name)
                if values.kind == "date" and values.numbers is not None:
                    return values.numbers
                raise self.refusal(f"compares the column {name!r} with dates, but it holds none; correct the proposition or the column")
            case Text(value=text):
                try:
                    return np.array([micros(text)])
                except ValueError:
                    raise self.refusal(f"compares dates with {text!r}, which is no ISO date; write one such as '2024-12-31'") from None
        raise self.refusal("compares dates with numbers; write the date as text such as '2024-12-31'")

    def text_comparison(self, node: Compare, kinds: set[str]) -> Verdict:
        """Texts are equal or not; their order differs from database to database, so it is refused."""
        if node.operator not in ("==", "!="):
            raise self.refusal("orders text, which every database does in its own way; list the levels, as in \"size in ('S', 'M')\"")
        if "boolean" in kinds:
            raise self.refusal("compares a column of booleans with something else; write the column alone, or 'not' before it")
        (left, known_left), (right, known_right) = self.texts(node.left), self.texts(node.right)
        known = known_left & known_right
        same = np.asarray(left == right) & known
        differ = np.asarray(left != right) & known
        whole = np.zeros(self.table.n_rows, bool)
        same, differ = same | whole, differ | whole
        return Verdict(same, differ) if node.operator == "==" else Verdict(differ, same)

    def texts(self, node: Value) -> tuple[Array, Bools]:
        """A value as texts, and where it is known."""
        match node:
            case Text(value=text):
                return np.array([text], dtype=object), np.ones(1, bool)
            case Name(column=name):
                values = self.column(name)
                if values.codes is not None:
                    return np.array([*values.levels, ""], dtype=object)[values.codes], ~values.missing
        raise self.refusal("compares text with something that is not text; put both on the same footing")
