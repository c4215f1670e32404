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
from tamis.solvers.bregman_blocks import HISTORY_BYTES, GramTrace, Pace, RowTrace, Trace, gram_steps, row_steps
from tamis.solvers.bregman_jump import jump
from tamis.solvers.bregman_pool import LINE, Held, Pool, Screen
from tamis.solvers.bregman_verify import Ends, Guard, first_crossing

Array = NDArray[Any]
SHORTEST, LONGEST = 8, 2048
ANCHORED = 512  # duals are computed afresh from the rows at least this often, which takes back what rounding added
SMALL_CELLS, SMALL_ROWS, SMALL_GRAM = 60_000, 64, 160  # below these, working on all rows costs no more than choosing some
MANY = 64  # products among more rows than this are read line by line of memory
SHORTEST_JUMP, LARGEST_JUMP = 64, 500
OVERHEAD_CELLS = 40_000  # what an iteration costs beyond its products, in numbers read
WORTH, TRUSTED = 8, 3  # a block's iterations may cost this many verifications after a miss, and this many times more without
BLUR, BENT = 2e-3, 2e-4  # thresholds are 1: duals are computed afresh when further off, and not at all for stretches less bent
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
    screen : Screen
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
    screen: Screen

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
    held: Held
    pull: Array
    trace: Trace
    quiet: bool

    def pull_at(self, iteration: int) -> Array:
        """The pull at an iteration of the block."""
        return np.asarray(self.pull + self.trace.pulls(np.array([iteration - self.first]))[:, :, 0])


