"""SQL gives the model's own scores: run for real in DuckDB, SQLite and PostgreSQL on rows made to hurt."""

from __future__ import annotations

import functools
import math
import random
import re
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers_cards import CUTS, SHAPES, TOWNS, UNSEEN, WEIRD, Truth, conditions, holds, judged, make_card, make_rows
from helpers_databases import Found, assert_agrees, in_duckdb, in_postgres, in_sqlite, select, select_postgres
from helpers_postgres import Postgres, postgres
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export_sql import to_sql
from tamis.store.export_sql_dialects import DIALECTS

__all__ = ["postgres"]

N_ROWS, FEW = 10_000, 1_500
WHOLE = ("two classes", "softmax")  # the shapes tried on all rows; the others differ only in the last step


@functools.cache
def rows() -> list[dict[str, Any]]:
    return make_rows(N_ROWS)


@functools.cache
def truth(shape: str) -> list[Truth]:
    return [judged(make_card(shape), row) for row in rows()[: N_ROWS if shape in WHOLE else FEW]]


@functools.cache
def tied(shape: str) -> tuple[ScoreCard, list[Truth]]:
    """A card whose scores add up exactly, with a score of exactly 0 or two largest scores on some rows."""
    card = make_card(shape, dyadic=True)
    if len(card.constant) == 1:
        card = replace(card, constant=(card.constant[0] - judged(card, rows()[7]).scores[0],))
    return card, [judged(card, row) for row in rows()[:FEW]]


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    with in_duckdb(rows()) as connection:
        yield connection


@pytest.fixture(scope="module")
def lite() -> Iterator[sqlite3.Connection]:
    connection = in_sqlite(rows())
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> Postgres:
    in_postgres(postgres, rows())
    return postgres


def ask(database: str, request: pytest.FixtureRequest, text: str, card: ScoreCard, count: int) -> Found:
    """The first rows of what a statement gives in one of the databases."""
    connection = request.getfixturevalue({"duckdb": "duck", "sqlite": "lite", "postgres": "server"}[database])
    query = f"SELECT * FROM ({text}) AS scored WHERE id < {count}"
    return select_postgres(connection, query, card) if database == "postgres" else select(connection, query)


def test_every_condition_tells_rows_apart() -> None:
    for condition in conditions():
        found = {holds(condition, row) for row in rows()}
        never = condition.operator == "in" and not condition.members
        beyond = condition.operator == ">" and condition.value == float("inf")
        assert found == ({False} if never or beyond else {True, False}), condition


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_scores_are_the_model_s_own(database: str, shape: str, request: pytest.FixtureRequest) -> None:
    card, wanted = make_card(shape), truth(shape)
    assert_agrees(ask(database, request, to_sql(card, database, key="id"), card, len(wanted)), wanted, card)


@pytest.mark.parametrize("shape", ["two classes", "softmax", "largest"])
@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_ties_go_to_the_first(database: str, shape: str, request: pytest.FixtureRequest) -> None:
    card, wanted = tied(shape)
    assert any(each.scores == (0.0,) if len(each.scores) == 1 else each.scores.count(max(each.scores)) > 1 for each in wanted)
    assert_agrees(ask(database, request, to_sql(card, database, key="id"), card, len(wanted)), wanted, card)


@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_three_thousand_rules_are_not_too_deep(database: str, request: pytest.FixtureRequest) -> None:
    draw = random.Random(3)
    rules = tuple(Rule((Literal("amount", draw.choice(("<=", ">")), draw.gauss(0, 3)),), (draw.gauss(0, 1),)) for _ in range(3000))
    card = ScoreCard(rules, (0.1,), "logistic", ("a", "b"), (Column("amount", "numeric"),))
    wanted = [judged(card, row) for row in rows()[:50]]
    assert_agrees(ask(database, request, to_sql(card, database, key="id"), card, 50), wanted, card)


@pytest.mark.parametrize("link", ["logistic", "platt", "exp", "softmax", "ovr"])
@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_huge_scores_neither_fail_nor_leave_the_range(database: str, link: str, request: pytest.FixtureRequest) -> None:
    steps = (-1e5, -701.0, -700.0, -699.0, -30.0, 30.0, 699.0, 700.0, 701.0, 1e5)
    many = link in ("softmax", "ovr")
    rules = tuple(
        Rule((Literal("amount", ">", float(place)),), (step, -step, 1.0) if many else (step,)) for place, step in enumerate(steps, -5)
    )
    classes = () if link == "exp" else ("a", "b", "c") if many else ("a", "b")
    lines = ((2.0, 0.5),) if link == "platt" else ()
    card = ScoreCard(rules, (0.0,) * (3 if many else 1), link, classes, (Column("amount", "numeric"),), platt=lines)
    wanted = [judged(card, row) for row in rows()[:FEW]]
    assert_agrees(ask(database, request, to_sql(card, database, key="id"), card, FEW), wanted, card)


