"""Propositions as text: read, evaluated on tables, written as SQL and Python, all against one plain oracle."""

from __future__ import annotations

import datetime
import math
import sqlite3
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.core.expression import PYTHON_HELPERS, columns_of, parse, to_python, to_sql
from tamis.core.expression_tree import Among, Compare, Joined, Missing, Name, Number, Opposite, Text, Truth
from tamis.tables.expression import evaluate
from tamis.tables.frame import as_table

Row = dict[str, Any]
Truth3 = bool | None
KINDS = {"n": "numeric", "m`n": "numeric", "t": "level", "u": "level", "b": "boolean", "d": "date"}
NUMBERS, TEXTS, DAYS = [-2.0, -0.5, 0.0, 1.0, 3.0, 1e300], ["a", "it's", 'say "x"', "<>", "AND"], ["2020-02-29", "2021-01-01"]

rows = st.fixed_dictionaries(
    {
        "n": st.sampled_from([None, *NUMBERS]),
        "m`n": st.sampled_from([None, *NUMBERS]),
        "t": st.sampled_from([None, *TEXTS]),
        "u": st.sampled_from([None, *TEXTS]),
        "b": st.sampled_from([None, True, False]),
        "d": st.sampled_from([None, *map(datetime.date.fromisoformat, ["2020-02-28", *DAYS])]),
    }
)


def spelled(column: str) -> str:
    return "`" + column.replace("`", "``") + "`" if "`" in column else column


def compared(operator: str, left: Any, right: Any) -> Truth3:
    if left is None or right is None:
        return None
    return {"<=": left <= right, "<": left < right, ">": left > right, ">=": left >= right, "==": left == right, "!=": left != right}[
        operator
    ]


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> tuple[str, Callable[[Row], float | None]]:
    """A number as text, and what it is on a row."""
    kind = draw(st.sampled_from(["column", "constant", "sum", "abs", "minus"] if depth else ["column", "constant"]))
    if kind == "column":
        column = draw(st.sampled_from(["n", "m`n"]))
        return spelled(column), lambda row: row[column]
    if kind == "constant":
        number = draw(st.sampled_from([0, 1, 2, 0.5, 3e-7]))
        return repr(number), lambda _: float(number)
    text, inner = draw(values(depth - 1))
    if kind == "abs":
        return f"abs({text})", lambda row: None if inner(row) is None else abs(inner(row) or 0.0)
    if kind == "minus":
        return f"-({text})", lambda row: None if inner(row) is None else -(inner(row) or 0.0)
    other_text, other = draw(values(depth - 1))
    operator = draw(st.sampled_from("+-*/"))

    def result(row: Row) -> float | None:
        left, right = inner(row), other(row)
        if left is None or right is None or (operator == "/" and right == 0):
            return None
        found = {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "/": lambda: left / right}[operator]()
        return None if math.isnan(found) else found

    return f"({text} {operator} {other_text})", result


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Callable[[Row], Truth3]]:
    """One simple condition as text, and its truth on a row."""
    kind = draw(st.sampled_from(["numbers", "chain", "among numbers", "text", "among text", "texts", "date", "boolean", "missing"]))
    negated = draw(st.booleans())
    if kind == "numbers":
        (left, f), (right, g), operator = draw(values()), draw(values()), draw(st.sampled_from(["<=", "<", ">", ">=", "==", "!="]))
        return f"{left} {operator} {right}", lambda row: compared(operator, f(row), g(row))
    if kind == "chain":
        middle, f = draw(values())

        def between(row: Row) -> Truth3:
            parts = [compared("<", -1.0, f(row)), compared("<=", f(row), 2.0)]
            return False if False in parts else None if None in parts else True

        return f"-1 < {middle} <= 2", between
    if kind == "boolean":
        text = draw(st.sampled_from(["b", "b == True", "b != False"]))
        return text, lambda row: row["b"]
    if kind == "missing":
        column = draw(st.sampled_from(list(KINDS)))
        text = draw(st.sampled_from(["{} is missing", "{} IS NULL", "{} is None", "missing({})"])).format(spelled(column))
        return text, lambda row: row[column] is None
    if kind == "date":
        operator, day = draw(st.sampled_from(["<=", "<", ">", ">=", "==", "!="])), draw(st.sampled_from(DAYS))
        return f"d {operator} '{day}'", lambda row: compared(operator, row["d"], datetime.date.fromisoformat(day))
    if kind == "texts":
        operator = draw(st.sampled_from(["==", "!="]))
        return f"t {operator} u", lambda row: compared(operator, row["t"], row["u"])
    if kind == "text":
        operator, level = draw(st.sampled_from(["==", "!=", "=", "<>"])), draw(st.sampled_from(TEXTS))
        quoted = repr(level) if draw(st.booleans()) else "'" + level.replace("'", "''") + "'"
        return f"t {operator} {quoted}", lambda row: compared({"=": "==", "<>": "!="}.get(operator, operator), row["t"], level)
    column, members = (
        ("n", draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))) if kind == "among numbers" else ("t", TEXTS[1:3])
    )

    def among(row: Row) -> Truth3:
        return None if row[column] is None else (row[column] in members) != negated

    return f"{column} {'not in' if negated else 'in'} ({', '.join(map(repr, members))})", among