class Walk:
    """Blocks of iterations, one after the other, from a state on.

    The dual of every row is kept up to a `blur`, per class and unit of a column's norm; where that leaves a doubt, and for the rows that
    are worked on, it is computed afresh from the pull.
    """

    def __init__(self, course: Course, pool: Pool, iteration: int, pull: Array) -> None:
        self.course, self.pool = course, pool
        self.iteration, self.pull = iteration, pull
        rows, columns = course.design.shape
        cells, entries = rows * course.base.size, course.base.size
        squared = course.loss.name == "squared"
        self.whole = cells <= SMALL_CELLS or entries <= SMALL_ROWS or (squared and columns <= SMALL_GRAM)
        self.squared = squared and (not self.whole or columns**2 <= 2 * cells)
        self.dual, self.blur = course.dual(pull), np.zeros(course.base.shape[1])
        self.length = ANCHORED if self.whole else 2 * SHORTEST
        self.slope: Array | None = None
        self.margin = 0.005
        self.missed = np.zeros(0, dtype=np.intp)
        self.loss, self.level = np.inf, 0.0
        self.jumps = squared and course.gauge.separable
        self.still, self.leap = 0, 0
        self.near = np.zeros(0, dtype=np.intp)

    def _exact(self, rows: Array, held: Held) -> Array:
        """The dual of some rows, afresh where it is blurred."""
        if not self.blur.any():
            return np.asarray(self.dual[rows])
        return np.asarray(self.course.base[rows] + held.score(self.pull))

    def _possible(self) -> Array:
        """The most that the reach of every row can be."""
        reach = self.course.gauge.reach(self.dual)
        return np.asarray(reach + self.course.gauge.reach(self.course.norms[:, None] * self.blur) if self.blur.any() else reach)

    def _rows(self) -> Array:
        """Rows above their threshold, and those that may get there soon at the speed they have."""
        gauge = self.course.gauge
        if self.whole:
            return np.arange(len(self.dual))
        if self.slope is None:
            eta, pace = self.course.eta(self.pull), self.course.pace
            theta = pace.kappa * gauge.shrink(self.dual)
            used = np.flatnonzero(theta.any(axis=1))
            score = self.pool.held(used).dot(theta[used]) + eta
            self.slope = self.course.screen.score(-pace.alpha * self.course.loss.gradient(score, self.course.y, self.course.weight))[0]
        soon = gauge.reach(self.dual + AHEAD * self.length * self.slope)
        near = (self._possible() >= 1.0 - self.margin) | (soon >= 1.0) | (gauge.weight == 0)
        near[self.missed] = True
        return self._filled(near, soon)

    def _filled(self, near: NDArray[np.bool_], soon: Array) -> Array:
        """The rows, joined by those that come next until their products fill whole lines of memory."""
        rows = np.flatnonzero(near)
        count = -(len(rows) + (self.course.pace.intercept_rate > 0)) % LINE
        if not (self.squared and self.course.gauge.separable and MANY < len(rows) < len(near) - count):
            return rows
        left = np.where(near | ~np.isfinite(self.course.gauge.weight), -1.0, soon)
        return np.union1d(rows, np.argpartition(left, -count)[-count:]) if count else rows

    def _trace(self, rows: Array, held: Held, steps: int) -> RowTrace | GramTrace:
        course = self.course
        gauge = course.gauge if self.whole else course.gauge.restrict(rows)
        dual, eta, data = self._exact(rows, held), course.eta(self.pull), (course.loss, course.y, course.weight)
        pace = replace(course.pace, traced=not self.whole)
        self._descend(held, course.pace.kappa * gauge.shrink(dual), eta)
        if self.squared:
            products = self.pool.products(rows, bool(course.pace.intercept_rate))
            return gram_steps(products, held, dual, eta, steps, pace, gauge, data)
        return row_steps(held.matrix, dual, eta, steps, pace, gauge, data)

    def _descend(self, held: Held, theta: Array, eta: Array) -> None:
        """The loss never rises along the iterates; if it did, the step would be at fault and nothing that follows would be true."""
        loss = self.course.loss.value(held.dot(theta) + eta, self.course.y, self.course.weight)
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
        held = self.pool.held(rows)
        trace = self._trace(rows, held, steps)
        done, quiet, start = steps, True, self.dual
        pull, dual, blur = self._arrive(trace, steps)
        if not self.whole:
            outside = np.ones(len(dual), dtype=bool)
            outside[rows] = False
            crossing = first_crossing(
                trace, Guard(course.gauge), course.norms, self._ends(dual, blur), outside, self.pool.peek, course.screen.score
            )
            if crossing is not None:
                done, quiet = crossing, False
                self.missed = np.flatnonzero(course.gauge.reach(dual) >= 1.0) if done < steps else self.missed[:0]
                if done < steps:
                    pull, dual, blur = self._cut(trace, done, dual, blur)
            self._adapt(done, steps, len(rows))
            self.slope = (dual - start) / done
        self.still = 0 if done < steps else trace.steady + (self.still if trace.steady == steps else 0)
        self.near = rows
        return self._stand(Stretch(self.iteration, self.iteration + done, rows, held, self.pull, trace, quiet), pull, dual, blur)

    def _stand(self, stretch: Stretch, pull: Array, dual: Array, blur: Array) -> Stretch:
        """Stand at the end of a verified stretch."""
        self.iteration, self.pull, self.dual, self.blur = stretch.last, pull, dual, blur
        if blur.any() and float(self.course.gauge.reach(self.course.norms[:, None] * blur).max()) > BLUR:
            self.dual, self.blur = self.course.dual(pull), np.zeros_like(blur)
        return stretch

    def _ends(self, dual: Array, blur: Array) -> Ends:
        """Duals before and after, and how to know those before better."""
        if not blur.any():
            return Ends(self.dual, dual)
        return Ends(self.dual, dual, blur, lambda rows, columns: self.course.base[rows] + columns.T @ self.pull)

    def _settled(self) -> bool:
        """Whether the support has been the same for as many iterations as its eigenvectors are worth."""
        size = int((self.course.gauge.shrink(self.dual) != 0).sum())
        return 0 < size <= LARGEST_JUMP and self.still > SHORTEST_JUMP + 10 * size**3 // (OVERHEAD_CELLS + size**2 // 2)

    def _jump(self, goal: int) -> Stretch:
        """As many iterations as the support may live, in closed form; the first to enter or leave ends it."""
        course = self.course
        # who is nearest to change is asked first, on few columns
        near = np.union1d(np.flatnonzero((self._possible() >= 1.0) | (course.gauge.weight == 0)), self.near)
        beside, start = self.pool.held(near), np.array(self.dual)
        start[near] = self._exact(near, beside)
        self.dual = start
        theta = course.pace.kappa * course.gauge.shrink(start)
        rows = np.flatnonzero((theta[:, 0] != 0) | (course.gauge.weight == 0))
        held, eta = self.pool.held(rows), course.eta(self.pull)
        self._descend(held, theta[rows], eta)
        self.leap = max(8 * SHORTEST_JUMP, 4 * self.leap)
        steps = min(self.leap, goal - self.iteration)
        products = self.pool.products(rows, bool(course.pace.intercept_rate))
        trace = jump(products, held, theta[rows], eta, steps, course.pace, course.y, course.weight)
        guard = Guard(course.gauge, np.sign(theta[:, 0]))
        moved = beside.score(trace.pulls(np.array([steps]))[:, :, 0])
        done = first_crossing(
            trace, guard.restrict(near), course.norms[near], Ends(start[near], start[near] + moved), np.ones(len(near), bool), beside.take
        )  # fmt: skip
        quiet, trace = done is None, replace(trace, length=done or steps)
        pull, dual, blur = self._arrive(trace, trace.length)
        outside = np.ones(len(dual), dtype=bool)
        outside[near] = False
        other = first_crossing(trace, guard, course.norms, self._ends(dual, blur), outside, self.pool.peek, course.screen.score)
        if other is not None:
            quiet = False
            if other < trace.length:
                pull, dual, blur = self._cut(trace, other, dual, blur)
                trace = replace(trace, length=other)
        if not quiet:
            self.still, self.leap, self.slope = 0, 0, None
        return self._stand(Stretch(self.iteration, self.iteration + trace.length, rows, held, self.pull, trace, quiet), pull, dual, blur)

    def _arrive(self, trace: Trace, steps: int) -> tuple[Array, Array, Array]:
        """Pull, dual and blur after some steps of a trace."""
        moved = trace.pulls(np.array([steps]))[:, :, 0]
        if self.course.screen.light is None:
            return self.pull + moved, self.course.dual(self.pull + moved), np.zeros_like(self.blur)
        change, blur = self.course.screen.score(moved)
        return self.pull + moved, self.dual + change, self.blur + blur

    def _cut(self, trace: Trace, done: int, dual: Array, blur: Array) -> tuple[Array, Array, Array]:
        """The same for a part of a trace whose whole leads to a dual that is known: on the chord, when the trace is nearly straight."""
        bow = trace.bow(0, trace.length)
        if self.course.screen.light is None or float(self.course.gauge.reach(self.course.norms[:, None] * bow).max()) > BENT:
            return self._arrive(trace, done)
        share = done / trace.length
        return self.pull + trace.pulls(np.array([done]))[:, :, 0], (1.0 - share) * self.dual + share * dual, blur + bow

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
