"""The driver: follow one knob, and at each of its values solve on the held atoms, price all others, let newcomers in.

Whatever stops it early - a time budget, a size limit, Ctrl-C - the knots already made are kept, and the knot
under way is kept with the honest certificate of its last complete round. With a journal every finished knot is
on disk before the next one is begun, and a later call goes on from there to the same result.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError
from tamis.core.loss import Targets
from tamis.core.path import Knot, Path
from tamis.core.structure import Structure

Observer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Problem:
    """What is to be solved at every value of the knob.

    Attributes
    ----------
    structure : Structure
    targets : Targets
        Loss and data at knob value 1.
    tolerance, gain_tolerance : float
        Relative gap, and largest missing share of the possible gain.
    knob : str
        What the knob is called in sentences.
    """

    structure: Structure
    targets: Targets
    tolerance: float = 0.01
    gain_tolerance: float = 0.1
    knob: str = "C"


@dataclass(frozen=True)
class Verdict:
    """What a round of certifying says: the claim, who should join, and whether this knob value is done."""

    certificate: Certificate
    newcomers: Sequence[Any]
    done: bool


class Solver(Protocol):
    """One algorithm. `needs` are the protocols its problem's structure must offer, checked before any work."""

    needs: tuple[type, ...]

    def init(self, problem: Problem) -> Any:
        """The state before anything is held."""

    def step(self, problem: Problem, t: float, state: Any, stop: Callable[[], bool]) -> Any:
        """Solve on the held atoms."""

    def certify(self, problem: Problem, t: float, state: Any, stop: Callable[[], bool]) -> tuple[Verdict, Any]:
        """Price all other atoms; the verdict must be true whatever the state is."""

    def grow(self, problem: Problem, state: Any, newcomers: Sequence[Any]) -> Any:
        """Hold the newcomers, too."""

    def knot(self, problem: Problem, t: float, state: Any, certificate: Certificate) -> Knot:
        """The model as it will be shown."""
        ...

    def restore(self, problem: Problem, knot: Knot) -> Any:
        """The state in which the knot was left, from what it stores."""

    def full(self, state: Any) -> bool:
        """Whether no more atoms may be held."""
        ...


class JournalSection(Protocol):
    """One run's part of a journal: its knots so far, and a place for the next."""

    def knots(self) -> list[Knot]:
        """What an earlier run left."""
        ...

    def append(self, knot: Knot) -> None:
        """On disk when this returns."""


class Run(Protocol):
    """Knots along a schedule, one after the other: a Walk, or several walks made one."""

    status: str

    @property
    def problem(self) -> Problem:
        """What is followed."""
        ...

    @property
    def watch(self) -> Watch:
        """Why it may stop early."""
        ...

    def __iter__(self) -> Iterator[Knot]: ...


