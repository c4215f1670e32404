"""Every loss against its formula, its own differences and its conjugate; whatever is registered is tested."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import entr, expit

from helpers_losses import ALL, CORNERS, DELTA, FORMULAS, MARGINS, NUMBERS, WIDTH, matrix, naive, problems
from tamis.core.loss import LOSSES, Huber, SmoothedHinge, Stretched, Targets
from tamis.rules.rows import compress

STEP = 1e-5
SMOOTH = [name for name, loss in ALL.items() if loss.smooth]


def clear_of_corners(name: str, targets: Targets, eta: Any) -> None:
    assume(name not in CORNERS or bool(np.all(CORNERS[name](targets.y, eta) > 3 * STEP)))


def differences(function: Any, at: Any, row: int, column: int) -> Any:
    """Central difference in one entry."""
    up, down = at.copy(), at.copy()
    up[row, column] += STEP
    down[row, column] -= STEP
    return (function(up) - function(down)) / (2 * STEP)


def test_every_registered_loss_is_tested() -> None:
    assert set(FORMULAS) == set(LOSSES) | {"smoothed_hinge"}
    assert all(make.name == name for name, make in LOSSES.items())


@given(problems())
def test_the_value_is_the_formula(problem: tuple[str, Targets, Any]) -> None:
    name, targets, eta = problem
    expected = naive(name, eta, targets.y, targets.weight)
    assert targets.loss.value(eta, targets.y, targets.weight) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(problems(rows=4))
def test_the_gradient_is_the_slope_of_the_value(problem: tuple[str, Targets, Any]) -> None:
    name, targets, eta = problem
    clear_of_corners(name, targets, eta)
    gradient = targets.loss.gradient(eta, targets.y, targets.weight)
    assert gradient.shape == eta.shape
    for row, column in np.ndindex(*eta.shape):
        slope = differences(lambda at: naive(name, at, targets.y, targets.weight), eta, row, column)
        assert gradient[row, column] == pytest.approx(slope, rel=1e-6, abs=1e-6 * targets.weight.sum())


@given(problems(names=[name for name, loss in ALL.items() if isinstance(loss, Stretched)]), st.floats(0.05, 0.9))
def test_stretched_conjugates_know_their_slopes(problem: tuple[str, Targets, Any], share: float) -> None:
    """Against differences of the conjugate itself along the ray."""
    _, targets, eta = problem
    point, step = share * targets.pull(eta), 1e-4
    below, here, above = (targets.dual(at * point) for at in (1 - step, 1.0, 1 + step))
    value, slope, bend = targets.stretched(point)
    size = targets.weight.sum() + np.abs(point * targets.offset).sum()
    assert value == pytest.approx(here, rel=1e-12, abs=1e-12 * size)
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-6 * size)
    assert bend == pytest.approx((above - 2 * here + below) / step**2, rel=1e-3, abs=1e-5 * size)


@pytest.mark.parametrize("margin", [-1e300, -800.0, -700.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 700.0, 800.0, 1e300])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_logistic_loss_of_any_score(margin: float, y: float) -> None:
    """scipy's own functions are the truth, to the last digits, as far as the largest scores and without a warning."""
    loss, target, one = ALL["logistic"], np.array([[y]]), np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = loss.value(np.array([[y * margin]]), target, one), loss.gradient(np.array([[y * margin]]), target, one)
    assert value == pytest.approx(np.logaddexp(0.0, -margin), rel=1e-15)
    assert gradient[0, 0] == pytest.approx(-y * expit(-margin), rel=1e-13)
    share = float(expit(-margin))
    assert loss.conjugate(gradient, target, one) == pytest.approx(-entr(share) - entr(1.0 - share), rel=1e-12, abs=1e-300)


@given(problems())
def test_conjugates_said_to_be_parabolas_are(problem: tuple[str, Targets, Any]) -> None:
    _, targets, eta = problem
    assume(targets.loss.parabolic)
    pull = targets.pull(eta)
    start, middle, end = (targets.dual(share * pull) for share in (0.0, 0.5, 1.0))
    for share in (0.2, 0.7, 0.9):
        lagrange = (1 - share) * (1 - 2 * share) * start + 4 * share * (1 - share) * middle + share * (2 * share - 1) * end
        assert targets.dual(share * pull) == pytest.approx(lagrange, rel=1e-9, abs=1e-9 * (abs(end) + abs(middle) + 1))


