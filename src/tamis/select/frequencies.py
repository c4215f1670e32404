"""What follows from frequencies: who is selected at a threshold, the bound on false selections, and both in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate, Scope
from tamis.core.path import Knot, Path

Array = NDArray[Any]
FEW = 30.0  # logarithm of a count below which it is a whole number
ROUNDING = 1e-9  # a share of 75 in 100 meets a threshold of 0.75


@dataclass(frozen=True)
class Found:
    """How often each piece was counted, and what the bound needs.

    Attributes
    ----------
    kind, names, labels, log_candidates
        See `Pieces`.
    share : ndarray
        The share of samples in which each piece was counted.
    q : float
        The largest number counted per sample, or an estimate of its mean.
    estimated : bool
        Which of the two.
    mean : float
        Mean number counted.
    samples : int
    pairs : bool
    threshold : float
    free : tuple of str
        Pieces in every model; they are selected, and no business of the bound.
    """

    kind: str
    names: tuple[str, ...]
    share: Array = field(repr=False)
    labels: Array | None = field(repr=False)
    log_candidates: float
    q: float
    estimated: bool
    mean: float
    samples: int
    pairs: bool
    threshold: float
    free: tuple[str, ...] = ()

    def order(self) -> Array:
        """Positions by frequency, then as listed."""
        return np.argsort(-self.share, kind="stable")

    def at(self, threshold: float) -> Array:
        """Positions of the pieces selected at a threshold, most frequent first."""
        order = self.order()
        return order[self.share[order] >= threshold - ROUNDING]


def bound_of(found: Found) -> float:
    """q^2 / ((2 threshold - 1) p), by logarithms where there are many, for rules can be more than a double can count."""
    if not found.q > 0:
        return 0.0
    if found.log_candidates < FEW:
        return found.q**2 / ((2 * found.threshold - 1) * round(math.exp(found.log_candidates)))
    exponent = 2 * math.log(found.q) - math.log(2 * found.threshold - 1) - found.log_candidates
    return math.exp(exponent) if exponent < 700 else math.inf


def bound_words(found: Found) -> str:
    """The bound with its assumptions."""
    bound, kept = bound_of(found), len(found.at(found.threshold)) - len(found.free)
    counted = "selected at t" if found.estimated else "among the first q"
    formula = f"q^2 / ((2 threshold - 1) p) with q = {found.q:.3g}, threshold = {found.threshold:g}, p = {_many(found.log_candidates)}"
    alike = f"if on half of the rows every false one is as likely as any other to be {counted}, and the base does no worse than guessing"
    if found.kind == "rules":
        said = "Rules overlap and differ in price, so false ones are not alike, and how many were selected is not bounded."
    else:
        said = f"At most {bound:.2g} false {found.kind} are expected among the {kept} selected, {alike} "
        said += f"({formula}; Meinshausen and Bühlmann 2010)."
    if found.pairs:
        chance = math.exp(min(0.0, math.log(found.q) - found.log_candidates)) if found.q > 0 else 0.0
        start = (
            f"What is bounded, by {bound:.2g} ({formula}),"
            if found.kind == "rules"
            else "Without these assumptions, the same number bounds"
        )
        verb = "is how many" if found.kind == "rules" else "how many"
        said += (
            f" {start} {verb} are expected among the selected that are {counted} on half of the rows with a chance of at most "
            f"q / p = {chance:.2g}, for independent rows (Shah and Samworth 2013)."
        )
    if found.estimated:
        said += " q is the mean number selected on the samples, so the bound is an estimate."
    if kept and bound >= kept:
        said += " This is no less than the number selected, so it says nothing: lower q or raise the threshold."
    return said


def _many(log_count: float) -> str:
    """1 234, or about 1e40."""
    return f"{round(math.exp(log_count)):,}".replace(",", " ") if log_count < FEW else f"about 1e{log_count / math.log(10):.0f}"


def certificate_of(found: Found) -> Certificate:
    """None, and why, and what is known instead."""
    scope = Scope(f"{found.kind} on halves of the rows", f"threshold = {found.threshold:g}", len(found.at(found.threshold)))
    reason = f"a frequency over {found.samples} samples is an estimate. {bound_words(found)}"
    return Certificate("none", math.nan, math.nan, 0.0, scope, reason=reason)


def path_of(found: Found, status: str, certificate: Certificate, provenance: Mapping[str, Any]) -> Path:
    """The selection at every threshold where it changes, from 1 down; weights are frequencies."""
    shares = found.share[found.share > 0.5]
    places = sorted({1.0, found.threshold, *(float(share) for share in shares)}, reverse=True)
    knots = []
    for threshold in places:
        held = found.at(threshold)
        atoms, names = tuple((int(i),) for i in held), tuple(found.names[i] for i in held)
        knots.append(Knot(threshold, atoms, names, found.share[held, None].copy(), np.zeros(1), certificate, {"size": float(len(held))}))
    return Path(tuple(knots), status, "threshold", provenance=dict(provenance))
