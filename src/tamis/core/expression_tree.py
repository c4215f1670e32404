r"""Propositions written as text: `age > 30 and (region == "north" or income is missing)`.

A small language read by Python's own parser and turned into a tree of ten node types; nothing is ever executed.
It allows comparisons (`<= < > >= == !=`, chains such as `0 < x <= 3`), `in` and `not in` with listed values,
`is missing` and `is not missing`, `and`, `or`, `not`, `+ - * /` and `abs()`, numbers, text in quotes, and column
names. A name that is no Python word goes in backquotes. The SQL spellings `=`, `<>`, `AND`, `IS NULL` work too.

Logic is three-valued, as in SQL: what touches a missing cell is unknown (so is a division by zero), unknown
passes through `not`, and a proposition that ends unknown does not hold.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tamis.core.errors import TamisError

COMPARISONS = {ast.LtE: "<=", ast.Lt: "<", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
LONGEST, DEEPEST = 10_000, 60


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A text: a level, or an ISO date when it is compared with a column of dates."""

    value: str


@dataclass(frozen=True, slots=True)
class Name:
    """A column used as a value."""

    column: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right` with one of `+ - * /`."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Absolute:
    """abs(value)."""

    value: Value


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right` with one of `<= < > >= == !=`."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Among:
    """The value is one of the members, which are all numbers or all texts."""

    value: Value
    members: tuple[Number, ...] | tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """The cell holds nothing; never unknown itself."""

    column: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A column of booleans used as a condition."""

    column: str


@dataclass(frozen=True, slots=True)
class Joined:
    """All parts hold (operator "and"), or at least one does ("or")."""

    operator: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opposite:
    """The condition fails; unknown stays unknown."""

    condition: Condition


Value: TypeAlias = Number | Text | Name | Arithmetic | Absolute
Condition: TypeAlias = Compare | Among | Missing | Truth | Joined | Opposite
Node: TypeAlias = Value | Condition

# Quoted text, `backquoted name`, and the SQL spellings outside of both.
SPELLINGS = re.compile(
    r"""(?P<text>'(?:''|\\.|[^'\\])*'|"(?:""|\\.|[^"\\])*")|`(?P<name>(?:``|[^`])+)`|(?P<unequal><>)|(?<![<>=!])(?P<equal>=)(?!=)"""
    r"""|\b(?P<word>AND|OR|NOT|IN|IS|NULL|TRUE|FALSE)\b""",
    re.DOTALL,
)
WORDS = {"NULL": "None", "TRUE": "True", "FALSE": "False"}


