"""What a linear path is fitted to: columns, encoded targets, weights, a loss; and parts of it for folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, xlogy

from tamis.core.chunked import Chunked
from tamis.core.design import Dense, Design, Sparse
from tamis.core.loss import Huber, Logistic, Multinomial, Poisson, Squared
from tamis.linear.inputs import Columns
from tamis.tables.targets import weighted_median

Array = NDArray[Any]
SCORINGS = {"squared": "mse", "logistic": "log_loss", "multinomial": "log_loss", "poisson": "deviance", "huber": "loss"}
LIKELIHOODS = {"logistic": "binomial", "multinomial": "multinomial", "squared": "normal", "poisson": "poisson"}


@dataclass(frozen=True)
class Task:
    """A training problem in the units the user gave.

    Attributes
    ----------
    columns : Columns
    target : ndarray (rows, scores)
        Numbers, +-1, or one-hot rows.
    weight : ndarray (rows,)
        Sample weights.
    loss : Loss
    classes : tuple
        Class labels; empty for numbers.
    """

    columns: Columns
    target: Array
    weight: Array
    loss: Any
    classes: tuple[Any, ...] = ()

    def part(self, weight: Array) -> Task:
        """The same task with other weights; rows without weight are left out."""
        rows = np.flatnonzero(weight > 0)
        if len(rows) == len(weight):
            return replace(self, weight=weight)
        design = some_rows(self.columns.design, rows)
        return replace(self, columns=replace(self.columns, design=design), target=self.target[rows], weight=weight[rows])

    @property
    def codes(self) -> Array:
        """Class positions, for stratified folds; zeros for numbers."""
        if not self.classes:
            return np.zeros(len(self.target), dtype=int)
        return (self.target[:, 0] > 0).astype(int) if self.target.shape[1] == 1 else self.target.argmax(axis=1)

    @property
    def squared(self) -> bool:
        """Whether the loss is half the squared error."""
        return isinstance(self.loss, Squared)

    def error(self, scores: Array) -> float:
        """Mean error of scores (rows, scores) in the unit named by SCORINGS."""
        total = float(self.weight.sum())
        loss = float(self.loss.value(scores, self.target, self.weight)) / total
        if isinstance(self.loss, Squared):
            return 2.0 * loss
        if isinstance(self.loss, Poisson):
            best = float(self.weight @ (self.target - xlogy(self.target, self.target))[:, 0]) / total
            return 2.0 * (loss - best)
        return loss


def some_rows(design: Design, rows: Array) -> Design:
    """A design on some of its rows."""
    if isinstance(design, Dense):
        return Dense(np.asfortranarray(design.matrix[rows]))
    if isinstance(design, Sparse):
        return Sparse(sparse.csr_array(design.matrix)[rows])
    assert isinstance(design, Chunked)
    first, blocks = 0, []
    for block in design.blocks:
        inside = rows[(rows >= first) & (rows < first + block.shape[0])] - first
        first += block.shape[0]
        if len(inside):
            blocks.append(np.asarray(block[inside]) if not sparse.issparse(block) else sparse.csr_array(block)[inside])
    return Chunked(blocks)


def loss_named(name: str, target: Array, weight: Array) -> Any:
    """The loss of a regression; Huber's corner lies at 1.345 robust standard deviations of the target."""
    if name == "huber":
        middle = weighted_median(target[:, 0], weight)
        spread = 1.4826 * weighted_median(np.abs(target[:, 0] - middle), weight)
        if not spread > 0:
            spread = float(np.sqrt(weight @ (target[:, 0] - middle) ** 2 / weight.sum())) or 1.0
        return Huber(1.345 * spread)
    return {"squared": Squared, "poisson": Poisson}[name]()


def class_targets(codes: Array, count: int) -> tuple[Array, Any]:
    """Encoded labels and their loss: +-1 for two classes, one-hot for more."""
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None], Logistic()
    return np.eye(count)[codes], Multinomial()


def probabilities(scores: Array) -> Array:
    """(rows, classes)"""
    if scores.shape[1] == 1:
        share = expit(scores[:, 0])
        return np.column_stack([1.0 - share, share])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
