"""The axis of the knob: where every knot lies on it, its ticks, and round marks for any axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tamis.report.content import PathPicture
from tamis.report.wording import number

WIDTH = 1000.0
BEFORE, AFTER = 0.05, 0.05  # of a time axis: what lies before the first entry, and what the last model takes

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, what it says, and whether a narrow screen may leave it out."""

    at: float
    text: str
    spare: bool = False


def knob_axis(path: PathPicture) -> tuple[tuple[float, ...], tuple[Tick, ...], str]:
    """Places of the knots in 0..WIDTH, ticks, and the scale used; the path is drawn left to right as followed."""
    values = [stop.t for stop in path.stops]
    steps = [after - before for before, after in itertools.pairwise(values)]
    if not steps or not (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
        last = max(len(values) - 1, 1)
        places = tuple(WIDTH * index / last for index in range(len(values)))
        return places, _thinned([Tick(place, number(value)) for place, value in zip(places, values, strict=True)]), "order"
    if path.scale == "time" and steps[0] > 0 and values[0] >= 0:
        return _time_axis(values, path.steps)
    wide = min(values) > 0 and max(values) / min(values) > 30
    scale = path.scale if path.scale in ("log", "linear") else "log" if wide else "linear"
    if scale == "log" and min(values) <= 0:
        scale = "linear"
    turned = [math.log10(value) for value in values] if scale == "log" else values
    span = turned[-1] - turned[0]
    marks = (
        _decades(min(turned), max(turned)) if scale == "log" else [(mark, number(mark)) for mark in nice_marks(min(values), max(values), 7)]
    )
    ticks = [Tick(WIDTH * (at - turned[0]) / span, text) for at, text in marks]
    return tuple(WIDTH * (at - turned[0]) / span for at in turned), _thinned(sorted(ticks, key=lambda tick: tick.at)), scale


def _time_axis(values: Sequence[float], steps: bool) -> tuple[tuple[float, ...], tuple[Tick, ...], str]:
    """A logarithmic axis that begins at the first entry: a knot at time zero stands a little before it."""
    known = [math.log10(value) for value in values if value > 0]
    span = known[-1] - known[0] or 1.0
    turned = [*([known[0] - BEFORE * span] if values[0] == 0 else []), *known]
    left, width = turned[0], known[-1] + (AFTER * span if steps else 0.0) - turned[0]
    marks = _decades(known[0], known[-1])
    ticks = [Tick(WIDTH * (at - left) / width, text) for at, text in marks]
    # A mark too near to the zero would be written over it.
    zero = [Tick(0.0, "0")] if values[0] == 0 else []
    shown = [*zero, *(tick for tick in ticks if not zero or tick.at > 0.03 * WIDTH)]
    return tuple(WIDTH * (at - left) / width for at in turned), _thinned(shown), "log"


def between(values: Sequence[float], x: Sequence[float], value: float) -> float:
    """The place of a knob value that is no knot, on an axis whose knots lie at `x`."""
    after = next((index for index, known in enumerate(values) if known >= value), len(values) - 1)
    low, high = values[max(after - 1, 0)], values[after]
    if high == low:
        return x[after]
    turned = low > 0 and x[-1] > x[0]
    share = (math.log(value / low) / math.log(high / low)) if turned and value > 0 else (value - low) / (high - low)
    return x[max(after - 1, 0)] + min(max(share, 0.0), 1.0) * (x[after] - x[max(after - 1, 0)])


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
