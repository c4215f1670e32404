"""InverseScaleRegressor and BregmanRegressor: the whole path of selections for a number or a count."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tamis.core.errors import TamisError
from tamis.linear.base import PathModel
from tamis.linear.inputs import checked_columns
from tamis.linear.parameters import check_parameters, method_of
from tamis.linear.split_model import SplitModel
from tamis.linear.task import Task, loss_named
from tamis.tables.targets import checked_numbers, checked_weight, target_name

Array = NDArray[Any]


class LinearRegressor(RegressorMixin, SplitModel, PathModel):  # type: ignore[misc]
    """What both regressors share: fitting a number and predicting it."""

    _losses: tuple[str, ...] = ("squared",)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Follow the path and choose a model on it.

        Parameters
        ----------
        X : array, frame, sparse matrix, memory-mapped array or Chunked
        y : array of numbers
        sample_weight : array, optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        check_parameters(self, self._losses)
        columns = checked_columns(self, X, reset=True)
        name = getattr(self, "loss", "squared")
        numbers = checked_numbers(y, columns.rows, "BregmanClassifier")
        if name == "poisson" and (numbers.min() < 0 or not numbers.sum() > 0):
            raise TamisError("loss='poisson' needs y >= 0 with a positive sum, so nothing was fitted; check y or use loss='squared'.")
        weight = checked_weight(sample_weight, columns.rows)
        used = weight > 0
        self._target_name = target_name(y)
        task = Task(columns, numbers[:, None], weight, loss_named(name, numbers[used, None], weight[used]))
        return self._fit(task, method_of(self, columns.names, name, 1))

    def predict(self, X: Any, t: float | None = None) -> Array:
        """Predicted numbers (rates for loss="poisson").

        Parameters
        ----------
        X : array, frame or sparse matrix
        t : float, optional
            Anywhere on the path; the chosen time by default.

        Returns
        -------
        ndarray
        """
        score = self._scores(X, t)[:, 0]
        return np.exp(score) if getattr(self, "loss", "squared") == "poisson" else score


class InverseScaleRegressor(LinearRegressor):
    """The exact inverse scale space path of a least squares problem: every selection, each fitted without shrinkage.

    Coefficients are constant between events; at each, the model is the least squares fit on what has been selected (signs as
    they entered). The order of entry is much that of the lasso; what is gained is bias: coefficients are not shrunk, so models
    chosen by validation are smaller. Time t grows as regularisation falls; 1 / t is what the lasso calls alpha.

    Parameters
    ----------
    fit_intercept : bool
    standardize : bool
        Bring columns to mean square 1 first (time is measured on that scale; coefficients come back in their own units). With a
        `transformation` columns stay as they are.
    max_features : int, optional
        Stop the path when so many are in.
    t_max : float, optional
        Stop the path there.
    choose : {"cv", "cv-best", "aic", "bic", "ebic", "discrepancy", "stability", "last"} or float
        How the model on the path is chosen: "cv" is the smallest within one standard error of the best in cross-validation,
        "discrepancy" the first whose residual looks like noise; a number is a time.
    nonnegative : bool or list of columns
        Coefficients that may not be negative.
    penalty_factor : array or mapping of column to factor, optional
        How much dearer a column is; 0 is always in, infinity never.
    transformation : optional
        D of the split version, sparse in D beta: "identity", "fused", "fused+identity", "grid:8x8", a matrix, or a list of these.
    nu : float or "auto"
        How loosely gamma follows D beta in the split version.
    sigma : float, optional
        Standard deviation of the noise, for choose="discrepancy".
    cv : int, splitter, or iterable of (train, test)
    time_limit : float, optional
        Seconds after which the path so far is returned.
    journal : path, optional
        File that keeps every knot, so that a killed fit goes on from there.
    n_jobs : int, optional
        Processes for folds.
    random_state, verbose

    Attributes
    ----------
    coef_, intercept_ : the chosen model in its own units
    path_ : Path
        All of it; `predict(X, t)` and `coefficients(t)` read it anywhere.
    certificate_ : Certificate
        How exactly the path solves its equations; `recheck(X, y)` computes it again from the data.
    selected_, events_, t_, status_, notes_, baselines_
    gamma_, projected_coef_, transformation_
        With a transformation: the sparse part, coefficients that obey what it says (with `projected_intercept_`), and D.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import InverseScaleRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> y = 3 * X[:, 2] - 2 * X[:, 5] + 0.1 * rng.normal(size=100)
    >>> model = InverseScaleRegressor().fit(X, y)
    >>> model.selected_
    ('x2', 'x5')
    >>> model.coef_.round(1).tolist()
    [0.0, 0.0, 3.0, 0.0, 0.0, -2.0, 0.0, 0.0]
    >>> model.certificate_.holds
    True
    """

    def __init__(
        self, fit_intercept: bool = True, standardize: bool = True, max_features: int | None = None, t_max: float | None = None,
        choose: str | float = "cv", *, nonnegative: Any = False, penalty_factor: Any = None, transformation: Any = None,
        nu: float | str | None = "auto", sigma: float | None = None, cv: Any = 5, time_limit: float | None = None,
        journal: str | os.PathLike[str] | None = None, n_jobs: int | None = None, random_state: Any = None, verbose: int | bool = 0,
    ) -> None:  # fmt: skip
        self.fit_intercept, self.standardize, self.max_features, self.t_max, self.choose = (
            fit_intercept, standardize, max_features, t_max, choose,
        )  # fmt: skip
        self.nonnegative, self.penalty_factor, self.transformation, self.nu = nonnegative, penalty_factor, transformation, nu
        self.sigma, self.cv, self.time_limit, self.journal, self.n_jobs = sigma, cv, time_limit, journal, n_jobs
        self.random_state, self.verbose = random_state, verbose


class BregmanRegressor(LinearRegressor):
    """Selection paths by linearised Bregman iterations: any loss, groups, and sparsity after a transformation.

    A squared loss without groups, `kappa`, `step` and `t` is followed exactly, as by InverseScaleRegressor.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"}
        Half the squared error; Huber with its corner at 1.345 robust standard deviations; counts with a log link.
    penalty : {"entry", "group", "column"}
        Whether columns enter alone or in groups ("column" is the same as "entry" for a single target).
    groups : lists of columns, one label per column, or mapping of column to group (columns it does not name stand alone)
    transformation : optional
        D of the split version; see InverseScaleRegressor.
    nu : float or "auto"
    kappa : float, optional
        Damping of the iterations: larger is nearer to the exact flow, and takes more iterations. For squared and huber it is
        measured in standard deviations of the target. Default 100 (squared, huber) or 20 (poisson), 200 with a transformation.
    step : "auto" or float
        The step of the iterations; one that is not stable is refused.
    t : float or array, optional
        Times at which the path is kept; by default 100 from the first entry to 20 times that time.
    fit_intercept, standardize, choose
        See InverseScaleRegressor.
    group_weights : "sqrt", "one", or numbers
        What a group pays: the root of its size, 1, or given; 0 is always in.
    penalty_factor, nonnegative, t_max, max_features, sigma
        See InverseScaleRegressor; `max_features` is for exact paths.
    start : {"equilibrium", "zero"}
        Where split iterations begin.
    cv, time_limit, journal, n_jobs, random_state, verbose
        See InverseScaleRegressor.

    Attributes
    ----------
    coef_, intercept_, path_, certificate_, selected_, events_, t_, status_, notes_, baselines_, gamma_, projected_coef_, transformation_
        See InverseScaleRegressor.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import BregmanRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=200)
    >>> model = BregmanRegressor(penalty="group", groups=[[0, 1], [2, 3], [4, 5]]).fit(X, y)
    >>> sorted(model.selected_)
    ['x0', 'x1']
    """

    _losses = ("squared", "huber", "poisson")

    def __init__(
        self, loss: str = "squared", penalty: str = "entry", groups: Any = None, transformation: Any = None,
        nu: float | str | None = "auto", kappa: float | None = None, step: float | str = "auto", t: Any = None,
        fit_intercept: bool = True, standardize: bool = True, choose: str | float = "cv", *, group_weights: Any = "sqrt",
        penalty_factor: Any = None, nonnegative: Any = False, t_max: float | None = None, max_features: int | None = None,
        sigma: float | None = None, start: str = "equilibrium", cv: Any = 5, time_limit: float | None = None,
        journal: str | os.PathLike[str] | None = None, n_jobs: int | None = None, random_state: Any = None, verbose: int | bool = 0,
    ) -> None:  # fmt: skip
        self.loss, self.penalty, self.groups, self.transformation, self.nu, self.kappa = loss, penalty, groups, transformation, nu, kappa
        self.step, self.t, self.fit_intercept, self.standardize, self.choose = step, t, fit_intercept, standardize, choose
        self.group_weights, self.penalty_factor, self.nonnegative = group_weights, penalty_factor, nonnegative
        self.t_max, self.max_features, self.sigma, self.start, self.cv = t_max, max_features, sigma, start, cv
        self.time_limit, self.journal, self.n_jobs = time_limit, journal, n_jobs
        self.random_state, self.verbose = random_state, verbose
