"""The methods that are compared, each with its own natural tuning, behind one shape.

Every method gets the same rows. Tuning, where it is cheap, is 3-fold cross-validation on macro-F1 like that of the
protocol, over several draws of the folds; `Method.setting` says in words what was done. What counts as a rule is the
method's own word for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Frame = Any
Array = np.ndarray[Any, Any]
GRID = [10.0**power for power in range(-3, 4)]
REPEATS, FEW = 5, 300  # draws of the three folds below so many rows: a fold of 8 to 53 rows says little, one draw chooses by luck


@dataclass(frozen=True)
class Fitted:
    """A fitted method: labels and scores for new rows, and how large the model is."""

    predict: Callable[[Frame], Array]
    score: Callable[[Frame], Array]
    rules: float
    length: float
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """How one method is fitted, and what its table should say about it."""

    label: str
    setting: str
    fit: Callable[..., Fitted]
    packages: tuple[str, ...]
    peer: bool = True


def tuned(model: Any, grid: dict[str, list[Any]], X: Any, y: Array, state: int, folds: Any = None) -> Any:
    """The model refitted with the grid's best values: 3 stratified folds, drawn 5 times if rows are few, macro-F1, the first of equals."""
    from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold

    folds = folds or RepeatedStratifiedKFold(n_splits=3, n_repeats=REPEATS if len(y) < FEW else 1, random_state=state)
    return GridSearchCV(model, grid, scoring="f1_macro", cv=folds, n_jobs=1, error_score="raise").fit(X, y)


def mean(values: Any) -> float:
    """Mean of what may be empty."""
    values = list(values)
    return float(np.mean(values)) if values else 0.0


# ----------------------------------------------------------------------------------------------------------------------- tamis


def cuts_of(wish: Any) -> Any:
    """ "quarters": four cuts with equally many rows between them, "widths": four at equal distances, a list: those everywhere."""
    from tamis import Cuts

    if wish == "quarters":
        return Cuts(4, "quantile", readable=False, every=2)
    if wish == "widths":
        return Cuts.paper()
    return Cuts(at=wish) if isinstance(wish, list) else wish


def tamis_model(**options: Any) -> Any:
    """Our classifier, its cuts given as in `cuts_of`."""
    from tamis import RuleClassifier

    if "cuts" in options:
        options["cuts"] = cuts_of(options["cuts"])
    return RuleClassifier(**options)


def tamis_size(model: Any) -> tuple[float, float, dict[str, Any]]:
    """Rules above 1 % of the largest weight, their mean length, and what the certificate says."""
    rules = model.card_.rules
    weight = np.array([float(np.linalg.norm(np.atleast_1d(rule.weights))) for rule in rules])
    shown = [rule for rule, size in zip(rules, weight, strict=True) if size > 0.01 * weight.max()]
    certificate = model.certificate_
    notes = {
        "gap": certificate.gap,
        "gain_share": certificate.gain_share,
        "holds": certificate.holds,
        "hull": certificate.scope.held,
        "looked": certificate.scope.looked,
        "C": getattr(model, "C_", None),
    }
    return len(shown), mean(len(rule.conditions) for rule in shown), notes


def fit_tamis(train: Frame, y: Array, state: int, C: float | None = None, folds: Any = None, **options: Any) -> Fitted:
    """C from the protocol's grid, or the one given."""
    if C is None:
        search = tuned(tamis_model(C=1.0, **options), {"C": GRID}, train, y, state, folds)
        model, notes = search.best_estimator_, {"chosen": search.best_params_["C"]}
    else:
        model, notes = tamis_model(C=C, **options).fit(train, y), {}
    rules, length, certificate = tamis_size(model)
    return Fitted(model.predict, model.decision_function, rules, length, {**notes, **certificate})


def fit_tamis_default(train: Frame, y: Array, state: int, **options: Any) -> Fitted:
    """As a user gets it: nothing set."""
    model = tamis_model(random_state=state, **options).fit(train, y)
    rules, length, notes = tamis_size(model)
    return Fitted(model.predict, model.decision_function, rules, length, notes)


# ----------------------------------------------------------------------------------------------------------- single literals, L1


class SameLiterals:
    """The single conditions that tamis learns from the same training rows, as a table of truth values."""

    def __init__(self, frame: Frame, cuts: Any) -> None:
        from tamis.tables.frame import as_table
        from tamis.tables.schema import learn_schema

        self.table = as_table
        self.schema = learn_schema(as_table(frame), cuts=cuts_of(cuts))

    def truth(self, frame: Frame) -> Array:
        """Rows x conditions, as numbers."""
        return np.stack(list(self.schema.truth(self.table(frame))), axis=1).astype(float)


