"""Databases that cannot run here: sqlglot reads every statement, and DuckDB runs what sqlglot understood."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from helpers_cards import SHAPES, TOWNS, UNSEEN, Row, Truth, judged, make_card, make_rows
from helpers_databases import assert_agrees, in_duckdb, select, suffixes
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export_sql import to_sql
from tamis.store.export_sql_dialects import DIALECTS

sqlglot = pytest.importorskip("sqlglot")

#: How a dialect compares texts byte by byte has no counterpart in DuckDB: the operands alone are kept.
OPERANDS = {
    "mysql": (
        re.compile(r"CONCAT\(CONVERT\((`(?:[^`]|``)*`) USING utf8mb4\), '\|'\) COLLATE utf8mb4_bin"),
        r"CONCAT(CAST(\1 AS CHAR), '|')",
    ),
    "tsql": (
        re.compile(r"\(CAST\((\[(?:[^\]]|\]\])*\]) AS NVARCHAR\(MAX\)\) \+ N'\|'\) COLLATE Latin1_General_100_BIN2"),
        r"(CAST(\1 AS NVARCHAR) || N'|')",
    ),
}
#: Dialects whose text relies on there being no NaN, or on comparisons with NaN being false: not so in DuckDB.
WITHOUT_NAN = ("mysql", "bigquery", "tsql")
WITHOUT_INFINITY = ("mysql", "tsql")


def is_plain(row: Row, dialect: str) -> bool:
    """Whether a database of that dialect could hold the row, and DuckDB treats it alike."""
    numbers = [value for value in row.values() if isinstance(value, float)]
    if dialect in WITHOUT_INFINITY:
        return all(math.isfinite(number) for number in numbers)
    return dialect not in WITHOUT_NAN or not any(math.isnan(number) for number in numbers)


def part(shape: str) -> ScoreCard:
    """A third of a card's rules: reading long statements is slow, and the parts of all shapes hold every condition."""
    card = make_card(shape)
    return replace(card, rules=card.rules[list(SHAPES).index(shape) % 3 :: 3])


@functools.cache
def rows(dialect: str) -> list[Row]:
    return [row for row in make_rows(2500, seed=5) if is_plain(row, dialect)][:500]


@functools.cache
def truth(shape: str, dialect: str) -> list[Truth]:
    return [judged(part(shape), row) for row in rows(dialect)]


@pytest.fixture(scope="module", params=["bigquery", "mysql", "snowflake", "spark", "tsql"])
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    with in_duckdb(rows(request.param)) as connection:
        yield request.param, connection


@pytest.mark.parametrize("shape", SHAPES)
def test_what_sqlglot_understood_gives_the_model_s_scores(loaded: tuple[str, Any], shape: str) -> None:
    dialect, connection = loaded
    card = part(shape)
    text = to_sql(card, dialect, key="id")
    if dialect in OPERANDS:
        pattern, operands = OPERANDS[dialect]
        text = pattern.sub(operands, text).replace("\\' + N'", "\\")  # only SQL Server drops a backslash before a line end
        text = text.replace("AS BIT)", "AS INT)")  # DuckDB's BIT is a text of bits
        assert "COLLATE" not in text
    tree = sqlglot.parse_one(text, read=dialect).transform(
        lambda node: sqlglot.exp.Literal.string(node.name) if isinstance(node, sqlglot.exp.National) else node
    )
    translated = tree.sql("duckdb")
    found = [
        {name: float(value) if name != "id" and not isinstance(value, (str, bool)) else value for name, value in row.items()}
        for row in select(connection, translated)
    ]
    assert_agrees(found, truth(shape, dialect), card)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_statement_parses_and_names_its_columns(dialect: str, shape: str) -> None:
    card = part(shape)
    statement = sqlglot.parse_one(to_sql(card, dialect, table=("sales", "customers"), key="id"), read=dialect)
    scores = [f"score{suffix}" for suffix in suffixes(card)]
    chances = [f"probability{suffix}" for suffix in suffixes(card)] if card.link not in ("none", "identity", "exp") else []
    assert statement.named_selects == ["id", *scores, *chances, "label" if card.classes else "prediction"]
    (table,) = statement.find_all(sqlglot.exp.Table)
    assert (table.db, table.name) == ("sales", "customers")
    assert {column.name for column in statement.find_all(sqlglot.exp.Column)} >= {"amount", "town"}


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "postgres"])  # a real server reads those
def test_texts_survive_every_dialect_s_quotes(dialect: str) -> None:
    for text in (*TOWNS, *UNSEEN, "`", "]", "]]", "``", "\\'", "'\\", "\\\\", "tab\there", "\u2028", "\\\r\nx"):
        literal, name = DIALECTS[dialect].string(text), DIALECTS[dialect].identifier(text + "_")
        found = sqlglot.parse_one(f"SELECT {literal} AS {name}", read=dialect)
        # SQL Server drops a backslash before a line end, so such a text is joined from two; sqlglot knows no such rule.
        parts = list(found.selects[0].this.find_all(sqlglot.exp.Literal, sqlglot.exp.National, bfs=False))
        assert "".join(part.name for part in parts) == text, literal
        if dialect != "bigquery":  # its backslashes in names are unknown to sqlglot
            assert found.selects[0].alias == text + "_"


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("duckdb", 'CAST("x" AS DOUBLE) > 0.5e0 AND CAST("x" AS DOUBLE) <= \'Infinity\'::DOUBLE'),
        ("postgres", 'CAST("x" AS DOUBLE PRECISION) > 0.5::float8 AND CAST("x" AS DOUBLE PRECISION) <= \'Infinity\'::float8'),
        ("snowflake", "CAST(\"x\" AS FLOAT) > '0.5'::FLOAT AND CAST(\"x\" AS FLOAT) <= 'inf'::FLOAT"),
        ("spark", "CAST(`x` AS DOUBLE) > 0.5D AND CAST(`x` AS DOUBLE) <= CAST('Infinity' AS DOUBLE)"),
        ("bigquery", "CAST(`x` AS FLOAT64) > 0.5"),
        ("mysql", "CAST(`x` AS DOUBLE) > 0.5e0"),
        ("tsql", "CAST([x] AS DOUBLE PRECISION) > 0.5e0"),
        ("sqlite", 'CAST("x" AS REAL) > 0.5'),
    ],
)
def test_nan_is_kept_out_where_it_sorts_last(dialect: str, expected: str) -> None:
    def condition(*conditions: Literal) -> str:
        text = to_sql(ScoreCard((Rule(conditions, (1.0,)),), (0.0,), "identity"), dialect)
        return text.split("CASE WHEN ")[1].split(" THEN ")[0]

    above, below = Literal("x", ">", 0.5), Literal("x", "<=", 0.75)
    assert condition(above) == expected
    assert condition(above, below).count("<=") == 1  # the upper end keeps NaN out already
    for operator, cut in ((">", math.inf), ("<=", -math.inf), ("<=", math.inf), (">", -math.inf)):
        text = condition(Literal("x", operator, cut))
        # MySQL and SQL Server hold no infinities: the condition says what is left of it.
        if dialect in WITHOUT_INFINITY:
            assert text in ("1 = 0", f"{DIALECTS[dialect].identifier('x')} IS NOT NULL")


