"""A second opinion on the certificate of a linear path, by code that no solver shares.

A witness carries what was claimed (times, coefficients, intercepts) and the definition of the problem. `check` recomputes everything
from the rows: exact paths from their own equations, damped ones by running the recursion again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tamis.core.certificate import Certificate, Recheck
from tamis.core.errors import TamisError
from tamis.linear.recheck_exact import examine_exact, examine_split
from tamis.linear.recheck_facts import Budget, PathFacts, WitnessMatrix, Worst
from tamis.linear.recheck_gauge import WitnessGauge
from tamis.linear.recheck_replay import examine_damped
from tamis.linear.recheck_rows import WitnessRows
from tamis.linear.recheck_split import examine_split_damped

ROUNDING = 1e-9  # beside twice what was claimed

__all__ = ["LinearWitness", "PathFacts", "WitnessGauge", "WitnessMatrix", "WitnessRows"]


@dataclass(frozen=True)
class LinearWitness:
    """What the certificate of a knot carries so that anybody can recompute it.

    Parameters
    ----------
    facts : PathFacts
        The whole path and its problem, shared by all its knots.
    knot : int
        Which of them this is.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.certificate import Certificate
    >>> from tamis.linear.recheck import LinearWitness, PathFacts, WitnessRows
    >>> X, y = np.array([[1.0], [-1.0]]), np.array([2.0, -2.0])
    >>> rows = WitnessRows(2, 1, ("x",), blocks=(X,), target=y[:, None], weight=np.ones(2))
    >>> nothing, first = np.zeros(0, dtype=int), np.zeros(1, dtype=int)
    >>> facts = PathFacts(
    ...     "exact", rows, np.array([0.0, 0.5]), (nothing, first), (np.zeros((0, 1)), np.array([[2.0]])), np.zeros((2, 1))
    ... )
    >>> claim = Certificate("inclusion residual", 0.0, 0.0, 1e-8)
    >>> LinearWitness(facts, 1).check(claim).sentence()
    'Recheck agrees: the path was computed again from 2 rows up to t = 0.5, and its largest violation is 0.0e+00.'
    """

    facts: PathFacts
    knot: int

    def check(
        self, certificate: Certificate, X: Any = None, y: Any = None, sample_weight: Any = None, *, iterations: int = 200_000,
        seconds: float = 60.0,
    ) -> Recheck:  # fmt: skip
        """Recompute what the certificate claims.

        Parameters
        ----------
        certificate : Certificate
        X, y, sample_weight : optional
            The training data; needed when they are not held any more. What is held is the table that was given to the fit: if that
            was changed in place since, the recheck sees the changed one.
        iterations, seconds
            How long iterations are replayed at most; what lies beyond is not looked at, and the answer says so.
        """
        if certificate.kind == "none":
            raise TamisError("This certificate claims nothing, so there is nothing to recheck; fit the model again.")
        facts = self.facts
        again = X is not None or y is not None or facts.rows.blocks is None
        facts = replace(facts, rows=(facts.rows.given_again(X, y, sample_weight) if again else facts.rows).used())
        worst, reached = _examined(facts, self.knot, Budget(iterations, seconds))
        limit = max(certificate.tolerance, 2.0 * certificate.value + ROUNDING + worst.slack)
        refuted = not (math.isfinite(worst.value) and worst.value <= limit)
        claimed = certificate.value if math.isfinite(certificate.value) else math.nan
        if refuted:
            reason = f"{worst.words}, a violation of {worst.value:.1e} where {claimed:.1e} is claimed."
        else:
            how = "replayed" if facts.method in ("damped", "split damped") else "computed again"
            rest = f"; the rest, up to t = {facts.times[self.knot]:.6g}, was not looked at" if reached < facts.times[self.knot] else ""
            what = f"the path was {how} from {facts.rows.rows} rows up to t = {reached:.6g}"
            reason = f"{what}, and its largest violation is {worst.value:.1e}{rest}."
        return Recheck(worst.value, 0.0, refuted, reason)


def _examined(facts: PathFacts, knot: int, budget: Budget) -> tuple[Worst, float]:
    """What is found, and up to which time."""
    if facts.method == "damped":
        return examine_damped(facts, knot, budget)
    if facts.method == "split damped":
        return examine_split_damped(facts, knot, budget)
    return (examine_exact if facts.method == "exact" else examine_split)(facts, knot), float(facts.times[knot])