def fit_l1(train: Frame, y: Array, state: int, cuts: Any = "quarters", grid: list[float] | None = None, folds: Any = None) -> Fitted:
    """L1 logistic regression on the same single conditions."""
    from sklearn.linear_model import LogisticRegression

    literals = SameLiterals(train, cuts)
    model = LogisticRegression(l1_ratio=1.0, solver="liblinear", random_state=state, max_iter=2000)
    search = tuned(model, {"C": grid or GRID}, literals.truth(train), y, state, folds)
    weight = np.abs(search.best_estimator_.coef_[0])
    rules = float((weight > 0.01 * weight.max()).sum()) if weight.any() else 0.0

    def score(frame: Frame) -> Array:
        return search.decision_function(literals.truth(frame))

    return Fitted(lambda frame: (score(frame) > 0).astype(int), score, rules, 1.0, {"chosen": search.best_params_["C"]})


# ----------------------------------------------------------------------------------------------------------------------- peers


class Dummies:
    """Numbers as they are, one 0/1 column per level: what peers without categories need."""

    def fit(self, frame: Frame) -> Dummies:
        self.columns = list(self._wide(frame).columns)
        return self

    def _wide(self, frame: Frame) -> Frame:
        import pandas as pd

        return pd.get_dummies(frame, dtype=float)

    def __call__(self, frame: Frame) -> Frame:
        wide = self._wide(frame).reindex(columns=self.columns, fill_value=0.0)
        return wide.set_axis([f"c{i}" for i in range(len(self.columns))], axis=1)


def wrapped(model: Any, encode: Callable[[Frame], Any], rules: float, length: float, notes: dict[str, Any] | None = None) -> Fitted:
    """A scikit-learn style classifier as a Fitted."""
    return Fitted(
        lambda frame: np.asarray(model.predict(encode(frame))).astype(int),
        lambda frame: np.asarray(model.predict_proba(encode(frame)))[:, 1],
        rules, length, notes or {},
    )  # fmt: skip


def fit_rulefit(train: Frame, y: Array, state: int, **options: Any) -> Fitted:
    """RuleFit; its own cross-validation chooses the L1 penalty."""
    from imodels import RuleFitClassifier

    encode = Dummies().fit(train)
    model = RuleFitClassifier(random_state=state, **options).fit(encode(train), y)
    return wrapped(model, encode, *rulefit_size(model))


def fit_rulefit_tuned(train: Frame, y: Array, state: int) -> Fitted:
    """RuleFit with the number of candidate rules tuned too."""
    from imodels import RuleFitClassifier

    encode = Dummies().fit(train)
    search = tuned(RuleFitClassifier(random_state=state), {"max_rules": [30, 100, 300]}, encode(train), y, state, 3)
    return wrapped(search, encode, *rulefit_size(search.best_estimator_), {"chosen": search.best_params_["max_rules"]})


def rulefit_size(model: Any) -> tuple[float, float]:
    """Rules and linear terms with a weight; a linear term has length 1."""
    used = [number for number, weight in enumerate(np.ravel(model.coef)) if weight != 0]
    linear = len(np.ravel(model.coef)) - len(model.rules_)
    return float(len(used)), mean(1 if number < linear else len(model.rules_[number - linear].terms) for number in used)


def fit_figs(train: Frame, y: Array, state: int) -> Fitted:
    """FIGS with the number of splits tuned."""
    from imodels import FIGSClassifier

    encode = Dummies().fit(train)
    search = tuned(FIGSClassifier(random_state=state), {"max_rules": [4, 8, 12, 20, 40]}, encode(train), y, state)
    depths: list[int] = []

    def walk(node: Any, depth: int) -> None:
        if node.left is None:
            depths.append(depth)
        else:
            walk(node.left, depth + 1)
            walk(node.right, depth + 1)

    for tree in search.best_estimator_.trees_:
        walk(tree, 0)
    splits = float(search.best_estimator_.complexity_)
    return wrapped(search, encode, splits, mean(depths), {"chosen": search.best_params_["max_rules"]})


