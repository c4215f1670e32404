"""The certificate: how far an answer can be from the best one, in numbers, in words, and re-checkable.

A certificate states two numbers about one optimisation problem: the `value` reached and a `bound` no answer
can beat. Everything else is reading them honestly. Because decisions are written as `gap <= tolerance`, a NaN
never certifies anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tamis.core.errors import TamisError


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

    def check(self, certificate: Certificate, *data: Any, **options: Any) -> Recheck: ...


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
        "duality gap", or "none" (then `reason` says why none can exist).
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
        """Relative distance to the bound; infinite when there is no certificate."""
        if self.kind == "none" or not math.isfinite(self.value - self.bound):
            return math.inf
        return max(self.value - self.bound, 0.0) / max(abs(self.value), 1e-300)

    @property
    def gain_share(self) -> float:
        """At least this share of what can be gained over the constant model has been gained."""
        if self.constant is None or self.nothing_to_gain:
            return 1.0
        return max(0.0, (self.constant - self.value) / (self.constant - self.bound))

    @property
    def nothing_to_gain(self) -> bool:
        """True when even the bound is no better than the constant model, within one part in a million."""
        return self.constant is not None and self.constant - self.bound <= 1e-6 * abs(self.constant)

    @property
    def holds(self) -> bool:
        """True when both the gap and the share of the gain are within what was asked."""
        return self.gap <= self.tolerance and (1.0 - self.gain_share) <= self.gain_tolerance

    def sentence(self) -> str:
        """The certificate in words; one that does not hold says so first."""
        if self.kind == "none":
            return f"No certificate: {self.reason}"
        knob = f" ({self.scope.knob})" if self.scope.knob else ""
        work = f"; {self.scope.looked} were looked at." if self.scope.looked else "."
        if self.nothing_to_gain:
            return f"Nothing to gain over a constant{knob}: no model over {self.scope.space} does better{work}"
        said = f"ithin {percent(self.gap)} of the best possible model over {self.scope.space}{knob}"
        share = "" if self.constant is None else f", with at least {self.gain_share:.0%} of what it can gain over a constant"
        if self.holds:
            return f"W{said}{share}{work}"
        return f"Not certified to {percent(self.tolerance)}: only w{said}{share}{work}"

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
    def from_dict(cls, data: dict[str, Any]) -> Certificate:
        """Inverse of `to_dict`."""
        return cls(**{**data, "scope": Scope(**data["scope"])})


def percent(share: float) -> str:
    """A share in percent with as many digits as it needs: 0.8 %, 12 %, 0.004 %."""
    if not math.isfinite(share):
        return "an unknown distance"
    digits = 0 if share >= 0.0995 else min(6, max(1, 1 - math.floor(math.log10(max(share, 1e-9) * 100))))
    return f"{100 * share:.{digits}f} %"
