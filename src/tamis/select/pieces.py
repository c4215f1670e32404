"""What a base estimator selects: columns, groups, rows of D or rules; which of them can enter; and the base made ready for samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Standardized
from tamis.core.errors import TamisError
from tamis.linear.base import PathModel
from tamis.linear.inputs import Columns, penalty_factors
from tamis.linear.parameters import is_exact

Array = NDArray[Any]
SHOWN = 3  # members of a group that its name lists
TIMES = ("<=", ">")  # conditions with a cut point


@dataclass(frozen=True)
class Pieces:
    """What is counted.

    Attributes
    ----------
    kind : str
        "columns", "groups", "rows of D", "groups of rows of D", or "rules".
    names : tuple of str
        All of them in order; empty for rules, which are too many to list.
    owner : dict of str to str
        What a path calls a piece -> the piece it is counted as, where these differ (members of groups, opposite conditions).
    labels : ndarray or None
        The piece that each column belongs to, by position; None where pieces are not made of columns.
    log_candidates : float
        Logarithm of how many can enter; infinite while only a fit can tell.
    q : int
        How many are counted per sample by default.
    """

    kind: str
    names: tuple[str, ...] = ()
    owner: dict[str, str] = field(default_factory=dict, repr=False)
    labels: Array | None = field(default=None, repr=False)
    log_candidates: float = math.inf
    q: int = 1


def bases() -> dict[str, type]:
    """The estimators that follow a path of selections, by name."""
    from tamis.linear.classifier import BregmanClassifier
    from tamis.linear.regressor import BregmanRegressor, InverseScaleRegressor
    from tamis.rules.classifier import RuleClassifier
    from tamis.rules.regressor import RuleRegressor

    return {known.__name__: known for known in (InverseScaleRegressor, BregmanRegressor, BregmanClassifier, RuleClassifier, RuleRegressor)}


def checked_base(base: Any) -> Any:
    """The base estimator, or the default one."""
    known = bases()
    if base is None:
        return known["InverseScaleRegressor"](choose="last")
    if not isinstance(base, tuple(known.values())):
        said = " ".join(repr(base).split())[:80]
        raise TamisError(
            f"base={said} follows no path of selections, so nothing can be counted; give an instance of one of {', '.join(known)}."
        )
    return base


def default_q(candidates: float) -> int:
    """round(sqrt(0.8 p)): one false piece expected at a threshold of 0.9, 1.6 at 0.75."""
    return max(1, round(math.sqrt(0.8 * candidates)))


# ---- linear models --------------------------------------------------------------------------------------------
def linear_pieces(base: Any, columns: Columns, weight: Array) -> Pieces:
    """What a linear path selects, and how many of these vary and may enter."""
    names, transformation = columns.names, getattr(base, "transformation", None)
    if transformation is None:
        units, enters = names, _movable(base, columns, weight)
    else:
        from tamis.structures.transform import as_transform

        matrix = as_transform(transformation, names)
        units, enters = matrix.names(names), np.diff(matrix.matrix.indptr) > 0
    grouped = getattr(base, "groups", None) is not None and getattr(base, "penalty", "entry") in ("group", "column")
    kind, owner, labels, listed = "columns" if transformation is None else "rows of D", {}, np.arange(len(units)), units
    if grouped:
        from tamis.linear.parameters import group_labels

        labels = _numbered(group_labels(base.groups, units))
        listed = _group_names(base.groups, units, labels)
        owner, kind = {unit: listed[label] for unit, label in zip(units, labels.tolist(), strict=True)}, kind.replace("columns", "groups")
        kind = kind if transformation is None else "groups of rows of D"
    candidates = len(np.unique(labels[enters]))
    log_candidates = math.log(max(candidates, 1))
    return Pieces(kind, tuple(listed), owner, labels if transformation is None else None, log_candidates, default_q(candidates))


def _movable(base: Any, columns: Columns, weight: Array) -> Array:
    """Columns that vary and that the data decide on: neither always in nor never."""
    scaled = Standardized.of(columns.design, weight)
    moves = np.asarray(scaled.varies).copy()
    if not base.fit_intercept:
        moves |= np.asarray(scaled.center) != 0
    if getattr(base, "penalty", "entry") == "entry":
        factors = penalty_factors(base.penalty_factor, columns.names)
        moves &= (factors > 0) & np.isfinite(factors)
    return moves


def _numbered(labels: Array) -> Array:
    """0, 1, ... in the order in which groups first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def _group_names(groups: Any, units: Sequence[str], labels: Array) -> tuple[str, ...]:
    """The name a group was given, or its members."""
    members: list[list[str]] = [[] for _ in range(int(labels.max()) + 1)]
    for unit, label in zip(units, labels.tolist(), strict=True):
        members[label].append(unit)
    given: dict[str, str] = {}
    if isinstance(groups, dict):
        given = {str(column): str(name) for column, name in groups.items() if isinstance(column, str) and isinstance(name, str)}
    elif all(isinstance(label, str) for label in groups):
        given = dict(zip(units, map(str, groups), strict=True))
    return tuple(given.get(held[0]) or _listed(held) for held in members)