def fit_boosted(train: Frame, y: Array, state: int) -> Fitted:
    """Boosted one-condition rules with their number tuned."""
    from imodels import BoostedRulesClassifier

    encode = Dummies().fit(train)
    search = tuned(BoostedRulesClassifier(random_state=state), {"n_estimators": [15, 50, 150]}, encode(train), y, state)
    stumps = {(int(stump.tree_.feature[0]), float(stump.tree_.threshold[0])) for stump in search.best_estimator_.estimators_}
    return wrapped(search, encode, float(len(stumps)), 1.0, {"chosen": search.best_params_["n_estimators"]})


def fit_ebm(train: Frame, y: Array, state: int) -> Fitted:
    """Explainable boosting machine, which tunes itself by early stopping; levels as text."""
    from interpret.glassbox import ExplainableBoostingClassifier

    model = ExplainableBoostingClassifier(random_state=state, n_jobs=1, max_rounds=5000).fit(train, y)
    return wrapped(model, lambda frame: frame, float(len(model.term_features_)), mean(len(term) for term in model.term_features_))


def fit_lightgbm(train: Frame, y: Array, state: int, grid: dict[str, list[Any]] | None = None) -> Fitted:
    """LightGBM; leaf size, leaves and trees tuned, because the defaults need more rows (so do its native categories)."""
    from lightgbm import LGBMClassifier

    encode = Dummies().fit(train)
    grid = {"min_child_samples": [2, 5, 20], "num_leaves": [4, 31], "n_estimators": [30, 100]} if grid is None else grid
    model = LGBMClassifier(random_state=state, n_jobs=1, verbose=-1, deterministic=True, force_row_wise=True)
    search = tuned(model, grid, encode(train), y, state) if grid else None
    best = search.best_estimator_ if search is not None else model.fit(encode(train), y)
    depths: list[int] = []

    def walk(node: dict[str, Any], depth: int) -> None:
        if "left_child" in node:
            walk(node["left_child"], depth + 1)
            walk(node["right_child"], depth + 1)
        else:
            depths.append(depth)

    for tree in best.booster_.dump_model()["tree_info"]:
        walk(tree["tree_structure"], 0)
    return wrapped(best, encode, float(len(depths)), mean(depths), search.best_params_ if search is not None else {})


PAPER = {
    "growth": 2.0, "loss": "squared_hinge", "cuts": "quarters", "complements": "both", "min_support": 1, "prune": 0.01, "tolerance": 0.01,
}  # fmt: skip
OURS = ("tamis",)
METHODS: dict[str, Method] = {
    **{
        f"tamis-{rho}": Method(
            f"tamis rho {rho}",
            "the paper's grid for C",
            lambda *rows, rho=rho, **more: fit_tamis(*rows, rho=rho, **PAPER, **more),
            OURS,
            False,
        )
        for rho in (2.0, 1.5, 1.1)
    },
    "tamis-widths": Method(
        "tamis rho 1.1, other reading",
        "cuts at equal distances; C by one draw of the three folds, in row order",
        lambda *rows, **more: fit_tamis(*rows, rho=1.1, **{**PAPER, "cuts": "widths"}, **{"folds": 3, **more}),
        OURS,
        False,
    ),
    "tamis-default": Method("tamis, defaults", "nothing set: its own path, CV and one-SE rule", fit_tamis_default, OURS, False),
    "l1": Method("L1 single conditions", "scikit-learn liblinear, C by the same CV", fit_l1, ("scikit-learn",)),
    "rulefit": Method("RuleFit", "imodels defaults: at most 30 rules, penalty by its own CV", fit_rulefit, ("imodels",)),
    "rulefit-tuned": Method(
        "RuleFit tuned",
        "max_rules in 30, 100, 300 by one draw of the three folds (its fits are slow), penalty by its own CV",
        fit_rulefit_tuned,
        ("imodels",),
    ),
    "figs": Method("FIGS", "max_rules in 4, 8, 12, 20, 40 by the same CV", fit_figs, ("imodels",)),
    "boosted": Method("BoostedRules", "n_estimators in 15, 50, 150 by the same CV", fit_boosted, ("imodels",)),
    "ebm": Method(
        "EBM", "defaults but at most 5000 rounds: the default 50000 run for minutes on separable rows", fit_ebm, ("interpret-core",)
    ),
    "lightgbm": Method(
        "LightGBM", "min_child_samples 2, 5, 20; num_leaves 4, 31; n_estimators 30, 100 by the same CV", fit_lightgbm, ("lightgbm",)
    ),
}
