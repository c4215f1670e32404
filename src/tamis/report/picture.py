"""Geometry of the path picture: where every knot, line, band and tick lies, in plain numbers.

The page stretches each panel to the width it has, so x runs from 0 to WIDTH whatever the screen and y is in
pixels of a fixed height. Lettering is not part of the drawing: ticks and labels are placed as text, and stay
readable on a phone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tamis.report.axis import WIDTH, Point, Tick, between, knob_axis, nice_marks
from tamis.report.content import Claim, PathPicture, ReportContent, Stop
from tamis.report.wording import decimals_for, distance, finite, number, signed

WEIGHT_HEIGHT, SCORE_HEIGHT, GAP_HEIGHT = 260.0, 130.0, 56.0
COLOURS = 6
MOST_GREY = 60
MOST_CURVE = 400
NEAR = 0.5  # steps nearer to each other than this, on an axis of WIDTH, are drawn as one
SMALLEST = -17.0  # the logarithm of a residual at which its bar is empty
LABEL_HEIGHT = 21.0


@dataclass(frozen=True, slots=True)
class Line:
    """One piece's weight along the path; colour 0 is grey."""

    piece: int
    points: tuple[Point, ...]
    colour: int = 0
    label_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Weights:
    """The panel of weights."""

    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    zero: float
    left_out: int = 0
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Scores:
    """The panel of the validation score: the curve, its knots, the band of one standard error, and where the best lies."""

    curve: tuple[Point, ...]
    dots: tuple[Point, ...]
    band: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    best: int
    limit: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A knot's distance to the best possible, as a bar."""

    left: float
    width: float
    top: float
    state: str


@dataclass(frozen=True, slots=True)
class Gaps:
    """The panel of certificates: one bar per knot and the line of what was asked."""

    bars: tuple[Bar, ...]
    asked: float | None
    asked_text: str = ""
    residual: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All panels over one axis of the knob."""

    x: tuple[float, ...]
    ticks: tuple[Tick, ...]
    weights: Weights
    scores: Scores | None
    gaps: Gaps
    scale: str


def picture_of(content: ReportContent) -> Picture:
    """Lay out the whole picture of a report's path."""
    x, ticks, scale = knob_axis(content.path)
    return Picture(x, ticks, _weights(content, x), _scores(content.path, x), _gaps(content.path, x), scale)


def piece_weight(row: Sequence[float]) -> float:
    """One number per piece to draw: its weight, or the norm over several columns."""
    return float(row[0]) if len(row) == 1 else math.hypot(*row)


def top_pieces(content: ReportContent) -> tuple[int, ...]:
    """The pieces drawn in colour: the first of the chosen knot, then those that come later on the path."""
    order = dict.fromkeys(content.chosen.pieces)
    for stop in reversed(content.path.stops):
        order.update(dict.fromkeys(stop.pieces))
        if len(order) >= COLOURS:
            break
    return tuple(order)[:COLOURS]


def _weights(content: ReportContent, x: Sequence[float]) -> Weights:
    """Lines of all coloured pieces and the strongest others, grey ones first so that they lie below."""
    dense: dict[int, list[float]] = {}
    for place, stop in enumerate(content.path.stops):
        for piece, row in zip(stop.pieces, stop.weights, strict=True):
            dense.setdefault(piece, [0.0] * len(x))[place] = finite(piece_weight(row)) or 0.0
    top = {piece: colour for colour, piece in enumerate(top_pieces(content), start=1)}
    others = sorted((piece for piece in dense if piece not in top), key=lambda piece: -max(map(abs, dense[piece])))
    drawn = [*reversed(others[:MOST_GREY]), *reversed(top)]
    values = [value for piece in drawn for value in dense[piece]] or [0.0]
    low, high = min(0.0, *values), max(0.0, *values)
    low, high = (low, high) if high > low else (0.0, 1.0)
    pad = 0.06 * (high - low)
    low, high = low - (pad if low < 0 else 0.0), high + pad

    def height(value: float) -> float:
        return WEIGHT_HEIGHT * (high - value) / (high - low)

    marks = nice_marks(low, high)
    decimals = min(decimals_for([marks[-1] - marks[0]] if len(marks) > 1 else marks), max((_decimals(mark) for mark in marks), default=0))
    steps = content.path.steps
    trace = _staircase if steps else _trimmed
    lines = [Line(piece, trace(dense[piece], x, height), top.get(piece, 0), height(dense[piece][-1])) for piece in drawn]
    ticks = tuple(Tick(height(mark), signed(mark, decimals)) for mark in marks)
    return Weights(tuple(_spread(lines)), ticks, height(0.0), max(0, len(others) - MOST_GREY), steps)


