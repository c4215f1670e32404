"""Gauges: how coefficients are charged, alone or in pieces, and how a dual is shrunk to coefficients.

A gauge is J(theta) = sum over pieces g of weight_g * ||theta_g||, for theta with one row per column of the design and one
column per class. `Entry` charges every entry alone, `Group` the rows of a group (each class on its own), `Column` one row over
all classes, `Block` a group of rows over all classes. Weight 0 leaves a piece free, weight inf never lets it in.
Pieces never overlap, and every row belongs to one: shrinking is exact, piece by piece.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError

Array = NDArray[Any]
Weights = str | float | Mapping[Hashable, float] | Sequence[float] | Array


def checked_weights(weight: Any, count: int, what: str) -> NDArray[np.float64]:
    """One nonnegative number for each of `count` things; inf is allowed, NaN is not."""
    try:
        values = np.broadcast_to(np.asarray(weight, dtype=np.float64), (count,)).copy()
    except (TypeError, ValueError):
        raise TamisError(
            f"weights of shape {np.shape(weight)} do not fit {count} {what}, so nothing was fitted; give one number for each."
        ) from None
    wrong = values[~(values >= 0)]
    if wrong.size:
        raise TamisError(
            f"the weight {wrong[0]:g} cannot be used, so nothing was fitted; give weights of 0 (free) or more, inf to keep something out."
        )
    return values


@dataclass(frozen=True)
class Entry:
    """Every entry alone: the sum of absolute values.

    Parameters
    ----------
    weight : array of shape (rows,)
        What an entry of each row costs; 0 is free, inf never enters.
    nonnegative : array of bool of shape (rows,), optional
        Rows whose coefficients may not be negative.

    Examples
    --------
    >>> import numpy as np
    >>> gauge = Entry(np.array([1.0, 2.0]))
    >>> gauge.shrink(np.array([[3.0], [1.5]])).tolist()
    [[2.0], [0.0]]
    >>> gauge.dual_norm(np.array([[3.0], [8.0]]))
    4.0
    """

    weight: NDArray[np.float64]
    nonnegative: NDArray[np.bool_] | None = None
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weights(self.weight, np.size(self.weight), "rows"))
        if self.nonnegative is not None and np.shape(self.nonnegative) != self.weight.shape:
            raise TamisError(
                f"nonnegative has shape {np.shape(self.nonnegative)} for {len(self.weight)} rows, so nothing was fitted; "
                "give one True or False for each."
            )

    def flat(self) -> tuple[Array, Array]:
        """Where the flat part of the shrinking begins and ends, as columns."""
        return self._edges

    @cached_property
    def _edges(self) -> tuple[Array, Array]:
        lower = -self.weight if self.nonnegative is None else np.where(self.nonnegative, -np.inf, -self.weight)
        return lower[:, None], self.weight[:, None]

    def shrink(self, dual: Array) -> Array:
        """Soft thresholding."""
        lower, upper = self._edges
        return np.asarray(dual - np.minimum(np.maximum(dual, lower), upper))

    def reach(self, dual: Array) -> Array:
        """Per row, the largest |entry| / weight; trailing axes after (rows, classes) are kept."""
        size = np.abs(dual)
        if self.nonnegative is not None:
            size = np.where(_over(self.nonnegative, dual), np.maximum(dual, 0.0), size)
        return np.asarray((size * _over(_inverse(self.weight), dual)).max(axis=1, initial=0.0))

    def dual_norm(self, vector: Array) -> float:
        """The largest |entry| / weight over all penalised entries."""
        return float(self.reach(vector).max(initial=0.0))

    def restrict(self, rows: Array) -> Entry:
        """The same gauge on some rows."""
        return Entry(self.weight[rows], None if self.nonnegative is None else self.nonnegative[rows])

    def sizes(self, classes: int = 1) -> NDArray[np.int64]:
        """Entries in each piece."""
        return np.ones(len(self.weight) * classes, dtype=np.int64)


@dataclass(frozen=True)
class Group:
    """Rows in groups: the sum of weighted Euclidean norms.

    Parameters
    ----------
    label : sequence
        The group of each row; anything hashable, or whole numbers.
    weights : "sqrt", number, mapping or sequence
        The cost of each group: the root of its size (default), one number for all, or one per group, by label or in the order in
        which the labels first appear.
    joint : bool
        Whether a piece spans all classes (`Block`) or each class is on its own.
    classes : int
        How many classes there are, which is part of a joint piece's size.

    Examples
    --------
    >>> import numpy as np
    >>> gauge = Group(["a", "a", "b"], weights=1.0)
    >>> gauge.shrink(np.array([[3.0], [4.0], [0.5]])).round(3).tolist()
    [[2.4], [3.2], [0.0]]
    >>> gauge.dual_norm(np.array([[3.0], [4.0], [0.5]]))
    5.0
    """

    label: Any
    weights: Weights = "sqrt"
    joint: bool = False
    classes: int = 1
    separable: ClassVar[bool] = False
    names: tuple[Hashable, ...] = field(init=False)
    group_weight: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        plain = self.label.tolist() if isinstance(self.label, np.ndarray) else list(self.label)
        numbers = {name: number for number, name in enumerate(dict.fromkeys(plain))}
        object.__setattr__(self, "names", tuple(numbers))
        object.__setattr__(self, "label", np.array([numbers[name] for name in plain], dtype=np.intp))
        object.__setattr__(self, "group_weight", self._weights())

    def _weights(self) -> NDArray[np.float64]:
        given: Any = self.weights
        if isinstance(given, str):
            if given != "sqrt":
                raise TamisError(f"the weights {given!r} are not known, so nothing was fitted; give 'sqrt' or numbers.")
            return np.sqrt(self.sizes()[:: 1 if self.joint else self.classes].astype(np.float64))
        if isinstance(given, Mapping):
            missing = [name for name in self.names if name not in given]
            if missing:
                raise TamisError(f"the group {missing[0]!r} has no weight, so nothing was fitted; give one for every group.")
            given = [given[name] for name in self.names]
        return checked_weights(given, len(self.names), "groups")

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """The weight of each row's group."""
        return self.group_weight[self.label]

    @cached_property
    def _runs(self) -> tuple[Array | None, Array]:
        """An order that puts groups side by side (None when they are), and where each begins."""
        ordered = bool(np.all(np.diff(self.label) >= 0))
        order = None if ordered else np.argsort(self.label, kind="stable")
        sorted_label = self.label if order is None else self.label[order]
        return order, np.searchsorted(sorted_label, np.arange(len(self.names)))

    def _norms(self, dual: Array) -> Array:
        """Piece norms: (groups, classes or 1, ...)."""
        order, starts = self._runs
        squares = dual * dual if order is None else (dual * dual)[order]
        total = np.add.reduceat(squares, starts, axis=0) if len(starts) else squares[:0]
        return np.asarray(np.sqrt(total.sum(axis=1, keepdims=True) if self.joint else total))

    def shrink(self, dual: Array) -> Array:
        """Block soft thresholding: every piece keeps its direction and loses its weight in length."""
        norm = self._norms(dual)
        weight = self.group_weight[:, None]
        enters = norm > weight
        factor = np.where(enters, 1.0 - np.where(enters, weight, 0.0) / np.where(enters, norm, 1.0), 0.0)
        return np.asarray(dual * factor[self.label])

    def reach(self, dual: Array) -> Array:
        """Per row, the largest norm / weight of its pieces; trailing axes after (rows, classes) are kept."""
        norm = self._norms(dual)
        return np.asarray((norm * _over(_inverse(self.group_weight), norm)).max(axis=1, initial=0.0)[self.label])

    def flat(self) -> tuple[Array, Array]:
        """Pieces of several entries shrink towards a point: there is no interval to speak of."""
        raise NotImplementedError("only gauges of single entries shrink on an interval")

    def dual_norm(self, vector: Array) -> float:
        """The largest norm / weight over all penalised pieces."""
        return float(self.reach(vector).max(initial=0.0))

    def restrict(self, rows: Array) -> Group:
        """The same gauge on a union of whole groups."""
        found = np.bincount(self.label[rows], minlength=len(self.names))
        torn = np.flatnonzero((found > 0) & (found != np.bincount(self.label, minlength=len(self.names))))
        if torn.size:
            raise ValueError(f"the rows tear the group {self.names[torn[0]]!r} apart")
        label = self.label[rows]
        _, first = np.unique(label, return_index=True)
        return Group(label, self.group_weight[label[np.sort(first)]], self.joint, self.classes)

    def sizes(self, classes: int | None = None) -> NDArray[np.int64]:
        """Entries in each piece, groups in the order of `names`, and each group's classes side by side unless joint."""
        classes = self.classes if classes is None else classes
        rows = np.bincount(self.label, minlength=len(self.names)).astype(np.int64)
        return rows * classes if self.joint else np.repeat(rows, classes)