@given(problems(rows=4, columns=4))
def test_the_curvature_is_the_slope_of_the_gradient(problem: tuple[str, Targets, Any]) -> None:
    name, targets, eta = problem
    clear_of_corners(name, targets, eta)
    loss, y, s = targets.loss, targets.y, targets.weight
    curvature = np.asarray(loss.curvature(eta, y, s))
    for row, column in np.ndindex(*eta.shape):
        slope = differences(lambda at: loss.gradient(at, y, s), eta, row, column)
        assert not np.delete(slope, row, axis=0).any()  # rows do not see each other
        expected = slope[row]
        if name == "smoothed_hinge":  # never quite zero, so that a Newton step has a length on its flat parts
            expected = np.maximum(expected, 1e-3 * s[row] / WIDTH)
        found = curvature[row, :, column] if curvature.ndim == 3 else curvature[row]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * s[row])


@given(problems(), st.floats(0, 1), st.data())
def test_fenchel_young(problem: tuple[str, Targets, Any], share: float, data: st.DataObject) -> None:
    """value + conjugate >= <u, eta> for every u and eta, with equality at the gradient."""
    _, targets, eta = problem
    loss, y, s = targets.loss, targets.y, targets.weight
    u = loss.gradient(eta, y, s)
    size = s.sum() * 10
    assert loss.value(eta, y, s) + loss.conjugate(u, y, s) == pytest.approx((u * eta).sum(), abs=1e-12 * size)
    other = matrix(data.draw, *eta.shape, -4.0, 4.0)
    for dual in (u, loss.gradient(other, y, s), share * u + (1 - share) * loss.gradient(other, y, s), other * s[:, None]):
        for score in (eta, other, share * eta + (1 - share) * other):
            assert loss.value(score, y, s) + loss.conjugate(dual, y, s) >= (dual * score).sum() - 1e-12 * size


@given(problems(), st.floats(0, 1))
def test_the_conjugate_is_finite_between_gradients_and_zero(problem: tuple[str, Targets, Any], share: float) -> None:
    _, targets, eta = problem
    assert np.isfinite(targets.loss.conjugate(share * targets.loss.gradient(eta, targets.y, targets.weight), targets.y, targets.weight))


@given(problems(), st.floats(0, 1), st.data())
def test_convexity(problem: tuple[str, Targets, Any], share: float, data: st.DataObject) -> None:
    _, targets, eta = problem
    loss, y, s = targets.loss, targets.y, targets.weight
    other = matrix(data.draw, *eta.shape, -4.0, 4.0)
    between = loss.value(share * eta + (1 - share) * other, y, s)
    assert between <= share * loss.value(eta, y, s) + (1 - share) * loss.value(other, y, s) + 1e-11 * s.sum()
    assert ((loss.gradient(eta, y, s) - loss.gradient(other, y, s)) * (eta - other)).sum() >= -1e-11 * s.sum()


# For one row of weight s and target y: the ends of the conjugate's domain, None where it has no end.
DOMAINS: dict[str, Any] = {
    "squared": lambda y, s: (None, None),
    "huber": lambda y, s: (-s * DELTA, s * DELTA),
    "poisson": lambda y, s: (-s * y, None),
    "logistic": lambda y, s: tuple(sorted((0.0, -s * y))),
    "squared_hinge": lambda y, s: (None, 0.0) if y > 0 else (0.0, None),
    "hinge": lambda y, s: tuple(sorted((0.0, -s * y))),
    "smoothed_hinge": lambda y, s: tuple(sorted((0.0, -s * y))),
}


