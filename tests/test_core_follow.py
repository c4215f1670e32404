"""The driver: knots in order, observers, early ends that keep what there is, Ctrl-C once and twice, journals and resuming."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_follow import Notebook, Ruler, Toy, bits_of, ruler
from helpers_lattice import case, lattice_of, targets_of
from helpers_store import one_sentence
from tamis.core.errors import TamisError
from tamis.core.follow import Problem, Walk, Watch, follow
from tamis.core.path import Knot
from tamis.solvers.hierarchical import HierarchicalSolver
from tamis.store.journal import Journal

SCHEDULE = [0.5, 1.5, 3.5, 4.5]


@pytest.fixture
def handler() -> Iterator[Callable[..., None]]:
    """A handler of ours, which must be back in place after every run; reached only when it should not be."""

    def ours(*_: Any) -> None:
        raise AssertionError("the signal reached the previous handler")

    before = signal.signal(signal.SIGINT, ours)
    yield ours
    signal.signal(signal.SIGINT, before)


def at(what: str, t: float, held: int, act: Callable[[], Any]) -> Callable[..., None]:
    """Do something at one moment: when the solver is asked this, at this knob value, holding so many."""
    return lambda *now: act() if now == (what, t, held) else None


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


# ---- a run to the end ------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.1, 12), max_size=6))
def test_knots_come_in_the_order_of_the_schedule(schedule: list[float]) -> None:
    path = follow(ruler(), Toy(), schedule)
    assert path.t.tolist() == schedule
    assert (path.status, path.knob) == ("complete", "C")
    assert all(certificate.holds for certificate in path.certificates)
    assert follow(dataclasses.replace(ruler(), knob="lambda"), Toy(), schedule).knob == "lambda"


def test_a_walk_gives_every_knot_before_it_begins_the_next() -> None:
    calls: list[tuple[Any, ...]] = []
    walk = Walk(ruler(), Toy(lambda *now: calls.append(now)), SCHEDULE)
    assert calls == []
    run = iter(walk)
    for t in SCHEDULE:
        assert walk.status == "running"
        assert next(run).t == t
        assert calls[-1][:2] == ("certify", t)
        assert [knot.t for knot in walk.knots] == SCHEDULE[: len(walk.knots)]
    assert next(run, None) is None
    assert walk.status == "complete"


def test_rounds_go_on_until_nothing_is_missing_and_start_from_the_last_knot() -> None:
    path = follow(ruler(), Toy(), SCHEDULE)
    assert [knot.atoms for knot in path] == [tuple((k,) for k in range(count)) for count in (1, 2, 4, 5)]
    assert [int(knot.state["steps"]) for knot in path] == [2, 4, 7, 9]
    assert path.knots[2].names == ("mark 0", "mark 1", "mark 2", "mark 3")


def test_observers_are_told_of_every_round() -> None:
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    follow(ruler(), Toy(), SCHEDULE, observe=(first.append, second.append))
    assert first == second
    where = [(event["knot"], event["round"]) for event in first]
    assert where == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1)]
    for event in first:
        assert (event["phase"], event["of"], event["t"]) == ("path", 4, SCHEDULE[event["knot"]])
        assert {"gap", "held", "looked", "seconds"} <= set(event)
    assert [event["gap"] > 0.01 for event in first] == [True, False, True, False, True, True, False, True, False]
    assert [event["held"] for event in first] == [0, 1, 1, 2, 2, 3, 4, 4, 5]
    seconds = [event["seconds"] for event in first]
    assert seconds == sorted(seconds)


def test_a_phase_is_told_with_every_event() -> None:
    events: list[dict[str, Any]] = []
    list(Walk(ruler(), Toy(), [0.5], observe=(events.append,), phase="fold-3"))
    assert {event["phase"] for event in events} == {"fold-3"}


def test_ends_closes_the_path_after_a_knot() -> None:
    path = follow(ruler(), Toy(), SCHEDULE, ends=lambda knot: len(knot.atoms) >= 2)
    assert (path.t.tolist(), path.status) == (SCHEDULE[:2], "stopped")
    never = follow(ruler(), Toy(), SCHEDULE, ends=lambda knot: False)
    assert (len(never), never.status) == (4, "complete")


def test_a_full_solver_ends_the_path_with_what_it_could_do() -> None:
    path = follow(ruler(), Toy(most=3), SCHEDULE)
    assert (path.t.tolist(), path.status) == (SCHEDULE[:3], "budget")
    assert [certificate.holds for certificate in path.certificates] == [True, True, False]
    assert len(path.knots[-1].atoms) == 3


def test_rounds_that_never_finish_are_given_up_with_an_honest_certificate() -> None:
    walk = Walk(ruler(), Toy(), [9.5], rounds=3)
    (knot,) = list(walk)
    assert not knot.certificate.holds
    assert int(knot.state["steps"]) == 3


# ---- a solver and a structure that do not fit -------------------------------------------------------------------


@runtime_checkable
class Movable(Protocol):
    def move(self) -> None: ...


@runtime_checkable
class Edible(Protocol):
    def eat(self) -> None: ...


def test_what_a_solver_needs_is_asked_before_any_work() -> None:
    calls: list[Any] = []
    with pytest.raises(TamisError, match="Toy needs a structure that offers Movable, Edible and Ruler does not, so ") as caught:
        follow(ruler(), Toy(lambda *now: calls.append(now), needs=(Movable, Edible)), SCHEDULE)
    one_sentence(caught.value)
    assert calls == []
    with pytest.raises(TamisError, match="HierarchicalSolver needs a structure that offers Hierarchy and Ruler does not"):
        follow(Problem(Ruler(), ruler().targets), HierarchicalSolver(), SCHEDULE)


# ---- a time budget ---------------------------------------------------------------------------------------------


def test_without_any_time_the_first_knot_still_gets_one_whole_round() -> None:
    """And in that round the solver is not told to hurry, or it might return nothing."""
    events: list[dict[str, Any]] = []
    toy = Toy()
    path = follow(ruler(), toy, SCHEDULE, budget=0.0, observe=(events.append,))
    assert (path.t.tolist(), path.status) == (SCHEDULE[:1], "budget")
    assert len(events) == 1
    assert not path.knots[0].certificate.holds
    assert toy.heard[:2] == [False, False]
    assert all(toy.heard[2:])


def test_a_solver_is_told_when_to_stop_from_then_on() -> None:
    with Watch() as watch:
        toy = Toy(at("certify", 1.5, 1, lambda: setattr(watch, "deadline", 0.0)))
        follow(ruler(), toy, SCHEDULE, watch=watch)
    assert toy.heard == [False] * 5 + [True]


def test_a_time_budget_keeps_the_path_so_far() -> None:
    start = time.monotonic()
    path = follow(ruler(), Toy(lambda *_: time.sleep(0.004)), [0.5] * 1000, budget=0.15)
    assert path.status == "budget"
    assert 1 <= len(path) < 200
    assert time.monotonic() - start < 3
    assert all(certificate.holds for certificate in path.certificates[:-1])


def test_seconds_of_a_watch_run_and_its_budget_runs_out() -> None:
    watch = Watch(1e6)
    assert (watch.reason(), watch.stop()) == (None, False)
    before = watch.seconds
    assert 0 <= before <= watch.seconds
    assert (Watch(0.0).reason(), Watch(0.0).stop()) == ("budget", True)
    assert Watch().reason() is None


@given(
    st.sampled_from([("step", 3.5, 2), ("certify", 3.5, 2), ("step", 3.5, 3), ("certify", 3.5, 3), ("step", 3.5, 4), ("certify", 3.5, 4)])
)
def test_a_knot_cut_short_is_the_one_its_certificate_speaks_of(moment: tuple[str, float, int]) -> None:
    """Whenever time runs out, the last knot holds what was certified last, with that round's certificate."""
    events: list[dict[str, Any]] = []
    with Watch() as watch:
        path = follow(ruler(), Toy(at(*moment, lambda: setattr(watch, "deadline", 0.0))), SCHEDULE, watch=watch, observe=(events.append,))
    assert (path.t.tolist(), path.status) == (SCHEDULE[:3], "budget")
    knot, last = path.knots[-1], events[-1]
    assert knot.certificate.gap == last["gap"]
    assert len(knot.atoms) == knot.certificate.scope.held == last["held"]
    assert knot.certificate.scope.looked == 10 * int(knot.state["steps"])
    assert bits_of(path.knots[:2]) == bits_of(follow(ruler(), Toy(), SCHEDULE[:2]).knots)


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------


