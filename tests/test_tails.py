"""Tail searches against brute force: every interval holds the truth, whenever and however the search ends."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_lattice import every_tail, held_sets, instances, lattice_of, point
from helpers_oracle import Atom, Instance
from tamis.core.structure import Priced
from tamis.kernels.dispatch import kernels_in_use
from tamis.structures.lattice import ConjunctionLattice
from tamis.structures.tails import EXACT_DEPTH, TailSearch, TailSpace, padded

ROUNDING = 1e-9  # relative; powers and their sums are floats


@st.composite
def pricings(draw: st.DrawFn) -> tuple[Instance, list[Atom], np.ndarray, float]:
    """An instance, a held set, an integer dual point of up to three columns, and its quantum."""
    instance = draw(instances(most_literals=6, most_rows=16))
    columns = 1 if instance.sign is not None and np.any(instance.sign) else draw(st.integers(1, 3))
    rows = len(instance.y)
    size = draw(st.sampled_from([1, 5, 1000, 32767]))
    cells = draw(st.lists(st.integers(-size, size), min_size=rows * columns, max_size=rows * columns))
    quantum = draw(st.sampled_from([1.0, 1e-4, 2.5e-7]))
    return instance, draw(held_sets(instance)), np.array(cells).reshape(rows, columns), quantum


def tails(instance: Instance, atoms: list[Atom], z: np.ndarray) -> dict[Atom, tuple[float, float]]:
    """Per source, N(t) over free conjunctions, and over all of them: the truth lies at the first, a search may count up to the second."""
    return {t: (instance.tail(t, z), every_tail(instance, t, z)) for t in instance.sources(atoms)}


def searched(lattice: ConjunctionLattice, sources: list[Atom], units: np.ndarray, quantum: float, floor: float) -> TailSearch:
    return lattice._search(point(units, quantum), sources, floor)


def interval(search: TailSearch, upper: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    power = search.space.exponent
    return floor * search.known ** (1 / power), floor * upper ** (1 / power)


@given(case=pricings(), factor=st.sampled_from([1e-3, 0.3, 0.9, 1.0, 1.1, 2.0, 30.0, 1e4]))
@settings(max_examples=400)
def test_price_bounds_every_tail(case: tuple[Instance, list[Atom], np.ndarray, float], factor: float) -> None:
    instance, atoms, units, quantum = case
    lattice = lattice_of(instance)
    exact = tails(instance, atoms, units * quantum)
    largest = max([all_ for _, all_ in exact.values()], default=0.0)
    floor = factor * (largest or 1.0)
    priced = lattice.price(point(units, quantum), lattice.hold(atoms), floor, 10**6)
    assert priced.bound >= max([free for free, _ in exact.values()], default=0.0) * (1 - ROUNDING)
    assert set(priced.newcomers) <= set(exact)
    for t, low in zip(priced.newcomers, priced.scores, strict=True):
        assert low <= exact[t][1] * (1 + ROUNDING)
        assert low <= priced.bound * (1 + ROUNDING)
    assert list(priced.scores) == sorted(priced.scores, reverse=True)
    # decided: who stays out is truly at most the floor, who comes in weighs more than it
    for t, (free, all_) in exact.items():
        if t in priced.newcomers:
            assert all_ >= floor * (1 - ROUNDING)
        else:
            assert free <= floor * (1 + ROUNDING)
    assert priced.bound <= floor or priced.newcomers
    assert 0 <= priced.looked <= len(exact) * 2**instance.size


@given(case=pricings(), factor=st.sampled_from([0.1, 0.9, 1.0, 1.1, 3.0]), rounds=st.integers(0, 4))
@settings(max_examples=300)
def test_intervals_hold_the_truth_whenever_the_search_stops(
    case: tuple[Instance, list[Atom], np.ndarray, float], factor: float, rounds: int
) -> None:
    instance, atoms, units, quantum = case
    lattice = lattice_of(instance)
    exact = tails(instance, atoms, units * quantum)
    floor = factor * max([all_ for _, all_ in exact.values()], default=0.0)
    if not floor > 0:
        return
    lattice.hold(atoms)
    calls = itertools.count()
    search = searched(lattice, list(exact), units, quantum, floor)
    low, high = interval(search, search.run(10**6, stop=lambda: next(calls) >= rounds), floor)
    for (free, all_), least, most in zip(exact.values(), low, high, strict=True):
        assert least <= all_ * (1 + ROUNDING)
        assert most >= free * (1 - ROUNDING)
        assert least <= most * (1 + ROUNDING)


@given(pricings())
@settings(max_examples=200)
def test_exhausted_intervals_are_the_sum_itself(case: tuple[Instance, list[Atom], np.ndarray, float]) -> None:
    instance, atoms, units, quantum = case
    lattice = lattice_of(instance)
    lattice.hold(atoms)
    for t, (free, all_) in tails(instance, atoms, units * quantum).items():
        if all_ == 0:
            continue
        floor = all_ * (1 + 1e-9)  # decided only when nothing is left to look at
        search = searched(lattice, [t], units, quantum, floor)
        (low,), (high,) = interval(search, search.run(1), floor)
        assert low <= all_ * (1 + ROUNDING)
        assert free * (1 - ROUNDING) <= high <= all_ * (1 + 1e-6)
        if free == pytest.approx(all_, rel=1e-12):
            assert low == pytest.approx(free, rel=1e-6)
            assert high == pytest.approx(free, rel=1e-6)


def test_exhausted_intervals_on_a_lattice_without_implied_conditions() -> None:
    """All 2^6 rows once: every conjunction is free, so nothing may be missed and nothing counted too much."""
    truth = np.array(list(itertools.product([0, 1], repeat=6)), dtype=bool)
    rng = np.random.default_rng(1)
    for rho, length in itertools.product((1.05, 1.3, 2.0), (1, 2, 3, 5, None)):
        instance = Instance(truth, np.ones(64), rho=rho, max_length=length, prices=rng.choice([0.5, 1.0, 2.0, 3.0], 6))
        units = rng.integers(-999, 1000, (64, 2))
        lattice = lattice_of(instance)
        lattice.hold([()])
        for t in [(0,), (4,)]:
            exact = instance.tail(t, units.astype(float))
            search = searched(lattice, [t], units, 1.0, exact * (1 + 1e-9))
            (low,), (high,) = interval(search, search.run(1), exact * (1 + 1e-9))
            assert low == pytest.approx(exact, rel=1e-8)
            assert high == pytest.approx(exact, rel=1e-8)


@given(pricings())
@settings(max_examples=100)
def test_bounds_of_searches_cut_short_stay_valid(case: tuple[Instance, list[Atom], np.ndarray, float]) -> None:
    instance, atoms, units, quantum = case
    lattice = lattice_of(instance)
    exact = tails(instance, atoms, units * quantum)
    held = lattice.hold(atoms)
    free = max([free for free, _ in exact.values()], default=0.0)
    floor = 0.5 * free or 1.0
    for options in ({"stop": lambda: True}, {"thorough": False}, {"count": 1}, {"count": 1, "thorough": False, "stop": lambda: True}):
        priced = lattice.price(point(units, quantum), held, floor, **options)
        assert priced.bound >= free * (1 - ROUNDING)
        assert len(priced.newcomers) <= options.get("count", 100)


def test_a_fair_effort_ends_a_search_that_is_not_thorough(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    instance = Instance(rng.random((200, 9)) < 0.7, np.ones(200), rho=2.0)
    units = rng.integers(-9, 10, (200, 1))
    lattice = lattice_of(instance)
    held = lattice.root()
    exact = max(every_tail(instance, (k,), units.astype(float)) for k in range(9))
    whole = lattice.price(point(units), held, exact * 1.001)
    monkeypatch.setattr("tamis.structures.tails.FAIR_EFFORT", 200)
    short = lattice.price(point(units), held, exact * 1.001, thorough=False)
    assert exact * (1 - ROUNDING) <= whole.bound <= exact * 1.001
    assert not whole.newcomers
    assert short.bound > whole.bound
    assert short.looked < whole.looked
    assert not short.newcomers  # none is known to violate, and a search that is not thorough does not guess
    thorough = lattice.price(point(units), held, exact * 1.001)
    assert thorough.looked == whole.looked


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_powers_too_small_to_be_added_are_not_forgotten(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parity: no single condition pulls, pairs do, and far below the floor their powers vanish; the bound must not.

    Equal rows that pull both ways make the first bounds large, so that the pairs are looked at one by one.
    """
    monkeypatch.setenv("TAMIS_KERNELS", kernels)
    truth = np.array(list(itertools.product([0, 1], repeat=4)) * 2, dtype=bool)
    units = np.where(truth[:, 0] ^ truth[:, 1], 1, -1)[:, None] + np.repeat([10**9, -(10**9)], 16)[:, None]
    for rho, length, factor in itertools.product((1.05, 1.1, 1.5), (2, 3), (10, 1e2, 1e5, 1e7)):
        instance = Instance(truth, np.ones(32), rho=rho, max_length=length)
        lattice = lattice_of(instance)
        exact = max(instance.tail((k,), units.astype(float)) for k in range(4))
        assert exact > 0
        priced = lattice.price(point(units), lattice.root(), factor * exact)
        assert priced.bound >= exact * (1 - ROUNDING)


