"""The judge on trial: honest claims stand, claims a millionth too good fall, and so does every forged witness."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers_oracle import LOSSES, MARGINS, Instance, Optimum, generic_optimum, random_instance
from helpers_witness import claim, closed, integer_point, rows_of
from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError
from tamis.rules.recheck import RuleWitness, WitnessPart, WitnessRows

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


@cache
def drawn(seed: int) -> tuple[Instance, Optimum]:
    """A random problem with its optimum: every loss, exponents, caps, supports, prices, weights, signs, silent literals, offsets."""
    rng = np.random.default_rng(seed)
    loss, p = LOSSES[seed % len(LOSSES)], int(rng.integers(3, 6))
    options: dict[str, Any] = {
        "C": float(rng.choice([0.3, 3.0, 30.0])),
        "rho": float(rng.choice([1.1, 1.5, 2.0])),
        "max_length": [None, 1, 2, 3][rng.integers(4)],
        "min_support": float(rng.choice([1.0, 1.0, 3.0])),
    }
    if rng.random() < 0.5:
        options["prices"] = rng.choice([1.3, 2.0, 3.0], size=p)
    if rng.random() < 0.5:
        options["weight"] = options["row_weight"] = rng.integers(0, 4, 24).astype(float)
    if rng.random() < 0.4:
        options["silent"] = (0,)
    if rng.random() < 0.3 and loss != "multinomial":
        options["sign"] = rng.integers(-1, 2, p)
    instance = random_instance(rng, loss, p=p, **options)
    if rng.random() < 0.4:
        instance = replace(instance, offset=rng.normal(size=(24, instance.columns)) / 3)
    return instance, generic_optimum(instance)


def honest(seed: int) -> tuple[Instance, Optimum, Certificate, RuleWitness]:
    """A claim exactly as strong as its dual point: on the optimum's hull, or on a poor one, where the tails decide."""
    instance, found = drawn(seed)
    rng = np.random.default_rng(seed + 1)
    hull = None if rng.random() < 0.5 else closed([atom for atom in instance.lattice if rng.random() < 0.25])
    return instance, found, *claim(instance, found, rng, hull)


@pytest.mark.parametrize("seed", range(70))
def test_honest_claims_stand_and_slightly_better_ones_fall(seed: int) -> None:
    _, found, certificate, witness = honest(seed)
    agreed = witness.check(certificate)
    scale = abs(certificate.value)
    assert not agreed.refuted, agreed
    assert agreed.value == pytest.approx(certificate.value, rel=1e-11)
    assert certificate.bound - 1e-9 * scale <= agreed.bound <= found.value + 1e-7 * scale
    assert agreed.bound <= certificate.bound + 1e-7 * scale  # no stronger than the brute-force bound of the same dual point
    for better in ({"bound": certificate.bound + 1e-6 * scale}, {"value": certificate.value - 1e-6 * scale}):
        assert witness.check(replace(certificate, **better)).refuted
    weaker = witness.check(replace(certificate, bound=certificate.bound - 0.2 * scale))
    assert not weaker.refuted
    assert weaker.bound <= found.value + 1e-7 * scale


def part_with(witness: RuleWitness, **changes: Any) -> RuleWitness:
    return replace(witness, parts=(replace(witness.parts[0], **changes),))


def rows_with(witness: RuleWitness, **changes: Any) -> RuleWitness:
    return replace(witness, rows=replace(witness.rows, **changes))


def moved(array: np.ndarray, index: Any, by: float) -> np.ndarray:
    changed = array.copy()
    changed[index] += by
    return changed


