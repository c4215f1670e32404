"""Rule sets said with fewer rules, without a rule, or as disjunctions: the score stays what it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_ruleset import CERTIFICATE, PlainSchema, covered, make_case, numeric
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Rule, ScoreCard
from tamis.rules.ruleset import RuleSet

seeds = st.integers(0, 10_000)


@given(seeds, st.sampled_from(["binary", "identity", "softmax"]))
def test_simplify_keeps_every_training_score(seed: int, task: str) -> None:
    rng = np.random.default_rng(seed)
    case = make_case(seed, task, rows=12, gaps=seed % 3 == 0, number=4)
    literals, extra = case.schema.literals, []
    for rule in case.card.rules[:3]:  # opposite pairs, sometimes of equal weight, sometimes with their union beside them
        k = int(rng.integers(0, len(literals) // 2)) * 2
        rest = tuple(c for c in rule.conditions if c.column != literals[k].column)
        same = rng.random() < 0.5
        extra.append(Rule((*rest, literals[k]), rule.weights))
        extra.append(Rule((*rest, literals[k + 1]), rule.weights if same else tuple(2 * w for w in rule.weights)))
    case.card = ScoreCard((*case.card.rules, *extra), case.card.constant, case.card.link, case.card.classes, case.card.columns, "kind")
    before = case.rule_set()
    after = before.simplify(case.frame)
    rows = case.weight > 0
    old, new = case.scores(before.card, case.frame), case.scores(after.card, case.frame)
    assert np.allclose(old[rows], new[rows], rtol=0, atol=1e-10)
    assert after.largest_change == pytest.approx(np.abs(old - new).max(), abs=1e-12)
    assert len(after) <= len(before)
    assert after.certificate.kind == "none"
    assert after.certificate.reason == "edited by hand"
    again = RuleSet.measure(after.card, lambda i: covered(after.card.rules[i], case.frame), case.y, case.weight)
    for name in ("count", "support", "mass", "joint"):
        assert np.allclose(getattr(after.statistics, name), getattr(again, name)), name


def test_simplify_merges_what_it_promises() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5, 0.5, 1.5, 2.5], "b": [0.1, 0.1, 0.1, 0.9, 0.9, 0.9], "colour": ["red"] * 3 + ["blue"] * 3})
    schema = PlainSchema(frame)
    low, high = numeric("a", (1.0,))
    left, red = Literal("b", "<=", 0.5), Literal("colour", "==", "red", "level")
    y = np.array([True, False] * 3)

    def simplified(*rules: Rule) -> RuleSet:
        card = ScoreCard(rules, (1.0,), "logistic", (False, True))
        statistics = RuleSet.measure(card, lambda i: covered(card.rules[i], frame), y)
        return RuleSet(card, statistics, CERTIFICATE, schema).simplify()

    merged = simplified(Rule((low, left), (0.5,)), Rule((high, left), (0.5,)))
    assert [(rule.text, rule.weights, rule.count) for rule in merged] == [("b <= 0.5", (0.5,), 3)]
    merged = simplified(Rule((low, left), (0.5,)), Rule((high, left), (2.0,)), Rule((left,), (1.0,)))
    assert {(rule.text, rule.weights) for rule in merged} == {("a > 1 AND b <= 0.5", (1.5,)), ("b <= 0.5", (1.5,))}
    merged = simplified(Rule((low,), (0.5,)), Rule((high,), (2.0,)))
    assert [(rule.text, rule.weights) for rule in merged] == [("a > 1", (1.5,))]
    assert merged.constant == (1.5,)
    merged = simplified(Rule((red,), (0.5,)), Rule((left,), (0.25,)))
    assert [(rule.text, rule.weights) for rule in merged] == [("colour = red", (0.75,))]
    kept = simplified(Rule((low, left), (0.5,)), Rule((high, left), (2.0,)))
    assert len(kept) == 2
    cancelled = simplified(Rule((low, left), (0.5,)), Rule((low, red), (-0.5,)))
    assert len(cancelled) == 0
    assert "ALWAYS +1.00" in str(cancelled)


def test_redundancy_names_twins_and_other_wordings() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": [0.1, 0.9, 0.9], "colour": ["red", "blue", "blue"]})
    rules_in = (Rule((Literal("a", "<=", 1.0),), (1.0,)), Rule((Literal("b", "<=", 0.5),), (0.5,)), Rule((Literal("a", ">", 1.0),), (0.1,)))
    card = ScoreCard(rules_in, (0.0,), "logistic", (0, 1))
    statistics = RuleSet.measure(card, lambda i: covered(card.rules[i], frame), [1, 0, 0])
    found = RuleSet(card, statistics, CERTIFICATE, PlainSchema(frame)).redundancy()
    assert [(item.first, item.second, item.text) for item in found] == [
        (0, 1, "a <= 1 covers the same rows as b <= 0.5"),
        (0, None, "a <= 1 covers the same rows as a2 <= 10"),
    ]


@given(seeds, st.sampled_from(["binary", "softmax"]))
def test_disjunctions_show_the_same_model(seed: int, task: str) -> None:
    case = make_case(seed, task, gaps=seed % 2 == 0)
    rules = case.rule_set("disjunction")
    total = np.tile(np.array(rules.constant), (len(case.frame), 1))
    table = pd.DataFrame({"y": case.y, "w": case.weight})
    for rule in rules:
        held = covered(Rule(rule.conditions, ()), case.frame) ^ rule.opposite
        total += np.outer(held, rule.weights)
        inside = table[held & (table.w > 0)]
        assert rule.count == len(inside)
        if len(inside):
            assert rule.precision == pytest.approx(inside.w[inside.y == rule.favoured].sum() / inside.w.sum())
        whole = not case.frame[[c.column for c in rule.conditions]].isna().any(axis=None)
        assert rule.opposite == (whole and len(rule.conditions) > 1)
    assert np.allclose(total, case.scores(case.card, case.frame), rtol=0, atol=1e-12)


def test_a_disjunction_reads_as_one() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.5], "b": [0.1, 0.9], "colour": ["red", "green"]})
    rule = Rule((Literal("colour", "!=", "red", "level"), Literal("colour", "!=", "blue", "level")), (-1.5,))
    card = ScoreCard((rule,), (0.5,), "logistic", (False, True), target="churn")
    rules = RuleSet(
        card, RuleSet.measure(card, lambda i: covered(rule, frame), [True, False]), CERTIFICATE, PlainSchema(frame), lattice="disjunction"
    )
    assert rules.text() == "IF colour in {red, blue} THEN churn (+1.50, covers 50 %, precision 1.00)\nconstant -1.00"
    assert rules.without(0).constant == (-1.0,)
    assert rules.card.rules == (rule,)  # exports keep the conjunction


@given(seeds, st.sampled_from(["conjunction", "disjunction"]))
def test_without_removes_what_is_shown(seed: int, lattice: str) -> None:
    case = make_case(seed, gaps=False)
    rules = case.rule_set(lattice)
    i = seed % len(rules)
    shorter = rules.without(i)
    assert [(rule.text, rule.weights) for rule in shorter] == [(rule.text, rule.weights) for j, rule in enumerate(rules) if j != i]
    assert np.allclose(shorter.constant, rules.constant, rtol=0, atol=1e-12)
    assert (shorter.certificate.kind, shorter.certificate.reason) == ("none", "edited by hand")
    assert not shorter.certificate.holds
    assert rules.without(-1).rules[0].text == rules[0].text
    with pytest.raises(TamisError, match="There is no rule 6: the set has 6 rules"):
        rules.without(6)
