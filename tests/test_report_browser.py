"""The report in a real browser: silent, inert, walkable with the keyboard, readable on a phone and in the dark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers_report
from helpers_browser import Record, chromium, opened, overflow
from tamis.report.content import ReportContent
from tamis.report.page import render

CONTENTS = {
    "churn": helpers_report.churn,
    "three classes": helpers_report.flowers,
    "nine classes": lambda: helpers_report.flowers(classes=9),
    "hostile": helpers_report.hostile,
    "heavy": helpers_report.heavy,
    "one knot": lambda: helpers_report.churn(knots=1),
    "no rule": lambda: helpers_report.churn(rules=0),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, files = tmp_path_factory.mktemp("reports"), {}
    for name, content in CONTENTS.items():
        files[name] = folder / f"{name.replace(' ', '-')}.html"
        files[name].write_text(render(content()), encoding="utf-8")
    return files


def silent(record: Record) -> bool:
    """No network request (an icon inside the page is none) and not a word on the console."""
    return not [url for url in record.requests if not url.startswith("data:")] and not record.complaints


def table_of(page: Any) -> list[list[str]]:
    """Texts of the table of pieces, row by row."""
    return page.eval_on_selector_all("#rows tr", "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))")


def taken_apart(markup: str) -> tuple[str, list[float]]:
    """Markup without spaces and widths, and the widths: the browser and Python round a half differently."""
    width = re.compile(r'style="width:([\d.]+)%;?"')
    squeezed = "".join(markup.split())
    return width.sub("", squeezed), [float(found) for found in width.findall(squeezed)]


def data_of(content: ReportContent) -> dict[str, Any]:
    """The data inside a rendered page."""
    page = render(content)
    start = page.index('id="data">') + len('id="data">')
    return json.loads(page[start : page.index("</script>", start)])


def test_the_record_sees_requests_and_errors(browser: Any, tmp_path: Path) -> None:
    # What the other tests rely on: a page that asks for something, or fails, is caught.
    file = tmp_path / "loud.html"
    file.write_text("<script>fetch('http://127.0.0.1:9/x').catch(() => {}); console.log('word'); undefinedName</script>")
    with opened(browser, file) as (page, record):
        page.wait_for_timeout(200)
    assert "http://127.0.0.1:9/x" in record.requests
    assert any("undefinedName" in complaint for complaint in record.complaints)
    assert any("word" in complaint for complaint in record.complaints)


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_from_disk_in_silence(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    with opened(browser, pages[name], scheme=scheme) as (page, record):
        for selector in ("#more", ".sort >> nth=1", "#theme", "#home"):
            if page.locator(selector).count() and page.locator(selector).is_visible():
                page.click(selector)
        page.wait_for_timeout(50)
        assert page.locator("h1").inner_text()
    assert silent(record), record


def test_slider_moves_table_sentence_and_marker_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    content = helpers_report.churn()
    stops, chosen = content.path.stops, content.path.chosen
    with opened(browser, pages["churn"]) as (page, record):
        start = page.get_attribute(".marker >> nth=0", "d")
        page.focus("#knob")
        for knot in (chosen + 1, chosen + 2):
            page.keyboard.press("ArrowRight")
            shown = len(stops[knot].pieces)
            assert page.inner_text("#sentence") == stops[knot].claim.sentence
            assert page.inner_text("#counted") == page.inner_text("#lead-count") == f"{shown} rules"
            assert page.inner_text("#t") in page.get_attribute("#knob", "aria-valuetext")
            assert float(page.inner_text("#t")) == pytest.approx(stops[knot].t, rel=5e-3)
            names = [content.pieces[index].name for index in stops[knot].pieces]
            assert [row[0].removeprefix("IF ").rsplit(" THEN", 1)[0] for row in table_of(page)] == names[:15]
        assert page.get_attribute(".marker >> nth=0", "d") != start
        page.keyboard.press("End")
        assert not stops[-1].claim.holds
        assert page.get_attribute("#claim", "class") == "claim fails"
        assert page.inner_text("#claim .badge-text") == "Not certified"
        page.keyboard.press("Home")
        assert page.inner_text("#counted") == "0 rules"
        assert "every row gets the constant" in page.inner_text("#rows")
        page.click("#home")
        assert page.input_value("#knob") == str(chosen)
        assert page.get_attribute(".marker >> nth=0", "d") == start
    assert silent(record), record


@pytest.mark.parametrize("name", ["churn", "three classes", "nine classes", "hostile", "no rule"])
def test_script_writes_the_table_the_page_was_written_with(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], script=False) as (page, _):
        written = page.inner_html("#rows")
        assert page.locator("#rows tr").count() >= 1
        assert page.locator("noscript").count() == 1
        assert page.locator("#knob").is_hidden()
        assert page.locator("#more").is_hidden()
    with opened(browser, pages[name]) as (page, _):
        if page.locator("#more").is_visible():
            page.click("#more")
        page.focus("#knob")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        drawn = page.inner_html("#rows")
    (text, widths), (expected, bars) = taken_apart(drawn), taken_apart(written)
    assert text == expected
    assert widths == pytest.approx(bars, abs=0.11)


def test_headings_sort_by_keyboard_and_say_so(browser: Any, pages: dict[str, Path]) -> None:
    content = helpers_report.churn()
    coverage = {piece.name: piece.values["coverage"] for piece in content.pieces}
    with opened(browser, pages["churn"]) as (page, _):
        page.click("#more")
        first = table_of(page)
        page.focus(".sort >> nth=2")
        page.keyboard.press("Enter")
        assert page.get_attribute("thead th >> nth=2", "aria-sort") == "descending"
        names = [row[0].removeprefix("IF ").rsplit(" THEN", 1)[0] for row in table_of(page)]
        assert names == sorted(names, key=lambda name: -coverage[name])
        page.keyboard.press("Enter")
        assert page.get_attribute("thead th >> nth=2", "aria-sort") == "ascending"
        assert [row[0] for row in table_of(page)] == [row[0] for row in sorted(table_of(page), key=lambda row: float(row[2].rstrip(" %")))]
        page.keyboard.press("Enter")
        assert page.get_attribute("thead th >> nth=2", "aria-sort") == "none"
        assert table_of(page) == first
        page.click(".sort >> nth=1")
        weights = [float(row[1].replace("−", "-")) for row in table_of(page)]
        assert weights == sorted(weights, reverse=True)


def test_filter_and_show_all(browser: Any, pages: dict[str, Path]) -> None:
    content = helpers_report.churn()
    names = [content.pieces[index].name for index in content.chosen.pieces]
    with opened(browser, pages["churn"]) as (page, _):
        assert len(table_of(page)) == 15
        page.click("#more")
        assert len(table_of(page)) == len(names)
        page.fill("#filter", "SENIOR")
        assert len(table_of(page)) == sum("senior" in name for name in names) > 0
        page.fill("#filter", "no such rule")
        assert page.inner_text("#rows").strip() == "No rule matches the filter."


@pytest.mark.parametrize("name", CONTENTS)
def test_nothing_is_wider_than_the_window(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], width=375, height=740) as (page, _):
        for width in (375, 320, 768, 980, 981, 1100):
            page.set_viewport_size({"width": width, "height": 740})
            assert overflow(page) <= 0, width
            if page.locator("#knob").count():
                page.focus("#knob")
                page.keyboard.press("End")
                assert overflow(page) <= 0, f"{width}, at the last knot"


def test_phone_has_letters_and_buttons_large_enough(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["churn"], width=375, height=740) as (page, _):
        script = """() => [...document.querySelectorAll('body *')].filter(e => e.offsetParent && [...e.childNodes].some(
            n => n.nodeType === 3 && n.textContent.trim())).map(e => [parseFloat(getComputedStyle(e).fontSize), e.className])"""
        # 11 px is only for the small capitals of IF, AND, THEN.
        assert min(size for size, _ in page.evaluate(script)) >= 11
        assert page.locator("#knob").bounding_box()["height"] >= 30


def test_hostile_names_stay_text(browser: Any, pages: dict[str, Path]) -> None:
    attack = helpers_report.HOSTILE[0]
    with opened(browser, pages["hostile"]) as (page, record):
        page.focus("#knob")
        for key in ("Home", "ArrowRight", "ArrowRight", "End"):
            page.keyboard.press(key)
        for button in range(page.locator(".sort").count()):
            page.click(f".sort >> nth={button}")
        assert page.evaluate("window.stolen") is None
        assert page.locator("img, iframe, object, embed, a[href^=javascript]").count() == 0
        assert page.locator("script").count() == 2
        assert page.title() == f"{attack} · tamis report"
        assert page.inner_text("h1") == attack
        assert attack in page.inner_text("#rows")
    assert silent(record), record


def test_policy_stops_what_escaping_would_miss(browser: Any, pages: dict[str, Path]) -> None:
    # Markup put into the open page by force: neither its handler nor its request may come through.
    with opened(browser, pages["churn"]) as (page, record):
        page.evaluate(
            "document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/a onerror=window.stolen=1>')"
        )
        page.evaluate(
            "document.querySelector('main').append(Object.assign(document.createElement('script'), {textContent: 'window.stolen = 2'}))"
        )
        page.evaluate("fetch('http://127.0.0.1:9/b').catch(() => 0)")
        page.wait_for_timeout(200)
        assert page.evaluate("window.stolen") is None
    assert sum("Content Security Policy" in complaint for complaint in record.complaints) >= 3


def contrast(page: Any, selector: str) -> float:
    """WCAG contrast of an element's letters against the nearest opaque background."""
    colours = page.eval_on_selector(
        selector,
        """element => {
            const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d');
            const bytes = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                                      return [...canvas.getImageData(0, 0, 1, 1).data]; };
            let behind = element;
            while (bytes(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
            return [bytes(getComputedStyle(element).color), bytes(getComputedStyle(behind).backgroundColor)];
        }""",
    )

    def luminance(colour: list[int]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted(map(luminance, colours), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    texts = [
        "h1",
        ".subtitle",
        ".sentence",
        ".where",
        ".badge",
        ".figures>div>dt",
        ".short",
        ".lead",
        ".lead>.pos",
        ".lead>.neg",
        "thead>tr>th",
        ".name>b",
        "td.measure",
        ".value",
        ".gutter",
        ".notes",
        "footer",
        "#theme",
    ]
    with opened(browser, pages["churn"], scheme=scheme) as (page, _):
        for place in ("here", "End"):
            low = {text: round(contrast(page, text), 2) for text in texts if contrast(page, text) < 4.5}
            assert not low, f"{place}: {low}"
            page.focus("#knob")
            page.keyboard.press("End")


def test_dark_follows_the_system_and_the_button(browser: Any, pages: dict[str, Path]) -> None:
    def paper(page: Any) -> int:
        return sum(map(int, page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")))

    for scheme, dark in (("light", False), ("dark", True)):
        with opened(browser, pages["churn"], scheme=scheme) as (page, _):
            assert (paper(page) < 150) is dark
            page.click("#theme")
            assert (paper(page) < 150) is not dark
            page.click("#theme")
            assert (paper(page) < 150) is dark


def test_picture_is_dragged_to_the_nearest_knot(browser: Any, pages: dict[str, Path]) -> None:
    x = data_of(helpers_report.churn())["x"]
    with opened(browser, pages["churn"], height=1800) as (page, _):
        page.locator(".tall .walk").scroll_into_view_if_needed()
        box = page.locator(".tall .walk").bounding_box()
        for share in (0.0, 0.333, 1.0):
            page.mouse.click(box["x"] + share * (box["width"] - 1), box["y"] + 40)
            nearest = min(range(len(x)), key=lambda knot: abs(x[knot] - 100 * share))
            assert page.input_value("#knob") == str(nearest)


def test_keyboard_reaches_everything_and_assistants_can_read_it(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["churn"]) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["y"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "pieces"
        seen = set()
        while page.keyboard.press("Tab") or page.evaluate("document.activeElement !== document.body"):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 80)")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.sort"))
        assert {"filter", "name", "weight", "0", "more"} <= seen
        tree = page.locator("body").aria_snapshot()
    for part in (
        'slider "C"',
        'table "The rules"',
        'columnheader "covers"',
        'rowheader "IF senior citizen AND',
        'button "Dark"',
        "contentinfo",
    ):
        assert part in tree, f"{part} is missing in {tree[:3000]}"


def test_print_shows_every_rule_and_no_controls(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["churn"], width=760, scheme="dark") as (page, _):
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert len(table_of(page)) == len(helpers_report.churn().chosen.pieces)
        for control in ("#knob", "#theme", "#filter", "#more"):
            assert page.locator(control).is_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") in ("rgb(250, 249, 246)", "rgb(255, 255, 255)")
        assert overflow(page) <= 0
