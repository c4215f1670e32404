"""What was measured about each rule: how many rows it covers, what they are like, and which rules share them.

Only sums are kept (rows, weight, weight per class or of y, rows shared by two rules), never rows x rules, so
the measures of a rule's opposite, of a subset of rules and of a merged rule follow without seeing the data again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.scorecard import ScoreCard

Array = NDArray[Any]
JOINT_BYTES = 10**10  # rows shared by every two rules are counted up to this much AND + popcount work


@dataclass(frozen=True)
class RuleStatistics:
    """Sums over the covered rows of each rule, and over all rows.

    Attributes
    ----------
    count : ndarray of int (rules,)
        Rows covered.
    support : ndarray (rules,)
        Their weight.
    mass : ndarray (rules, classes) or (rules, 1)
        Their weight per class; in regression their weighted sum of y.
    favoured : ndarray of int (rules,)
        Position of the class the rule's weight favours; -1 in regression.
    total_count, total_support, total_mass
        The same sums over all rows.
    joint : ndarray of int (rules, rules) or None
        Rows covered by both; None when there was too much to count.
    rows : str
        Which rows these are: "training rows", "out-of-fold rows", "given rows".
    out_of_fold : RuleStatistics or None
        The same rules on rows they were not learned from.
    """

    count: Array
    support: Array
    mass: Array
    favoured: Array
    total_count: int
    total_support: float
    total_mass: Array
    joint: Array | None = None
    rows: str = "training rows"
    out_of_fold: RuleStatistics | None = None

    def __len__(self) -> int:
        return len(self.count)

    @property
    def classification(self) -> bool:
        """Whether `mass` counts classes."""
        return self.mass.shape[1] > 1

    @property
    def coverage(self) -> Array:
        """Share of the total weight."""
        return self.support / max(self.total_support, 1e-300)

    @property
    def precision(self) -> Array:
        """Share of the favoured class among the covered weight; NaN in regression and where nothing is covered."""
        return self._favoured_share(self.mass, self.support)

    @property
    def base(self) -> Array:
        """Share of the favoured class among all rows."""
        every = np.broadcast_to(self.total_mass, self.mass.shape)
        return self._favoured_share(every, np.full(len(self), self.total_support))

    @property
    def lift(self) -> Array:
        """How many times more frequent the favoured class is where the rule holds."""
        return _ratio(self.precision, self.base)

    @property
    def mean(self) -> Array:
        """Regression: weighted mean of y where the rule holds; NaN in classification."""
        return np.full(len(self), np.nan) if self.classification else _ratio(self.mass[:, 0], self.support)

    @property
    def difference(self) -> Array:
        """Regression: that mean minus the mean of the other rows."""
        rest = _ratio(self.total_mass[0] - self.mass[:, 0], self.total_support - self.support)
        return self.mean - rest

    def _favoured_share(self, mass: Array, support: Array) -> Array:
        if not self.classification:
            return np.full(len(self), np.nan)
        return _ratio(mass[np.arange(len(self)), self.favoured], support)

    def subset(self, order: Sequence[int] | Array) -> RuleStatistics:
        """The same measures of some rules, in this order."""
        pick = np.asarray(order, dtype=np.int64)
        joint = None if self.joint is None else self.joint[np.ix_(pick, pick)]
        held_out = None if self.out_of_fold is None else self.out_of_fold.subset(pick)
        return replace(
            self,
            count=self.count[pick],
            support=self.support[pick],
            mass=self.mass[pick],
            favoured=self.favoured[pick],
            joint=joint,
            out_of_fold=held_out,
        )

    def flipped(self, flip: Array) -> RuleStatistics:
        """The measures of the opposite of the rules marked in `flip`; say afterwards which classes they favour."""
        if not flip.any():
            return self
        held_out = None if self.out_of_fold is None else self.out_of_fold.flipped(flip)
        return replace(
            self,
            count=np.where(flip, self.total_count - self.count, self.count),
            support=np.where(flip, self.total_support - self.support, self.support),
            mass=np.where(flip[:, None], self.total_mass - self.mass, self.mass),
            joint=_flipped_joint(self.joint, self.count, self.total_count, flip),
            out_of_fold=held_out,
        )

    def favouring(self, favoured: Array) -> RuleStatistics:
        """The same sums read for other favoured classes, as after a change of weights."""
        held_out = None if self.out_of_fold is None else self.out_of_fold.favouring(favoured)
        return replace(self, favoured=np.asarray(favoured, dtype=np.int64), out_of_fold=held_out)

    def with_out_of_fold(self, held_out: RuleStatistics | None) -> RuleStatistics:
        """The same measures with those of held-out rows beside them."""
        return replace(self, out_of_fold=held_out)

    def to_record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON-able data and named arrays, for a model file."""
        meta: dict[str, Any] = {"total_count": int(self.total_count), "total_support": float(self.total_support), "rows": self.rows}
        arrays = {name: getattr(self, name) for name in ("count", "support", "mass", "favoured", "total_mass")}
        if self.joint is not None:
            arrays["joint"] = self.joint
        if self.out_of_fold is not None:
            inner_meta, inner = self.out_of_fold.to_record()
            meta["out_of_fold"] = inner_meta
            arrays |= {f"out_of_fold.{name}": value for name, value in inner.items()}
        return meta, arrays

    @classmethod
    def from_record(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> RuleStatistics:
        """Inverse of `to_record`."""
        prefix, held_out = "out_of_fold.", None
        if "out_of_fold" in meta:
            inner = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
            held_out = cls.from_record(meta["out_of_fold"], inner)
        return cls(
            count=arrays["count"],
            support=arrays["support"],
            mass=arrays["mass"],
            favoured=arrays["favoured"],
            total_count=int(meta["total_count"]),
            total_support=float(meta["total_support"]),
            total_mass=arrays["total_mass"],
            joint=arrays.get("joint"),
            rows=str(meta["rows"]),
            out_of_fold=held_out,
        )


def favoured_classes(card: ScoreCard, weights: Array | None = None) -> Array:
    """Position of the class each rule's weight favours (or these weights instead); -1 in regression."""
    weights = weight_matrix(card) if weights is None else weights
    if not card.classes:
        return np.full(len(weights), -1, dtype=np.int64)
    if weights.shape[1] == 1:
        return (weights[:, 0] > 0).astype(np.int64)
    return weights.argmax(axis=1).astype(np.int64)


def weight_matrix(card: ScoreCard) -> Array:
    """Weights as an array (rules, score columns)."""
    return np.array([rule.weights for rule in card.rules], dtype=np.float64).reshape(len(card.rules), len(card.constant))


def measure(
    card: ScoreCard,
    hits: Callable[[int], Array],
    y: Any,
    sample_weight: Any = None,
    classes: Sequence[Any] | None = None,
    rows: str = "training rows",
) -> RuleStatistics:
    """Sum what each rule covers, one rule at a time.

    Parameters
    ----------
    card : ScoreCard
        The rules, for which class each of them favours.
    hits : callable
        `hits(i)`: which rows rule i covers, as booleans.
    y : array-like
        Class labels as in `classes`, or numbers (regression).
    sample_weight : array-like, optional
    classes : sequence, optional
        Class labels; `card.classes` by default; empty in regression.
    rows : str
        Which rows these are, for texts.
    """
    labels = tuple(card.classes if classes is None else classes)
    values = class_masses(y, labels) if labels else np.asarray(y, dtype=np.float64).reshape(-1, 1)
    weight = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    weighted, number = weight[:, None] * values, len(card.rules)
    seen = weight > 0  # rows of weight zero do not exist
    count, support, mass = np.zeros(number, dtype=np.int64), np.zeros(number), np.zeros((number, values.shape[1]))
    packed = []
    for i in range(number):
        covered = np.asarray(hits(i), dtype=bool) & seen
        count[i], support[i], mass[i] = covered.sum(), weight[covered].sum(), weighted[covered].sum(axis=0)
        packed.append(np.packbits(covered))
    return RuleStatistics(
        count=count,
        support=support,
        mass=mass,
        favoured=favoured_classes(card),
        total_count=int(seen.sum()),
        total_support=float(weight.sum()),
        total_mass=weighted.sum(axis=0),
        joint=_joint(packed),
        rows=rows,
    )


def class_masses(y: Any, classes: Sequence[Any]) -> Array:
    """One-hot rows of labels; a label the model does not know is an error that names it."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in (y.tolist() if hasattr(y, "tolist") else list(y))]
    position = {label: i for i, label in enumerate(classes)}
    unknown = next((label for label in labels if label not in position), None)
    if unknown is not None or None in labels:
        raise TamisError(
            f"The label {unknown!r} is not one of the model's classes {list(classes)!r}, so precision cannot be counted; "
            "give the labels the model was fitted on."
        )
    hot = np.zeros((len(labels), len(classes)))
    hot[np.arange(len(labels)), [position[label] for label in labels]] = 1.0
    return hot


def _joint(packed: Sequence[Array]) -> Array | None:
    """Rows covered by every two rules, from packed bits."""
    number = len(packed)
    if number == 0:
        return np.zeros((0, 0), dtype=np.int64)
    if number * number * len(packed[0]) > JOINT_BYTES:
        return None
    bits, joint = np.stack(packed), np.zeros((number, number), dtype=np.int64)
    for i in range(number):
        both = np.bitwise_count(bits[i:] & bits[i]).sum(axis=1, dtype=np.int64)
        joint[i, i:] = joint[i:, i] = both
    return joint


def _flipped_joint(joint: Array | None, count: Array, total: int, flip: Array) -> Array | None:
    """Rows shared after some rules were replaced by their opposites: |A without B| = |A| - |A and B|, and so on."""
    if joint is None:
        return None
    one = count[:, None] - joint  # rows of i outside j
    neither = total - count[:, None] - count[None, :] + joint
    left, right = flip[:, None], flip[None, :]
    return np.where(left & right, neither, np.where(right, one, np.where(left, one.T, joint)))


def _ratio(top: Array, bottom: Array) -> Array:
    """Elementwise ratio, NaN where the bottom is not positive."""
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    result = np.full(np.broadcast(top, bottom).shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom > 0)
    return result
