"""scikit-learn's own checks of its estimator contract, on several settings of the linear estimators, with no expected failure."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import BregmanClassifier, BregmanRegressor, InverseScaleRegressor

ESTIMATORS = [
    InverseScaleRegressor(),
    InverseScaleRegressor(choose="ebic", fit_intercept=False),
    InverseScaleRegressor(choose="last", standardize=False),
    InverseScaleRegressor(transformation="fused", choose="last", max_features=5),
    BregmanRegressor(kappa=50.0),
    BregmanRegressor(loss="huber", choose="last"),
    BregmanRegressor(penalty="column", choose="cv-best"),
    BregmanRegressor(transformation="fused+identity", kappa=50.0, choose="last"),
    BregmanClassifier(),
    BregmanClassifier(penalty="column", choose="bic"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_s_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check skips itself
    check(estimator)
