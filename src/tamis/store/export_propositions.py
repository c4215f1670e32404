"""How the two sides of a comparison in a user's proposition are read: as numbers, as moments or as texts."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.core.errors import TamisError
from tamis.core.expression_tree import Among, Compare, Name, Number, Text, Value, is_number, parse, walk

_SUITABLE = {"number": ("numeric", "integer"), "moment": ("date",), "text": ("level", "ordered")}


def reading_of(node: Compare, kinds: Mapping[str, str]) -> str:
    """`number`, `moment` or `text`, as tables read them; anything else was refused there and is refused here."""
    sides = (node.left, node.right)
    found = {kinds[side.column] for side in sides if isinstance(side, Name)}
    if any(is_number(side) for side in sides) or (found and found <= set(_SUITABLE["number"])):
        reading = "number"
    else:
        reading = "moment" if "date" in found else "text"
    orders_text = reading == "text" and node.operator not in ("==", "!=")
    odd_text = reading == "number" and any(isinstance(side, Text) for side in sides)
    if orders_text or odd_text or not found <= set(_SUITABLE[reading]):
        raise TamisError(
            f"A proposition compares {_named(node.left, kinds)} {node.operator} {_named(node.right, kinds)}, which means something else in "
            "every database, so the model cannot be exported; compare numbers with numbers, dates with dates, and texts for being equal."
        )
    return reading


def check_readings(text: str, kinds: Mapping[str, str]) -> None:
    """Refuse a proposition with a comparison that cannot be read in one way."""
    for node in walk(parse(text)):
        if isinstance(node, Compare):
            reading_of(node, kinds)
        elif isinstance(node, Among):
            reading_of(Compare("==", node.value, node.members[0]), kinds)


def _named(node: Value, kinds: Mapping[str, str]) -> str:
    """One side of a comparison in a sentence."""
    if isinstance(node, Name):
        return f"the {kinds[node.column]} column {node.column!r}"
    return repr(node.value) if isinstance(node, (Number, Text)) else "a calculation"
