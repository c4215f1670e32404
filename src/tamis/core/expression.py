"""Propositions in other languages: the same three-valued truth as an SQL condition and as plain Python.

Pure text to text, so that exports need no table and no fitted model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
    columns_of,
    is_number,
    parse,
)

__all__ = ["PYTHON_HELPERS", "columns_of", "parse", "to_python", "to_sql"]

Spelling = Callable[[str], str]
SQL_SYMBOLS = {"==": "=", "!=": "<>"}
NUMBERS = ("numeric", "integer")


def quoted_text(text: str) -> str:
    """A text constant in standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def to_sql(
    text: str,
    quote: Spelling,
    *,
    number: Spelling | None = None,
    boolean: Spelling | None = None,
    string: Spelling = quoted_text,
    kinds: Mapping[str, str] | None = None,
) -> str:
    r"""A proposition as an SQL condition; where it is unknown here it is NULL there.

    Parameters
    ----------
    text : str
        The proposition.
    quote : callable
        Column name -> quoted identifier.
    number : callable, optional
        Column name -> its value as a double, NULL where missing (a dialect may have to turn NaN into NULL).
        Default: `CAST(column AS DOUBLE PRECISION)`.
    boolean : callable, optional
        Column name -> a condition that holds when the column is true. Default: the quoted name.
    string : callable
        Text -> SQL text constant.
    kinds : dict of str to str, optional
        What the columns hold (`Column.kind`): settles what two compared columns are.

    Examples
    --------
    >>> from tamis.core.expression import to_sql
    >>> to_sql("town in ('Oslo', 'Lyon') and not member", lambda name: f'"{name}"')
    '("town" IN (\'Oslo\', \'Lyon\') AND NOT ("member"))'
    """

    def double(column: str) -> str:
        return f"CAST({quote(column)} AS DOUBLE PRECISION)"

    return _Sql(quote, number or double, boolean or quote, string, kinds or {}).condition(parse(text))


@dataclass(frozen=True)
class _Sql:
    """Writes nodes as SQL, every condition in brackets of its own."""

    quote: Spelling
    number: Spelling
    boolean: Spelling
    string: Spelling
    kinds: Mapping[str, str] = field(default_factory=dict)

    def condition(self, node: Condition) -> str:
        match node:
            case Joined(operator=operator, parts=parts):
                return "(" + f" {operator.upper()} ".join(map(self.condition, parts)) + ")"
            case Opposite(condition=Missing(column=column)):
                return f"{self.cell(column)} IS NOT NULL"
            case Opposite(condition=inner):
                return f"NOT ({self.condition(inner)})"
            case Missing(column=column):
                return f"{self.cell(column)} IS NULL"
            case Truth(column=column):
                return self.boolean(column)
            case Among(value=value, members=members):
                numeric = isinstance(members[0], Number)
                return f"{self.value(value, numeric)} IN ({', '.join(self.value(member, numeric) for member in members)})"
            case Compare(operator=operator, left=left, right=right):
                numeric = is_number(left) or is_number(right)
                return f"{self.value(left, numeric)} {SQL_SYMBOLS.get(operator, operator)} {self.value(right, numeric)}"

    def cell(self, column: str, numeric: bool = False) -> str:
        return self.number(column) if numeric or self.kinds.get(column) in NUMBERS else self.quote(column)

    def value(self, node: Value, numeric: bool) -> str:
        match node:
            case Number(value=value):
                return f"({value!r})" if value < 0 else repr(value)
            case Text(value=text):
                return self.string(text)
            case Name(column=column):
                return self.cell(column, numeric)
            case Absolute(value=value):
                return f"ABS({self.value(value, True)})"
            case Arithmetic(operator="/", left=left, right=right):
                return f"({self.value(left, True)} / NULLIF({self.value(right, True)}, 0.0))"
            case Arithmetic(operator=operator, left=left, right=right):
                return f"({self.value(left, True)} {operator} {self.value(right, True)})"


