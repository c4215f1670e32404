"""Linear fits of every kind, and their witnesses with something changed."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tamis import BregmanClassifier, BregmanRegressor, InverseScaleRegressor
from tamis.core.certificate import Certificate
from tamis.linear.recheck import LinearWitness, PathFacts

Array = Any
ROWS, COLUMNS = 60, 8
GROUPS = [[0, 5, 2], [1, 3], [4, 6, 7]]
CLAIM = Certificate("inclusion residual", 0.0, 0.0, 1e-8)
SPLIT = {"transformation": "fused+identity", "kappa": 5.0, "t_max": 60.0}


def data(kind: str) -> tuple[Array, Array, Array]:
    """Columns with offsets and scales, a target of the kind, and weights."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, COLUMNS)) * rng.uniform(0.5, 2.0, COLUMNS) + rng.normal(size=COLUMNS)
    score = X[:, 0] - X[:, 3] + 0.5 * X[:, 6] + 0.7 * rng.normal(size=ROWS)
    score = (score - score.mean()) / score.std()
    y = {
        "number": score,
        "count": rng.poisson(np.exp(0.5 * score)).astype(float),
        "two": np.where(score > 0.2, "yes", "no"),
        "three": np.digitize(score, [-0.6, 0.5]),
    }[kind]
    return X, y, rng.uniform(0.5, 2.0, ROWS)


EXACT: dict[str, tuple[Any, str]] = {
    "exact": (InverseScaleRegressor(), "number"),
    "exact, as it is": (InverseScaleRegressor(standardize=False, fit_intercept=False), "number"),
    "exact, prices": (InverseScaleRegressor(nonnegative=[0, 3], penalty_factor={"x1": 0, "x2": 2.0, "x5": np.inf}), "number"),
    "split": (InverseScaleRegressor(transformation="fused+identity"), "number"),
    "split, no intercept": (InverseScaleRegressor(transformation="fused", fit_intercept=False, nu=0.7), "number"),
}
DAMPED: dict[str, tuple[Any, str]] = {
    "squared": (BregmanRegressor(kappa=10.0), "number"),
    "squared, as it is": (BregmanRegressor(kappa=5.0, standardize=False, fit_intercept=False, t_max=12.0), "number"),
    "squared, prices": (BregmanRegressor(kappa=10.0, nonnegative=[0], penalty_factor={"x1": 0, "x2": 2.0, "x5": np.inf}), "number"),
    "squared, group": (BregmanRegressor(kappa=10.0, penalty="group", groups=GROUPS), "number"),
    "squared, free group": (BregmanRegressor(kappa=10.0, penalty="group", groups=GROUPS, group_weights=[1.0, 0.0, 2.0]), "number"),
    "squared, own step": (BregmanRegressor(kappa=10.0, step=0.01, t=[0.1, 1.0, 2.5, 6.0]), "number"),
    "huber": (BregmanRegressor(kappa=10.0, loss="huber"), "number"),
    "poisson": (BregmanRegressor(kappa=10.0, loss="poisson"), "count"),
    "poisson, free": (BregmanRegressor(kappa=10.0, loss="poisson", penalty_factor={"x0": 0.0}), "count"),
    "logistic": (BregmanClassifier(), "two"),
    "logistic, own step": (BregmanClassifier(step=0.05), "two"),
    "logistic, balanced": (BregmanClassifier(class_weight="balanced", standardize=False, t_max=20.0), "two"),
    "logistic, weights": (BregmanClassifier(class_weight={"yes": 3.0}, fit_intercept=False), "two"),
    "multinomial": (BregmanClassifier(t_max=30.0), "three"),
    "multinomial, group": (BregmanClassifier(penalty="group", groups=GROUPS, t_max=30.0), "three"),
    "multinomial, column": (BregmanClassifier(penalty="column", t_max=30.0), "three"),
    "multinomial, block": (BregmanClassifier(penalty="column", groups=GROUPS, t_max=30.0), "three"),
    "split squared": (BregmanRegressor(**SPLIT), "number"),
    "split squared, from zero": (BregmanRegressor(**SPLIT, start="zero", fit_intercept=False), "number"),
    "split huber": (BregmanRegressor(**SPLIT, loss="huber"), "number"),
    "split poisson": (BregmanRegressor(**SPLIT, loss="poisson"), "count"),
    "split logistic": (BregmanClassifier(**SPLIT), "two"),
    "split multinomial": (BregmanClassifier(**SPLIT, penalty="column"), "three"),
}
ALL = EXACT | DAMPED


def fitted(name: str) -> tuple[Any, Array, Array, Array]:
    model, kind = ALL[name]
    X, y, weight = data(kind)
    model = copy.deepcopy(model).set_params(choose="last")
    return model.fit(X, y, sample_weight=weight), X, y, weight


def witness_of(model: Any) -> LinearWitness:
    witness = model.certificate_.witness
    assert isinstance(witness, LinearWitness)
    return witness


def checked(facts: PathFacts, knot: int | None = None) -> Any:
    return LinearWitness(facts, len(facts.times) - 1 if knot is None else knot).check(CLAIM)


def busy_knot(facts: PathFacts) -> int:
    """The knot (but the last) whose largest coefficient acts longest."""
    worth = [
        float(np.abs(values).max(initial=0.0)) * float(facts.times[k + 1] - facts.times[k])
        for k, values in enumerate(facts.values[:-1])
    ]  # fmt: skip
    return int(np.argmax(worth))


def without(facts: PathFacts, knot: int) -> PathFacts:
    keep = [k for k in range(len(facts.times)) if k != knot]
    return replace(
        facts, times=facts.times[keep], positions=tuple(facts.positions[k] for k in keep), values=tuple(facts.values[k] for k in keep),
        intercepts=facts.intercepts[keep], beta=None if facts.beta is None else facts.beta[keep],
        steps=None if facts.steps is None else facts.steps[keep],
    )  # fmt: skip
