"""Who reaches the boundary next: the dual variables of an inverse scale space path, and how fast they move.

Along a path of f(b) = b'Hb/2 - q'b the dual rho moves with speed q - Hb, and a coefficient may move once its dual
has reached the boundary: +-1. Two ways to know the first who does: all of them at once where H is at hand
(`DenseDuals`), or, for many columns, exact values for a few and a safe bound for all others (`LazyDuals`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Design, column_sums
from tamis.solvers.held_columns import HeldColumns

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
STILL = 1e-12  # duals slower than this share of the fastest there could be never arrive
NO_LENGTH = 1e-13  # relative length below which a column is zero
CLOSE_BYTES = 2**28  # room for the columns that are watched exactly
TIES = 1e-11  # arrivals this close together, relative to the time, are one event


class Quadratic(Protocol):
    """f(b) = b'Hb/2 - q'b, with H positive semidefinite and known by blocks.

    `linear` is q, `diagonal` that of H, `unit` the size of a speed per unit of sqrt(H_jj).
    """

    @property
    def size(self) -> int:
        """How many coefficients."""
        ...

    @property
    def linear(self) -> Floats:
        """q."""
        ...

    @property
    def diagonal(self) -> Floats:
        """H_jj."""
        ...

    @property
    def unit(self) -> float:
        """The largest speed there could be, per unit of sqrt(H_jj)."""
        ...

    def block(self, rows: Any, columns: Any) -> Floats:
        """H[rows][:, columns]."""
        ...

    def speed(self, support: Indices, values: Floats) -> Floats:
        """q - H b for every coefficient."""
        ...


class Duals(Protocol):
    """What the event loop asks; `turn` comes after every change of the coefficients, `move` after every step in time."""

    size: int
    scale: Floats  # sqrt(H_jj)
    unit: float

    def products(self, columns: Any, support: Indices) -> Floats:
        """H[support, column] of one column."""
        ...

    def linear(self, columns: Any) -> Floats:
        """q on some columns."""
        ...

    def turn(self, support: Indices, values: Floats) -> None:
        """The coefficients have changed, so the speeds have."""

    def speed(self, columns: Any) -> Floats:
        """Speeds now."""
        ...

    def dual(self, columns: Any) -> Floats:
        """Duals now."""
        ...

    def first(self, time: float, waiting: Indices, settled: Indices) -> tuple[float, Indices]:
        """The time until the next arrival, and who arrives then; `settled` stay where they are, `waiting` must be known exactly."""
        ...

    def move(self, step: float) -> None:
        """Let time pass."""

    def fitted(self) -> bool:
        """Whether nothing moves any more."""
        ...

    def state(self) -> Floats:
        """What goes on from here."""
        ...


class GramQuadratic:
    """A quadratic whose matrix is at hand."""

    def __init__(self, matrix: Floats, linear: Floats, unit: float) -> None:
        self.matrix, self.linear, self.unit = np.asfortranarray(matrix), linear, unit
        self.size, self.diagonal = len(linear), np.ascontiguousarray(np.diag(matrix))

    def block(self, rows: Any, columns: Any) -> Floats:
        """H[rows][:, columns]; a single column comes as a vector."""
        return np.asarray(self.matrix[rows, columns] if np.ndim(columns) == 0 else self.matrix[np.ix_(rows, columns)])

    def speed(self, support: Indices, values: Floats) -> Floats:
        """q - H b."""
        return np.asarray(self.linear - self.matrix[:, support] @ values)


class ColumnQuadratic(GramQuadratic):
    """|y - X b|^2 / 2n with few enough rows that speeds are better taken from the residual, where no digits cancel."""

    def __init__(self, columns: Floats, target: Floats) -> None:
        rows = len(target)
        super().__init__(columns.T @ columns / rows, columns.T @ target / rows, float(np.linalg.norm(target)) / np.sqrt(rows))
        self.columns, self.target = columns, target

    def speed(self, support: Indices, values: Floats) -> Floats:
        """X'(y - X b)/n."""
        return np.asarray((self.target - self.columns[:, support] @ values) @ self.columns) / len(self.target)


def slowest(unit: float, scale: Floats) -> Floats:
    """Speeds that are rounding; those of columns of no length always are."""
    return np.where(scale > NO_LENGTH * scale.max(initial=0.0), STILL * unit * scale, np.inf)


class Boundary:
    """Which sides of the boundary a column has, and when its dual gets there."""

    def __init__(self, size: int, one_sided: Bools | None) -> None:
        self.lower = np.full(size, -1.0)
        if one_sided is not None:
            self.lower[one_sided] = -np.inf

    def arrival(self, dual: Floats, speed: Floats, slowest: Floats, columns: Any = slice(None)) -> Floats:
        """Time until each dual reaches the side it moves to; never where it stands still."""
        target = np.where(speed > 0, 1.0, self.lower[columns])
        wait = np.full(len(speed), np.inf)
        np.divide(target - dual, speed, out=wait, where=np.abs(speed) > slowest)
        return np.maximum(wait, 0.0)


