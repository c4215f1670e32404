"""Every way of holding columns gives what plain numpy gives on the same matrix, in one piece or in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tamis.core import design
from tamis.core.design import Bits, Dense, Design, Sparse, Standardized, quantised
from tamis.kernels.reference import pack_rows

EXACT = 1e-12  # relative to the sum of the sizes of what is added


@dataclass(frozen=True)
class Case:
    """A matrix, some of its columns (also repeated, none, or all of them), and a generator for what it is multiplied with."""

    matrix: np.ndarray
    columns: np.ndarray | None
    rng: np.random.Generator

    @property
    def part(self) -> np.ndarray:
        return self.matrix if self.columns is None else self.matrix[:, self.columns]

    def numbers(self, *shape: int) -> np.ndarray:
        return np.asarray(self.rng.normal(size=shape) * 10.0 ** self.rng.integers(-3, 3))


@st.composite
def cases(draw: st.DrawFn, boolean: bool = False, least_rows: int = 0, largest_shift: float = 10.0) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, columns = draw(st.sampled_from([n for n in (0, 1, 5, 63, 64, 65, 130, 200) if n >= least_rows])), draw(st.integers(0, 6))
    truth = rng.random((rows, columns)) < rng.choice([0.1, 0.6, 1.0])
    matrix = truth.astype(float) if boolean else np.where(truth, rng.normal(size=(rows, columns)), 0.0)
    if not boolean and draw(st.booleans()):
        matrix = (matrix + rng.normal(size=columns) * largest_shift) * 10.0 ** rng.integers(-4, 5, columns)
    picks = draw(st.none() | st.lists(st.integers(0, columns - 1), max_size=8)) if columns else draw(st.sampled_from([None, []]))
    return Case(matrix, None if picks is None else np.array(picks, dtype=np.intp), rng)


def near(found: Any, exact: np.ndarray, size: np.ndarray) -> None:
    """Equal up to rounding of the terms, whose sizes add up to `size`."""
    assert isinstance(found, np.ndarray)
    assert found.shape == exact.shape
    assert np.all(np.abs(found - exact) <= EXACT * size)


def offers_what_numpy_offers(held: Design, case: Case) -> None:
    """block, dot, score, gram and shape, for one vector and several, with weights of the rows and without."""
    rows, count, part = len(case.matrix), case.part.shape[1], case.part
    assert held.shape == case.matrix.shape
    assert np.array_equal(held.block(case.columns), part)
    for more in ((), (1,), (3,)):
        weights, residual = case.numbers(count, *more), case.numbers(rows, *more)
        near(held.dot(case.columns, weights), part @ weights, np.abs(part) @ np.abs(weights))
        near(held.score(residual), case.matrix.T @ residual, np.abs(case.matrix).T @ np.abs(residual))
    near(held.gram(case.columns), part.T @ part, np.abs(part).T @ np.abs(part))
    row_weights = np.abs(case.numbers(rows)) * (case.rng.random(rows) < 0.8)
    near(held.gram(case.columns, row_weights), (part.T * row_weights) @ part, (np.abs(part).T * row_weights) @ np.abs(part))


@given(cases())
def test_a_dense_matrix(case: Case) -> None:
    offers_what_numpy_offers(Dense(case.matrix), case)


@given(cases(), st.sampled_from([sparse.csc_array, sparse.csr_array, sparse.coo_array, sparse.csr_matrix]))
def test_a_sparse_matrix_of_any_kind(case: Case, kind: Callable[[Any], Any]) -> None:
    offers_what_numpy_offers(Sparse(kind(case.matrix)), case)


@given(cases(boolean=True))
def test_packed_bits(case: Case) -> None:
    offers_what_numpy_offers(Bits.pack(case.matrix.astype(bool)), case)


@given(cases(boolean=True))
def test_bits_give_their_truth_and_their_counts(case: Case) -> None:
    bits = Bits.pack(case.matrix > 0)
    assert np.array_equal(bits.truth(), case.matrix > 0)
    assert np.array_equal(bits.truth(case.columns), case.part > 0)
    assert bits.counts.tolist() == case.matrix.sum(axis=0).tolist()
    more = pack_rows(~bits.truth().T)
    assert np.array_equal(bits.joined(more).truth(), np.hstack([case.matrix > 0, case.matrix == 0]))


@given(
    cases(boolean=True),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans()), max_size=8),
    st.sampled_from([0, 4, 2**20]),
)
def test_bits_that_grow_from_one_another_keep_their_own_floats(case: Case, steps: list[tuple[int, int, bool]], room: int) -> None:
    """Whichever of several sets grows next, also twice from the same one: each has its own columns, whoever shares its floats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "BLOCK_BYTES", room * max(len(case.matrix), 1) * 8)
        family = [(Bits.pack(case.matrix > 0), case.matrix)]
        for which, count, asked in steps:
            bits, matrix = family[which % len(family)]
            if asked:
                assert np.array_equal(bits.block(), matrix)
            fresh = case.rng.random((len(matrix), count)) < 0.5
            family.append((bits.joined(pack_rows(fresh.T)), np.hstack([matrix, fresh])))
            some = case.rng.integers(0, matrix.shape[1], 3 if matrix.shape[1] else 0)
            family.append((bits.part(some), matrix[:, some]))
        for bits, matrix in family:
            assert np.array_equal(bits.truth(), matrix > 0)
            assert np.array_equal(bits.block(), matrix)
            numbers = case.rng.normal(size=len(matrix))
            near(bits.score(numbers), matrix.T @ numbers, 1e3 * np.ones(matrix.shape[1]) * (1 + np.abs(numbers).sum()))


