"""Which rules say the same thing twice, and the same model said with fewer rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Rule, ScoreCard
from tamis.rules.statistics import RuleStatistics, favoured_classes, weight_matrix
from tamis.rules.text import text_of


@dataclass(frozen=True)
class Overlap:
    """Two rules that share rows: how many, and which share of each and of both together."""

    first: int
    second: int
    both: int
    share_of_first: float
    share_of_second: float
    jaccard: float


@dataclass(frozen=True)
class Redundancy:
    """Something said twice: two rules with (nearly) the same rows, or a condition that another wording would replace."""

    first: int
    second: int | None
    jaccard: float
    text: str


def joint_rows(statistics: RuleStatistics) -> Any:
    """Rows shared by every two rules, or a sentence when there was too much to count."""
    if statistics.joint is None:
        raise TamisError(
            f"{len(statistics)} rules on {statistics.total_count} rows were too many to count the rows they share; "
            "call evaluate(X, y) with a sample of rows and ask its result."
        )
    return statistics.joint


def overlaps(statistics: RuleStatistics) -> list[Overlap]:
    """Every two rules with a row in common, most similar first."""
    joint, count = joint_rows(statistics), statistics.count
    found = []
    for i, j in zip(*np.nonzero(np.triu(joint, 1)), strict=True):
        both = int(joint[i, j])
        either = int(count[i] + count[j]) - both
        found.append(Overlap(int(i), int(j), both, both / int(count[i]), both / int(count[j]), both / either))
    return sorted(found, key=lambda pair: (-pair.jaccard, pair.first, pair.second))


def redundancies(card: ScoreCard, texts: Sequence[str], statistics: RuleStatistics, schema: Any, threshold: float) -> list[Redundancy]:
    """Rule pairs at least this similar, then conditions that have another wording on the training rows."""
    found = []
    for pair in overlaps(statistics):
        if pair.jaccard >= threshold:
            said = "covers the same rows as" if pair.jaccard == 1.0 else f"shares {pair.jaccard:.0%} of its rows with"
            found.append(Redundancy(pair.first, pair.second, pair.jaccard, f"{texts[pair.first]} {said} {texts[pair.second]}"))
    position = {} if schema is None else positions(schema)
    for i, rule in enumerate(card.rules):
        for condition in rule.conditions:
            others = () if schema is None else schema.same_rows.get(position.get(key_of(condition), -1), ())
            found += [Redundancy(i, None, 1.0, f"{condition.text()} covers the same rows as {other}") for other in others]
    return found


def key_of(literal: Literal) -> tuple[Any, ...]:
    """What makes two conditions the same, whatever they are called."""
    return literal.column, literal.operator, literal.value, literal.kind, literal.members


def positions(schema: Any) -> dict[tuple[Any, ...], int]:
    """Position of every condition of a schema."""
    return {key_of(literal): i for i, literal in enumerate(schema.literals)}


@dataclass
class Shorter:
    """A score card being simplified: rules leave one by one, scores on the training rows never change."""

    rules: list[Rule]
    weights: Any
    constant: Any
    statistics: RuleStatistics
    notes: list[str]

    @classmethod
    def of(cls, card: ScoreCard, statistics: RuleStatistics) -> Shorter:
        """Start from a card; the weights are a copy."""
        joint_rows(statistics)
        return cls(list(card.rules), weight_matrix(card), np.array(card.constant, dtype=np.float64), statistics, [])

    def drop(self, i: int) -> None:
        """Forget rule i, whose weight has gone elsewhere."""
        keep = [j for j in range(len(self.rules)) if j != i]
        self.rules = [self.rules[j] for j in keep]
        self.weights, self.statistics = self.weights[keep], self.statistics.subset(keep)

    def text(self, i: int) -> str:
        """Rule i in words."""
        return text_of(self.rules[i].conditions)

    def card(self, card: ScoreCard) -> ScoreCard:
        """The card with what is left."""
        rules = tuple(Rule(rule.conditions, tuple(float(w) for w in row)) for rule, row in zip(self.rules, self.weights, strict=True))
        return replace(card, rules=rules, constant=tuple(float(value) for value in self.constant))

    def step(self, complement: dict[tuple[Any, ...], tuple[Any, ...]]) -> bool:
        """One simplification; False when none is left."""
        return self._into_constant() or self._same_rows() or self._opposites(complement) or self._without_weight()

    def _into_constant(self) -> bool:
        """A rule that holds on every row is a constant."""
        for i in np.flatnonzero(self.statistics.count == self.statistics.total_count):
            self.notes.append(f"{self.text(int(i))} holds on every row: its weight went into the constant.")
            self.constant = self.constant + self.weights[i]
            self.drop(int(i))
            return True
        return False

    def _same_rows(self) -> bool:
        """Two rules with the same rows become the shorter one."""
        joint, count = joint_rows(self.statistics), self.statistics.count
        for i, j in zip(*np.nonzero(np.triu((joint == count[:, None]) & (joint == count[None, :]), 1)), strict=True):
            keep, gone = (i, j) if len(self.rules[i].conditions) <= len(self.rules[j].conditions) else (j, i)
            self.notes.append(f"{self.text(gone)} covers the same rows as {self.text(keep)}: merged into it.")
            self.weights[keep] += self.weights[gone]
            self.drop(int(gone))
            return True
        return False

    def _opposites(self, complement: dict[tuple[Any, ...], tuple[Any, ...]]) -> bool:
        """t and k, t and not k: one of the two is t minus the other."""
        joint, sets = joint_rows(self.statistics), [{key_of(c): c for c in rule.conditions} for rule in self.rules]
        for i, j in zip(*np.nonzero(np.triu(joint == 0, 1)), strict=True):
            common = sets[i].keys() & sets[j].keys()
            if not len(sets[i]) == len(sets[j]) == len(common) + 1:
                continue
            (mine,), (other,) = sets[i].keys() - common, sets[j].keys() - common
            if self._into_common(int(i), int(j), common, complement.get(mine) == other):
                return True
        return False

    def _into_common(self, i: int, j: int, common: set[tuple[Any, ...]], opposite: bool) -> bool:
        count = self.statistics.count
        together = int(count[i] + count[j])
        said = f"{self.text(i)} and {self.text(j)} together cover"
        if not common and together == self.statistics.total_count:
            self.notes.append(f"{said} every row: the weight of the second went into the constant.")
            self.constant = self.constant + self.weights[j]
        elif (t := self._position(common)) is not None and together == int(count[t]):
            self.notes.append(f"{said} the rows of {self.text(t)}: the weight of the second went there.")
            self.weights[t] += self.weights[j]
        elif common and opposite and np.allclose(self.weights[i], self.weights[j], rtol=1e-12, atol=0.0):
            self._replace_by_common(i, j, common)
            self.notes.append(f"{said} the rows of {self.text(i)}, with the same weight: merged into it.")
            self.drop(j)
            return True
        else:
            return False
        self.weights[i] -= self.weights[j]
        self.drop(j)
        return True

    def _position(self, conditions: set[tuple[Any, ...]]) -> int | None:
        """The rule with exactly these conditions."""
        return next((t for t, rule in enumerate(self.rules) if {key_of(c) for c in rule.conditions} == conditions), None)

    def _replace_by_common(self, i: int, j: int, common: set[tuple[Any, ...]]) -> None:
        """Rule i becomes the union of the disjoint rules i and j; every sum about it is the sum of theirs."""
        kept = tuple(condition for condition in self.rules[i].conditions if key_of(condition) in common)
        self.rules[i] = Rule(kept, self.rules[i].weights)
        self.statistics = _united(self.statistics, i, j)

    def _without_weight(self) -> bool:
        """Weights that cancelled leave no rule behind."""
        size = np.abs(self.weights).max(axis=1, initial=0.0)
        for i in np.flatnonzero(size <= 1e-15 * max(1.0, float(size.max(initial=0.0)))):
            self.notes.append(f"{self.text(int(i))} has no weight left: dropped.")
            self.drop(int(i))
            return True
        return False


def _united(statistics: RuleStatistics, i: int, j: int) -> RuleStatistics:
    """Rule i's sums with those of the disjoint rule j added."""
    count, support, mass = statistics.count.copy(), statistics.support.copy(), statistics.mass.copy()
    joint = np.array(joint_rows(statistics))
    for sums in (count, support, mass):
        sums[i] += sums[j]
    joint[i] += joint[j]
    joint[:, i] += joint[:, j]
    joint[i, i] = count[i]
    held_out = statistics.out_of_fold
    if held_out is not None:
        held_out = _united(held_out, i, j) if held_out.joint is not None else None
    return replace(statistics, count=count, support=support, mass=mass, joint=joint, out_of_fold=held_out)