class DenseDuals:
    """Every dual, moved at every event: one product with H per event."""

    def __init__(self, quadratic: Quadratic, one_sided: Bools | None = None, start: Floats | None = None) -> None:
        self.quadratic, self.size, self.unit = quadratic, quadratic.size, quadratic.unit
        self.scale = np.sqrt(np.maximum(quadratic.diagonal, 0.0))
        self._boundary = Boundary(self.size, one_sided)
        self._dual = np.zeros(self.size) if start is None else np.array(start, dtype=float)
        self._speed = np.array(quadratic.linear, dtype=float)
        self._slowest = slowest(self.unit, self.scale)

    def products(self, columns: Any, support: Indices) -> Floats:
        """H[support, column] of one column."""
        return self.quadratic.block(support, columns)

    def linear(self, columns: Any) -> Floats:
        """q on some columns."""
        return np.asarray(self.quadratic.linear[columns])

    def turn(self, support: Indices, values: Floats) -> None:
        """The coefficients have changed, so the speeds have."""
        self._speed = self.quadratic.speed(support, values)

    def speed(self, columns: Any) -> Floats:
        """Speeds now."""
        return np.asarray(self._speed[columns])

    def dual(self, columns: Any) -> Floats:
        """Duals now."""
        return np.asarray(self._dual[columns])

    def first(self, time: float, waiting: Indices, settled: Indices) -> tuple[float, Indices]:
        """The time until the next arrival, and who arrives then; everybody is known exactly here, also who is waiting."""
        del waiting
        wait = self._boundary.arrival(self._dual, self._speed, self._slowest)
        wait[settled] = np.inf
        step = float(wait.min(initial=np.inf))
        if not np.isfinite(step):
            return step, np.zeros(0, dtype=np.intp)
        return step, np.flatnonzero(wait <= step + TIES * max(time, step))

    def move(self, step: float) -> None:
        """Let time pass."""
        self._dual = self._dual + step * self._speed

    def fitted(self) -> bool:
        """Whether nothing moves any more."""
        return not np.any(np.abs(self._speed) > self._slowest)

    def state(self) -> Floats:
        """What `start` takes to go on from here."""
        return self._dual.copy()


