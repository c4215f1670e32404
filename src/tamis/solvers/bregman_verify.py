"""Whether rows that were left out of a block would have moved, decided for every one of them and every iteration.

Between two iterations the dual of a row is within (norm of its column) * (bow of the trace) of its chord. Where chord and bow leave no
doubt nothing is computed; the few rows in doubt are looked at on ever shorter stretches, and in the end iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.structure import Gauge
from tamis.solvers.bregman_blocks import Trace

Array = NDArray[Any]
LEAF = 48
SAFE = 1.0 - 1e-11


@dataclass(frozen=True)
class Guard:
    """What must stay below 1: the reach of rows that are out, and twice the threshold less the dual of rows that are in.

    Attributes
    ----------
    sign : array, optional
        The sign of rows that are in (single entries, one class), 0 for rows that are out.
    """

    gauge: Gauge
    sign: Array | None = None

    def reach(self, dual: Array) -> Array:
        """Above 1 where a row that is out would enter, or one that is in would leave."""
        reach = self.gauge.reach(dual)
        if self.sign is None:
            return reach
        weight = self.gauge.weight
        inverse = np.divide(self.sign, weight, out=np.zeros_like(weight), where=weight > 0)
        inside = np.where(weight > 0, 2.0, 0.0).reshape(-1, *(1 for _ in dual.shape[2:]))
        held = (self.sign != 0).reshape(inside.shape)
        return np.where(held, inside - inverse.reshape(inside.shape) * dual[:, 0], reach)

    def doubtful(self, norms: Array, bow: Array, start: Array, end: Array) -> NDArray[np.bool_]:
        """Rows that might break the rule somewhere between start and end."""
        slack = self.gauge.reach(norms[:, None] * bow[None, :])
        return np.asarray(np.maximum(self.reach(start), self.reach(end)) + slack >= SAFE)

    def restrict(self, rows: Array) -> Guard:
        """The same on some rows."""
        return Guard(self.gauge.restrict(rows), None if self.sign is None else self.sign[rows])


def first_crossing(
    trace: Trace, guard: Guard, norms: Array, start: Array, end: Array, outside: Array, columns: Callable[[Array], Array]
) -> int | None:
    """The first step at which a row marked `outside` breaks the guard's rule; None if none is.

    Parameters
    ----------
    trace : Trace
    guard : Guard
        On all rows.
    norms, start, end : arrays
        Weighted column norms, and the dual of every row before and after.
    outside : array of bool
        Rows that the block did not iterate on.
    columns : callable
        The columns of some rows, as a matrix.
    """
    suspects = np.flatnonzero(outside & guard.doubtful(norms, trace.bow(0, trace.length), start, end))
    if not len(suspects):
        return None
    part = guard.restrict(suspects)
    return _search(trace, part, norms[suspects], columns(suspects).T, start[suspects], (0, trace.length, start[suspects], end[suspects]))


def _search(trace: Trace, guard: Guard, norms: Array, across: Array, origin: Array, whole: tuple[int, int, Array, Array]) -> int | None:
    """Depth first, earlier stretches first."""

    def dual_at(rows: Array, steps: Array) -> Array:
        pulls = trace.pulls(steps)
        moved = across[rows] @ pulls.reshape(len(pulls), -1)
        return origin[rows][:, :, None] + moved.reshape(len(rows), *pulls.shape[1:])

    stack = [(*whole, np.arange(len(norms)), guard)]
    while stack:
        first, last, start, end, rows, part = stack.pop()
        keep = np.flatnonzero(part.doubtful(norms[rows], trace.bow(first, last), start, end))
        if not len(keep):
            continue
        rows, start, end = rows[keep], start[keep], end[keep]
        part = part if len(keep) == len(part.gauge.weight) else part.restrict(keep)
        if last - first <= LEAF:
            steps = np.arange(first + 1, last + 1)
            above = part.reach(dual_at(rows, steps)).max(axis=0) > 1.0
            if above.any():
                return int(steps[int(above.argmax())])
            continue
        middle = (first + last) // 2
        between = dual_at(rows, np.array([middle]))[:, :, 0]
        stack += [(middle, last, between, end, rows, part), (first, middle, start, between, rows, part)]
    return None
