"""What the recheck needs of gauges and losses, written down a second time from their formulas.

A gauge charges weight * norm for each of its pieces: single entries, groups of rows for each class on its own, or groups of rows
over all classes. Losses appear only through their gradients, per row of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class WitnessGauge:
    """Pieces by label.

    Attributes
    ----------
    weight : ndarray (rows,)
        What a row's piece costs: 0 is free, infinity never enters.
    label : ndarray of int (rows,) or None
        The group of each row; None: every entry alone.
    joint : bool
        Whether a group spans all classes.
    one_sided : ndarray of bool (rows,) or None
        Rows that may not be negative.
    """

    weight: Array
    label: Array | None = None
    joint: bool = False
    one_sided: Array | None = None

    def norms(self, values: Array) -> Array:
        """The norm of each entry's piece, in the shape of the values; trailing axes after (rows, classes) are kept."""
        if self.label is None:
            if self.one_sided is None:
                return np.abs(values)
            sided = self.one_sided.reshape(-1, *(1 for _ in values.shape[1:]))
            return np.where(sided, np.maximum(values, 0.0), np.abs(values))
        order, starts, place = self._runs
        squares = np.add.reduceat(values[order] ** 2, starts, axis=0) if len(order) else values**2
        if self.joint:
            squares = np.broadcast_to(squares.sum(axis=1, keepdims=True), squares.shape)
        found = np.empty_like(values)
        found[order] = np.sqrt(squares)[place]
        return found

    @cached_property
    def _runs(self) -> tuple[Array, Array, Array]:
        """An order that puts groups side by side, where each begins, and which of them each place belongs to."""
        assert self.label is not None
        order = np.argsort(self.label, kind="stable")
        _, starts, place = np.unique(self.label[order], return_index=True, return_inverse=True)
        return order, starts, place

    def shrink(self, dual: Array) -> Array:
        """What is left of a dual: its pieces, shorter by their weights."""
        weight = self.weight[:, None]
        if self.label is None:
            below = -weight if self.one_sided is None else np.where(self.one_sided[:, None], -np.inf, -weight)
            return dual - np.clip(dual, below, weight)
        norm = self.norms(dual)
        inside = norm <= weight
        return np.where(inside, 0.0, dual * (1.0 - np.where(inside, 0.0, weight) / np.where(inside, 1.0, norm)))

    def reach(self, dual: Array) -> Array:
        """Per row, norm / weight of its pieces: above 1 a piece is in; 0 for free rows and those that never enter."""
        inverse = np.divide(1.0, self.weight, out=np.zeros_like(self.weight), where=self.weight > 0)
        return np.asarray((self.norms(dual) * inverse.reshape(-1, *(1 for _ in dual.shape[1:]))).max(axis=1, initial=0.0))

    def size(self, dual: Array) -> Array:
        """As `reach`, of deviations whose sign is not known."""
        return WitnessGauge(self.weight, self.label, self.joint).reach(dual)

    def part(self, rows: Array) -> WitnessGauge:
        """The same on some rows, whole groups."""
        return WitnessGauge(
            self.weight[rows], None if self.label is None else self.label[rows], self.joint,
            None if self.one_sided is None else self.one_sided[rows],
        )  # fmt: skip

    def closed(self, chosen: Array) -> Array:
        """A mask of rows, with everything in the groups that it touches."""
        return chosen if self.label is None else np.isin(self.label, self.label[chosen])


@dataclass(frozen=True)
class WitnessLoss:
    """The gradient of a weighted loss.

    Attributes
    ----------
    name : {"squared", "huber", "poisson", "logistic", "multinomial"}
    target : ndarray (rows, scores)
    share : ndarray (rows,)
        Weights that sum to 1.
    delta : float
        Where the Huber loss turns linear.
    """

    name: str
    target: Array
    share: Array
    delta: float = 0.0

    def gradient(self, score: Array) -> Array:
        """Per row and score."""
        if self.name == "logistic":
            slope = -0.5 * self.target * (1.0 - np.tanh(0.5 * self.target * score))
        elif self.name == "multinomial":
            raised = np.exp(score - score.max(axis=1, keepdims=True))
            slope = raised / raised.sum(axis=1, keepdims=True) - self.target
        elif self.name == "poisson":
            slope = np.exp(score) - self.target
        else:
            slope = score - self.target
            if self.name == "huber":
                slope = np.minimum(np.maximum(slope, -self.delta), self.delta)
        return self.share[:, None] * slope
