"""Fitted linear models for tests of reports, made once, and a path longer than any of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tamis import BregmanClassifier, InverseScaleRegressor
from tamis.core.certificate import Certificate, Scope
from tamis.core.path import Knot, Path
from tamis.report.build import content_of
from tamis.report.content import ReportContent


def table(rows: int = 120, columns: int = 8, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    draw = np.random.default_rng(seed)
    X = pd.DataFrame(draw.normal(size=(rows, columns)) * np.geomspace(0.01, 100, columns), columns=[f"c{j}" for j in range(columns)])
    scores = 3 * X["c1"] / X["c1"].std() - 2 * X["c5"] / X["c5"].std() + X["c6"] / X["c6"].std()
    return X, pd.Series(scores + draw.normal(size=rows), name="yield")


@cache
def exact_model() -> tuple[Any, ReportContent]:
    """An exact path and its report."""
    X, y = table()
    model = InverseScaleRegressor().fit(X, y)
    return model, content_of(model)


@cache
def split_model() -> Any:
    """A path that is sparse in differences."""
    draw = np.random.default_rng(3)
    y = np.repeat([0.0, 3.0, -1.0], 20) + 0.3 * draw.normal(size=60)
    frame = pd.DataFrame(np.eye(60), columns=[f"p{j}" for j in range(60)])
    return InverseScaleRegressor(transformation="fused").fit(frame, pd.Series(y, name="signal"))


@cache
def class_models() -> dict[str, Any]:
    """Damped paths of two and of three classes."""
    X, y = table(200)
    two = np.where(y > 0, "up", "down")
    three = np.where(y > 2, "high", np.where(y < -2, "low", "middle"))
    return {
        "two": BregmanClassifier().fit(X, pd.Series(two, name="move")),
        "three": BregmanClassifier(penalty="column").fit(X, pd.Series(three, name="level")),
    }


def read_steps(points: Any, places: Any) -> Any:
    """Heights of a staircase at some places: the last point that does not lie beyond."""
    x = np.array([point[0] for point in points])
    return np.array([points[int(np.searchsorted(x, place, side="right")) - 1][1] for place in places])


def long_model(knots: int = 1500, pieces: int = 3000, held: int = 400) -> Any:
    """A fitted model whose path is replaced by a long one with many pieces."""
    model = InverseScaleRegressor(choose="last").fit(np.arange(20.0)[:, None], np.arange(20.0))
    draw = np.random.default_rng(0)
    certificate = Certificate("inclusion residual", 1e-13, 0.0, 1e-8, Scope("up to here no dual leaves its bounds", "t = 1"))
    made = []
    for k in range(knots):
        first = int(k * (pieces - held) / knots)
        atoms = tuple((j,) for j in range(first, first + min(held, 2 * k)))
        weights = draw.normal(size=(len(atoms), 1))
        made.append(Knot(0.0 if not k else 1.01**k, atoms, tuple(f"column {a[0]}" for a in atoms), weights, np.zeros(1), certificate))
    path = Path(tuple(made), "complete", "t", provenance=dict(model.path_.provenance))
    model.path_, model.events_, model.n_features_in_, model.t_ = path, path.events(), pieces, made[knots // 2].t
    return model
