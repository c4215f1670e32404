"""The recheck's own reader of propositions such as `age > 30 and not (region in ("a", "b") or income is missing)`.

A hand-written descent over tokens, evaluated on whole columns as it reads. Truth is a pair (yes, no) of boolean
arrays: a row in neither is unknown, as is everything that touches a missing cell or divides by zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.rules.recheck_data import Cells, moment_of

Array = NDArray[Any]
Truth = tuple[Array, Array]
TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'(?:''|\\.|[^'\\])*'|"(?:""|\\.|[^"\\])*")"""
    r"""|`(?P<quoted>(?:``|[^`])+)`|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|==|!=|<>|[<>=+\-*/(),\[\]{}]))""",
    re.DOTALL,
)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": lambda left, right: left <= right,
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
SPELLINGS = {"=": "==", "<>": "!="}
KEYWORDS = {"and", "or", "not", "in", "is", "missing", "none", "null", "true", "false", "abs"}


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a constant, a column, or a calculated number."""

    kind: str  # "number", "text", "column"
    value: Any


@dataclass
class Reader:
    """Position in the tokens of one proposition."""

    text: str
    column: Callable[[str], Cells]
    tokens: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        position = 0
        while self.text[position:].strip():
            match = TOKEN.match(self.text, position)
            if match is None:
                raise self.refusal()
            kind = str(match.lastgroup)
            word = match[kind]
            lower = word.lower()
            keyword = kind == "word" and lower in KEYWORDS and (word == lower or word == word.upper() or lower == "none")
            self.tokens.append(("keyword", lower) if keyword else (kind, SPELLINGS.get(word, word)))
            position = match.end()
        self.tokens.append(("end", ""))

    def refusal(self) -> TamisError:
        """Only a damaged schema holds a proposition that cannot be read."""
        return TamisError(
            f"The proposition {self.text!r} cannot be read again, so the certificate cannot be rechecked; fit the model again."
        )

    def peek(self, *words: str) -> bool:
        """Whether one of these stands next."""
        kind, word = self.tokens[self.at]
        return kind in ("sign", "keyword") and word in words

    def take(self, *words: str) -> bool:
        """Step over one of these if it stands next."""
        found = self.peek(*words)
        self.at += found
        return found

    def need(self, *words: str) -> None:
        """Step over one of these, which must stand next."""
        if not self.take(*words):
            raise self.refusal()

    def either(self) -> Truth:
        """One part or another: yes if any is, no if all are."""
        yes, no = self.both()
        while self.take("or"):
            more_yes, more_no = self.both()
            yes, no = yes | more_yes, no & more_no
        return yes, no

    def both(self) -> Truth:
        """One part and another."""
        yes, no = self.opposite()
        while self.take("and"):
            more_yes, more_no = self.opposite()
            yes, no = yes & more_yes, no | more_no
        return yes, no

    def opposite(self) -> Truth:
        """A condition or its opposite; unknown stays unknown."""
        if self.take("not"):
            yes, no = self.opposite()
            return no, yes
        start = self.at
        if self.peek("("):
            try:  # a bracket may hold a condition or a value
                self.at += 1
                found = self.either()
                self.need(")")
                if not self.peek("<=", "<", ">", ">=", "==", "!=", "in", "is", "+", "-", "*", "/", "not"):
                    return found
            except TamisError:
                pass
            self.at = start
        return self.comparison()

    def comparison(self) -> Truth:
        """A chain of comparisons, a membership, `is missing`, or a column of booleans alone."""
        left, result = self.sum(), None
        while True:
            link, left = self.link(left)
            if link is None:
                break
            result = link if result is None else (result[0] & link[0], result[1] | link[1])
        if result is not None:
            return result
        if left.kind != "column":
            raise self.refusal()
        cells = left.value
        return cells.numbers == 1.0, cells.numbers == 0.0

    def link(self, left: Operand) -> tuple[Truth | None, Operand]:
        """One operator and its right side; None when no operator follows."""
        kind, sign = self.tokens[self.at]
        if kind == "sign" and sign in COMPARE:
            self.at += 1
            if sign in ("==", "!=") and self.peek("true", "false"):
                holds = self.tokens[self.at][1] == "true"
                self.at += 1
                yes, no = left.value.numbers == 1.0, left.value.numbers == 0.0
                return ((yes, no) if holds == (sign == "==") else (no, yes)), left
            right = self.sum()
            return self.compared(sign, left, right), right
        if self.take("is"):
            turned = self.take("not")
            self.need("missing", "none", "null")
            gone = left.value.missing
            return ((~gone, gone) if turned else (gone, ~gone)), left
        turned = self.take("not")
        if not self.take("in"):
            if turned:
                raise self.refusal()
            return None, left
        yes, no = self.among(left)
        return ((no, yes) if turned else (yes, no)), left

    def among(self, left: Operand) -> Truth:
        """Membership in a listed set (one value needs no brackets)."""
        bracketed, members = self.take("(", "[", "{"), [self.sum()]
        while bracketed and self.take(","):
            if not self.peek(")", "]", "}"):
                members.append(self.sum())
        if bracketed:
            self.need(")", "]", "}")
        found = [self.compared("==", left, member) for member in members]
        return np.logical_or.reduce([yes for yes, _ in found]), np.logical_and.reduce([no for _, no in found])

    def sum(self) -> Operand:
        """Terms added and subtracted."""
        left = self.product()
        while self.peek("+", "-"):
            sign = self.tokens[self.at][1]
            self.at += 1
            right = self.number(self.product())
            left = Operand("number", self.number(left) + right if sign == "+" else self.number(left) - right)
        return left

    def product(self) -> Operand:
        """Factors; a division by zero has no value."""
        left = self.unary()
        while self.peek("*", "/"):
            sign = self.tokens[self.at][1]
            self.at += 1
            right = self.number(self.unary())
            divided = np.where(right == 0, np.nan, self.number(left) / right) if sign == "/" else self.number(left) * right
            left = Operand("number", divided)
        return left

    def unary(self) -> Operand:
        """A signed value, a bracket, abs(), a constant or a column."""
        if self.take("-"):
            return Operand("number", -self.number(self.unary()))
        if self.take("+"):
            return Operand("number", self.number(self.unary()))
        if self.take("abs"):
            self.need("(")
            inner = Operand("number", np.abs(self.number(self.sum())))
            self.need(")")
            return inner
        if self.take("("):
            inner = self.sum()
            self.need(")")
            return inner
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return Operand("number", np.float64(word.replace("_", "")))
        if kind == "text":
            return Operand("text", re.sub(r"\\(['\"\\])", r"\1", word[1:-1].replace(word[0] * 2, word[0])))
        if kind in ("word", "quoted"):
            return Operand("column", self.column(word.replace("``", "`")))
        raise self.refusal()

    def number(self, side: Operand) -> Any:
        """A side as floats."""
        if side.kind == "text":
            raise self.refusal()
        return side.value.numbers if side.kind == "column" else side.value

    def compared(self, sign: str, left: Operand, right: Operand) -> Truth:
        """Numbers with numbers, moments with moments, texts with texts; unknown where a side is missing."""
        sides = (left, right)
        columns = [side.value for side in sides if side.kind == "column"]
        if not columns and "text" in (left.kind, right.kind):
            raise self.refusal()
        if any(cells.kind == "nothing" for cells in columns):
            nowhere = np.zeros(len(columns[0].raw), dtype=bool)
            return nowhere, nowhere
        if "number" in (left.kind, right.kind) or (columns and all(cells.kind == "number" for cells in columns) and len(columns) == 2):
            values = [self.number(side) for side in sides]
            known = ~(np.isnan(values[0]) | np.isnan(values[1]))
        elif any(cells.kind == "date" for cells in columns):
            values = [side.value.moments if side.kind == "column" else moment_of(side.value) for side in sides]
            known = ~(np.isnat(values[0]) | np.isnat(values[1]))
        else:
            values = [_texts(side.value) if side.kind == "column" else np.array(side.value, dtype=object) for side in sides]
            known = np.logical_and.reduce([~side.value.missing for side in sides if side.kind == "column"])
        yes = np.asarray(COMPARE[sign](values[0], values[1]), dtype=bool) & known
        return yes, ~yes & known


def _texts(cells: Cells) -> Array:
    """The texts of a column, empty where missing."""
    codes, texts = cells.texts
    return np.array([*texts, ""], dtype=object)[codes]


def holds(text: str, column: Callable[[str], Cells]) -> Array:
    """Rows on which the proposition holds; unknown counts as no."""
    reader = Reader(text, column)
    with np.errstate(all="ignore"):  # infinite cells may make differences that are not a number: unknown
        yes, _ = reader.either()
    if reader.tokens[reader.at][0] != "end":
        raise reader.refusal()
    return yes
