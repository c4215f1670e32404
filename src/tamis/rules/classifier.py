"""RuleClassifier: the certified best few short conjunctions for two or more classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from tamis.core.errors import TamisError
from tamis.rules.base import RuleModel
from tamis.rules.parameters import check_parameters
from tamis.rules.task import MARGINS, classification, probabilities
from tamis.tables.contract import checked_table
from tamis.tables.targets import checked_labels, checked_weight, target_name

Array = NDArray[Any]


def _has_probabilities(model: Any) -> bool:
    """Logistic models have probabilities; margins only after cross-validation has scaled them."""
    card = getattr(model, "card_", None)
    return model.loss == "logistic" if card is None else card.link != "none"


class RuleClassifier(ClassifierMixin, RuleModel):  # type: ignore[misc]
    """Few short IF-rules that classify, certified against all conjunctions of the conditions.

    Minimises 1/2 Omega(f)^2 + C * sum of weighted losses over every conjunction of up to `max_length` conditions,
    with a free constant. Omega makes long rules dear and selects few of them; a duality gap over the whole lattice
    says how far the model can be from the best one.

    Parameters
    ----------
    rho : float
        Exponent in (1, 2] of the norm: the smaller, the fewer rules beside a selected one. At most 1.2, rules of
        any length can be certified.
    C : float, optional
        Weight of the loss; None follows a path and chooses by `choose`.
    growth : float
        How much dearer one more condition makes a rule; `costs` multiplies it per condition or column.
    max_length : int or None
        Longest rule; None for any, 1 for single conditions.
    min_support : float
        Smallest coverage: rows by weight (1: any row), or below 1 a share of the weight.
    loss : {"logistic", "squared_hinge", "hinge"}
    lattice : {"conjunction", "disjunction"}
        "disjunction" shows rules as `a OR b` where their opposites are exact; the model is the same.
    cuts, n_cuts
        How numbers become conditions: "quantile", "uniform", "supervised", "all", "paper", "none" (columns are
        conditions already), a `Cuts`, or a dict by column.
    tolerance, gain_tolerance : float
        Relative gap to certify, and largest share of the possible gain over a constant that may be missing.
    choose : str or float
        "cv" (one-standard-error rule), "cv-best", "aic", "bic", "ebic", "stability", "last", or a value of C.
    class_weight : None, "balanced" or dict
    multi_class : {"grouped", "ovr"}
        "grouped" (logistic loss) chooses a rule for all classes or none; "ovr" fits each class against the rest.
    complements : {"one", "both"}
        "one" gives weight to one of two complementary conditions only.
    monotone : dict or sequence, optional
        Column -> 1 or -1: the score may only rise (fall) with it.
    propositions : dict, optional
        Further conditions: name -> expression text, function of X, or boolean column.
    max_literals : int
    max_rules : int, optional
        The largest certified model on the path with no more rules than this.
    prune : "certified", None or float
        "certified" keeps the fewest rules that still meet the certificate; a number such as 0.01 keeps all whose weight is
        above that share of the largest, and of the others only what the certificate needs; None keeps all.
    refit : bool
        Refit the chosen rules nearly unpenalised (the certificate speaks of the selection).
    solver : {"mm", "mirror"}
        "mirror" is the original paper's mirror descent.
    max_nodes : int
        Held conjunctions at which a fit is given up as it stands.
    n_path : int
        Knots of the path.
    cv : int, splitter or iterable
    scoring : str, optional
        What folds are judged by: mean loss, "accuracy", "macro_f1", "auc".
    time_limit : float, optional
        Seconds after which the path so far is kept.
    journal : path, optional
        File in which every finished knot is kept; a fit with the same data and parameters goes on from it.
    n_jobs : int, optional
        Threads for the bit kernels.
    random_state : int, optional
        Shuffles the folds.
    verbose : int

    Attributes
    ----------
    rules_ : RuleSet
    certificate_ : Certificate
    path_ : Path
    selected_ : tuple of str
    card_ : ScoreCard
    schema_ : Schema
    baselines_ : dict
    C_, status_, notes_, classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import RuleClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (200, 5)).astype(bool)
    >>> y = X[:, 0] ^ X[:, 1]
    >>> model = RuleClassifier(cuts="none", C=10.0).fit(X, y)
    >>> model.certificate_.holds
    True
    >>> model.rules_[0].text
    'x0 AND x1'
    """

    def __init__(
        self, rho: float = 1.1, C: float | None = None, growth: float = 2.0, max_length: int | None = 3, min_support: float = 1,
        loss: str = "logistic", lattice: str = "conjunction", cuts: Any = "quantile", n_cuts: int = 8, tolerance: float = 0.01,
        choose: str | float = "cv", *, gain_tolerance: float = 0.1, class_weight: Any = None, multi_class: str = "grouped",
        complements: str = "one", monotone: Any = None, costs: Mapping[str, float] | None = None,
        propositions: Mapping[str, Any] | None = None, max_literals: int = 2000, max_rules: int | None = None,
        prune: str | float | None = "certified", refit: bool = False, solver: str = "mm", max_nodes: int = 3000, n_path: int = 20,
        cv: Any = 5, scoring: str | None = None, time_limit: float | None = None, journal: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int | bool = 0,
    ) -> None:  # fmt: skip
        self.rho, self.C, self.growth, self.max_length, self.min_support = rho, C, growth, max_length, min_support
        self.loss, self.lattice, self.cuts, self.n_cuts, self.tolerance, self.choose = loss, lattice, cuts, n_cuts, tolerance, choose
        self.gain_tolerance, self.class_weight, self.multi_class, self.complements = gain_tolerance, class_weight, multi_class, complements
        self.monotone, self.costs, self.propositions, self.max_literals = monotone, costs, propositions, max_literals
        self.max_rules, self.prune, self.refit, self.solver, self.max_nodes = max_rules, prune, refit, solver, max_nodes
        self.n_path, self.cv, self.scoring, self.time_limit, self.journal = n_path, cv, scoring, time_limit, journal
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rules.

        Parameters
        ----------
        X : frame, array or sparse matrix
            Numbers, text, categories, booleans, dates; missing cells are welcome.
        y : array of labels
        sample_weight : array, optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        check_parameters(self, tuple(MARGINS))
        table = checked_table(self, X, reset=True)
        labels = checked_labels(y, table.n_rows)
        weight = checked_weight(sample_weight, table.n_rows)
        classes, codes = np.unique(labels, return_inverse=True)
        present = np.unique(codes[weight > 0])
        if len(present) < 2:
            only = classes[present].tolist()[0]
            where = "y is always" if len(classes) == 1 else "in the rows with positive sample_weight y is always"
            raise TamisError(
                f"Classifier can't train when only one class is present: {where} {only!r}, so nothing was fitted; "
                "give rows of another class."
            )
        self.classes_, codes = classes[present], np.searchsorted(present, codes).clip(0, len(present) - 1)
        self._target_name = target_name(y)
        task = classification(self.loss, codes, self.classes_, weight, self.class_weight, self.multi_class)
        return self._fit(table, task, (self.classes_[codes], weight))

    def decision_function(self, X: Any) -> Array:
        """Scores: one per row for two classes (positive means the second), else one column per class.

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray
        """
        score = self._scores(X)
        return score[:, 0] if score.shape[1] == 1 else score

    def predict(self, X: Any) -> Array:
        """Class labels.

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray of labels
        """
        score = self._scores(X)
        best = (score[:, 0] > 0).astype(int) if score.shape[1] == 1 else score.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (rows, classes).

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray
        """
        score = self._scores(X)
        return probabilities(score, self.card_.link, self.card_.platt)
