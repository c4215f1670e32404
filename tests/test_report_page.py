"""The report as a file: complete, escaped, small, the same bytes every time, written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers_report
from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError, TamisFileError
from tamis.report import wording
from tamis.report.content import Claim, Measure, PathPicture, Piece, ReportContent, Stop
from tamis.report.page import LARGEST, render, safe_json, write_report
from tamis.report.view import view_of

TWO_MEGABYTES = 2_000_000
# What the tree builder of a browser must find in a report, and nothing else.
TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "a", "header", "span", "svg", "circle", "path", "button", "main",
    "section", "h1", "h2", "h3", "p", "div", "dl", "dt", "dd", "label", "output", "input", "noscript", "table", "thead", "tbody",
    "tfoot", "tr", "th", "td", "i", "b", "bdi", "figure", "polyline", "polygon", "ul", "li", "figcaption", "small", "br",
    "script", "footer",
}  # fmt: skip


class Reader(HTMLParser):
    """Tags, attributes and texts of a page, by an independent parser."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._inside == "script" else self.texts).append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def tiny(**changes: Any) -> ReportContent:
    """The smallest report, with some fields changed."""
    stop = Stop(1.0, Claim("Within 0.8 % of the best.", "holds", 0.008, 0.01), (0,), ((1.32,),), (-0.4,))
    return ReportContent(**{"title": "tiny", "path": PathPicture("C", (stop,)), "pieces": (Piece("a <= 3"),)} | changes)


