"""The problem on a held set: minimise Omega(F)^2 / 2 + loss over the held conjunctions, to a certified gap.

Each round replaces the loss by its second-order model at the current scores (one Gram matrix), minimises
Omega^2 / 2 + model by majorise-minimise steps that never touch the rows, and searches along the way to that
minimum on the true objective, which therefore never rises. The dual norm on the held set tells when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from tamis.core.dual import balanced, best_scale
from tamis.core.loss import Targets
from tamis.core.structure import Held
from tamis.solvers.norm import first_eta, group_norms, inverse_curvature, omega, polish, pulls, row_sizes

Floats = NDArray[np.float64]


Moved = tuple[Floats, Floats, Floats, float]  # weights, intercepts, scores, and by how much the objective fell


class Penalty(Protocol):
    """A squared norm of the weights and the quadratic that majorises it."""

    def value(self, weights: Floats) -> float:
        """Half the squared norm."""
        ...

    def inverse(self, size: Floats) -> Floats:
        """1 / curvature of the majoriser at weights of these sizes."""
        ...


@dataclass(frozen=True)
class Hierarchical:
    """Omega^2 / 2."""

    held: Held
    rho: float

    def value(self, weights: Floats) -> float:
        """Of these weights."""
        return 0.5 * omega(self.held, weights, self.rho) ** 2

    def inverse(self, size: Floats) -> Floats:
        """1 / curvature of the majoriser at weights of these sizes."""
        return inverse_curvature(self.held, size, self.rho)


EFFECTIVE = 1e-5  # atoms below this share of the largest weight follow from their pull, outside the linear system
DENSE_CLASSES = 600  # up to this many unknowns several columns share one Newton system
GROWING = 1.02  # an atom whose size grows by more in a step has not arrived
HINGE_START, HINGE_SHRINK, HINGE_LAST = 0.5, 0.7, 1e-6


@dataclass(frozen=True)
class Point:
    """Weights on a held set with their objective, and the best dual point met on the way."""

    weights: Floats
    intercept: Floats
    value: float
    norm: float
    pull: Floats
    eta: Floats
    bound: float
    rounds: int = 0


def objective(held: Held, targets: Targets, weights: Floats, intercept: Floats, rho: float) -> tuple[float, float]:
    """(objective, Omega)."""
    norm = omega(held, weights, rho)
    return 0.5 * norm * norm + targets.value(held.columns.dot(None, weights) + intercept), norm


def solve_reduced(
    held: Held, targets: Targets, start: tuple[Floats, Floats], rho: float, slack: Callable[[float], float], *,
    eta: Floats | None = None, stop: Callable[[], bool] | None = None, rounds: int = 200,
    hopeful: bool = True,
) -> Point:  # fmt: skip
    """Minimise to within `slack(value)` of the best on the held set, or until nothing moves any more.

    A start that is not `hopeful` is improved before its gap is looked at.
    """
    weights, intercept = start
    score = held.columns.dot(None, weights) + intercept
    width, centre, best, stuck, fall, fallen = HINGE_START, np.array(0.0), None, 0, np.inf, 0.0
    for done in range(rounds):
        work = targets if targets.loss.smooth else targets.with_loss(targets.loss.smoothed(width, centre))
        pull = work.pull(score)
        # a round that still lowered the objective by more than the slack cannot have closed the gap: look later
        if best is None:
            look = hopeful or done > 0 or work is not targets
        else:
            look = work is not targets or not fall > slack(best.value - fallen) or done % 4 == 0
        if look:
            fallen = 0.0
            fine = max(1e-7, 0.1 * slack(best.value) / abs(best.value)) if best is not None and best.value else 1e-3
            best, here = certified(held, targets, work, (weights, intercept, score), pull, eta, best, rho, fine)
            best, eta = replace(best, rounds=done), best.eta
            gap = best.value - best.bound
            if gap <= slack(best.value):
                break
        if stop is not None and best is not None and stop():
            break
        least = _asleep(held, best, rho) if best is not None else None
        # next to nothing gained and the gap still open: some atom is too small for its pull, and on its slow way up
        wake = best is not None and fall <= slack(best.value)
        moved = newton_round(held, work, (weights, intercept, score), pull, Hierarchical(held, rho), least, wake=wake)
        stuck, fall = (0, moved[3]) if moved is not None else (stuck + 1, 0.0)
        fallen += fall
        weights, intercept, score = (weights, intercept, score) if moved is None else moved[:3]
        if work is not targets and (here <= 0.25 * gap or moved is None) and width > HINGE_LAST:
            centre = work.pull(score) * work.y / work.weight[:, None]
            width, stuck = max(width * HINGE_SHRINK, HINGE_LAST), 0
        if stuck > 2:
            break
    assert best is not None
    return best


def certified(
    held: Held, targets: Targets, work: Targets, model: tuple[Floats, Floats, Floats], pull: Floats, eta: Floats | None,
    best: Point | None, rho: float, fine: float = 1e-5,
) -> tuple[Point, float]:  # fmt: skip
    """The better of the best point so far and this one, primal and dual sides judged apart; and the gap of the smoothed problem."""
    weights, intercept, score = model
    norm = omega(held, weights, rho)
    value = 0.5 * norm * norm + targets.value(score)
    feasible = balanced(targets, pull)
    force = pulls(held, held.columns.score(targets.fold(feasible)))
    guess = first_eta(held, row_sizes(weights), rho)
    eta = guess if eta is None or len(eta) != len(guess) else 0.5 * (eta / eta.sum() + guess)
    limit, eta = polish(held, force, eta, rho, slack=fine)
    bound = best_scale(targets, feasible, limit)[0]
    here = value - bound
    if work is not targets:
        here = 0.5 * norm * norm + work.value(score) - best_scale(work, feasible, limit)[0]
    primal = (
        (weights, intercept, value, norm) if best is None or value <= best.value else (best.weights, best.intercept, best.value, best.norm)
    )
    dual = (feasible, eta, bound) if best is None or not bound <= best.bound else (best.pull, best.eta, best.bound)
    return Point(*primal, *dual), here


def newton_round(
    held: Held, work: Targets, at: tuple[Floats, Floats, Floats], pull: Floats, penalty: Penalty, least: Floats | None = None, *,
    wake: bool = False,
) -> Moved | None:  # fmt: skip
    """One model, its minimum, and a search toward it; None when the objective no longer falls.

    `least`: sizes from which the majoriser starts where the weights are smaller; it multiplies sizes, so an atom near
    zero that deserves a weight would need many rounds to reach it. To `wake` is to lift all that grow into the linear
    system at once; what does not deserve it leaves as fast.
    """
    weights, intercept, score = at
    size = row_sizes(weights)
    if least is not None:
        size = np.maximum(size, least)
    if not size.max(initial=0.0) > 0:
        size = np.where(held.silent, 0.0, 1e-3 / held.cost)  # scale-free: any positive size starts it
    force = held.columns.score(work.fold(pull))
    follow = _signed(held, penalty.inverse(size)[:, None] * force)
    grown, top = row_sizes(follow), size.max()
    if wake:
        size = np.where((grown > GROWING * np.maximum(size, 1e-12 * top)) & (grown < 2 * EFFECTIVE * top), 2 * EFFECTIVE * top, size)
    active = np.flatnonzero((np.maximum(size, grown) > EFFECTIVE * top) & ~held.silent)
    target = follow.copy()
    model = _Model.of(held, work, weights, intercept, score, pull, force, active)
    target[active], level = model.minimise(held, size, grown, penalty)
    return _search(held, work, at, (target - weights, level - intercept), penalty)


def _asleep(held: Held, best: Point, rho: float) -> Floats:
    """Sizes for atoms with hardly any weight whose group has a share of the dual norm: at the optimum eta_v Omega = d_v N_v."""
    norms = group_norms(held, row_sizes(best.weights), rho)
    wanted = best.eta * best.norm / held.cost
    return np.where((norms < 0.1 * wanted) & ~held.silent, wanted, 0.0)


def _signed(held: Held, weights: Floats) -> Floats:
    """Weights of the wrong sign put to zero."""
    if not held.sign.any():
        return weights
    return np.where((held.sign == 0)[:, None] | (held.sign[:, None] * weights > 0), weights, 0.0)


def _search(held: Held, work: Targets, at: tuple[Floats, Floats, Floats], move: tuple[Floats, Floats], penalty: Penalty) -> Moved | None:
    """Halve the step until the objective falls."""
    weights, intercept, score = at
    slope = held.columns.dot(None, move[0]) + move[1]
    now = penalty.value(weights) + work.value(score)
    step = 1.0
    while step > 1e-6:
        new = penalty.value(weights + step * move[0]) + work.value(score + step * slope)
        if new < now - 1e-15 * abs(now):
            return weights + step * move[0], intercept + step * move[1], score + step * slope, now - new
        step *= 0.5 if step > 0.1 else 0.25
    return None


@dataclass(frozen=True)
class _Model:
    """The second-order model of the loss in the active weights and the intercepts: x' M x / 2 - c' x.

    Unknowns are ordered class by class, each class's active weights followed by its intercept. `blocks` holds
    one matrix for all classes, or one per class when they are too many to share a system (a majoriser then).
    """

    active: NDArray[np.intp]
    blocks: list[Floats]
    right: list[Floats]
    columns: int

    @classmethod
    def of(
        cls, held: Held, work: Targets, weights: Floats, intercept: Floats, score: Floats, pull: Floats, force: Floats,
        active: NDArray[np.intp],
    ) -> _Model:  # fmt: skip
        curvature = work.curvature(score)
        columns = weights.shape[1]
        now = np.concatenate([weights[active], intercept[None]])
        slope = np.concatenate([force[active], pull.sum(axis=0)[None]])
        if columns == 1:
            if not curvature.any():  # Huber far from all its targets is flat to second order; its largest curvature leads back
                curvature = work.fold(work.weight[:, None])
            matrix = _bordered_gram(held, active, curvature[:, 0])
            return cls(active, [matrix], [matrix @ now[:, 0] + slope[:, 0]], 1)
        if len(now) * columns > DENSE_CLASSES:
            matrices = [_bordered_gram(held, active, np.ascontiguousarray(curvature[:, k, k])) for k in range(columns)]
            return cls(active, matrices, [m @ now[:, k] + slope[:, k] for k, m in enumerate(matrices)], columns)
        size = len(now)
        matrix = np.empty((columns * size, columns * size))
        for a in range(columns):
            for b in range(a + 1):
                block = _bordered_gram(held, active, np.ascontiguousarray(curvature[:, a, b]))
                matrix[a * size : (a + 1) * size, b * size : (b + 1) * size] = block
                matrix[b * size : (b + 1) * size, a * size : (a + 1) * size] = block
        return cls(active, [matrix], [matrix @ now.T.ravel() + slope.T.ravel()], columns)

    def minimise(self, held: Held, size: Floats, others: Floats, penalty: Penalty, steps: int = 30) -> tuple[Floats, Floats]:
        """Majorise-minimise on the model; `others` are the sizes of the atoms outside the system."""
        size = size.copy()
        idle = np.ones(len(size), dtype=bool)
        idle[self.active] = False
        size[idle] = others[idle]
        sign = held.sign[self.active]
        for _ in range(steps):
            root = np.sqrt(penalty.inverse(size)[self.active])
            solution = self._solve(root, sign)
            new = row_sizes(solution[:-1])
            old, top = size[self.active], new.max(initial=0.0)
            size[self.active] = new
            # a small atom that grows step by step is cheaper to follow here than in another round over the rows
            if np.abs(new - old).max(initial=0.0) <= 1e-3 * top and not np.any((new > GROWING * old) & (new > EFFECTIVE * top)):
                break
        return solution[:-1], solution[-1]

    def _solve(self, root: Floats, sign: NDArray[np.int8]) -> Floats:
        """The majoriser's minimum, (active + 1, columns); wrong-signed weights are dropped and the rest solved again."""
        for _ in range(4):
            scale = np.concatenate([root, [1.0]])
            ridge = np.concatenate([np.ones(len(root)), [0.0]])
            shared = len(self.blocks) == 1
            repeat = self.columns if shared else 1
            parts = [
                _positive_solve(block, right, np.tile(scale, repeat), np.tile(ridge, repeat))
                for block, right in zip(self.blocks, self.right, strict=True)
            ]
            solution = (parts[0] if shared else np.concatenate(parts)).reshape(self.columns, -1).T
            wrong = (sign != 0) & (sign * solution[:-1, 0] < 0) & (root > 0)
            if not wrong.any():
                return solution
            root = np.where(wrong, 0.0, root)
        return np.concatenate([_drop_wrong(solution[:-1], sign), solution[-1:]])


