"""The pieces of the recheck against brute force, and its reading of raw tables against the package's own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from helpers_oracle import LOSSES, Instance, random_instance
from helpers_witness import closed, eta_of, integer_point
from tamis.core.errors import TamisError
from tamis.rules.recheck_data import Cells, literal_rows
from tamis.rules.recheck_expression import holds
from tamis.rules.recheck_lattice import Lattice
from tamis.rules.recheck_losses import Targets, allowed_norm, best_dual, constant_value
from tamis.tables.cuts import Cuts, Levels
from tamis.tables.expression import evaluate
from tamis.tables.frame import as_table
from tamis.tables.schema import learn_schema


@st.composite
def lattices(draw: st.DrawFn) -> tuple[Instance, np.ndarray, Lattice]:
    """A lattice of up to 7 literals with an integer dual point of one or three columns."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    p, columns = draw(st.integers(3, 7)), draw(st.sampled_from([1, 1, 3]))
    instance = random_instance(
        rng,
        "multinomial" if columns == 3 else "logistic",
        p=p,
        rho=draw(st.sampled_from([1.1, 1.5, 2.0])),
        max_length=draw(st.sampled_from([None, None, 2, 3])),
        min_support=draw(st.sampled_from([1.0, 4.0])),
        prices=rng.choice([1.2, 2.0, 3.0], size=p),
        silent=(0,) if draw(st.booleans()) else (),
        sign=rng.integers(-1, 2, p) if columns == 1 and draw(st.booleans()) else None,
    )
    z = rng.integers(-100, 100, (24, columns))
    z -= np.rint(z.mean(axis=0)).astype(np.int64)
    z[0] -= z.sum(axis=0)
    sign = np.zeros(p, dtype=np.int64) if instance.sign is None else instance.sign
    least, cap = (0.0 if instance.min_support <= 1 else instance.min_support), instance.max_length or p
    bits = np.packbits(instance.truth, axis=1)
    return instance, z, Lattice(bits, np.ones(24), z, instance.prices, instance.rho, cap, least, frozenset(instance.silent), sign)


@given(lattices(), st.integers(0, 10**6))
def test_tails_are_decided_as_brute_force_decides_them(case: tuple[Instance, np.ndarray, Lattice], seed: int) -> None:
    instance, z, lattice = case
    rng = np.random.default_rng(seed)
    hull = closed([atom for atom in instance.lattice if rng.random() < 0.2])
    exact = max([instance.tail(t, z) for t in instance.sources(hull)], default=0.0)
    for limit, above in ((exact * (1 + 1e-9), False), (exact * (1 - 1e-6), True), (2 * exact, False), (0.3 * exact, True)):
        if exact == 0:
            continue
        pulls, tails, objection = lattice.outside(hull, limit)
        assert not objection
        assert (tails.highest > limit) == above
        assert tails.highest >= min(exact, limit) * (1 - 1e-12) or not above
        place = [instance.lattice.index(atom) for atom in hull]
        assert np.allclose(pulls, instance.pulls(z)[place], rtol=1e-12)


@given(lattices(), st.integers(0, 10**6))
def test_the_hulls_share_follows_from_any_eta(case: tuple[Instance, np.ndarray, Lattice], seed: int) -> None:
    instance, z, lattice = case
    rng = np.random.default_rng(seed)
    hull = closed([atom for atom in instance.lattice if rng.random() < 0.5])
    eta = rng.random(len(hull)) ** 4 + 1e-9
    place = [instance.lattice.index(atom) for atom in hull]
    found = lattice.inside(hull, instance.pulls(z)[place], eta / eta.sum())
    assert found == pytest.approx(instance.inside(hull, eta / eta.sum(), z), rel=1e-10)