@pytest.mark.parametrize("content", [helpers_report.churn(), helpers_report.flowers(), helpers_report.hostile(), tiny()])
def test_nothing_comes_from_elsewhere(content: ReportContent) -> None:
    reader = read(render(content))
    assert {tag for tag, _ in reader.tags} <= TAGS
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} carries {name}"
            if name in ("src", "href", "action", "data", "srcset", "poster"):
                assert value is not None
                assert value.startswith(("#", "data:image/svg+xml,")), f"{tag} {name}={value}"
    style = render(content).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_policy_allows_this_script_and_no_other() -> None:
    page = render(helpers_report.hostile())
    reader = read(page)
    policy = next(a["content"] for tag, a in reader.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    # The policy must stand before anything it is to govern.
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_every_name_number_and_sentence_is_on_the_page() -> None:
    content = helpers_report.churn()
    reader = read(render(content))
    text = " ".join(" ".join(reader.texts).split())
    for index, weights in zip(content.chosen.pieces, content.chosen.weights, strict=True):
        for condition in content.pieces[index].conditions:
            assert condition in text
        assert f"{'+' if weights[0] >= 0.005 else '−' if weights[0] <= -0.005 else ''}{abs(weights[0]):.2f}" in text
    for part in (content.title, content.subtitle, content.claim.sentence, *content.notes, *(b.sentence for b in content.baselines)):
        assert part in text
    for label, value in content.provenance:
        assert label in text
        assert value in text


def test_hostile_names_are_text_and_data_reads_back() -> None:
    content = helpers_report.hostile()
    reader = read(render(content))
    assert [tag for tag, _ in reader.tags if tag in ("img", "script")] == ["script", "script"]
    data = json.loads(reader.scripts[0])
    shown = [wording.visible(name) for name in helpers_report.HOSTILE]
    assert {piece["name"] for piece in data["pieces"]} <= set(shown)
    assert wording.visible(helpers_report.HOSTILE[0]) in " ".join(reader.texts)
    assert "\ud800" not in json.dumps(data, ensure_ascii=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_in_a_script_reads_back_and_cannot_leave_it(data: Any) -> None:
    text = safe_json(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()


def test_no_number_that_json_does_not_know() -> None:
    odd = tiny(
        measures=(Measure("coverage", "covers", "share", bar=True), Measure("lift", "lift", "times")),
        pieces=(Piece("a <= 3", values={"coverage": math.nan, "lift": math.inf}),),
        path=PathPicture("C", (Stop(1.0, Claim("No.", "fails", math.inf, 0.01), (0,), ((math.nan,),), (math.inf,), math.nan, math.nan),)),
    )
    page = render(odd)
    assert json.loads(read(page).scripts[0])["pieces"][0]["values"] == [["–", None], ["–", None]]
    for word in ("NaN", "Infinity", ">nan", ">inf", ":nan", ":inf"):
        assert word not in page.split("<script>")[0], word


@pytest.mark.parametrize(("knots", "rules"), [(20, 500), (20, 3000)])
def test_stays_below_two_megabytes(knots: int, rules: int) -> None:
    content = helpers_report.heavy(knots, rules)
    page = render(content)
    assert len(page.encode()) <= LARGEST < TWO_MEGABYTES
    data = json.loads(read(page).scripts[0])
    assert all(knot["count"] == rules for knot in data["knots"])
    if rules == 500:
        assert len(data["knots"][0]["pieces"]) == rules
    else:
        assert "most important of 3000 are listed" in page


def test_long_names_do_not_break_the_promise_either() -> None:
    listed = tuple(Piece(f"{index} {'<&> long name ' * 4000}") for index in range(400))
    stops = tuple(Stop(float(t), Claim("Held.", "holds", 0.001, 0.01), tuple(range(400)), ((1.0,),) * 400) for t in range(1, 21))
    assert len(render(tiny(path=PathPicture("C", stops), pieces=listed)).encode()) <= TWO_MEGABYTES


def test_same_content_same_bytes_and_a_date_only_when_asked() -> None:
    content = helpers_report.churn()
    assert render(content) == render(helpers_report.churn())
    assert "2031-05-01" in render(content.dated("2031-05-01"))


def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_report(tiny(), target)
    assert target.read_text(encoding="utf-8") == render(tiny())
    with pytest.raises(TamisFileError):
        write_report(tiny(), tmp_path / "missing" / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_certificate_is_read_honestly() -> None:
    held = Claim.of(Certificate("duality gap", 1.0, 0.995, 0.01))
    failed = Claim.of(Certificate("duality gap", 1.0, 0.9, 0.01))
    none = Claim.of(Certificate("none", 0.0, 0.0, 0.01, reason="the problem is not convex"))
    broken = Claim.of(Certificate("duality gap", 1.0, math.nan, 0.01))
    assert [claim.state for claim in (held, failed, none, broken)] == ["holds", "fails", "none", "fails"]
    assert held.holds
    assert not failed.holds
    assert broken.gap is None
    assert none.sentence == "No certificate: the problem is not convex"
    for claim, badge in ((failed, "Not certified"), (none, "No certificate")):
        page = render(tiny(path=PathPicture("C", (Stop(1.0, claim, (0,), ((1.0,),)),))))
        assert f'<span class="badge-text">{badge}</span>' in page
        assert ">Certified<" not in page.split("<script")[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: PathPicture("C", ()), "no knot"),
        (lambda: PathPicture("C", helpers_report.churn().path.stops, 99), "chosen knot is 99"),
        (lambda: PathPicture("C", helpers_report.churn().path.stops, scale="cubic"), "'cubic'"),
        (lambda: Claim("x", "perhaps"), "'perhaps'"),
        (lambda: Measure("a", "a", "colour"), "'colour'"),
        (lambda: tiny(pieces=()), "not listed"),
        (lambda: tiny(path=PathPicture("C", (Stop(1.0, Claim("x"), (0,), ((1.0, 2.0),)),))), "weights"),
        (lambda: tiny(path=PathPicture("C", (Stop(1.0, Claim("x"), (0,), ()),))), "weights"),
    ],
)
def test_content_that_cannot_be_shown_is_refused_in_one_sentence(change: Any, said: str) -> None:
    with pytest.raises(TamisError, match=said) as caught:
        change()
    assert "\n" not in str(caught.value)


def test_stories_name_who_enters_and_leaves() -> None:
    claim = Claim("Held.", "holds", 0.001, 0.01)
    stops = [
        Stop(1.0, claim, (0,), ((1.0,),)),
        Stop(2.0, claim, (0, 1), ((1.0,), (2.0,))),
        Stop(3.0, claim, (1,), ((1.0,),)),
        Stop(4.0, claim, (1,), ((9.0,),)),
    ]
    view = view_of(tiny(path=PathPicture("C", tuple(stops)), pieces=(Piece("one"), Piece("two")), words="rules", word="rule"))
    assert [knot["story"] for knot in view.data["knots"]] == [
        "The path starts here, with 1 rule.",
        "Enters: two.",
        "Leaves: one.",
        "The same rules as at the knot before, with other weights.",
    ]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_read_back(value: float) -> None:
    back = float(wording.number(value).replace("−", "-"))
    assert back == pytest.approx(value, rel=6e-3, abs=1e-300)
    assert len(wording.number(value)) <= 10


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_weights_keep_three_digits_and_line_up(weights: list[float]) -> None:
    decimals = wording.decimals_for(weights)
    texts = [wording.signed(weight, decimals) for weight in weights]
    assert len({text.rpartition(".")[2] if "." in text and decimals == 0 else len(text.partition(".")[2]) for text in texts}) == 1
    largest = max(weights, key=abs)
    if abs(largest) > 1e-6:
        assert float(wording.signed(largest, decimals).replace("−", "-")) == pytest.approx(largest, rel=6e-3)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.18, "share", "18\u00a0%"),
        (0.0231, "share", "2.3\u00a0%"),
        (0.00412, "share", "0.41\u00a0%"),
        (0.0, "share", "0\u00a0%"),
        (0.7049, "fraction", "0.70"),
        (7043, "count", "7\u202f043"),
        (12.5, "count", "12.5"),
        (2.72, "times", "2.7×"),
        (12.3, "times", "12×"),
        (-0.41234, "number", "−0.4123"),
        (None, "share", "–"),
        (math.nan, "fraction", "–"),
        ("a\nb", "text", "a↵b"),
    ],
)
def test_numbers_read_as_people_write_them(value: Any, form: str, text: str) -> None:
    assert wording.in_form(value, form) == text


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [(0.41512, 0.0083, "0.415 ± 0.008"), (0.41512, 0.0123, "0.415 ± 0.012"), (12.0, 3.1, "12 ± 3"), (0.5, 0.0, "0.5"), (None, 0.1, "–")],
)
def test_an_error_decides_the_digits(mean: float | None, error: float, text: str) -> None:
    assert wording.with_error(mean, error) == text


@given(st.text(max_size=60))
def test_visible_text_hides_nothing(text: str) -> None:
    shown = wording.visible(text)
    shown.encode()
    assert not set(shown) & set("\x00\n\t\x1b\u202e\u2028\u2066\ufeff")
    if text.isprintable():
        assert shown == text
