"""The geometry of the path picture, and the matplotlib displays that draw the same thing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers_report
from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError
from tamis.core.path import Knot, Path
from tamis.report.content import Claim, PathPicture, Piece, ReportContent, Stop
from tamis.report.displays import PathDisplay, RulesDisplay
from tamis.report.picture import COLOURS, GAP_HEIGHT, LABEL_HEIGHT, SCORE_HEIGHT, WEIGHT_HEIGHT, WIDTH, knob_axis, nice_marks, picture_of

mpl.use("Agg")
HELD = Claim("Held.", "holds", 0.004, 0.01)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def along(values: list[float], scale: str = "auto") -> PathPicture:
    return PathPicture("C", tuple(Stop(value, HELD) for value in values), scale=scale)


def test_a_wide_knob_is_drawn_by_its_logarithm() -> None:
    x, ticks, scale = knob_axis(along([0.01, 0.1, 1.0, 100.0]))
    assert scale == "log"
    assert x == pytest.approx([0, WIDTH / 4, WIDTH / 2, WIDTH])
    assert [(round(tick.at), tick.text) for tick in ticks] == [(0, "0.01"), (250, "0.1"), (500, "1"), (750, "10"), (1000, "100")]


def test_a_falling_knob_is_drawn_as_it_was_followed() -> None:
    x, ticks, _ = knob_axis(along([100.0, 1.0, 0.01]))
    assert x == pytest.approx([0, WIDTH / 2, WIDTH])
    assert ticks[0].text == "100"
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)


@pytest.mark.parametrize(
    ("values", "scale"), [([1.0, 2.0, 3.0], "linear"), ([0.0, 1.0, 1000.0], "linear"), ([3.0, 1.0, 2.0], "order"), ([1.0, 1.0], "order")]
)
def test_other_knobs_are_drawn_straight(values: list[float], scale: str) -> None:
    x, ticks, found = knob_axis(along(values))
    assert found == scale
    assert (x[0], x[-1]) == pytest.approx((0, WIDTH))
    assert all(0 <= tick.at <= WIDTH for tick in ticks)


def test_a_logarithm_that_does_not_exist_is_not_taken() -> None:
    assert knob_axis(along([0.0, 1.0, 10.0], "log"))[2] == "linear"


@given(st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=2, max_size=30, unique=True))
def test_knots_keep_order_and_proportion(values: list[float]) -> None:
    x, ticks, scale = knob_axis(along(sorted(values), "linear"))
    assert scale == "linear"
    span = max(values) - min(values)
    assert np.allclose(x, (np.sort(values) - min(values)) / span * WIDTH, atol=1e-6 * WIDTH)
    assert len(ticks) <= 9
    assert all(-1e-6 <= tick.at <= WIDTH * (1 + 1e-6) for tick in ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_marks_are_round_and_inside(low: float, span: float) -> None:
    marks = nice_marks(low, low + span)
    assert len(marks) <= 7
    assert all(low - 1e-6 * span <= mark <= low + span + 1e-6 * span for mark in marks)
    if len(marks) > 1:
        step = marks[1] - marks[0]
        assert min(abs(step / 10 ** math.floor(math.log10(step) + 1e-6) - factor) for factor in (1, 2, 5, 10)) < 0.05


def weights_content(seed: int, rules: int, knots: int = 8) -> ReportContent:
    return helpers_report.churn(seed, knots, rules)


@given(st.integers(0, 1000), st.integers(0, 60))
def test_lines_go_where_the_weights_are(seed: int, rules: int) -> None:
    content = weights_content(seed, rules)
    picture = picture_of(content)
    zero = picture.weights.zero
    ticks = {float(tick.text.replace("−", "-").replace("+", "")): tick.at for tick in picture.weights.ticks}
    if len(ticks) >= 2 and any(ticks):
        # A second way to the same height: interpolate between the axis labels.
        values = np.array(sorted(ticks))
        heights = np.array([ticks[value] for value in values])
        slope, at = np.polyfit(values, heights, 1)
        for line in picture.weights.lines:
            for place, y in line.points:
                knot = int(np.argmin(np.abs(np.array(picture.x) - place)))
                stop = content.path.stops[knot]
                weight = stop.weights[stop.pieces.index(line.piece)][0] if line.piece in stop.pieces else 0.0
                assert y == pytest.approx(slope * weight + at, abs=1.5)
        assert zero == pytest.approx(at, abs=1.0)
    assert all(-0.1 <= y <= WEIGHT_HEIGHT + 0.1 for line in picture.weights.lines for _, y in line.points)


@given(st.integers(0, 1000), st.integers(1, 60))
def test_labels_never_cover_each_other(seed: int, rules: int) -> None:
    lines = [line for line in picture_of(weights_content(seed, rules)).weights.lines if line.colour]
    assert len(lines) == min(COLOURS, rules, len(lines))
    places = sorted(line.label_at for line in lines)
    assert all(after - before >= LABEL_HEIGHT - 0.2 for before, after in pairwise(places))
    assert all(0 <= place <= WEIGHT_HEIGHT for place in places)


def test_the_most_important_pieces_are_coloured_in_order() -> None:
    content = helpers_report.churn()
    lines = {line.piece: line.colour for line in picture_of(content).weights.lines}
    assert [lines[piece] for piece in content.chosen.pieces[:COLOURS]] == list(range(1, COLOURS + 1))
    assert sum(colour > 0 for colour in lines.values()) == COLOURS


def test_scores_know_the_best_and_its_standard_error() -> None:
    content = helpers_report.churn()
    scores = picture_of(content).scores
    assert scores is not None
    means = [stop.mean for stop in content.path.stops]
    assert scores.best == int(np.argmin(means))
    heights = [y for _, y in scores.curve]
    # Lower scores lie lower, and the dashed line is one standard error above the lowest.
    assert int(np.argmax(heights)) == scores.best
    assert max(heights) > scores.limit > min(heights)
    assert all(0 <= y <= SCORE_HEIGHT for _, y in (*scores.curve, *scores.band))
    assert picture_of(helpers_report.heavy(4, 5)).scores is None


def test_gaps_fill_the_axis_and_an_unknown_one_fills_its_bar() -> None:
    stops = (Stop(1.0, HELD), Stop(2.0, Claim("No.", "fails", None, 0.01)), Stop(3.0, Claim("No.", "fails", 0.5, 0.01)))
    gaps = picture_of(ReportContent("", PathPicture("k", stops), ())).gaps
    assert [bar.state for bar in gaps.bars] == ["holds", "fails", "fails"]
    assert sum(bar.width for bar in gaps.bars) == pytest.approx(WIDTH)
    assert gaps.bars[1].top == 0
    assert gaps.bars[2].top == 0
    assert gaps.asked is not None
    assert gaps.bars[0].top > gaps.asked > 0
    assert (GAP_HEIGHT - gaps.bars[0].top) / (GAP_HEIGHT - gaps.asked) == pytest.approx(0.4, abs=0.01)


def small_path() -> Path:
    certificate = Certificate("duality gap", 1.0, 0.995, 0.01)
    knots = [
        Knot(0.1, (), (), np.zeros((0, 1)), np.zeros(1), certificate),
        Knot(1.0, ((0,),), ("a <= 3",), np.array([[0.5]]), np.zeros(1), certificate),
        Knot(
            10.0,
            ((0,), (1, 2)),
            ("a <= 3", "$b$ AND c"),
            np.array([[1.5], [-0.5]]),
            np.zeros(1),
            Certificate("duality gap", 1.0, 0.9, 0.01),
        ),
    ]
    return Path(
        tuple(knots),
        knob="C",
        scores={"mean": np.array([0.7, 0.5, 0.6]), "error": np.array([0.1, 0.1, 0.1])},
        provenance={"scoring": "log_loss", "loss": "logistic"},
    )


def drawn(figure: Any) -> float:
    """How much of a figure is not paper."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    return float((pixels.min(axis=2) < 250).mean())


