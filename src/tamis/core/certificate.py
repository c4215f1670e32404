"""The certificate: how far an answer can be from the best one, in numbers, in words, and re-checkable.

A certificate states two numbers about one optimisation problem: the `value` reached and a `bound` no answer
can beat. Everything else is reading them honestly. Because decisions are written as `gap <= tolerance`, a NaN
never certifies anything.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

from tamis.core.errors import TamisError

# Kinds whose value is itself a distance, to what holds exactly: their gap is that distance, not a share of an objective.
RESIDUALS = {
    "inclusion residual": "Exact to {gap}: {space}{knob}.",
    "replay residual": "Reproduced to {gap}: {space}{knob}.",
}
# Rounding may put a bound above the value it belongs to, by less than this share of the numbers involved.
NOISE = 1e-6


@dataclass(frozen=True, slots=True)
class Recheck:
    """What an independent recomputation found: its own value and bound, and whether it refutes the claim."""

    value: float
    bound: float
    refuted: bool
    reason: str

    def sentence(self) -> str:
        """The verdict in words."""
        return f"Recheck refutes the certificate: {self.reason}" if self.refuted else f"Recheck agrees: {self.reason}"


class Witness(Protocol):
    """What a certificate carries so that it can be recomputed without any solver code."""

    def check(self, certificate: Certificate, *data: Any, **options: Any) -> Recheck:
        """Value and bound again, from the data."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What the bound speaks about: the whole space searched, the knob it was searched at, and the work done."""

    space: str = ""
    knob: str = ""
    held: int = 0
    looked: int = 0