@given(cases(boolean=True), st.integers(1, 3), st.sampled_from([1, 1000, 2**31]))
def test_sums_of_integers_over_bits_are_exact(case: Case, groups: int, largest: int) -> None:
    units = case.rng.integers(-largest, largest + 1, (len(case.matrix), groups))
    exact = case.matrix.T.astype(np.int64) @ units
    assert np.array_equal(Bits.pack(case.matrix > 0).sums(units), exact)


# ---- in blocks -------------------------------------------------------------------------------------------------


@given(case=cases(boolean=True, least_rows=5), words=st.integers(1, 3))
@settings(max_examples=60)
def test_blocks_of_any_size_change_nothing(case: Case, words: int) -> None:
    """Where the columns are too many to be held as floats, sums run over blocks of rows; integers come out exactly."""
    bits, whole = Bits.pack(case.matrix > 0), case.part
    weights, units = case.numbers(whole.shape[1], 2), case.rng.integers(-1000, 1001, (len(case.matrix), 2))
    row_weights = case.rng.integers(0, 1000, len(case.matrix)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "BLOCK_BYTES", words * 64 * 8)
        assert bits.fits() == (case.matrix.size <= words * 64)
        near(bits.dot(case.columns, weights), whole @ weights, np.abs(whole) @ np.abs(weights))
        near(bits.dot(case.columns, weights[:, 0]), whole @ weights[:, 0], np.abs(whole) @ np.abs(weights[:, 0]))
        assert np.array_equal(bits.score(units), case.matrix.T @ units)
        assert np.array_equal(bits.score(units[:, 0]), case.matrix.T @ units[:, 0])
        assert np.array_equal(bits.gram(case.columns), whole.T @ whole)
        assert np.array_equal(bits.gram(case.columns, row_weights), (whole.T * row_weights) @ whole)
        assert np.array_equal(bits.block(case.columns), whole)


@given(case=cases(boolean=True, least_rows=5), words=st.integers(1, 3))
@settings(max_examples=60)
def test_blocks_cover_every_row_once_and_in_order(case: Case, words: int) -> None:
    bits = Bits.pack(case.matrix > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "BLOCK_BYTES", words * 64 * 8)
        blocks = list(bits.chunks(case.columns))
    assert [i for rows, _ in blocks for i in range(rows.start, rows.stop)] == list(range(len(case.matrix)))
    assert np.array_equal(np.vstack([part for _, part in blocks]), case.part)
    limit = max(words * 64 * 8, 64 * 8 * max(1, case.part.shape[1]))  # one word of rows at least
    assert all(part.size * 8 <= limit for _, part in blocks)


@given(case=cases(boolean=True, least_rows=63))
@settings(max_examples=60)
def test_scores_in_blocks_are_as_fine_as_31_bits(case: Case) -> None:
    """Floats become integers first: what is lost is at most half a unit per row, a unit being the largest over 2^31."""
    bits, residual = Bits.pack(case.matrix > 0), case.numbers(len(case.matrix), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "BLOCK_BYTES", 64)
        found = bits.score(residual)
    exact, unit = case.matrix.T @ residual, np.abs(residual).max() / (2**31 - 1)
    assert np.all(np.abs(found - exact) <= 0.5 * unit * bits.counts[:, None] * (1 + 1e-5))


@given(seed=st.integers(0, 2**32), bits=st.integers(1, 40), scale=st.sampled_from([1e-200, 1.0, 1e200]))
def test_quantised_values_are_the_nearest_of_so_many_bits(seed: int, bits: int, scale: float) -> None:
    values = scale * np.random.default_rng(seed).normal(size=(7, 2))
    units, quantum = quantised(values, bits)
    assert units.dtype == np.int64
    assert np.abs(units).max() == 2**bits - 1
    assert np.all(np.abs(units * quantum - values) <= 0.5 * quantum * (1 + 1e-6))


def test_nothing_is_quantised_to_nothing() -> None:
    for empty in (np.zeros((4, 2)), np.zeros((0, 1))):
        units, quantum = quantised(empty)
        assert not units.any()
        assert quantum == 1.0


# ---- standardised ----------------------------------------------------------------------------------------------


