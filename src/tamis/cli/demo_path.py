"""`tamis demo path`: the exact path on scikit-learn's diabetes data, beside the lasso, the relaxed lasso and matching pursuit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

Array = NDArray[Any]
NAMES = (
    "age", "sex", "body mass index", "blood pressure", "total cholesterol", "LDL", "HDL", "cholesterol / HDL", "log triglycerides",
    "glucose",
)  # fmt: skip
Models = tuple[Array, Array]
"""Coefficients (settings, columns) and constants (settings,), from the smallest model to the largest."""


@dataclass(frozen=True)
class Judged:
    """A method at its choice: cross-validated error with its standard error, and the size of the model on all rows."""

    name: str
    error: float
    spread: float
    size: int
    simple_error: float
    simple_spread: float
    simple_size: int


def path_demo(out: Path) -> None:
    """Follow, compare the order of entry and the cross-validated errors, say who wins, and write the report."""
    import pyarrow as pa
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import KFold

    from tamis import InverseScaleRegressor
    from tamis.cli.data import named
    from tamis.cli.learn import show

    started = time.monotonic()
    X, y = load_diabetes(return_X_y=True, scaled=False)
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    typer.echo(
        f"{len(y)} patients, {X.shape[1]} columns in their own units; how far diabetes has gone a year later (scikit-learn's data).\n"
    )
    typer.secho("1. The exact path, its model chosen by cross-validation", bold=True)
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    model = InverseScaleRegressor(cv=folds).fit(table, named(y, "progression"))
    show(model)

    typer.secho("2. Order of entry, beside the exact lasso path (scikit-learn's lars_path)", bold=True)
    show_entries(model, X, y)

    typer.secho("\n3. Cross-validated error on the same folds", bold=True)
    lines = [judged_path(model), *(judged(name, way, X, y, folds) for name, way in WAYS.items())]
    typer.echo(f"  {'':24} {'at the best mean':>24}      {'simplest within one error':>26}")
    for line in lines:
        best, simple = f"{line.error:.0f} ± {line.spread:.0f}", f"{line.simple_error:.0f} ± {line.simple_spread:.0f}"
        typer.echo(f"  {line.name:24} {best:>12}, {line.size:2} columns      {simple:>14}, {line.simple_size:2} columns")
    typer.echo(f"\n{verdict(lines)}")
    model.report(out)
    typer.echo(f"\nWrote {out}: open it in a browser. {time.monotonic() - started:.1f} s.")
    typer.echo("Next, your own data: tamis path train.csv --target COLUMN --report report.html")


# ---- the order of entry -----------------------------------------------------------------------------------------
def show_entries(model: Any, X: Array, y: Array) -> None:
    """When each column first enters, on both paths, and whether the order is the same."""
    from sklearn.linear_model import lars_path

    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    alphas, active, coefficients = lars_path(scaled, y - y.mean(), method="lasso")
    del active
    ours: dict[str, float] = {}
    for t, what, name in model.events_:
        if what == "enters":
            ours.setdefault(name, t)
    # A column is first nonzero at the knot after the one where it enters.
    theirs = {NAMES[j]: 1 / alphas[int(np.flatnonzero(row)[0]) - 1] for j, row in enumerate(coefficients) if np.any(row)}
    typer.echo(f"  {'column':20} {'t here':>9} {'1/alpha of the lasso':>22}")
    for name, t in ours.items():
        typer.echo(f"  {name:20} {t:9.4g} {theirs.get(name, float('nan')):22.4g}")
    first, second = list(ours), sorted(theirs, key=lambda name: theirs[name])
    if first == second:
        typer.echo("The order of entry is that of the lasso. What is gained is bias: every model here is fitted without shrinkage.")
    else:
        same = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
        typer.echo(f"The first {same} enter in the lasso's order. What is gained is bias: every model here is fitted without shrinkage.")


# ---- who predicts best ------------------------------------------------------------------------------------------
def judged_path(model: Any) -> Judged:
    """The exact path by its own folds: errors are known wherever any fold's path changes."""
    path, scores = model.path_, model.path_.scores
    mean, error = scores["grid_mean"], scores["grid_error"]
    best = int(np.argmin(mean))
    simple = int(np.flatnonzero(mean <= mean[best] + error[best])[0])
    sizes = [len(path.at(float(scores["grid"][at])).atoms) for at in (best, simple)]
    return Judged("exact path", *_pair(mean, error, best), sizes[0], *_pair(mean, error, simple), sizes[1])