@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_a_constant_model_and_several_keys(database: str, request: pytest.FixtureRequest) -> None:
    card = ScoreCard((), (0.25, 0.75, 0.75), "softmax", ("x", "y", "z"))
    found = ask(database, request, to_sql(card, database, key=("id",)), card, FEW)
    assert_agrees(found, [judged(card, {})] * FEW, card)
    connection = request.getfixturevalue({"duckdb": "duck", "sqlite": "lite", "postgres": "server"}[database])
    text = to_sql(card, database, key=("id", WEIRD, "town"), probability=False)
    names = connection.select(f"SELECT * FROM ({text}) AS q LIMIT 1")[0] if database == "postgres" else select(connection, text)[0]
    assert list(names) == ["id", WEIRD, "town", "score_x", "score_y", "score_z", "label"]


def test_a_schema_is_a_name_of_its_own() -> None:
    card = ScoreCard((), (0.5,), "identity")
    assert to_sql(card, "postgres", table=("sales", 'odd "one".x')).endswith('FROM "sales"."odd ""one"".x"\n  OFFSET 0\n) AS scored1')
    assert "`a.b`" in to_sql(card, "mysql", table="a.b")


def test_scores_are_computed_once_per_row(lite: sqlite3.Connection) -> None:
    """Without its fence SQLite would copy the whole sum into each of its uses."""
    calls = []
    lite.create_function("noted", 1, lambda value: calls.append(value) or value)
    text = to_sql(make_card("softmax"), "sqlite", key="id").replace('CAST("flag" AS REAL)', 'noted("flag")')
    uses = text.count("noted(")
    lite.execute(f"{text} LIMIT 10").fetchall()
    assert 0 < len(calls) <= 10 * uses


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1.0065619222688315e-295)  # SQLite 3.40 reads these two one unit off when they are written as decimals
@example(1.7579185135357973e-292)
@example(6407.9438040000005)
def test_numbers_are_read_back_to_the_last_bit(number: float) -> None:
    for database, connection in (("duckdb", memory_duckdb()), ("sqlite", memory_sqlite())):
        dialect = DIALECTS[database]
        found = connection.execute(
            f"SELECT {dialect.number(number)}, CASE WHEN {dialect.double.format('?')} = {dialect.compared(number)} THEN 1 ELSE 0 END",
            [number],
        ).fetchone()
        tolerance = (
            0.0 if database == "duckdb" or abs(number) > 1e-280 else 4e-15
        )  # SQLite rounds far-away numbers less well; cuts are exact
        assert abs(found[0] - number) <= tolerance * abs(number)
        assert found[1] == 1


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(-1.7976931348623157e308)
def test_sqlite_cuts_need_no_good_parser(number: float) -> None:
    """A decimal that any parser reads exactly by one division, or exact integers divided in exact steps."""
    text = DIALECTS["sqlite"].compared(number)
    if "CAST" not in text:
        digits, _, exponent = text.strip("-").partition("e")
        assert int(digits.replace(".", "")) <= 2**53
        assert abs(int(exponent or 0) - len(digits.partition(".")[2])) <= 22
        assert float(text) == number
        return
    value, *steps = re.sub(r"CAST\((-?\d+) AS REAL\)", r"\1", text.strip("()")).split(" ")
    result = float(int(value))
    assert abs(int(value)) <= 2**53
    for sign, step in zip(steps[::2], steps[1::2], strict=True):
        assert int(step) == 2 ** (int(step).bit_length() - 1) < 2**63
        result = result * float(int(step)) if sign == "*" else result / float(int(step))
    assert result == number


def test_postgres_reads_numbers_and_texts_back(server: Postgres) -> None:
    draw = random.Random(1)
    numbers = [*CUTS[1:-1], *(struct.unpack("<d", draw.randbytes(8))[0] for _ in range(500))]
    numbers = [number for number in numbers if math.isfinite(number)]
    texts = [*TOWNS, *UNSEEN, *("".join(chr(draw.choice((*range(1, 0x250), 0x2028, 0x1F5FC))) for _ in range(8)) for _ in range(200))]
    dialect = DIALECTS["postgres"]
    both = [f"(1, {place}, {dialect.number(number)}, NULL)" for place, number in enumerate(numbers)]
    both += [f"(2, {place}, NULL::float8, {dialect.string(text)})" for place, text in enumerate(texts)]
    found = server.select(f"SELECT * FROM (VALUES {', '.join(both)}) AS q(sort, place, number, word) ORDER BY sort, place")
    assert [float(row["number"]) for row in found[: len(numbers)]] == numbers
    assert [row["word"] for row in found[len(numbers) :]] == texts


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_texts_and_names_are_quoted(text: str) -> None:
    for database, connection in (("duckdb", memory_duckdb()), ("sqlite", memory_sqlite())):
        cursor = connection.execute(f"SELECT {DIALECTS[database].string(text)} AS {DIALECTS[database].identifier(text + '_')}")
        assert cursor.fetchone()[0] == text
        assert cursor.description[0][0] == text + "_"


@functools.cache
def memory_duckdb() -> Any:
    return pytest.importorskip("duckdb").connect()


@functools.cache
def memory_sqlite() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")
