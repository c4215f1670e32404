"""Slow and obvious versions of what split inverse scale space does: dense matrices, loops, no shortcuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from tamis.core.loss import Huber

CUT = 1e-12


@dataclass(frozen=True)
class Entry:
    """The plainest gauge: absolute values."""

    def shrink(self, dual: Any) -> Any:
        return dual - np.clip(dual, -1.0, 1.0)

    def dual_norm(self, values: Any) -> float:
        return float(np.abs(values).max(initial=0.0))


@dataclass(frozen=True)
class Rows:
    """One row over all classes is one piece."""

    def shrink(self, dual: Any) -> Any:
        length = np.linalg.norm(dual, axis=1, keepdims=True)
        return dual * np.maximum(0.0, 1.0 - 1.0 / np.maximum(length, 1e-300))

    def dual_norm(self, values: Any) -> float:
        return float(np.linalg.norm(values, axis=1).max(initial=0.0))


class DenseSplit:
    """Sigma, q and beta from a dense pseudo-inverse."""

    def __init__(self, X: Any, y: Any, D: Any, nu: float) -> None:
        self.X, self.y, self.D, self.nu, self.n = X, y, D, nu, len(y)
        self.K = np.linalg.pinv(nu * X.T @ X / self.n + D.T @ D, rcond=CUT, hermitian=True)
        sigma = (np.eye(len(D)) - D @ self.K @ D.T) / nu
        self.matrix = (sigma + sigma.T) / 2
        self.linear = D @ self.K @ (X.T @ y) / self.n
        self.unit = float(np.sqrt(self.linear @ np.linalg.pinv(self.matrix, rcond=1e-10, hermitian=True) @ self.linear))

    def beta(self, gamma: Any) -> Any:
        return self.K @ (self.nu * self.X.T @ self.y / self.n + self.D.T @ gamma)

    def least(self, gamma: Any) -> float:
        """min over beta of L(beta, gamma), found by least squares on stacked rows and not through K."""
        A = np.vstack([self.X / np.sqrt(self.n), self.D / np.sqrt(self.nu)])
        b = np.concatenate([self.y / np.sqrt(self.n), gamma / np.sqrt(self.nu)])
        beta = np.linalg.lstsq(A, b, rcond=1e-12)[0]
        return 0.5 * float(np.sum((A @ beta - b) ** 2))


def slow_path(model: Any, tolerance: float = 1e-9) -> tuple[Any, Any]:
    """Knots and coefficients, one column per knot, of rho' = q - Sigma gamma; only asks for size, linear, diagonal, unit, block, speed."""
    size = model.size
    scale = np.sqrt(np.maximum(model.diagonal, 0.0))
    small = tolerance * model.unit * scale
    rho, sign, edge, support, values, t = np.zeros(size), np.zeros(size), set(), [], np.zeros(0), 0.0
    times, found = [0.0], [np.zeros(size)]
    speed = model.speed(support, values)
    while len(support) < size:
        with np.errstate(all="ignore"):
            wait = np.where((scale > 1e-13 * scale.max()) & (np.abs(speed) > 1e-5 * small), (np.sign(speed) - rho) / speed, np.inf)
        wait[support + [j for j in edge - set(support) if sign[j] * speed[j] > -small[j]]] = np.inf
        step = wait.min()
        if not np.isfinite(step):
            break
        hits = np.flatnonzero(wait <= step + 1e-11 * max(t, step))
        t, rho = t + step, rho + step * speed
        rho[support] = sign[support]
        edge = {j for j in edge if j in support or abs(rho[j]) >= 1 - 1e-9} | {int(j) for j in hits}
        rho[hits] = sign[hits] = np.sign(rho[hits])
        support, values, speed = signed_fit(model, edge, sign, support, values, small)
        gamma = np.zeros(size)
        gamma[support] = values
        times.append(t)
        found.append(gamma)
    return np.array(times), np.array(found).T


