"""From fitted models to reports: every number on the page against the data it came from."""

from __future__ import annotations

import math
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers_browser import chromium, opened, overflow
from tamis.core.certificate import Certificate, Scope
from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.path import Knot, Path
from tamis.core.scorecard import Rule, ScoreCard
from tamis.report.build import content_of, report
from tamis.report.content import ReportContent
from tamis.report.displays import PathDisplay, RulesDisplay
from tamis.report.page import render
from tamis.rules.ruleset import RuleSet


def table(rows: int = 240) -> pd.DataFrame:
    """A small customer table with numbers, levels, yes/no and holes."""
    draw = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "tenure": draw.integers(0, 72, rows),
            "contract": draw.choice(["month", "year", "two"], rows),
            "fiber": draw.random(rows) < 0.4,
            "charges": np.where(draw.random(rows) < 0.1, np.nan, draw.uniform(20, 120, rows).round(1)),
        }
    )


def truth_of(text: str, frame: pd.DataFrame) -> Any:
    """One condition as people read it, judged on a frame: a second reader of the report's own words."""
    if text == "fiber":
        return frame["fiber"].to_numpy()
    if text == "not fiber":
        return ~frame["fiber"].to_numpy()
    if text.endswith(" is missing"):
        return frame[text.removesuffix(" is missing")].isna().to_numpy()
    if " in {" in text:
        column, levels = text.removesuffix("}").split(" not in {" if " not in {" in text else " in {")
        inside = frame[column].isin(levels.split(", ")).to_numpy()
        return ~inside if " not in {" in text else inside
    parts = text.split(" ")
    if len(parts) == 5:  # low < column <= high
        low, first, column, second, high = parts
        assert second == "<="
        cells = frame[column].to_numpy(float)
        return (cells > float(low) if first == "<" else cells >= float(low)) & (cells <= float(high))
    column, operator, value = parts
    if operator in ("=", "!=") and not pd.api.types.is_numeric_dtype(frame[column]):
        cells = frame[column].to_numpy()
        return cells == value if operator == "=" else cells != value
    cells, cut = frame[column].to_numpy(float), float(value)
    return {"<=": cells <= cut, ">": cells > cut, ">=": cells >= cut, "=": cells == cut}[operator]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def target(frame: pd.DataFrame) -> pd.Series:
    draw = np.random.default_rng(9)
    score = (
        2.5 * ((frame["contract"] == "month") & (frame["tenure"] <= 24)) + 1.5 * frame["fiber"] - 1.4 + draw.logistic(0, 0.5, len(frame))
    )
    return pd.Series(np.where(score > 0, "yes", "no"), name="churn")


@pytest.fixture(scope="module")
def classifier(frame: pd.DataFrame, target: pd.Series) -> Any:
    from tamis import RuleClassifier

    return RuleClassifier(max_length=2, n_path=6, cv=3, n_cuts=4, random_state=0).fit(frame, target)


@pytest.fixture(scope="module")
def content(classifier: Any) -> ReportContent:
    return content_of(classifier)


def test_weights_and_constant_are_the_models_own(classifier: Any, content: ReportContent, frame: pd.DataFrame) -> None:
    # The table alone gives the model's scores.
    stop = content.chosen
    score = np.full(len(frame), stop.constant[0])
    for index, (weight,) in zip(stop.pieces, stop.weights, strict=True):
        score += weight * np.logical_and.reduce([truth_of(part, frame) for part in content.pieces[index].conditions])
    assert np.allclose(score, classifier.decision_function(frame), atol=1e-9)
    assert len(stop.pieces) == len(classifier.rules_) > 0


def test_measures_are_counted_on_the_rows(content: ReportContent, frame: pd.DataFrame, target: pd.Series) -> None:
    stop = content.chosen
    for index, (weight,) in zip(stop.pieces, stop.weights, strict=True):
        piece = content.pieces[index]
        covered = np.logical_and.reduce([truth_of(part, frame) for part in piece.conditions])
        favoured = (target == ("yes" if weight > 0 else "no")).to_numpy()
        assert piece.values["coverage"] == pytest.approx(covered.mean())
        assert piece.values["count"] == covered.sum()
        assert piece.values["precision"] == pytest.approx(favoured[covered].mean())
        assert piece.values["lift"] == pytest.approx(favoured[covered].mean() / favoured.mean())