class Watch:
    """Why to stop: Ctrl-C once (twice raises KeyboardInterrupt), or a time budget.

    Use as a context manager around long work; outside the main thread only the budget counts.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.started = time.monotonic()
        self.deadline = None if time_limit is None else self.started + time_limit
        self.interrupted = False
        self._depth = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _notice(self, *_: object) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    @property
    def seconds(self) -> float:
        """Since the watch was made."""
        return time.monotonic() - self.started

    def reason(self) -> str | None:
        """Why to stop: "interrupted" or "budget"; None to go on."""
        if self.interrupted:
            return "interrupted"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "budget"
        return None

    def stop(self) -> bool:
        """True when there is a reason."""
        return self.reason() is not None


@dataclass
class Walk:
    """One run along a schedule, advanced knot by knot, so that several can keep step with each other.

    Attributes
    ----------
    status : str
        "running" while there is more to do, then as in Path.
    """

    problem: Problem
    solver: Solver
    schedule: Sequence[float]
    watch: Watch = field(default_factory=Watch)
    observe: Sequence[Observer] = ()
    journal: JournalSection | None = None
    phase: str = "path"
    rounds: int = 100
    ends: Callable[[Knot], bool] | None = None
    status: str = "running"
    knots: list[Knot] = field(default_factory=list)

    def __post_init__(self) -> None:
        missing = [need.__name__ for need in self.solver.needs if not isinstance(self.problem.structure, need)]
        if missing:
            name, structure = type(self.solver).__name__, type(self.problem.structure).__name__
            raise TamisError(
                f"{name} needs a structure that offers {', '.join(missing)} and {structure} does not, so nothing was fitted; "
                "choose another solver."
            )

    def __iter__(self) -> Iterator[Knot]:
        """Run to the end of the schedule, or to the first reason to stop."""
        self.knots = self._journaled()
        yield from self.knots
        state = None
        for position in range(len(self.knots), len(self.schedule)):
            if self.knots and self.ends is not None and self.ends(self.knots[-1]):
                self.status = "stopped"
                return
            if state is None:
                state = self.solver.restore(self.problem, self.knots[-1]) if self.knots else self.solver.init(self.problem)
            knot, state, reason = self._one(position, state)
            if knot is not None:
                self.knots.append(knot)
                if self.journal is not None and reason is None:
                    self.journal.append(knot)
                yield knot
            if reason is not None:
                self.status = reason
                return
        self.status = "complete"

    def _journaled(self) -> list[Knot]:
        """Knots of an earlier run, as long as they follow this schedule."""
        kept = []
        for knot, t in zip(self.journal.knots() if self.journal is not None else [], self.schedule, strict=False):
            if knot.t != t:
                break
            kept.append(knot)
        return kept

    def _one(self, position: int, state: Any) -> tuple[Knot | None, Any, str | None]:
        """Solve, price, grow, until certified or a reason to stop; the reason comes with what there is."""
        problem, solver, t = self.problem, self.solver, self.schedule[position]
        certificate: Certificate | None = None
        last = state
        for rounds in range(self.rounds):
            # whatever stops a run, its first knot gets one whole round: there is always a model to return
            stop = self.watch.stop if self.knots or rounds else _never
            state = solver.step(problem, t, state, stop)
            if self.watch.reason() and certificate is not None:
                break
            verdict, state = solver.certify(problem, t, state, stop)
            certificate, last = verdict.certificate, state
            self._tell(position, t, rounds, certificate)
            if verdict.done or stop() or solver.full(state):
                break
            state = solver.grow(problem, state, verdict.newcomers)
        reason = self.watch.reason()
        if certificate is None:
            return None, last, reason
        if reason is None and not certificate.holds and solver.full(last):
            reason = "budget"
        return solver.knot(problem, t, last, certificate), last, reason

    def _tell(self, position: int, t: float, rounds: int, certificate: Certificate) -> None:
        event = {"phase": self.phase, "knot": position, "of": len(self.schedule), "t": t, "round": rounds, "gap": certificate.gap}
        event |= {"held": certificate.scope.held, "looked": certificate.scope.looked, "seconds": self.watch.seconds}
        for observer in self.observe:
            observer(event)


class Source(Protocol):
    """A solver that finds its own knots, such as events in time, where a schedule cannot be known beforehand."""

    status: str

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """Knots after the given one (from the start without one), which holds in its state what going on needs."""
        ...


@dataclass
class Stream:
    """One run of a source: journaled, observed, stopped by a watch, like a Walk."""

    source: Source
    watch: Watch = field(default_factory=Watch)
    observe: Sequence[Observer] = ()
    journal: JournalSection | None = None
    phase: str = "path"
    status: str = "running"
    knots: list[Knot] = field(default_factory=list)

    def __iter__(self) -> Iterator[Knot]:
        """Run to the source's end, or to the first reason to stop; whatever stops it, a first knot is made."""
        self.knots = list(self.journal.knots()) if self.journal is not None else []
        yield from self.knots
        for knot in self.source.knots(self.knots[-1] if self.knots else None, self.watch.stop):
            self.knots.append(knot)
            if self.journal is not None:
                self.journal.append(knot)
            self._tell(knot)
            yield knot
            if self.watch.stop():
                break
        self.status = self.watch.reason() or self.source.status

    def _tell(self, knot: Knot) -> None:
        event = {"phase": self.phase, "knot": len(self.knots) - 1, "of": 0, "t": knot.t, "round": 0, "gap": knot.certificate.gap}
        event |= {"held": len(knot.atoms), "looked": knot.certificate.scope.looked, "seconds": self.watch.seconds}
        for observer in self.observe:
            observer(event)


def _never() -> bool:
    return False


def follow(
    problem: Problem, solver: Solver, schedule: Sequence[float], *, observe: Sequence[Observer] = (),
    journal: JournalSection | None = None, budget: float | None = None, watch: Watch | None = None,
    ends: Callable[[Knot], bool] | None = None,
) -> Path:  # fmt: skip
    """Follow the knob along a schedule and return the path; `budget` is a time limit in seconds.

    `ends` may close the path after a knot (for instance when the training data are fitted perfectly).
    """
    with watch or Watch(budget) as watching:
        walk = Walk(problem, solver, schedule, watching, observe, journal, ends=ends)
        knots = tuple(walk)
    return Path(knots, walk.status, problem.knob)
