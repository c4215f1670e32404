"""The recheck of linear paths agrees with honest fits of every kind, and refutes them when anything is changed."""

from __future__ import annotations

import ast
import copy
import pickle
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest

import tamis
from helpers_linear_recheck import ALL, CLAIM, DAMPED, EXACT, busy_knot, checked, fitted, without, witness_of
from tamis import TamisError
from tamis.linear.recheck import LinearWitness


@pytest.mark.parametrize("name", ALL)
def test_it_agrees_with_honest_fits_held_loaded_and_given_again(name: str, tmp_path: File) -> None:
    model, X, y, weight = fitted(name)
    held = model.certificate_.recheck()
    assert not held.refuted, held.reason
    assert held.value <= 1e-9
    assert held.bound == 0.0
    assert "not looked at" not in held.reason
    model.save(tmp_path / "model.tamis")
    for other in (tamis.load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        with pytest.raises(TamisError, match="not held any more"):
            other.certificate_.recheck()
        again = other.certificate_.recheck(X, y, sample_weight=weight)
        assert again.value == pytest.approx(held.value, abs=1e-10)
        assert not again.refuted, again.reason
    middle = model.path_.knots[len(model.path_) // 2].certificate.recheck()
    assert not middle.refuted
    assert middle.value <= held.value + 1e-10


@pytest.mark.parametrize("name", ALL)
def test_it_refutes_other_data_targets_and_weights(name: str) -> None:
    model, X, y, weight = fitted(name)
    moved = X.copy()
    moved[3, 0] += 1e-3
    assert model.certificate_.recheck(moved, y, sample_weight=weight).refuted
    heavier = weight.copy()
    heavier[7] *= 1.001
    assert model.certificate_.recheck(X, y, sample_weight=heavier).refuted
    assert model.certificate_.recheck(X, y).refuted
    swapped = y.copy()
    swapped[[0, int(np.flatnonzero(y != y[0])[0])]] = swapped[[int(np.flatnonzero(y != y[0])[0]), 0]]
    assert model.certificate_.recheck(X, swapped, sample_weight=weight).refuted


@pytest.mark.parametrize("name", ALL)
def test_it_refutes_a_coefficient_moved_by_a_millionth(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    assert not checked(facts).refuted
    knot = busy_knot(facts)
    values = facts.values[knot].copy()
    largest = np.unravel_index(np.abs(values).argmax(), values.shape)
    values[largest] *= 1 + 1e-6
    found = checked(replace(facts, values=tuple(values if k == knot else own for k, own in enumerate(facts.values))))
    assert found.refuted
    assert found.value > 1e-8


@pytest.mark.parametrize("name", ALL)
def test_it_refutes_a_time_moved_by_a_millionth(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    first = next(k for k, values in enumerate(facts.values) if values.any())
    knot = min(first + 1, len(facts.times) - 1)
    times = facts.times.copy()
    times[knot] *= 1 + 1e-6
    assert checked(replace(facts, times=times)).refuted


@pytest.mark.parametrize("name", EXACT)
def test_it_refutes_an_exact_path_without_any_one_of_its_knots(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    for knot in range(len(facts.times) - 1):
        found = checked(without(facts, knot))
        assert found.refuted
        assert found.value > 1e-6


@pytest.mark.parametrize("name", DAMPED)
def test_a_damped_path_without_a_knot_is_still_true_but_not_without_a_column(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    assert not checked(without(facts, len(facts.times) // 2)).refuted  # knots are samples of it
    gone = facts.positions[-1][0]
    positions = tuple(held[held != gone] for held in facts.positions)
    values = tuple(own[held != gone] for held, own in zip(facts.positions, facts.values, strict=True))
    found = checked(replace(facts, positions=positions, values=values))
    assert found.refuted
    assert found.value > 1e-3


@pytest.mark.parametrize("name", DAMPED)
def test_it_refutes_another_step_another_damping_and_another_beginning(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    assert facts.steps is not None
    assert checked(replace(facts, steps=facts.steps * 0.9)).refuted
    assert checked(replace(facts, kappa=facts.kappa * 1.001)).refuted
    late = 1e-6 if facts.t0 == 0 else facts.t0 * (1 + 1e-6)
    found = checked(replace(facts, t0=late))
    assert found.refuted
    assert "moves" in found.reason or "begins" in found.reason
    if facts.fit_intercept:
        one = np.eye(facts.intercepts.shape[1])[0]
        assert checked(replace(facts, intercepts=facts.intercepts + 1e-6 * one)).refuted
        late_one = facts.intercepts + 1e-6 * one * (facts.times == facts.times[-1])[:, None]
        assert "intercept" in checked(replace(facts, intercepts=late_one)).reason


@pytest.mark.parametrize("name", EXACT)
def test_it_refutes_a_moved_intercept(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    found = checked(replace(facts, intercepts=facts.intercepts + 1e-6))
    assert found.refuted == facts.fit_intercept or found.value > 0
    if facts.fit_intercept:
        assert "intercept" in found.reason


def test_it_refutes_what_free_columns_and_signs_forbid() -> None:
    facts = witness_of(fitted("exact, prices")[0]).facts
    free = int(np.flatnonzero(facts.positions[0] == 1)[0])
    values = [own.copy() for own in facts.values]
    values[0][free] *= 1 + 1e-6
    assert checked(replace(facts, values=tuple(values)), 0).refuted
    nothing = replace(facts, values=tuple(-own for own in facts.values))
    assert checked(nothing).refuted
    barred = tuple(np.append(held, 5) for held in facts.positions)
    found = checked(replace(facts, positions=barred, values=tuple(np.vstack([own, [[0.1]]]) for own in facts.values)), 0)
    assert found.refuted
    assert "'x5' cannot enter" in found.reason


@pytest.mark.parametrize("name", ["exact", "squared", "split", "split squared"])
def test_what_is_not_a_number_never_passes(name: str) -> None:
    facts = witness_of(fitted(name)[0]).facts
    values = [own.copy() for own in facts.values]
    values[-1][0] = np.nan
    assert checked(replace(facts, values=tuple(values))).refuted
    times = facts.times.copy()
    times[1] = np.nan
    assert checked(replace(facts, times=times)).refuted
    assert checked(replace(facts, times=np.where(np.arange(len(facts.times)) == 1, np.inf, facts.times))).refuted
    assert LinearWitness(facts, 1).check(replace(CLAIM, value=np.nan, tolerance=np.nan)).refuted


def test_it_shares_no_code_with_what_it_checks() -> None:
    room = File(tamis.__file__).parent / "linear"
    parts = sorted(room.glob("recheck*.py"))
    allowed = {f"tamis.linear.{part.stem}" for part in parts} | {"tamis.core.certificate", "tamis.core.errors", "numpy", "numpy.typing"}
    outside = {"__future__", "ast", "collections.abc", "dataclasses", "functools", "math", "time", "typing"}
    assert len(parts) >= 5
    for part in parts:
        for node in ast.walk(ast.parse(part.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert set(names) <= allowed | outside, part.name