def plain_moments(case: Case, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation of each column, in exact sums; scale 1 where a column is constant."""
    share = np.ones(len(case.matrix)) if weights is None else weights
    center, scale = [], []
    for column in case.matrix.T:
        mean = math.fsum(share * column) / math.fsum(share)
        deviation = math.sqrt(math.fsum(share * (column - mean) ** 2) / math.fsum(share))
        center.append(mean)
        scale.append(1.0 if len(set(column[share > 0])) == 1 else deviation)
    return np.array(center), np.array(scale)


INNERS: dict[str, Callable[[np.ndarray], Design]] = {"dense": Dense, "sparse": lambda matrix: Sparse(sparse.csc_array(matrix))}


@pytest.mark.parametrize("inner", INNERS)
@given(case=cases(least_rows=1), weighted=st.booleans())
@settings(max_examples=60)
def test_columns_are_centred_and_scaled_under_weights(inner: str, case: Case, weighted: bool) -> None:
    rows = len(case.matrix)
    weights = 0.1 + case.rng.random(rows) * case.rng.integers(1, 100) if weighted else None
    held = Standardized.of(INNERS[inner](case.matrix), weights)
    center, scale = plain_moments(case, weights)
    top = np.abs(case.matrix).max(axis=0, initial=0.0)
    assert np.all(np.abs(held.center - center) <= EXACT * top)
    assert held.scale == pytest.approx(scale, rel=1e-9)
    share = np.full(rows, 1 / rows) if weights is None else weights / weights.sum()
    block = held.block()
    assert np.all(np.abs(share @ block) <= 1e-9 * (1 + top / scale))
    varies = scale != 1.0
    assert (share @ block**2)[varies] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("inner", INNERS)
@given(case=cases(least_rows=1))
@settings(max_examples=60)
def test_a_standardised_design_is_its_matrix_never_formed(inner: str, case: Case) -> None:
    held = Standardized.of(INNERS[inner](case.matrix))
    formed = (case.matrix - held.center) / held.scale
    part = Case(formed, case.columns, case.rng).part
    largest = Case((np.abs(case.matrix) + np.abs(held.center)) / held.scale, case.columns, case.rng)  # before the mean is taken off
    assert held.shape == formed.shape
    near(held.block(case.columns), part, largest.part)
    row_weights = case.rng.random(len(formed))
    for more in ((), (3,)):
        weights, residual = case.numbers(part.shape[1], *more), case.numbers(len(formed), *more)
        near(held.dot(case.columns, weights), part @ weights, largest.part @ np.abs(weights))
        near(held.score(residual), formed.T @ residual, largest.matrix.T @ np.abs(residual))
    for scaled, gram in ((part, held.gram(case.columns)), (row_weights[:, None] * part, held.gram(case.columns, row_weights))):
        near(gram, part.T @ scaled, largest.part.T @ largest.part)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e-200, 1e9 / 7])
def test_a_constant_column_becomes_zero_not_noise(value: float) -> None:
    """Its mean is rounded, so its computed spread need not be zero; dividing by that would blow rounding up to size one."""
    weights = np.random.default_rng(0).random(999)
    for row_weights in (None, weights):
        held = Standardized.of(Dense(np.full((999, 1), value)), row_weights)
        assert held.scale.tolist() == [1.0]
        assert np.all(np.abs(held.block()) <= 1e-12 * abs(value))


def test_a_row_without_weight_has_no_say() -> None:
    matrix = np.array([[1.0], [3.0], [1e6]])
    held = Standardized.of(Dense(matrix), np.array([1.0, 1.0, 0.0]))
    assert (held.center.tolist(), held.scale.tolist()) == ([2.0], [1.0])


@given(seed=st.integers(0, 2**32), copies=st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_weights_are_repetitions(seed: int, copies: list[int]) -> None:
    matrix = np.random.default_rng(seed).normal(size=(6, 3))
    weighted = Standardized.of(Dense(matrix), np.array(copies, dtype=float))
    repeated = Standardized.of(Dense(np.repeat(matrix, copies, axis=0)))
    assert weighted.center == pytest.approx(repeated.center, rel=1e-12, abs=1e-12)
    assert weighted.scale == pytest.approx(repeated.scale, rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
def test_products_of_shifted_data_keep_their_digits(shift: float) -> None:
    """Centred before they are multiplied; taking means off afterwards would leave one digit at a shift of a million."""
    rng = np.random.default_rng(4)
    data, weights = rng.normal(size=(500, 3)), rng.random(500)
    gram = Standardized.of(Dense(data + shift)).gram(None, weights)
    formed = (data - data.mean(axis=0)) / data.std(axis=0)
    assert gram == pytest.approx((formed.T * weights) @ formed, rel=1e-8, abs=1e-7)


def test_standardised_bits_are_standardised() -> None:
    truth = np.random.default_rng(2).random((130, 4)) < 0.4
    held, plain = Standardized.of(Bits.pack(truth)), Standardized.of(Dense(truth.astype(float)))
    assert held.center == pytest.approx(truth.mean(axis=0), rel=1e-12)
    assert held.scale == pytest.approx(truth.std(axis=0), rel=1e-12)
    assert held.gram() == pytest.approx(plain.gram(), rel=1e-12)