def test_path_display_draws_every_panel() -> None:
    before = dict(mpl.rcParams)
    display = PathDisplay.from_path(small_path(), chosen=1)
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    assert [axis.get_ylabel() for axis in display.axes_] == ["weight", "log-loss", "gap"]
    assert display.axes_[-1].get_xlabel() == "C"
    assert display.axes_[-1].get_xscale() == "log"
    lines = [line for line in display.ax_.get_lines() if len(line.get_xdata()) == 3]
    assert np.nanmax([np.nanmax(line.get_ydata()) for line in lines]) == 1.5
    assert [text.get_text() for text in display.ax_.texts] == [r"\$b\$ AND c", "a <= 3"]
    assert drawn(display.figure_) > 0.02
    assert dict(mpl.rcParams) == before


def test_path_display_draws_into_given_axes() -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2)
    display = PathDisplay.from_path(small_path()).plot(ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert display.axes_ == (axes[1],)
    assert not axes[0].lines
    assert small_path().plot(ax=axes[0]).ax_ is axes[0]
    assert axes[0].lines


def test_path_display_from_a_model_marks_its_choice() -> None:
    model = SimpleNamespace(path_=small_path(), C_=1.0)
    display = PathDisplay.from_estimator(model).plot()
    assert display.content.path.chosen == 1
    assert any(list(line.get_xdata()) == [1.0, 1.0] for line in display.ax_.get_lines())
    with pytest.raises(TamisError, match="fit it first"):
        PathDisplay.from_estimator(SimpleNamespace())


def test_one_knot_and_no_piece_can_be_drawn() -> None:
    certificate = Certificate("none", 0.0, 0.0, 0.01, reason="not convex")
    path = Path((Knot(1.0, (), (), np.zeros((0, 1)), np.zeros(1), certificate),), knob="C")
    assert PathDisplay.from_path(path).plot().ax_ is not None
    with pytest.raises(TamisError, match="no knot"):
        PathDisplay.from_path(Path())


def test_rules_display_shows_weights_and_coverage() -> None:
    content = helpers_report.churn()
    display = RulesDisplay(content).plot(most=8)
    bars = display.ax_.patches
    assert [bar.get_width() for bar in bars] == [row[0] for row in content.chosen.weights[:8]]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        content.pieces[index].name for index in content.chosen.pieces[:8]
    ]
    first = content.pieces[content.chosen.pieces[0]]
    assert f"{100 * first.values['coverage']:.0f}\u00a0%" in [text.get_text() for text in display.ax_.texts]
    assert display.ax_.get_xlabel() == "stays  ←  weight  →  churn"
    assert drawn(display.figure_) > 0.02


def test_rules_display_of_several_columns_and_of_nothing() -> None:
    content = helpers_report.flowers()
    display = RulesDisplay(content).plot()
    assert len(display.ax_.patches) == 3 * len(content.chosen.pieces)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["setosa", "versicolor", "virginica"]
    empty = ReportContent("", PathPicture("C", (Stop(1.0, HELD),)), (Piece("unused"),))
    assert not RulesDisplay(empty).plot().ax_.patches
