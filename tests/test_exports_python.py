"""The exported Python module: alone in a clean process, it says what the score card says."""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers_cards import SHAPES, WEIRD, close, conditions, judged, make_card, make_rows
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export_python import to_python

N_ROWS = 10_000


def loaded(card: ScoreCard) -> dict[str, Any]:
    """The exported module's names."""
    names: dict[str, Any] = {}
    exec(compile(to_python(card), "exported", "exec"), names)
    return names


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return make_rows(N_ROWS, seed=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_scores_like_the_card(shape: str, rows: list[dict[str, Any]]) -> None:
    card = make_card(shape)
    module = loaded(card)
    assert ("probability" in module) == (card.link not in ("identity", "exp", "none"))
    for row in rows if shape in ("two classes", "softmax") else rows[:1000]:
        wanted = judged(card, row)
        score = module["score"](row)
        assert (score if isinstance(score, tuple) else (score,)) == wanted.scores
        assert module["predict"](row) == wanted.label
        assert type(module["predict"](row)) is type(wanted.label)
        if wanted.probabilities is not None:
            chances = module["probability"](row)
            assert list(chances) == list(card.classes)
            assert all(close(chances[label], chance) for label, chance in zip(card.classes, wanted.probabilities, strict=True))


def test_it_runs_alone_in_a_clean_process(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    card = make_card("softmax")
    (tmp_path / "scorer.py").write_text(to_python(card), encoding="utf-8")
    few = [
        row | {"day": row["day"] and row["day"].isoformat(), "moment": row["moment"] and row["moment"].isoformat()} for row in rows[:500]
    ]
    (tmp_path / "rows.json").write_text(json.dumps(few), encoding="utf-8")
    program = (
        "import json, sys, scorer\n"
        "rows = json.load(open('rows.json', encoding='utf-8'))\n"
        "found = [[scorer.score(row), scorer.predict(row), scorer.probability(row)] for row in rows]\n"
        "foreign = [name for name in ('numpy', 'pandas', 'tamis') if name in sys.modules]\n"
        "json.dump([found, foreign], open('found.json', 'w'))\n"
    )
    # -I -S: no environment, no user folder, no site-packages; only the folder of the exported module.
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.')\n{program}"], cwd=tmp_path, check=True, timeout=60
    )
    found, foreign = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert foreign == []
    for (scores, label, chances), row in zip(found, rows, strict=False):
        wanted = judged(card, row)
        assert tuple(scores) == wanted.scores
        assert label == wanted.label
        assert tuple(chances) == card.classes


MISSING = [None, math.nan, np.float32("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]


@pytest.mark.parametrize("nothing", MISSING, ids=lambda value: f"{type(value).__name__}")
def test_every_missing_cell_is_missing(nothing: Any) -> None:
    module = loaded(make_card("calibrated"))
    row = make_rows(1)[0]
    every, none = dict.fromkeys(row, nothing), dict.fromkeys(row)
    assert module["score"](every) == module["score"](none) == judged(make_card("calibrated"), none).scores


def test_cells_of_numpy_and_pandas_count_as_their_values() -> None:
    card = make_card("largest")
    module = loaded(card)
    zone = datetime.timezone(datetime.timedelta(hours=-3))
    for row in make_rows(300, seed=2):
        other = dict(row)
        for name in ("amount", "count", "flag"):
            other[name] = row[name] if row[name] is None else np.float64(row[name]) if name == "amount" else np.int64(row[name])
        other["single"] = None if row["single"] is None else np.float32(row["single"])
        other["member"] = None if row["member"] is None else np.bool_(row["member"])
        other["day"] = None if row["day"] is None else np.datetime64(row["day"])
        if row["moment"] is not None:
            local = row["moment"].replace(tzinfo=datetime.UTC).astimezone(zone)
            other["moment"] = (pd.Timestamp(row["moment"]), np.datetime64(row["moment"], "ns"), local, row["moment"].isoformat() + "Z")[
                row["moment"].microsecond % 4
            ]
        assert module["score"](other) == judged(card, row).scores


def test_levels_are_texts_whatever_type_they_had() -> None:
    card = ScoreCard(
        tuple(Rule((Literal("zip", "==", text, "level"),), (2.0**place,)) for place, text in enumerate(("3", "2.5", "True", "é"))),
        (0.0,),
        "identity",
    )
    score = loaded(card)["score"]
    for cell, wanted in (
        (3, 1),
        (3.0, 1),
        (np.float32(3), 1),
        (np.int8(3), 1),
        ("3", 1),
        ("3.0", 0),
        (2.5, 2),
        (True, 4),
        ("é".encode(), 8),
        (1e300, 0),
    ):
        assert score({"zip": cell}) == wanted, cell


def test_a_column_that_is_not_there_is_an_error() -> None:
    module = loaded(ScoreCard((Rule((Literal("tenure", "<=", 3.0),), (1.0,)),), (0.0,), "identity"))
    with pytest.raises(KeyError, match="the row has no column 'tenure', so it cannot be scored"):
        module["score"]({"Tenure": 1})


def test_it_passes_ruff_and_imports_only_what_it_uses(tmp_path: Path) -> None:
    numbers, dates, levels = (
        {c for c in conditions() if c.kind in kinds} for kinds in (("numeric", "integer"), ("date",), ("level", "ordered"))
    )
    cards = [make_card(shape) for shape in SHAPES] + [make_card(shape, without=("given",)) for shape in SHAPES]
    for chosen in (numbers, dates, levels, set()):
        rules = tuple(Rule((condition,), (1.0,)) for condition in sorted(chosen, key=str))
        cards += [
            ScoreCard(rules, (0.0,), link, ("a", "b") if link in ("none", "logistic") else ())
            for link in ("identity", "none", "logistic", "exp")
        ]
    for place, card in enumerate(cards):
        (tmp_path / f"exported_{place}.py").write_text(to_python(card), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--target-version", "py311"]
    assert subprocess.run([*ruff, str(tmp_path)], capture_output=True, check=False).returncode == 0
    strict = subprocess.run(
        [*ruff, "--ignore-noqa", "--select", "E4,E7,E9,F,B,W", "--ignore", "B905", str(tmp_path)], capture_output=True, check=False
    )
    assert strict.returncode == 0, strict.stdout.decode()[:3000]


def test_names_of_columns_become_different_variables() -> None:
    odd = [
        "row",
        "math",
        "class",
        "match",
        "total",
        "total_1",
        "cells",
        "Age",
        "age",
        "AGE",
        "age_8",
        "1st",
        "__",
        "",
        "é",
        "lambda ",
        "score",
        WEIRD,
        "datetime",
        "x" * 300,
    ]
    rules = tuple(Rule((Literal(name, ">", 0.0),), (2.0**place,)) for place, name in enumerate(odd))
    for constant, link, classes in (((0.0,), "identity", ()), ((0.0, 0.0, 0.0), "none", ("a", "b", "c"))):
        card = ScoreCard(tuple(Rule(rule.conditions, rule.weights * len(constant)) for rule in rules), constant, link, classes)
        module = loaded(card)
        for place, name in enumerate(odd):
            score = module["score"](dict.fromkeys(odd, -1.0) | {name: 1.0})
            assert (score if link == "identity" else score[0]) == 2.0**place, name


def test_text_in_names_stays_text() -> None:
    evil = ['"""', "'''", "\\", "\n", "{x}", '"); import os; ("', "\ud800", "\u2028", "#"]
    columns = tuple(Column(name, "level") for name in evil)
    rules = tuple(Rule((Literal(name, "==", name, "level"),), (1.0,)) for name in evil)
    for target in evil:
        module = loaded(ScoreCard(rules, (0.0,), "logistic", (target, "other" + target), columns, target))
        assert module["TARGET"] == target
        assert module["CLASSES"] == (target, "other" + target)
        assert module["score"]({name: name for name in evil}) == len(evil)