@st.composite
def propositions(draw: st.DrawFn, depth: int = 2) -> tuple[str, Callable[[Row], Truth3]]:
    """Any proposition, and its three-valued truth on a row."""
    kind = draw(st.sampled_from(["simple", "and", "or", "not"])) if depth else "simple"
    if kind == "simple":
        return draw(comparisons())
    text, f = draw(propositions(depth - 1))
    if kind == "not":
        return draw(st.sampled_from(["not ({})", "NOT ({})"])).format(text), lambda row: None if f(row) is None else not f(row)
    other_text, g = draw(propositions(depth - 1))
    strong = kind == "or"

    def joined(row: Row) -> Truth3:
        parts = [f(row), g(row)]
        return strong if strong in parts else None if None in parts else not strong

    return f"({text}) {draw(st.sampled_from([kind, kind.upper()]))} ({other_text})", joined


tables = st.lists(rows, min_size=1, max_size=6)


def columns(found: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in found] for name in KINDS}


def filled(found: list[Row]) -> list[Row]:
    """Rows plus one without gaps, so that every column keeps its type."""
    return [*found, {"n": 1.5, "m`n": 1.5, "t": "a", "u": "a", "b": True, "d": datetime.date(2020, 1, 1)}]


@given(propositions(), tables)
def test_evaluation_on_a_table(proposition: tuple[str, Callable[[Row], Truth3]], found: list[Row]) -> None:
    text, truth = proposition
    found = filled(found)
    assert evaluate(text, as_table(columns(found))).tolist() == [truth(row) is True for row in found], text


@given(propositions(), tables)
def test_generated_python(proposition: tuple[str, Callable[[Row], Truth3]], found: list[Row]) -> None:
    text, truth = proposition
    names: dict[str, Any] = {}
    exec(PYTHON_HELPERS, names)
    for kinds in (None, KINDS):
        code = compile(to_python(text, kinds=kinds), "proposition", "eval")
        for row in found:
            nan = {name: math.nan if cell is None and KINDS[name] == "numeric" else cell for name, cell in row.items()}
            for given_row in (row, nan, {name: cell for name, cell in row.items() if cell is not None}):
                assert eval(code, names | {"row": given_row}) == truth(row), text


@settings(max_examples=60)
@given(st.lists(propositions(), min_size=1, max_size=5), tables)
def test_generated_sql_in_duckdb(several: list[tuple[str, Callable[[Row], Truth3]]], found: list[Row]) -> None:
    data = pa.table(
        {name: pa.array(cells, {"numeric": pa.float64(), "level": pa.string(), "boolean": pa.bool_(), "date": pa.date32()}[KINDS[name]])
         for name, cells in columns(found).items()}
    )  # fmt: skip
    listed = ", ".join(to_sql(text, quoted, kinds=KINDS) for text, _ in several)
    with duckdb.connect() as database:
        database.register("data", data)
        got = database.execute(f"SELECT {listed} FROM data").fetchall()
    for row, answers in zip(found, got, strict=True):
        assert list(answers) == [truth(row) for _, truth in several], listed


