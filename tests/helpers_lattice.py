"""Problems of the oracle as the engine sees them, and hypothesis strategies that draw them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers_oracle import LOSSES, Atom, Instance, random_instance
from tamis.core.design import Bits
from tamis.core.dual import DualPoint
from tamis.core.follow import Problem, follow
from tamis.core.loss import LOSSES as LOSS_CLASSES
from tamis.core.loss import Huber, Targets
from tamis.core.path import Knot
from tamis.solvers.hierarchical import HierarchicalSolver
from tamis.structures.lattice import ConjunctionLattice

SHAPES = ("full", "capped", "weights", "silent", "signs", "costs", "support", "offset")


def lattice_of(instance: Instance, **options: Any) -> ConjunctionLattice:
    """The package's lattice over an instance's literals."""
    growth = np.full(instance.size, 2.0) if instance.prices is None else instance.prices
    units = np.ones(len(instance.y), dtype=np.int64) if instance.row_weight is None else instance.row_weight.astype(np.int64)
    least = int(np.ceil(instance.min_support)) if instance.min_support > 1 else 0
    return ConjunctionLattice(
        Bits.pack(instance.truth), rho=instance.rho, growth=growth, max_length=instance.max_length,
        names=[f"c{k}" for k in range(instance.size)], row_units=units, min_units=least, silent=instance.silent,
        sign=None if instance.sign is None else instance.sign.astype(np.int8), **options,
    )  # fmt: skip


def targets_of(instance: Instance) -> Targets:
    """Its loss and data at C = 1, one target per row."""
    y = np.eye(instance.columns)[instance.y.astype(int)] if instance.loss == "multinomial" else instance.y[:, None]
    loss = Huber(instance.delta) if instance.loss == "huber" else LOSS_CLASSES[instance.loss]()
    return Targets(loss, y.astype(float), instance.s.astype(float), np.asarray(instance.o, dtype=float))


def closure(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms and all their parts, shortest first."""
    found = {part for atom in [(), *atoms] for size in range(len(atom) + 1) for part in itertools.combinations(atom, size)}
    return sorted(found, key=lambda atom: (len(atom), atom))


def every_tail(instance: Instance, t: Atom, z: np.ndarray) -> float:
    """N(t) over every conjunction with enough rows that contains t, free or not: what a search may count at most."""
    cap = instance.size if instance.max_length is None else instance.max_length
    power, total = instance.rho / (instance.rho - 1), 0.0
    weight = np.ones(len(z)) if instance.row_weight is None else instance.row_weight
    others = [k for k in range(instance.size) if k not in t]
    for size in range(min(len(others), cap - len(t)) + 1):
        for more in itertools.combinations(others, size):
            atom = tuple(sorted((*t, *more)))
            rows = instance.covers(atom)
            signs = set() if instance.sign is None else {int(instance.sign[k]) for k in atom} - {0}
            if not rows.any() or (instance.min_support > 1 and weight[rows].sum() < instance.min_support) or len(signs) > 1:
                continue
            pull = z[rows].sum(axis=0)
            size_of = np.linalg.norm(pull) if not signs else max(pull[0] * signs.pop(), 0.0)
            if len(atom) == 1 and atom[0] in instance.silent:
                size_of = 0.0
            total += (size_of / (instance.price(t) * np.prod([1 + instance.price((k,)) for k in more]))) ** power
    return float(total ** (1 / power))


def point(units: np.ndarray, quantum: float = 1.0) -> DualPoint:
    """A dual point of the given integers; pricing does not ask whether it is balanced."""
    return DualPoint(np.asarray(units, dtype=np.int64).reshape(len(units), -1), quantum)