class Column(Group):
    """One row of theta over all classes is one piece: a feature enters for every class at once.

    Parameters
    ----------
    rows : int
        How many rows theta has.
    weights : number or sequence of shape (rows,)
        What a row costs.

    Examples
    --------
    >>> import numpy as np
    >>> Column(2).shrink(np.array([[3.0, 4.0], [0.6, 0.8]])).round(3).tolist()
    [[2.4, 3.2], [0.0, 0.0]]
    """

    def __init__(self, rows: int, weights: Weights = 1.0) -> None:
        super().__init__(np.arange(rows), weights, joint=True)


class Block(Group):
    """A group of rows over all classes is one piece.

    Parameters
    ----------
    label, weights
        As for `Group`; the default weight is the root of rows times classes.
    classes : int
        Columns of theta.

    Examples
    --------
    >>> import numpy as np
    >>> Block([0, 0, 1], classes=2).group_weight.round(3).tolist()
    [2.0, 1.414]
    """

    def __init__(self, label: Any, classes: int, weights: Weights = "sqrt") -> None:
        super().__init__(label, weights, joint=True, classes=classes)


def labels_of(groups: Mapping[Hashable, Sequence[int]] | Sequence[Sequence[int]], rows: int) -> NDArray[Any]:
    """The label of each row, from groups given as lists of rows; whatever is not a partition is refused in words.

    Examples
    --------
    >>> labels_of([[0, 2], [1]], 3).tolist()
    [0, 1, 0]
    """
    named = groups if isinstance(groups, Mapping) else dict(enumerate(groups))
    found = np.full(rows, None, dtype=object)
    for name, members in named.items():
        if len(members) == 0:
            raise TamisError(f"the group {name!r} is empty, so nothing was fitted; give it rows or leave it out.")
        for row in members:
            if not 0 <= row < rows:
                raise TamisError(f"the group {name!r} names row {row} and there are {rows}, so nothing was fitted; count from 0.")
            if found[row] is not None:
                raise TamisError(
                    f"the groups {found[row][0]!r} and {name!r} both hold row {row}, so nothing was fitted; give every row one group."
                )
            found[row] = (name,)
    alone = [row for row in range(rows) if found[row] is None]
    if alone:
        raise TamisError(f"row {alone[0]} is in no group, so nothing was fitted; give it one, be it a group of its own.")
    return np.array([name for (name,) in found])


def _inverse(weight: Array) -> Array:
    """1 / weight, and 0 for what is free (nothing to reach) or never enters."""
    return np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)


def _over(rows: Array, values: Array) -> Array:
    """Shaped to multiply values row by row."""
    return rows.reshape(-1, *(1 for _ in range(values.ndim - 1)))
