"""What a linear path claims, as plain arrays: its knots and the definition of the problem they answer; and what a recheck finds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.linear.recheck_gauge import WitnessGauge
from tamis.linear.recheck_rows import WitnessRows

Array = NDArray[Any]
SMALL_CELLS = 1_000_000  # up to which a transform is multiplied as a dense matrix


@dataclass(frozen=True)
class WitnessMatrix:
    """A sparse matrix by rows, with products of its own.

    Attributes
    ----------
    data, indices, indptr : ndarray
    columns : int
    """

    data: Array
    indices: Array
    indptr: Array
    columns: int

    def products(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """Functions of arrays (columns, k) and (rows, k): the matrix times, and its transpose times."""
        count = len(self.indptr) - 1
        rows = np.repeat(np.arange(count), np.diff(self.indptr))
        if count * self.columns <= SMALL_CELLS:
            dense = np.zeros((count, self.columns))
            np.add.at(dense, (rows, self.indices), self.data)
            return (lambda values: dense @ values), (lambda values: dense.T @ values)
        return _summed(rows, self.indices, self.data, count), _summed(self.indices, rows, self.data, self.columns)


def _summed(into: Array, out_of: Array, data: Array, count: int) -> Callable[[Array], Array]:
    """values -> sum of data * values[out_of] for every place in `into`."""
    order = np.argsort(into, kind="stable")
    places, starts = np.unique(into[order], return_index=True)
    source, factor = out_of[order], data[order][:, None]

    def times(values: Array) -> Array:
        total = np.zeros((count, values.shape[1]))
        if len(places):
            total[places] = np.add.reduceat(factor * values[source], starts, axis=0)
        return total

    return times


@dataclass(frozen=True)
class PathFacts:
    """A path and its problem, shared by the witnesses of all knots.

    Attributes
    ----------
    method : {"exact", "split", "damped", "split damped"}
    rows : WitnessRows
    times : ndarray (knots,)
    positions, values : tuples of ndarray
        Per knot, which columns (rows of the transform) it holds and their coefficients (held, scores), in own units.
    intercepts : ndarray (knots, scores)
    fit_intercept, standardize : bool
    loss, delta : str, float
    factors, one_sided : ndarray (columns,) or None
        Prices of columns and who may not be negative, for exact paths.
    gauge, kappa : WitnessGauge, float
        What damped paths are charged, and how little they are damped.
    t0, rate, steps, start : float, float, ndarray (knots,), str
        When something first moves, the rate of the intercept, the step each knot was reached with, and where split iterations begin.
    nu, transform, pieces, beta : float, WitnessMatrix, tuple of str, ndarray (knots, columns, scores)
        Of split paths: the coupling, D, the names of its rows, and the dense coefficients.
    """

    method: str
    rows: WitnessRows
    times: Array
    positions: tuple[Array, ...]
    values: tuple[Array, ...]
    intercepts: Array
    fit_intercept: bool = True
    standardize: bool = True
    loss: str = "squared"
    delta: float = 0.0
    factors: Array | None = None
    one_sided: Array | None = None
    gauge: WitnessGauge | None = None
    kappa: float = 0.0
    t0: float = math.inf
    rate: float = 0.0
    steps: Array | None = None
    start: str = "equilibrium"
    nu: float = 0.0
    transform: WitnessMatrix | None = None
    pieces: tuple[str, ...] = ()
    beta: Array | None = field(default=None, repr=False)

    def dense(self, knot: int, rows: int) -> Array:
        """A knot's coefficients over all columns, or all rows of the transform."""
        found = np.zeros((rows, self.intercepts.shape[1]))
        found[self.positions[knot]] = self.values[knot]
        return found


@dataclass
class Worst:
    """The largest violation seen so far, and what it is in words; NaN is larger than anything.

    `slack` is what rounding in the recheck itself can amount to.
    """

    value: float = 0.0
    words: str = ""
    slack: float = 0.0

    def see(self, value: float, say: Callable[[], str]) -> None:
        """Take note of a violation."""
        if not math.isnan(self.value) and not value <= self.value:
            self.value, self.words = float(value), say()

    def see_all(self, values: Array, say: Callable[[int, int], str]) -> None:
        """Take note of the largest in a matrix; the words are made from its row and column."""
        if not values.size:
            return
        flat = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        i, j = divmod(flat, values.shape[1])
        self.see(float(values[i, j]), lambda: say(i, j))


@dataclass
class Budget:
    """How much work a replay may be: iterations, and seconds of this process."""

    iterations: int
    seconds: float
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.process_time() + self.seconds

    def spend(self, iterations: int) -> bool:
        """Whether there was so much left."""
        self.iterations -= iterations
        return self.iterations >= 0 and time.process_time() <= self._until
