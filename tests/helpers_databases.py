"""The rows of `helpers_cards` in real databases, and what a query says about them."""

from __future__ import annotations

import datetime
import sqlite3
from typing import Any

import pytest

from helpers_cards import COLUMNS, SQL_KINDS, Row, Truth, close
from helpers_postgres import Postgres, quoted
from tamis.core.scorecard import ScoreCard

Found = list[dict[str, Any]]
SQLITE_TYPES = {"level": "TEXT COLLATE NOCASE", "date": "TEXT", "moment": "TEXT", "single": "REAL", "boolean": "INTEGER"}


def in_duckdb(rows: list[Row]) -> Any:
    """A DuckDB connection with the table `data`."""
    duckdb, arrow = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    types = {
        "numeric": arrow.float64(),
        "single": arrow.float32(),
        "integer": arrow.int64(),
        "boolean": arrow.bool_(),
        "date": arrow.date32(),
        "moment": arrow.timestamp("us"),
        "level": arrow.string(),
    }
    arrays = {"id": arrow.array(range(len(rows)))}
    arrays |= {name: arrow.array([row[name] for row in rows], types[kind]) for name, (_, kind) in COLUMNS.items()}
    connection = duckdb.connect()
    connection.execute("SET threads TO 1")
    connection.register("rows_in_memory", arrow.table(arrays))
    connection.execute("CREATE TABLE data AS SELECT * FROM rows_in_memory")
    return connection


def in_sqlite(rows: list[Row]) -> sqlite3.Connection:
    """An SQLite connection with the table `data`; dates and times as the texts other programs leave there."""
    connection = sqlite3.connect(":memory:")
    listed = ", ".join(f"{quoted(name)} {SQLITE_TYPES.get(kind, SQL_KINDS[kind])}" for name, (_, kind) in COLUMNS.items())
    connection.execute(f"CREATE TABLE data (id INTEGER, {listed})")
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    cells = ((place, *(_sqlite_cell(row[name], place) for name in COLUMNS)) for place, row in enumerate(rows))
    connection.executemany(f"INSERT INTO data VALUES ({marks})", cells)
    return connection


def _sqlite_cell(value: Any, place: int) -> Any:
    """Moments in the spellings in use: with and without T, fraction, seconds and Z."""
    if isinstance(value, datetime.datetime):
        text = value.isoformat("T" if place % 2 else " ")
        text = text[:-3] if place % 3 == 0 and value.second == 0 and not value.microsecond else text
        return text + "Z" if place % 5 == 0 else text
    return value.isoformat() if isinstance(value, datetime.date) else value


def in_postgres(server: Postgres, rows: list[Row]) -> None:
    """The table `data` in a PostgreSQL server."""
    types = SQL_KINDS | {"numeric": "DOUBLE PRECISION"}
    columns = [("id", "INTEGER"), *((name, types[kind]) for name, (_, kind) in COLUMNS.items())]
    server.load("data", columns, [(place, *(row[name] for name in COLUMNS)) for place, row in enumerate(rows)])


def select(connection: Any, query: str) -> Found:
    """The rows of a query, by id; DuckDB and SQLite."""
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return sorted(found, key=lambda row: row["id"])


def select_postgres(server: Postgres, query: str, card: ScoreCard) -> Found:
    """The rows of a query with labels and numbers as Python has them."""
    words = {"f": False, "t": True}
    kind = type(card.classes[0]) if card.classes else float
    found = []
    for row in sorted(server.select(query), key=lambda row: int(row["id"])):
        label = {"label": words[row["label"]] if kind is bool else kind(row["label"])} if "label" in row else {}
        found.append({name: float(text) for name, text in row.items() if name != "label"} | label)
    return found


def suffixes(card: ScoreCard) -> list[str]:
    """What the columns of the result end with."""
    names = [str(label) for label in card.classes]
    if len(card.constant) == 1:
        return [""]
    plain = all(name.isalnum() and name.isascii() for name in names) and len({name.lower() for name in names}) == len(names)
    return [f"_{name}" for name in names] if plain else [f"_{number}" for number in range(1, len(names) + 1)]


def assert_agrees(found: Found, truth: list[Truth], card: ScoreCard) -> None:
    """Every score and probability to 1e-12, every label exactly."""
    assert len(found) == len(truth)
    names = suffixes(card)
    for place, (row, wanted) in enumerate(zip(found, truth, strict=True)):
        assert row["id"] == place
        for name, score in zip(names, wanted.scores, strict=True):
            assert close(row[f"score{name}"], score), (place, name, row, wanted)
        if not card.classes:
            assert close(row["prediction"], wanted.label), (place, row, wanted)
            continue
        label = bool(row["label"]) if isinstance(wanted.label, bool) else row["label"]
        assert label == wanted.label, (place, row, wanted)
        if wanted.probabilities is None:
            assert not any(name.startswith("probability") for name in row)
            continue
        chances = wanted.probabilities if len(names) > 1 else wanted.probabilities[1:]
        for name, chance in zip(names, chances, strict=True):
            assert close(row[f"probability{name}"], chance), (place, name, row, wanted)
