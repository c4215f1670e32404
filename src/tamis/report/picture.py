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

from tamis.report.content import PathPicture, ReportContent, Stop
from tamis.report.wording import decimals_for, finite, gap, number, signed

WIDTH = 1000.0
WEIGHT_HEIGHT, SCORE_HEIGHT, GAP_HEIGHT = 260.0, 130.0, 56.0
COLOURS = 6
MOST_GREY = 60
LABEL_HEIGHT = 21.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, what it says, and whether a narrow screen may leave it out."""

    at: float
    text: str
    spare: bool = False


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


@dataclass(frozen=True, slots=True)
class Scores:
    """The panel of the validation score: the curve, the band of one standard error, and where the best lies."""

    curve: tuple[Point, ...]
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
    return Picture(x, ticks, _weights(content, x), _scores(content.path, x), _gaps(content.path.stops, x), scale)


def knob_axis(path: PathPicture) -> tuple[tuple[float, ...], tuple[Tick, ...], str]:
    """Places of the knots in 0..WIDTH, ticks, and the scale used; the path is drawn left to right as followed."""
    values = [stop.t for stop in path.stops]
    steps = [after - before for before, after in itertools.pairwise(values)]
    if not steps or not (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
        last = max(len(values) - 1, 1)
        places = tuple(WIDTH * index / last for index in range(len(values)))
        return places, _thinned([Tick(place, number(value)) for place, value in zip(places, values, strict=True)]), "order"
    wide = min(values) > 0 and max(values) / min(values) > 30
    scale = path.scale if path.scale != "auto" else "log" if wide else "linear"
    if scale == "log" and min(values) <= 0:
        scale = "linear"
    turned = [math.log10(value) for value in values] if scale == "log" else values
    span = turned[-1] - turned[0]
    marks = (
        _decades(min(turned), max(turned)) if scale == "log" else [(mark, number(mark)) for mark in nice_marks(min(values), max(values), 7)]
    )
    ticks = [Tick(WIDTH * (at - turned[0]) / span, text) for at, text in marks]
    return tuple(WIDTH * (at - turned[0]) / span for at in turned), _thinned(sorted(ticks, key=lambda tick: tick.at)), scale


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten in a range of logarithms, with 2 and 5 between them while that leaves room."""
    factors: tuple[int, ...] = (1,) if high - low > 2.2 else (1, 2, 5)
    marks = [
        (power + math.log10(factor), number(factor * 10.0**power))
        for power in range(math.floor(low), math.ceil(high) + 1)
        for factor in factors
    ]
    return [(at, text) for at, text in marks if low - 1e-9 <= at <= high + 1e-9]


def _thinned(ticks: Sequence[Tick], most: int = 9) -> tuple[Tick, ...]:
    """At most `most` ticks; every second one may go on a narrow screen."""
    every = max(1, math.ceil(len(ticks) / most))
    return tuple(Tick(tick.at, tick.text, spare=index % 2 == 1) for index, tick in enumerate(ticks[::every]))


def nice_marks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) inside a range, about so many."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


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
    lines = [Line(piece, _trimmed(dense[piece], x, height), top.get(piece, 0), height(dense[piece][-1])) for piece in drawn]
    ticks = tuple(Tick(height(mark), signed(mark, decimals)) for mark in marks)
    return Weights(tuple(_spread(lines)), ticks, height(0.0), max(0, len(others) - MOST_GREY))


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
    known = [(index, mean, finite(stop.error) or 0.0) for index, stop in enumerate(path.stops) if (mean := finite(stop.mean)) is not None]
    if len(known) < 2:
        return None
    low, high = min(mean - error for _, mean, error in known), max(mean + error for _, mean, error in known)
    pad = 0.08 * (high - low) or max(abs(high), 1.0) * 0.01
    low, high = low - pad, high + pad

    def height(value: float) -> float:
        return round(SCORE_HEIGHT * (high - value) / (high - low), 1)

    pick = min if path.lower_is_better else max
    best, best_mean, best_error = pick(known, key=lambda row: row[1])
    above = [(round(x[index], 1), height(mean + error)) for index, mean, error in known]
    below = [(round(x[index], 1), height(mean - error)) for index, mean, error in known]
    ticks = tuple(Tick(height(mark), number(float(f"{mark:.6g}"))) for mark in nice_marks(low, high, 3))
    curve = tuple((round(x[index], 1), height(mean)) for index, mean, _ in known)
    limit = best_mean + best_error if path.lower_is_better else best_mean - best_error
    return Scores(curve, (*above, *reversed(below)), ticks, best, height(limit))


def gap_scale(stops: Sequence[Stop]) -> tuple[float | None, float]:
    """The gap that was asked for, and the gap that fills the panel: four times that at most."""
    asked = next((tolerance for stop in stops if (tolerance := finite(stop.claim.tolerance)) is not None), None)
    largest = max((known for stop in stops if (known := finite(stop.claim.gap)) is not None), default=1.0)
    top = min(max(largest * 1.15, 1.5 * (asked or 0.0)), 4 * asked if asked else math.inf)
    return asked, top or 1.0


def _gaps(stops: Sequence[Stop], x: Sequence[float]) -> Gaps:
    """One bar per knot, reaching half way to its neighbours; an unknown distance fills the panel."""
    asked, top = gap_scale(stops)
    edges = [0.0, *((before + after) / 2 for before, after in itertools.pairwise(x)), WIDTH]
    bars = []
    for index, stop in enumerate(stops):
        distance = finite(stop.claim.gap)
        height = GAP_HEIGHT if distance is None else max(1.5, GAP_HEIGHT * min(1.0, distance / top))
        bars.append(Bar(round(edges[index], 1), round(edges[index + 1] - edges[index], 1), round(GAP_HEIGHT - height, 1), stop.claim.state))
    line = None if asked is None else round(GAP_HEIGHT * (1 - asked / top), 1)
    return Gaps(tuple(bars), line, "" if asked is None else gap(asked))
