"""How a model does on rows it has not seen, beside the constant that needs no model."""

from __future__ import annotations

from typing import Any

import numpy as np


def measures(model: Any, features: Any, target: Any, weights: Any, learned_from: Any) -> list[tuple[str, float, float | None]]:
    """(name, value, the constant's value) for a test set; `learned_from` is the training target.

    Classes: accuracy, the mean of the classes' F1, log-loss and (two classes) AUC. Numbers: R2, and root mean squared and
    mean absolute error.
    """
    if getattr(model, "classes_", None) is None:
        return _of_numbers(model.predict(features), target, weights, float(np.mean(learned_from)))
    return _of_classes(model, features, target, weights, learned_from)


def _of_numbers(predicted: Any, target: Any, weights: Any, constant: float) -> list[tuple[str, float, float | None]]:
    def root(error: Any) -> float:
        return float(np.sqrt(np.average(error**2, weights=weights)))

    spread = np.average((target - np.average(target, weights=weights)) ** 2, weights=weights)
    explained = [1 - np.average((target - guess) ** 2, weights=weights) / spread if spread > 0 else 0.0 for guess in (predicted, constant)]
    absolute = [float(np.average(np.abs(target - guess), weights=weights)) for guess in (predicted, constant)]
    return [
        ("R2", float(explained[0]), float(explained[1])),
        ("root mean squared error", root(target - predicted), root(target - constant)),
        ("mean absolute error", absolute[0], absolute[1]),
    ]


def _of_classes(model: Any, features: Any, target: Any, weights: Any, learned_from: Any) -> list[tuple[str, float, float | None]]:
    from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score

    classes, counts = np.unique(learned_from, return_counts=True)
    majority = np.full(len(target), classes[np.argmax(counts)], dtype=np.asarray(target).dtype)
    predicted = np.asarray(model.predict(features))
    found: list[tuple[str, float, float | None]] = []
    right = [float(accuracy_score(target, guess, sample_weight=weights)) for guess in (predicted, majority)]
    mean = [float(f1_score(target, guess, sample_weight=weights, average="macro", zero_division=0.0)) for guess in (predicted, majority)]
    found += [("accuracy", right[0], right[1]), ("mean F1 of the classes", mean[0], mean[1])]
    known = np.isin(target, classes)
    if hasattr(model, "predict_proba") and known.all():
        shares = np.tile(counts / counts.sum(), (len(target), 1))
        losses = [
            float(log_loss(target, guess, sample_weight=weights, labels=classes)) for guess in (model.predict_proba(features), shares)
        ]
        found.append(("log-loss", losses[0], losses[1]))
    if len(classes) == 2 and len(np.unique(target)) == 2 and known.all():
        auc = roc_auc_score(target == classes[1], model.decision_function(features), sample_weight=weights)
        found.append(("area under the ROC curve", float(auc), 0.5))
    return found