@settings(max_examples=60)
@given(st.lists(propositions(), min_size=1, max_size=5), tables)
def test_generated_sql_in_sqlite(several: list[tuple[str, Callable[[Row], Truth3]]], found: list[Row]) -> None:
    listed = ", ".join(to_sql(text, quoted, number=lambda name: f"CAST({quoted(name)} AS REAL)", kinds=KINDS) for text, _ in several)
    with sqlite3.connect(":memory:") as database:
        database.execute(f"CREATE TABLE data ({', '.join(map(quoted, KINDS))})")
        cells = [[row[name].isoformat() if isinstance(row[name], datetime.date) else row[name] for name in KINDS] for row in found]
        database.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(KINDS))})", cells)
        got = database.execute(f"SELECT {listed} FROM data").fetchall()
    for row, answers in zip(found, got, strict=True):
        assert [None if answer is None else bool(answer) for answer in answers] == [truth(row) for _, truth in several], listed


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_trees() -> None:
    assert parse("a > 3") == Compare(">", Name("a"), Number(3.0))
    assert parse("0 < a <= 3") == Joined("and", (Compare("<", Number(0.0), Name("a")), Compare("<=", Name("a"), Number(3.0))))
    assert parse("not `a b` and c in ['x']") == Joined("and", (Opposite(Truth("a b")), Among(Name("c"), (Text("x"),))))
    assert parse("column('not') is not missing") == Opposite(Missing("not"))
    assert parse("a = -1") == Compare("==", Name("a"), Number(-1.0))
    assert parse("a\n  > 3  # the limit") == parse("a > 3")
    assert parse("t == 'it''s' or t == \"it's\" or t == 'it\\'s'") == Joined("or", (Compare("==", Name("t"), Text("it's")),) * 3)
    assert parse(r"t == 'back\slash \d'") == Compare("==", Name("t"), Text(r"back\slash \d"))
    assert parse("t == 'a <> b AND = NULL `q`'") == Compare("==", Name("t"), Text("a <> b AND = NULL `q`"))
    assert parse("t in ('x')") == Among(Name("t"), (Text("x"),))


def test_columns_in_reading_order() -> None:
    assert columns_of("b > a and not c or `a` is missing and abs(d - b) in (1, 2)") == ("b", "a", "c", "d")


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "a >", "a ><b", "3", "a + 1", "'a'", "a > 3 > ", "f(a) > 3", "a.b > 3", "a[0] > 3", "lambda: 1",
        "a if b else c", "a := 3", "__import__('os').system('true')", "[x for x in a]", "a is b", "a is not 3", "a in b",
        "a in ()", "a in (1, 'x')", "a in (b, c)", "a > 'x' + 1", "a + 'x' > 1", "a % 2 == 0", "a ** 2 > 3", "a & b", "~a",
        "a > 1e999", "a > " + "9" * 400, "a > 3j", "a > b'x'", "f'{a}' == 'x'", "abs(a, b) > 1", "abs(a=1) > 1", "missing(3)",
        "missing()", "column(a) > 3", "column('a', 'b') > 3", "True", "True == a", "a > True", "a == None", "*a", "a > (yield)",
        "a\x00 > 3", "(" * 300 + "a" + ")" * 300, "not " * 200 + "a", "a" + " + 1" * 200 + " > 3", "a > 3 ; b", "print(1)",
        "a > 3\nb > 3",
    ],
)  # fmt: skip
def test_what_is_no_proposition_is_one_sentence(text: str) -> None:
    with pytest.raises(TamisError) as caught:
        parse(text)
    assert str(caught.value).startswith("The proposition ")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_very_long_text_is_not_read() -> None:
    with pytest.raises(TamisError, match="longer than 10000 characters"):
        parse("a > 3 or " * 2000 + "a > 3")