class LazyDuals:
    """Exact duals for a few close columns, a safe bound for all others, one pass over all columns now and then.

    The dual of column j is x_j'R/n with R the integral of the residual r. From a reference (R0, r0) it has moved by
    (t - t0) x_j'r0/n, known for all columns, and by at most |x_j| |R - R0 - (t - t0) r0| / n more. Only columns which that
    bound lets reach the boundary are looked at.
    """

    def __init__(self, design: Design, target: Floats, one_sided: Bools | None = None, start: Floats | None = None) -> None:
        self.design, self.target = design, target
        self._rows, self.size = design.shape
        self.unit = float(np.linalg.norm(target)) / np.sqrt(self._rows)
        self._boundary = Boundary(self.size, one_sided)
        self._held = HeldColumns(design)
        self._close = HeldColumns(design)
        self._residual = np.array(target, dtype=float)
        self._total = np.zeros(self._rows) if start is None else np.array(start, dtype=float)
        self.scale = np.sqrt(column_sums(design, lambda block, _: np.einsum("ij,ij->j", block, block)) / self._rows)
        self._slowest = slowest(self.unit, self.scale)
        self._slack = self.scale / np.sqrt(self._rows)
        self._most = max(32, min(1024, self.size // 16, CLOSE_BYTES // (8 * self._rows)))
        self._linear: Floats = np.zeros(0)
        self._refresh()
        self._linear = design.score(target) / self._rows if start is not None else self._speed0.copy()

    # ---- the held columns ---------------------------------------------------------------------------------
    def products(self, columns: Any, support: Indices) -> Floats:
        """H[support, column] of one column."""
        self._held.keep(support)
        return np.asarray(self._held.all().T @ self._column(columns)) / self._rows

    def _column(self, column: int) -> Floats:
        if column in self._held.place:
            return self._held.one(column)
        self._close.add([column])
        return self._close.one(column)

    def linear(self, columns: Any) -> Floats:
        """q on some columns."""
        return np.asarray(self._linear[columns])

    def turn(self, support: Indices, values: Floats) -> None:
        """A new residual."""
        self._held.keep(support)
        self._residual = self.target - self._held.all() @ values
        self._fresh = False

    def speed(self, columns: Any) -> Floats:
        """x'r/n on held or close columns."""
        return self._along(columns, self._residual)

    def dual(self, columns: Any) -> Floats:
        """x'R/n on held or close columns."""
        return self._along(columns, self._total)

    def _along(self, columns: Any, rows: Floats) -> Floats:
        wanted = np.atleast_1d(columns)
        if len(wanted) and len(wanted) == self._held.count and np.array_equal(wanted, self._held.order()):
            return np.asarray(self._held.all().T @ rows) / self._rows
        self._close.add([int(j) for j in wanted if j not in self._held.place])
        return np.array([self._column(int(j)) @ rows for j in wanted]) / self._rows

    # ---- the next arrival ---------------------------------------------------------------------------------
    def first(self, time: float, waiting: Indices, settled: Indices) -> tuple[float, Indices]:
        """As in DenseDuals; columns are looked at until the bound excludes all others."""
        excluded = np.zeros(self.size, dtype=bool)
        excluded[settled] = True
        self._close.add([int(j) for j in waiting])
        step, hits = self._arrivals(time, excluded)
        soonest = self._soonest(excluded)
        while True:
            late = np.flatnonzero(soonest <= (step + 2 * TIES * max(time, step) if np.isfinite(step) else np.finfo(float).max))
            if not len(late):
                return step, hits
            if not self._fresh and self._close.count + len(late) > self._most:
                self._refresh()
                self._close.keep(np.unique(np.concatenate([waiting, self._nearest(excluded)])))
            else:
                if len(late) > self._most // 4:
                    late = late[np.argpartition(soonest[late], self._most // 4)[: self._most // 4]]
                self._close.add(late.tolist())
            step, hits = self._arrivals(time, excluded)
            soonest = self._soonest(excluded)

    def _arrivals(self, time: float, excluded: Bools) -> tuple[float, Indices]:
        """The first arrivals among the close columns, exactly."""
        close = self._close.order()
        close_free = ~excluded[close]
        if not close_free.any():
            return np.inf, np.zeros(0, dtype=np.intp)
        columns = self._close.all()
        speed, dual = (columns.T @ self._residual) / self._rows, (columns.T @ self._total) / self._rows
        wait = np.where(close_free, self._boundary.arrival(dual, speed, self._slowest[close], close), np.inf)
        step = float(wait.min())
        if not np.isfinite(step):
            return step, np.zeros(0, dtype=np.intp)
        return step, np.sort(close[wait <= step + TIES * max(time, step)])

    def _soonest(self, excluded: Bools) -> Floats:
        """A time before which no column can arrive, whatever its exact dual is; never for those excluded or known exactly."""
        away = self._slack * float(np.linalg.norm(self._total - self._total0 - self._since * self._residual0))
        faster = self._slack * float(np.linalg.norm(self._residual - self._residual0))
        dual, speed = self._dual0 + self._since * self._speed0, self._speed0
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(speed + faster > 0, (1.0 - away - dual) / (speed + faster), np.inf)
            down = np.where(faster - speed > 0, (dual - away - self._boundary.lower) / (faster - speed), np.inf)
        soonest = np.maximum(np.minimum(up, down), 0.0)
        soonest[np.abs(speed) + faster <= self._slowest] = np.inf
        soonest[excluded] = np.inf
        soonest[self._close.order()] = np.inf
        return np.asarray(soonest)

    def _nearest(self, excluded: Bools) -> Indices:
        """Columns that arrive soonest if nothing changes: worth watching from now on."""
        wait = self._boundary.arrival(self._dual0, self._speed0, self._slowest)
        wait[excluded] = np.inf
        count = min(self._most // 4, int(np.isfinite(wait).sum()))
        return np.asarray(np.argpartition(wait, count - 1)[:count] if count else np.zeros(0, dtype=np.intp))

    def _refresh(self) -> None:
        """A new reference: one pass over all columns for the duals and one for their speeds."""
        self._total0, self._residual0, self._since = self._total.copy(), self._residual.copy(), 0.0
        self._speed0 = np.asarray(self.design.score(self._residual)) / self._rows
        moved = bool(self._total.any())
        self._dual0 = np.asarray(self.design.score(self._total)) / self._rows if moved else np.zeros(self.size)
        self._fresh = True

    def move(self, step: float) -> None:
        """Let time pass."""
        self._total = self._total + step * self._residual
        self._since += step
        self._fresh = False

    def fitted(self) -> bool:
        """Whether the target is reproduced to rounding."""
        return float(np.linalg.norm(self._residual)) <= 1e-10 * float(np.linalg.norm(self.target))

    def state(self) -> Floats:
        """What `start` takes to go on from here."""
        return self._total.copy()
