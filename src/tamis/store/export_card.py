"""What every export asks of a score card before it writes a line, so that no language gets a half-truth."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tamis.core.errors import TamisError
from tamis.core.expression_tree import columns_of
from tamis.core.literal import KINDS, Literal
from tamis.core.scorecard import LINKS, ScoreCard
from tamis.store.export_propositions import check_readings

#: The kinds of column each operator of a condition works on.
_SUITABLE = {
    **dict.fromkeys(("<=", ">"), ("numeric", "integer", "date")),
    **dict.fromkeys(("==", "!=", "in", "not in"), ("level", "ordered")),
    **dict.fromkeys(("true", "false"), ("boolean",)),
    "missing": ("numeric", "integer", "date", "level", "ordered", "boolean"),
    "given": ("given",),
}
REGRESSION_LINKS = ("identity", "exp")
SIGN_LINKS = ("logistic", "platt", "none")
#: Scores are clipped to this before EXP: beyond it a double overflows, and PostgreSQL raises.
CLIP = 700.0


def check_card(card: Any, to: str) -> ScoreCard:
    """Return the card, or say in one sentence why it cannot become `to`."""
    if not isinstance(card, ScoreCard):
        raise TamisError(
            f"An export to {to} needs the ScoreCard of a fitted model, not a {type(card).__name__}, so nothing was written; "
            "pass model.card_ or call model.rules_.to_sql() and its siblings."
        )
    if card.link not in LINKS:
        raise TamisError(
            f"The score card has the link {card.link!r}, which no export knows, so nothing was written; use one of {', '.join(LINKS)}."
        )
    _check_sizes(card, to)
    for condition in conditions_of(card):
        _check_condition(condition, to)
    return card


def check_finite(card: ScoreCard, to: str) -> None:
    """Refuse a weight that is NaN or infinite: no language could give the model's scores from it."""
    numbers = [
        *card.constant,
        *(weight for rule in card.rules for weight in rule.weights),
        *(number for pair in card.platt for number in pair),
    ]
    broken = next((number for number in numbers if not math.isfinite(number)), None)
    if broken is not None:
        raise TamisError(
            f"The score card holds the weight {broken!r}, so no {to} text could give the model's scores; "
            "fit the model again with bounded weights."
        )
    for label in map(plain, card.classes):
        if not isinstance(label, (str, int, float)) or (isinstance(label, float) and not math.isfinite(label)):
            raise TamisError(
                f"The class {label!r} is no text, truth value or finite number, so the model cannot become {to}; rename it and fit again."
            )


def _check_sizes(card: ScoreCard, to: str) -> None:
    """One number per score column everywhere, and as many classes as the link asks for."""
    columns, classes = len(card.constant), len(card.classes)
    if card.link in REGRESSION_LINKS:
        fits = columns == 1 and classes == 0
    else:
        fits = (columns == 1 and classes == 2 and card.link in SIGN_LINKS) or (
            columns == classes and classes >= 2 and card.link != "logistic"
        )
    if not fits:
        raise TamisError(
            f"The score card has {columns} score columns and {classes} classes, which does not suit the link {card.link!r}, "
            f"so it cannot become {to}; fit the model again or correct the card."
        )
    uneven = [rule for rule in card.rules if len(rule.weights) != columns]
    if uneven or (card.link == "platt" and len(card.platt) != columns):
        raise TamisError(
            f"The score card has {columns} score columns but a rule or a Platt pair of another length, "
            f"so it cannot become {to}; correct the card."
        )


def _check_condition(condition: Literal, to: str) -> None:
    """An operator that suits the kind, a value it can compare with, and no Python callable."""
    if condition.operator == "given" and condition.value is None:
        raise TamisError(
            f"The proposition {condition.column!r} is a Python callable and cannot leave Python, so the model cannot become {to}; "
            "give the proposition as an expression text and fit again."
        )
    if condition.kind not in KINDS or condition.kind not in _SUITABLE.get(condition.operator, ()):
        raise TamisError(
            f"The condition {condition.text()!r} has the operator {condition.operator!r} on the kind {condition.kind!r}, "
            f"which no export knows, so the model cannot become {to}; correct the card."
        )
    value = condition.value
    if condition.operator in ("<=", ">"):
        fits = isinstance(value, str) if condition.kind == "date" else isinstance(value, (int, float)) and not math.isnan(value)
    else:
        fits = condition.operator not in ("==", "!=", "given") or isinstance(value, str)
    if not fits:
        raise TamisError(
            f"The condition {condition.text()!r} has no value to compare with, so the model cannot become {to}; correct the card."
        )


def conditions_of(card: ScoreCard) -> Iterator[Literal]:
    """Every condition of every rule, in order, repeated as often as it occurs."""
    for rule in card.rules:
        yield from rule.conditions


def by_sign(card: ScoreCard) -> bool:
    """Whether one score's sign decides between two classes."""
    return len(card.constant) == 1 and len(card.classes) == 2


def plain(value: Any) -> Any:
    """A class label or a cut as a plain Python value: numpy scalars unwrapped without importing numpy."""
    return value.item() if hasattr(value, "item") and not isinstance(value, (str, bytes)) else value


def decimal_text(number: float) -> str:
    """The shortest decimal that every sane parser reads as this double, else 17 significant digits.

    The shortest text of a double may lie almost half a unit from it; SQLite's parser, among others, then
    lands on the neighbour about once in 20 000. Such a number is written with all 17 digits instead.
    """
    number = float(number)
    text = repr(number)
    spacing = min(math.nextafter(number, math.inf) - number, number - math.nextafter(number, -math.inf))
    if abs(Fraction(text) - Fraction(number)) <= Fraction(9, 20) * Fraction(spacing):
        return text
    text = f"{number:.17g}"
    return text if "." in text or "e" in text else text + ".0"


def moment_of(text: str) -> datetime.datetime | None:
    """An ISO date or time as a naive moment in UTC; None for years outside 1 to 9999, which databases cannot name."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970: the number a date is in tables and in ONNX."""
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def kinds_of(card: ScoreCard) -> dict[str, str]:
    """What each input column holds; conditions tell it for columns the card does not list."""
    listed = {column.name: column.kind for column in card.columns}
    return {condition.column: condition.kind for condition in conditions_of(card) if condition.operator != "given"} | listed


def cells_of(card: ScoreCard) -> dict[str, str]:
    """The columns the rules really read, with what they hold: in the order of the card, then of first use."""
    kinds = kinds_of(card)
    used: dict[str, None] = {}
    for condition in conditions_of(card):
        names = columns_of(condition.value) if condition.operator == "given" else (condition.column,)
        used.update(dict.fromkeys(names))
    unknown = [name for name in used if name not in kinds]
    if unknown:
        raise TamisError(
            f"A proposition reads the column {unknown[0]!r}, which the score card does not list, "
            "so it cannot be exported; fit the model again."
        )
    for text in {condition.value: None for condition in conditions_of(card) if condition.operator == "given"}:
        check_readings(text, kinds)
    order = {column.name: place for place, column in enumerate(card.columns)}
    return {name: kinds[name] for name in sorted(used, key=lambda name: order.get(name, len(order)))}