@given(lattices())
def test_members_of_the_lattice_are_the_defined_ones(case: tuple[Instance, np.ndarray, Lattice]) -> None:
    instance, _, lattice = case
    atoms = {atom for atom in closed([tuple(range(instance.size))]) if not lattice.objection(lattice.node(atom))}
    assert atoms == set(instance.lattice)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_those_of_the_oracle(loss: str) -> None:
    rng = np.random.default_rng(LOSSES.index(loss))
    instance = random_instance(rng, loss, C=0.7, weight=rng.integers(1, 5, 24).astype(float), delta=0.8)
    instance = replace(instance, offset=rng.normal(size=(24, instance.columns)))
    targets = Targets(loss, instance.y, 0.7 * instance.s, instance.o, 0.8)
    u = rng.normal(size=(24, instance.columns))
    assert targets.value(u) == pytest.approx(instance.loss_value(u + instance.o), rel=1e-12)
    raw = rng.normal(size=(24, instance.columns))
    if loss == "multinomial":  # weight * (one-hot - probabilities)
        hot, share = np.eye(3)[instance.y.astype(int)], np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        raw = 0.3 * instance.s[:, None] * (hot - share)
    units, quantum = integer_point(instance, raw)
    z = units * quantum
    assert targets.domain(z) == ""
    assert targets.dual(z) == pytest.approx(instance.dual_value(z), rel=1e-11)
    reach = targets.reach(z)
    if math.isfinite(reach):
        assert targets.domain(reach * (1 - 1e-9) * z) == ""
        assert targets.domain(reach * (1 + 1e-6) * z) != ""
    scale, worth = best_dual(targets, z, 2.0)
    assert worth == pytest.approx(instance.best_bound(z, 2.0), rel=1e-9)
    assert worth == pytest.approx(instance.dual_value(scale * z) - 2 * scale**2, rel=1e-9)
    wanted = worth - 0.01 * abs(worth)
    if wanted > instance.dual_value(0 * z):
        limit = allowed_norm(targets, z, wanted)
        assert best_dual(targets, z, limit)[1] == pytest.approx(wanted, rel=1e-8)
        assert limit > 2.0
    assert math.isinf(allowed_norm(targets, z, instance.dual_value(0 * z) - 1.0))
    assert allowed_norm(targets, z, best_dual(targets, z, 0.0)[1] + 1.0) == 0.0
    best = constant_value(targets, instance.columns)
    assert best <= min(targets.value(np.tile(rng.normal(size=instance.columns), (24, 1))) for _ in range(50))
    if instance.columns == 1:
        assert best == pytest.approx(minimize_scalar(lambda b: instance.loss_value(b + instance.o), (-1, 1), tol=1e-14).fun, rel=1e-9)


def test_eta_of_the_primal_is_a_tight_share() -> None:
    instance = random_instance(np.random.default_rng(1), "logistic", rho=1.5)
    eta = eta_of(instance, np.ones((len(instance.lattice), 1)), instance.lattice)
    assert eta.sum() == pytest.approx(1)


def mixed(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, each with missing cells."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 4000, rows), unit="h")
    frame = pd.DataFrame(
        {
            "amount": np.round(rng.normal(size=rows), 2),
            "count": pd.array(rng.integers(0, 9, rows), dtype="Int64"),
            "plain": rng.integers(0, 30, rows),
            "town": pd.Series(rng.choice(np.array(["Oslo", "Lyon", "Köln", "a, b", "3"], dtype=object), rows), dtype=object),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], rows), categories=["S", "M", "L"], ordered=True),
            "code": pd.Categorical(rng.integers(0, 4, rows)),
            "member": pd.array(rng.random(rows) < 0.4, dtype="boolean"),
            "day": days,
        }
    )
    for column in frame.columns.drop("plain"):
        frame.loc[rng.random(rows) < 0.15, column] = None
    frame.loc[3, "amount"], frame.loc[4, "amount"] = np.inf, -np.inf
    return frame


def unpacked(bits: np.ndarray, rows: int) -> np.ndarray:
    return np.unpackbits(bits, axis=1, count=rows, bitorder="little").astype(bool)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict", "numpy objects", "list"])
def test_raw_tables_give_the_conditions_of_the_schema(library: str) -> None:
    frame = mixed()
    given_too = {"well paid": "amount > 0 and (town in ('Oslo', 'a, b') or not member)", "late": "day > '2020-03-01' or day is missing"}
    schema = learn_schema(as_table(frame), levels=Levels(top=3), propositions=given_too, n_cuts=4)
    other = pd.concat([mixed(40, seed=5), pd.DataFrame({"town": ["unseen"], "amount": [0.5], "plain": [2]})], ignore_index=True)
    other["plain"] = other["plain"].astype(int)
    table = {
        "pandas": lambda: other,
        "polars": lambda: pl.from_pandas(other),
        "pyarrow": lambda: pa.Table.from_pandas(other, preserve_index=False),
        "dict": lambda: {name: other[name] for name in other},
        "numpy objects": lambda: other.astype(object).to_numpy(),
        "list": lambda: other.astype(object).to_numpy().tolist(),
    }[library]()
    if library in ("numpy objects", "list"):
        schema = learn_schema(as_table(frame), levels=Levels(top=3), n_cuts=4)  # propositions read columns by name
    bits, rows = literal_rows(table, schema.to_dict())
    truth = np.array(list(schema.truth(as_table(other))))
    assert rows == len(other)
    assert np.array_equal(unpacked(bits, rows), truth), [
        schema.texts[k] for k in np.flatnonzero((unpacked(bits, rows) != truth).any(axis=1))
    ]


