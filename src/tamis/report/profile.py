"""Geometry of a profile: curves over consecutive places, in the same units as the path picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.report.axis import WIDTH, Point, Tick, nice_marks
from tamis.report.content import Profile
from tamis.report.wording import number

PROFILE_HEIGHT = 200.0


@dataclass(frozen=True, slots=True)
class ProfilePicture:
    """Curves, drawn in order, and the marks of the axis of values."""

    curves: tuple[tuple[str, tuple[Point, ...]], ...]
    ticks: tuple[Tick, ...]


def profile_picture(profile: Profile) -> ProfilePicture:
    """Every curve as steps, one per place."""
    values = [value for _, curve in profile.curves for value in curve]
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    low, high = low - pad, high + pad

    def height(value: float) -> float:
        return round(PROFILE_HEIGHT * (high - value) / (high - low), 1)

    ticks = tuple(Tick(height(mark), number(float(f"{mark:.6g}"))) for mark in nice_marks(low, high, 4))
    return ProfilePicture(tuple((name, _steps([height(value) for value in curve])) for name, curve in profile.curves), ticks)


def _steps(heights: Sequence[float]) -> tuple[Point, ...]:
    """Where a staircase of equally wide steps changes its height."""
    width = WIDTH / max(len(heights), 1)
    points = [(0.0, heights[0])] if heights else []
    points += [(round(index * width, 1), after) for index, after in enumerate(heights) if index and after != heights[index - 1]]
    return (*points, (WIDTH, heights[-1])) if heights else ()
