"""Pictures of linear paths: steps where models stay, lines where they move, residuals on a logarithm, in pages and displays."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis import InverseScaleRegressor
from tamis.core.certificate import Certificate
from tamis.core.path import Knot, Path
from tamis.report.axis import WIDTH, between, knob_axis
from tamis.report.build import content_of
from tamis.report.content import Claim, PathPicture, Piece, Profile, ReportContent, Stop
from tamis.report.displays import PathDisplay
from tamis.report.page import render, staircase_text
from tamis.report.picture import GAP_HEIGHT, WEIGHT_HEIGHT, picture_of
from tamis.report.profile import PROFILE_HEIGHT, profile_picture

mpl.use("Agg")
from helpers_report_linear import class_models, exact_model, long_model, read_steps, split_model

EXACT = Claim("Exact to 2.4e-15.", "holds", 2.4e-15, 1e-8, residual=True)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def exact() -> tuple[Any, ReportContent]:
    return exact_model()


@pytest.fixture(scope="module")
def split() -> Any:
    return split_model()


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    return class_models()


# ---- the picture ------------------------------------------------------------------------------------------------
def timed(values: list[float], steps: bool = True) -> PathPicture:
    return PathPicture("t", tuple(Stop(value, EXACT) for value in values), scale="time", steps=steps)


increasing = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30, unique=True).map(sorted)


@given(increasing, st.booleans(), st.booleans())
def test_time_zero_stands_before_the_first_entry(times: list[float], zero: bool, steps: bool) -> None:
    values = [0.0, *times] if zero else times
    x, ticks, scale = knob_axis(timed(values, steps))
    if len(values) == 1:
        return
    assert scale == "log"
    assert x[0] == pytest.approx(0, abs=1e-9)
    assert all(before <= after for before, after in pairwise(x))
    assert (x[-1] < WIDTH) if steps else (x[-1] == pytest.approx(WIDTH))
    known = np.log(times)
    if len(times) > 1 and known[-1] - known[0] > 1e-3:
        placed = np.array(x[-len(times) :])
        assert np.allclose((placed - placed[0]) / (placed[-1] - placed[0]), (known - known[0]) / (known[-1] - known[0]), atol=1e-6)
        assert not zero or 0 < placed[0] < 0.1 * WIDTH
    assert all(-1e-6 <= tick.at <= WIDTH + 1e-6 for tick in ticks)
    assert not zero or ticks[0].text == "0"


@given(increasing.filter(lambda times: len(times) > 1), st.floats(0, 1))
def test_places_between_knots_keep_their_order(times: list[float], share: float) -> None:
    values = [0.0, *times]
    x, _, _ = knob_axis(timed(values))
    t = share * times[-1]
    after = next(i for i, value in enumerate(values) if value >= t)
    assert x[max(after - 1, 0)] - 1e-9 <= between(values, x, t) <= x[after] + 1e-9
    for value, place in zip(values, x, strict=True):
        assert between(values, x, value) == pytest.approx(place, abs=1e-6)


def test_lines_stay_until_the_next_knot(exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    picture = picture_of(content)
    marks = {float(tick.text.replace("−", "-")): tick.at for tick in picture.weights.ticks}
    slope, zero = np.polyfit(list(marks), list(marks.values()), 1)
    middles = [(before + after) / 2 for before, after in zip(picture.x, [*picture.x[1:], WIDTH], strict=True)]
    wide = [i for i, (before, after) in enumerate(zip(picture.x, [*picture.x[1:], WIDTH], strict=True)) if after - before > 1.5]
    assert len(wide) > 5
    for line in picture.weights.lines:
        name = content.pieces[line.piece].name
        column = list(model.feature_names_in_).index(name)
        for i in wide:
            expected = model.coefficients(model.path_.knots[i].t)[0][column]
            if middles[i] < line.points[0][0]:
                assert expected == 0
            elif middles[i] <= line.points[-1][0]:
                height = read_steps(line.points, [middles[i]])[0]
                assert height == pytest.approx(slope * expected + zero, abs=1.0)
            assert 0 <= min(y for _, y in line.points) <= max(y for _, y in line.points) <= WEIGHT_HEIGHT
    page = render(content)
    drawn = re.findall(r'class="line c\d" d="(M[^"]+)"', page)
    assert len(drawn) == len(picture.weights.lines)
    assert drawn[0] == staircase_text(picture.weights.lines[0].points)
    assert re.fullmatch(r"M[\d.e-]+ [\d.e-]+(H[\d.e-]+V[\d.e-]+)+", drawn[0])


def test_damped_paths_are_lines(classes: dict[str, Any]) -> None:
    page = render(content_of(classes["two"]))
    assert '<polyline class="line' in page
    assert '"steps":false' in page


def test_the_validation_curve_is_known_between_knots(exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    scores = picture_of(content).scores
    assert scores is not None
    assert len(content.path.curve) == len(model.path_.scores["grid"]) > len(model.path_)
    # The lowest point of the curve is the lowest mean, and the dashed line lies one error above it.
    lowest = max(y for _, y in scores.curve)
    assert scores.limit < lowest
    best = int(np.argmin(model.path_.scores["grid_mean"]))
    x, _, _ = knob_axis(content.path)
    place = between([stop.t for stop in content.path.stops], x, model.path_.scores["grid"][best])
    assert read_steps(scores.curve, [place + 3.0])[0] == pytest.approx(lowest, abs=1.0)


def test_residual_bars_are_logarithmic() -> None:
    stops = tuple(Stop(t, replace(EXACT, gap=gap)) for t, gap in ((1.0, 1e-16), (2.0, 1e-12), (4.0, 1e-8), (8.0, None)))
    gaps = picture_of(ReportContent("", PathPicture("t", stops, scale="time", steps=True), ())).gaps
    heights = [GAP_HEIGHT - bar.top for bar in gaps.bars]
    assert gaps.asked == pytest.approx(gaps.bars[2].top, abs=0.2)
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert heights[3] == GAP_HEIGHT
    assert gaps.residual
    assert sum(bar.width for bar in gaps.bars) == pytest.approx(WIDTH, abs=0.5)


# ---- displays ---------------------------------------------------------------------------------------------------
def test_the_display_reads_like_the_model(exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    for log in (True, False):
        display = PathDisplay.from_estimator(model).plot(log=log)
        assert display.axes_[-1].get_xscale() == ("log" if log else "linear")
        assert [axis.get_ylabel() for axis in display.axes_] == ["weight", "mean squared error", "residual"]
        assert display.ax_.get_xlim()[1] > model.path_.t[-1]
        times = [(a + b) / 2 for a, b in pairwise(model.path_.t)]
        lines = {line.get_label(): line for line in display.ax_.get_lines()}
        for name in (content.pieces[index].name for index in content.chosen.pieces[:6]):
            x, y = (np.asarray(values, dtype=float) for values in (lines[name].get_xdata(), lines[name].get_ydata()))
            column = list(model.feature_names_in_).index(name)
            for t in times:
                expected = model.coefficients(t)[0][column]
                at = int(np.searchsorted(x, t, side="right"))
                if expected:
                    assert y[at - 1] == pytest.approx(expected)
                    assert y[at] == pytest.approx(expected)
        display.figure_.canvas.draw()


def test_the_display_draws_fewer_pieces_and_a_legend(exact: tuple[Any, ReportContent]) -> None:
    model, _ = exact
    full = PathDisplay.from_estimator(model).plot()
    few = PathDisplay.from_estimator(model).plot(max_pieces=2, legend=True)
    named = [text.get_text() for text in few.ax_.get_legend().get_texts()]
    assert named == list(model.selected_[:2])
    assert full.ax_.get_legend() is None
    assert len(few.ax_.get_lines()) == 2 + 2  # and the zero line, and the chosen knot's
    assert len(full.ax_.get_lines()) == len(model.path_.pieces) + 2
    assert not few.ax_.texts
    assert model.path_.plot().ax_ is not None


def test_paths_without_anything_on_them_can_be_drawn(split: Any) -> None:
    empty = InverseScaleRegressor().fit(np.ones((20, 3)), np.arange(20.0))
    one = InverseScaleRegressor().fit(np.arange(20.0)[:, None], np.arange(20.0))
    for model in (empty, one, split):
        PathDisplay.from_estimator(model).plot().figure_.canvas.draw()
    PathDisplay.from_estimator(split).plot(max_pieces=0).figure_.canvas.draw()


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_profiles_are_steps_of_equal_width(values: list[float]) -> None:
    picture = profile_picture(Profile("", "", (("one", tuple(values)),)))
    points = picture.curves[0][1]
    assert points[0][0] == 0
    assert points[-1][0] == WIDTH
    places = (np.arange(len(values)) + 0.5) * WIDTH / len(values)
    heights = read_steps(points, places)
    # The higher the value, the lower the pixel, in proportion.
    low, high = min(values), max(values)
    if high - low > 1e-6:
        top, bottom = heights[int(np.argmax(values))], heights[int(np.argmin(values))]
        assert np.allclose(heights, bottom + (np.array(values) - low) / (high - low) * (top - bottom), atol=0.2)
        assert 0 <= top < bottom <= PROFILE_HEIGHT


def test_numbers_of_a_picture_are_finite(exact: tuple[Any, ReportContent], split: Any) -> None:
    for content in (exact[1], content_of(split), content_of(long_model(300, 500, 100))):
        picture = picture_of(content)
        points = [*(point for line in picture.weights.lines for point in line.points), *(picture.scores.curve if picture.scores else ())]
        assert all(math.isfinite(value) for point in points for value in point)
        assert all(0 <= x <= WIDTH for x, _ in points)


def test_pieces_without_a_path_of_times_are_unchanged() -> None:
    certificate = Certificate("duality gap", 1.0, 0.995, 0.01)
    knots = tuple(Knot(c, ((0,),), ("a",), np.array([[c]]), np.zeros(1), certificate) for c in (0.1, 1.0, 10.0))
    display = PathDisplay.from_path(Path(knots, knob="C"))
    assert not display.content.path.steps
    assert display.content.path.scale == "auto"
    assert Piece("a") in display.content.pieces
