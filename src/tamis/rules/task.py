"""What is to be learned, encoded once: losses see +-1, class indicators or numbers, never the user's labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tamis.core.errors import TamisError
from tamis.core.loss import LOSSES, Hinge, Huber, Logistic, Multinomial, SquaredHinge
from tamis.tables.targets import class_factors, weighted_median

Array = NDArray[Any]
MARGINS = {"logistic": Logistic, "squared_hinge": SquaredHinge, "hinge": Hinge}


@dataclass(frozen=True)
class Task:
    """Encoded targets and weights of a fit.

    Attributes
    ----------
    loss : Loss
    y : ndarray (rows, columns)
    weight : ndarray (rows,)
        Sample weight times class weight: multiplies the loss.
    row_weight : ndarray (rows,)
        Sample weight: counts rows.
    classes : tuple
        Class labels; empty for regression.
    link : str
        As in ScoreCard.
    """

    loss: Any
    y: Array
    weight: Array
    row_weight: Array
    classes: tuple[Any, ...]
    link: str

    def rows(self, which: Array) -> Task:
        """The same task on some of its rows."""
        return replace(self, y=self.y[which], weight=self.weight[which], row_weight=self.row_weight[which])

    @property
    def versus_rest(self) -> bool:
        """Whether each class is fitted by itself against all others."""
        return self.y.shape[1] > 1 and not isinstance(self.loss, Multinomial)

    @property
    def codes(self) -> Array:
        """Class positions, for stratified folds; zeros in regression."""
        if not self.classes:
            return np.zeros(len(self.y), dtype=int)
        return (self.y[:, 0] > 0).astype(int) if self.y.shape[1] == 1 else self.y.argmax(axis=1)

    def error(self, score: Array, scoring: str | None) -> float:
        """Weighted error of scores, lower is better: the mean loss, or one minus (or minus) the score asked for."""
        total = self.row_weight.sum()
        if scoring in (None, "loss", "log_loss", "deviance"):
            return self.mean_loss(score)
        if not self.classes:
            from scipy.special import xlogy

            guess = np.exp(np.minimum(score[:, 0], 700.0)) if self.link == "exp" else score[:, 0]
            residual = self.y[:, 0] - guess
            error = float((self.row_weight * residual**2).sum() / total)
            if scoring == "mse":
                return error
            if scoring == "d2":
                return float((self.row_weight * (xlogy(self.y[:, 0], self.y[:, 0] / np.maximum(guess, 1e-300)) - residual)).sum() / total)
            mean = float((self.row_weight * self.y[:, 0]).sum() / total)
            return error / max(float((self.row_weight * (self.y[:, 0] - mean) ** 2).sum() / total), 1e-300)
        from sklearn import metrics

        truth = self.codes
        if scoring == "auc":
            if len(self.classes) == 2:
                return 1.0 - float(metrics.roc_auc_score(truth, score[:, 0], sample_weight=self.row_weight))
            shares = probabilities(score, self.link)
            return 1.0 - float(metrics.roc_auc_score(truth, shares, multi_class="ovr", labels=np.arange(len(self.classes))))
        guess = (score[:, 0] > 0).astype(int) if score.shape[1] == 1 else score.argmax(axis=1)
        if scoring == "accuracy":
            return 1.0 - float((self.row_weight * (guess == truth)).sum() / total)
        return 1.0 - float(metrics.f1_score(truth, guess, average="macro", sample_weight=self.row_weight))

    def mean_loss(self, score: Array) -> float:
        """Weighted mean of the loss; of all one-vs-rest losses together."""
        if score.shape[1] > 1 and not isinstance(self.loss, Multinomial):
            parts = (self.loss.value(score[:, [k]], self.y[:, [k]], self.weight) for k in range(score.shape[1]))
            return float(sum(parts) / self.weight.sum())
        return float(self.loss.value(score, self.y, self.weight) / self.weight.sum())


def classification(loss: str, labels: Array, classes: Array, sample_weight: Array, class_weight: Any, multi_class: str) -> Task:
    """Encode class labels given as positions into `classes`."""
    if loss not in MARGINS:
        raise TamisError(f"loss={loss!r} is not a classification loss, so nothing was fitted; use one of {', '.join(map(repr, MARGINS))}.")
    if multi_class not in ("grouped", "ovr"):
        raise TamisError(f"multi_class={multi_class!r} is not known, so nothing was fitted; use 'grouped' or 'ovr'.")
    many, plain = len(classes) > 2, tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    weight = sample_weight * class_factors(class_weight, classes, labels, sample_weight)[labels]
    if not many:
        link = "logistic" if loss == "logistic" else "none"
        return Task(MARGINS[loss](), np.where(labels == 1, 1.0, -1.0)[:, None], weight, sample_weight, plain, link)
    indicator = np.eye(len(classes))[labels]
    if loss == "logistic" and multi_class == "grouped":
        return Task(Multinomial(), indicator, weight, sample_weight, plain, "softmax")
    link = "ovr" if loss == "logistic" else "none"
    return Task(MARGINS[loss](), 2.0 * indicator - 1.0, weight, sample_weight, plain, link)


def regression(loss: str, y: Array, sample_weight: Array) -> Task:
    """Encode numbers; Huber's corner is set at 1.345 robust standard deviations."""
    if loss not in ("squared", "huber", "poisson"):
        raise TamisError(f"loss={loss!r} is not a regression loss, so nothing was fitted; use 'squared', 'huber' or 'poisson'.")
    if loss == "poisson" and (y.min(initial=0.0) < 0 or not y.sum() > 0):
        raise TamisError("loss='poisson' needs y >= 0 with a positive sum, so nothing was fitted; check y or use loss='squared'.")
    if loss == "huber":
        center = weighted_median(y, sample_weight)
        spread = 1.4826 * weighted_median(np.abs(y - center), sample_weight)
        made: Any = Huber(1.345 * (spread or float(np.sqrt(np.average((y - center) ** 2, weights=sample_weight))) or 1.0))
    else:
        made = LOSSES[loss]()
    return Task(made, y[:, None].astype(float), sample_weight, sample_weight, (), "exp" if loss == "poisson" else "identity")


def probabilities(score: Array, link: str, platt: tuple[tuple[float, float], ...] = ()) -> Array:
    """Class probabilities, (rows, classes)."""
    if link == "softmax":
        raised = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))
    if platt:
        score = score * np.array([slope for slope, _ in platt]) + np.array([shift for _, shift in platt])
    share = expit(score)
    if share.shape[1] == 1:
        return np.column_stack([1.0 - share[:, 0], share[:, 0]])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300))