FORGERIES: dict[str, Callable[[WitnessPart, WitnessRows], RuleWitness]] = {
    "a coefficient moved": lambda part, rows: RuleWitness(rows, (replace(part, weights=moved(part.weights, (0, 0), 1e-3)),)),
    "a coefficient moved down": lambda part, rows: RuleWitness(rows, (replace(part, weights=moved(part.weights, (-1, 0), -1e-3)),)),
    # between two kinks the hinge does not change with the intercept
    "the intercept moved": lambda part, rows: RuleWitness(
        rows, (replace(part, intercept=part.intercept + (0.5 if part.loss == "hinge" else 1e-3)),)
    ),
    "a NaN weight": lambda part, rows: RuleWitness(rows, (replace(part, weights=part.weights * np.nan),)),
    "a rule left out": lambda part, rows: RuleWitness(rows, (replace(part, atoms=part.atoms[1:], weights=part.weights[1:]),)),
    "a rule twice": lambda part, rows: RuleWitness(
        rows, (replace(part, atoms=(*part.atoms, part.atoms[0]), weights=np.vstack([part.weights, part.weights[:1] * 0])),)
    ),
    "a rule outside of the lattice": lambda part, rows: RuleWitness(
        rows, (replace(part, atoms=(*part.atoms, (0, 1, 2, 3)), weights=np.vstack([part.weights, 0 * part.weights[:1] + 1e-9])),)
    ),
    "a weight on the empty rule": lambda part, rows: RuleWitness(
        rows, (replace(part, atoms=((), *part.atoms), weights=np.vstack([0 * part.weights[:1] + 0.1, part.weights])),)
    ),
    "the dual point off balance": lambda part, rows: RuleWitness(rows, (replace(part, units=moved(part.units, (3, 0), 1)),)),
    "the dual point turned round": lambda part, rows: RuleWitness(rows, (replace(part, units=-part.units),)),
    "the dual point shuffled": lambda part, rows: RuleWitness(rows, (replace(part, units=part.units[::-1]),)),
    "a dual point of zeros": lambda part, rows: RuleWitness(rows, (replace(part, units=0 * part.units),)),
    "a shorter dual point": lambda part, rows: RuleWitness(rows, (replace(part, units=part.units[:-1]),)),
    "eta moved": lambda part, rows: RuleWitness(rows, (replace(part, eta=moved(part.eta, -1, 1e-3)),)),
    "eta upside down": lambda part, rows: RuleWitness(rows, (replace(part, eta=1 / part.eta / (1 / part.eta).sum()),)),
    "eta negative": lambda part, rows: RuleWitness(rows, (replace(part, eta=moved(moved(part.eta, 0, -2), 1, 2)),)),
    "a hull node without its eta": lambda part, rows: RuleWitness(rows, (replace(part, hull=part.hull[:-1]),)),
    "a part of the hull missing": lambda part, rows: RuleWitness(
        rows, (replace(part, hull=(part.hull[0], *part.hull[2:]), eta=part.eta[1:] / part.eta[1:].sum()),)
    ),
    "other prices": lambda part, rows: RuleWitness(rows, (replace(part, prices=part.prices * 0.9),)),
    "another C": lambda part, rows: RuleWitness(rows, (replace(part, C=part.C * 1.01),)),
    "another rho": lambda part, rows: RuleWitness(rows, (replace(part, rho=1.3),)),
    "another loss": lambda part, rows: RuleWitness(rows, (replace(part, loss="hinge" if part.loss != "hinge" else "logistic"),)),
    "y changed": lambda part, rows: RuleWitness(replace(rows, y=moved(rows.y, 2, 1 - 2 * rows.y[2])), (part,)),
    "weights changed": lambda part, rows: RuleWitness(replace(rows, weight=moved(rows.weight, 2, 0.01)), (part,)),
    "a row's bits changed": lambda part, rows: RuleWitness(replace(rows, bits=rows.bits ^ np.uint8(64)), (part,)),
    "a negative weight": lambda part, rows: RuleWitness(replace(rows, weight=moved(rows.weight, 2, -5)), (part,)),
}


