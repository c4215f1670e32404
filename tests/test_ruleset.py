"""Rule sets against plain pandas and plain loops: measures, order, explanations, overlaps, edits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_ruleset import CERTIFICATE, covered, make_case, naive, random_frame
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import Column, Rule, ScoreCard
from tamis.rules.ruleset import RuleSet
from tamis.rules.statistics import RuleStatistics
from tamis.store.export_json import from_json
from tamis.tables.frame import as_table
from tamis.tables.schema import learn_schema

seeds = st.integers(0, 10_000)


@given(seeds, st.sampled_from(["binary", "softmax", "identity"]))
def test_measures_equal_a_naive_pandas_computation(seed: int, task: str) -> None:
    case = make_case(seed, task)
    rules = case.rule_set()
    table = pd.DataFrame({"y": case.y, "w": case.weight})
    table = table[table.w > 0]
    for rule in rules:
        held = pd.Series(covered(Rule(rule.conditions, ()), case.frame))[table.index]
        inside, outside = table[held], table[~held]
        assert rule.count == len(inside)
        assert rule.support == pytest.approx(inside.w.sum(), abs=1e-12)
        assert rule.coverage == pytest.approx(inside.w.sum() / table.w.sum(), abs=1e-12)
        weight = np.linalg.norm(rule.weights)
        assert rule.importance == pytest.approx(weight * math.sqrt(rule.coverage * (1 - rule.coverage)), abs=1e-12)
        if task == "identity":
            assert rule.mean == pytest.approx((inside.w * inside.y).sum() / inside.w.sum() if len(inside) else math.nan, nan_ok=True)
            rest = (outside.w * outside.y).sum() / outside.w.sum() if len(outside) else math.nan
            assert rule.difference == pytest.approx(rule.mean - rest, nan_ok=True)
            assert math.isnan(rule.precision)
            continue
        favoured = case.card.classes[int(rule.weights[0] > 0) if task == "binary" else int(np.argmax(rule.weights))]
        assert rule.favoured == favoured
        share = inside.w[inside.y == favoured].sum() / inside.w.sum() if len(inside) else math.nan
        base = table.w[table.y == favoured].sum() / table.w.sum()
        assert rule.precision == pytest.approx(share, nan_ok=True)
        assert rule.lift == pytest.approx(share / base if base else math.nan, nan_ok=True)
    assert list(rules.importance) == sorted(rules.importance, reverse=True)


@given(seeds)
def test_shared_rows_equal_set_arithmetic(seed: int) -> None:
    case = make_case(seed)
    rules = case.rule_set()
    rows = [set(np.flatnonzero(covered(Rule(rule.conditions, ()), case.frame) & (case.weight > 0))) for rule in rules]
    found = {(pair.first, pair.second): pair for pair in rules.overlaps()}
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            both, either = len(rows[i] & rows[j]), len(rows[i] | rows[j])
            assert ((i, j) in found) == (both > 0)
            if both:
                assert (found[i, j].both, found[i, j].jaccard) == (both, both / either)
                assert found[i, j].share_of_second == both / len(rows[j])
    ordered = [pair.jaccard for pair in rules.overlaps()]
    assert ordered == sorted(ordered, reverse=True)


@given(seeds, st.sampled_from(["binary", "softmax", "identity"]), st.sampled_from(["conjunction", "disjunction"]))
def test_explanations_sum_to_the_score(seed: int, task: str, lattice: str) -> None:
    case = make_case(seed, task, gaps=seed % 2 == 0)
    rules = case.rule_set(lattice)
    fresh = random_frame(np.random.default_rng(seed + 1), 5, gaps=True)
    truth = case.scores(case.card, fresh)
    for i, (_, row) in enumerate(fresh.iterrows()):
        said = rules.explain(row.to_dict())
        assert np.allclose(said.score, truth[i], rtol=0, atol=1e-12)
        total = np.array(said.constant) + sum((np.array(part.weights) for part in said.fired), np.zeros(len(said.constant)))
        assert np.allclose(total, truth[i], rtol=0, atol=1e-12)
        shown = {part.index for part in said.fired} | {rule.index for rule in said.near}
        for rule in rules:
            failing = [c for c in rule.conditions if not naive(c, row[c.column])]
            assert (rule.index in {part.index for part in said.fired}) == (bool(failing) if rule.opposite else not failing)
            if not rule.opposite and len(failing) != 1 and failing:
                assert rule.index not in shown
        if task == "binary":
            assert said.probability is not None
            assert said.probability["yes"] == pytest.approx(1 / (1 + math.exp(-truth[i, 0])))
            assert said.prediction == ("yes" if truth[i, 0] > 0 else "no")
        elif task == "softmax":
            assert said.probability is not None
            assert said.probability["y"] == pytest.approx(math.exp(truth[i, 1]) / np.exp(truth[i]).sum())
            assert said.prediction == case.card.classes[int(truth[i].argmax())]
        else:
            assert said.probability is None
            assert said.prediction == pytest.approx(truth[i, 0])


def test_explain_names_the_condition_that_is_lacking() -> None:
    rule = Rule((Literal("a", ">", 1.0), Literal("a", "<=", 2.0), Literal("colour", "==", "red", "level")), (2.0,))
    card = ScoreCard((rule,), (0.25,), "logistic", (False, True), target="churn")
    statistics = RuleSet.measure(card, lambda i: np.array([True, False]), [True, False])
    said = RuleSet(card, statistics, CERTIFICATE).explain({"a": 1.5, "colour": "blue"})
    assert (said.score, said.fired, said.near[0].missing) == ((0.25,), (), "colour = red")
    assert "one condition away (+2.00): 1 < a <= 2 AND colour = red, if colour = red" in str(said)
    both = RuleSet(card, statistics, CERTIFICATE).explain({"a": 1.5, "colour": "red"})
    assert both.score == (2.25,)
    assert str(both).splitlines()[1:] == ["  +0.25  constant", "  +2.00  1 < a <= 2 AND colour = red"]


@pytest.mark.parametrize(
    ("cell", "literal", "truth"),
    [
        (3, Literal("x", "==", "3", "level"), True),
        (3.0, Literal("x", "==", "3", "level"), True),
        (np.float32(2.5), Literal("x", "<=", 2.5), True),
        (None, Literal("x", "!=", "3", "level"), False),
        (pd.NA, Literal("x", "!=", "3", "level"), False),
        (pd.NaT, Literal("x", "missing", None, "date"), True),
        (float("nan"), Literal("x", "missing"), True),
        ("unseen", Literal("x", "!=", "3", "level"), True),
        ("unseen", Literal("x", "not in", None, "level", ("3", "4")), True),
        (float("inf"), Literal("x", ">", 3.0), True),
        (pd.Timestamp("2020-01-02"), Literal("x", "<=", "2020-01-02", "date"), True),
        (pd.Timestamp("2020-01-02", tz="Europe/Oslo"), Literal("x", "<=", "2020-01-01T23:00:00", "date"), True),
        ("2020-01-03", Literal("x", ">", "2020-01-02", "date"), True),
        (np.bool_(False), Literal("x", "false", None, "boolean"), True),
        (True, Literal("x", "given", None, "given"), True),
    ],
)
def test_cells_of_every_kind_are_judged(cell: Any, literal: Literal, truth: bool) -> None:
    card = ScoreCard((Rule((literal,), (1.0,)),), (0.0,), "identity", columns=(Column("x", literal.kind),))
    rules = RuleSet(card, RuleSet.measure(card, lambda i: np.array([True]), [1.0]), CERTIFICATE)
    assert rules.explain({"x": cell}).score == (float(truth),)
    assert rules.explain([cell]).score == (float(truth),)
    assert rules.explain(pd.Series({"x": cell}, dtype=object)).score == (float(truth),)


def test_a_frame_of_one_row_is_a_row() -> None:
    case = make_case(1)
    rules = case.rule_set()
    assert rules.explain(case.frame.iloc[[3]]).score == rules.explain(case.frame.iloc[3].to_dict()).score
    with pytest.raises(TamisError, match="explain takes one row and was given 2"):
        rules.explain(case.frame.iloc[:2])
    with pytest.raises(TamisError, match="The row has no column 'a'"):
        RuleSet(
            ScoreCard((Rule((Literal("a", "<=", 1.0),), (1.0,)),), (0.0,), "identity"),
            RuleSet.measure(ScoreCard((Rule((), (1.0,)),), (0.0,), "identity"), lambda i: np.array([True]), [1.0]),
            CERTIFICATE,
        ).explain({"b": 1})
    with pytest.raises(TamisError, match="'old' in column 'a' is not a number"):
        make_case(4, number=20).rule_set().explain({"a": "old", "b": 1.0, "colour": "red"})


@given(seeds, st.sampled_from(["binary", "softmax", "identity"]))
def test_evaluate_measures_other_rows(seed: int, task: str) -> None:
    case = make_case(seed, task)
    rules = case.rule_set()
    other = make_case(seed + 7, task)
    found = rules.evaluate(other.frame, other.y, other.weight)
    again = RuleSet.measure(rules.card, lambda i: covered(rules.card.rules[i], other.frame), other.y, other.weight)
    assert [rule.text for rule in found] == [rule.text for rule in rules]
    for name in ("count", "support", "mass", "joint", "total_mass"):
        assert np.allclose(getattr(found.statistics, name), getattr(again, name)), name
    score, share = case.scores(rules.card, other.frame), other.weight / other.weight.sum()
    if task == "identity":
        assert found.measures["mse"] == pytest.approx((share * (score[:, 0] - other.y) ** 2).sum())
        return
    picked = score.argmax(axis=1) if task == "softmax" else (score[:, 0] > 0).astype(int)
    assert found.measures["accuracy"] == pytest.approx(share[np.array(rules.card.classes)[picked] == other.y].sum())
    logits = score if task == "softmax" else np.hstack([np.zeros_like(score), score])
    label = np.array([rules.card.classes.index(value) for value in other.y])
    loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(label)), label]
    assert found.measures["log_loss"] == pytest.approx(share @ loss)


def test_evaluate_refuses_what_does_not_fit() -> None:
    case = make_case(3)
    with pytest.raises(TamisError, match="X has 40 rows but y has 39"):
        case.rule_set().evaluate(case.frame, case.y[:39])
    with pytest.raises(TamisError, match="The label 'maybe' is not one of the model's classes"):
        case.rule_set().evaluate(case.frame, ["maybe"] * 40)
    bare = RuleSet(case.card, case.rule_set().statistics, CERTIFICATE)
    with pytest.raises(TamisError, match="made without a schema"):
        bare.evaluate(case.frame, case.y)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("task", ["binary", "softmax", "identity"])
def test_frames_of_every_library(backend: str, task: str) -> None:
    case = make_case(2, task)
    rules = case.rule_set()
    frame = rules.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    columns = list(frame.column_names if backend == "pyarrow" else frame.columns)
    weights = ["weight x", "weight y", "weight z"] if task == "softmax" else ["weight"]
    measured = ["mean", "difference"] if task == "identity" else ["precision", "lift"]
    assert columns == ["rule", "then", *weights, "importance", "length", "support", "count", "coverage", *measured, "literals"]
    assert len(frame) == len(rules)


def test_held_out_measures_stand_beside_the_training_ones() -> None:
    case = make_case(5)
    held_out = RuleSet.measure(case.card, case.hits, case.y, rows="out-of-fold rows")
    statistics = RuleSet.measure(case.card, case.hits, case.y, case.weight).with_out_of_fold(held_out)
    rules = RuleSet(case.card, statistics, CERTIFICATE)
    frame = rules.to_frame("pandas")
    order = [case.card.rules.index(rule) for rule in rules.card.rules]
    assert np.allclose(frame["precision out of fold"], held_out.precision[order], equal_nan=True)
    again = RuleStatistics.from_record(*statistics.to_record())
    assert np.allclose(again.precision, statistics.precision, equal_nan=True)
    assert again.out_of_fold is not None
    assert again.out_of_fold.rows == "out-of-fold rows"


def test_printing_says_rules_constant_and_certificate() -> None:
    case = make_case(6)
    rules = case.rule_set()
    lines = str(rules).splitlines()
    assert lines[0].startswith("6 rules, measured on ")
    assert "Within 0.50 % of the best possible model" in lines[0]
    assert all(line.startswith("IF ") and " THEN kind = " in line for line in lines[1:7])
    assert lines[7].startswith("constant ")
    assert "Within 0.50 %" in repr(rules)


def test_notebook_table_escapes_the_users_text() -> None:
    literal = Literal("<script>", "==", "</td>&", "level")
    card = ScoreCard((Rule((literal,), (1.0,)),), (0.0,), "logistic", ("<b>", "&"))
    page = RuleSet(card, RuleSet.measure(card, lambda i: np.array([True]), ["&"]), CERTIFICATE)._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_a_card_and_measures_of_another_length_are_refused() -> None:
    case = make_case(7)
    with pytest.raises(TamisError, match="The card has 6 rules but 2 were measured"):
        RuleSet(case.card, case.rule_set().statistics.subset([0, 1]), CERTIFICATE)


def test_exports_give_the_rules_own_scores() -> None:
    case = make_case(8)
    rules = case.rule_set()
    module: dict[str, Any] = {}
    exec(rules.to_python(), module)
    truth = case.scores(rules.card, case.frame)[:, 0]
    found = [module["score"](row.to_dict()) for _, row in case.frame.iterrows()]
    assert np.allclose(np.ravel(found), truth, rtol=0, atol=1e-12)
    assert from_json(rules.to_json()) == rules.card
    assert "SELECT" in rules.to_sql("sqlite", table="customers")
    assert isinstance(rules.to_onnx(), bytes)
    with pytest.raises(TamisError, match="has no option 'colour'"):
        rules.to_python(colour="red")


def test_computed_propositions_are_explained_through_the_schema() -> None:
    frame = pd.DataFrame({"age": [20.0, 40.0, 60.0, 15.0], "member": [True, False, True, False]})
    propositions = {"young member": "age < 30 and member", "round": lambda X: X["age"] % 40 == 0}
    schema = learn_schema(as_table(frame), propositions=propositions)
    picked = [literal for literal in schema.literals if literal.operator == "given"]
    card = ScoreCard(
        tuple(Rule((literal,), (float(i + 1),)) for i, literal in enumerate(picked)),
        (0.0,),
        "identity",
        columns=tuple(schema.columns),
    )
    rules = RuleSet(card, RuleSet.measure(card, lambda i: np.arange(4) == i, [0.0, 1, 2, 3]), CERTIFICATE, schema)
    assert {literal.column for literal in picked} == {"young member", "round"}
    for row, expected in (({"age": 20.0, "member": True}, {"young member"}), ({"age": 40.0, "member": False}, {"round"})):
        said = rules.explain(row)
        assert {part.text for part in said.fired} == expected
    without = RuleSet(card, rules.measured, CERTIFICATE)
    with pytest.raises(TamisError, match="computed from other columns"):
        without.explain({"age": 20.0, "member": True})
    assert without.explain({"age": 20.0, "member": True, "young member": True, "round": None}).score == (1.0,)