#: What the Python text of a proposition calls: dependency-free source, to be placed once in a generated module.
PYTHON_HELPERS = '''\
def _nothing(value):
    """True for a missing cell: None, NaN, NaT or pandas.NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _number(value):
    """A cell as a float, None when missing."""
    return None if _nothing(value) or float(value) != float(value) else float(value)


def _text(value):
    """A cell as text or, for dates, as a moment; None when missing."""
    return None if _nothing(value) else _moment(value) if hasattr(value, "isoformat") else str(value)


def _moment(value):
    """A date, a datetime or ISO text as a naive UTC datetime, None when missing."""
    import datetime

    if _nothing(value):
        return None
    value = datetime.datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())
    return value if value.tzinfo is None else value.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _truth(value):
    """A cell as True, False or, when missing, None."""
    return None if _nothing(value) else bool(value)


def _compare(operator, left, right):
    """A comparison; unknown (None) when a side is missing."""
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        left, right = (_moment(left), right) if isinstance(left, str) else (left, _moment(right))
    if operator in ("==", "!="):
        return (left == right) == (operator == "==")
    return left <= right if operator == "<=" else left < right if operator == "<" else left > right if operator == ">" else left >= right


def _among(value, members):
    """Membership; unknown when the value is missing."""
    return None if value is None else any(_compare("==", value, member) for member in members)


def _arithmetic(operator, left, right):
    """A calculation on floats; None when a side is missing, a divisor is zero or the result is not a number."""
    if left is None or right is None or (operator == "/" and right == 0):
        return None
    result = left + right if operator == "+" else left - right if operator == "-" else left * right if operator == "*" else left / right
    return None if result != result else result


def _absolute(value):
    """Size without sign, None when missing."""
    return None if value is None else abs(value)


def _all(*parts):
    """Three-valued and."""
    return False if False in parts else None if None in parts else True


def _any(*parts):
    """Three-valued or."""
    return True if True in parts else None if None in parts else False


def _not(part):
    """Three-valued not."""
    return None if part is None else not part
'''


def to_python(text: str, row: str = "row", kinds: Mapping[str, str] | None = None) -> str:
    """A proposition as a Python expression over a dict, giving True, False or (unknown) None.

    The expression calls the functions of `PYTHON_HELPERS`, which the generated module has to contain.

    Parameters
    ----------
    text : str
        The proposition.
    row : str
        What the dict is called in the generated code.
    kinds : dict of str to str, optional
        What the columns hold: settles what two compared columns are.

    Examples
    --------
    >>> from tamis.core.expression import PYTHON_HELPERS, to_python
    >>> to_python("age > 30 or member")
    "_any(_compare('>', _number(row.get('age')), 30.0), _truth(row.get('member')))"
    >>> names = {}
    >>> exec(PYTHON_HELPERS, names)
    >>> eval(to_python("age > 30 or member"), names | {"row": {"age": None, "member": True}})
    True
    """
    if not row.isidentifier():
        raise TamisError(f"row={row!r} is not a Python name, so the proposition cannot be written as Python; use a name such as 'row'.")
    return _Python(row, kinds or {}).condition(parse(text))


@dataclass(frozen=True)
class _Python:
    """Writes nodes as calls of the helpers."""

    row: str
    kinds: Mapping[str, str]

    def condition(self, node: Condition) -> str:
        match node:
            case Joined(operator=operator, parts=parts):
                return f"{'_all' if operator == 'and' else '_any'}({', '.join(map(self.condition, parts))})"
            case Opposite(condition=inner):
                return f"_not({self.condition(inner)})"
            case Missing(column=column):
                return f"_nothing({self.cell(column)})"
            case Truth(column=column):
                return f"_truth({self.cell(column)})"
            case Among(value=value, members=members):
                reader = "_number" if isinstance(members[0], Number) else "_text"
                return f"_among({self.value(value, reader)}, ({', '.join(repr(member.value) for member in members)},))"
            case Compare(operator=operator, left=left, right=right):
                reader = self.reader(operator, left, right)
                return f"_compare({operator!r}, {self.value(left, reader)}, {self.value(right, reader)})"

    def reader(self, operator: str, left: Value, right: Value) -> str:
        """How the cells of a comparison are read: text is only ever ordered when it means dates."""
        kinds = {self.kinds.get(side.column) for side in (left, right) if isinstance(side, Name)}
        if is_number(left) or is_number(right) or kinds & set(NUMBERS):
            return "_number"
        either_text = isinstance(left, Text) or isinstance(right, Text)
        if "date" in kinds or (either_text and operator not in ("==", "!=")):
            return "_moment"
        # two columns of unknown kind that are ordered can only be numbers or dates; numbers are the usual case
        return "_text" if either_text or operator in ("==", "!=") else "_number"

    def cell(self, column: str) -> str:
        return f"{self.row}.get({column!r})"

    def value(self, node: Value, reader: str) -> str:
        match node:
            case Number(value=value):
                return repr(value)
            case Text(value=text):
                return f"_moment({text!r})" if reader == "_moment" else repr(text)
            case Name(column=column):
                return f"{reader}({self.cell(column)})"
            case Absolute(value=value):
                return f"_absolute({self.value(value, '_number')})"
            case Arithmetic(operator=operator, left=left, right=right):
                return f"_arithmetic({operator!r}, {self.value(left, '_number')}, {self.value(right, '_number')})"