@pytest.mark.parametrize("cuts", ["quantile", "paper", "all", Cuts(count=5, readable=False)])
def test_numbers_and_sparse_matrices_too(cuts: object) -> None:
    from scipy.sparse import csr_array, random_array

    rng = np.random.default_rng(1)
    dense = np.round(rng.normal(size=(50, 4)), 1)
    dense[rng.random(dense.shape) < 0.1] = np.nan
    for table in (
        dense,
        dense.astype(np.float32),
        np.nan_to_num(dense).astype(int),
        csr_array(random_array((50, 4), density=0.3, rng=rng)),
    ):
        schema = learn_schema(as_table(table), cuts=cuts)
        bits, rows = literal_rows(table, schema.to_dict())
        assert np.array_equal(unpacked(bits, rows), np.array(list(schema.truth(as_table(table)))))


def test_a_table_that_does_not_fit_is_one_sentence() -> None:
    schema = learn_schema(as_table(mixed())).to_dict()
    with pytest.raises(TamisError, match="The table has no column 'amount', which the rules read"):
        literal_rows(mixed().drop(columns="amount"), schema)
    with pytest.raises(TamisError, match="The table has 3 columns but the model was fitted on 8"):
        literal_rows(np.zeros((4, 3)), schema)
    with pytest.raises(TamisError, match="Column 'amount' does not hold what it held in training"):
        literal_rows(mixed().assign(amount="many"), schema)


NUMBERS = st.sampled_from(["amount", "`count`", "plain", "0", "1.5", "-2", "1e1", ".5"])
VALUES = st.recursive(NUMBERS, lambda inner: st.one_of(
    st.builds(lambda left, sign, right: f"({left} {sign} {right})", inner, st.sampled_from(["+", "-", "*", "/"]), inner),
    st.builds(lambda value: f"abs({value})", inner),
    st.builds(lambda left, right: f"{left} - {right} * 2", inner, inner),
), max_leaves=4)  # fmt: skip
SIGNS = st.sampled_from(["<=", "<", ">", ">=", "==", "!=", "=", "<>"])
SIMPLE = st.one_of(
    st.builds(lambda left, sign, right: f"{left} {sign} {right}", VALUES, SIGNS, VALUES),
    st.builds(lambda value: f"0 < {value} <= 2", VALUES),
    st.builds("{} is {}".format, st.sampled_from(["amount", "town", "day"]), st.sampled_from(["missing", "not missing"])),
    st.sampled_from(
        [
            "member", "not member", "member == true", "town == 'Oslo'", 'town != "Lyon"', "town in ('Oslo', \"a, b\")", "town not in ['3']",
            "day > '2020-03-01'", "day <= '2020-02-02T10:00:00'", "plain in (1, 2, 3)", "amount IS NULL", "NOT member", "town = 'it''s'",
        ]
    ),
)  # fmt: skip
CONDITIONS = st.recursive(SIMPLE, lambda inner: st.one_of(
    st.builds(lambda left, word, right: f"({left} {word} {right})", inner, st.sampled_from(["and", "or", "AND", "OR"]), inner),
    st.builds(lambda one: f"not ({one})", inner),
    st.builds(lambda left, right: f"{left} or {right} and not {left}", inner, inner),
), max_leaves=4)  # fmt: skip


@given(CONDITIONS)
def test_two_readers_of_propositions_agree(text: str) -> None:
    frame = mixed()

    def column(name: str) -> Cells:
        return Cells(name, frame[name].to_numpy())

    try:
        wanted = evaluate(text, as_table(frame))
    except TamisError:
        return  # the language refuses it, so no schema holds it
    found = np.broadcast_to(holds(text, column), len(frame))
    assert np.array_equal(found, wanted), text


@pytest.mark.parametrize("text", ["amount >", "amount > 'x' y", "(amount > 1", "amount ? 1", "in (1)", "town + 1 > 2 )"])
def test_a_damaged_proposition_is_one_sentence(text: str) -> None:
    with pytest.raises(TamisError, match="cannot be read again"):
        holds(text, lambda name: Cells(name, np.array([1.0, 2.0])))