def test_every_knot_of_the_path_is_there(classifier: Any, content: ReportContent) -> None:
    assert [stop.t for stop in content.path.stops] == [knot.t for knot in classifier.path_.knots]
    assert content.chosen.t == classifier.C_
    assert content.claim.sentence == classifier.certificate_.sentence()
    for stop, knot in zip(content.path.stops, classifier.path_.knots, strict=True):
        if stop is not content.chosen:
            assert [row[0] for row in stop.weights] == pytest.approx(list(knot.coefficients[:, 0]))
            assert stop.claim.sentence == knot.certificate.sentence()
        assert len(stop.pieces) == len(set(stop.pieces))
    means = classifier.path_.scores["mean"]
    assert [stop.mean for stop in content.path.stops[: len(means)]] == pytest.approx(list(means))
    assert content.path.score == "log-loss"


def test_words_say_what_the_data_and_the_choice_were(classifier: Any, content: ReportContent) -> None:
    assert content.title == "Which rules decide churn?"
    assert (
        content.subtitle
        == f"240 training rows, 4 columns, {len(classifier.schema_.literals)} conditions; rules of up to 2 conditions, logistic loss."
    )
    assert (content.columns[0].negative, content.columns[0].positive) == ("churn = no", "churn = yes")
    assert "within one standard error of the best" in content.path.note
    said = dict(content.provenance)
    assert said["rows"] == "240"
    assert said["max_length"] == "2"
    assert "loss" not in said
    figures = {figure.label: figure.value for figure in content.figures}
    assert figures["rules"] == str(len(classifier.rules_))
    assert float(figures["churn = yes"].removesuffix("\u00a0%")) == pytest.approx(100 * content_share(classifier), abs=0.5)


def content_share(classifier: Any) -> float:
    return float(classifier.rules_.statistics.total_mass[1] / classifier.rules_.statistics.total_support)


def test_comparison_ends_with_this_model(classifier: Any, content: ReportContent) -> None:
    assert [row.name for row in content.baselines] == ["constant", "single conditions", "this model"]
    assert [row.ours for row in content.baselines] == [False, False, True]
    assert content.baselines[-1].score == classifier.baselines_["model"]["score"]
    assert content.baselines[-1].score == pytest.approx(content.chosen.mean)
    assert content.baselines[0].gap is None


def test_written_from_the_model_and_opened_in_a_browser(classifier: Any, content: ReportContent, tmp_path: File) -> None:
    file = tmp_path / "model.html"
    classifier.report(file)
    assert file.read_text(encoding="utf-8") == render(content)
    with chromium() as browser, opened(browser, file, width=375) as (page, record):
        assert overflow(page) <= 0
        assert page.inner_text("#sentence") == classifier.certificate_.sentence()
        page.focus("#knob")
        page.keyboard.press("End")
        assert page.inner_text("#sentence") == classifier.path_.knots[-1].certificate.sentence()
        assert page.locator("#rows tr").count() == min(15, len(classifier.path_.knots[-1].atoms))
        assert not [url for url in record.requests if not url.startswith("data:")]
    assert not record.complaints


def test_a_loaded_model_gives_the_same_report(tmp_path: File) -> None:
    from tamis import RuleClassifier
    from tamis.store.load import load

    # The rare condition weighs most but matters less than the others: the order by weight is not the order shown.
    draw = np.random.default_rng(0)
    marks = pd.DataFrame({"rare": draw.random(300) < 0.06, "half": draw.random(300) < 0.5, "third": draw.random(300) < 0.33})
    bought = 2.0 * marks["rare"] + 1.3 * marks["half"] + marks["third"] - 1.5 + draw.logistic(0, 0.4, 300) > 0
    model = RuleClassifier(max_length=2, C=20.0).fit(marks, bought)
    model.save(tmp_path / "model.tamis")
    loaded = content_of(load(tmp_path / "model.tamis"))
    for piece in loaded.pieces:
        assert piece.values["count"] == np.logical_and.reduce([marks[part] for part in piece.conditions]).sum()
    assert render(loaded) == render(content_of(model))