def _decimals(value: float) -> int:
    """Decimals a round number needs."""
    text = f"{value:.8f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _trimmed(values: Sequence[float], x: Sequence[float], height: Callable[[float], float]) -> tuple[Point, ...]:
    """The part of a line that is not lying on zero, with the zero it leaves from and returns to."""
    there = [index for index, value in enumerate(values) if value]
    if not there:
        return ()
    first, last = max(there[0] - 1, 0), min(there[-1] + 1, len(values) - 1)
    return tuple((round(x[index], 1), round(height(values[index]), 1)) for index in range(first, last + 1))


def _staircase(values: Sequence[float], x: Sequence[float], height: Callable[[float], float]) -> tuple[Point, ...]:
    """Where a line that stays until the next knot changes: it goes level to each place, then up or down to the height there."""
    there = [index for index, value in enumerate(values) if value]
    if not there:
        return ()
    points: list[Point] = [(round(x[there[0]], 1), round(height(0.0), 1))]
    for index in range(there[0], min(there[-1] + 2, len(values))):
        point = (round(x[index], 1), round(height(values[index]), 1))
        if len(points) > 1 and point[0] - points[-1][0] < NEAR:
            points[-1] = (points[-1][0], point[1])
        elif len(points) == 1 or point[1] != points[-1][1]:
            points.append(point)
    return (*points, (WIDTH, points[-1][1])) if values[-1] else tuple(points)


def _spread(lines: Sequence[Line]) -> list[Line]:
    """Move the labels of coloured lines apart until none covers another, keeping their order."""
    coloured = sorted((line for line in lines if line.colour), key=lambda line: (line.label_at, line.colour))
    at: list[float] = []
    for line in coloured:
        at.append(max(line.label_at, at[-1] + LABEL_HEIGHT if at else LABEL_HEIGHT / 2))
    floor = WEIGHT_HEIGHT - LABEL_HEIGHT / 2
    for index in reversed(range(len(at))):
        at[index] = min(at[index], floor)
        floor = at[index] - LABEL_HEIGHT
    moved = {line.piece: place for line, place in zip(coloured, at, strict=True)}
    return [Line(line.piece, line.points, line.colour, round(moved.get(line.piece, 0.0), 1)) for line in lines]


def _scores(path: PathPicture, x: Sequence[float]) -> Scores | None:
    """The validation curve, where there is one."""
    knots = [(x[i], mean, finite(stop.error) or 0.0) for i, stop in enumerate(path.stops) if (mean := finite(stop.mean)) is not None]
    if len(knots) < 2:
        return None
    known = _thinned_curve(path, x) or knots
    low, high = min(mean - error for _, mean, error in known), max(mean + error for _, mean, error in known)
    pad = 0.08 * (high - low) or max(abs(high), 1.0) * 0.01
    low, high = low - pad, high + pad

    def height(value: float) -> float:
        return round(SCORE_HEIGHT * (high - min(max(value, low), high)) / (high - low), 1)

    pick = min if path.lower_is_better else max
    best = known.index(pick(known, key=lambda row: row[1]))
    _, best_mean, best_error = known[best]
    curve, above, below = (
        _traced([(round(place, 1), height(mean + side * error)) for place, mean, error in known], path.steps) for side in (0, 1, -1)
    )
    ticks = tuple(Tick(height(mark), number(float(f"{mark:.6g}"))) for mark in nice_marks(low, high, 3))
    limit = best_mean + best_error if path.lower_is_better else best_mean - best_error
    dots = tuple((round(place, 1), height(mean)) for place, mean, _ in knots)
    here = round(x[path.chosen], 1)
    shown = dots if len(dots) <= MOST_GREY else tuple(dot for dot in dots if dot[0] == here)[:1]
    return Scores(curve, shown, (*above, *reversed(below)), ticks, best, height(limit))