def _listed(held: Sequence[str]) -> str:
    more = f", ... {len(held)} in all" if len(held) > SHOWN else ""
    return "{" + ", ".join(held[:SHOWN]) + more + "}"


# ---- rules ----------------------------------------------------------------------------------------------------
def rule_pieces(base: Any, table: Any, target: Array, weight: Array) -> tuple[Pieces, Any]:
    """What a rule model selects, and the base with cut points settled on the whole table: rules of samples can then be the same."""
    from tamis.tables.cuts import Cuts
    from tamis.tables.schema import learn_schema

    schema = learn_schema(
        table, cuts=base.cuts, n_cuts=base.n_cuts, propositions=base.propositions, costs=base.costs, min_support=base.min_support,
        max_literals=base.max_literals, y=target, sample_weight=weight,
    )  # fmt: skip
    found: dict[str, set[Any]] = {}
    for literal in schema.literals:
        if literal.operator in TIMES and literal.kind in ("numeric", "integer", "date"):
            found.setdefault(literal.column, set()).add(literal.value)
    pieces = Pieces("rules", owner=_opposites(schema) if base.complements == "one" else {}, q=default_q(len(schema)))
    default = base.cuts if not isinstance(base.cuts, dict) else "quantile"
    if default in ("none", "paper") or (isinstance(default, Cuts) and default.kind in ("none", "paper")):
        return pieces, base
    settled = {name: Cuts(at=sorted(values), readable=False) for name, values in found.items()}
    given = dict(base.cuts) if isinstance(base.cuts, dict) else {}
    return pieces, with_parameters(base, cuts={**given, **settled})


def _opposites(schema: Any) -> dict[str, str]:
    """A condition and its opposite say the same, and which of them gets the weight differs between samples: they are one piece."""
    texts, owner = schema.texts, {}
    for i, other in enumerate(schema.complement.tolist()):
        if other >= 0:
            owner[texts[i]] = f"{texts[min(i, other)]} or its opposite"
    return owner


# ---- samples --------------------------------------------------------------------------------------------------
def with_parameters(base: Any, **changed: Any) -> Any:
    """A copy of the base with some parameters changed, those that it has."""
    from sklearn.base import clone

    known = base.get_params(deep=False)
    return clone(base).set_params(**{name: value for name, value in changed.items() if name in known})


def sampled(base: Any, q: int | None, t: float | None) -> Any:
    """The base as it is fitted on samples: no choice of a knot, and no further along its path than needed."""
    changed: dict[str, Any] = {"choose": "last", "journal": None, "verbose": 0}
    if not isinstance(base, PathModel):
        return with_parameters(base, **changed, C=t)
    most, end = getattr(base, "max_features", None), base.t_max
    if q is not None and is_exact(base):
        changed["max_features"] = q if most is None else min(q, most)
    if t is not None and getattr(base, "t", None) is None:
        changed["t_max"] = t if end is None else min(t, end)
    return with_parameters(base, **changed)


def checked_knob(base: Any, q: int | None, t: float | None) -> tuple[int | None, float | None]:
    """q and t as asked, once they fit each other and the base; both None: the default q."""
    if q is not None and t is not None:
        raise TamisError(f"q={q!r} and t={t!r} were both given, so it is not clear what to count; give one of them.")
    fixed = getattr(base, "C", None)
    if fixed is not None:
        name = type(base).__name__
        if q is not None or (t is not None and t != fixed):
            asked = f"q={q!r}" if q is not None else f"t={t!r}"
            raise TamisError(
                f"{asked} and {name}(C={fixed!r}) ask for different places on the path, so nothing was fitted; leave C at None."
            )
        return None, float(fixed)
    end = getattr(base, "t_max", None)
    if t is not None and end is not None and end < t:
        raise TamisError(f"t={t:g} lies beyond the end of the base's path at t_max={end:g}, so nothing was fitted; raise t_max.")
    return q, t
