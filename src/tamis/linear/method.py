"""What the ways of following a linear path have in common: where their knots come from, and what a knot predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.core.path import Knot
from tamis.linear.task import Task

Array = NDArray[Any]


@dataclass(frozen=True)
class Finished:
    """A path that has been followed: certified knots, and what else belongs to each of them, side by side.

    `arrays` have one entry per knot: "beta" and "projected" of split methods, "dual" of damped ones.
    `still` are columns that do not vary.
    """

    knots: tuple[Knot, ...]
    notes: tuple[str, ...] = ()
    arrays: dict[str, Array] = field(default_factory=dict)
    still: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


class PathSource(Protocol):
    """Knots of one training problem; their `state` holds what `finish` and a resumed run need."""

    status: str
    keep_state: bool

    def knots(self, after: Knot | None, stop: Callable[[], bool]) -> Iterator[Knot]:
        """Knots after the given one, from the start without one."""
        ...

    def finish(self, knots: Sequence[Knot]) -> Finished:
        """The knots with their certificates."""
        ...


class Method(Protocol):
    """A way of following: makes sources for the whole problem and for its folds."""

    @property
    def name(self) -> str:
        """What it is called in a path's provenance."""
        ...

    def source(self, task: Task, times: Sequence[float] | None = None, share: Any = None) -> PathSource:
        """The path of a training problem, at `times` where the method may choose them."""
        ...

    def shared(self, task: Task) -> Any:
        """What folds can share; None where nothing."""
        ...

    def weights(self, knot: Knot) -> tuple[Array, Array]:
        """Columns and coefficients that predict."""
        ...

    def judged(self, knot: Knot) -> tuple[Array, Array, Array]:
        """Columns, coefficients and intercept that validation looks at."""
        ...

    def candidates(self, task: Task) -> int:
        """How many pieces could be selected."""
        ...


def own_weights(knot: Knot) -> tuple[Array, Array]:
    """Columns and coefficients of a knot whose pieces are columns."""
    return np.array([atom[0] for atom in knot.atoms], dtype=np.intp), knot.coefficients


def largest_first(coefficients: Array) -> Array:
    """Rows that are not zero, by size."""
    size = np.linalg.norm(coefficients, axis=1)
    return np.argsort(-size, kind="stable")[: int(np.count_nonzero(size))]
