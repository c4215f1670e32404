"""One claimed solution of one optimisation problem, and its recomputation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.rules.recheck_lattice import Atom, Lattice
from tamis.rules.recheck_losses import NAMES, Targets, allowed_norm, best_dual, constant_value
from tamis.rules.recheck_rows import WitnessRows

Array = NDArray[Any]
MOST_PARTS = 2e7  # subsets of rules that are listed to sum the norm; a hostile file must not hang the judge
CLOSE = 1e-9  # relative to the objective: as far as claim and recomputation may differ
AVERAGED = ("squared", "poisson")  # losses whose targets may have been averaged within a group


@dataclass(frozen=True)
class WitnessPart:
    """One optimisation problem with its claimed solution; a one-vs-rest model has one per class.

    Attributes
    ----------
    loss : str
    delta : float
        Corner of the Huber loss.
    positive : int or None
        The class that is +1 in a margin loss; None for numbers and for several columns.
    C, rho : float
    prices : ndarray (literals,)
        Factor by which each literal makes a rule dearer (growth times its cost).
    max_length : int or None
    min_support : float
        Row weight a rule must cover; 0: any covered row.
    silent : tuple of int
        Literals whose own rule of length 1 must have weight zero.
    sign : ndarray of int (literals,) or None
        The only sign a rule with this literal may have, 0 for any.
    atoms : tuple of tuples
        The rules as sorted literal positions, with `weights` (rules, columns) and `intercept` (columns,).
    hull : tuple of tuples
        Held rules, closed under taking parts, with positive `eta` on them summing to 1.
    units : ndarray of int (groups, columns), quantum : float
        The dual point is quantum * units.
    value, bound : float
        What is claimed about this part.
    """

    loss: str
    C: float
    rho: float
    prices: Array
    atoms: tuple[Atom, ...]
    weights: Array
    intercept: Array
    hull: tuple[Atom, ...]
    eta: Array
    units: Array
    quantum: float
    value: float
    bound: float
    max_length: int | None = None
    min_support: float = 0.0
    silent: tuple[int, ...] = ()
    sign: Array | None = None
    delta: float = 1.345
    positive: int | None = None

    def to_meta(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON-able data and arrays."""
        meta: dict[str, Any] = {}
        arrays: dict[str, Array] = {}
        for name in (item.name for item in fields(self)):
            value = getattr(self, name)
            if name in ("atoms", "hull"):
                arrays[f"{name}.flat"] = np.array([k for atom in value for k in atom], dtype=np.int32)
                arrays[f"{name}.length"] = np.array([len(atom) for atom in value], dtype=np.int32)
            elif isinstance(value, np.ndarray):
                arrays[name] = value
            else:
                meta[name] = list(value) if isinstance(value, tuple) else value
        return meta, arrays

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> WitnessPart:
        """Inverse of `to_meta`."""
        found: dict[str, Any] = {**meta, "silent": tuple(int(k) for k in meta["silent"])}
        for name in ("atoms", "hull"):
            pieces = np.split(arrays[f"{name}.flat"], np.cumsum(arrays[f"{name}.length"])[:-1])
            found[name] = tuple(tuple(int(k) for k in piece) for piece in pieces) if len(arrays[f"{name}.length"]) else ()
        found |= {name: value for name, value in arrays.items() if "." not in name}
        return cls(**found)


@dataclass(frozen=True)
class Found:
    """What the recomputation of one part gave."""

    value: float = math.nan
    bound: float = -math.inf
    constant: float = math.nan
    looked: int = 0
    objection: str = ""


@dataclass(frozen=True)
class Problem:
    """One part's data: targets per row and per group, and the lattice over distinct rows."""

    by_row: Targets
    by_group: Targets
    constant: float
    lattice: Lattice
    pattern: Array
    z: Array


def examine(rows: WitnessRows, part: WitnessPart) -> Found:
    """Recompute one part."""
    objection = _malformed(rows, part)
    if objection:
        return Found(objection=objection)
    problem, objection = _problem(rows, part)
    if problem is None:
        return Found(objection=objection)
    value, objection = _value(problem, part)
    columns = part.units.shape[1]
    constant = constant_value(problem.by_row, columns)
    if objection:
        return Found(value, constant=constant, objection=objection)
    if not abs(value - part.value) <= CLOSE * max(abs(value), abs(part.value)):
        objection = f"the rules have the objective {value:.10g}, not the {part.value:.10g} claimed."
        return Found(value, constant=constant, objection=objection)
    bound, looked, objection = _bound(problem, part)
    return Found(value, bound, constant, looked, objection)


