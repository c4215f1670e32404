"""The data term of split linearised Bregman iterations: its value and gradient, how curved it can be, and where it starts.

A model is a matrix A (columns of X and, for the intercept, a column of ones), a loss, targets and weights that sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.core.errors import TamisError
from tamis.solvers.split_normal import Inverse, normal_inverse, spectral_norm

Floats = NDArray[np.float64]
CURVATURE = {"squared": 1.0, "huber": 1.0, "squared_hinge": 1.0, "logistic": 0.25, "multinomial": 0.5}  # largest, per unit weight
GRAM_LIMIT = 4000  # columns up to which the squared loss runs on A'WA
SETTLED = 1e-9  # gradient, relative to what it is made of; one more Newton step follows
RUNAWAY = 1e-6  # a Newton step that still moves scores by this share where the gradient is gone: there is no minimum
ROUNDS, HALVINGS, CG_ROUNDS, CG_SETTLED = 100, 50, 500, 1e-8
FADING = ("logistic", "multinomial", "poisson")  # never flat, but ever flatter on the way to infinity


@dataclass(frozen=True)
class Smooth:
    """The weighted loss of A @ free; `free` is (columns, classes), the intercept its last row."""

    A: Any
    loss: Any
    y: Floats
    weight: Floats

    def __post_init__(self) -> None:
        if self.loss.name not in CURVATURE and self.loss.name != "poisson":
            raise TamisError(
                f"loss={self.loss.name!r} has no bounded smooth gradient, so split Bregman iterations cannot follow it; "
                f"use one of {sorted([*CURVATURE, 'poisson'])}."
            )

    @property
    def bounded(self) -> bool:
        """Whether one curvature bound holds everywhere."""
        return self.loss.name in CURVATURE

    @cached_property
    def zero(self) -> Floats:
        """No coefficients."""
        return np.zeros((self.A.shape[1], self.y.shape[1]))

    @cached_property
    def worth(self) -> float:
        """Size of the loss at no coefficients: what rounding in values is measured by."""
        return abs(self.value_at(np.zeros_like(self.y)))

    @cached_property
    def force(self) -> float:
        """Size of the terms whose sums are gradients: what rounding in gradients is measured by."""
        pull = np.abs(self.loss.gradient(np.zeros_like(self.y), self.y, self.weight))
        return float((abs(self.A).T @ pull).max(initial=0.0))

    @cached_property
    def _normal(self) -> tuple[Floats, Floats, float] | None:
        """A'WA, A'Wy and half y'Wy of a squared loss with few columns."""
        rows, columns = self.A.shape
        if self.loss.name != "squared" or columns > min(rows, GRAM_LIMIT):
            return None
        weighted = _by_rows(self.A, self.weight)
        gram = weighted.T @ self.A
        gram = np.asarray(gram.toarray() if sparse.issparse(gram) else gram)
        return (gram + gram.T) / 2, np.asarray(weighted.T @ self.y), 0.5 * float(np.sum(self.weight[:, None] * self.y**2))

    def value_at(self, score: Floats) -> float:
        """The loss at scores; score columns of all but the multinomial loss are problems of their own, added up."""
        if self.y.shape[1] == 1 or self.loss.name == "multinomial":
            return float(self.loss.value(score, self.y, self.weight))
        each = range(self.y.shape[1])
        return sum(float(self.loss.value(score[:, [j]], self.y[:, [j]], self.weight)) for j in each)

    def value(self, free: Floats) -> float:
        """The loss."""
        return self.both(free)[0] if self._normal is not None else self.value_at(self.A @ free)

    def both(self, free: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        if self._normal is not None:
            gram, linear, constant = self._normal
            gradient = gram @ free - linear
            return 0.5 * float(np.vdot(free, gradient - linear)) + constant, gradient
        score = self.A @ free
        return self.value_at(score), np.asarray(self.A.T @ self.loss.gradient(score, self.y, self.weight))

    def row_bound(self, free: Floats) -> Floats:
        """Per row, weight times the largest curvature of the loss; for counts a guess that holds until rates outgrow it."""
        if self.bounded:
            return CURVATURE[self.loss.name] * self.weight
        mean = float(self.weight @ self.y.sum(axis=1)) / float(self.weight.sum()) / self.y.shape[1]
        with np.errstate(over="ignore"):
            rate = np.maximum(np.maximum(self.y, mean), np.exp(self.A @ free))
        return np.asarray(self.weight * rate.max(axis=1))

    def curvature_norm(self, free: Floats) -> float:
        """Largest eigenvalue of A' diag(row bound) A."""
        return spectral_norm(_by_rows(self.A, np.sqrt(self.row_bound(free)))) ** 2


def _by_rows(A: Any, factor: Floats) -> Any:
    """diag(factor) A."""
    return sparse.csr_array(sparse.diags_array(factor) @ A) if sparse.issparse(A) else factor[:, None] * A


def equilibrium(part: Smooth, D: Any, nu: float) -> Floats:
    """argmin of the loss plus ||D free||^2 / (2 nu): Newton steps, each solved by the factorisations of the exact model."""
    free = part.zero.copy()
    value, gradient = _penalised(part, D, nu, free)
    for _ in range(ROUNDS):
        if not np.any(gradient):
            return free
        score = part.A @ free
        curvature = np.asarray(part.loss.curvature(score, part.y, part.weight))
        solvers = _by_class(part, D, nu, curvature)
        step = -_newton_solve(part, D, nu, (curvature, solvers), gradient)
        still = np.abs(part.A @ step).max() <= RUNAWAY * (1.0 + np.abs(score).max())
        if still and np.abs(gradient).max() <= SETTLED * part.force:
            if part.loss.name in FADING and min(each.rank for each in solvers) < _bounding(part, D, nu, free).rank:
                break
            return free + step
        taken = _backtracked(part, D, nu, free, step, (value, float(np.vdot(gradient, step))))
        if taken is None and part.bounded:  # flat pieces of a Huber loss can mislead a Newton step; the bound's step never rises
            step = -nu * _bounding(part, D, nu, free).solve(gradient)
            taken = _backtracked(part, D, nu, free, step, (value, float(np.vdot(gradient, step))))
        if taken is None:
            break
        free = taken
        value, gradient = _penalised(part, D, nu, free)
    raise TamisError(
        "The targets can be fitted ever better by coefficients that the transform does not see (such as classes that a line separates), "
        "so there is no equilibrium to start from; use start='zero', or add the identity to the transform."
    )


def _penalised(part: Smooth, D: Any, nu: float, free: Floats) -> tuple[float, Floats]:
    value, gradient = part.both(free)
    coupled = D @ free
    return value + 0.5 * float(np.vdot(coupled, coupled)) / nu, gradient + D.T @ coupled / nu


def _bounding(part: Smooth, D: Any, nu: float, free: Floats) -> Inverse:
    """The inverse under the largest curvature of the loss."""
    return normal_inverse(_by_rows(part.A, np.sqrt(part.row_bound(free))), D, nu)


def _backtracked(part: Smooth, D: Any, nu: float, free: Floats, step: Floats, here: tuple[float, float]) -> Floats | None:
    """free + a share of the step that lowers the value enough, if any; `here` is value and slope along the step."""
    value, slope = here
    slack = 1e-14 * (part.worth + abs(value))
    share = 1.0
    for _ in range(HALVINGS):
        trial = free + share * step
        coupled = D @ trial
        there = part.value(trial) + 0.5 * float(np.vdot(coupled, coupled)) / nu
        if there <= value + 1e-4 * share * slope + slack:
            return np.asarray(trial)
        share *= 0.5
    return None


def _by_class(part: Smooth, D: Any, nu: float, curvature: Floats) -> list[Inverse]:
    """(nu A' diag(curvature of one class) A + D'D)^+ for each class, or once if they are equal."""
    own = curvature if curvature.ndim == 2 else np.einsum("ijj->ij", curvature)
    same = bool(np.all(own == own[:, :1]))
    return [normal_inverse(_by_rows(part.A, np.sqrt(own[:, j])), D, nu) for j in range(1 if same else own.shape[1])]


def _newton_solve(part: Smooth, D: Any, nu: float, bent: tuple[Floats, list[Inverse]], gradient: Floats) -> Floats:
    """Hessian^+ gradient: directly class by class, and for coupled classes by conjugate gradients with that as preconditioner.

    A multinomial loss does not see what all classes have in common, and starting from zero nothing is: it is taken out of every
    vector, or rounding in that direction would grow.
    """
    curvature, solvers = bent

    def apart(right: Floats) -> Floats:
        return nu * np.column_stack([solvers[j % len(solvers)].solve(right[:, j]) for j in range(right.shape[1])])

    if curvature.ndim == 2:
        return apart(gradient)

    def differing(values: Floats) -> Floats:
        return np.asarray(values - values.mean(axis=1, keepdims=True))

    solution, residual = np.zeros_like(gradient), differing(gradient)
    direction = ready = differing(apart(residual))
    power = first = float(np.vdot(residual, ready))
    for _ in range(CG_ROUNDS):
        if power <= CG_SETTLED**2 * first:
            break
        turned = part.A.T @ np.einsum("ijk,ik->ij", curvature, part.A @ direction) + D.T @ (D @ direction) / nu
        along = float(np.vdot(direction, turned))
        if along <= 0:
            break
        solution = solution + power / along * direction
        residual = differing(residual - power / along * turned)
        ready = differing(apart(residual))
        power, before = float(np.vdot(residual, ready)), power
        direction = ready + power / before * direction
    return solution
