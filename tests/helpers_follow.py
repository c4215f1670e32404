"""A toy problem for the driver: marks on a ruler, a solver whose every step can be watched or disturbed, a journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tamis.core.certificate import Certificate, Scope
from tamis.core.design import Bits
from tamis.core.follow import Problem, Verdict
from tamis.core.loss import Squared, Targets
from tamis.core.path import Knot
from tamis.core.structure import Atom, Priced, Structure


class Ruler:
    """The atoms are the marks (0,), (1,), ..., (9,); nobody asks for their rows."""

    def price(self, *_: Any, **__: Any) -> Priced:
        return Priced((), np.zeros(0), 0.0, 0)

    def name(self, atom: Atom) -> str:
        return f"mark {atom[0]}"

    def columns(self, atoms: Sequence[Atom]) -> Bits:
        return Bits.pack(np.ones((1, len(atoms)), dtype=bool))

    def describe(self) -> str:
        return "ten marks"


@dataclass(frozen=True)
class Marks:
    """Held atoms with weights that remember every step made."""

    held: tuple[Atom, ...] = ()
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0


def nothing(*_: Any) -> None:
    """Done at every step unless a test wants more."""


@dataclass
class Toy:
    """At knob value t all marks below t belong to the model; one joins per round, and `during` is told of every call."""

    during: Callable[..., None] = nothing
    most: int = 100
    needs: tuple[type, ...] = (Structure,)
    heard: list[bool] = field(default_factory=list)  # what every call was told about stopping

    def init(self, problem: Problem) -> Marks:
        self.during("init", 0.0, 0)
        return Marks()

    def step(self, problem: Problem, t: float, state: Marks, stop: Callable[[], bool]) -> Marks:
        self.during("step", t, len(state.held))
        self.heard.append(stop())
        return replace(state, weights=0.7 * state.weights + t / 3.0, steps=state.steps + 1)

    def certify(self, problem: Problem, t: float, state: Marks, stop: Callable[[], bool]) -> tuple[Verdict, Marks]:
        self.during("certify", t, len(state.held))
        self.heard.append(stop())
        missing = [(k,) for k in range(10) if k < t and (k,) not in state.held]
        scope = Scope("ten marks", f"t = {t}", len(state.held), 10 * state.steps)
        certificate = Certificate("duality gap", 1.0 + len(missing), 1.0, problem.tolerance, scope)
        return Verdict(certificate, missing[:1], not missing), state

    def grow(self, problem: Problem, state: Marks, newcomers: Sequence[Atom]) -> Marks:
        return replace(state, held=(*state.held, *newcomers), weights=np.append(state.weights, 0.1 * len(state.held)))

    def knot(self, problem: Problem, t: float, state: Marks, certificate: Certificate) -> Knot:
        names = tuple(problem.structure.name(atom) for atom in state.held)
        stored = {"weights": state.weights, "steps": np.array(state.steps)}
        return Knot(t, state.held, names, state.weights[:, None], np.zeros(1), certificate, {"loss": 1.0 / t}, stored)

    def restore(self, problem: Problem, knot: Knot) -> Marks:
        self.during("restore", knot.t, len(knot.atoms))
        return Marks(knot.atoms, knot.state["weights"], int(knot.state["steps"]))

    def full(self, state: Marks) -> bool:
        return len(state.held) >= self.most


@dataclass
class Notebook:
    """A journal's section that keeps its knots in a list."""

    kept: list[Knot] = field(default_factory=list)

    def knots(self) -> list[Knot]:
        return list(self.kept)

    def append(self, knot: Knot) -> None:
        self.kept.append(knot)


def ruler() -> Problem:
    """The toy problem, with a loss that nobody evaluates."""
    return Problem(Ruler(), Targets(Squared(), np.zeros((1, 1)), np.ones(1), np.zeros((1, 1))))


def bits_of(knots: Sequence[Knot]) -> list[Any]:
    """Everything a knot stores, to the last bit, in a form that has one answer to ==."""
    records = [knot.to_record() for knot in knots]
    return [(meta, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}) for meta, arrays in records]
