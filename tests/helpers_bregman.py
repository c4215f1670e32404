"""Linearised Bregman iterations written as they are defined: dense, slow, and every piece of the gauge in a Python loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tamis.core.design import Dense, Sparse, Standardized
from tamis.core.loss import Huber, Logistic, Multinomial, Poisson, Squared
from tamis.solvers.bregman import BregmanProblem, LinearizedBregman
from tamis.structures.gauges import Block, Column, Entry, Group

LOSSES = {loss.name: loss for loss in (Squared(), Huber(1.0), Poisson(), Logistic(), Multinomial())}


def shrunk(dual: Any, pieces: list[tuple[Any, float]]) -> Any:
    """The proximal map of the gauge, piece by piece; a piece is (mask over entries, weight)."""
    result = np.zeros_like(dual)
    for mask, weight in pieces:
        length = np.sqrt((dual[mask] ** 2).sum())
        if length > weight:
            result[mask] = dual[mask] * (1 - weight / length)
    return result


def pieces_of(kind: str, rows: int, classes: int, weights: Any = None) -> list[tuple[Any, float]]:
    """Masks and weights of every piece of the gauges in `gauge_of`."""
    found = []
    for row in range(rows):
        for k in range(classes):
            mask = np.zeros((rows, classes), dtype=bool)
            if kind in ("group", "group1"):
                mask[np.arange(rows) // 3 == row // 3, k] = True
            elif kind == "block":
                mask[np.arange(rows) % 5 == row % 5] = True
            elif kind == "column":
                mask[row] = True
            else:
                mask[row, k] = True
            if np.flatnonzero(mask)[0] == row * classes + k:
                default = np.sqrt(mask.sum()) if kind in ("group", "block") else 1.0
                found.append((mask, default if weights is None else weights[row]))
    return found


def gauge_of(kind: str, rows: int, classes: int, weights: Any = None) -> Any:
    """The gauge that `pieces_of` lists."""
    if kind == "group":
        return Group(np.arange(rows) // 3)
    if kind == "group1":
        return Group(np.arange(rows) // 3, weights=1.0)
    if kind == "block":
        return Block(np.arange(rows) % 5, classes)
    if kind == "column":
        return Column(rows)
    return Entry(np.ones(rows) if weights is None else weights)


def data(loss: str, rows: int, columns: int, seed: int, correlation: float = 0.5) -> tuple[Any, Any, Any]:
    """X, encoded y, weights that sum to 1."""
    rng = np.random.default_rng(seed)
    classes = 3 if loss == "multinomial" else 1
    X = rng.standard_normal((rows, columns)) + correlation * rng.standard_normal((rows, 1))
    truth = np.zeros((columns, classes))
    true = min(4, columns)
    truth[:true] = rng.choice([-1.0, 1.0], (true, classes)) * rng.uniform(0.5, 1.5, (true, classes))
    score = X @ truth + 0.7 * rng.standard_normal((rows, classes)) + 0.3
    y = score
    if loss == "logistic":
        y = np.where(score > 0, 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(0.5 * score, -3, 1.5))).astype(float)
    elif loss == "multinomial":
        y = np.eye(3)[score.argmax(axis=1)]
    weight = rng.uniform(0.5, 1.5, rows)
    return X, y, weight / weight.sum()


def designs(X: Any) -> dict[str, tuple[Any, Any]]:
    """The same kind of data in several containers: name to (design, the matrix it stands for)."""
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    standard = Standardized.of(Sparse(sparse.csc_matrix(thin)))
    return {"dense": (Dense(X), X), "sparse": (Sparse(sparse.csc_matrix(thin)), thin), "standardized": (standard, standard.block())}


def plain(run: LinearizedBregman, X: Any, pieces: list[tuple[Any, float]], steps: int, kind: Any = float) -> list[tuple[Any, Any, Any]]:
    """(z, theta, eta) of iterates 0 to `steps`, from the run's start and with its step sizes, by the definition."""
    problem, start, alpha = run.problem, run.start, run.alpha
    X, y, weight = X.astype(kind), problem.y.astype(kind), problem.weight.astype(kind)
    z = (-start.t0 * start.gradient).astype(kind)
    for mask, cost in pieces:
        if cost == 0:
            z[mask] = start.theta[mask] / problem.kappa
    eta, found = start.intercept.astype(kind), []
    for _ in range(steps + 1):
        theta = problem.kappa * shrunk(z, pieces)
        found.append((z, theta, eta.copy()))
        gradient = problem.loss.gradient(X @ theta + eta, y, weight)
        z = z - alpha * X.T @ gradient
        eta = eta - run.kappa0 * alpha * gradient.sum(axis=0)
    return found


def run_of(loss: str, kind: str = "entry", seed: int = 0, shape: tuple[int, int] = (30, 24), **options: Any) -> tuple[Any, Any, Any]:
    """A run on drawn data, its matrix, and the pieces of its gauge."""
    weights, container = options.pop("weights", None), options.pop("container", "dense")
    X, y, weight = data(loss, *shape, seed)
    design, matrix = designs(X)[container]
    gauge = gauge_of(kind, shape[1], y.shape[1], weights)
    problem = BregmanProblem(design, LOSSES[loss], y, weight, gauge, **{"kappa": 10.0, **options})
    return LinearizedBregman(problem), matrix, pieces_of(kind, shape[1], y.shape[1], weights)


def worst(run: LinearizedBregman, X: Any, pieces: Any, times: Any, kind: Any = float) -> float:
    """The largest relative difference between the run and the plain loop at some times; supports must be equal."""
    snapshots = [snapshot for snapshot in run.follow(times) if snapshot.iteration >= 0]
    iterates = plain(run, X, pieces, snapshots[-1].iteration + 1, kind)
    top = float(max(np.abs(theta).max() for _, theta, _ in iterates))
    found = 0.0
    for snapshot in snapshots:
        (z, _, eta), (later, _, beyond) = iterates[snapshot.iteration : snapshot.iteration + 2]
        share = (snapshot.t - run.start.t0) / run.alpha - snapshot.iteration
        z, eta = (z + share * (later - z)).astype(float), (eta + share * (beyond - eta)).astype(float)
        theta = run.problem.kappa * shrunk(z, pieces)
        # a time may fall within rounding of an entry
        sure = np.abs(theta) > 1e-9 * top
        assert np.array_equal(sure, np.abs(snapshot.theta) > 1e-9 * top)
        found = max(found, np.abs(snapshot.theta - theta).max() / top, np.abs(snapshot.intercept - eta).max() / (1 + np.abs(eta).max()))
        penalised = np.array([not any(mask[row].any() and weight == 0 for mask, weight in pieces) for row in range(len(theta))])
        found = max(found, np.abs(X.T @ snapshot.pull - z)[penalised].max() * run.problem.kappa / top)
        found = max(found, np.abs(snapshot.dual - z).max() * run.problem.kappa / top)
        loss = run.problem.loss.value(X @ theta + eta, run.problem.y, run.problem.weight)
        found = max(found, abs(snapshot.loss - loss) / (1e-300 + abs(run.start.loss)))
    return found
