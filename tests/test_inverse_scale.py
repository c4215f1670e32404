"""The exact path against brute force, against its own equations on degenerate problems, and against what theory says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_paths import KINDS, arrays, autoregressive, brute_force, degenerate, duals_of, follow, violations
from tamis.solvers.cholesky import Factor
from tamis.solvers.inverse_scale import InverseScale

WAYS = ("lazy", "rows", "gram")


@pytest.mark.parametrize("how", WAYS)
def test_equals_brute_force_over_supports_and_signs(how: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(1, 7))
        X = np.asfortranarray(rng.standard_normal((20, p)) @ (np.eye(p) + 0.6 * rng.standard_normal((p, p))))
        y = X @ np.r_[2.0, -1.0, 0.5, np.zeros(3)][:p] + rng.standard_normal(20)
        times, found, _ = follow(X, y, how)
        exact_times, exact = brute_force(X, y, 200)
        assert len(times) == len(exact_times)
        assert np.abs(times - exact_times).max() <= 1e-8 * times[-1]
        assert np.abs(found - exact).max() <= 1e-8 * np.abs(exact).max()


@pytest.mark.parametrize("kind", KINDS)
def test_solves_its_equations_on_degenerate_problems(kind: str) -> None:
    worst = 0.0
    for seed in range(45):
        X, y = degenerate(seed, kind)
        least = y - X @ np.linalg.lstsq(X, y, rcond=1e-10)[0]
        for how in ("lazy", "rows"):
            times, found, engine = follow(X, y, how)
            assert engine.status == "complete"
            # rounding of one path grows with the length of its time; seven decades past the first entry is where 1e-9 ends
            reached = times <= 1e5 * times[min(1, len(times) - 1)] if len(times) > 1 else times >= 0
            worst = max(worst, *violations(X, y, times[reached], found[:, reached]).values())
            assert max(violations(X, y, times, found).values()) <= 1e-8
            assert np.linalg.norm(y - X @ found[:, -1]) <= np.linalg.norm(least) + 1e-8 * max(np.linalg.norm(y), 1e-300)
    assert worst <= 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from([kind for kind in KINDS if kind not in ("repeated", "negated", "summed")]))
def test_the_order_and_the_sign_of_columns_do_not_matter(seed: int, kind: str) -> None:
    X, y = degenerate(seed, kind)
    rng = np.random.default_rng(seed)
    order, flip = rng.permutation(X.shape[1]), rng.choice([-1.0, 1.0], X.shape[1])
    times, found, _ = follow(X, y, "lazy", t_end=1e3 / max(np.linalg.norm(y) / np.sqrt(len(y)), 1e-300))
    other_times, other, _ = follow(
        np.asfortranarray((X * flip)[:, order]), y, "rows", t_end=1e3 / max(np.linalg.norm(y) / np.sqrt(len(y)), 1e-300)
    )
    assert len(times) == len(other_times)
    assert np.abs(times - other_times).max() <= 1e-7 * max(times[-1], 1e-300)
    fits = X @ found
    assert np.abs((X * flip)[:, order] @ other - fits).max(initial=0.0) <= 1e-6 * max(np.abs(fits).max(initial=0.0), 1e-300)


def test_fits_are_unique_where_columns_depend_on_each_other() -> None:
    for seed in range(30):
        X, y = degenerate(seed, ("repeated", "negated", "summed")[seed % 3])
        order = np.random.default_rng(seed).permutation(X.shape[1])
        times, found, _ = follow(X, y, "lazy")
        again_times, again, _ = follow(np.asfortranarray(X[:, order]), y, "lazy")
        common = np.linspace(0, min(times[-1], 100 * times[min(1, len(times) - 1)]), 50) * (1 + 1e-9)
        at = [np.searchsorted(t, common, side="right") - 1 for t in (times, again_times)]
        near = np.abs(times[:, None] - common).min(axis=0) > 1e-6 * max(times[-1], 1e-300)  # not at an event itself
        difference = (X @ found)[:, at[0]] - (X[:, order] @ again)[:, at[1]]
        assert np.abs(difference[:, near]).max(initial=0.0) <= 1e-7 * max(np.abs(y).max(), 1e-300)


def test_orthonormal_columns_are_thresholded_hard() -> None:
    rng = np.random.default_rng(0)
    X = np.asfortranarray(np.sqrt(40) * np.linalg.qr(rng.standard_normal((40, 12)))[0])
    b = rng.standard_normal(12)
    times, found, _ = follow(X, X @ b, "lazy")
    assert np.allclose(np.sort(1 / np.abs(b)), times[1:], rtol=1e-10)
    for t, values in zip(times[1:], found.T[1:], strict=True):
        assert np.allclose(values, np.where(1 / np.abs(b) <= t * (1 + 1e-9), b, 0.0), atol=1e-10)


@pytest.mark.parametrize("how", WAYS)
def test_ties_enter_together(how: str) -> None:
    X = np.asfortranarray(np.sqrt(8) * np.eye(8))
    times, found, _ = follow(X, X @ np.ones(8), how)
    assert times.tolist() == pytest.approx([0.0, 1.0])
    assert np.allclose(found[:, 1], 1.0)


@pytest.mark.parametrize("how", WAYS)
def test_nothing_to_explain_is_an_empty_path(how: str) -> None:
    X, _ = degenerate(3, "plain")
    times, found, engine = follow(X, np.zeros(len(X)), how)
    assert (len(times), engine.status) == (1, "complete")
    assert not found.any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-6, 1e-3, 7.0, 1e5]))
def test_scaling_the_target_scales_time_inversely(seed: int, scale: float) -> None:
    X, y = degenerate(seed, "plain")
    times, found, _ = follow(X, y, "lazy")
    scaled_times, scaled, _ = follow(X, scale * y, "lazy")
    assert len(times) == len(scaled_times)
    assert np.allclose(scaled_times * scale, times, rtol=1e-6)
    assert np.allclose(scaled / scale, found, rtol=1e-5, atol=1e-7 * max(np.abs(found).max(initial=0.0), 1e-300))


def test_coefficients_can_be_kept_from_being_negative() -> None:
    from scipy.optimize import nnls

    for seed in range(20):
        X, y = degenerate(seed, "plain")
        every = np.ones(X.shape[1], dtype=bool)
        for how in WAYS:
            times, found, engine = follow(X, y, how, every)
            assert (engine.status, found.min(initial=0.0)) == ("complete", 0.0)
            assert max(violations(X, y, times, found, every).values()) <= 1e-8
            assert np.linalg.norm(y - X @ found[:, -1]) <= nnls(X, y)[1] * (1 + 1e-7) + 1e-9 * np.linalg.norm(y)


def test_safe_bounds_give_the_same_path_as_looking_at_everybody() -> None:
    X, y, _ = autoregressive(100, 1500, 12)
    lazy, dense = (follow(X, y, how, most=60) for how in ("lazy", "gram"))
    assert len(lazy[0]) == len(dense[0]) > 55
    assert np.allclose(lazy[0], dense[0], rtol=1e-9)
    assert np.allclose(lazy[1], dense[1], atol=1e-8)
    assert max(violations(X, y, lazy[0], lazy[1]).values()) <= 1e-12


@pytest.mark.parametrize("how", WAYS)
def test_going_on_from_any_event_is_the_same_path(how: str) -> None:
    X, y, _ = autoregressive(60, 40, 6, seed=4)
    engine = InverseScale(duals_of(X, y, how))
    states: list[Any] = []
    events = []
    for event in engine.events():
        events.append(event)
        if len(events) == 11:
            break
    # the duals of an event are those at its time: stop there by asking to stop
    stopped = InverseScale(duals_of(X, y, how), t_end=events[10].t * (1 + 1e-12))
    first = list(stopped.events())
    states.append(stopped.duals.state())
    duals = duals_of(X, y, how)
    if how == "lazy":
        from tamis.core.design import Dense
        from tamis.solvers.duals import LazyDuals

        duals = LazyDuals(Dense(X), y, start=states[0])
    else:
        from tamis.solvers.duals import DenseDuals

        duals = DenseDuals(duals.quadratic, start=states[0])
    later = InverseScale(duals)
    later.resume(first[-1])
    rest = list(later.events())
    whole = arrays(list(InverseScale(duals_of(X, y, how)).events()), 40)
    joined = arrays(first + rest, 40)
    assert np.allclose(joined[0], whole[0], rtol=1e-9)
    assert np.allclose(joined[1], whole[1], atol=1e-8)


def test_limits_end_a_path_where_they_say() -> None:
    X, y, _ = autoregressive(60, 40, 6)
    times, found, engine = follow(X, y, "gram", most=5)
    assert (engine.status, int((found[:, -1] != 0).sum())) == ("size", 5)
    assert (found[:, :-1] != 0).sum(axis=0).max() < 5
    cut, _, engine = follow(X, y, "gram", t_end=float(times[3]) * 1.0001)
    assert (engine.status, len(cut)) == ("time", 4)
    asked = iter([False, False, True])
    short, _, engine = follow(X, y, "gram", stop=lambda: next(asked))
    assert (engine.status, len(short)) == ("asked", 4)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 100_000), short=st.sampled_from([0, 4, 96]))
def test_the_factor_follows_its_columns(seed: int, short: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.solvers.cholesky.SHORT", short)  # rotations, QR, and either
        follows_its_columns(seed)


def follows_its_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 20))
    H, held, factor = X.T @ X, [], Factor(room=2)
    for _ in range(40):
        if held and rng.random() < 0.4:
            position = int(rng.integers(len(held)))
            factor.remove(position)
            del held[position]
        elif len(held) < 20:
            column = int(rng.choice([j for j in range(20) if j not in held]))
            assert factor.append(H[held, column], float(H[column, column]))
            held.append(column)
        inside = H[np.ix_(held, held)]
        assert np.allclose(factor.lower @ factor.lower.T, inside, atol=1e-9)
        right = rng.standard_normal(len(held))
        assert np.allclose(inside @ factor.solve(right), right, atol=1e-8)
    if held:
        assert not factor.append(H[held, held[0]], float(H[held[0], held[0]]))
