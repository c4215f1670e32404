"""The lattice of free conjunctions against brute force: which there are, what is minimal outside a held set, and their order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_lattice import closure, held_sets, instances, lattice_of, point
from helpers_oracle import Atom, Instance
from tamis.core.structure import Held, Hierarchy


@st.composite
def held_parts(draw: st.DrawFn) -> tuple[Instance, list[Atom]]:
    instance = draw(instances())
    return instance, draw(held_sets(instance))


def in_pairs(held: Held) -> set[tuple[Atom, Atom]]:
    return {(held.atoms[a], held.atoms[w]) for a, w in zip(held.ancestor, held.owner, strict=True)}


@given(instance=instances(most_literals=5, most_rows=12), data=st.data())
@settings(max_examples=200)
def test_holding_sources_until_none_is_left_lists_the_lattice(instance: Instance, data: st.DataObject) -> None:
    lattice = lattice_of(instance)
    held = lattice.root()
    for _ in range(2**5):
        sources = lattice.sources(held)
        assert sorted(sources) == sorted(instance.sources(list(held.atoms)))
        if not sources:
            break
        some = data.draw(st.lists(st.sampled_from(sources), min_size=1, unique=True))
        held = lattice.grow(held, some)
    assert sorted(held.atoms) == sorted(instance.lattice)


def test_every_condition_of_the_lattice_excludes_something() -> None:
    """The cases hypothesis draws from are not empty ones: each condition takes conjunctions away."""
    rng = np.random.default_rng(0)
    truth = rng.random((12, 4)) < 0.6
    truth[:, 3] = truth[:, 0] | truth[:, 1]
    plain = Instance(truth, np.ones(12))
    for options in (
        {"max_length": 2},
        {"min_support": 4.0},
        {"min_support": 9.0, "row_weight": rng.integers(1, 4, 12)},
        {"sign": np.array([1, -1, 0, 1])},
    ):
        instance = Instance(truth, np.ones(12), **options)
        assert 1 < len(instance.lattice) < len(plain.lattice)
        lattice = lattice_of(instance)
        held = lattice.root()
        while sources := lattice.sources(held):
            held = lattice.grow(held, sources)
        assert sorted(held.atoms) == sorted(instance.lattice)
    assert (0, 3) not in plain.lattice  # implied
    assert len(plain.lattice) < 16


@given(held_parts())
@settings(max_examples=150)
def test_a_held_set_knows_its_ancestors_columns_prices_and_signs(part: tuple[Instance, list[Atom]]) -> None:
    instance, atoms = part
    held = lattice_of(instance).hold(atoms)
    assert in_pairs(held) == {(v, w) for v in atoms for w in atoms if set(v) <= set(w)}
    assert len(held.ancestor) == len(in_pairs(held))
    assert np.array_equal(held.columns.truth(), np.stack([instance.covers(atom) for atom in held.atoms], axis=1))
    assert np.array_equal(held.columns.counts, held.columns.truth().sum(axis=0))
    assert held.cost == pytest.approx([instance.price(atom) for atom in held.atoms])
    assert held.silent.tolist() == [not atom or (len(atom) == 1 and atom[0] in instance.silent) for atom in held.atoms]
    assert held.sign.tolist() == [instance.sign_of(atom) for atom in held.atoms]
    values = np.arange(1.0, len(atoms) + 1) ** 2
    value_of = dict(zip(held.atoms, values, strict=True))
    down = [sum(value_of[w] for w in atoms if set(v) <= set(w)) for v in held.atoms]
    up = [sum(value_of[v] for v in atoms if set(v) <= set(w)) for w in held.atoms]
    assert held.over_descendants(values) == pytest.approx(down)
    assert held.over_ancestors(values) == pytest.approx(up)


@given(held_parts(), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_hold_keeps_any_order(part: tuple[Instance, list[Atom]], random: object) -> None:
    instance, atoms = part
    shuffled = list(atoms[1:])
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    lattice = lattice_of(instance)
    straight = lattice.hold(atoms)
    sources = sorted(lattice.sources(straight))
    held = lattice.hold(shuffled)
    assert held.atoms == ((), *shuffled)
    assert [held.index[atom] for atom in held.atoms] == list(range(len(held)))
    assert in_pairs(held) == in_pairs(straight)
    move = [straight.index[atom] for atom in held.atoms]
    for name in ("cost", "silent", "sign"):
        assert np.array_equal(getattr(held, name), getattr(straight, name)[move])
    assert np.array_equal(held.columns.words, straight.columns.words[move])
    assert sorted(lattice.sources(held)) == sources
    grown = lattice.grow(held, sources)
    assert sorted(lattice.sources(grown)) == sorted(instance.sources(list(grown.atoms)))


@given(held_parts(), st.data())
@settings(max_examples=100)
def test_restrict_keeps_the_closure_and_silences_the_rest(part: tuple[Instance, list[Atom]], data: st.DataObject) -> None:
    instance, atoms = part
    lattice = lattice_of(instance)
    held = lattice.hold(atoms)
    keep = data.draw(st.lists(st.sampled_from(range(len(held))), unique=True))
    small, moved = lattice.restrict(held, keep)
    kept = [held.atoms[i] for i in keep]
    assert sorted(small.atoms) == sorted(closure(kept))
    assert [held.atoms[i] for i in moved] == list(small.atoms)
    assert in_pairs(small) == {(v, w) for v in small.atoms for w in small.atoms if set(v) <= set(w)}
    assert np.array_equal(small.columns.words, held.columns.words[moved])
    assert np.array_equal(small.cost, held.cost[moved])
    for atom, silent in zip(small.atoms, small.silent, strict=True):
        assert silent == (atom not in kept or held.silent[held.index[atom]])
    # restricting changes nothing about what the lattice holds
    assert sorted(lattice.sources(held)) == sorted(instance.sources(list(held.atoms)))


@given(held_parts(), st.data())
@settings(max_examples=100)
def test_growing_keeps_the_order_of_those_already_held(part: tuple[Instance, list[Atom]], data: st.DataObject) -> None:
    instance, atoms = part
    lattice = lattice_of(instance)
    held = lattice.hold(atoms)
    sources = lattice.sources(held)
    if not sources:
        return
    some = data.draw(st.lists(st.sampled_from(sources), min_size=1, unique=True))
    grown = lattice.grow(held, some)
    assert grown.atoms[: len(held)] == held.atoms
    assert list(grown.atoms[len(held) :]) == sorted(some, key=lambda atom: (len(atom), atom))
    pairs = len(held.ancestor)
    assert np.array_equal(grown.ancestor[:pairs], held.ancestor)
    assert np.array_equal(grown.owner[:pairs], held.owner)
    assert lattice.grow(grown, some).atoms == grown.atoms  # nothing joins twice


@given(held_parts())
@settings(max_examples=50)
def test_two_held_sets_may_grow_from_one_lattice(part: tuple[Instance, list[Atom]]) -> None:
    instance, atoms = part
    lattice = lattice_of(instance)
    root, other = lattice.root(), lattice.hold(atoms)
    for held in (root, other, root):
        grown = lattice.grow(held, lattice.sources(held)[:1])
        assert sorted(lattice.sources(grown)) == sorted(instance.sources(list(grown.atoms)))
        units = np.arange(len(instance.y)) - len(instance.y) // 2
        priced = lattice.price(point(units), held, 1e-6, 10**6)
        assert set(priced.newcomers) <= set(instance.sources(list(held.atoms)))


@given(instances(most_literals=5))
@settings(max_examples=50)
def test_names_are_unique_and_the_lattice_is_a_hierarchy(instance: Instance) -> None:
    lattice = lattice_of(instance)
    assert isinstance(lattice, Hierarchy)
    names = [lattice.name(atom) for atom in instance.lattice]
    assert len(set(names)) == len(names)
    assert names[0] == "always"


def test_what_the_whole_space_is_called() -> None:
    truth = np.eye(4, dtype=bool)
    described = {length: lattice_of(Instance(truth, np.ones(4), max_length=length)).describe() for length in (1, 2, 4, None)}
    assert described[1] == "single conditions out of 4"
    assert described[2] == "all conjunctions of up to 2 of 4 conditions"
    assert described[4] == described[None] == "all conjunctions of any length of 4 conditions"


def test_more_than_a_word_of_rows_and_many_sources_at_once() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random((1000, 12)) < 0.5
    instance = Instance(truth, np.ones(1000), max_length=2)
    lattice = lattice_of(instance)
    held = lattice.hold([(), *[(k,) for k in range(12)]])
    assert sorted(lattice.sources(held)) == list(itertools.combinations(range(12), 2))
    full = lattice.grow(held, lattice.sources(held))
    assert np.array_equal(full.columns.truth(), instance.phi.astype(bool)[:, [instance.lattice.index(atom) for atom in full.atoms]])
    assert lattice.sources(full) == []
