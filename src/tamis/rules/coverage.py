"""Which rows of a table each rule covers, and the scores that follow: one condition at a time, packed bits only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.scorecard import ScoreCard
from tamis.rules.explain import probability_matrix
from tamis.rules.redundancy import key_of, positions
from tamis.rules.statistics import class_masses
from tamis.tables.frame import as_table

Hits = Callable[[int], NDArray[np.bool_]]


def rule_hits(card: ScoreCard, schema: Any, X: Any) -> tuple[Hits, int]:
    """(`hits(i)`: rows covered by rule i, number of rows), through the schema the model was fitted with."""
    if schema is None:
        raise TamisError("This rule set was made without a schema, so it cannot be evaluated on rows; use the rules_ of a fitted model.")
    place = positions(schema)
    readers: dict[int, list[int]] = {}
    for i, rule in enumerate(card.rules):
        for condition in rule.conditions:
            if key_of(condition) not in place:
                said = f"The condition {condition.text()!r} is not in the model's schema"
                raise TamisError(f"{said}, so it cannot be evaluated; fit the model again.")
            readers.setdefault(place[key_of(condition)], []).append(i)
    table = as_table(X)
    rows = table.n_rows
    packed = np.full((len(card.rules), -(-rows // 8)), 255, dtype=np.uint8)
    used = sorted(readers)
    for position, truth in zip(used, schema.truth(table, used), strict=True):
        packed[readers[position]] &= np.packbits(np.asarray(truth, dtype=bool))

    def hits(i: int) -> NDArray[np.bool_]:
        return np.unpackbits(packed[i], count=rows).view(np.bool_)

    return hits, rows


def scores(card: ScoreCard, hits: Hits, rows: int) -> NDArray[np.float64]:
    """Scores (rows, columns): the constant plus the weights of the rules that cover each row."""
    total = np.tile(np.asarray(card.constant, dtype=np.float64), (rows, 1))
    for i, rule in enumerate(card.rules):
        total[hits(i)] += rule.weights
    return total


def quality(card: ScoreCard, score: Any, y: Any, weight: Any) -> dict[str, float]:
    """How well scores (rows, columns) do: accuracy and log-loss, or mean squared error and the share explained."""
    share = weight / weight.sum()
    if not card.classes:
        fitted = np.exp(np.minimum(score[:, 0], 700.0)) if card.link == "exp" else score[:, 0]
        truth = np.asarray(y, dtype=np.float64)
        error, spread = float(share @ (truth - fitted) ** 2), float(share @ (truth - share @ truth) ** 2)
        return {"mse": error, "r2": 1.0 - error / spread if spread > 0 else float("nan")}
    label = class_masses(y, card.classes).argmax(axis=1)
    chosen = (score[:, 0] > 0).astype(np.int64) if score.shape[1] == 1 else score.argmax(axis=1)
    result = {"accuracy": float(share @ (chosen == label))}
    probability = probability_matrix(card, score)
    if probability is not None:
        right = np.maximum(probability[np.arange(len(label)), label], 1e-300)
        result["log_loss"] = float(-(share @ np.log(right)))
    return result