def test_one_interruption_keeps_the_path(handler: Callable[..., None]) -> None:
    path = follow(ruler(), Toy(at("step", 3.5, 3, ctrl_c)), SCHEDULE)
    assert (path.t.tolist(), path.status) == (SCHEDULE[:3], "interrupted")
    assert [certificate.holds for certificate in path.certificates] == [True, True, False]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interruption_at_the_very_start_still_gives_a_knot(handler: Callable[..., None]) -> None:
    path = follow(ruler(), Toy(at("init", 0.0, 0, ctrl_c)), SCHEDULE)
    assert (path.t.tolist(), path.status) == (SCHEDULE[:1], "interrupted")
    assert signal.getsignal(signal.SIGINT) is handler


def test_two_interruptions_end_everything(handler: Callable[..., None]) -> None:
    def twice() -> None:
        ctrl_c()
        ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        follow(ruler(), Toy(at("certify", 1.5, 1, twice)), SCHEDULE)
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_previous_handler_is_back_after_any_end(handler: Callable[..., None]) -> None:
    def broken(*_: Any) -> None:
        assert signal.getsignal(signal.SIGINT) is not handler
        raise ZeroDivisionError

    for toy, observe in ((Toy(at("certify", 1.5, 1, broken)), ()), (Toy(), (broken,))):
        with pytest.raises(ZeroDivisionError):
            follow(ruler(), toy, SCHEDULE, observe=observe)
        assert signal.getsignal(signal.SIGINT) is handler
    follow(ruler(), Toy(), SCHEDULE)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_watch_around_several_runs_stops_them_all(handler: Callable[..., None]) -> None:
    with Watch() as watch:
        first = follow(ruler(), Toy(at("step", 1.5, 1, ctrl_c)), SCHEDULE, watch=watch)
        assert signal.getsignal(signal.SIGINT) is not handler
        second = follow(ruler(), Toy(), SCHEDULE, watch=watch)
    assert [(len(path), path.status) for path in (first, second)] == [(2, "interrupted"), (1, "interrupted")]
    assert signal.getsignal(signal.SIGINT) is handler