def plain_count(shrink: list[float], power: float, depth: int) -> float:
    return sum(
        float(np.prod([shrink[k] ** power for k in some]))
        for size in range(1, min(depth, len(shrink)) + 1)
        for some in itertools.combinations(range(len(shrink)), size)
    )


def space_of(shrink: np.ndarray, rho: float) -> TailSpace:
    instance = Instance(np.ones((1, len(shrink)), dtype=bool), np.ones(1), rho=rho, prices=1 / shrink - 1)
    return lattice_of(instance)._space(point(np.zeros(1)))


@given(
    prices=st.lists(st.sampled_from([1e-3, 0.3, 1.0, 2.0, 9.0, 1e4]), min_size=1, max_size=11),
    rho=st.sampled_from([1.05, 1.1, 1.5, 2.0]),
    depths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_counts_of_later_extensions_equal_brute_force_sums(prices: list[float], rho: float, depths: list[int]) -> None:
    shrink = 1 / (1 + np.array(prices))
    space = space_of(shrink, rho)
    found = space.later_count(np.tile(shrink, (len(depths), 1)), np.array(depths))
    for row, depth in zip(found, depths, strict=True):
        for j in range(len(prices)):
            behind = shrink[j + 1 :].tolist()
            exact = plain_count(behind, space.exponent, depth)
            assert row[j] >= exact * (1 - 1e-14)
            if depth <= EXACT_DEPTH or depth >= len(behind):
                assert row[j] == pytest.approx(exact, rel=1e-11, abs=0)
    for depth in {0, *depths}:
        exact = plain_count(shrink.tolist(), space.exponent, depth)
        assert space.all_count(depth) >= exact * (1 - 1e-14)
        if depth <= EXACT_DEPTH or depth >= len(prices):
            assert space.all_count(depth) == pytest.approx(exact, rel=1e-11, abs=0)


@given(
    instance=instances(most_literals=6, most_rows=12),
    size=st.integers(1, 30),
    seed=st.integers(0, 2**16),
)
def test_nothing_below_a_node_exceeds_its_measure(instance: Instance, size: int, seed: int) -> None:
    """S(u) bounds every |G_w| with w below u, also where signs are restricted."""
    columns = 1 if instance.sign is not None else 2
    z = np.random.default_rng(seed).integers(-size, size + 1, (len(instance.y), columns))
    space = lattice_of(instance)._space(point(z))
    pulls = instance.pulls(z.astype(float))
    for u in instance.lattice:
        rows = instance.covers(u)
        sums = np.concatenate([np.maximum(z, 0)[rows].sum(axis=0), np.maximum(-z, 0)[rows].sum(axis=0)])
        net, largest = space.measures(sums[None], np.array([instance.sign_of(u)]))
        if not (len(u) == 1 and u[0] in instance.silent) and u:
            assert net[0] == pytest.approx(pulls[instance.lattice.index(u)], rel=1e-12)
        for w, pull in zip(instance.lattice, pulls, strict=True):
            if set(u) < set(w):
                assert pull <= largest[0] * (1 + 1e-12)


def same(first: Priced, second: Priced) -> None:
    assert first.newcomers == second.newcomers
    assert first.scores == pytest.approx(second.scores, rel=1e-12)
    assert first.bound == pytest.approx(second.bound, rel=1e-12)
    assert first.looked == second.looked


@given(case=pricings(), factor=st.sampled_from([0.5, 0.99, 1.01, 4.0]))
@settings(max_examples=100)
def test_both_kernels_price_alike(case: tuple[Instance, list[Atom], np.ndarray, float], factor: float) -> None:
    instance, atoms, units, quantum = case
    largest = max([all_ for _, all_ in tails(instance, atoms, units * quantum).values()], default=0.0)
    found = []
    for kernels in ("numpy", "numba"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TAMIS_KERNELS", kernels)
            assert kernels_in_use() == kernels
            lattice = lattice_of(instance)
            found.append(lattice.price(point(units, quantum), lattice.hold(atoms), factor * largest or 1.0))
    same(*found)


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("options", [{}, {"sign": True}, {"support": True}])
def test_threads_change_no_byte(kernels: str, options: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Large enough that threads are used: the answers are equal to the last bit."""
    monkeypatch.setenv("TAMIS_KERNELS", kernels)
    rng = np.random.default_rng(7)
    instance = Instance(rng.random((3000, 40)) < 0.5, np.ones(3000), rho=1.5, max_length=3)
    if "sign" in options:
        instance = replace(instance, sign=rng.integers(-1, 2, 40))
    if "support" in options:
        instance = replace(instance, row_weight=rng.integers(1, 4, 3000).astype(float), min_support=900.0)
    units = rng.integers(-32767, 32768, (3000, 1 if "sign" in options else 2))
    atoms = [(), (0,), (1,), (2,), (0, 1)]
    first = lattice_of(instance)
    floor = 1.1 * float(first.price(point(units), first.hold(atoms), 1.0).scores.max())
    found = []
    for threads in (1, 2, 3):
        lattice = lattice_of(instance, threads=threads)
        found.append(lattice.price(point(units), lattice.hold(atoms), floor))
    assert found[0].looked > 1000
    for other in found[1:]:
        assert other.newcomers == found[0].newcomers
        assert np.array_equal(other.scores, found[0].scores)
        assert (other.bound, other.looked) == (found[0].bound, found[0].looked)


def test_paths_are_padded_to_equal_length() -> None:
    assert padded([(3,), (), (1, 2)]).tolist() == [[3, -1], [-1, -1], [1, 2]]
    assert padded([()]).shape == (1, 0)
