"""Texts of rules: a second reader parses them back, and a second solver finds nothing said twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.rules.text import number_text, outcome_text, text_of, weight_text

LEVELS = ("red", "blue", "green, dark", 'a "b"', "x AND y", "", " pad", "3", "é{}", "not in")
ODD_NAMES = (
    "age",
    "petal length (cm)",
    "time in months",
    "not yet",
    "was missing",
    "is missing",
    "a <= b",
    'say "hi"',
    "x AND y",
    "é",
    "a\nb",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Atom:
    """One comparison found in a text: which column it reads and which cells it accepts (None is a missing cell)."""

    column: str
    accepts: Callable[[Any], bool]


def split_top(text: str, word: str) -> list[str]:
    """Split at ` word ` outside double quotes and braces."""
    parts, depth, quote, start, i = [], 0, False, 0, 0
    while i < len(text):
        if quote and text[i] == "\\":
            i += 2
            continue
        quote ^= text[i] == '"'
        depth += 0 if quote else (text[i] in "{(") - (text[i] in "})")
        if not quote and depth == 0 and text.startswith(f" {word} ", i):
            parts.append(text[start:i])
            start = i + len(word) + 2
            i = start
            continue
        i += 1
    return [*parts, text[start:]]


def unquoted(text: str) -> str:
    return json.loads(text) if text.startswith('"') else text


def members(text: str) -> list[str]:
    """The levels between braces."""
    decoder, found, rest = json.JSONDecoder(), [], text
    while rest:
        if rest.startswith('"'):
            level, end = decoder.raw_decode(rest)
        else:
            end = rest.find(", ") if ", " in rest else len(rest)
            level = rest[:end]
        found.append(level)
        rest = rest[end + 2 :]
    return found


QUOTED = r'"(?:[^"\\]|\\.)*"'
NAME = rf'(?P<name>{QUOTED}|[^<>=!{{}}",\n]+?)'
VALUE = rf'(?P<value>{QUOTED}|[^<>=!{{}}",\n]+)'


def atoms_of(text: str, kinds: dict[str, str]) -> list[Atom]:
    """The comparisons of one piece, by regular expressions that share nothing with the writer."""

    def compare(name: str, sign: str, value: str) -> Atom:
        if kinds[name] == "date":
            bound: Any = value
        elif kinds[name] in ("numeric", "integer"):
            bound = float(value)
        else:
            bound = unquoted(value)
        tests = {
            "<=": lambda cell: cell <= bound,
            "<": lambda cell: cell < bound,
            ">": lambda cell: cell > bound,
            ">=": lambda cell: cell >= bound,
            "=": lambda cell: cell == bound,
            "!=": lambda cell: cell != bound,
        }
        return Atom(name, lambda cell: cell is not None and tests[sign](cell))

    if match := re.fullmatch(rf"(?P<low>\S+) (?P<sign><|<=) {NAME} <= (?P<high>\S+)", text):
        name = unquoted(match["name"])
        return [compare(name, {"<": ">", "<=": ">="}[match["sign"]], match["low"]), compare(name, "<=", match["high"])]
    if match := re.fullmatch(rf"{NAME} (?P<no>not )?in {{(?P<levels>.*)}}", text, re.DOTALL):
        name, inside, levels = unquoted(match["name"]), match["no"] is None, members(match["levels"])
        assert len(levels) > 1, "one level needs no braces"
        if inside:
            return [Atom(name, lambda cell: cell is not None and cell in levels)]
        return [Atom(name, lambda cell, level=level: cell is not None and cell != level) for level in levels]
    if match := re.fullmatch(rf"{NAME} (?P<sign><=|>=|>|!=|=) {VALUE}", text, re.DOTALL):
        return [compare(unquoted(match["name"]), match["sign"], match["value"])]
    if match := re.fullmatch(rf"{NAME} is missing", text):
        return [Atom(unquoted(match["name"]), lambda cell: cell is None)]
    if text.startswith("not "):
        return [Atom(unquoted(text[4:]), lambda cell: cell is not None and not cell)]
    return [Atom(unquoted(text), bool)]


def parsed(text: str, kinds: dict[str, str], word: str = "AND") -> list[list[Atom]]:
    if text in ("always", "never"):
        return []
    return [atoms_of(part, kinds) for part in split_top(text, word)]


def plain_holds(literal: Literal, cell: Any) -> bool:
    """What a condition means, written down once more."""
    if literal.operator == "missing":
        return cell is None
    if cell is None:
        return False
    return {
        "<=": lambda: cell <= literal.value,
        ">": lambda: cell > literal.value,
        "==": lambda: cell == literal.value,
        "!=": lambda: cell != literal.value,
        "in": lambda: cell in literal.members,
        "not in": lambda: cell not in literal.members,
        "true": lambda: bool(cell),
        "false": lambda: not cell,
        "given": lambda: bool(cell),
    }[literal.operator]()


def candidates(kind: str) -> list[Any]:
    """Cells that tell all conditions drawn below apart, a missing one among them."""
    return {
        "numeric": [None, *(x / 4 for x in range(-6, 22))],
        "integer": [None, *(float(x) for x in range(-3, 9))],
        "date": [None, *(f"2020-01-{day:02d}" for day in range(1, 12))],
        "boolean": [None, True, False],
        "given": [True, False],
    }.get(kind, [None, "unseen", *LEVELS])


def conditions_on(name: str, kind: str) -> st.SearchStrategy[list[Literal]]:
    """Conditions on one column, possibly redundant, possibly impossible together."""
    if kind in ("numeric", "integer", "date"):
        cuts = {
            "numeric": st.sampled_from([x / 2 for x in range(-2, 10)]),
            "integer": st.integers(-2, 7).map(float),
            "date": st.integers(2, 10).map(lambda day: f"2020-01-{day:02d}"),
        }[kind]
        one = st.builds(lambda sign, cut: Literal(name, sign, cut, kind), st.sampled_from(["<=", ">"]), cuts)
        return st.lists(one, min_size=1, max_size=4)
    if kind in ("level", "ordered"):
        equal = st.builds(lambda sign, level: Literal(name, sign, level, kind), st.sampled_from(["==", "!="]), st.sampled_from(LEVELS))
        subsets = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4, unique=True).map(tuple)
        among = st.builds(lambda sign, levels: Literal(name, sign, None, kind, levels), st.sampled_from(["in", "not in"]), subsets)
        return st.lists(st.one_of(equal, among), min_size=1, max_size=4)
    if kind == "given":
        return st.just([Literal(name, "given", None, "given")])
    return st.sampled_from(["true", "false", "missing"]).map(lambda sign: [Literal(name, sign, None, kind)])


@st.composite
def rules(draw: st.DrawFn) -> tuple[list[Literal], dict[str, str]]:
    """A satisfiable conjunction over a few oddly named columns, its conditions in any order."""
    kinds = ("numeric", "integer", "date", "level", "ordered", "boolean", "given")
    names = draw(st.lists(st.sampled_from(ODD_NAMES), min_size=0, max_size=3, unique=True))
    chosen = {name: draw(st.sampled_from(kinds)) for name in names}
    conditions: list[Literal] = []
    for name, kind in chosen.items():
        options = [conditions_on(name, kind)]
        if kind != "given":
            options.append(st.just([Literal(name, "missing", None, kind)]))
        group = draw(st.one_of(options))
        if any(all(plain_holds(c, cell) for c in group) for cell in candidates(kind)):
            conditions += group
    return draw(st.permutations(conditions)), chosen


@given(rules())
def test_text_parses_back_to_the_same_rule(rule: tuple[list[Literal], dict[str, str]]) -> None:
    conditions, kinds = rule
    pieces = parsed(text_of(conditions), kinds)
    for name, kind in kinds.items():
        for cell in candidates(kind):
            meant = all(plain_holds(c, cell) for c in conditions if c.column == name)
            read = all(atom.accepts(cell) for piece in pieces for atom in piece if atom.column == name)
            assert meant == read, (text_of(conditions), name, cell)


@given(rules())
def test_no_condition_is_implied_by_the_others(rule: tuple[list[Literal], dict[str, str]]) -> None:
    conditions, kinds = rule
    atoms = [atom for piece in parsed(text_of(conditions), kinds) for atom in piece]
    for dropped in atoms:
        rest = [atom for atom in atoms if atom is not dropped and atom.column == dropped.column]
        freed = [
            cell for cell in candidates(kinds[dropped.column]) if all(atom.accepts(cell) for atom in rest) and not dropped.accepts(cell)
        ]
        assert freed, (text_of(conditions), dropped.column)


@given(rules())
def test_disjunction_text_is_the_opposite_on_rows_without_missing_cells(rule: tuple[list[Literal], dict[str, str]]) -> None:
    conditions, kinds = rule
    if any(c.operator in ("missing", "given") for c in conditions):
        return
    pieces = parsed(text_of(conditions, "disjunction"), kinds, "OR")
    for name, kind in kinds.items():
        own = [c for c in conditions if c.column == name]
        for cell in candidates(kind)[1:]:
            read = any(all(atom.accepts(cell) for atom in piece) for piece in pieces if piece[0].column == name)
            assert read == (not all(plain_holds(c, cell) for c in own)), (text_of(conditions, "disjunction"), name, cell)


def level(sign: str, value: str, column: str = "colour") -> Literal:
    return Literal(column, sign, value, "level")


def ordered(sign: str, *levels: str) -> Literal:
    return Literal("grade", sign, None, "ordered", levels)


CASES: list[tuple[Sequence[Literal], str, str]] = [
    ([], "always", "never"),
    ([Literal("age", ">", 18.0), Literal("age", "<=", 65.5)], "18 < age <= 65.5", "age <= 18 OR age > 65.5"),
    ([Literal("n", ">", 3.0, "integer"), Literal("n", "<=", 7.0, "integer")], "4 <= n <= 7", "n <= 3 OR n >= 8"),
    ([Literal("n", ">", 3.0, "integer"), Literal("n", "<=", 4.0, "integer")], "n = 4", "n <= 3 OR n >= 5"),
    ([Literal("n", ">", 3.5, "integer")], "n > 3.5", "n <= 3.5"),
    ([level("!=", "red"), level("!=", "blue")], "colour not in {red, blue}", "colour in {red, blue}"),
    ([level("!=", "red"), level("==", "blue")], "colour = blue", "colour != blue"),
    ([Literal("member", "true", None, "boolean"), Literal("old", "false", None, "boolean")], "member AND not old", "not member OR old"),
    ([Literal("day", ">", "2020-01-05", "date")], "day > 2020-01-05", "day <= 2020-01-05"),
    ([Literal("age", "missing")], "age is missing", "NOT (age is missing)"),
    (
        [Literal("grade", "in", None, "ordered", ("low", "mid")), Literal("grade", "not in", None, "ordered", ("low",))],
        "grade = mid",
        "grade != mid",
    ),
    ([Literal("size", "in", None, "level", ("s", "m"), label="size is small")], "size is small", "NOT (size is small)"),
    ([level("==", "red"), level("==", "blue")], "colour = red AND colour = blue", "colour != red OR colour != blue"),
]


@pytest.mark.parametrize(("conditions", "conjunction", "opposite"), CASES, ids=[case[1] for case in CASES])
def test_texts_people_read(conditions: Sequence[Literal], conjunction: str, opposite: str) -> None:
    assert text_of(conditions) == conjunction
    assert text_of(conditions, "disjunction") == opposite


def test_unknown_lattice_is_one_sentence() -> None:
    with pytest.raises(TamisError, match="lattice is 'tree', so the rule cannot be written"):
        text_of([], "tree")


def test_numbers_keep_the_digits_they_need() -> None:
    assert [weight_text(w) for w in (1.3187, -0.04123, 12.5, 0.0, 3e-9, 0.1)] == [
        "+1.32",
        "-0.041",
        "+12.50",
        "+0.00",
        "+3.00e-09",
        "+0.10",
    ]
    assert [number_text(v) for v in (1234.5, 0.01234, 0.0, float("nan"), 2e9)] == ["1234", "0.0123", "0.00", "unknown", "2.00e+09"]


@pytest.mark.parametrize(
    ("link", "classes", "target", "favoured", "text"),
    [
        ("logistic", (False, True), "churn", 1, "churn"),
        ("logistic", (0, 1), "churn", 0, "not churn"),
        ("logistic", (0, 1), "target", 1, "target = 1"),
        ("logistic", ("no", "yes"), "churn", 0, "churn = no"),
        ("softmax", ("a", "b <= c", "c"), "kind", 1, 'kind = "b <= c"'),
        ("identity", (), "price", -1, "price"),
        ("exp", (), "claims", -1, "log claims"),
    ],
)
def test_what_stands_behind_then(link: str, classes: tuple[Any, ...], target: str, favoured: int, text: str) -> None:
    assert outcome_text(link, classes, target, favoured) == text