@cache
def forgeable(loss: str) -> tuple[Certificate, RuleWitness]:
    """A claim that stands as it is."""
    rng = np.random.default_rng(11)
    instance = random_instance(rng, loss, p=5, C=3.0, rho=1.1, max_length=3)
    certificate, witness = claim(instance, generic_optimum(instance), rng)
    assert not witness.check(certificate).refuted
    return certificate, witness


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge", "squared"])
def test_forged_witnesses_are_refuted(forgery: str, loss: str) -> None:
    certificate, witness = forgeable(loss)
    forged = FORGERIES[forgery](witness.parts[0], witness.rows)
    verdict = forged.check(certificate)
    assert verdict.refuted, forgery
    assert "refutes" in verdict.sentence()


def test_each_objection_names_what_is_wrong() -> None:
    instance, _, certificate, witness = honest(0)
    part = witness.parts[0]
    said = {
        "does not sum to zero": part_with(witness, units=moved(part.units, (3, 0), 1)),
        "eta do not sum to one": part_with(witness, eta=part.eta * 2),
        "outside its domain": part_with(witness, units=-part.units),
        "not known": part_with(witness, loss="absolute"),
        "out of its range": part_with(witness, rho=2.5),
        "not finite": part_with(witness, intercept=np.array([np.nan])),
        "do not fit together": part_with(witness, prices=part.prices[:-1]),
        "too long to be taken apart": part_with(witness, atoms=(tuple(range(60)),)),
        "signs do not fit": part_with(witness, sign=np.array([1, 2])),
        "is no conjunction": part_with(witness, hull=(*part.hull[:-1], (99,))),
        "too large for exact sums": part_with(witness, units=part.units * 2**44, quantum=part.quantum / 2**44),
        "rows that differ were merged": part_with(
            rows_with(witness, group=np.arange(witness.rows.n_rows) // 2), units=part.units[::2] + part.units[1::2]
        ),
        "does not belong to these rows": rows_with(witness, group=np.arange(witness.rows.n_rows) + 1),
    }
    if (instance.s == 0).any():
        said = {reason: forged for reason, forged in said.items() if "merged" not in reason and "belong" not in reason}
    for reason, forged in said.items():
        assert reason in forged.check(certificate).reason


def test_a_nan_bound_is_never_agreed_to() -> None:
    *_, certificate, witness = honest(0)
    assert witness.check(replace(certificate, bound=float("nan"))).refuted
    assert witness.check(replace(certificate, value=float("nan"))).refuted
    with pytest.raises(TamisError, match="claims nothing"):
        witness.check(replace(certificate, kind="none"))


def test_the_constant_model_is_checked_too() -> None:
    from scipy.optimize import minimize

    for seed in range(14):
        instance, _, certificate, witness = honest(seed)
        start = np.zeros(instance.columns)
        best = minimize(lambda beta, it=instance: it.loss_value(np.tile(beta, (24, 1)) + it.o), start, method="Nelder-Mead", tol=1e-12)
        right = replace(certificate, constant=float(best.fun))
        assert not witness.check(right).refuted
        wrong = witness.check(replace(certificate, constant=float(best.fun) + 1e-3 * abs(best.fun) + 1e-3))
        assert wrong.refuted
        assert "constant model" in wrong.reason


@pytest.mark.parametrize("loss", LOSSES)
def test_merged_rows_prove_the_same(loss: str) -> None:
    """The dual point may live on groups of equal rows; squared and Poisson targets are averaged there."""
    rng = np.random.default_rng(5)
    few = random_instance(rng, loss, p=4, rows=24, C=2.0, rho=1.5, weight=rng.integers(1, 4, 24).astype(float))
    found = generic_optimum(few)
    averaged = loss in ("squared", "poisson")
    keys = [(tuple(row), 0.0 if averaged else float(y)) for row, y in zip(few.truth, few.y, strict=True)]
    group = np.array([sorted(set(keys)).index(key) for key in keys])
    units, quantum = integer_point(few, found.z)
    merged = np.zeros((group.max() + 1, few.columns), dtype=np.int64)
    np.add.at(merged, group, units)
    certificate, witness = claim(few, found, rng)
    grouped = replace(part_with(witness, units=merged, quantum=quantum), rows=rows_of(few, group))
    agreed, again = grouped.check(certificate), witness.check(certificate)
    assert not again.refuted
    assert not agreed.refuted, agreed
    # merging can only strengthen a dual point (its terms are concave), and never beyond the optimum
    assert again.bound - 1e-9 * abs(again.bound) <= agreed.bound <= found.value + 1e-6 * abs(found.value)


def test_one_against_the_rest_adds_up() -> None:
    rng = np.random.default_rng(2)
    base = random_instance(rng, "multinomial", p=4, C=3.0, rho=1.1)
    parts, value, bound = [], 0.0, 0.0
    for k in range(3):
        instance = replace(base, loss="logistic", y=np.where(base.y == k, 1.0, -1.0))
        certificate, witness = claim(instance, generic_optimum(instance), rng)
        parts.append(replace(witness.parts[0], positive=k, value=certificate.value, bound=certificate.bound))
        value, bound = value + certificate.value, bound + certificate.bound
    joint = RuleWitness(rows_of(base), tuple(parts))
    total = Certificate("duality gap", value, bound, 0.01)
    agreed = joint.check(total)
    assert not agreed.refuted, agreed
    assert agreed.value == pytest.approx(value, rel=1e-11)
    assert "do not add up" in joint.check(replace(total, value=value * 1.001)).reason
    assert "do not add up" in joint.check(replace(total, bound=bound * 1.001)).reason
    stronger = replace(joint, parts=(replace(parts[0], bound=parts[0].bound * 1.001), *parts[1:]))
    assert stronger.check(total).refuted


@pytest.mark.parametrize("loss", LOSSES)
def test_witnesses_survive_files_without_the_data(loss: str) -> None:
    instance, _, certificate, witness = honest(LOSSES.index(loss) + 14)
    meta, arrays = witness.to_meta()
    assert "bits" not in arrays
    for again in (RuleWitness.from_meta(meta, arrays), pickle.loads(pickle.dumps(witness))):
        assert again.rows.bits is None
        assert again.parts[0].atoms == witness.parts[0].atoms
        assert again.parts[0].hull == witness.parts[0].hull
        with pytest.raises(TamisError, match="can only be rechecked with X, y and the schema"):
            again.check(certificate)
        labels = instance.y if loss not in MARGINS else (instance.y > 0).astype(int)
        literals = [[f"x{k}", ">", 0.5, "numeric", [], ""] for k in range(instance.size)]
        schema = {"named": True, "columns": [[f"x{k}", "numeric", []] for k in range(instance.size)], "literals": literals}
        options = {"schema_dict": schema, "offset": instance.offset}
        full = (instance.truth.astype(float), labels, instance.s)
        same_support = instance.row_weight is None or np.array_equal(instance.row_weight, instance.s)
        if same_support:
            assert not again.check(certificate, *full, **options).refuted
        assert again.check(certificate, ~instance.truth * 1.0, labels, instance.s, **options).refuted


def test_rows_given_again_must_be_the_training_rows() -> None:
    instance, _, certificate, witness = honest(0)
    schema = {
        "named": False,
        "columns": [["a", "numeric", []]] * instance.size,
        "literals": [["a", ">", 0.5, "numeric", [], ""]] * instance.size,
    }
    with pytest.raises(TamisError, match="The table has 23 rows, "):
        witness.check(certificate, instance.truth[1:] * 1.0, instance.y[1:], schema_dict=schema)
    with pytest.raises(TamisError, match="The label 'x' is not one of the classes"):
        witness.check(certificate, instance.truth * 1.0, ["x"] * 24, schema_dict=schema)
    with pytest.raises(TamisError, match="only be rechecked with X, y"):
        witness.check(certificate, instance.truth * 1.0)
