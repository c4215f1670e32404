"""BregmanClassifier: the whole path of selections for two or more classes."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from tamis.core.errors import TamisError
from tamis.linear.base import PathModel
from tamis.linear.inputs import checked_columns
from tamis.linear.parameters import check_parameters, method_of
from tamis.linear.split_model import SplitModel
from tamis.linear.task import Task, class_targets, probabilities
from tamis.tables.targets import checked_labels, checked_weight, class_factors, target_name

Array = NDArray[Any]


class BregmanClassifier(ClassifierMixin, SplitModel, PathModel):  # type: ignore[misc]
    """Selection paths for classes: logistic for two, multinomial for more, by linearised Bregman iterations.

    Parameters
    ----------
    loss : {"logistic"}
        Becomes the multinomial loss with three or more classes.
    penalty : {"entry", "group", "column"}
        With several classes "column" lets a feature enter for all of them at once (with `groups`: a group of features).
    groups, transformation, nu, kappa, step, t, fit_intercept, standardize, choose
        See BregmanRegressor; kappa is 20 by default.
    class_weight : "balanced" or mapping of label to weight, optional
    group_weights, penalty_factor, nonnegative, t_max, start, cv, time_limit, journal, n_jobs, random_state, verbose
        See BregmanRegressor.

    Attributes
    ----------
    classes_ : ndarray
    coef_ : ndarray (1 or classes, columns)
    intercept_, path_, certificate_, selected_, events_, t_, status_, notes_, baselines_, gamma_, projected_coef_, transformation_
        See InverseScaleRegressor.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import BregmanClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 6))
    >>> y = np.where(X[:, 1] + 0.3 * rng.normal(size=300) > 0, "up", "down")
    >>> model = BregmanClassifier().fit(X, y)
    >>> model.selected_[0], model.classes_.tolist()
    ('x1', ['down', 'up'])
    """

    def __init__(
        self, loss: str = "logistic", penalty: str = "entry", groups: Any = None, transformation: Any = None,
        nu: float | str | None = "auto", kappa: float | None = None, step: float | str = "auto", t: Any = None,
        fit_intercept: bool = True, standardize: bool = True, choose: str | float = "cv", *, class_weight: Any = None,
        group_weights: Any = "sqrt", penalty_factor: Any = None, nonnegative: Any = False, t_max: float | None = None,
        start: str = "equilibrium", cv: Any = 5, time_limit: float | None = None, journal: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int | bool = 0,
    ) -> None:  # fmt: skip
        self.loss, self.penalty, self.groups, self.transformation, self.nu, self.kappa = loss, penalty, groups, transformation, nu, kappa
        self.step, self.t, self.fit_intercept, self.standardize, self.choose = step, t, fit_intercept, standardize, choose
        self.class_weight, self.group_weights, self.penalty_factor = class_weight, group_weights, penalty_factor
        self.nonnegative, self.t_max, self.start, self.cv = nonnegative, t_max, start, cv
        self.time_limit, self.journal, self.n_jobs = time_limit, journal, n_jobs
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Follow the path and choose a model on it.

        Parameters
        ----------
        X : array, frame, sparse matrix, memory-mapped array or Chunked
        y : array of labels
        sample_weight : array, optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        check_parameters(self, ("logistic",))
        columns = checked_columns(self, X, reset=True)
        labels = checked_labels(y, columns.rows, "BregmanRegressor")
        weight = checked_weight(sample_weight, columns.rows)
        used = weight > 0
        classes = np.unique(labels[used])
        if len(classes) < 2:
            raise TamisError(
                f"y holds one class, {classes[0]!r}, where a classifier needs at least two, so nothing was fitted; give rows of another."
            )
        self.classes_, self._target_name = classes, target_name(y)
        codes = np.zeros(columns.rows, dtype=np.intp)
        codes[used] = np.searchsorted(classes, labels[used])
        target, loss = class_targets(codes, len(classes))
        factors = class_factors(self.class_weight, classes, codes[used], weight[used])
        task = Task(columns, target, weight * factors[codes], loss, tuple(classes.tolist()))
        return self._fit(task, method_of(self, columns.names, loss.name, target.shape[1]))

    def decision_function(self, X: Any, t: float | None = None) -> Array:
        """Scores: one per row for two classes, one per class for more.

        Parameters
        ----------
        X : array, frame or sparse matrix
        t : float, optional
            Anywhere on the path; the chosen time by default.

        Returns
        -------
        ndarray
        """
        scores = self._scores(X, t)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any, t: float | None = None) -> Array:
        """Probability of each class.

        Parameters
        ----------
        X : array, frame or sparse matrix
        t : float, optional

        Returns
        -------
        ndarray (rows, classes)
        """
        return probabilities(self._scores(X, t))

    def predict(self, X: Any, t: float | None = None) -> Array:
        """The likeliest class.

        Parameters
        ----------
        X : array, frame or sparse matrix
        t : float, optional

        Returns
        -------
        ndarray
        """
        scores = self._scores(X, t)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])