@given(problems(names=list(DOMAINS), rows=5), st.data())
def test_the_conjugate_ends_where_its_domain_ends(problem: tuple[str, Targets, Any], data: st.DataObject) -> None:
    name, targets, eta = problem
    loss, y, s = targets.loss, targets.y, targets.weight
    row = data.draw(st.integers(0, len(y) - 1))
    low, high = DOMAINS[name](y[row, 0], s[row])
    for end, out in ((low, -1.0), (high, 1.0)):
        u = loss.gradient(eta, y, s)
        u[row] = 1e6 * out * s[row] if end is None else end
        assert np.isfinite(loss.conjugate(u, y, s))
        if end is not None:
            u[row] = end + out * 1e-14 * s[row]  # rounding is forgiven
            assert np.isfinite(loss.conjugate(u, y, s))
            u[row] = end + out * 1e-6 * s[row] * (1 + abs(y[row]))
            assert loss.conjugate(u, y, s) == np.inf


@given(problems(names=["multinomial"], rows=5), st.data())
def test_the_multinomial_conjugate_lives_on_the_simplex(problem: tuple[str, Targets, Any], data: st.DataObject) -> None:
    _, targets, eta = problem
    loss, y, s = targets.loss, targets.y, targets.weight
    row, columns = data.draw(st.integers(0, len(y) - 1)), y.shape[1]
    corner = np.eye(columns)[data.draw(st.integers(0, columns - 1))]
    inside = loss.gradient(eta, y, s)
    inside[row] = s[row] * (corner - y[row])  # all of the row's mass on one class
    assert np.isfinite(loss.conjugate(inside, y, s))
    beyond, off = inside.copy(), inside.copy()
    away = np.roll(corner, 1)
    beyond[row] += 1e-6 * s[row] * (corner - away)
    assert loss.conjugate(beyond, y, s) == np.inf
    off[row] += 1e-6 * s[row] * corner
    assert loss.conjugate(off, y, s) == np.inf


@given(problems(), st.floats(0.05, 1))
def test_reach_is_how_far_a_dual_point_can_be_stretched(problem: tuple[str, Targets, Any], share: float) -> None:
    _, targets, eta = problem
    loss, y, s = targets.loss, targets.y, targets.weight
    u = share * loss.gradient(eta, y, s)
    reach = loss.reach(u, y, s)
    assert reach >= 1.0
    if reach == np.inf:
        assert np.isfinite(loss.conjugate(1e6 * u, y, s))
    else:
        assert np.isfinite(loss.conjugate(reach * u, y, s))
        assert loss.conjugate(reach * (1 + 1e-6) * u, y, s) == np.inf


@given(problems(rows=5), st.data())
def test_a_weight_is_a_repetition(problem: tuple[str, Targets, Any], data: st.DataObject) -> None:
    _, targets, eta = problem
    loss, y = targets.loss, targets.y
    times = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(y), max_size=len(y))))
    owner = np.repeat(np.arange(len(y)), times)
    once, s = np.ones(len(owner)), times.astype(float)
    assert loss.value(eta, y, s) == pytest.approx(loss.value(eta[owner], y[owner], once), rel=1e-12, abs=1e-12)
    gradient, repeated = loss.gradient(eta, y, s), loss.gradient(eta[owner], y[owner], once)
    np.testing.assert_allclose(gradient, np.add.reduceat(repeated, np.cumsum(times) - times), rtol=1e-12, atol=1e-12)
    assert loss.conjugate(gradient, y, s) == pytest.approx(loss.conjugate(repeated, y[owner], once), rel=1e-12, abs=1e-10)
    assert loss.reach(gradient, y, s) == pytest.approx(loss.reach(repeated, y[owner], once), rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_huge_scores_overflow_to_nothing_but_infinity(name: str) -> None:
    loss = ALL[name]
    y = np.eye(3)[[0, 1]] if name == "multinomial" else np.array([[1.0], [1.0 if name in (*NUMBERS, "poisson") else -1.0]])
    eta, s = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]])[:, : y.shape[1]], np.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient, curvature = loss.value(eta, y, s), loss.gradient(eta, y, s), loss.curvature(eta, y, s)
    finite = name != "poisson"
    assert np.isfinite(value) == np.isfinite(gradient).all() == np.isfinite(curvature).all() == finite
    assert not np.isnan(gradient).any()


