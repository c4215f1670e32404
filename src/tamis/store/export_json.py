"""A score card as JSON: versioned, keys sorted, numbers that read back as the very same doubles."""

from __future__ import annotations

import json
import math
from typing import Any

from tamis.core.errors import TamisFileError
from tamis.core.literal import KINDS, Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.store.export_card import check_card, plain

FORMAT = "tamis-scorecard"
VERSION = 1
#: A card of 3 000 rules takes about 1 MB; a text beyond this is not one of ours.
LARGEST_TEXT = 256 * 1024 * 1024


def to_json(card: ScoreCard, *, indent: int | None = 1) -> str:
    """Write a score card as JSON text that `from_json` reads back as an equal card.

    Parameters
    ----------
    card : ScoreCard
    indent : int or None, default=1
        Spaces per level; None for one line.

    Returns
    -------
    str
        Numbers are written so that they read back exactly; an infinite number as `{"number": "inf"}`,
        because JSON itself has no word for it. The same card always gives the same text.

    Examples
    --------
    >>> from tamis.core.scorecard import ScoreCard
    >>> from tamis.store.export_json import from_json, to_json
    >>> card = ScoreCard(rules=(), constant=(0.1,), link="identity")
    >>> from_json(to_json(card)) == card
    True
    """
    check_card(card, "JSON")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "link": card.link,
        "target": card.target,
        "classes": [_encoded(label) for label in card.classes],
        "constant": [_encoded(float(number)) for number in card.constant],
        "platt": [[_encoded(float(number)) for number in pair] for pair in card.platt],
        "columns": [{"name": column.name, "kind": column.kind, "levels": list(column.levels)} for column in card.columns],
        "rules": [_rule_document(rule) for rule in card.rules],
    }
    return json.dumps(document, sort_keys=True, indent=indent, allow_nan=False) + "\n"


def from_json(text: str | bytes) -> ScoreCard:
    """Read the score card that `to_json` wrote.

    Parameters
    ----------
    text : str or bytes

    Returns
    -------
    ScoreCard

    Raises
    ------
    TamisFileError
        When the text is damaged, not a score card, or from a newer version.

    Examples
    --------
    >>> from tamis.store.export_json import from_json
    >>> from_json('{"format": "tamis-scorecard", "version": 99}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tamis.core.errors.TamisFileError: The score card is of version 99, and this tamis reads up to 1, so ...
    """
    if len(text) > LARGEST_TEXT:
        raise TamisFileError(
            f"The score card text has {len(text)} characters, more than the {LARGEST_TEXT} allowed, so it was not loaded; check the file."
        )
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TamisFileError(f"The text is not the JSON of a score card ({error}), so it was not loaded; export the model again.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TamisFileError("The text is JSON but not a tamis score card, so it was not loaded; pass a file written by to_json.")
    _check_version(document.get("version"))
    try:
        return check_card(_card_from(document), "a score card")
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise TamisFileError(
            f"The score card is damaged ({type(error).__name__}: {error}), so it was not loaded; export the model again."
        ) from None


def _check_version(version: Any) -> None:
    """Versions this reader knows pass; the rest get one sentence."""
    if type(version) is not int or version < 1:
        raise TamisFileError(
            f"The score card has the version {version!r}, which is no version number, so it was not loaded; export the model again."
        )
    if version > VERSION:
        raise TamisFileError(
            f"The score card is of version {version}, and this tamis reads up to {VERSION}, so it was not loaded; install a newer tamis."
        )


def _refuse_constant(word: str) -> float:
    """Python's json would read NaN and Infinity, which are not JSON and which we never write."""
    raise ValueError(f"{word} is not JSON")


def _encoded(value: Any) -> Any:
    """A number, text, truth value or None for JSON; numbers JSON has no word for become `{"number": "inf"}`."""
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(float(value))}
    return value


def _decoded(value: Any) -> Any:
    """What `_encoded` was given; NaN comes back as `math.nan`, so that equal cards stay equal."""
    if isinstance(value, dict):
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value["number"]]
    if value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"a {type(value).__name__} where a number or a text belongs")
    return value


def _number(value: Any) -> float:
    """A double; integers are taken because other JSON tools drop the `.0`."""
    number = _decoded(value)
    if isinstance(number, (str, bool)) or number is None:
        raise TypeError(f"{number!r} where a number belongs")
    return float(number)


def _text(value: Any) -> str:
    """A text, and nothing that only looks like one."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where a text belongs")
    return value


def _list(value: Any) -> list[Any]:
    """A list, and not a text that happens to iterate."""
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__} where a list belongs")
    return value


def _rule_document(rule: Rule) -> dict[str, Any]:
    """One rule; fields that say nothing are left out."""
    return {
        "if": [_condition_document(condition) for condition in rule.conditions],
        "weights": [_encoded(float(weight)) for weight in rule.weights],
    }


def _condition_document(condition: Literal) -> dict[str, Any]:
    """One condition; empty members and labels are left out."""
    document: dict[str, Any] = {"column": condition.column, "operator": condition.operator, "kind": condition.kind}
    if condition.value is not None:
        document["value"] = _encoded(condition.value)
    if condition.members:
        document["members"] = list(condition.members)
    if condition.label:
        document["label"] = condition.label
    return document


def _card_from(document: dict[str, Any]) -> ScoreCard:
    """The card of a version 1 document; fields a later minor release may add are passed over."""
    return ScoreCard(
        rules=tuple(_rule_from(rule) for rule in _list(document["rules"])),
        constant=tuple(_number(number) for number in _list(document["constant"])),
        link=_text(document["link"]),
        classes=tuple(_decoded(label) for label in _list(document["classes"])),
        columns=tuple(_column_from(column) for column in _list(document["columns"])),
        target=_text(document["target"]),
        platt=tuple(_pair_from(pair) for pair in _list(document["platt"])),
    )


def _rule_from(document: dict[str, Any]) -> Rule:
    """One rule."""
    conditions = tuple(_condition_from(condition) for condition in _list(document["if"]))
    return Rule(conditions, tuple(_number(weight) for weight in _list(document["weights"])))


def _condition_from(document: dict[str, Any]) -> Literal:
    """One condition; operator and kind are judged by `check_card`."""
    return Literal(
        column=_text(document["column"]),
        operator=_text(document["operator"]),
        value=_decoded(document.get("value")),
        kind=_text(document["kind"]),
        members=tuple(_text(member) for member in _list(document.get("members", []))),
        label=_text(document.get("label", "")),
    )


def _column_from(document: dict[str, Any]) -> Column:
    """One input column."""
    kind = _text(document["kind"])
    if kind not in KINDS:
        raise ValueError(f"unknown column kind {kind!r}")
    return Column(_text(document["name"]), kind, tuple(_text(level) for level in _list(document["levels"])))


def _pair_from(pair: Any) -> tuple[float, float]:
    """One (slope, shift)."""
    slope, shift = _list(pair)
    return _number(slope), _number(shift)
