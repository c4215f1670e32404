"""Before the first step: the model without penalised pieces, and the longest step that is surely stable.

Until time t0 nothing penalised has entered, so the intercept and the free rows sit at the minimiser of the loss over them alone.
A step is stable as long as it is shorter than 2 / (largest eigenvalue of the bound on the curvature), in the metric of the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Dense, Design
from tamis.core.errors import TamisError

Array = NDArray[Any]
CURVATURE = {"squared": 1.0, "huber": 1.0, "logistic": 0.25, "multinomial": 0.5}  # of the loss itself, on any score
MARGIN = 1.001
EXACT_SIDE, EXACT_CELLS = 400, 4e6


@dataclass(frozen=True)
class NullModel:
    """The minimiser over the free part: free rows of theta, intercept, and the loss gradient per row of the data there."""

    free: Array
    theta: Array
    intercept: Array
    gradient: Array
    loss: float


def null_model(design: Design, loss: Any, y: Array, weight: Array, free: Array, intercept: bool) -> NullModel:
    """Newton's method on the free part, to rounding."""
    rows, classes = y.shape
    base = np.ones((rows, 1)) if intercept else np.zeros((rows, 0))
    part = np.hstack([np.asarray(design.block(free), dtype=np.float64), base]) if len(free) else base
    level = _level(loss, y, weight) if intercept and not len(free) else None
    point = level if level is not None else _newton(part, loss, y, weight) if part.shape[1] else np.zeros((0, classes))
    score = part @ point if part.shape[1] else np.zeros((rows, classes))
    gradient = np.asarray(loss.gradient(score, y, weight))
    eta = point[-1] if intercept else np.zeros(classes)
    return NullModel(free, point[: len(free)], eta, gradient, float(loss.value(score, y, weight)))


def _level(loss: Any, y: Array, weight: Array) -> Array | None:
    """The best constant where a formula gives it; None where none does, or where it would be infinite."""
    total = weight.sum()
    if loss.name == "squared":
        mean = weight @ y / total
        return np.asarray(mean + weight @ (y - mean) / total)[None]  # the second mean takes back what rounding left in the first
    if loss.name == "logistic":
        above, below = float(weight @ (y[:, 0] > 0)), float(weight @ (y[:, 0] <= 0))
        return np.array([[np.log(above) - np.log(below)]]) if above > 0 and below > 0 else None
    shares = weight @ y / total
    if loss.name not in ("multinomial", "poisson") or not np.all(shares > 0):
        return None
    level = np.log(shares)
    return np.asarray(level - level.mean() if loss.name == "multinomial" else level)[None]


def _newton(part: Array, loss: Any, y: Array, weight: Array, rounds: int = 200) -> Array:
    """Damped Newton steps; where the curvature is flat or the step too long, that of the least bound on it."""
    point = np.zeros((part.shape[1], y.shape[1]))
    value = loss.value(part @ point, y, weight)
    length = np.sqrt(weight @ part**2)
    most = 0.0
    for _ in range(rounds):
        score = part @ point
        each = np.asarray(loss.gradient(score, y, weight))
        slope = part.T @ each
        force = np.sqrt((each**2 / np.where(weight > 0, weight, 1.0)[:, None]).sum())
        most = max(most, float(force))
        if np.abs(slope).max() <= 1e-15 * max(force, 1e-2 * most, 1e-300) * max(length.max(), 1e-300):
            break
        better = None
        for step in _directions(part, loss, score, y, weight, slope):
            better = _shorten(part, loss, y, weight, point, step, slope, value)
            if better is not None:
                break
        if better is None:
            break
        point, value = better
    score = part @ point
    slope = np.abs(part.T @ np.asarray(loss.gradient(score, y, weight)))
    # where a class is perfectly separated the slope fades with the whole gradient while the coefficients run away
    away = loss.name not in ("squared", "huber") and np.abs(score).max() > 30.0 + np.log1p(np.abs(y).max())
    if away or np.any(slope > 1e-8 * max(float(force), 1e-4 * most) * length[:, None]):
        raise TamisError(
            "The unpenalised part (intercept and columns of weight 0) has no finite best fit, so nothing was fitted; "
            "give at least two classes (or counts that are not all 0), and penalise columns that separate the classes."
        )
    return point