def simplified(card: ScoreCard, statistics: RuleStatistics, schema: Any) -> tuple[ScoreCard, RuleStatistics, tuple[str, ...]]:
    """The same scores on the measured rows from fewer rules, and one sentence per merge."""
    complement: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    if schema is not None:
        keys = [key_of(literal) for literal in schema.literals]
        complement = {keys[i]: keys[int(c)] for i, c in enumerate(schema.complement) if c >= 0}
    work = Shorter.of(card, statistics)
    while work.rules and work.step(complement):
        pass
    shorter = work.card(card)
    return shorter, work.statistics.favouring(favoured_classes(shorter)), tuple(work.notes)


def importance_order(card: ScoreCard, statistics: RuleStatistics) -> tuple[Any, Any]:
    """(order, importance): |weight| * sqrt(c (1 - c)) with c the weighted coverage, largest first, ties by position."""
    share = np.clip(statistics.coverage, 0.0, 1.0)
    importance = np.linalg.norm(weight_matrix(card), axis=1) * np.sqrt(share * (1.0 - share))
    return np.argsort(-importance, kind="stable"), importance


def reordered(card: ScoreCard, order: Sequence[int] | Any) -> ScoreCard:
    """The card with its rules in another order, or some of them."""
    return replace(card, rules=tuple(card.rules[int(i)] for i in order))
