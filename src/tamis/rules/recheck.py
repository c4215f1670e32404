"""A second opinion on the certificate of a rule model, by code that no solver shares.

A witness carries what was claimed and how it was proved: rules and weights (the value), an integer dual point and
the group weights eta on the hull (the bound), and the definition of the problem. `check` recomputes everything
from the rows: the objective by evaluating the rules, the domain and balance of the dual point, the dual norm inside
the hull from eta, and outside of it by plain enumeration. A claim that is not reached, by 1e-9, is refuted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from tamis.core.certificate import Certificate, Recheck
from tamis.core.errors import TamisError
from tamis.rules.recheck_part import CLOSE, Found, WitnessPart, examine
from tamis.rules.recheck_rows import WitnessRows

Array = NDArray[Any]

__all__ = ["RuleWitness", "WitnessPart", "WitnessRows"]


@dataclass(frozen=True)
class RuleWitness:
    """What a rule model's certificate carries so that anybody can recompute it.

    Parameters
    ----------
    rows : WitnessRows
    parts : tuple of WitnessPart
        Their values and bounds add up to the certificate's.
    schema : dict, optional
        The schema's JSON: how raw training data are read again.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.certificate import Certificate
    >>> from tamis.rules.recheck import RuleWitness, WitnessPart, WitnessRows
    >>> bits, two = np.array([[1]], dtype=np.uint8), np.ones(2)
    >>> rows = WitnessRows(1, 2, bits=bits, y=np.array([1.0, 0.0]), weight=two, row_weight=two, classes=(0, 1))
    >>> part = WitnessPart(
    ...     "hinge", 1.0, 2.0, np.full(1, 2.0), atoms=(), weights=np.zeros((0, 1)), intercept=np.zeros(1),
    ...     hull=((),), eta=np.ones(1), units=np.array([[1], [-1]]), quantum=1.0, value=2.0, bound=1.87, positive=1,
    ... )
    >>> RuleWitness(rows, (part,)).check(Certificate("duality gap", 2.0, 1.87, 0.1)).sentence()
    'Recheck agrees: value 2 and bound 1.875 were recomputed from 2 rows, looking at 1 conjunctions.'
    """

    rows: WitnessRows
    parts: tuple[WitnessPart, ...]
    schema: Mapping[str, Any] | None = None

    def check(
        self,
        certificate: Certificate,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        schema_dict: Mapping[str, Any] | None = None,
        offset: Any = None,
    ) -> Recheck:
        """Recompute what the certificate claims.

        Parameters
        ----------
        certificate : Certificate
        X, y, sample_weight, offset : optional
            The training data; needed when they are not held any more.
        schema_dict : dict, optional
            The schema's JSON, if not the one held.
        """
        if certificate.kind == "none":
            raise TamisError("This certificate claims nothing, so there is nothing to recheck; fit the model again.")
        again = X is not None or self.rows.bits is None
        rows = self.rows.given_again(X, y, sample_weight, schema_dict or self.schema, offset) if again else self.rows
        claims = self.parts
        if len(claims) == 1:
            claims = (replace(claims[0], value=certificate.value, bound=certificate.bound),)
        found = [examine(rows, part) for part in claims]
        value, bound = math.fsum(part.value for part in found), math.fsum(part.bound for part in found)
        reason = next((part.objection for part in found if part.objection), "") or _disagreement(certificate, claims, found)
        looked = sum(part.looked for part in found)
        agreed = f"value {value:.6g} and bound {bound:.6g} were recomputed from {rows.n_rows} rows, looking at {looked} conjunctions."
        return Recheck(value, bound, bool(reason), reason or agreed)

    def to_meta(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON-able data and arrays, for a model file."""
        meta, arrays = self.rows.to_meta()
        parts = []
        for i, part in enumerate(self.parts):
            own, of_part = part.to_meta()
            parts.append(own)
            arrays |= {f"part{i}.{name}": array for name, array in of_part.items()}
        return {"rows": meta, "parts": parts}, arrays

    @classmethod
    def from_meta(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, Array],
        rows: WitnessRows | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> RuleWitness:
        """Inverse of `to_meta`; `rows` lets several witnesses share one, `schema` is the JSON a file keeps once per model."""
        parts = []
        for i, own in enumerate(meta["parts"]):
            prefix = f"part{i}."
            parts.append(WitnessPart.from_meta(own, {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}))
        return cls(rows or WitnessRows.from_meta(meta["rows"], arrays), tuple(parts), schema)


def _disagreement(certificate: Certificate, claims: Sequence[WitnessPart], found: Sequence[Found]) -> str:
    """What the sums contradict: the parts' claims must add up, and so must the constant model's objective."""
    slack = CLOSE * max(abs(certificate.value), 1e-300)
    if not abs(math.fsum(part.value for part in claims) - certificate.value) <= slack:
        return f"the parts' values do not add up to the {certificate.value:.6g} claimed."
    if not math.fsum(part.bound for part in claims) >= certificate.bound - slack:
        return f"the parts' bounds do not add up to the {certificate.bound:.6g} claimed."
    constant = math.fsum(part.constant for part in found)
    if certificate.constant is not None and not abs(constant - certificate.constant) <= 1e-6 * abs(constant) + slack:
        return f"the best constant model has the objective {constant:.6g}, not the {certificate.constant:.6g} claimed."
    return ""