def _traced(points: Sequence[Point], steps: bool) -> tuple[Point, ...]:
    """Points joined by straight lines, or each held until the next and the last one to the end."""
    if not steps:
        return tuple(points)
    corners = [corner for before, after in itertools.pairwise(points) for corner in (before, (after[0], before[1]))]
    return (*corners, points[-1], (WIDTH, points[-1][1]))


def _thinned_curve(path: PathPicture, x: Sequence[float]) -> list[tuple[float, float, float]]:
    """The finer validation curve where there is one: one value per place that can be told apart, the best one kept."""
    if not path.curve:
        return []
    values = [stop.t for stop in path.stops]
    inside = [row for row in path.curve if values[0] <= row[0] <= values[-1] and math.isfinite(row[1])]
    pick = min if path.lower_is_better else max
    kept: dict[int, tuple[float, float, float]] = {}
    for t, mean, error in inside:
        place = between(values, x, t)
        bucket = int(place * MOST_CURVE / WIDTH)
        row = (place, mean, finite(error) or 0.0)
        kept[bucket] = pick(kept.get(bucket, row), row, key=lambda found: found[1])
    return [kept[bucket] for bucket in sorted(kept)]


def gap_scale(stops: Sequence[Stop]) -> tuple[float | None, float]:
    """The gap that was asked for, and the gap that fills the panel: four times that at most, or ten times a residual asked for."""
    asked = next((tolerance for stop in stops if (tolerance := finite(stop.claim.tolerance)) is not None), None)
    if stops[0].claim.residual and asked:
        return asked, 10.0 * asked
    largest = max((known for stop in stops if (known := finite(stop.claim.gap)) is not None), default=1.0)
    top = min(max(largest * 1.15, 1.5 * (asked or 0.0)), 4 * asked if asked else math.inf)
    return asked, top or 1.0


def filled(claim: Claim, value: float | None, top: float) -> float:
    """How much of the panel a gap fills: in proportion, or by its logarithm where it is a residual; all of it when unknown."""
    if value is None:
        return 1.0
    if claim.residual:
        return min(1.0, max(0.0, (math.log10(max(value, 1e-300)) - SMALLEST) / (math.log10(top) - SMALLEST)))
    return min(1.0, value / top)


def _gaps(path: PathPicture, x: Sequence[float]) -> Gaps:
    """One bar per knot, reaching half way to its neighbours, or as far as its model stays; an unknown distance fills the panel."""
    stops = path.stops
    asked, top = gap_scale(stops)
    edges = [*x, WIDTH] if path.steps else [0.0, *((before + after) / 2 for before, after in itertools.pairwise(x)), WIDTH]
    bars = []
    for index, stop in enumerate(stops):
        height = max(1.5, GAP_HEIGHT * filled(stop.claim, finite(stop.claim.gap), top))
        bars.append(Bar(round(edges[index], 1), round(edges[index + 1] - edges[index], 1), round(GAP_HEIGHT - height, 1), stop.claim.state))
    claim = stops[0].claim
    line = None if asked is None else round(GAP_HEIGHT * (1 - filled(claim, asked, top)), 1)
    return Gaps(tuple(bars), line, "" if asked is None else distance(asked, claim.residual), claim.residual)