def _malformed(rows: WitnessRows, part: WitnessPart) -> str:
    """Shapes, ranges and finiteness; a NaN proves nothing."""
    shapes = (part.prices.ndim, part.weights.ndim, part.intercept.ndim, part.eta.ndim, part.units.ndim)
    if shapes != (1, 2, 1, 1, 2) or part.units.dtype.kind not in "iu" or not part.units.shape[1]:
        return "its pieces do not fit together."
    if sum(2.0 ** len(atom) for atom in part.atoms) > MOST_PARTS:
        return "its rules are too long to be taken apart."
    numbers = (part.prices, part.weights, part.intercept, part.eta, np.array([part.C, part.rho, part.quantum, part.value, part.delta]))
    if part.loss not in NAMES:
        return f"the loss {part.loss!r} is not known."
    if not all(np.isfinite(array).all() for array in numbers) or math.isnan(part.bound):
        return "it holds numbers that are not finite."
    if not (part.C > 0 and 1 < part.rho <= 2 and part.quantum > 0 and (part.prices > 0).all() and (part.eta > 0).all()):
        return "it holds a parameter out of its range."
    columns = part.units.shape[1]
    fits = len(part.prices) == rows.literals and part.weights.shape == (len(part.atoms), columns) and part.intercept.shape == (columns,)
    if not fits or len(part.eta) != len(part.hull) or () not in part.hull or len(set(part.hull)) != len(part.hull):
        return "its pieces do not fit together."
    if abs(float(part.eta.sum()) - 1.0) > 1e-6:
        return "the group weights eta do not sum to one."
    return _misplaced(rows, part)


def _misplaced(rows: WitnessRows, part: WitnessPart) -> str:
    """Rules, hull and signs that are no conjunctions of these literals."""
    for atom in (*part.atoms, *part.hull):
        if list(atom) != sorted(set(atom)) or (atom and not 0 <= atom[0] <= atom[-1] < rows.literals):
            return f"{atom} is no conjunction of the literals."
    if part.sign is not None and (part.sign.shape != part.prices.shape or np.abs(part.sign).max(initial=0) > 1):
        return "its monotone signs do not fit the literals."
    if len(set(part.atoms)) != len(part.atoms) or () in part.atoms:
        return "a rule is listed twice, or the empty rule carries a weight."
    if part.sign is not None and part.units.shape[1] > 1 and part.sign.any():
        return "monotone signs make no sense for several columns."
    return ""


def _problem(rows: WitnessRows, part: WitnessPart) -> tuple[Problem | None, str]:
    """Rows of positive weight, grouped as the dual point has them, and distinct rows for the lattice."""
    y, weight, row_weight = (np.asarray(values, dtype=np.float64) for values in (rows.y, rows.weight, rows.row_weight))
    if not (np.isfinite(weight).all() and np.isfinite(y).all() and (weight >= 0).all()):
        return None, "weights or targets are not finite, or a weight is negative."
    keep, (count, columns) = np.flatnonzero(weight > 0), part.units.shape
    group = (np.arange(rows.n_rows) if rows.group is None else rows.group)[keep]
    if len(keep) == 0 or group.min() < 0 or group.max() >= count or len(np.unique(group)) < count:
        return None, "the dual point does not belong to these rows."
    bits, y, weight, row_weight = rows.by_row()[keep], y[keep], part.C * weight[keep], row_weight[keep]
    y = y if part.positive is None else np.where(y == part.positive, 1.0, -1.0)
    offset = np.zeros((len(keep), columns)) if rows.offset is None else rows.offset[keep]
    first = np.empty(count, dtype=np.int64)
    first[group[::-1]] = np.arange(len(keep))[::-1]
    twin = first[group]
    alike = np.array_equal(bits, bits[twin]) and np.array_equal(offset, offset[twin])
    if not alike or (part.loss not in AVERAGED and not np.array_equal(y, y[twin])):
        return None, "rows that differ were merged into one."
    total = np.bincount(group, weight, count)
    mean = np.bincount(group, weight * y, count) / total if part.loss in AVERAGED else y[first]
    spread = 0.5 * float((weight * (y - mean[group]) ** 2).sum()) if part.loss == "squared" else 0.0
    by_row, by_group = Targets(part.loss, y, weight, offset, part.delta), Targets(part.loss, mean, total, offset[first], part.delta)
    distinct, place = _distinct(bits[first])
    lattice = _lattice(part, bits[first][distinct], place, np.bincount(place[group], row_weight, len(distinct)))
    return Problem(by_row, by_group, spread, lattice, place[group], part.units * part.quantum), ""


