"""One-vs-rest as one path: one walk per class along the same knob, their knots merged.

Objectives and bounds of independent problems add up, so the merged certificate is as good as its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tamis.core.certificate import Certificate
from tamis.core.follow import Problem, Walk, Watch
from tamis.core.path import Knot

ORDER = ("interrupted", "budget", "stopped", "complete")


@dataclass
class JointWalk:
    """Walks that advance together; looks like one Walk to whoever races it."""

    walks: Sequence[Walk]
    classes: Sequence[Any]
    status: str = "running"
    knots: list[Knot] = field(default_factory=list)

    @property
    def problem(self) -> Problem:
        """The first class's problem: for names of the knob."""
        return self.walks[0].problem

    @property
    def watch(self) -> Watch:
        """Shared by all classes."""
        return self.walks[0].watch

    def __iter__(self) -> Iterator[Knot]:
        """Merged knots while every class has one."""
        runs = [iter(walk) for walk in self.walks]
        while True:
            found = [next(run, None) for run in runs]
            parts = [knot for knot in found if knot is not None]
            if len(parts) < len(runs):
                break
            knot = merged(parts, self.classes)
            self.knots.append(knot)
            stopping = [walk.status for walk in self.walks if walk.status in ORDER[:2]]
            if stopping:
                self.status = min(stopping, key=ORDER.index)
            yield knot
        if self.status == "running":
            self.status = min((walk.status for walk in self.walks if walk.status != "running"), key=ORDER.index, default="complete")


def merged(parts: Sequence[Knot], classes: Sequence[Any]) -> Knot:
    """One knot with a score column per class."""
    names = {atom: name for part in parts for atom, name in zip(part.atoms, part.names, strict=True)}
    position = {atom: i for i, atom in enumerate(names)}
    weights = np.zeros((len(names), len(parts)))
    for k, part in enumerate(parts):
        for atom, row in zip(part.atoms, part.coefficients, strict=True):
            weights[position[atom], k] = row[0]
    size = np.sqrt((weights**2).sum(axis=1))
    atoms = sorted(position, key=lambda atom: (-size[position[atom]], len(atom), atom))
    rows = [position[atom] for atom in atoms]
    measures = {name: float(sum(part.measures[name] for part in parts)) for name in parts[0].measures}
    state = {f"class{k}.{name}": value for k, part in enumerate(parts) for name, value in part.state.items()}
    return Knot(
        parts[0].t, tuple(atoms), tuple(names[atom] for atom in atoms), weights[rows],
        np.concatenate([part.intercept for part in parts]), _summed([part.certificate for part in parts], classes), measures, state,
    )  # fmt: skip


def _summed(parts: Sequence[Certificate], classes: Sequence[Any]) -> Certificate:
    """The sum's certificate, which names its widest part."""
    widest = max(range(len(parts)), key=lambda k: parts[k].gap)
    scope = parts[0].scope
    space = (
        f"{scope.space}, one against the rest for each of {len(parts)} classes (widest gap: {classes[widest]!r}, {parts[widest].gap:.2%})"
    )
    return replace(
        parts[0], value=sum(part.value for part in parts), bound=sum(part.bound for part in parts),
        constant=sum(float(part.constant or 0.0) for part in parts),
        scope=replace(scope, space=space, held=sum(part.scope.held for part in parts), looked=sum(part.scope.looked for part in parts)),
    )  # fmt: skip