@pytest.mark.parametrize("name", ALL)
def test_nan_is_never_a_number(name: str) -> None:
    y = np.eye(2)[[0, 1]] if name == "multinomial" else np.array([[1.0], [-1.0 if name in MARGINS else 2.0]])
    bad, s = np.full(y.shape, np.nan), np.ones(2)
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(ALL[name].conjugate(bad, y, s))
        assert np.isnan(ALL[name].value(bad, y, s))


@given(st.floats(0.01, 3), problems(names=["hinge"], shifted=False))
def test_the_smoothed_hinge_stays_within_half_its_width(width: float, problem: tuple[str, Targets, Any]) -> None:
    _, targets, eta = problem
    sharp, round_ = targets.loss.value(eta, targets.y, targets.weight), SmoothedHinge(width).value(eta, targets.y, targets.weight)
    assert -1e-12 <= (sharp - round_) / targets.weight.sum() <= width / 2 + 1e-12
    assert targets.loss.smoothed(width) == SmoothedHinge(width)


@given(st.floats(0.01, 3), st.integers(0, 2**32 - 1), problems(names=["hinge"], shifted=False))
def test_a_smoothed_hinge_with_a_centre_is_a_loss_below_the_hinge(width: float, seed: int, problem: tuple[str, Targets, Any]) -> None:
    _, targets, eta = problem
    y, s = targets.y, targets.weight
    loss = targets.loss.smoothed(width, np.random.default_rng(seed).random(y.shape))
    raw = loss.centre + (1 - y * eta) / width
    assume(bool(np.all(width * np.minimum(np.abs(raw), np.abs(raw - 1)) > 3 * STEP)))
    value, gradient = loss.value(eta, y, s), loss.gradient(eta, y, s)
    assert -1e-12 <= (targets.loss.value(eta, y, s) - value) / s.sum() <= width / 2 + 1e-12
    assert value + loss.conjugate(gradient, y, s) == pytest.approx(float((gradient * eta).sum()), rel=1e-9, abs=1e-9 * s.sum())
    for row in range(len(y)):
        slope = differences(lambda at: loss.value(at, y, s), eta, row, 0)
        assert gradient[row, 0] == pytest.approx(slope, rel=1e-6, abs=1e-6 * s.sum())


def test_rounding_around_the_hinge_s_own_shares_costs_nothing() -> None:
    y, s, eta = np.array([[1.0], [-1.0], [1.0]]), np.array([1.0, 2.0, 0.5]), np.array([[0.2], [3.0], [4.0]])
    hinge = ALL["hinge"]
    shares = -hinge.gradient(eta, y, s) * y / s[:, None]
    assert hinge.smoothed(2.0, shares).value(eta, y, s) == pytest.approx(hinge.value(eta, y, s), rel=1e-15)


def test_logistic_curvature_far_out() -> None:
    eta = np.array([[-12.0], [12.0], [1e3]])
    found = ALL["logistic"].curvature(eta, np.ones((3, 1)), np.full(3, 2.0))[:, 0]
    small = 2.0 * np.exp(-12.0) / (1 + np.exp(-12.0)) ** 2
    assert found == pytest.approx([small, small, 2e-12], rel=1e-9)  # never zero: a Newton step divides by it


def test_huber_takes_its_own_delta() -> None:
    eta, y, s = np.array([[3.0]]), np.array([[1.0]]), np.array([2.0])
    assert Huber(delta=0.5).value(eta, y, s) == pytest.approx(2 * 0.5 * (2 - 0.25))
    assert Huber(delta=0.5).gradient(eta, y, s) == pytest.approx(1.0)
    assert Huber(delta=0.5).conjugate(np.array([[1.01]]), y, s) == np.inf


# ---- targets with their data ------------------------------------------------------------------------------------------
@st.composite
def grouped(draw: st.DrawFn) -> tuple[Targets, Any]:
    """Targets whose rows share design rows, and a score per design row."""
    _, targets, _ = draw(problems())
    count = len(targets.y)
    starts = np.array([0, *sorted(draw(st.sets(st.integers(1, count - 1))) if count > 1 else [])], dtype=np.intp)
    whole = Targets(targets.loss, targets.y, targets.weight, targets.offset, draw(st.floats(-3, 3)), starts)
    return whole, matrix(draw, len(starts), targets.columns, -3.0, 3.0)


