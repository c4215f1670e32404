"""A score card as the source of a Python module that needs nothing but Python."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping

from tamis.core.expression import PYTHON_HELPERS
from tamis.core.expression import to_python as proposition_python
from tamis.core.literal import Literal
from tamis.core.scorecard import Rule, ScoreCard
from tamis.store.export_card import by_sign, cells_of, check_card, check_finite, conditions_of, moment_of, plain
from tamis.store.export_python_parts import ENDINGS, HEAD, PROBABILITIES, READERS, SIGMOID

#: How a cell of each kind is read, and so what its variable holds.
_READERS = {"numeric": "number", "integer": "number", "boolean": "number", "date": "moment", "level": "level", "ordered": "level"}
#: Variable names that would hide something the function uses.
_TAKEN = {"row", "cells", "score", "total", "math", "datetime"}


def to_python(card: ScoreCard) -> str:
    """Write a score card as the source text of a module without dependencies.

    Parameters
    ----------
    card : ScoreCard

    Returns
    -------
    str
        A module with `score(row)`, `predict(row)` and, where the model has probabilities, `probability(row)`.
        `row` is a dict from column name to cell; None, NaN and pandas.NA are missing cells. `score` gives a
        float, or a tuple in the order of `CLASSES` when each class has a score of its own; `probability` a dict
        from class to number.

    Examples
    --------
    >>> from tamis.core.literal import Literal
    >>> from tamis.core.scorecard import Rule, ScoreCard
    >>> from tamis.store.export_python import to_python
    >>> rule = Rule((Literal("tenure", "<=", 11.0, "integer"),), (1.5,))
    >>> module = {}
    >>> exec(to_python(ScoreCard((rule,), (-0.25,), "logistic", ("stays", "leaves"))), module)
    >>> module["predict"]({"tenure": 3}), module["score"]({"tenure": None})
    ('leaves', -0.25)
    """
    check_card(card, "Python")
    check_finite(card, "Python")
    cells = cells_of(card)
    totals = ["total"] if len(card.constant) == 1 else [f"total_{number}" for number in range(1, len(card.constant) + 1)]
    names = _variables(cells, totals)
    readers = {_READERS[kind] for kind in cells.values()}
    given = any(condition.operator == "given" for condition in conditions_of(card))
    parts = [READERS[reader] for reader in READERS if reader in readers or (readers and reader == "cell")]
    parts += [PYTHON_HELPERS] * given + [_score_function(card, cells, names, totals, given)] + _ending_functions(card)
    labels = tuple(plain(label) for label in card.classes)
    constants = [f"TARGET = {card.target!r}", *([f"CLASSES = {labels!r}"] if labels else []), f"COLUMNS = {tuple(cells)!r}"]
    body = "\n".join("\n" + part.strip("\n") + "\n" for part in parts)
    computes = "number" in readers or card.link not in ("identity", "none")
    imports = ["import datetime"] * ("moment" in readers) + ["import math"] * computes
    return HEAD + "\n".join([*imports, *[""] * bool(imports), *constants]) + "\n\n" + body


def _variables(cells: Mapping[str, str], totals: list[str]) -> dict[str, str]:
    """A readable Python name for each column, no two alike."""
    names: dict[str, str] = {}
    used = {*_TAKEN, *totals}
    for place, column in enumerate(cells, 1):
        word = re.sub(r"[^a-z0-9]+", "_", column.casefold()).strip("_")[:40]
        name = word if word and not word[0].isdigit() else f"column_{word}".rstrip("_")
        if name in used or keyword.iskeyword(name) or keyword.issoftkeyword(name):
            name = f"{name}_{place}"
        while name in used:
            name += "_"
        used.add(name)
        names[column] = name
    return names


def _score_function(card: ScoreCard, cells: Mapping[str, str], names: Mapping[str, str], totals: list[str], given: bool) -> str:
    """`score(row)`: reads the cells, then one `if` per rule, in the order of the card."""
    lines = ["def score(row):", '    """The score of a row: the constant and the weight of every rule that fires."""']
    lines += [f"    {names[column]} = _{_READERS[kind]}_in(row, {column!r})" for column, kind in cells.items()]
    if given:
        lines.append(f"    cells = {{{', '.join(_entry(column, kind, names[column]) for column, kind in cells.items())}}}")
    lines += [f"    {total} = {float(number)!r}" for total, number in zip(totals, card.constant, strict=True)]
    for rule in card.rules:
        lines += _rule_lines(rule, totals, cells, names)
    return "\n".join([*lines, f"    return {', '.join(totals)}"])


def _entry(column: str, kind: str, name: str) -> str:
    """A cell as the helpers of propositions take it: a moment as a datetime."""
    return f"{column!r}: " + (f"{name} and datetime.datetime.fromisoformat({name})" if kind == "date" else name)


def _rule_lines(rule: Rule, totals: list[str], cells: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """One rule; the empty conjunction needs no `if`."""
    added = [f"{total} += {float(weight)!r}" for total, weight in zip(totals, rule.weights, strict=True) if weight != 0]
    if not added or not rule.conditions:
        return [f"    {line}" for line in added]
    tests = " and ".join(_condition(condition, cells, names.get(condition.column, "")) for condition in rule.conditions)
    return [f"    if {tests}:", *(f"        {line}" for line in added)]


def _condition(condition: Literal, cells: Mapping[str, str], name: str) -> str:
    """One condition on a variable that is NaN (numbers) or None (texts and moments) where the cell is missing."""
    if condition.operator == "given":
        return proposition_python(condition.value, "cells", cells)
    numeric = _READERS[condition.kind] == "number"
    if condition.operator == "missing":
        return f"math.isnan({name})" if numeric else f"{name} is None"
    if condition.operator in ("<=", ">"):
        return _moment(condition, name) if condition.kind == "date" else f"{name} {condition.operator} {_number(condition.value)}"
    if condition.operator in ("true", "false"):
        return f"{name} == {int(condition.operator == 'true')}"
    present = f"{name} is not None and " if condition.operator in ("!=", "not in") else ""
    if condition.operator in ("==", "!="):
        return f"{present}{name} {condition.operator} {str(condition.value)!r}"
    return f"{present}{name} {condition.operator} {condition.members!r}"


def _moment(condition: Literal, name: str) -> str:
    """`<=` or `>` on ISO texts of equal length; a cut outside the years 1 to 9999 lies beyond every cell."""
    moment = moment_of(condition.value)
    if moment is None:
        above = not condition.value.startswith("-")
        return f"{name} is not None" if above == (condition.operator == "<=") else "False"
    return f"{name} is not None and {name} {condition.operator} {moment.isoformat(' ', 'microseconds')!r}"


def _number(value: float) -> str:
    """A cut: whole numbers without their `.0`."""
    number = float(value)
    if math.isinf(number):
        return "math.inf" if number > 0 else "-math.inf"
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)


def _ending_functions(card: ScoreCard) -> list[str]:
    """`probability(row)` where there is one, and `predict(row)`."""
    if card.link in ("identity", "exp"):
        return [ENDINGS[card.link]]
    parts = [SIGMOID] if card.link in ("logistic", "platt", "ovr") else []
    shape = "one" if by_sign(card) else "many"
    if card.link == "platt":
        pairs = tuple((float(slope), float(shift)) for slope, shift in card.platt)
        parts.append(f"PLATT = {pairs!r}")
    if card.link != "none":
        parts.append(PROBABILITIES[f"{card.link} {shape}"])
    return [*parts, ENDINGS[shape]]
