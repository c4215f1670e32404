"""The oracle is only worth something if it is right: cases small enough to be worked out by hand, and strong duality."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from helpers_oracle import LOSSES, Instance, dual_norm, generic_optimum, random_instance

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def test_free_conjunctions_of_a_worked_case() -> None:
    # a, not a, a again, b implied by a: only {}, a, not a, b and (not a, b) cover different rows and are minimal
    a, b = np.array([1, 1, 0, 0], bool), np.array([1, 1, 1, 0], bool)
    instance = Instance(np.stack([a, ~a, a, b], axis=1), np.array([1.0, -1, 1, -1]))
    assert instance.lattice == [(), (0,), (1,), (2,), (3,), (1, 3)]
    assert Instance(instance.truth, instance.y, max_length=1).lattice == [(), (0,), (1,), (2,), (3,)]
    assert Instance(instance.truth, instance.y, min_support=2.0).lattice == [(), (0,), (1,), (2,), (3,)]
    assert Instance(instance.truth, instance.y, min_support=2.0, row_weight=np.array([1, 1, 5, 1.0])).lattice[-1] == (1, 3)
    assert Instance(instance.truth, instance.y, sign=np.array([1, -1, 0, 1])).lattice == [(), (0,), (1,), (2,), (3,)]
    weightless = Instance(instance.truth, instance.y, weight=np.array([1, 1, 0, 1.0]))
    assert weightless.lattice == [(), (0,), (1,), (2,), (3,)]  # without row 2, b covers the same rows as a, and (not a, b) none


def test_norm_tail_and_dual_norm_of_one_literal() -> None:
    instance = Instance(np.array([[1], [1], [0]], bool), np.array([1.0, -1, 1]), rho=1.5, prices=np.array([3.0]))
    assert instance.omega(np.array([[0.0], [-2.0]])) == pytest.approx(2 + 3 * 2)
    z = np.array([[0.5], [0.25], [-0.75]])
    assert instance.tail((0,), z) == pytest.approx(0.75 / 3)
    assert dual_norm(instance, z) == pytest.approx(0.75 / 4, rel=1e-7)  # |g| / (1 + d): both groups pay
    eta = np.array([1.0, 3.0]) / 4
    assert instance.inside([(), (0,)], eta, z) == pytest.approx(0.75 / 4)
    assert instance.norm_bound([()], np.ones(1), z) == pytest.approx(0.75 / 3)


def test_tail_sums_match_the_closed_form() -> None:
    # all rows alike in pairs: 3 free literals on 8 rows, z = 1 on one row: every conjunction there has |G| = 1
    truth = np.array(list(itertools.product([0, 1], repeat=3)), bool)
    instance = Instance(truth, np.ones(8), rho=1.5, prices=np.full(3, 2.0))
    z = np.zeros((8, 1))
    z[7] = 1.0
    power = 3.0
    assert instance.tail((), z) == pytest.approx(
        (1 + sum(len(c) * 0 + 3.0 ** (-len(c) * power) for c in instance.lattice[1:])) ** (1 / power)
    )
    assert instance.tail((1,), z) == pytest.approx((0.5**power * (1 + 3.0**-power) ** 2) ** (1 / power))


def test_squared_loss_on_one_literal_has_a_closed_form() -> None:
    x, y = np.array([1, 1, 0, 0, 0], float), np.array([3.0, 2.0, 0.5, 0.0, 1.0])
    instance = Instance(x[:, None].astype(bool), y, "squared", C=2.0, rho=1.1)
    centred, target = x - x.mean(), y - y.mean()
    slope = 2 * (centred @ target) / (2 * (centred @ centred) + 9)  # (1 + d)^2 = 9
    found = generic_optimum(instance)
    assert found.F[:, 0] == pytest.approx([0, slope], abs=1e-5)
    assert found.value == pytest.approx(9 * slope**2 / 2 + ((target - slope * centred) ** 2).sum(), rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rho", [2.0, 1.1])
def test_strong_duality(loss: str, rho: float) -> None:
    rng = np.random.default_rng(LOSSES.index(loss))
    instance = random_instance(rng, loss, C=3.0, rho=rho, max_length=2, weight=rng.integers(1, 4, 24).astype(float))
    if loss != "multinomial":
        instance = Instance(**{**vars_of(instance), "offset": rng.normal(size=(24, 1)) / 4, "silent": (1,)})
    found = generic_optimum(instance)
    assert instance.primal(found.F, found.beta) == pytest.approx(found.value, rel=1e-7)
    assert np.abs(found.z.sum(axis=0)).max() < 1e-6
    norm = dual_norm(instance, found.z)
    assert norm == pytest.approx(instance.omega(found.F), rel=1e-4)
    assert pulled_in(instance, found.z, norm) == pytest.approx(found.value, rel=1e-5)
    eta = np.full(len(instance.lattice), 1 / len(instance.lattice))
    assert instance.norm_bound(instance.lattice, eta, found.z) >= norm * (1 - 1e-6)


def vars_of(instance: Instance) -> dict[str, object]:
    return {name: getattr(instance, name) for name in instance.__dataclass_fields__}


def pulled_in(instance: Instance, z: np.ndarray, norm: float) -> float:
    """The dual objective of the solver's z, pulled a hair towards zero so that it lies inside its domain."""
    t = 1 - 1e-6
    if instance.loss in ("hinge", "logistic", "squared_hinge"):
        z = np.where(z * instance.y[:, None] < 0, 0, z)
    if instance.loss == "multinomial":
        hot = np.eye(instance.columns)[instance.y.astype(int)]
        share = np.maximum(hot - z / (instance.C * instance.s[:, None]), 0)
        z = instance.C * instance.s[:, None] * (hot - share / share.sum(axis=1, keepdims=True))
    return instance.dual_value(t * z) - (t * norm) ** 2 / 2


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_monotone_signs_are_a_cone(loss: str) -> None:
    rng = np.random.default_rng(3)
    sign = np.array([1, -1, 1, 0])
    instance = random_instance(rng, loss, C=3.0, rho=1.5, sign=sign)
    found, free = generic_optimum(instance), generic_optimum(random_instance(np.random.default_rng(3), loss, C=3.0, rho=1.5))
    for atom, weight in zip(instance.lattice, found.F[:, 0], strict=True):
        assert weight * instance.sign_of(atom) >= -1e-7
    assert found.value > free.value
    norm = dual_norm(instance, found.z)
    assert pulled_in(instance, found.z, norm) == pytest.approx(found.value, rel=1e-5)


def test_the_best_constant_is_the_optimum_when_nothing_may_be_learned() -> None:
    instance = random_instance(np.random.default_rng(5), "logistic", C=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = generic_optimum(instance)
    share = (instance.y > 0).mean()
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert found.value == pytest.approx(1e-6 * 24 * entropy, rel=1e-3)