def test_conditions_are_never_negated_as_a_whole() -> None:
    for shape in ("two classes", "softmax"):
        for dialect in DIALECTS:
            assert " NOT (" not in to_sql(make_card(shape, without=("given",)), dialect)


def test_case_and_trailing_blanks_count_in_mysql_and_sql_server() -> None:
    card = ScoreCard((Rule((Literal("town", "in", None, "level", ("Oslo", "Oslo ")),), (1.0,)),), (0.0,), "identity")
    assert "CONCAT(CONVERT(`town` USING utf8mb4), '|') COLLATE utf8mb4_bin IN ('Oslo|', 'Oslo |')" in to_sql(card, "mysql")
    assert "(CAST([town] AS NVARCHAR(MAX)) + N'|') COLLATE Latin1_General_100_BIN2 IN (N'Oslo|', N'Oslo |')" in to_sql(card, "tsql")


def test_without_probabilities_no_exp_is_needed() -> None:
    for shape in SHAPES:
        text = to_sql(make_card(shape, without=("given",)), "sqlite", probability=False)
        assert ("EXP(" in text) == (shape == "rate")
        assert "probability" not in text


def test_a_statement_stands_inside_another() -> None:
    for dialect in DIALECTS:
        text = to_sql(part("softmax"), dialect, key="id")
        assert sqlglot.parse_one(f"SELECT * FROM ({text}) AS scored", read=dialect).named_selects == ["*"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"dialect": "oracle"}, "The SQL dialect 'oracle' is not known"),
        ({"key": "Score"}, "The key column 'Score' has the name of another column"),
        ({"key": ("id", "ID")}, "The key column 'ID'"),
        ({"key": "top_score"}, "The key column 'top_score'"),
    ],
)
def test_wrong_options_get_one_sentence(options: dict[str, Any], part: str) -> None:
    card = ScoreCard((), (0.0, 1.0, 2.0), "softmax", ("x", "y", "z")) if "top" in str(options) else ScoreCard((), (0.0,), "identity")
    with pytest.raises(TamisError, match=re.escape(part)) as caught:
        to_sql(card, **options)
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("text", ["bad\0level", "bad\0column"])
def test_nul_cannot_be_written(text: str) -> None:
    condition = Literal("x", "==", text, "level") if "level" in text else Literal(text, "==", "a", "level")
    card = ScoreCard((Rule((condition,), (1.0,)),), (0.0,), "identity", columns=(Column(condition.column, "level"),))
    for dialect in DIALECTS:
        with pytest.raises(TamisError, match="NUL character"):
            to_sql(card, dialect)
