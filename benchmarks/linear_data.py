"""Designs of the linear benchmarks, made by code: long and wide paths, recovery of coefficients, split signals.

Everything is drawn with numpy's default generator, whose streams are the same under every numpy that takes part;
`checksum` lets a block say that all its cells saw the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Problem:
    """Rows, columns, nonzeros of a path problem, and what its target is."""

    rows: int
    columns: int
    nonzeros: int
    classes: bool = False
    real: bool = False

    @property
    def label(self) -> str:
        """In words."""
        kind = "diabetes data" if self.real else f"AR(.5), {self.nonzeros} nonzeros" + (", two classes" if self.classes else ", SNR 3")
        return f"{self.rows:,} x {self.columns:,} ({kind})".replace(",0", " 0")


PROBLEMS = {
    "wide": Problem(1000, 10_000, 50),
    "tall": Problem(10_000, 1000, 50),
    "logistic": Problem(1000, 5000, 30, classes=True),
    "small-80": Problem(80, 100, 10),
    "small-200": Problem(200, 20, 5),
    "small-442": Problem(442, 10, 10, real=True),
}


def autoregressive(rows: int, columns: int, rng: np.random.Generator, share: float = 0.5) -> Array:
    """Standard normal columns, each correlated by `share` with the one before."""
    X = rng.standard_normal((rows, columns)).T.copy()
    for j in range(1, columns):
        X[j] = share * X[j - 1] + np.sqrt(1 - share**2) * X[j]
    return np.asfortranarray(X.T)


def standardized(X: Array) -> Array:
    """Columns centred, of mean square 1."""
    X = X - X.mean(axis=0)
    return np.asfortranarray(X / np.sqrt((X * X).mean(axis=0)))


def path_problem(name: str, state: int = 0) -> tuple[Array, Array]:
    """Columns centred and of mean square 1, and a centred target, or classes -1 and 1."""
    problem, rng = PROBLEMS[name], np.random.default_rng(state)
    if problem.real:
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return standardized(X), y - y.mean()
    X = standardized(autoregressive(problem.rows, problem.columns, rng))
    coefficients = np.zeros(problem.columns)
    chosen = rng.choice(problem.columns, problem.nonzeros, replace=False)
    coefficients[chosen] = rng.choice([-1, 1], problem.nonzeros) * rng.uniform(1, 2, problem.nonzeros)
    signal = X @ coefficients
    if problem.classes:
        return X, np.where(rng.random(problem.rows) < 1 / (1 + np.exp(-signal)), 1.0, -1.0)
    y = signal + rng.standard_normal(problem.rows) * signal.std() / np.sqrt(3)
    return X, y - y.mean()


@dataclass(frozen=True)
class Recovery:
    """A design in which coefficients are to be found again."""

    label: str
    rows: int
    columns: int
    nonzeros: int
    sigma: float
    shared: bool  # equal correlation 1/(3p) of all pairs; else AR(.5)


RECOVERY = {
    "slides": Recovery("n 200, p 100, 30 nonzeros, every correlation 1/(3p), sigma 1", 200, 100, 30, 1.0, True),
    "ar-1": Recovery("n 200, p 500, 20 nonzeros, AR(.5), sigma 1", 200, 500, 20, 1.0, False),
    "ar-3": Recovery("n 200, p 500, 20 nonzeros, AR(.5), sigma 3", 200, 500, 20, 3.0, False),
}


def recovery(name: str, state: int) -> tuple[Array, Array, Array]:
    """Columns centred and of mean square 1, target, and the true coefficients on that scale: sign(u) + u, u normal."""
    design, rng = RECOVERY[name], np.random.default_rng(state)
    if design.shared:
        level = 1 / (3 * design.columns)
        own, common = rng.standard_normal((design.rows, design.columns)), rng.standard_normal((design.rows, 1))
        X = np.sqrt(1 - level) * own + np.sqrt(level) * common
    else:
        X = autoregressive(design.rows, design.columns, rng)
    X = standardized(X)
    truth, drawn = np.zeros(design.columns), rng.standard_normal(design.nonzeros)
    place = np.arange(design.nonzeros) if design.shared else rng.choice(design.columns, design.nonzeros, replace=False)
    truth[place] = np.sign(drawn) + drawn
    return X, X @ truth + design.sigma * rng.standard_normal(design.rows), truth


def split_problem(state: int) -> tuple[Array, Array, Array]:
    """50 x 50 standard normal columns, three runs of five equal coefficients, noise 1."""
    rng, truth = np.random.default_rng(state), np.zeros(50)
    truth[7:12], truth[20:25], truth[32:37] = -2, 2, -2
    X = rng.standard_normal((50, 50))
    return X, X @ truth + rng.standard_normal(50), truth


def transform(name: str) -> Array:
    """D: the identity, or first differences above it."""
    identity = np.eye(50)
    return identity if name == "identity" else np.vstack([identity[:-1] - np.eye(50, k=1)[:-1], identity])


def checksum(*arrays: Array) -> float:
    """A number that differs when the data does."""
    return round(float(sum(np.abs(array).sum() + array.sum() / 3 for array in arrays)), 6)
