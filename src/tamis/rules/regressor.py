"""RuleRegressor: the certified best few short conjunctions for a number or a count."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tamis.rules.base import RuleModel
from tamis.rules.parameters import check_parameters
from tamis.rules.task import regression
from tamis.tables.contract import checked_table
from tamis.tables.targets import checked_numbers, checked_weight, target_name

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
    rho, C, growth, max_length, min_support, lattice, monotone, costs
        What is searched and what it costs: see RuleClassifier.
    cuts, n_cuts, complements, propositions, max_literals
        Which conditions there are: see RuleClassifier.
    tolerance, gain_tolerance, choose, max_rules, prune, refit, cv, n_path
        What is asked for and how it is chosen: see RuleClassifier.
    solver, max_nodes, time_limit, journal, n_jobs, random_state, verbose
        How it is run: see RuleClassifier.

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
    >>> model = RuleRegressor(C=5.0).fit(X, y)
    >>> model.rules_[0].text
    'x0 > 0.502 AND x1 <= 0.566'
    >>> model.certificate_.holds
    True
    """

    def __init__(
        self, rho: float = 1.1, C: float | None = None, growth: float = 2.0, max_length: int | None = 3, min_support: float = 1,
        loss: str = "squared", lattice: str = "conjunction", cuts: Any = "quantile", n_cuts: int = 8, tolerance: float = 0.01,
        choose: str | float = "cv", *, gain_tolerance: float = 0.1, complements: str = "one", monotone: Any = None,
        costs: Mapping[str, float] | None = None, propositions: Mapping[str, Any] | None = None, max_literals: int = 2000,
        max_rules: int | None = None, prune: str | float | None = "certified", refit: bool = False, solver: str = "mm",
        max_nodes: int = 3000, n_path: int = 20, cv: Any = 5, scoring: str | None = None, time_limit: float | None = None,
        journal: str | os.PathLike[str] | None = None, n_jobs: int | None = None, random_state: Any = None, verbose: int | bool = 0,
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
        check_parameters(self, ("squared", "huber", "poisson"))
        table = checked_table(self, X, reset=True)
        numbers = checked_numbers(y, table.n_rows)
        weight = checked_weight(sample_weight, table.n_rows)
        self._target_name = target_name(y)
        return self._fit(table, regression(self.loss, numbers, weight), (numbers, weight))

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