def case(loss: str, rho: float, shape: str, p: int = 4, rows: int = 20, seed: int = 0) -> Instance:
    """A random problem whose lattice and loss are shaped in one of the ways the maths allows."""
    rng = np.random.default_rng([LOSSES.index(loss), int(10 * rho), SHAPES.index(shape), p, seed])
    options: dict[str, Any] = {
        "full": dict,
        "capped": lambda: {"max_length": 2},
        "weights": lambda: {"weight": 0.5 * rng.integers(1, 5, rows)},
        "silent": lambda: {"silent": (0, 2)},
        "signs": lambda: {"sign": rng.integers(-1, 2, p)},
        "costs": lambda: {"prices": rng.choice([0.5, 1.2, 2.0, 4.0], p)},
        "support": lambda: {"row_weight": rng.integers(1, 4, rows).astype(float), "min_support": 7.0},
        "offset": lambda: {"offset": rng.normal(size=(rows, 3 if loss == "multinomial" else 1)) / 2},
    }[shape]()
    return random_instance(rng, loss, p, rows, C=float(rng.choice([0.1, 1.0, 5.0, 50.0])), rho=rho, delta=0.8, **options)


def solved(instance: Instance, tolerance: float = 0.01, gain_tolerance: float = 0.1, **options: Any) -> Knot:
    """The engine's answer to it: one knot at its C."""
    problem = Problem(lattice_of(instance), targets_of(instance), tolerance, gain_tolerance, "C")
    return follow(problem, HierarchicalSolver(**options), [instance.C]).knots[0]


def weights_of(instance: Instance, knot: Knot) -> np.ndarray:
    """A knot's weights over the whole lattice."""
    F = np.zeros((len(instance.lattice), instance.columns))
    for atom, weight in zip(knot.atoms, knot.coefficients, strict=True):
        F[instance.lattice.index(atom)] = weight
    return F


def bound_again(instance: Instance, knot: Knot) -> float:
    """The certificate's bound, from the dual point and the group weights it stands on, by brute force over the whole lattice."""
    state = knot.state
    pieces = np.split(state["held"], np.cumsum(state["length"])[:-1])
    count = int(state["certified_held"])
    hull = [tuple(int(k) for k in piece) for piece in pieces][:count]
    eta = np.maximum(state["certified_eta"][:count], 1e-300)
    units = state["units"].astype(float)
    assert not units.sum(axis=0).any()
    z = units * float(state["quantum"])
    return instance.best_bound(z, instance.norm_bound(hull, eta / eta.sum(), z))


@st.composite
def instances(draw: st.DrawFn, most_literals: int = 6, most_rows: int = 20, signs: bool = True) -> Instance:
    """Any literals (also implied, repeated, empty and full ones), with any of the options that shape a lattice."""
    p, rows = draw(st.integers(1, most_literals)), draw(st.integers(2, most_rows))
    truth = draw(arrays(bool, (rows, p), elements=st.booleans(), fill=st.nothing()))
    if p > 2 and draw(st.booleans()):
        truth[:, p - 1] = truth[:, 0] | truth[:, 1]
    if p > 3 and draw(st.booleans()):
        truth[:, p - 2] = ~truth[:, 0]
    options: dict[str, Any] = {"rho": draw(st.sampled_from([1.05, 1.1, 1.3, 1.5, 2.0]))}
    options["max_length"] = draw(st.one_of(st.none(), st.integers(1, p)))
    options["silent"] = tuple(sorted(draw(st.sets(st.integers(0, p - 1), max_size=2))))
    if draw(st.booleans()):
        options["prices"] = np.array(draw(st.lists(st.sampled_from([0.3, 1.0, 1.2, 2.0, 7.0]), min_size=p, max_size=p)))
    if draw(st.booleans()):
        options["row_weight"] = np.array(draw(st.lists(st.integers(1, 4), min_size=rows, max_size=rows)), dtype=float)
        options["min_support"] = float(draw(st.integers(2, min(6, int(options["row_weight"].sum())))))
    if signs and draw(st.booleans()):
        options["sign"] = np.array(draw(st.lists(st.integers(-1, 1), min_size=p, max_size=p)))
    return Instance(truth, np.ones(rows), **options)


@st.composite
def held_sets(draw: st.DrawFn, instance: Instance) -> list[Atom]:
    """A closed part of its lattice."""
    picks = draw(st.lists(st.sampled_from(instance.lattice), max_size=4))
    return closure(picks)


__all__ = [
    "SHAPES",
    "bound_again",
    "case",
    "closure",
    "every_tail",
    "held_sets",
    "instances",
    "lattice_of",
    "point",
    "solved",
    "targets_of",
    "weights_of",
]
