"""A progress bar for work over two seconds, on a terminal only: how far, how long still, and the current gap."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0
HALFWAY = 30  # knots after which a pass of unknown length is taken for half done
BASELINE = 0.2  # about this share of a fit goes into the single conditions shown beside it


class ProgressBar:
    """Follows a fit through its events; shows nothing before `patience` seconds, and nothing without a terminal.

    An event is a dict with any of: phase ("path", "fold-0", ..., "single", "single-fold-0", ...), knot (from 0), of (0 when nobody
    knows how many), round, gap, held, looked, t, seconds.

    Parameters
    ----------
    stream : text stream
        Where to draw; stderr by default, so that stdout stays data.
    patience : float
        Seconds before the bar appears.
    passes : int
        How many passes of unknown length there will be: the path and its folds.
    """

    def __init__(self, stream: Any = None, patience: float = PATIENCE, passes: int = 1) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._patience = patience
        self._started = time.monotonic()
        self._passes: dict[str, float] = {}
        self._endless, self._expected = False, passes
        self._bar: Any = None
        self._row: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take note of an event, and redraw."""
        self._note(event)
        if self._bar is None and (time.monotonic() - self._started < self._patience or not self._stream.isatty()):
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._row, completed=self.done, description=describe(event))

    def _note(self, event: Mapping[str, Any]) -> None:
        """How much of this pass over the knots is done; later knots cost more, so they count for more."""
        knot, of, phase = int(event.get("knot") or 0), event.get("of", 1), str(event.get("phase", "path"))
        if of == 0:  # passes come one after another, so that a new one says that those before it have ended
            self._endless = True
            self._passes = dict.fromkeys(self._passes, 1.0) | {phase: knot / (knot + HALFWAY)}
            return
        share = knot / max(int(of or 1), 1)
        self._passes[phase] = max(self._passes.get(phase, 0.0), min(1.0, share) ** 1.5)

    @property
    def done(self) -> float:
        """Share of the whole work that is done, between 0 and 1: the path with its folds, then the single conditions."""
        if self._endless:
            return sum(self._passes.values()) / max(self._expected, len(self._passes))
        parts = []
        for baseline in (False, True):
            shares = [share for phase, share in self._passes.items() if phase.startswith("single") == baseline]
            parts.append(sum(shares) / len(shares) if shares else 0.0)
        return parts[0] * (1 - BASELINE) + parts[1] * BASELINE if not parts[1] else 1 - BASELINE + parts[1] * BASELINE

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(file=self._stream), transient=True)
        self._row = self._bar.add_task("", total=1.0)
        self._bar.start()

    def close(self) -> None:
        """Remove the bar; what follows is the result."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def describe(event: Mapping[str, Any]) -> str:
    """One event in a few words.

    Examples
    --------
    >>> describe({"phase": "path", "knot": 2, "of": 20, "gap": 0.04, "held": 120, "looked": 9000})
    'path 3 of 20, gap 4.0 %, 120 held of 9000 looked at'
    """
    from tamis.core.certificate import percent

    phase = str(event.get("phase", "path"))
    place = "single conditions" if phase.startswith("single") else phase.replace("-", " ")
    counted = f" of {event['of']}" if event.get("of") else ""
    words = [f"{place} {event['knot'] + 1}{counted}" if "knot" in event and "of" in event else place]
    words += [f"t = {event['t']:.4g}"] if event.get("of") == 0 and "t" in event else []
    gap = event.get("gap")
    if gap is not None and gap < float("inf"):
        words.append(f"gap {percent(gap)}")
    if event.get("held"):
        words.append(f"{event['held']} held" + (f" of {event['looked']} looked at" if event.get("looked") else ""))
    return ", ".join(words)
