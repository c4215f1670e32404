"""A score card survives JSON to the last bit, and texts that are no score cards get one sentence."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_cards import SHAPES, make_card
from tamis.core.errors import TamisError, TamisFileError
from tamis.core.literal import KINDS, Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export import export
from tamis.store.export_json import from_json, to_json

numbers = st.floats() | st.sampled_from([-0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1e22])
texts = st.text(max_size=12)
cuts = st.builds(
    lambda column, operator, cut, label: Literal(column, operator, cut, "numeric", (), label),
    texts,
    st.sampled_from(("<=", ">")),
    st.floats(allow_nan=False),
    texts,
)
levels = st.builds(
    lambda column, operator, members: Literal(column, operator, None, "level", tuple(members)),
    texts,
    st.sampled_from(("in", "not in")),
    st.lists(texts, max_size=3),
)
others = st.builds(lambda column, value: Literal(column, "==", value, "level"), texts, texts)


@st.composite
def cards(draw: st.DrawFn) -> ScoreCard:
    """Any card, with any doubles among its numbers."""
    classes: tuple[Any, ...] = draw(
        st.sampled_from([(), ("a", "b"), (0, 1), (False, True), (0.5, -0.0), ("x", "y", "z"), (1, 2, 3, 10**30)])
    )
    columns = len(classes) if len(classes) > 2 else 1
    link = draw(
        st.sampled_from(
            ("identity", "exp") if not classes else ("softmax", "ovr", "none", "platt") if columns > 1 else ("logistic", "platt", "none")
        )
    )
    row = st.lists(numbers, min_size=columns, max_size=columns).map(tuple)
    rules = draw(st.lists(st.builds(Rule, st.lists(cuts | levels | others, max_size=3).map(tuple), row), max_size=4))
    listed = draw(st.lists(st.builds(Column, texts, st.sampled_from(KINDS), st.lists(texts, max_size=3).map(tuple)), max_size=3))
    platt = tuple(zip(draw(row), draw(row), strict=True)) if link == "platt" else ()
    return ScoreCard(tuple(rules), draw(row), link, classes, tuple(listed), draw(texts), platt)


def bits(value: Any) -> Any:
    """A card as comparable data in which doubles are their bits: tells -0.0 from 0.0, 1 from 1.0 and NaN from nothing."""
    if isinstance(value, float):
        return ("double", struct.pack(">d", value) if not math.isnan(value) else "nan")
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if isinstance(value, (Literal, Rule, Column, ScoreCard)):
        return tuple(bits(getattr(value, name)) for name in value.__slots__)
    return (type(value).__name__, value)


@given(cards())
def test_a_card_comes_back_to_the_last_bit(card: ScoreCard) -> None:
    text = to_json(card)
    assert bits(from_json(text)) == bits(card)
    assert to_json(from_json(text)) == text
    assert bits(from_json(text.encode())) == bits(from_json(to_json(card, indent=None))) == bits(card)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_equal_card_comes_back(shape: str) -> None:
    card = make_card(shape)
    assert from_json(to_json(card)) == card


def test_numbers_json_has_no_word_for() -> None:
    card = ScoreCard((Rule((Literal("x", "<=", -math.inf),), (math.inf,)), Rule((), (math.nan,))), (math.nan,), "identity")
    text = to_json(card)
    assert from_json(text) == card  # NaN comes back as math.nan itself
    assert "NaN" not in text
    assert "Infinity" not in text


def test_the_text_is_versioned_sorted_and_plain_json() -> None:
    text = to_json(make_card("softmax"))
    document = json.loads(text)
    assert (document["format"], document["version"]) == ("tamis-scorecard", 1)
    assert text == json.dumps(document, sort_keys=True, indent=1) + "\n"
    assert text.isascii()


def test_numpy_numbers_are_written_as_numbers() -> None:
    rule = Rule((Literal("x", "<=", np.float64(0.1)),), (np.float64(1 / 3), np.float64(0.5), np.float64(-0.5)))
    card = ScoreCard((rule,), (np.float64(0), np.float64(1), np.float64(2)), "softmax", (np.int64(1), np.int64(2), np.int64(3)))
    back = from_json(to_json(card))
    assert back == card
    assert type(back.classes[0]) is int
    assert type(from_json(to_json(ScoreCard((), (0.0,), "none", (np.str_("a"), np.str_("b"))))).classes[0]) is str


def test_a_weight_another_tool_wrote_as_an_integer_is_a_double() -> None:
    text = to_json(ScoreCard((Rule((), (1.0,)),), (2.0,), "identity")).replace("1.0", "1").replace("2.0", "2")
    assert type(from_json(text).constant[0]) is float
    assert type(from_json(text).rules[0].weights[0]) is float


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            '{"format": "tamis-scorecard", "version": 2}',
            "is of version 2, and this tamis reads up to 1, so it was not loaded; install a newer tamis.",
        ),
        ('{"format": "tamis-scorecard", "version": 0}', "has the version 0, which is no version number"),
        ('{"format": "tamis-scorecard", "version": true}', "has the version True"),
        ('{"format": "tamis-scorecard", "version": "1"}', "has the version '1'"),
        ('{"format": "tamis-scorecard"}', "has the version None"),
        ('{"format": "tamis-scorecard", "version": 1}', "The score card is damaged (KeyError"),
        ('{"format": "other", "version": 1}', "is JSON but not a tamis score card"),
        ("[]", "is JSON but not a tamis score card"),
        ("", "is not the JSON of a score card"),
        ("{", "is not the JSON of a score card"),
        ('{"format": NaN}', "NaN is not JSON"),
        (b"\xff\xfe\x00", "is not the JSON of a score card"),
        ("[" * 200_000, "is not the JSON of a score card"),
        ("9" * 5000, "is not the JSON of a score card"),
    ],
)
def test_texts_that_are_no_score_cards_get_one_sentence(text: str | bytes, part: str) -> None:
    with pytest.raises(TamisFileError) as caught:
        from_json(text)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_cards_can_be_exported_or_get_a_sentence() -> None:
    draw = random.Random(0)
    text = to_json(make_card("calibrated"))
    whole = json.loads(text)
    odd = [None, True, -1, 1e999, "", "x", [], {}, [[]], {"number": "inf"}, {"number": "x"}, {"number": []}, "9" * 9]
    sentences: list[str] = []
    written: list[str | bytes] = []
    for trial in range(2000):
        if trial % 3 == 0:
            place = draw.randrange(len(text))
            mutated = text[:place] + chr(draw.randrange(32, 127)) * draw.randrange(3) + text[place + draw.randrange(4) :]
        else:
            document = json.loads(text) if trial % 100 == 1 else whole
            at, key = document, draw.choice(list(document))
            while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.7:
                at = at[key]
                key = draw.choice(list(at)) if isinstance(at, dict) else draw.randrange(len(at))
            before, at[key] = at[key], draw.choice(odd)
            mutated = json.dumps(document)
            at[key] = before
        try:
            card = from_json(mutated)
        except TamisFileError as error:
            sentences.append(str(error))
            continue
        try:
            written.append(export(card, draw.choice(("sql", "python", "onnx"))))
        except TamisError as error:
            sentences.append(str(error))
    assert len(sentences) > 1000
    assert len(written) > 50
    assert not any("\n" in sentence for sentence in sentences)


def test_a_callable_cannot_be_written() -> None:
    card = ScoreCard((Rule((Literal("rich", "given", None, "given"),), (1.0,)),), (0.0,), "identity")
    with pytest.raises(
        TamisError, match="The proposition 'rich' is a Python callable and cannot leave Python, so the model cannot become JSON"
    ):
        to_json(card)
