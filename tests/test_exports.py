"""All exports through one door, and the sentences for cards no export can write."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_cards import make_card
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export import EXPORTS, export
from tamis.store.export_card import decimal_text, microseconds, moment_of
from tamis.store.export_json import to_json
from tamis.store.export_onnx import to_onnx
from tamis.store.export_python import to_python
from tamis.store.export_sql import to_sql


def test_export_calls_the_export_of_that_name() -> None:
    card = make_card("softmax")
    assert export(card, "sql", dialect="mysql", key="id") == to_sql(card, "mysql", key="id")
    assert export(card, "python") == to_python(card)
    assert export(card, "json", indent=None) == to_json(card, indent=None)
    assert export(card, "onnx", missing_text="?") == to_onnx(card, missing_text="?")


@pytest.mark.parametrize(
    ("to", "options", "part"),
    [
        ("pmml", {}, "'pmml' is no language tamis exports to, so nothing was written; use one of sql, python, json, onnx."),
        (
            "sql",
            {"table_name": "x"},
            "The export to sql has no option 'table_name', so nothing was written; it takes dialect, table, key, probability.",
        ),
        ("python", {"indent": 2}, "The export to python has no option 'indent', so nothing was written; it takes none."),
    ],
)
def test_wrong_requests_get_one_sentence(to: str, options: dict[str, Any], part: str) -> None:
    with pytest.raises(TamisError, match=re.escape(part)):
        export(make_card("softmax"), to, **options)


def card_with(*conditions: Literal, **changes: Any) -> ScoreCard:
    fields: dict[str, Any] = {
        "rules": (Rule(conditions, (1.0,)),),
        "constant": (0.0,),
        "link": "identity",
        "columns": (Column("x", "numeric"), Column("t", "level")),
    }
    return ScoreCard(**(fields | changes))


UNFIT = [
    ("a frame", "needs the ScoreCard of a fitted model, not a str"),
    (card_with(link="probit"), "has the link 'probit', which no export knows"),
    (card_with(link="logistic", classes=("a",)), "has 1 score columns and 1 classes, which does not suit the link 'logistic'"),
    (card_with(link="softmax", classes=("a", "b")), "1 score columns and 2 classes"),
    (card_with(classes=("a", "b")), "which does not suit the link 'identity'"),
    (card_with(constant=(0.0, 1.0)), "2 score columns and 0 classes"),
    (card_with(rules=(Rule((), (1.0, 2.0)),)), "but a rule or a Platt pair of another length"),
    (card_with(link="platt", classes=("a", "b")), "but a rule or a Platt pair of another length"),
    (card_with(Literal("x", ">=", 1.0)), "has the operator '>=' on the kind 'numeric'"),
    (card_with(Literal("x", "<=", 1.0, "level")), "has the operator '<=' on the kind 'level'"),
    (card_with(Literal("x", "==", "a", "numeric")), "has the operator '==' on the kind 'numeric'"),
    (card_with(Literal("x", "<=", 1.0, "money")), "on the kind 'money'"),
    (card_with(Literal("x", "<=", None)), "'x <= None' has no value to compare with"),
    (card_with(Literal("x", "<=", math.nan)), "'x <= nan' has no value to compare with"),
    (card_with(Literal("x", "<=", 3.0, "date")), "'x <= 3' has no value to compare with"),
    (card_with(Literal("rich", "given", None, "given")), "The proposition 'rich' is a Python callable and cannot leave Python"),
]
UNFIT_TO_RUN = [
    (card_with(constant=(math.nan,)), "holds the weight nan"),
    (card_with(rules=(Rule((), (-math.inf,)),)), "holds the weight -inf"),
    (card_with(link="none", classes=(0.0, math.inf)), "The class inf is no text, truth value or finite number"),
    (card_with(link="none", classes=("a", None)), "The class None is no text"),
    (card_with(Literal("p", "given", "income > 3", "given")), "reads the column 'income', which the score card does not list"),
]
UNFIT_PROPOSITIONS = [
    (
        card_with(Literal("p", "given", "t > 3", "given")),
        "compares the level column 't' > 3.0, which means something else in every database",
    ),
    (card_with(Literal("p", "given", "t < 'b'", "given")), "compares the level column 't' < 'b'"),
    (card_with(Literal("p", "given", "x == 'b'", "given")), "compares the numeric column 'x' == 'b'"),
    (card_with(Literal("p", "given", "not t in (3, 4)", "given")), "compares the level column 't' == 3.0"),
    (card_with(Literal("p", "given", "x == t", "given")), "compares the numeric column 'x' == the level column 't'"),
]


@pytest.mark.parametrize("to", EXPORTS)
@pytest.mark.parametrize(("card", "part"), UNFIT)
def test_cards_no_export_can_write(to: str, card: ScoreCard, part: str) -> None:
    assert part in refusal(card, to)


@pytest.mark.parametrize("to", ["sql", "python", "onnx"])
@pytest.mark.parametrize(("card", "part"), UNFIT_TO_RUN)
def test_cards_that_cannot_be_run_elsewhere(to: str, card: ScoreCard, part: str) -> None:
    assert part in refusal(card, to)


@pytest.mark.parametrize("to", ["sql", "python", "onnx"])
@pytest.mark.parametrize(("card", "part"), UNFIT_PROPOSITIONS)
def test_propositions_that_mean_something_else_elsewhere(to: str, card: ScoreCard, part: str) -> None:
    assert part in refusal(card, to)


def refusal(card: ScoreCard, to: str) -> str:
    """The one sentence an export answers with."""
    with pytest.raises(TamisError) as caught:
        export(card, to)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert ". " not in sentence
    assert "\n" not in sentence
    return sentence


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimals_read_back_even_by_a_parser_that_is_slightly_off(number: float) -> None:
    text = decimal_text(number)
    assert float(text) == number
    assert "." in text or "e" in text
    below, above = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
    # The text lies nearer to the number than 0.46 of the way to either neighbour: half way is where readers fail.
    for neighbour in (below, above):
        if math.isfinite(neighbour):
            assert abs(Fraction(text) - Fraction(number)) < Fraction(46, 100) * abs(Fraction(neighbour) - Fraction(number))
    assert len(text.partition("e")[0].strip("-").replace(".", "").strip("0")) <= 17


def test_moments_are_utc() -> None:
    assert moment_of("2024-03-01T02:30+03:00") == moment_of("2024-02-29T23:30:00Z") == moment_of("2024-02-29 23:30")
    assert [moment_of(text) for text in ("-0044-03-15", "10000-01-01", "soon")] == [None, None, None]
    assert [microseconds(moment) for text in ("1970-01-01", "1969-12-31T23:59:59.999999") if (moment := moment_of(text))] == [0, -1]


def test_cuts_in_years_no_database_knows() -> None:
    def condition(operator: str, cut: str) -> str:
        return to_sql(card_with(Literal("day", operator, cut, "date"))).split("CASE WHEN ")[1].split(" THEN")[0]

    assert condition("<=", "10000-01-01") == condition(">", "-0044-03-15") == '"day" IS NOT NULL'
    assert condition(">", "10000-01-01") == condition("<=", "-0044-03-15") == "1 = 0"


def test_exports_load_nothing_they_do_not_use() -> None:
    program = (
        "import sys\n"
        "from tamis.core.scorecard import ScoreCard\n"
        "from tamis.store.export import export\n"
        "card = ScoreCard((), (0.5,), 'identity')\n"
        "for to in ('sql', 'python', 'json'):\n"
        "    export(card, to)\n"
        "print([name for name in ('numpy', 'pandas', 'sqlglot', 'onnx', 'sklearn') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "[]"
