"""The exported ONNX model in onnxruntime: scores, probabilities and labels of the score card."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers_cards import COLUMNS, SHAPES, WEIRD, Row, is_missing, judged, make_card, make_rows
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export_onnx import to_onnx

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

N_ROWS = 10_000
NOTHING = "<missing>"
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return make_rows(N_ROWS, seed=4)


def fed(row: Row, name: str) -> Any:
    """A cell as the model's documentation asks for it."""
    kind, value = COLUMNS[name][0], row[name]
    if kind in ("level", "ordered"):
        return NOTHING if value is None else value
    if is_missing(value):
        return math.nan
    if kind == "date":
        moment = value if isinstance(value, datetime.datetime) else datetime.datetime(value.year, value.month, value.day)
        return (moment - EPOCH) / datetime.timedelta(microseconds=1)
    return float(value)


def run(model: bytes, rows: list[Row]) -> dict[str, Any]:
    """The outputs of a model by name."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for wanted in session.get_inputs():
        kind = object if wanted.type == "tensor(string)" else np.float64
        feeds[wanted.name] = np.array([[fed(row, wanted.name)] for row in rows], dtype=kind)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_onnxruntime_agrees_with_the_card(shape: str, rows: list[Row]) -> None:
    card = make_card(shape)
    some = rows if shape in ("two classes", "softmax") else rows[:1500]
    wanted = [judged(card, row) for row in some]
    found = run(to_onnx(card, missing_text=NOTHING), some)
    scores = np.array([each.scores for each in wanted])
    assert found["score"].dtype == np.float64
    np.testing.assert_allclose(found["score"], scores, rtol=1e-12, atol=1e-13)
    if not card.classes:
        np.testing.assert_allclose(found["prediction"][:, 0], [each.label for each in wanted], rtol=1e-12, atol=1e-13)
        assert set(found) == {"score", "prediction"}
        return
    # A matrix product adds in its own order: labels may only differ where two scores are equal but for rounding.
    margin = np.abs(scores[:, 0]) if scores.shape[1] == 1 else np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
    assert (margin > 1e-12).mean() > 0.99
    labels = found["label"].tolist()
    assert all(label == each.label for label, each, clear in zip(labels, wanted, margin > 1e-12, strict=True) if clear)
    assert isinstance(labels[0], type(card.classes[0]))
    assert ("probability" in found) == (card.link != "none")
    if card.link != "none":
        np.testing.assert_allclose(found["probability"], [each.probabilities for each in wanted], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("shape", ["two classes", "largest", "softmax"])
def test_ties_go_to_the_first(shape: str, rows: list[Row]) -> None:
    card, some = make_card(shape, dyadic=True), rows[:1000]
    if len(card.constant) == 1:
        card = replace(card, constant=(card.constant[0] - judged(card, some[7]).scores[0],))
    wanted = [judged(card, row) for row in some]
    assert any(each.scores == (0.0,) if len(each.scores) == 1 else each.scores.count(max(each.scores)) > 1 for each in wanted)
    found = run(to_onnx(card, missing_text=NOTHING), some)
    assert found["score"].tolist() == [list(each.scores) for each in wanted]
    assert found["label"].tolist() == [each.label for each in wanted]


def test_one_row_and_no_rules(rows: list[Row]) -> None:
    card = ScoreCard((Rule((), (0.5,)),), (0.25,), "logistic", ("a", "b"), (Column("town", "level"),))
    for count in (1, 3):
        found = run(to_onnx(card), rows[:count])
        assert found["score"].tolist() == [[0.75]] * count
        assert found["label"].tolist() == ["b"] * count
        np.testing.assert_allclose(found["probability"].sum(axis=1), 1)


def test_huge_scores_stay_in_range(rows: list[Row]) -> None:
    for link, many in (("logistic", False), ("exp", False), ("softmax", True), ("ovr", True)):
        rules = tuple(Rule((Literal("flag", ">", 0.0, "integer"),), (size, -size, 0.0) if many else (size,)) for size in (1e5,))
        classes = () if link == "exp" else ("a", "b", "c") if many else ("a", "b")
        for constant in (-5e4, 5e4):
            card = ScoreCard(rules, (constant,) * (3 if many else 1), link, classes, (Column("flag", "integer"),))
            found = run(to_onnx(card), rows[:50])
            values = found["prediction"] if link == "exp" else found["probability"]
            assert np.isfinite(values).all()


def test_missing_texts_have_a_stand_in(rows: list[Row]) -> None:
    town = Column("town", "level")
    rules = (Rule((Literal("town", "missing", kind="level"),), (1.0,)), Rule((Literal("town", "!=", "Oslo", "level"),), (2.0,)))
    model = to_onnx(ScoreCard(rules, (0.0,), "identity", (), (town,)))
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (score,) = session.run(["score"], {"town": np.array([[""], ["Oslo"], ["Rome"]], dtype=object)})
    assert score.ravel().tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    "card",
    [
        ScoreCard((Rule((Literal("town", "==", "", "level"),), (1.0,)),), (0.0,), "identity"),
        ScoreCard((Rule((Literal("town", "not in", None, "level", ("a", "")),), (1.0,)),), (0.0,), "identity"),
        ScoreCard(
            (Rule((Literal("size", "in", None, "ordered", ("a",)),), (1.0,)),),
            (0.0,),
            "identity",
            (),
            (Column("size", "ordered", ("", "a")),),
        ),
        ScoreCard(
            (Rule((Literal("p", "given", "town in ('', 'x')", "given"),), (1.0,)),), (0.0,), "identity", (), (Column("town", "level"),)
        ),
    ],
)
def test_a_level_cannot_stand_for_missing_as_well(card: ScoreCard) -> None:
    with pytest.raises(TamisError, match="The text '' is a level of the model and cannot stand for missing cells"):
        to_onnx(card)
    assert isinstance(to_onnx(card, missing_text=NOTHING), bytes)


@pytest.mark.parametrize(
    ("card", "part"),
    [
        (
            ScoreCard((Rule((Literal("score", ">", 0.0),), (1.0,)),), (0.0,), "identity"),
            "The column 'score' has the name of an ONNX output",
        ),
        (ScoreCard((Rule((Literal("", ">", 0.0),), (1.0,)),), (0.0,), "identity"), "A column has the empty name"),
        (ScoreCard((), (0.0,), "identity"), "The score card lists no columns"),
        (ScoreCard((), (0.0,), "none", ("a", 1), (Column("x", "numeric"),)), "are of several types"),
        (ScoreCard((), (0.0,), "none", (0, 2**70), (Column("x", "numeric"),)), "too large"),
        (
            ScoreCard((Rule((Literal("p", "given", None, "given"),), (1.0,)),), (0.0,), "identity"),
            "is a Python callable and cannot leave Python",
        ),
        (
            ScoreCard((Rule((Literal("p", "given", "1 < 2", "given"),), (1.0,)),), (0.0,), "identity", (), (Column("x", "numeric"),)),
            "reads no column",
        ),
    ],
)
def test_what_onnx_cannot_hold_gets_one_sentence(card: ScoreCard, part: str) -> None:
    with pytest.raises(TamisError) as caught:
        to_onnx(card)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_equal_cards_give_equal_bytes_and_odd_names_are_inputs() -> None:
    card = make_card("softmax")
    model = to_onnx(card, missing_text=NOTHING)
    assert model == to_onnx(make_card("softmax"), missing_text=NOTHING)
    inputs = runtime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
    assert [each.name for each in inputs] == list(COLUMNS)
    assert next(each for each in inputs if each.name == WEIRD).type == "tensor(string)"