def parse(text: str) -> Condition:
    """Read a proposition.

    Parameters
    ----------
    text : str
        The expression.

    Returns
    -------
    Condition
        The tree of what it says.

    Examples
    --------
    >>> from tamis.core.expression_tree import parse
    >>> parse("age > 30")
    Compare(operator='>', left=Name(column='age'), right=Number(value=30.0))
    >>> parse("`home town` is missing")
    Missing(column='home town')
    """
    if not text.strip():
        raise TamisError(f"The proposition {text!r} is not an expression, so it cannot hold on any row; write one such as 'age > 30'.")
    if len(text) > LONGEST:
        raise TamisError(f"The proposition {text[:40]!r}... is longer than {LONGEST} characters, so it is not read; split it.")
    try:
        tree = ast.parse(f"({SPELLINGS.sub(_python_spelling, text)}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _Reader(text).refusal("it is not an expression") from error
    return _Reader(text).condition(tree.body, 0)


def _python_spelling(found: re.Match[str]) -> str:
    """One SQL spelling as Python's parser wants it; quoted text keeps its characters, with quotes doubled or escaped."""
    if found["text"]:
        mark = found["text"][0]
        return repr(re.sub(r"\\(['\"\\])", r"\1", found["text"][1:-1].replace(mark * 2, mark)))
    if found["name"]:
        return f"column({found['name'].replace('``', '`')!r})"
    if found["word"]:
        return WORDS.get(found["word"], found["word"].lower())
    return "!=" if found["unequal"] else "=="


@dataclass(frozen=True)
class _Reader:
    """Turns Python's tree into ours and refuses whatever is not in the language."""

    text: str

    def refusal(self, why: str) -> TamisError:
        example = "'age > 30 and region == \"north\"'"
        return TamisError(f"The proposition {self.text!r} cannot be read ({why}), so it gives no condition; write it like {example}.")

    def condition(self, node: ast.expr, depth: int) -> Condition:
        """Whatever can hold or not hold."""
        if depth > DEEPEST:
            raise self.refusal("it is nested too deeply")
        match node:
            case ast.BoolOp(op=op, values=values):
                return Joined("and" if isinstance(op, ast.And) else "or", tuple(self.condition(value, depth + 1) for value in values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Opposite(self.condition(operand, depth + 1))
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                values = [left, *comparators]
                parts = tuple(self.comparison(values[i], operator, values[i + 1], depth + 1) for i, operator in enumerate(operators))
                return parts[0] if len(parts) == 1 else Joined("and", parts)
            case ast.Call(func=ast.Name(id="missing"), args=[inner], keywords=[]):
                return Missing(self.column(inner))
            case ast.Name() | ast.Call(func=ast.Name(id="column")):
                return Truth(self.column(node))
        raise self.refusal(f"{ast.unparse(node)} can neither hold nor fail")

    def comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, depth: int) -> Condition:
        """One link of a chain of comparisons."""
        if isinstance(operator, (ast.In, ast.NotIn)):
            among = Among(self.value(left, depth), self.members(right))
            return Opposite(among) if isinstance(operator, ast.NotIn) else among
        absent = (isinstance(right, ast.Name) and right.id == "missing") or (isinstance(right, ast.Constant) and right.value is None)
        if isinstance(operator, (ast.Is, ast.IsNot)) and absent:
            nothing = Missing(self.column(left))
            return Opposite(nothing) if isinstance(operator, ast.IsNot) else nothing
        if type(operator) not in COMPARISONS:
            raise self.refusal("after `is` only `missing` and `not missing` are understood")
        symbol = COMPARISONS[type(operator)]
        if isinstance(right, ast.Constant) and isinstance(right.value, bool) and symbol in ("==", "!="):
            truth = Truth(self.column(left))
            return truth if right.value == (symbol == "==") else Opposite(truth)
        return Compare(symbol, self.value(left, depth), self.value(right, depth))

    def members(self, node: ast.expr) -> tuple[Number, ...] | tuple[Text, ...]:
        """The values listed after `in`."""
        if not isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            node = ast.Tuple(elts=[node], ctx=ast.Load())  # `x in ("a")` is Python for `x in "a"`, yet means a list of one
        found = [self.value(element, 0) for element in node.elts]
        numbers, texts = [v for v in found if isinstance(v, Number)], [v for v in found if isinstance(v, Text)]
        if not found or len(found) not in (len(numbers), len(texts)):
            raise self.refusal("after `in` comes a list of numbers or a list of texts")
        return tuple(numbers) if numbers else tuple(texts)

    def value(self, node: ast.expr, depth: int) -> Value:
        """Whatever can be compared."""
        if depth > DEEPEST:
            raise self.refusal("it is nested too deeply")
        match node:
            case ast.Constant(value=str(text)):
                return Text(text)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return self.number(number)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                inner = self.term(operand, depth + 1)
                if isinstance(sign, ast.UAdd):
                    return inner
                return Number(-inner.value) if isinstance(inner, Number) else Arithmetic("-", Number(0.0), inner)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
                return Arithmetic(ARITHMETIC[type(operator)], self.term(left, depth + 1), self.term(right, depth + 1))
            case ast.Call(func=ast.Name(id="abs"), args=[inner_node], keywords=[]):
                return Absolute(self.term(inner_node, depth + 1))
            case ast.Name() | ast.Call(func=ast.Name(id="column")):
                return Name(self.column(node))
        raise self.refusal(f"{ast.unparse(node)} is not a value")

    def term(self, node: ast.expr, depth: int) -> Value:
        """A value that can be calculated with."""
        found = self.value(node, depth)
        if isinstance(found, Text):
            raise self.refusal(f"{found.value!r} is text, and one cannot calculate with text")
        return found

    def number(self, number: float) -> Number:
        """A number that fits a double."""
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.refusal("it holds a number too large for a double")
        return Number(value)

    def column(self, node: ast.expr) -> str:
        """The column a node names."""
        match node:
            case ast.Name(id=name):
                return name
            case ast.Call(func=ast.Name(id="column"), args=[ast.Constant(value=str(name))], keywords=[]):
                return name
        raise self.refusal(f"{ast.unparse(node)} names no column")


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return left, right
        case Absolute(value=value) | Among(value=value):
            return (value,)
        case Joined(parts=parts):
            return parts
        case Opposite(condition=condition):
            return (condition,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in reading order."""
    yield node
    for child in children(node):
        yield from walk(child)


def columns_of(text: str) -> tuple[str, ...]:
    """Names of the columns a proposition reads, in reading order.

    Examples
    --------
    >>> from tamis.core.expression_tree import columns_of
    >>> columns_of("age > 30 and not member and age <= limit")
    ('age', 'member', 'limit')
    """
    found = (node.column for node in walk(parse(text)) if isinstance(node, (Name, Missing, Truth)))
    return tuple(dict.fromkeys(found))


def is_number(node: Value) -> bool:
    """True when the value can only be a number: a constant or a calculation."""
    return isinstance(node, (Number, Arithmetic, Absolute))