@given(st.text(alphabet="ab<>=!'\"`()andornotis missing,+-*/ .0319\n\\#", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except TamisError:
        return
    assert to_sql(text, quoted)
    assert compile(to_python(text), "proposition", "eval")
    assert parse(text) == tree


TABLE = {"age": [1, 2], "town": ["a", "b"], "born": [datetime.date(2020, 1, 1)] * 2, "member": [True, False]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agee > 3", "reads the column 'agee', which the table does not have; its columns are 'age', 'town', 'born', 'member'"),
        ("town > 3", "uses the column 'town' as a number, but it holds text"),
        ("born > 3", "uses the column 'born' as a number, but it holds dates"),
        ("member + 1 > 1", "uses the column 'member' as a number, but it holds booleans"),
        ("age == 'old'", "compares a number with text"),
        ("age", "uses the column 'age' as a condition, but it holds no booleans; compare it, as in 'age > 0'"),
        ("town < 'b'", "orders text"),
        ("town < town", "orders text"),
        ("member == town", "compares a column of booleans with something else"),
        ("born <= 'soon'", "compares dates with 'soon', which is no ISO date"),
        ("born <= age", "compares the column 'age' with dates, but it holds none"),
        ("town == age", "compares text with something that is not text"),
        ("'a' == 'a' and 3 == 'a'", "compares a number with text"),
    ],
)
def test_what_does_not_fit_the_columns_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(TamisError) as caught:
        evaluate(text, as_table(TABLE))
    assert str(caught.value).startswith(f"The proposition {text!r} ")
    assert says in str(caught.value)


def test_a_column_of_nothing_is_unknown_whatever_its_type() -> None:
    table = as_table({"x": [None, None], "t": ["a", "b"]})
    for text in ("x > 3", "x == 'a'", "not x == 'a'", "x", "not x", "x + 1 > 0", "x == t", "x <= '2020-01-01'", "x in ('a', 'b')"):
        assert evaluate(text, table).tolist() == [False, False], text
    assert evaluate("x is missing", table).tolist() == [True, True]


def test_constants_alone() -> None:
    table = as_table(TABLE)
    assert evaluate("1 < 2", table).tolist() == [True, True]
    assert evaluate("1 / 0 > 2 or not 1 / 0 > 2", table).tolist() == [False, False]
    assert evaluate("'a' == 'a'", table).tolist() == [True, True]


def test_infinity_compares_and_its_differences_are_unknown() -> None:
    table = as_table({"x": [math.inf, -math.inf, 1.0]})
    assert evaluate("x > 3", table).tolist() == [True, False, False]
    assert evaluate("x - x == 0 or x - x != 0", table).tolist() == [False, False, True]


def test_sql_by_hand() -> None:
    assert to_sql("`a b` / c > -2", quoted, number=quoted) == '("a b" / NULLIF("c", 0.0)) > (-2.0)'
    assert to_sql("a > 3", quoted) == 'CAST("a" AS DOUBLE PRECISION) > 3.0'
    assert to_sql("a is not missing", quoted) == '"a" IS NOT NULL'
    assert to_sql("not m", quoted, boolean=lambda name: f"{quoted(name)} = 1") == 'NOT ("m" = 1)'
    assert to_sql("t != 'x'", quoted, string=lambda text: f"N'{text}'") == "\"t\" <> N'x'"
    assert to_sql("a < b", quoted, number=lambda name: f"num({name})", kinds={"a": "numeric", "b": "integer"}) == "num(a) < num(b)"


def test_python_needs_a_name_for_the_row() -> None:
    with pytest.raises(TamisError, match="row='a b' is not a Python name"):
        to_python("a > 3", row="a b")


def test_python_reads_dates_of_every_make() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON_HELPERS, names)
    code = to_python("d <= '2020-01-01T12:00:00'")
    aware = datetime.datetime(2020, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    cells = [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 13), aware, "2020-01-01", "2020-01-02", np.nan, None]
    assert [eval(code, names | {"row": {"d": cell}}) for cell in cells] == [True, False, True, True, False, None, None]