def test_displays_take_a_fitted_model(classifier: Any) -> None:
    import matplotlib.pyplot as plt

    display = PathDisplay.from_estimator(classifier).plot()
    assert any(np.allclose(line.get_xdata(), classifier.C_) for line in display.ax_.get_lines() if len(line.get_xdata()) == 2)
    bars = RulesDisplay.from_estimator(classifier).plot()
    assert sorted(bar.get_width() for bar in bars.ax_.patches) == pytest.approx(sorted(rule.weights[0] for rule in classifier.rules_))
    plt.close("all")


def test_several_classes_have_one_weight_each(frame: pd.DataFrame) -> None:
    from tamis import RuleClassifier

    kind = np.where(frame["tenure"] <= 24, "new", np.where(frame["fiber"], "fast", "old"))
    model = RuleClassifier(max_length=2, C=5.0, n_cuts=4).fit(frame, kind)
    content = content_of(model)
    assert [column.name for column in content.columns] == ["fast", "new", "old"]
    assert len(content.path.stops) == 1
    score = np.tile(content.chosen.constant, (len(frame), 1))
    for index, weights in zip(content.chosen.pieces, content.chosen.weights, strict=True):
        score += np.outer(np.logical_and.reduce([truth_of(part, frame) for part in content.pieces[index].conditions]), weights)
    assert np.allclose(score, model.decision_function(frame), atol=1e-9)
    assert content.baseline_note.startswith("Measured on the training rows, not validated")
    assert "the value that was asked for" in content.path.note
    assert 'id="knob"' not in render(content)


def test_regression_has_means_and_differences(frame: pd.DataFrame) -> None:
    from tamis import RuleRegressor

    spend = pd.Series(10.0 + 5.0 * frame["fiber"] - 3.0 * (frame["tenure"] <= 24), name="spend")
    content = content_of(RuleRegressor(max_length=2, C=50.0, n_cuts=4).fit(frame, spend))
    assert content.title == "Which rules move spend?"
    assert [measure.key for measure in content.measures][-3:] == ["mean", "difference", "length"]
    assert (content.columns[0].negative, content.columns[0].positive) == ("less spend", "more spend")
    for index in content.chosen.pieces:
        piece = content.pieces[index]
        covered = np.logical_and.reduce([truth_of(part, frame) for part in piece.conditions])
        assert piece.values["mean"] == pytest.approx(spend[covered].mean())
        assert piece.values["difference"] == pytest.approx(spend[covered].mean() - spend[~covered].mean())


# -- models by hand: what the report needs, and nothing else ----------------------------------------------

TENURE, CHARGES, FIBER = Literal("tenure", "<=", 24.0, "integer"), Literal("charges", ">", 80.0), Literal("fiber", "true", kind="boolean")


def by_hand(frame: pd.DataFrame, measured: bool = False, **changes: Any) -> Any:
    """A model of two knots that nobody fitted."""
    literals = (TENURE, CHARGES, FIBER)
    hits = [np.logical_and.reduce([truth_of(literals[k].text(), frame) for k in atom]) for atom in ((0,), (1, 2), (2,))]
    y = np.where(hits[0], "yes", "no")
    certificate = Certificate("duality gap", 1.0, 0.995, 0.01, Scope("three conditions", "C = 1", 3, 7), constant=2.0, gain_tolerance=0.1)
    knots = (
        Knot(0.1, ((2,),), ("fiber",), np.array([[0.3]]), np.array([-1.0]), certificate),
        Knot(1.0, ((0,), (1, 2)), ("a", "b"), np.array([[1.5], [-0.5]]), np.array([-0.4]), certificate),
    )

    def card(*atoms: tuple[tuple[int, ...], float]) -> ScoreCard:
        rules = tuple(Rule(tuple(literals[k] for k in atom), (weight,)) for atom, weight in atoms)
        return ScoreCard(rules, (-0.4,), "logistic", ("no", "yes"), target="churn")

    chosen = card(((0,), 1.5), ((1, 2), -0.5))
    rules = RuleSet(chosen, RuleSet.measure(chosen, lambda i: hits[i], y), certificate)
    model = SimpleNamespace(
        path_=Path(knots, "interrupted", "C"),
        C_=1.0,
        choose="ebic",
        card_=chosen,
        rules_=rules,
        certificate_=certificate,
        schema_=SimpleNamespace(literals=literals, complement=np.full(3, -1), same_rows={0: ("plan = new", "age <= 2")}),
        n_features_in_=4,
        max_length=2,
        loss="squared_hinge",
        notes_=("Column id is constant and was dropped.",),
    )
    if measured:
        every = card(((2,), 0.3), ((0,), 1.5), ((1, 2), -0.5))
        order = (2, 0, 1)
        model.path_statistics_ = RuleSet.measure(every, lambda i: hits[order[i]], y)
    return SimpleNamespace(**{**vars(model), **changes})


