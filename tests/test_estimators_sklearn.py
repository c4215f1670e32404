"""scikit-learn's own checks, all of them, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import RuleClassifier, RuleRegressor

ESTIMATORS = [
    RuleClassifier(),
    RuleRegressor(),
    RuleClassifier(loss="hinge", rho=1.5, C=1.0),
    RuleClassifier(multi_class="ovr", choose="ebic", n_path=5),
    RuleClassifier(lattice="disjunction", refit=True, C=1.0),
    RuleRegressor(loss="huber", C=1.0),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_s_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check skips itself
    check(estimator)
