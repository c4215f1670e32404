"""The exact inverse scale space path of a quadratic: coefficients constant between events, duals linear.

    rho' = q - H b,   rho in the subdifferential of ||b||_1,   rho(0) = 0.

At an event some duals reach +-1 and b becomes the least squares solution among coefficients that have the sign of
their dual (zeros allowed) where the dual is +-1, and are zero elsewhere. Time t corresponds to 1 / alpha of a lasso.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.solvers.cholesky import Factor
from tamis.solvers.duals import Duals

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
GAIN = 1e-9  # a column joins only where it would gain more than this share of what any could
INSIDE = 1e-9  # a dual this far inside the boundary has left it
LONG = 1e3  # steps longer than this, in units of the problem, are looked at for drift
DRIFT = 1e-11  # duals of the support further than this from the boundary at the end of a long step are brought back


@dataclass(frozen=True)
class Event:
    """What holds from time `t` until the next event: the coefficients, and the boundary they live on."""

    t: float
    support: Indices
    values: Floats
    resting: Indices  # on the boundary with coefficient zero
    signs: Floats  # of the support, then of the resting

    def dense(self, size: int) -> Floats:
        """All coefficients."""
        values = np.zeros(size)
        values[self.support] = self.values
        return values


@dataclass
class InverseScale:
    """The event loop.

    Parameters
    ----------
    duals : Duals
        The quadratic, and where its duals are.
    t_end : float
        Stop before the first event later than this.
    most : int or None
        Stop once so many coefficients are in.
    stop : callable
        Asked after every event.

    Attributes
    ----------
    status : str
        "running", then "complete" (nothing moves any more), "size", "time", or "asked".
    """

    duals: Duals
    t_end: float = np.inf
    most: int | None = None
    stop: Callable[[], bool] = lambda: False
    status: str = "running"
    time: float = 0.0
    support: list[int] = field(default_factory=list)
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sign: dict[int, float] = field(default_factory=dict)  # of everyone on the boundary

    def __post_init__(self) -> None:
        self._factor = Factor()
        self._tolerance = GAIN * self.duals.unit * self.duals.scale

    def resume(self, event: Event) -> None:
        """Stand where an event left; the duals must stand there, too."""
        self.time, self.support, self.values = event.t, event.support.tolist(), event.values.copy()
        everyone = np.concatenate([event.support, event.resting]).tolist()
        self.sign = dict(zip(everyone, event.signs.tolist(), strict=True))
        for i, column in enumerate(self.support):
            head = np.array(self.support[:i], dtype=np.intp)
            if not self._factor.append(self.duals.products(column, head), float(self.duals.scale[column]) ** 2):
                raise TamisError("The saved path does not fit these data, so it cannot be gone on with; fit again.")
        self.duals.turn(np.array(self.support, dtype=np.intp), self.values)

    def events(self) -> Iterator[Event]:
        """Every event after the present time, in order."""
        last: Event | None = None
        while not self._ended():
            waiting = self._resting()
            signs = np.array([self.sign[int(j)] for j in waiting])
            pressed = waiting[signs * self.duals.speed(waiting) > -self._tolerance[waiting]] if len(waiting) else waiting
            settled = np.concatenate([np.array(self.support, dtype=np.intp), pressed])
            step, hits = self.duals.first(self.time, waiting, settled)
            if last is not None:
                if np.isfinite(step) and self._held_straight(step):
                    last = replace(last, values=self.values.copy())
                    step, hits = self.duals.first(self.time, waiting, settled)
                yield last
                if self.stop():
                    self.status = "asked"
                    return
            if not np.isfinite(step) or self.time + step > self.t_end:
                self.status = "time" if np.isfinite(step) else "complete"
                return
            last = self._event(step, hits, waiting)
        if last is not None:
            yield last

    def _ended(self) -> bool:
        """Whether the path is over at this time."""
        if self.duals.fitted():
            self.status = "complete"
        elif self.most is not None and len(self.support) >= self.most:
            self.status = "size"
        return self.status != "running"

    def _resting(self) -> Indices:
        """Who is on the boundary without a coefficient."""
        held = set(self.support)
        return np.array([j for j in self.sign if j not in held], dtype=np.intp)

    def _held_straight(self, step: float) -> bool:
        """Rounding lets duals of the support drift over a very long step; coefficients that bring them back at its end."""
        if not step * self.duals.unit * self.duals.scale.max(initial=0.0) > LONG or not self.support:
            return False
        columns = np.array(self.support, dtype=np.intp)
        drift = self.duals.dual(columns) + step * self.duals.speed(columns) - np.array([self.sign[j] for j in self.support])
        if not np.abs(drift).max() > DRIFT:
            return False
        self.values = self.values + self._factor.solve(drift / step)
        self.duals.turn(columns, self.values)
        return True

    def _event(self, step: float, hits: Indices, waiting: Indices) -> Event:
        """Let time pass, change the boundary, and fit again on it."""
        # who arrives is told by the speed, for after a tie the dual itself may lie a rounding short of the boundary
        arrived = np.sign(self.duals.speed(hits))
        self.duals.move(step)
        self.time += step
        if len(waiting):
            inside = waiting[np.abs(self.duals.dual(waiting)) < 1.0 - INSIDE]
            for j in inside.tolist():
                del self.sign[j]
        self.sign.update(zip(hits.tolist(), arrived.tolist(), strict=True))
        self._settle()
        support = np.array(self.support, dtype=np.intp)
        resting = self._resting()
        signs = np.array([self.sign[int(j)] for j in (*support, *resting)])
        return Event(self.time, support, self.values.copy(), resting, signs)

    # ---- least squares with given signs -----------------------------------------------------------------
    def _settle(self) -> None:
        """Lawson and Hanson's method, warm from the present support; columns that the held ones reproduce are left out."""
        refused: set[int] = set()
        for _ in range(10 * len(self.sign) + 50):
            held = set(self.support)
            free = [j for j in self.sign if j not in held and j not in refused]
            if not free:
                return
            columns = np.array(free, dtype=np.intp)
            gain = np.array([self.sign[j] for j in free]) * self.duals.speed(columns)
            gains = gain > self._tolerance[columns]
            if not gains.any():
                return
            # earlier columns win ties, so that the path does not depend on the order of rounding
            worth = np.where(gains, gain / np.where(gains, self.duals.scale[columns], 1.0), -np.inf)
            best = free[int(np.flatnonzero(worth >= worth.max() * (1 - 1e-10)).min())]
            products = self.duals.products(best, np.array(self.support, dtype=np.intp))
            if not self._factor.append(products, float(self.duals.scale[best]) ** 2):
                refused.add(best)
                continue
            self.support.append(best)
            self.values = np.append(self.values, 0.0)
            refused = self._walk(best) or (refused if self.support[-1:] != [best] else set())
        raise TamisError(
            f"The signs of {len(self.sign)} coefficients at t = {self.time:.6g} did not settle, so the path ends there; "
            "standardise the columns, or leave out columns that nearly repeat others."
        )

    def _walk(self, entered: int) -> set[int]:
        """Go to the solution on the support; who would change sign on the way leaves it. The entered column, if it left at once."""
        left: set[int] = set()
        while self.support:
            columns = np.array(self.support, dtype=np.intp)
            target = self._solution(columns)
            wrong = np.array([self.sign[j] for j in self.support]) * target <= 0
            if not wrong.any():
                self.values = target
                self.duals.turn(columns, target)
                return left
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(wrong, self.values / np.where(self.values == target, 1.0, self.values - target), np.inf)
            share = min(1.0, max(0.0, float(ratio.min())))
            out = wrong & (ratio <= share * (1 + 1e-12) + 1e-300)
            left = {entered} if self.support[-1] == entered and out[-1] else set()
            self.values = (self.values + share * (target - self.values))[~out]
            for position in np.flatnonzero(out)[::-1].tolist():
                self._factor.remove(position)
                del self.support[position]
        self.duals.turn(np.zeros(0, dtype=np.intp), np.zeros(0))
        return left

    def _solution(self, columns: Indices) -> Floats:
        """Least squares on the columns, with one step of refinement where rounding shows."""
        found = self._factor.solve(self.duals.linear(columns))
        self.duals.turn(columns, found)
        rest = self.duals.speed(columns)
        if np.any(np.abs(rest) > 1e-5 * self._tolerance[columns]):
            found = found + self._factor.solve(rest)
            self.duals.turn(columns, found)
        return found