def _drop_wrong(weights: Floats, sign: NDArray[np.int8]) -> Floats:
    return np.where((sign == 0)[:, None] | (sign[:, None] * weights >= 0), weights, 0.0)


def _bordered_gram(held: Held, active: NDArray[np.intp], curvature: Floats) -> Floats:
    """Gram matrix of the active columns and a column of ones under row weights."""
    size = len(active)
    matrix = np.empty((size + 1, size + 1))
    matrix[:size, :size] = held.columns.gram(active, curvature)
    matrix[:size, size] = matrix[size, :size] = held.columns.score(curvature)[active]
    matrix[size, size] = curvature.sum()
    return matrix


def _positive_solve(matrix: Floats, right: Floats, scale: Floats, ridge: Floats) -> Floats:
    """x = scale * y with (ridge + scale matrix scale) y = scale right; a whisper of ridge keeps it positive definite."""
    system = scale[:, None] * matrix * scale
    diagonal = np.einsum("ii->i", system)
    diagonal += ridge + 1e-10 * max(float(np.abs(diagonal).max(initial=0.0)), 1e-300) * (ridge == 0)
    _, solution, failed = dposv(system, scale * right, lower=1, overwrite_a=1)
    if failed:
        solution = np.linalg.lstsq(scale[:, None] * matrix * scale + np.diag(ridge), scale * right, rcond=None)[0]
    return np.asarray(scale * solution)