def test_outside_of_the_main_thread_signals_are_left_alone(handler: Callable[..., None]) -> None:
    found: list[Any] = []

    def work() -> None:
        toy = Toy(lambda *_: found.append(signal.getsignal(signal.SIGINT)))
        found.append(follow(ruler(), toy, SCHEDULE, budget=0.0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    *handlers, path = found
    assert set(handlers) == {handler}
    assert (len(path), path.status) == (1, "budget")


# ---- journals --------------------------------------------------------------------------------------------------


def test_finished_knots_are_written_before_they_are_shown_and_cut_ones_never() -> None:
    notebook = Notebook()
    with Watch() as watch:
        toy = Toy(at("certify", 3.5, 3, lambda: setattr(watch, "deadline", 0.0)))
        for knot in Walk(ruler(), toy, SCHEDULE, watch, journal=notebook):
            assert (knot in notebook.kept) == (knot.t < 3.5)
    assert [knot.t for knot in notebook.kept] == SCHEDULE[:2]


@pytest.mark.parametrize("done", [1, 2, 4])
def test_knots_of_a_journal_are_reused(done: int) -> None:
    straight = follow(ruler(), Toy(), SCHEDULE)
    calls: list[tuple[Any, ...]] = []
    notebook = Notebook(list(straight.knots[:done]))
    path = follow(ruler(), Toy(lambda *now: calls.append(now)), SCHEDULE, journal=notebook)
    assert path.knots[:done] == straight.knots[:done]  # the very same
    assert path.status == "complete"
    assert [now for now in calls if now[0] in ("init", "restore")] == (
        [("restore", SCHEDULE[done - 1], (1, 2, 4, 5)[done - 1])] * (done < 4)
    )
    assert all(now[1] > SCHEDULE[done - 1] for now in calls if now[0] in ("step", "certify"))
    assert [knot.t for knot in notebook.kept] == SCHEDULE


@pytest.mark.parametrize(
    ("schedule", "reused"), [([0.5, 1.5, 2.5, 4.5], 2), ([0.7, 1.5, 3.5], 0), ([0.5, 1.5 + 1e-12, 3.5], 1), ([1.5, 3.5], 0)]
)
def test_knots_of_another_schedule_are_not_reused(schedule: list[float], reused: int) -> None:
    earlier = follow(ruler(), Toy(), SCHEDULE).knots
    path = follow(ruler(), Toy(), schedule, journal=Notebook(list(earlier)))
    assert path.t.tolist() == schedule
    assert [knot in earlier for knot in path] == [True] * reused + [False] * (len(schedule) - reused)
    assert bits_of(path.knots) == bits_of(follow(ruler(), Toy(), schedule).knots)


def test_a_shorter_schedule_takes_only_its_own_knots() -> None:
    notebook = Notebook(list(follow(ruler(), Toy(), SCHEDULE).knots))
    path = follow(ruler(), Toy(), SCHEDULE[:2], journal=notebook)
    assert (path.t.tolist(), path.status) == (SCHEDULE[:2], "complete")


def test_a_path_that_ended_is_not_gone_on_with() -> None:
    notebook, calls = Notebook(), []
    for _ in range(2):
        toy = Toy(lambda *now: calls.append(now))
        path = follow(ruler(), toy, SCHEDULE, journal=notebook, ends=lambda knot: len(knot.atoms) >= 2)
        assert (path.t.tolist(), path.status) == (SCHEDULE[:2], "stopped")
    assert len([now for now in calls if now[0] == "init"]) == 1


@given(moment=st.integers(0, 18))
def test_a_resumed_path_is_the_uninterrupted_one_wherever_it_was_cut(moment: int) -> None:
    notebook, calls = Notebook(), iter(range(100))
    with Watch() as watch:
        toy = Toy(lambda *_: setattr(watch, "deadline", 0.0) if next(calls) == moment else None)
        cut = follow(ruler(), toy, SCHEDULE, journal=notebook, watch=watch)
    assert cut.status == "budget"
    path = follow(ruler(), Toy(), SCHEDULE, journal=notebook)
    assert path.status == "complete"
    assert bits_of(path.knots) == bits_of(follow(ruler(), Toy(), SCHEDULE).knots)


class Section:
    """One run's part of a journal on disk."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def knots(self) -> list[Knot]:
        return [Knot.from_record(meta, arrays) for meta, arrays in self.journal.records("path")]

    def append(self, knot: Knot) -> None:
        self.journal.append("path", *knot.to_record())


@settings(max_examples=6)
@given(loss=st.sampled_from(["logistic", "squared"]), round_=st.integers(1, 4))
def test_a_search_over_rules_cut_by_time_goes_on_from_the_disk(tmp_path_factory: pytest.TempPathFactory, loss: str, round_: int) -> None:
    """A real problem: cut in one of its rounds, then resumed in a new lattice from what a journal on disk holds."""
    instance, schedule = case(loss, 1.5, "full", p=5, rows=30), [0.5, 2.0, 8.0]
    file = tmp_path_factory.mktemp("journal") / "a.journal"

    def run(journal: Journal | None, **options: Any) -> Any:
        problem = Problem(lattice_of(instance), targets_of(instance))
        return follow(problem, HierarchicalSolver(), schedule, journal=None if journal is None else Section(journal), **options)

    straight = run(None)
    with Journal.create(file, {}) as journal, Watch() as watch:
        rounds = iter(range(1, 100))
        cut = run(journal, watch=watch, observe=[lambda _: setattr(watch, "deadline", 0.0) if next(rounds) == round_ else None])
    assert cut.status == "budget"
    assert 1 <= len(cut) <= 3
    with Journal.open(file) as journal:
        resumed = run(journal)
    assert resumed.status == "complete"
    assert bits_of(resumed.knots) == bits_of(straight.knots)
