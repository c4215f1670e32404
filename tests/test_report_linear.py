"""Reports and displays of linear paths: what they say is what the model does, steps are steps, residuals are never percentages."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rich.console import Console
from scipy import sparse

import tamis
from helpers_browser import chromium, opened, overflow
from helpers_report_linear import class_models, exact_model, long_model, split_model, table
from tamis import BregmanRegressor, InverseScaleRegressor
from tamis.core.certificate import Certificate, Scope
from tamis.report import build_linear, wording
from tamis.report.axis import WIDTH, knob_axis
from tamis.report.build import content_of
from tamis.report.build_linear import chain
from tamis.report.content import Claim, ReportContent
from tamis.report.page import counts_of, render
from tamis.report.picture import picture_of
from tamis.report.terminal import print_report
from tamis.report.view import short_claim, view_of
from tamis.structures.transform import as_transform

mpl.use("Agg")
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


# ---- what is said -----------------------------------------------------------------------------------------------
def test_coefficients_are_the_models_own_at_every_knot(exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    X, _ = table()
    names = list(X.columns)
    for stop, knot in zip(content.path.stops, model.path_.knots, strict=True):
        dense = np.zeros(len(names))
        for index, (weight,) in zip(stop.pieces, stop.weights, strict=True):
            dense[names.index(content.pieces[index].name)] = weight
        coefficients, level = model.coefficients(knot.t)
        assert np.array_equal(dense, coefficients)
        assert stop.constant == (level,)
    assert content.chosen.t == model.t_
    assert content.claim.sentence == model.certificate_.sentence()
    assert content.claim.residual


def test_words_times_and_order_are_those_of_the_path(exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    assert content.title == "Which columns explain yield?"
    assert content.subtitle == "120 rows, 8 columns; exact inverse scale space path, squared loss."
    assert (content.word, content.words) == ("column", "columns")
    assert (content.columns[0].name, content.columns[0].negative, content.columns[0].positive) == (
        "coefficient",
        "less yield",
        "more yield",
    )
    assert "1/t is what the lasso calls alpha" in content.path.note
    assert "within one standard error of the best" in content.path.note
    first: dict[str, float] = {}
    for t, what, name in model.events_:
        if what == "enters":
            first.setdefault(name, t)
    order = sorted(first.values())
    for piece in content.pieces:
        assert piece.values["enters"] == first[piece.name]
        assert piece.values["order"] == order.index(first[piece.name]) + 1
    assert [(event.t, event.what, event.name) for event in content.events] == list(model.events_)
    figures = {figure.label: figure for figure in content.figures}
    assert figures["columns"].value == str(len(model.selected_))
    assert figures["columns"].note == "of 8"
    assert float(figures["t"].note.removeprefix("alpha = 1/t = ")) == pytest.approx(1 / model.t_, rel=1e-3)
    assert [row.name for row in content.baselines] == ["constant", "this model"]
    assert content.path.score == content.baseline_score == "mean squared error"
    assert dict(content.provenance)["rows"] == "120"


def test_a_first_entry_is_the_lassos(exact: tuple[Any, ReportContent]) -> None:
    # What "1/t is alpha" claims, checked against the data.
    X, y = table()
    scaled = (X - X.mean()) / X.std(ddof=0)
    correlation = (scaled.T @ (y - y.mean()) / len(y)).abs()
    earliest = min(exact[1].pieces, key=lambda piece: piece.values["enters"])
    assert earliest.name == correlation.idxmax()
    assert 1 / earliest.values["enters"] == pytest.approx(correlation.max(), rel=1e-12)


def test_no_residual_is_ever_read_as_a_share(exact: tuple[Any, ReportContent], split: Any, classes: dict[str, Any]) -> None:
    for content in (exact[1], content_of(split), *map(content_of, classes.values())):
        page = render(content)
        body = re.sub(r"<script>.*?</script>", "", page.split("<body>")[1], flags=re.DOTALL)
        body = re.sub(r'style="[^"]*"', "", body)
        assert "%" not in body
        assert "within 0" not in body
        assert "of the best possible model" not in body
        assert "exact to" in body
        assert "Largest violation of its equations" in body
        file = io.StringIO()
        print_report(content, Console(file=file, width=140))
        assert "%" not in file.getvalue()
        assert not re.search(r"\bgap\b", file.getvalue())
        assert "Exact to" in file.getvalue()


def test_small_numbers_in_words() -> None:
    assert wording.residual(1.53e-13) == "1.5e−13"
    assert wording.residual(1e-8) == "1e−8"
    assert wording.residual(0.0) == "0"
    assert wording.distance(0.01, is_residual=False) == "1.0\u00a0%"
    assert short_claim(EXACT) == "exact to 2.4e−15"
    assert short_claim(replace(EXACT, state="fails", gap=1.6e-5)) == "not certified, exact to 1.6e−5"
    assert short_claim(replace(EXACT, state="fails", gap=None)) == "not certified, distance unknown"


def test_a_path_that_does_not_hold_says_so(exact: tuple[Any, ReportContent]) -> None:
    model, _ = exact
    broken = Certificate("inclusion residual", 2e-5, 0.0, 1e-8, Scope("up to here", "t = 1"), reason="Standardise the columns.")
    path = replace(model.path_, knots=tuple(replace(knot, certificate=broken) for knot in model.path_.knots))
    copy = tamis.InverseScaleRegressor()
    copy.__dict__.update(model.__dict__ | {"path_": path, "certificate_": broken})
    content = content_of(copy)
    assert content.claim.state == "fails"
    assert "Not certified to 1e-08" in render(content)
    picture = picture_of(content)
    assert {bar.state for bar in picture.gaps.bars} == {"fails"}
    assert picture.gaps.asked is not None
    assert all(bar.top < picture.gaps.asked for bar in picture.gaps.bars)


def test_classes_are_columns_or_the_two_ends(classes: dict[str, Any]) -> None:
    X, _ = table(200)
    two, three = (content_of(classes[name]) for name in ("two", "three"))
    assert (two.columns[0].negative, two.columns[0].positive) == ("move = down", "move = up")
    assert [column.name for column in three.columns] == ["high", "low", "middle"]
    assert three.title == "Which columns tell the classes of level apart?"
    assert "one column over all classes at a time" in three.subtitle
    assert two.path.score == three.path.score == "log-loss"
    for content, model in ((two, classes["two"]), (three, classes["three"])):
        stop = content.chosen
        scores = np.tile(stop.constant, (len(X), 1))
        for index, weights in zip(stop.pieces, stop.weights, strict=True):
            scores = scores + np.outer(X[content.pieces[index].name], weights)
        assert np.allclose(scores.squeeze(), model.decision_function(X), rtol=1e-10, atol=1e-12)
        assert not content.path.steps


def test_each_coefficient_has_digits_of_its_own(exact: tuple[Any, ReportContent]) -> None:
    # Columns of very different units: a coefficient of 0.01 beside one of 100 must not read 0.
    model, content = exact
    knot = view_of(content).data["knots"][-1]
    for shown, (weight,) in zip(knot["weights"], content.path.stops[-1].weights, strict=True):
        assert shown[0] == pytest.approx(weight, rel=0.06)
    sizes = np.abs(model.path_.knots[-1].coefficients)
    assert sizes.max() / sizes.min() > 1e3


def test_groups_are_named() -> None:
    X, y = table()
    model = BregmanRegressor(penalty="group", groups={name: "pair" if name in ("c1", "c5") else name for name in X}).fit(X, y)
    content = content_of(model)
    assert content.measures[0].key == "group"
    assert all(piece.values["group"] == ("pair" if piece.name in ("c1", "c5") else piece.name) for piece in content.pieces)
    assert {"c1", "c5"} <= {piece.name for piece in content.pieces}
    numbered = content_of(BregmanRegressor(penalty="group", groups=[[0, 2], [1, 5], [3], [4], [6], [7]]).fit(X, y))
    labels = {piece.name: piece.values["group"] for piece in numbered.pieces}
    assert labels["c1"] == labels["c5"] != labels["c6"]
    assert "groups of columns" in content.subtitle


def test_counts_are_judged_by_their_deviance() -> None:
    X, y = table()
    content = content_of(BregmanRegressor(loss="poisson").fit(X, np.random.default_rng(0).poisson(np.exp(0.3 * y.clip(-4, 4)))))
    assert content.path.score == "Poisson deviance"


@pytest.mark.parametrize("choose", ["last", "ebic", "discrepancy", 0.0, 0.3])
def test_every_way_to_choose_has_words(choose: Any) -> None:
    X, y = table(60)
    content = content_of(InverseScaleRegressor(choose=choose).fit(X, y))
    assert "Chosen: " in content.path.note
    render(content)


def test_what_has_no_path_is_still_a_report() -> None:
    content = content_of(InverseScaleRegressor().fit(np.ones((20, 3)), np.arange(20.0)))
    page = render(content)
    assert "every row gets the constant" in page
    assert 'id="knob"' not in page


def test_a_loaded_model_gives_the_same_report(
    exact: tuple[Any, ReportContent], split: Any, classes: dict[str, Any], tmp_path: File
) -> None:
    for model in (exact[0], split, *classes.values()):
        model.save(tmp_path / "m.tamis")
        assert render(content_of(tamis.load(tmp_path / "m.tamis"))) == render(content_of(model))


# ---- split models -----------------------------------------------------------------------------------------------
def test_a_split_model_tells_its_three_outputs(split: Any) -> None:
    content = content_of(split)
    assert (content.word, content.words) == ("difference", "differences")
    assert content.title == "Which differences explain signal?"
    assert "alpha" not in content.path.note
    (said,) = (note for note in content.notes if "three outputs" in note)
    assert "60 coefficients" in said
    assert "59 rows" in said
    assert content.chosen.constant == ()
    gamma = split.gamma_
    rows = split.transformation_.names(list(split.feature_names_in_))
    for index, (weight,) in zip(content.chosen.pieces, content.chosen.weights, strict=True):
        assert weight == gamma[rows.index(content.pieces[index].name)]
    assert content.profile is not None
    (_, beta), (_, projected) = content.profile.curves
    assert np.array_equal(beta, split.coef_)
    assert np.array_equal(projected, split.projected_coef_)
    assert (content.profile.first, content.profile.last) == ("p0", "p59")
    assert np.count_nonzero(np.diff(projected).round(9)) == len(split.selected_)
    page = render(content)
    assert "Coefficients along the columns" in page
    assert "no difference has entered yet" in page


@pytest.mark.parametrize(
    ("what", "columns", "line"),
    [("fused", 5, True), ("fused+identity", 5, True), ("identity", 5, False), ("grid:2x3", 6, False), ("grid:6", 6, True)],
)
def test_a_line_of_columns_is_recognised(what: str, columns: int, line: bool) -> None:
    assert chain(as_transform(what, columns)) is line


def test_other_matrices_have_no_profile() -> None:
    assert chain(as_transform(sparse.csr_array(np.diff(np.eye(6), axis=0)), 6))
    assert not chain(as_transform(np.abs(np.diff(np.eye(6), axis=0)), 6))
    assert not chain(as_transform(np.diff(np.eye(6), axis=0)[:-1], 6))


# ---- long paths -------------------------------------------------------------------------------------------------
def test_a_long_path_stays_small_and_says_what_it_leaves_out() -> None:
    model = long_model()
    content = content_of(model)
    page = render(content)
    assert len(page.encode()) < 2_000_000
    assert len(content.path.stops) <= build_linear.MOST_STOPS + 1
    assert content.chosen.t == model.t_
    assert (content.path.stops[0].t, content.path.stops[-1].t) == (0.0, model.path_.t[-1])
    assert "Of its 1\u202f500 knots" in content.path.note
    more = int(re.sub(r"\D", "", content.events_note.split(" more")[0]))
    assert len(content.events) + more == len(model.events_)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert [knot["count"] for knot in data["knots"]] == [len(stop.pieces) for stop in content.path.stops]
    counts = counts_of(view_of(content, 5))
    assert all(after[0] - before[0] >= 3 for before, after in pairwise(counts))


# ---- in a browser -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(
    exact: tuple[Any, ReportContent], split: Any, classes: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, File]:
    folder, files = tmp_path_factory.mktemp("linear"), {}
    for name, model in {"exact": exact[0], "split": split, **classes, "long": long_model(600, 1000, 200)}.items():
        files[name] = folder / f"{name}.html"
        model.report(files[name])
    return files


@pytest.mark.parametrize("name", ["exact", "split", "two", "three", "long"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_in_silence_and_fits_the_window(browser: Any, pages: dict[str, File], name: str, scheme: str) -> None:
    with opened(browser, pages[name], scheme=scheme, width=1200) as (page, record):
        page.focus("#knob")
        for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
            page.keyboard.press(key)
        for width in (1200, 981, 980, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert overflow(page) <= 0, width
    assert not [url for url in record.requests if not url.startswith("data:")]
    assert not record.complaints


def test_the_slider_walks_the_steps(browser: Any, pages: dict[str, File], exact: tuple[Any, ReportContent]) -> None:
    model, content = exact
    with opened(browser, pages["exact"], width=1200, height=1800) as (page, _):
        page.focus("#knob")
        page.keyboard.press("Home")
        assert "every row gets the constant" in page.inner_text("#rows")
        for place, knot in enumerate(model.path_.knots[1:4], start=1):
            page.keyboard.press("ArrowRight")
            assert page.inner_text("#sentence") == knot.certificate.sentence()
            assert page.locator("#rows tr").count() == len(knot.atoms)
            assert [cell.split("\n")[0] for cell in page.locator("#rows th").all_inner_texts()] == list(knot.names)
            assert page.input_value("#knob") == str(place)
        # Anywhere in a step the model is the one the step began with.
        x, _, _ = knob_axis(content.path)
        page.locator(".tall .walk").scroll_into_view_if_needed()
        box = page.locator(".tall .walk").bounding_box()
        ends = [*x[1:], WIDTH]
        for place, (left, right) in enumerate(zip(x, ends, strict=True)):
            if right - left > 10:
                box = page.locator(".tall .walk").bounding_box()
                page.mouse.click(box["x"] + (left + 0.85 * (right - left)) / WIDTH * box["width"], box["y"] + 130)
                assert page.input_value("#knob") == str(place)


@pytest.mark.parametrize("name", ["exact", "split", "three"])
def test_the_script_writes_the_table_the_page_was_written_with(browser: Any, pages: dict[str, File], name: str) -> None:
    with opened(browser, pages[name], script=False) as (page, _):
        written = page.locator("#rows").inner_text()
    with opened(browser, pages[name]) as (page, _):
        if page.locator("#more").is_visible():
            page.click("#more")
        page.focus("#knob")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        assert page.locator("#rows").inner_text() == written


def test_hostile_names_stay_text(browser: Any, tmp_path: File) -> None:
    attack = '</script><img src=x onerror="window.stolen=1">'
    X, y = table(40, 8)
    frame = pa.table({f"{attack} {j}": X.iloc[:, j] for j in range(8)})
    model = InverseScaleRegressor(transformation="fused").fit(frame, pd.Series(y, name=attack))
    model.report(tmp_path / "hostile.html")
    with opened(browser, tmp_path / "hostile.html") as (page, record):
        assert page.evaluate("window.stolen") is None
        assert attack in page.inner_text("h1")
        assert page.locator("img").count() == 0
    assert not record.complaints