def judged(name: str, way: Callable[[Array, Array, Array, Array], Models], X: Array, y: Array, folds: Sequence[Any]) -> Judged:
    """Another method on the same folds: its columns are brought to one scale on the training rows only."""
    from tamis.core.choose import fold_scores

    table, weights = [], []
    for training, test in folds:
        coefficients, constants = way(X[training], y[training], X, y)
        table.append([float(np.mean((y[test] - X[test] @ row - level) ** 2)) for row, level in zip(coefficients, constants, strict=True)])
        weights.append(float(len(test)))
    scores = fold_scores(np.array(table), np.array(weights))
    mean, error = scores["mean"], scores["error"]
    best = int(np.argmin(mean))
    simple = int(np.flatnonzero(mean <= mean[best] + error[best])[0])
    whole, _ = way(X, y, X, y)
    sizes = [int(np.count_nonzero(whole[at])) for at in (best, simple)]
    return Judged(name, *_pair(mean, error, best), sizes[0], *_pair(mean, error, simple), sizes[1])


def _pair(mean: Array, error: Array, at: int) -> tuple[float, float]:
    return float(mean[at]), float(error[at])


def _lasso(X: Array, y: Array, everything: Array, target: Array) -> Models:
    """The lasso at 150 values of alpha that are the same for every fold."""
    from sklearn.linear_model import lasso_path

    center, scale = X.mean(axis=0), X.std(axis=0)
    whole = (everything - everything.mean(axis=0)) / everything.std(axis=0)
    largest = float(np.abs(whole.T @ (target - target.mean())).max()) / len(target)
    alphas = np.geomspace(1.2 * largest, 1e-3 * largest, 150)
    _, coefficients, _ = lasso_path((X - center) / scale, y - y.mean(), alphas=alphas)
    own = coefficients.T / scale
    return own, y.mean() - own @ center


def _relaxed(X: Array, y: Array, everything: Array, target: Array) -> Models:
    """The lasso's columns at each alpha, fitted again by least squares."""
    supports = _lasso(X, y, everything, target)[0] != 0
    return _refitted(X, y, supports)


def _pursuit(X: Array, y: Array, everything: Array, target: Array) -> Models:
    """Orthogonal matching pursuit with 0, 1, 2, ... columns."""
    from sklearn.linear_model import orthogonal_mp

    del everything, target
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    found = [orthogonal_mp(scaled, y - y.mean(), n_nonzero_coefs=size) != 0 for size in range(1, X.shape[1] + 1)]
    return _refitted(X, y, np.array([np.zeros(X.shape[1], dtype=bool), *found]))


def _refitted(X: Array, y: Array, supports: Array) -> Models:
    """Least squares on each support."""
    coefficients = np.zeros(supports.shape)
    centered = X - X.mean(axis=0)
    for row, support in zip(coefficients, supports, strict=True):
        if support.any():
            row[support] = np.linalg.lstsq(centered[:, support], y - y.mean(), rcond=None)[0]
    return coefficients, y.mean() - coefficients @ X.mean(axis=0)


WAYS = {"lasso": _lasso, "lasso, refitted": _relaxed, "matching pursuit (OMP)": _pursuit}


def verdict(lines: Sequence[Judged]) -> str:
    """Who wins, and by how much in standard errors."""
    best = min(lines, key=lambda line: line.error)
    ours = lines[0]
    apart = max(line.error for line in lines) - best.error
    said = f"The lowest error here is that of the {best.name}" if best is not ours else "The exact path has the lowest error here"
    said += f"; all {len(lines)} lie within {apart:.0f} of each other, and one standard error is {best.spread:.0f}"
    said += ", so on these data prediction does not tell them apart." if apart <= best.spread else "."
    smallest = min(line.simple_size for line in lines)
    small = [line.name for line in lines if line.simple_size == smallest]
    return f"{said} The smallest model within one error of the best: {' and '.join(small)}, with {smallest} columns."