def signed_fit(model: Any, edge: set[int], sign: Any, support: list[int], values: Any, small: Any) -> tuple[list[int], Any, Any]:
    """The minimum of the quadratic with given signs on the edge and zeros elsewhere."""
    support, values, refused = list(support), np.array(values, float), set()
    for _ in range(10 * len(edge) + 50):
        speed = model.speed(support, values)
        free = [j for j in edge if j not in support and j not in refused]
        gain = np.array([sign[j] * speed[j] / max(small[j], 1e-300) for j in free])
        if not free or gain.max() <= 1:
            return support, values, speed
        new = free[int(gain.argmax())]
        H = model.block([*support, new], [*support, new])
        if H[-1, -1] - (H[:-1, -1] @ np.linalg.solve(H[:-1, :-1], H[:-1, -1]) if support else 0.0) <= 1e-12 * H[-1, -1]:
            refused.add(new)
            continue
        support, values = [*support, new], np.append(values, 0.0)
        while support:
            H = model.block(support, support)
            target = np.linalg.solve(H, model.linear[support])
            target += np.linalg.solve(H, model.speed(support, target)[support])
            bad = sign[support] * target <= 0
            if not bad.any():
                values = target
                break
            ratio = np.where(bad, values / np.where(values == target, 1.0, values - target), np.inf)
            share = min(1.0, max(0.0, ratio.min()))
            drop = bad & (ratio <= share * (1 + 1e-12) + 1e-300)
            refused = {new} if drop[-1] and support[-1] == new else set()
            values = (values + share * (target - values))[~drop]
            support = [k for k, out in zip(support, drop, strict=True) if not out]
    raise RuntimeError("signs did not settle")


def entries(times: Any, found: Any) -> Any:
    """When each row first differs from zero."""
    return np.array([times[np.flatnonzero(row)[0]] if row.any() else np.inf for row in found])


def area(first: Any, truth: Any) -> float:
    """Area under the curve of the order of entry."""
    true, false = first[truth][:, None], first[~truth][None]
    return float(((true < false) + 0.5 * (true == false)).mean())


def loss_gradient(name: str, score: Any, y: Any, weight: Any) -> Any:
    """Gradients at scores, written down a second time."""
    error = {
        "squared": lambda: score - y,
        "huber": lambda: np.clip(score - y, -Huber().delta, Huber().delta),
        "squared_hinge": lambda: -y * np.maximum(0.0, 1.0 - y * score),
        "logistic": lambda: -y * expit(-y * score),
        "multinomial": lambda: softmax(score, axis=1) - y,
        "poisson": lambda: np.exp(score) - y,
    }[name]()
    return weight[:, None] * error


@dataclass
class PlainLoop:
    """(11a-c) as they stand, on dense arrays."""

    name: str
    X: Any
    y: Any
    weight: Any
    D: Any
    nu: float
    kappa: float
    gauge: Any

    def run(self, alpha: float, steps: int, beta: Any, intercept: Any, z: Any, free_constant: bool) -> list[tuple[Any, Any, Any, Any]]:
        """(beta, intercept, gamma, z) of every iterate; the first has gamma = 0."""
        gamma = np.zeros_like(z)
        found = [(beta, intercept, gamma, z)]
        for _ in range(steps):
            pull = loss_gradient(self.name, self.X @ beta + intercept, self.y, self.weight)
            d = (gamma - self.D @ beta) / self.nu
            beta = beta - self.kappa * alpha * (self.X.T @ pull - self.D.T @ d)
            if free_constant:
                intercept = intercept - self.kappa * alpha * pull.sum(axis=0)
            z = z - alpha * d
            gamma = self.kappa * self.gauge.shrink(z)
            found.append((beta, intercept, gamma, z))
        return found


def targets(name: str, score: Any, rng: Any) -> Any:
    """Targets of a loss around scores, as core.loss encodes them."""
    if name in ("logistic", "squared_hinge"):
        return np.where(rng.random(score.shape) < expit(score), 1.0, -1.0)
    if name == "multinomial":
        return np.eye(score.shape[1])[[rng.choice(score.shape[1], p=softmax(row)) for row in score]]
    if name == "poisson":
        return rng.poisson(np.exp(np.clip(score, -3, 2))).astype(float)
    return score + 0.5 * rng.standard_normal(score.shape)