@given(grouped(), st.floats(0.1, 10))
def test_targets_that_share_design_rows(case: tuple[Targets, Any], factor: float) -> None:
    targets, score = case
    ends = [*targets.starts[1:], len(targets.y)]  # type: ignore[index]
    owner = [design for design, (first, last) in enumerate(zip(targets.starts, ends, strict=True)) for _ in range(first, last)]  # type: ignore[arg-type]
    assert targets.owner.tolist() == owner
    assert targets.design_rows == len(score)
    spread = np.array([score[design] + offset for design, offset in zip(owner, targets.offset, strict=True)])
    np.testing.assert_array_equal(targets.spread(score), spread)
    loss, y, s = targets.loss, targets.y, targets.weight
    size = 10 * s.sum() + 10
    assert targets.value(score) == pytest.approx(loss.value(spread, y, s) + targets.constant, abs=1e-12 * size)
    pull = targets.pull(score)
    np.testing.assert_array_equal(pull, -loss.gradient(spread, y, s))
    for values, folded in ((pull, targets.fold(pull)), (np.asarray(loss.curvature(spread, y, s)), targets.curvature(score))):
        for design in range(len(score)):
            np.testing.assert_allclose(folded[design], values[np.array(owner) == design].sum(axis=0), rtol=1e-12, atol=1e-12 * size)
    # what the dual point is worth is what is left of the value when the scores are paid for, and no point is worth more
    assert targets.dual(pull) == pytest.approx(targets.value(score) + (targets.fold(pull) * score).sum(), abs=1e-11 * size)
    assert targets.dual(pull) <= targets.value(0 * score) + 1e-11 * size
    reach = min(targets.reach(pull), 1e3)
    assert np.isfinite(targets.dual(reach * pull))
    assert reach == 1e3 or targets.dual(reach * (1 + 1e-6) * pull) == -np.inf
    stronger = targets.at(factor)
    assert stronger.value(score) == pytest.approx(factor * targets.value(score), rel=1e-10, abs=1e-12 * size)
    assert stronger.dual(factor * pull) == pytest.approx(factor * targets.dual(pull), rel=1e-10, abs=1e-10 * size)


def test_without_shared_rows_targets_are_rows() -> None:
    targets = Targets(ALL["squared"], np.ones((3, 1)), np.ones(3), np.full((3, 1), 0.5))
    assert targets.owner.tolist() == [0, 1, 2]
    values = np.arange(3.0)
    assert targets.fold(values) is values
    np.testing.assert_array_equal(targets.spread(np.zeros((3, 1))), targets.offset)
    assert isinstance(targets.with_loss(ALL["huber"]).loss, Huber)


@given(problems(names=SMOOTH, rows=30), st.data())
def test_merged_rows_are_worth_what_their_rows_were(problem: tuple[str, Targets, Any], data: st.DataObject) -> None:
    _, targets, _ = problem
    count = len(targets.y)
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    truth = draw.random((2, count)) < 0.5
    y, offset = targets.y[draw.integers(0, count, count)], np.round(targets.offset)  # equal ones occur
    merged = compress(list(truth), targets.loss, y, targets.weight, np.ones(count), offset)
    score = matrix(data.draw, merged.targets.design_rows, targets.columns, -3.0, 3.0)
    plain = Targets(targets.loss, y, targets.weight, offset)
    scores = score[merged.design_row]
    assert merged.targets.value(score) == pytest.approx(plain.value(scores), rel=1e-11, abs=1e-11 * targets.weight.sum())
    folded = np.zeros_like(score)
    np.add.at(folded, merged.design_row, plain.pull(scores))
    np.testing.assert_allclose(merged.targets.fold(merged.targets.pull(score)), folded, rtol=1e-9, atol=1e-10 * targets.weight.sum())
    np.testing.assert_array_equal(merged.literals.truth()[merged.design_row], truth.T)