@dataclass(frozen=True)
class Certificate:
    """Value reached, bound on every answer in scope, and the tolerance that was asked for.

    Attributes
    ----------
    kind : str
        "duality gap"; a residual (`RESIDUALS`), whose value is the largest violation of the equations that hold exactly, with bound 0
        and an absolute tolerance; or "none" (then `reason` says why none can exist).
    value, bound : float
        Objective reached (an upper bound of the optimum of a minimisation) and its lower bound.
    tolerance : float
        Relative gap asked for.
    scope : Scope
        What the bound covers.
    constant : float or None
        Objective of the best constant model: what there was to gain. A small relative gap says nothing when
        value and constant nearly agree, so the share of the gain is certified too.
    gain_tolerance : float
        Largest share of the possible gain that may be missing.

    Examples
    --------
    >>> from tamis import Certificate
    >>> certificate = Certificate("duality gap", value=1.0, bound=0.992, tolerance=0.01)
    >>> certificate.holds
    True
    >>> round(certificate.gap, 6)
    0.008
    """

    kind: str
    value: float
    bound: float
    tolerance: float
    scope: Scope = field(default_factory=Scope)
    constant: float | None = None
    gain_tolerance: float = 1.0
    reason: str = ""
    witness: Witness | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float:
        """Relative distance to the bound; infinite when there is no certificate, or none that can be true."""
        if self.kind == "none" or not math.isfinite(self.value - self.bound) or self.contradicts_itself:
            return math.inf
        unit = 1.0 if self.is_residual else max(abs(self.value), 1e-300)
        return max(self.value - self.bound, 0.0) / unit

    @property
    def is_residual(self) -> bool:
        """Whether the value is a violation of equations rather than an objective."""
        return self.kind in RESIDUALS

    @property
    def contradicts_itself(self) -> bool:
        """True when an answer at hand, or the constant model, is better than what the bound says is possible."""
        if self.is_residual:
            return self.value < self.bound
        best = self.value if self.constant is None else min(self.value, self.constant)
        return self.bound - best > NOISE * max(abs(self.bound), abs(self.value), abs(self.constant or 0.0))

    @property
    def gain_share(self) -> float:
        """At least this share of what can be gained over the constant model has been gained."""
        if self.constant is None or self.nothing_to_gain:
            return 1.0
        share = (self.constant - self.value) / (self.constant - self.bound)
        return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0

    @property
    def nothing_to_gain(self) -> bool:
        """True when even the bound is no better than the constant model, within one part in a million."""
        return self.constant is not None and math.isfinite(self.constant) and self.constant - self.bound <= 1e-6 * abs(self.constant)

    @property
    def holds(self) -> bool:
        """True when both the gap and the share of the gain are within what was asked; never with a NaN or an infinity."""
        known = math.isfinite(self.gap) and (self.constant is None or math.isfinite(self.constant))
        return known and self.gap <= self.tolerance and (1.0 - self.gain_share) <= self.gain_tolerance

    def sentence(self) -> str:
        """The certificate in words; one that does not hold says so first, and no number is rounded in its favour."""
        if self.kind == "none":
            return f"No certificate: {self.reason}"
        knob = f" ({self.scope.knob})" if self.scope.knob else ""
        if self.is_residual:
            return self._residual_sentence(knob)
        work = f"; {self.scope.looked:,} were looked at.".replace(",", " ") if self.scope.looked else "."
        if self.nothing_to_gain and self.holds:
            return f"Nothing to gain over a constant{knob}: no model over {self.scope.space} does better{work}"
        said = f"ithin {percent(self.gap, ROUND_CEILING)} of the best possible model over {self.scope.space}{knob}"
        stated = self.constant is not None and not self.nothing_to_gain
        share = f", with at least {at_least(self.gain_share)} of what it can gain over a constant" if stated else ""
        if self.holds:
            return f"W{said}{share}{work}"
        return f"Not certified to {percent(self.tolerance, ROUND_FLOOR)}: only w{said}{share}{work}"

    def _residual_sentence(self, knob: str) -> str:
        """A residual in words; one that does not hold says so first, and what to do."""
        gap = f"{max(self.gap, sys.float_info.epsilon):.1e}" if math.isfinite(self.gap) else "an unknown distance"
        said = RESIDUALS[self.kind].format(gap=gap, space=self.scope.space, knob=knob)
        if self.holds:
            return said
        return f"Not certified to {self.tolerance:.0e}. {said}{' ' + self.reason if self.reason else ''}"

    def recheck(self, *data: Any, **options: Any) -> Recheck:
        """Recompute value and bound with code no solver shares; needs the training data unless they are still held."""
        if self.witness is None:
            raise TamisError("This certificate carries no witness, so it cannot be rechecked; fit again, or load the model file.")
        return self.witness.check(self, *data, **options)

    def with_witness(self, witness: Witness | None) -> Certificate:
        """The same claim with another witness."""
        return replace(self, witness=witness)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able data, without the witness."""
        scope = {"space": self.scope.space, "knob": self.scope.knob, "held": self.scope.held, "looked": self.scope.looked}
        names = ("kind", "value", "bound", "tolerance", "constant", "gain_tolerance", "reason")
        return {name: getattr(self, name) for name in names} | {"scope": scope}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """Inverse of `to_dict`; what a later version added is left out."""
        scope = data["scope"]
        return cls(
            kind=str(data["kind"]),
            value=float(data["value"]),
            bound=float(data["bound"]),
            tolerance=float(data["tolerance"]),
            scope=Scope(str(scope["space"]), str(scope["knob"]), int(scope["held"]), int(scope["looked"])),
            constant=None if data["constant"] is None else float(data["constant"]),
            gain_tolerance=float(data["gain_tolerance"]),
            reason=str(data["reason"]),
        )


def percent(share: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """A share in percent with as many digits as it needs: 0.80 %, 12 %, 0.0040 %; less than all never reads 100 %."""
    if not math.isfinite(share) or share > 1e4:
        return "an unknown distance"
    exact = Decimal(repr(float(share))) * 100
    # Seven digits say how many to show; what lies below is the float's own noise, which must not be rounded into sight.
    size = Decimal(f"{exact:.6e}")
    digits = 0 if size >= Decimal("9.95") or not size else min(6, 1 - size.adjusted())
    exact *= {ROUND_CEILING: Decimal("0.999999999"), ROUND_FLOOR: Decimal("1.000000001")}.get(rounding, Decimal(1))
    shown = exact.quantize(Decimal(1).scaleb(-digits), rounding)
    if shown == 100 and share < 1 and rounding != ROUND_CEILING:
        shown = min(exact.quantize(Decimal("0.1"), ROUND_FLOOR), Decimal("99.9"))
    return f"{shown:f} %"


def at_least(share: float) -> str:
    """A share in whole percents, rounded down: 0.999 reads 99 %, and only everything reads 100 %."""
    exact = Decimal(repr(float(share))) * Decimal("100.0000001")
    return f"{min(exact, Decimal(100 if share >= 1 else 99)).quantize(Decimal(1), ROUND_FLOOR)} %"
