"""Rule sets over plain pandas frames, with a schema and a scorer written down once more, as simply as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tamis.core.certificate import Certificate
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.rules.ruleset import RuleSet

CERTIFICATE = Certificate("duality gap", 10.0, 9.95, 0.01)
LEVELS = ("red", "blue", "green")


def numeric(column: str, cuts: tuple[float, ...]) -> list[Literal]:
    return [Literal(column, sign, cut) for cut in cuts for sign in ("<=", ">")]


@dataclass(frozen=True)
class PlainSchema:
    """What a rule set asks of a schema, over a pandas frame: exact opposites are marked only without missing cells."""

    frame: pd.DataFrame
    literals: tuple[Literal, ...] = (
        *numeric("a", (1.0, 2.0)),
        *numeric("b", (0.5,)),
        *(Literal("colour", sign, level, "level") for level in LEVELS for sign in ("==", "!=")),
    )
    same_rows: dict[int, tuple[str, ...]] = field(default_factory=lambda: {0: ("a2 <= 10",)})

    @property
    def complement(self) -> np.ndarray:
        whole = [not self.frame[literal.column].isna().any() for literal in self.literals]
        return np.array([i ^ 1 if ok else -1 for i, ok in enumerate(whole)])

    def truth(self, table: Any, only: Sequence[int]) -> Iterator[np.ndarray]:
        for literal in (self.literals[position] for position in only):
            yield np.array([naive(literal, cell) for cell in table.native[literal.column]], dtype=bool)


def naive(literal: Literal, cell: Any) -> bool:
    if literal.operator == "missing":
        return bool(pd.isna(cell))
    if pd.isna(cell):
        return False
    return {
        "<=": lambda: cell <= literal.value,
        ">": lambda: cell > literal.value,
        "==": lambda: cell == literal.value,
        "!=": lambda: cell != literal.value,
    }[literal.operator]()


def random_frame(rng: np.random.Generator, rows: int, gaps: bool) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"a": rng.uniform(0, 3, rows), "b": rng.uniform(0, 1, rows), "colour": rng.choice(np.array(LEVELS, dtype=object), rows)}
    )
    if gaps:
        frame = frame.mask(rng.random(frame.shape) < 0.15)
    return frame


def covered(rule: Rule, frame: pd.DataFrame) -> np.ndarray:
    held = [np.array([naive(c, cell) for cell in frame[c.column]], dtype=bool) for c in rule.conditions]
    return np.all(held, axis=0) if held else np.ones(len(frame), dtype=bool)


@dataclass
class Case:
    frame: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray
    card: ScoreCard
    schema: PlainSchema

    @property
    def hits(self) -> Callable[[int], np.ndarray]:
        return lambda i: covered(self.card.rules[i], self.frame)

    def rule_set(self, lattice: str = "conjunction") -> RuleSet:
        return RuleSet(self.card, RuleSet.measure(self.card, self.hits, self.y, self.weight), CERTIFICATE, self.schema, lattice=lattice)

    def scores(self, card: ScoreCard, frame: pd.DataFrame) -> np.ndarray:
        total = np.tile(np.array(card.constant, dtype=float), (len(frame), 1))
        for rule in card.rules:
            total += np.outer(covered(rule, frame), rule.weights)
        return total


def make_case(seed: int, task: str = "binary", rows: int = 40, gaps: bool = True, number: int = 6) -> Case:
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, rows, gaps)
    schema = PlainSchema(frame)
    columns = 3 if task == "softmax" else 1
    rules = []
    for _ in range(number):
        chosen = rng.choice(len(schema.literals), size=rng.integers(1, 4), replace=False)
        rules.append(Rule(tuple(schema.literals[k] for k in sorted(chosen)), tuple(float(w) for w in rng.normal(size=columns))))
    classes, link = {"binary": (("no", "yes"), "logistic"), "softmax": (("x", "y", "z"), "softmax"), "identity": ((), "identity")}[task]
    y = rng.normal(size=rows) if task == "identity" else np.array(classes, dtype=object)[rng.integers(0, len(classes), rows)]
    shape = tuple(Column(name, kind) for name, kind in (("a", "numeric"), ("b", "numeric"), ("colour", "level")))
    card = ScoreCard(tuple(rules), tuple(float(c) for c in rng.normal(size=columns)), link, classes, shape, "kind")
    return Case(frame, y, rng.integers(0, 4, rows).astype(float), card, schema)
