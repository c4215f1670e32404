"""RuleRegressor: the certified best few short conjunctions for a number or a count."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tamis.core.errors import TamisError
from tamis.rules.base import RuleModel
from tamis.rules.inputs import checked_table, checked_target, checked_weight, target_name
from tamis.rules.task import regression

Array = NDArray[Any]


class RuleRegressor(RegressorMixin, RuleModel):  # type: ignore[misc]
    """Few short IF-rules that add up to a number, certified against all conjunctions of the conditions.

    Everything is as in RuleClassifier but for the losses.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"}
        Half the squared error; Huber with its corner at 1.345 robust standard deviations; counts with a log link.
    scoring : str, optional
        What folds are judged by: mean loss, "mse", "r2", "d2".
    rho, C, growth, max_length, min_support, lattice, cuts, n_cuts, tolerance, choose, gain_tolerance, complements,
    monotone, costs, propositions, max_literals, max_rules, prune, refit, solver, max_nodes, n_path, cv, time_limit,
    journal, n_jobs, random_state, verbose
        See RuleClassifier.

    Attributes
    ----------
    rules_, certificate_, path_, selected_, card_, schema_, baselines_, C_, status_, notes_

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import RuleRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((300, 4))
    >>> y = 2.0 * ((X[:, 0] > 0.5) & (X[:, 1] <= 0.5)) + 0.1 * rng.normal(size=300)
    >>> model = RuleRegressor(C=5.0, growth=1.2).fit(X, y)
    >>> model.certificate_.holds, model.score(X, y) > 0.9
    (True, True)
    """

    def __init__(
        self, rho=1.1, C=None, growth=2.0, max_length=3, min_support=1, loss="squared", lattice="conjunction", cuts="quantile",
        n_cuts=8, tolerance=0.01, choose="cv", *, gain_tolerance=0.1, complements="one", monotone=None, costs=None, propositions=None,
        max_literals=2000, max_rules=None, prune="certified", refit=False, solver="mm", max_nodes=3000, n_path=20, cv=5, scoring=None,
        time_limit=None, journal=None, n_jobs=None, random_state=None, verbose=0,
    ) -> None:  # fmt: skip
        self.rho, self.C, self.growth, self.max_length, self.min_support = rho, C, growth, max_length, min_support
        self.loss, self.lattice, self.cuts, self.n_cuts, self.tolerance, self.choose = loss, lattice, cuts, n_cuts, tolerance, choose
        self.gain_tolerance, self.complements, self.monotone, self.costs = gain_tolerance, complements, monotone, costs
        self.propositions, self.max_literals, self.max_rules, self.prune = propositions, max_literals, max_rules, prune
        self.refit, self.solver, self.max_nodes, self.n_path, self.cv = refit, solver, max_nodes, n_path, cv
        self.scoring, self.time_limit, self.journal, self.n_jobs = scoring, time_limit, journal, n_jobs
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rules.

        Parameters
        ----------
        X : frame, array or sparse matrix
        y : array of numbers
        sample_weight : array, optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        table = checked_table(self, X, reset=True)
        values = checked_target(y, table.n_rows)
        try:
            numbers = values.astype(float)
        except (TypeError, ValueError) as error:
            raise TamisError(f"y holds {values[0]!r}, which is no number, so nothing was fitted; use RuleClassifier for labels.") from error
        weight = checked_weight(sample_weight, table.n_rows)
        self._target_name = target_name(y)
        return self._fit(table, regression(self.loss, numbers, weight), (X, numbers, weight))

    def predict(self, X: Any) -> Array:
        """Predicted numbers (rates for loss="poisson").

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray
        """
        score = self._scores(X)[:, 0]
        return np.exp(score) if self.card_.link == "exp" else score
