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
from tamis.solvers.bregman_blocks import Moves, Trace

Array = NDArray[Any]
LEAF = 48
PIECES, CROWD = 8, 8  # a stretch is cut into pieces to clear most rows in doubt at once, when there are more than so many
MANY = 0.1  # share of all rows that are cheaper to look at by a product with all columns than by fetching theirs
Product = Callable[[Array], tuple[Array, Array]]  # of all columns with row vectors, and its blur
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


@dataclass(frozen=True)
class Ends:
    """The dual of every row before and after a block; `blur` is how far either may be off per unit of a column's norm, per class.

    `anchor` gives the exact dual before the block of some rows with their columns.
    """

    start: Array
    end: Array
    blur: Array | None = None
    anchor: Callable[[Array, Array], Array] | None = None


def first_crossing(
    trace: Trace,
    guard: Guard,
    norms: Array,
    ends: Ends,
    outside: Array,
    columns: Callable[[Array], Array],
    product: Product | None = None,
) -> int | None:
    """The first step at which a row marked `outside` breaks the guard's rule; None if none is.

    Parameters
    ----------
    trace : Trace
    guard : Guard
        On all rows.
    norms : array
        Weighted column norms.
    ends : Ends
    outside : array of bool
        Rows that the block did not iterate on.
    columns : callable
        The columns of some rows, as a matrix.
    product : callable, optional
        Products of all columns, by which a block is halved as long as many rows are in doubt.
    """
    none = np.zeros(ends.start.shape[1])
    stack = [(0, trace.length, ends.start, ends.end, none if ends.blur is None else ends.blur)]
    while stack:
        first, last, start, end, blur = stack.pop()
        suspects = np.flatnonzero(outside & guard.doubtful(norms, trace.bow(first, last) + blur, start, end))
        if product is not None and len(suspects) > MANY * len(norms) and last - first > 2:
            middle = _middle(trace, first, last)
            change, more = product(trace.pulls(np.array([middle]))[:, :, 0])
            between, blurred = ends.start + change, np.maximum(blur, (none if ends.blur is None else ends.blur) + more)
            stack += [(middle, last, between, end, blurred), (first, middle, start, between, blurred)]
            continue
        found = _among(suspects, trace, guard, norms, ends, columns, (first, last)) if len(suspects) else None
        if found is not None:
            return found
    return None


def _among(
    suspects: Array, trace: Trace, guard: Guard, norms: Array, ends: Ends, columns: Callable[[Array], Array], stretch: tuple[int, int]
) -> int | None:
    """The first crossing among some rows, by their columns."""
    matrix = columns(suspects)
    origin = ends.start[suspects] if ends.anchor is None else ends.anchor(suspects, matrix)
    cuts = _cuts(trace, *stretch) if len(suspects) > CROWD else np.array(stretch)
    pulls = trace.pulls(cuts)
    duals = origin[:, :, None] + (matrix.T @ pulls.reshape(len(pulls), -1)).reshape(len(suspects), *pulls.shape[1:])
    part, each = guard.restrict(suspects), norms[suspects]
    doubt = [part.doubtful(each, trace.bow(*cuts[i : i + 2]), duals[:, :, i], duals[:, :, i + 1]) for i in range(len(cuts) - 1)]
    keep = np.flatnonzero(np.any(doubt, axis=0))
    if not len(keep):
        return None
    if len(keep) < len(suspects):
        part, each = part.restrict(keep), each[keep]
    moves = trace.moves(matrix.T[keep])
    for i in np.flatnonzero(np.any(doubt, axis=1)):
        piece = (int(cuts[i]), int(cuts[i + 1]), duals[keep, :, i], duals[keep, :, i + 1])
        found = _search(trace, part, each, moves, origin[keep], piece)
        if found is not None:
            return found
    return None


def _cuts(trace: Trace, first: int, last: int) -> Array:
    """Ends of some pieces of a stretch, where bows are cheap; none shorter than what would be looked at step by step."""
    apart = max(LEAF // trace.stride, -(-(last - first) // (PIECES * trace.stride))) * trace.stride
    inside = np.arange(first // apart + 1, (last - 1) // apart + 1) * apart
    return np.concatenate([[first], inside, [last]])


def _middle(trace: Trace, first: int, last: int) -> int:
    middle = (first + last) // 2
    near = middle // trace.stride * trace.stride
    return near if first < near else middle


def _search(trace: Trace, guard: Guard, norms: Array, moves: Moves, origin: Array, piece: tuple[int, int, Array, Array]) -> int | None:
    """Depth first, earlier stretches first; `origin` is the dual at step 0."""

    def dual_at(rows: Array, steps: Array) -> Array:
        return np.asarray(origin[rows][:, :, None] + moves(rows, steps))

    stack = [(*piece, np.arange(len(norms)), guard)]
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
        middle = _middle(trace, first, last)
        between = dual_at(rows, np.array([middle]))[:, :, 0]
        stack += [(middle, last, between, end, rows, part), (first, middle, start, between, rows, part)]
    return None