def test_a_rule_outside_the_model_is_measured_only_where_the_fit_did(frame: pd.DataFrame) -> None:
    fiber = next(piece for piece in content_of(by_hand(frame)).pieces if piece.name == "fiber")
    assert fiber.values == {"length": 1}
    fiber = next(piece for piece in content_of(by_hand(frame, measured=True)).pieces if piece.name == "fiber")
    assert fiber.values["coverage"] == pytest.approx(frame["fiber"].mean())
    assert fiber.values["precision"] == pytest.approx((frame["tenure"] <= 24)[frame["fiber"]].mean())


def test_notes_tell_twins_status_and_choice(frame: pd.DataFrame) -> None:
    content = content_of(by_hand(frame))
    assert content.notes[0] == "Column id is constant and was dropped."
    assert "On the training rows, “tenure <= 24” is the same as “plan = new”, “age <= 2”." in content.notes
    assert "interrupted" in content.path.note
    assert "extended BIC" in content.path.note
    assert content.baselines == ()
    assert "squared hinge loss" in content.subtitle
    assert "Against simpler models" not in render(content)


def test_a_certificate_that_does_not_hold_is_shown_as_such(frame: pd.DataFrame) -> None:
    broken = Certificate("duality gap", 1.0, 0.8, 0.01, Scope("three conditions"))
    content = content_of(by_hand(frame, certificate_=broken))
    assert content.claim.state == "fails"
    assert content.claim.sentence.startswith("Not certified")
    none = content_of(by_hand(frame, certificate_=Certificate("none", 0.0, 0.0, 0.01, reason="edited by hand")))
    assert none.claim.sentence == "No certificate: edited by hand"
    assert not any("distance" in figure.label for figure in none.figures)


def test_any_other_family_is_shown_by_its_path() -> None:
    certificate = Certificate("none", 0.0, 0.0, 0.01, reason="the problem is not convex")
    knots = [
        Knot(float(k), tuple((i,) for i in range(k)), tuple(f"group {i}" for i in range(k)), np.ones((k, 2)), np.zeros(2), certificate)
        for k in range(4)
    ]
    model = SimpleNamespace(path_=Path(tuple(knots), knob="k"), k_=2)
    content = content_of(model)
    assert content.path.chosen == 2
    assert [piece.name for piece in content.pieces] == ["group 0", "group 1", "group 2"]
    assert content.claim.sentence == "No certificate: the problem is not convex"
    page = render(content)
    assert "group 2" in page
    assert "No certificate" in page


def test_what_was_never_fitted_cannot_be_reported(tmp_path: File) -> None:
    with pytest.raises(TamisError, match="fit it first"):
        report(SimpleNamespace(), tmp_path / "report.html")
    with pytest.raises(TamisError, match="no knot"):
        content_of(SimpleNamespace(path_=Path()))
    assert not list(tmp_path.iterdir())


def test_scores_that_are_not_numbers_are_left_out(frame: pd.DataFrame) -> None:
    model = by_hand(frame)
    model.path_ = Path(
        model.path_.knots, knob="C", scores={"mean": np.array([0.5, math.nan]), "error": np.array([0.1])}, provenance={"scoring": "auc"}
    )
    stops = content_of(model).path.stops
    assert [(stop.mean, stop.error) for stop in stops] == [(0.5, 0.1), (None, None)]
    assert content_of(model).path.score == "1 − AUC"
