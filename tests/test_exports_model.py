"""Fitted models, from the table to the database: what predict says is what every export says, on 10 000 rows."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers_cards import COLUMNS, PROPOSITIONS, SIZES, Row, Truth, make_rows
from helpers_databases import assert_agrees, in_duckdb, in_postgres, in_sqlite, select, select_postgres
from helpers_postgres import Postgres, postgres
from tamis import RuleClassifier, RuleRegressor
from tamis.core.scorecard import ScoreCard

__all__ = ["postgres"]

N_ROWS = 10_000
TASKS = ("two classes", "three classes", "numbers")


def frame(rows: list[Row]) -> pd.DataFrame:
    """The rows as a user's frame: floats and a float32 column with NaN, text, an ordered category, dates, booleans with None."""
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in COLUMNS}
    for name, kind in (("amount", "float64"), ("single", "float32"), ("count", "float64"), ("flag", "Int64")):
        columns[name] = pd.array([row[name] for row in rows], dtype=kind) if kind == "Int64" else np.array(columns[name], dtype=kind)
    columns["size"] = pd.Categorical(columns["size"], [*SIZES, "giant"], ordered=True)
    columns["moment"] = np.array(columns["moment"], dtype="datetime64[us]")
    return pd.DataFrame(columns)


@functools.cache
def rows() -> list[Row]:
    return make_rows(N_ROWS, seed=7)


@functools.cache
def fitted(task: str) -> Any:
    """A model of many short rules on the first 3000 rows."""
    table, draw = frame(rows()[:3000]), np.random.default_rng(0)
    signal = (
        2.0 * (table["amount"] > 0.1) + 1.5 * (table["town"] == "Oslo") - 1.0 * (table["size"] <= "medium") + 1.0 * table["town"].isna()
    )
    signal += (
        0.7 * (table["day"].isna())
        - 0.8 * (table["single"] > 1)
        + 0.5 * (table["moment"] > "2024-02-29")
        + (table["member"].eq(True) * 0.6)
    )
    noisy = signal.to_numpy(dtype=float) + draw.logistic(size=len(table)) * 2.0
    named = {f"named {place}": proposition.text for place, proposition in enumerate(PROPOSITIONS)}
    # Nothing is pruned and only the number of rules held is limited: exactness counts here, not how good the model is.
    limits: dict[str, Any] = {"max_length": 2, "max_nodes": 150, "prune": None}
    settings: dict[str, Any] = {"C": 10.0, "rho": 2.0, "n_cuts": 5, "propositions": named, **limits}
    if task == "numbers":
        return RuleRegressor(**settings).fit(table, noisy)
    edges = [0.8] if task == "two classes" else [-0.8, 3.0]
    return RuleClassifier(**settings).fit(table, np.array(["low", "middle", "it's high"])[np.searchsorted(edges, noisy)])


@functools.cache
def said(task: str) -> list[Truth]:
    """What the model itself says."""
    model, table = fitted(task), frame(rows())
    labels = model.predict(table)
    if task == "numbers":
        return [Truth((float(score),), float(score), None) for score in labels]
    scores = np.reshape(model.decision_function(table), (len(table), -1))
    chances = model.predict_proba(table)
    return [
        Truth(tuple(map(float, score)), str(label), tuple(map(float, chance)))
        for score, label, chance in zip(scores, labels, chances, strict=True)
    ]


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


@pytest.mark.parametrize("task", TASKS)
def test_the_models_are_worth_the_trouble(task: str) -> None:
    card: ScoreCard = fitted(task).card_
    used = {condition.kind for rule in card.rules for condition in rule.conditions}
    assert len(card.rules) > 80
    assert used >= {"numeric", "level", "ordered", "boolean", "date", "given"}
    assert any(condition.operator == "missing" for rule in card.rules for condition in rule.conditions)
    assert len({truth.label for truth in said(task)}) >= {"two classes": 2, "three classes": 3, "numbers": 100}[task]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("database", ["duckdb", "sqlite", "postgres"])
def test_the_database_says_what_the_model_says(database: str, task: str, request: pytest.FixtureRequest) -> None:
    model = fitted(task)
    text = model.rules_.to_sql(database, key="id")
    connection = request.getfixturevalue({"duckdb": "duck", "sqlite": "lite", "postgres": "server"}[database])
    found = select_postgres(connection, text, model.card_) if database == "postgres" else select(connection, text)
    assert_agrees(found, said(task), model.card_)


@pytest.mark.parametrize("task", TASKS)
def test_the_exported_module_says_what_the_model_says(task: str) -> None:
    names: dict[str, Any] = {}
    exec(fitted(task).rules_.to_python(), names)
    records = frame(rows()[:2000]).to_dict("records")
    for record, wanted in zip(records, said(task), strict=False):
        np.testing.assert_allclose(np.atleast_1d(names["score"](record)), wanted.scores, rtol=1e-12, atol=1e-15)
        if wanted.probabilities:
            assert names["predict"](record) == wanted.label
            np.testing.assert_allclose(list(names["probability"](record).values()), wanted.probabilities, rtol=1e-11)


@pytest.mark.parametrize("task", TASKS)
def test_onnxruntime_says_what_the_model_says(task: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    session = runtime.InferenceSession(fitted(task).rules_.to_onnx(missing_text="<none>"), providers=["CPUExecutionProvider"])
    table = frame(rows())
    feeds = {}
    for wanted in session.get_inputs():
        column = table[wanted.name]
        if wanted.type == "tensor(string)":
            feeds[wanted.name] = column.astype(object).where(column.notna(), "<none>").to_numpy(dtype=object)[:, None]
        elif COLUMNS[wanted.name][0] == "date":
            moments = np.array([row[wanted.name] for row in rows()], dtype="datetime64[us]")
            feeds[wanted.name] = np.where(np.isnat(moments), np.nan, moments.astype(np.int64))[:, None]
        else:
            feeds[wanted.name] = np.array([[np.nan if row[wanted.name] is None else row[wanted.name]] for row in rows()], dtype=np.float64)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, feeds), strict=True))
    np.testing.assert_allclose(found["score"], [truth.scores for truth in said(task)], rtol=1e-11, atol=1e-13)
    if task != "numbers":
        assert found["label"].tolist() == [truth.label for truth in said(task)]
        np.testing.assert_allclose(found["probability"], [truth.probabilities for truth in said(task)], rtol=1e-9)