def _directions(part: Array, loss: Any, score: Array, y: Array, weight: Array, slope: Array) -> list[Array]:
    """Newton's direction, then the one of the largest curvature the loss can have."""
    curvature = np.asarray(loss.curvature(score, y, weight))
    columns, classes = slope.shape
    if curvature.ndim == 3:
        hessian = np.einsum("ij,iab,ik->jakb", part, curvature, part).reshape(columns * classes, columns * classes)
    else:
        hessian = part.T @ (curvature * part)
    bound = part.T @ (weight[:, None] * part) * (CURVATURE.get(loss.name) or float(np.exp(score.max() + 1.0)))
    flat = slope.reshape(-1)
    newton = -np.linalg.lstsq(hessian, flat, rcond=1e-13)[0].reshape(slope.shape)
    return [newton, -np.linalg.lstsq(bound, slope, rcond=1e-13)[0]]


def _shorten(part: Array, loss: Any, y: Array, weight: Array, point: Array, step: Array, slope: Array, value: float) -> Any:
    """The first of step, step / 2, step / 4, ... that lowers the loss or, at the level of rounding, the slope."""
    promised = float((slope * step).sum())
    if not promised < 0:
        return None
    for _ in range(30):
        trial = point + step
        found = loss.value(part @ trial, y, weight)
        if np.isfinite(found) and found <= value + 1e-4 * promised:
            return trial, found
        if abs(promised) < 1e-9 * (abs(value) + 1e-300) and np.isfinite(found):
            after = part.T @ np.asarray(loss.gradient(part @ trial, y, weight))
            if np.abs(after).max() < 0.9 * np.abs(slope).max():
                return trial, min(found, value)
        step, promised = 0.5 * step, 0.5 * promised
    return None


def column_norms(design: Design, weight: Array) -> NDArray[np.float64]:
    """sqrt(sum of weight * x^2) of every column."""
    if isinstance(design, Dense):
        matrix = design.block()
        return np.asarray(np.sqrt(np.einsum("ij,ij,i->j", matrix, matrix, weight)))
    columns = design.shape[1]
    parts = np.array_split(np.arange(columns), max(1, columns // 256))
    return np.sqrt(np.concatenate([weight @ np.asarray(design.block(part), dtype=np.float64) ** 2 for part in parts]))


def largest_curvature(design: Design, weight: Array, intercept: float, light: Dense | None = None) -> float:
    """A bound on the largest eigenvalue of A'A, A = sqrt(weight) [X, sqrt(intercept) 1]; intercept 0 leaves the ones out.

    `light` is the design in single precision: half the bytes, and digits to spare for three of them.
    """
    rows, columns = design.shape
    if min(rows, columns) <= EXACT_SIDE and rows * columns <= EXACT_CELLS:
        part = np.sqrt(weight)[:, None] * np.hstack([design.block(), np.full((rows, 1), np.sqrt(intercept))])
        gram = part.T @ part if columns < rows else part @ part.T
        return MARGIN * float(np.linalg.eigvalsh(gram)[-1])
    if light is not None or isinstance(design, Dense):
        design = light or Dense(np.asarray(design.block(), dtype=np.float32))
    root, kind = np.sqrt(weight), np.float32 if isinstance(design, Dense) else np.float64

    def by_rows(vector: Array) -> Array:
        scaled = root * vector
        return np.asarray(root * (design.dot(None, design.score(scaled.astype(kind))) + intercept * scaled.sum()))

    def by_columns(vector: Array) -> Array:
        seen = weight * (design.dot(None, vector[:-1].astype(kind)) + np.sqrt(intercept) * vector[-1])
        return np.append(design.score(seen.astype(kind)), np.sqrt(intercept) * seen.sum())

    return MARGIN * (_lanczos(by_rows, rows) if rows <= columns else _lanczos(by_columns, columns + 1))


def _lanczos(apply: Any, size: int, rounds: int = 300) -> float:
    """The largest eigenvalue of a symmetric operator, from below: well within MARGIN when three rounds no longer add to it."""
    vector = np.random.default_rng(0).standard_normal(size)
    basis = [vector / np.linalg.norm(vector)]
    diagonal: list[float] = []
    beside: list[float] = []
    history: list[float] = []
    for _ in range(min(rounds, size)):
        image = apply(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        span = np.array(basis)
        image = image - span.T @ (span @ image)
        image = image - span.T @ (span @ image)
        length = float(np.linalg.norm(image))
        tri = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        history.append(float(np.linalg.eigvalsh(tri)[-1]))
        if length <= 1e-12 * max(history[-1], 1e-300):
            break
        if len(history) > 6 and history[-1] - history[-4] <= 2e-4 * history[-1]:
            break
        beside.append(length)
        basis.append(image / length)
    return max(0.0, *history)
