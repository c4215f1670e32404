"""Certificates and witnesses made from the oracle's optimum by a solver as crude as can be, to be judged by `recheck`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers_oracle import MARGINS, Atom, Instance, Optimum
from tamis.core.certificate import Certificate
from tamis.rules.recheck import RuleWitness, WitnessPart, WitnessRows


def integer_point(instance: Instance, z: np.ndarray, bits: int = 15) -> tuple[np.ndarray, float]:
    """(units, quantum) of a feasible dual point near z: truncated toward zero, then balanced unit by unit."""
    weight = (instance.C * instance.s)[:, None]
    label = instance.y.astype(int) if instance.loss == "multinomial" else np.zeros(len(z), dtype=int)
    z = np.where(weight > 0, z, 0.0)
    if instance.loss in MARGINS:
        limit = np.inf if instance.loss == "squared_hinge" else weight
        z = np.clip(z * instance.y[:, None], 0.0, limit) * instance.y[:, None]
    elif instance.loss == "huber":
        z = np.clip(z, -instance.delta * weight, instance.delta * weight)
    elif instance.loss == "poisson":
        z = np.minimum(z, weight * instance.y[:, None])
    quantum = max(float(np.abs(z).max()), 1e-12) / (2**bits - 1)
    units = np.trunc(z * (1 - 1e-12) / quantum).astype(np.int64)
    if instance.loss == "multinomial":
        units = np.minimum(units, 0)
        units[np.arange(len(z)), label] = 0
        over = -units.sum(axis=1) - np.floor((weight[:, 0] * (1 - 1e-12)) / quantum).astype(np.int64)
        for i in np.flatnonzero(over > 0):
            k = int(units[i].argmin())
            units[i, k] += over[i]
        units[np.arange(len(z)), label] = -units.sum(axis=1)
        _balance_columns(units, label)
    else:
        while units.sum():
            step = int(np.sign(units.sum()))
            units[int(np.argmax(units[:, 0] * step)), 0] -= step
    return units, quantum


def _balance_columns(units: np.ndarray, label: np.ndarray) -> None:
    """Move single units inside rows until every column sums to zero."""
    while units.sum(axis=0).any():
        high, low = int(units.sum(axis=0).argmax()), int(units.sum(axis=0).argmin())
        rows = np.flatnonzero((units[:, low] < 0) & (label != low))
        row = rows[int(units[rows, low].argmin())]
        units[row, high] -= 1
        units[row, low] += 1


def closed(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms with all their parts, shortest first."""
    found = {()} | {tuple(k for j, k in enumerate(atom) if mask >> j & 1) for atom in atoms for mask in range(2 ** len(atom))}
    return sorted(found, key=lambda atom: (len(atom), atom))


def eta_of(instance: Instance, F: np.ndarray, hull: Sequence[Atom]) -> np.ndarray:
    """Group weights on the hull: each group's share of the norm, never zero."""
    sizes = np.linalg.norm(F, axis=1)
    norms = {
        atom: (sizes[row] ** instance.rho).sum() ** (1 / instance.rho) for atom, row in zip(instance.lattice, instance.below, strict=True)
    }
    share = np.array([instance.price(atom) * norms[atom] for atom in hull])
    share = np.maximum(share / max(share.sum(), 1e-300), 1e-4)
    return share / share.sum()


def rows_of(instance: Instance, group: np.ndarray | None = None, **options: Any) -> WitnessRows:
    """The instance's rows, held as packed bits."""
    bits = np.packbits(instance.truth.T, axis=1, bitorder="little")
    y = (instance.y > 0).astype(float) if instance.loss in MARGINS else instance.y
    classes = (0, 1) if instance.loss in MARGINS else tuple(range(instance.columns)) if instance.loss == "multinomial" else ()
    row_weight = np.ones(len(y)) if instance.row_weight is None else instance.row_weight
    if group is None and (instance.s == 0).any():
        group = np.where(instance.s > 0, np.cumsum(instance.s > 0) - 1, -1)
    return WitnessRows(
        instance.size,
        len(y),
        group=group,
        bits=bits,
        y=y,
        weight=instance.s,
        row_weight=row_weight,
        offset=instance.offset,
        classes=classes,
        **options,
    )


def claim(
    instance: Instance, found: Optimum, rng: np.random.Generator, hull: Sequence[Atom] | None = None
) -> tuple[Certificate, RuleWitness]:
    """An honest certificate, as strong as its dual point and eta allow, with its witness."""
    sizes = np.linalg.norm(found.F, axis=1)
    kept = np.flatnonzero(sizes > 1e-6)
    F = np.where((sizes > 1e-6)[:, None], found.F, 0.0)
    F = np.where(np.isnan(instance.free_sign)[:, None], 0.0, F)
    sign = np.nan_to_num(instance.free_sign)[:, None]
    F = np.where(sign * F < 0, 0.0, F)
    if hull is None:
        some = [atom for atom in instance.lattice if rng.random() < 0.3]
        hull = closed([instance.lattice[i] for i in kept] + some)
    units, quantum = integer_point(instance, found.z)
    eta, z = eta_of(instance, F, hull), units * quantum
    bound = instance.best_bound(z, instance.norm_bound(list(hull), eta, z))
    value = instance.primal(F, found.beta)
    positive_rows = instance.s > 0
    part = WitnessPart(
        loss=instance.loss,
        C=instance.C,
        rho=instance.rho,
        prices=np.full(instance.size, 2.0) if instance.prices is None else instance.prices,
        atoms=tuple(instance.lattice[i] for i in kept if F[i].any()),
        weights=F[[i for i in kept if F[i].any()]],
        intercept=np.array(found.beta),
        hull=tuple(hull),
        eta=eta,
        units=units[positive_rows],
        quantum=quantum,
        value=value,
        bound=bound,
        max_length=instance.max_length,
        min_support=0.0 if instance.min_support <= 1 else instance.min_support,
        silent=instance.silent,
        sign=instance.sign,
        delta=instance.delta,
        positive=1 if instance.loss in MARGINS else None,
    )
    return Certificate("duality gap", value, bound, 0.01), RuleWitness(rows_of(instance), (part,))
