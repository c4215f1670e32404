"""The walk along the iterates: blocks on a working set, each verified for all other rows before it counts.

The state is the iteration number and the pull (minus the time integral of the loss gradient per row of the data): every dual, and
with it every coefficient, is the design's score of the pull, so nothing else needs to be carried, stored or resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Design
from tamis.core.errors import TamisError
from tamis.core.structure import Gauge
from tamis.solvers.bregman_blocks import HISTORY_BYTES, GramTrace, Pace, Pool, Trace, gram_steps, row_steps
from tamis.solvers.bregman_jump import jump
from tamis.solvers.bregman_verify import Guard, first_crossing

Array = NDArray[Any]
SHORTEST, LONGEST = 8, 2048
ANCHORED = 512  # duals are computed afresh from the rows at least this often, which takes back what rounding added
SMALL_CELLS, SMALL_ROWS, SMALL_GRAM = 60_000, 64, 160  # below these, working on all rows costs no more than choosing some
SHORTEST_JUMP, LARGEST_JUMP = 64, 500
OVERHEAD_CELLS = 40_000  # what an iteration costs beyond its products, in numbers read
WORTH, TRUSTED = 8, 3  # a block's iterations may cost this many verifications after a miss, and this many times more without
AHEAD = 1.0  # newcomers are expected this many blocks ahead


@dataclass(frozen=True)
class Course:
    """What stays fixed along one walk.

    Attributes
    ----------
    base : array of shape (rows of theta, classes)
        The dual where nothing has pulled yet: theta / kappa of the free rows, 0 elsewhere.
    intercept, origin : arrays
        The intercept and the pull at time t0.
    norms : array
        Weighted norms of the columns.
    """

    design: Design
    loss: Any
    y: Array
    weight: Array
    gauge: Gauge
    pace: Pace
    base: Array
    intercept: Array
    origin: Array
    norms: Array

    def dual(self, pull: Array) -> Array:
        """The dual of every row of theta."""
        return np.asarray(self.base + self.design.score(pull))

    def eta(self, pull: Array) -> Array:
        """The intercept, which follows the sum of the pull."""
        if not self.pace.intercept_rate:
            return self.intercept
        return np.asarray(self.intercept + self.pace.intercept_rate * (pull - self.origin).sum(axis=0))


@dataclass(frozen=True)
class Stretch:
    """A verified block: iterations `first` to `last`, on some rows; `quiet` says that no other row is above its threshold at `last`."""

    first: int
    last: int
    rows: Array
    columns: Array
    pull: Array
    trace: Trace
    quiet: bool

    def pull_at(self, iteration: int) -> Array:
        """The pull at an iteration of the block."""
        return np.asarray(self.pull + self.trace.pulls(np.array([iteration - self.first]))[:, :, 0])


class Walk:
    """Blocks of iterations, one after the other, from a state on."""

    def __init__(self, course: Course, pool: Pool, iteration: int, pull: Array) -> None:
        self.course, self.pool = course, pool
        self.iteration, self.pull = iteration, pull
        rows, columns = course.design.shape
        cells, entries = rows * course.base.size, course.base.size
        squared = course.loss.name == "squared"
        self.whole = cells <= SMALL_CELLS or entries <= SMALL_ROWS or (squared and columns <= SMALL_GRAM)
        self.squared = squared and (not self.whole or columns**2 <= 2 * cells)
        self.dual = course.dual(pull)
        self.length = ANCHORED if self.whole else 2 * SHORTEST
        self.slope: Array | None = None
        self.margin = 0.005
        self.missed = np.zeros(0, dtype=np.intp)
        self.loss, self.level = np.inf, 0.0
        self.jumps = squared and course.gauge.separable
        self.still, self.leap = 0, 0
        self.near = np.zeros(0, dtype=np.intp)

    def _rows(self) -> Array:
        """Rows above their threshold, and those that may get there soon at the speed they have."""
        gauge = self.course.gauge
        if self.whole:
            return np.arange(len(self.dual))
        if self.slope is None:
            eta, pace = self.course.eta(self.pull), self.course.pace
            theta = pace.kappa * gauge.shrink(self.dual)
            used = np.flatnonzero(theta.any(axis=1))
            score = self.pool.columns(used) @ theta[used] + eta
            self.slope = -pace.alpha * self.course.design.score(self.course.loss.gradient(score, self.course.y, self.course.weight))
        soon = gauge.reach(self.dual + AHEAD * self.length * self.slope)
        near = (gauge.reach(self.dual) >= 1.0 - self.margin) | (soon >= 1.0) | (gauge.weight == 0)
        near[self.missed] = True
        return np.flatnonzero(near)

    def _trace(self, rows: Array, columns: Array, steps: int) -> Trace:
        course = self.course
        gauge = course.gauge if self.whole else course.gauge.restrict(rows)
        dual, eta, data = self.dual[rows], course.eta(self.pull), (course.loss, course.y, course.weight)
        pace = replace(course.pace, traced=not self.whole)
        self._descend(columns, course.pace.kappa * gauge.shrink(dual), eta)
        if self.squared:
            products = self.pool.products(rows, bool(course.pace.intercept_rate))
            return gram_steps(products, columns, dual, eta, steps, pace, gauge, data)
        return row_steps(columns, dual, eta, steps, pace, gauge, data)

    def _descend(self, columns: Array, theta: Array, eta: Array) -> None:
        """The loss never rises along the iterates; if it did, the step would be at fault and nothing that follows would be true."""
        used = np.flatnonzero(theta.any(axis=1))
        loss = self.course.loss.value(columns.T[used].T @ theta[used] + eta, self.course.y, self.course.weight)
        self.level = max(self.level, abs(loss))
        if not loss <= self.loss + 1e-10 * min(self.level, abs(self.loss)) + 1e-13 * self.level:
            raise TamisError(
                f"The loss rose from {self.loss:.9g} to {loss:.9g} at iteration {self.iteration}, which a stable step cannot do, so the "
                "path ends here; standardise the columns, or give a smaller alpha."
            )
        self.loss = min(loss, self.loss)

    def advance(self, goal: int) -> Stretch:
        """Run one block towards an iteration, verify it, and stand at its end."""
        if self.jumps and goal - self.iteration > SHORTEST_JUMP and self._settled():
            return self._jump(goal)
        course, rows = self.course, self._rows()
        width = len(rows) + 1 if self.squared else self.pull.size
        steps = max(2, min(self.length, goal - self.iteration, HISTORY_BYTES // (8 * width)))
        columns = self.pool.columns(rows)
        trace = self._trace(rows, columns, steps)
        end = self.pull + trace.pulls(np.array([steps]))[:, :, 0]
        dual = course.dual(end)
        done, quiet = steps, True
        if not self.whole:
            outside = np.ones(len(dual), dtype=bool)
            outside[rows] = False
            crossing = first_crossing(trace, Guard(course.gauge), course.norms, self.dual, dual, outside, self.pool.peek)
            if crossing is not None:
                done, quiet = crossing, False
                self.missed = np.flatnonzero(course.gauge.reach(dual) >= 1.0) if done < steps else self.missed[:0]
                if done < steps:
                    end = self.pull + trace.pulls(np.array([done]))[:, :, 0]
                    dual = course.dual(end)
            self._adapt(done, steps, len(rows))
            self.slope = (dual - self.dual) / done
        self._note_support(rows, trace, done)
        stretch = Stretch(self.iteration, self.iteration + done, rows, columns, self.pull, trace, quiet)
        self.iteration, self.pull, self.dual = stretch.last, end, dual
        return stretch

    def _note_support(self, rows: Array, trace: Trace, done: int) -> None:
        """For how many iterations the support has been what it is."""
        self.near = rows
        if self.jumps and isinstance(trace, GramTrace):
            active = np.diff(trace.sums[: done + 1], axis=0)[:, : len(rows)] != 0
            changed = (active != active[-1]).any(axis=1)
            self.still = int(changed[::-1].argmax()) if changed.any() else self.still + done

    def _settled(self) -> bool:
        """Whether the support has been the same for as many iterations as its eigenvectors are worth."""
        size = int((self.course.gauge.shrink(self.dual) != 0).sum())
        return 0 < size <= LARGEST_JUMP and self.still > SHORTEST_JUMP + 10 * size**3 // (OVERHEAD_CELLS + size**2 // 2)

    def _jump(self, goal: int) -> Stretch:
        """As many iterations as the support may live, in closed form; the first to enter or leave ends it."""
        course = self.course
        theta = course.pace.kappa * course.gauge.shrink(self.dual)
        rows = np.flatnonzero((theta[:, 0] != 0) | (course.gauge.weight == 0))
        columns, eta = self.pool.columns(rows), course.eta(self.pull)
        self._descend(columns, theta[rows], eta)
        self.leap = max(8 * SHORTEST_JUMP, 4 * self.leap)
        steps = min(self.leap, goal - self.iteration)
        products = self.pool.products(rows, bool(course.pace.intercept_rate))
        trace = jump(products, columns, theta[rows], eta, steps, course.pace, course.y, course.weight)
        guard = Guard(course.gauge, np.sign(theta[:, 0]))
        near = np.union1d(rows, self.near)  # who is nearest to change is asked first, on few columns
        beside = self.pool.columns(near)
        moved = beside.T @ trace.pulls(np.array([steps]))[:, :, 0]
        start = self.dual[near]
        done = first_crossing(
            trace, guard.restrict(near), course.norms[near], start, start + moved, np.ones(len(near), bool), lambda some: beside[:, some]
        )  # fmt: skip
        quiet, trace = done is None, replace(trace, length=done or steps)
        end, dual = self._arrive(trace, trace.length)
        outside = np.ones(len(dual), dtype=bool)
        outside[near] = False
        other = first_crossing(trace, guard, course.norms, self.dual, dual, outside, self.pool.peek)
        if other is not None:
            quiet = False
            if other < trace.length:
                trace = replace(trace, length=other)
                end, dual = self._arrive(trace, other)
        if not quiet:
            self.still, self.leap, self.slope = 0, 0, None
        stretch = Stretch(self.iteration, self.iteration + trace.length, rows, columns, self.pull, trace, quiet)
        self.iteration, self.pull, self.dual = stretch.last, end, dual
        return stretch

    def _arrive(self, trace: Trace, steps: int) -> tuple[Array, Array]:
        """Pull and dual after some steps of a trace."""
        end = self.pull + trace.pulls(np.array([steps]))[:, :, 0]
        return end, self.course.dual(end)

    def _adapt(self, done: int, steps: int, held: int) -> None:
        """Longer blocks while they succeed; when somebody was missed, one whose iterations cost about as much as its verification."""
        each = OVERHEAD_CELLS + (held**2 // 2 if self.squared else 2 * self.pull.size * held)
        worth = WORTH * self.course.design.shape[1] * self.pull.size // each
        if done == steps:
            longest = min(LONGEST, max(self.length, TRUSTED * worth))
            self.length, self.margin = min(longest, max(self.length, int(1.5 * steps))), max(1e-4, 0.8 * self.margin)
            self.missed = self.missed[:0]
        else:
            self.length, self.margin = min(int(0.7 * self.length), worth), min(0.1, 1.5 * self.margin)
        self.length = max(self.length, SHORTEST)
