"""Score cards and rows made to hurt, and a naive reading of a score card that shares no code with any export."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard

Row = dict[str, Any]
WEIRD = "we\"ird [na]me `with` 'quotes', a %(percent)s\nand a line end"
TOWNS = (
    "Oslo",
    "oslo",
    "Oslo ",
    "",
    "Saint-Étienne",
    "O'Brien",
    'the "old" town',
    "back\\slash",
    "ends in \\",
    "two\nlines",
    "\\\ntrick",
    "東京 🗼",
    "a;--b",
    "%s {0}",
    "NULL",
    "nan",
    "3",
    "E'x'",
)
UNSEEN = ("Atlantis", "OSLO", "Oslo\t", " Oslo", "二", "''", "\r\n")
SIZES = ("small", "medium", "large", "x'large")
CUTS = (
    -math.inf,
    -1e300,
    -2.5,
    0.0,
    5e-324,
    0.1,
    0.1 + 0.2,
    1 / 3,
    0.9400302371506291,
    6407.9438040000005,
    1e16,
    123456789.123456789,
    1.7e308,
    math.inf,
)
FLOAT32_CUTS = (0.10000000149011612, 0.1, 16777216.0, -3.4028234663852886e38)
COUNT_CUTS = (-3.0, 0.0, 7.0, 2.0**53, 9.2e18)
DAYS = ("1999-12-31", "2024-02-29", "0001-01-01")
MOMENTS = ("2024-02-29T23:59:59.999999", "2024-03-01", "1969-12-31T23:59:59", "2024-03-01T00:00:00.000001")
SQL_KINDS = {
    "numeric": "DOUBLE",
    "single": "REAL",
    "integer": "BIGINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "moment": "TIMESTAMP",
    "level": "TEXT",
}
#: Column name -> (kind on the card, type in a database).
COLUMNS = {
    "amount": ("numeric", "numeric"),
    "single": ("numeric", "single"),
    "count": ("integer", "integer"),
    "member": ("boolean", "boolean"),
    "flag": ("integer", "integer"),
    "day": ("date", "date"),
    "moment": ("date", "moment"),
    "town": ("level", "level"),
    "size": ("ordered", "level"),
    WEIRD: ("level", "level"),
}


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_moment(value: Any) -> datetime.datetime:
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value)
    return value if isinstance(value, datetime.datetime) else datetime.datetime(value.year, value.month, value.day)


@dataclass(frozen=True)
class Proposition:
    """An expression and, written by hand, when it holds."""

    text: str
    holds: Callable[[Row], bool]


def _number(row: Row, name: str) -> float | None:
    return None if is_missing(row[name]) else float(row[name])


def _ratio_is_large(row: Row) -> bool:
    count, single = _number(row, "count"), _number(row, "single")
    return count is not None and single is not None and single != 0 and abs(count / single) > 2.5


def _far_from_single(row: Row) -> bool:
    amount, single = _number(row, "amount"), _number(row, "single")
    if amount is None or single is None or math.isnan(amount - single):
        return False
    return not (amount - single <= 1.0)


PROPOSITIONS = (
    Proposition("abs(count / single) > 2.5", _ratio_is_large),
    Proposition("not (amount - single <= 1)", _far_from_single),
    Proposition(
        "amount == single",
        lambda row: not is_missing(row["amount"]) and not is_missing(row["single"]) and float(row["amount"]) == float(row["single"]),
    ),
    Proposition(
        "not town in ('Oslo', 'O''Brien', 'ends in \\\\')",
        lambda row: row["town"] is not None and row["town"] not in ("Oslo", "O'Brien", "ends in \\"),
    ),
    Proposition(
        "town == size or town != `size` and not member",
        lambda row: row["town"] is not None and row["size"] is not None and (row["town"] == row["size"] or row["member"] is False),
    ),
    Proposition(
        f"`{WEIRD.replace('`', '``')}` == 'Oslo' or count > 3",
        lambda row: row[WEIRD] == "Oslo" or (row["count"] is not None and row["count"] > 3),
    ),
    Proposition(
        "day <= '2024-02-29' and moment > '2024-02-29T23:59:59.999999'",
        lambda row: (
            row["day"] is not None
            and row["moment"] is not None
            and as_moment(row["day"]) <= as_moment("2024-02-29")
            and row["moment"] > as_moment(MOMENTS[0])
        ),
    ),
    Proposition(
        "not moment < day", lambda row: row["day"] is not None and row["moment"] is not None and not row["moment"] < as_moment(row["day"])
    ),
    Proposition("amount is missing or member is not missing", lambda row: is_missing(row["amount"]) or row["member"] is not None),
    Proposition(
        "not (member or amount > 0)", lambda row: row["member"] is False and not is_missing(row["amount"]) and not row["amount"] > 0
    ),
    Proposition(
        "-1 < amount <= 1e3 and count in (0, 7, -3)",
        lambda row: not is_missing(row["amount"]) and -1 < row["amount"] <= 1000 and row["count"] in (0, 7, -3),
    ),
)
_BY_TEXT = {proposition.text: proposition.holds for proposition in PROPOSITIONS}


def holds(condition: Literal, row: Row) -> bool:
    """One condition, read literally."""
    if condition.operator == "given":
        return _BY_TEXT[condition.value](row)
    cell = row[condition.column]
    if condition.operator == "missing":
        return is_missing(cell)
    if is_missing(cell):
        return False
    if condition.kind == "date":
        return as_moment(cell) <= as_moment(condition.value) if condition.operator == "<=" else as_moment(cell) > as_moment(condition.value)
    return {
        "<=": lambda: float(cell) <= condition.value,
        ">": lambda: float(cell) > condition.value,
        "==": lambda: cell == condition.value,
        "!=": lambda: cell != condition.value,
        "in": lambda: cell in condition.members,
        "not in": lambda: cell not in condition.members,
        "true": lambda: cell is True,
        "false": lambda: cell is False,
    }[condition.operator]()


@dataclass(frozen=True)
class Truth:
    """What a model says about one row."""

    scores: tuple[float, ...]
    label: Any
    probabilities: tuple[float, ...] | None


def sigmoid(score: float) -> float:
    score = max(-700.0, min(700.0, score))
    return 1 / (1 + math.exp(-score)) if score >= 0 else 1 - 1 / (1 + math.exp(score))


def judged(card: ScoreCard, row: Row) -> Truth:
    """The definition of a score card, in the fewest words."""
    scores = list(card.constant)
    for rule in card.rules:
        if all(holds(condition, row) for condition in rule.conditions):
            scores = [score + weight for score, weight in zip(scores, rule.weights, strict=True)]
    if card.link in ("identity", "exp"):
        value = scores[0] if card.link == "identity" else math.exp(max(-700.0, min(700.0, scores[0])))
        return Truth(tuple(scores), value, None)
    two = len(scores) == 1
    label = card.classes[int(scores[0] > 0) if two else scores.index(max(scores))]
    lines = card.platt if card.link == "platt" else [(1.0, 0.0)] * len(scores)
    moved = [slope * score + shift for score, (slope, shift) in zip(scores, lines, strict=True)]
    if card.link == "none":
        return Truth(tuple(scores), label, None)
    if two:
        return Truth(tuple(scores), label, (sigmoid(-moved[0]), sigmoid(moved[0])))
    shares = (
        [math.exp(max(-700.0, score - max(moved))) for score in moved] if card.link == "softmax" else [sigmoid(score) for score in moved]
    )
    return Truth(tuple(scores), label, tuple(share / sum(shares) for share in shares))


def conditions() -> list[Literal]:
    """At least one condition of every kind and operator, on every column."""
    found: list[Literal] = []
    for column, kind, cuts in (
        ("amount", "numeric", CUTS),
        ("single", "numeric", FLOAT32_CUTS),
        ("count", "integer", COUNT_CUTS),
        ("day", "date", DAYS),
        ("moment", "date", MOMENTS),
    ):
        found += [Literal(column, operator, cut, kind) for cut in cuts for operator in ("<=", ">")]
    found += [
        Literal("flag", ">", 0.0, "integer", label="flag"),
        Literal("member", "true", kind="boolean"),
        Literal("member", "false", kind="boolean"),
    ]
    found += [Literal(column, operator, town, "level") for column in ("town", WEIRD) for town in TOWNS for operator in ("==", "!=")]
    found += [
        Literal("town", operator, None, "level", TOWNS[start:stop], "town = other")
        for operator in ("in", "not in")
        for start, stop in ((0, 5), (4, 18), (0, 0))
    ]
    found += [
        Literal("size", "in", None, "ordered", SIZES[:2], "size <= medium"),
        Literal("size", "in", None, "ordered", SIZES[2:], "size > medium"),
    ]
    found += [Literal(column, "missing", kind=kind) for column, (kind, _) in COLUMNS.items()]
    found += [Literal(f"proposition {place}", "given", proposition.text, "given") for place, proposition in enumerate(PROPOSITIONS)]
    return found


SHAPES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "two classes": ("logistic", ("stays", "l'eaves\n\\")),
    "two numbers": ("platt", (0, 1)),
    "two truths": ("none", (False, True)),
    "two doubles": ("logistic", (-0.1, 2.5)),
    "softmax": ("softmax", ("setosa", "versicolor", "virginica")),
    "one against rest": ("ovr", ("A", "a", 'b"')),
    "calibrated": ("platt", (10, 20, 30, 40)),
    "largest": ("none", ("x", "y", "z")),
    "regression": ("identity", ()),
    "rate": ("exp", ()),
}


def make_card(shape: str, seed: int = 0, dyadic: bool = False, without: tuple[str, ...] = ()) -> ScoreCard:
    """A card of random rules in which every condition (but those of the operators `without`) occurs.

    Dyadic weights add up without rounding, so that scores of exactly 0 and ties between classes occur.
    """
    draw = random.Random(f"{shape} {seed}")
    link, classes = SHAPES[shape]
    columns = len(classes) if len(classes) > 2 else 1
    pool = [condition for condition in conditions() if condition.operator not in without]
    draw.shuffle(pool)

    def weights() -> tuple[float, ...]:
        if dyadic:
            return tuple(draw.choice((-1.0, -0.5, 0.0, 0.25, 0.5, 1.0)) for _ in range(columns))
        return tuple(draw.gauss(0, 1) * 10.0 ** draw.randint(-3, 0) for _ in range(columns))

    rules = [Rule((), weights())]
    while pool:
        size = draw.choice((1, 1, 2, 3))
        rules.append(Rule(tuple(pool[:size]), weights()))
        del pool[:size]
    listed = tuple(Column(name, kind, SIZES if kind == "ordered" else ()) for name, (kind, _) in COLUMNS.items())
    lines = tuple((draw.uniform(0.5, 2), draw.gauss(0, 0.3)) for _ in range(columns)) if link == "platt" else ()
    return ScoreCard(tuple(rules), weights(), link, classes, listed, "chu\"rn's \\ target\n", lines)


def make_rows(count: int = 10_000, seed: int = 0) -> list[Row]:
    """Rows of cells on, beside and far from every cut, with missing cells of both sorts."""
    draw = random.Random(seed)
    near = [step for cut in CUTS for step in (cut, math.nextafter(cut, math.inf), math.nextafter(cut, -math.inf))]
    amounts = [*near, math.nan, None, -0.0, 1e-310, -1.7976931348623157e308, 42.0]
    singles = [0.0, *FLOAT32_CUTS[:1], *FLOAT32_CUTS[2:], 0.09999999403953552, 1.5, math.inf, -math.inf, math.nan, None]
    counts = [-4, -3, -2, 0, 1, 7, 8, 2**53 - 1, 2**53, 2**53 + 1, 9_200_000_000_000_000_000, 9_200_000_000_000_002_048, -(2**62), None]
    days = [
        datetime.date(1999, 12, 31),
        datetime.date(2000, 1, 1),
        datetime.date(2024, 2, 29),
        datetime.date(2024, 3, 1),
        datetime.date(1, 1, 1),
        datetime.date(1, 1, 2),
        None,
    ]
    first = datetime.datetime(2024, 2, 29, 23, 59, 59, 999998)
    moments = [first + datetime.timedelta(microseconds=step) for step in range(5)]
    moments += [datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(2024, 3, 1, 12, 30), datetime.datetime(1900, 1, 1), None]
    towns = [*TOWNS, *UNSEEN, None]
    rows = []
    for _ in range(count):
        amount = draw.choice(amounts) if draw.random() < 0.8 else draw.gauss(0, 3)
        rows.append(
            {
                "amount": amount,
                "single": draw.choice(singles),
                "count": draw.choice(counts),
                "member": draw.choice((True, False, None)),
                "flag": draw.choice((0, 1, None)),
                "day": draw.choice(days),
                "moment": draw.choice(moments),
                "town": draw.choice(towns),
                "size": draw.choice((*SIZES, "giant", None)),
                WEIRD: draw.choice(towns),
            }
        )
    return rows


def close(found: float, wanted: float, tolerance: float = 1e-12) -> bool:
    """Equal to `tolerance`, relative to the larger of the number and 1e-3 (sums of weights of about 1 cancel)."""
    return found == wanted or abs(found - wanted) <= tolerance * max(abs(wanted), 1e-3)
