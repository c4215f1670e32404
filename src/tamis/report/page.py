"""One report as one HTML file: no network, nothing to install, opens from disk, readable anywhere.

All user text passes through Jinja's escaping or JSON with every angle bracket escaped; besides, the page's
own policy lets only this one script run (by its hash), so that text which slipped through could not act.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from tamis.report.content import ReportContent
from tamis.report.profile import profile_picture
from tamis.report.view import BADGES, View, picture_for, strongest, view_of
from tamis.report.wording import NOTHING, knob_text, signed, visible

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 1_900_000
"""Bytes a page may take; beyond it the least important pieces of large knots are left to `to_frame()`."""

COUNT_WIDTH = 3.2
"""Percent of the axis that the number of pieces at a knot takes."""

LEAST = 8
"""Bytes that one weight takes at least, so that hopeless limits are not tried."""
LIMITS = (None, 1000, 500, 300, 200, 100, 50, 20, 5)


def render(content: ReportContent) -> str:
    """Write a report as one self-contained HTML page.

    Parameters
    ----------
    content : ReportContent

    Returns
    -------
    str
        The page; always below two megabytes.

    Examples
    --------
    >>> from tamis.report.content import Claim, PathPicture, Piece, ReportContent, Stop
    >>> from tamis.report.page import render
    >>> stop = Stop(1.0, Claim("Within 0.8 % of the best."), pieces=(0,), weights=((1.32,),))
    >>> page = render(ReportContent("churn", PathPicture("C", (stop,)), (Piece("a <script>"),)))
    >>> "a &lt;script&gt;" in page
    True
    """
    page, picture = "", picture_for(content)
    for most in LIMITS:
        listed = sum(len(stop.pieces[:most]) for stop in content.path.stops)
        if listed * len(content.columns) * LEAST > LARGEST and most != LIMITS[-1]:
            continue
        page = _page(view_of(content, most, picture))
        if len(page.encode()) <= LARGEST:
            break
    return page


def write_report(content: ReportContent, file: str | os.PathLike[str]) -> None:
    """Write a report to a file, whole or not at all.

    Parameters
    ----------
    content : ReportContent
    file : path

    Examples
    --------
    >>> import os, tempfile
    >>> from tamis.report.content import Claim, PathPicture, ReportContent, Stop
    >>> from tamis.report.page import write_report
    >>> content = ReportContent("empty", PathPicture("C", (Stop(1.0, Claim("No certificate: nothing was fitted.")),)), ())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(content, os.path.join(folder, "report.html"))
    ...     os.listdir(folder)
    ['report.html']
    """
    from tamis.store.atomic import write_text

    write_text(file, render(content))


def _page(view: View) -> str:
    """Fill the template."""
    from markupsafe import Markup

    script, style = _asset("page.js"), _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html")
        .render(
            view=view,
            content=view.content,
            data=view.data,
            knot=view.data["knots"][view.data["chosen"]],
            picture=view.picture,
            profile=None if view.content.profile is None else profile_picture(view.content.profile),
            compared=any(row["gap"] != NOTHING for row in view.baselines),
            badges=BADGES,
            signed=signed,
            strongest=lambda weights: strongest(weights, view.data["shown"]),
            counts=counts_of(view),
            json=Markup(safe_json(view.data)),
            script=Markup(script),
            style=Markup(style),
            script_hash=f"'sha256-{digest}'",
        )
    )


def counts_of(view: View) -> list[tuple[float, int]]:
    """Where to write how many pieces a knot has: at as many knots as there is room for."""
    shown: list[tuple[float, int]] = []
    for place, knot in zip(view.data["x"], view.data["knots"], strict=True):
        if not shown or place - shown[-1][0] >= COUNT_WIDTH:
            shown.append((place, knot["count"]))
    return shown


def safe_json(data: Any) -> str:
    """JSON that may stand inside a script element: no `<`, `>` or `&`, ASCII only, never NaN."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def points_text(points: Any) -> str:
    """Points as the attribute of an SVG polyline."""
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def staircase_text(points: Any) -> str:
    """Points as the attribute of an SVG path that goes level to each place, then up or down to its height."""
    first, *rest = points
    return f"M{first[0]:g} {first[1]:g}" + "".join(f"H{x:g}V{y:g}" for x, y in rest)


@cache
def _asset(name: str) -> str:
    """A file of the template folder."""
    return resources.files("tamis.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    """The one Jinja environment: escaping on, a missing name is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.filters["points"] = points_text
    environment.filters["staircase"] = staircase_text
    environment.filters["knob"] = knob_text
    return environment