def _lattice(part: WitnessPart, bits: Array, place: Array, row_weight: Array) -> Lattice:
    """The lattice over distinct rows; entries of the dual point on rows with the same literals add up."""
    units = np.zeros((len(bits), part.units.shape[1]), dtype=np.int64)
    np.add.at(units, place, part.units.astype(np.int64))
    size = len(part.prices)
    sign = np.zeros(size, dtype=np.int64) if part.sign is None else part.sign.astype(np.int64)
    cap = size if part.max_length is None else part.max_length
    whole = bool((row_weight == np.rint(row_weight)).all())
    return Lattice(bits, row_weight, units, part.prices, part.rho, cap, part.min_support, frozenset(part.silent), sign, whole)


def _distinct(bits: Array) -> tuple[Array, Array]:
    """(one row of each kind, the kind of each row)."""
    wide = np.zeros((len(bits), max(8, -(-bits.shape[1] // 8) * 8)), dtype=np.uint8)
    wide[:, : bits.shape[1]] = bits
    words = wide.view("<u8")
    order = np.lexsort(words.T)
    fresh = np.concatenate([[True], (words[order[1:]] != words[order[:-1]]).any(axis=1)])
    place = np.empty(len(bits), dtype=np.int64)
    place[order] = np.cumsum(fresh) - 1
    return order[fresh], place


def _value(problem: Problem, part: WitnessPart) -> tuple[float, str]:
    """(the objective of rules, weights and intercept, why they are no solution)."""
    lattice = problem.lattice
    score = np.tile(part.intercept, (len(lattice.weight), 1))
    sizes = np.linalg.norm(part.weights, axis=1)
    for atom, weights in zip(part.atoms, part.weights, strict=True):
        node = lattice.node(atom)
        objection = lattice.objection(node)
        sign = lattice.sign_of(atom)
        if not objection and len(atom) == 1 and atom[0] in part.silent and weights.any():
            objection = "must have weight zero"
        if not objection and sign * float(weights[0]) < 0:
            objection = "has a weight against its monotone sign"
        if objection:
            return math.nan, f"the rule {atom} {objection}."
        score[node.rows] += weights
    ancestors = {part_of for atom in part.atoms for size in range(len(atom) + 1) for part_of in combinations(atom, size)}
    below: dict[Atom, list[float]] = {atom: [] for atom in ancestors}
    for atom, size_of in zip(part.atoms, sizes, strict=True):
        for size in range(len(atom) + 1):
            for above in combinations(atom, size):
                below[above].append(float(size_of))
    norm = math.fsum(lattice.price(atom) * _rho_norm(values, part.rho) for atom, values in below.items())
    return norm**2 / 2 + problem.by_row.value(score[problem.pattern]), ""


def _rho_norm(values: Sequence[float], rho: float) -> float:
    top = max(values)
    return top * math.fsum((value / top) ** rho for value in values) ** (1 / rho) if top > 0 else 0.0


def _bound(problem: Problem, part: WitnessPart) -> tuple[float, int, str]:
    """(lower bound of every model, conjunctions looked at, why the claim does not stand)."""
    lattice, targets, z = problem.lattice, problem.by_group, problem.z
    if float(np.abs(part.units).sum(dtype=np.float64)) >= 2**53:
        return -math.inf, 0, "the dual point is too large for exact sums."
    if part.units.astype(np.int64).sum(axis=0).any():
        return -math.inf, 0, "the dual point does not sum to zero."
    objection = targets.domain(z)
    if objection:
        return -math.inf, 0, f"the dual point is outside its domain: {objection}."
    wanted = part.bound - CLOSE * max(abs(part.value), abs(part.bound) if math.isfinite(part.bound) else 0.0) - problem.constant
    limit = min(allowed_norm(targets, z, wanted) / part.quantum, 1e3 * max(1.0, float(np.abs(part.units).sum())))
    pulls, tails, objection = lattice.outside(part.hull, limit)
    if objection:
        return -math.inf, tails.looked, f"{objection}."
    inside = lattice.inside(part.hull, pulls, part.eta)
    norm = max(inside, tails.highest) * part.quantum
    if not math.isfinite(norm):
        return -math.inf, tails.looked, "the dual norm is not finite."
    bound = best_dual(targets, z, norm)[1] + problem.constant
    if not bound >= wanted + problem.constant:
        where = "inside the hull" if inside >= tails.highest else f"below {tails.worst}"
        return bound, tails.looked, f"the dual point proves only {bound:.10g}, not the {part.bound:.10g} claimed (largest norm {where})."
    return bound, tails.looked, ""
