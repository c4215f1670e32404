"""A score card as an ONNX graph: conditions as comparisons, rules as counts of conditions that hold, scores as one product."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.core.scorecard import ScoreCard
from tamis.store.export_card import CLIP, REGRESSION_LINKS, by_sign, cells_of, check_card, check_finite, conditions_of, kinds_of, plain
from tamis.store.export_onnx_conditions import TEXT_KINDS, Conditions, texts_of
from tamis.store.export_onnx_graph import Graph

OUTPUTS = ("score", "probability", "label", "prediction")


def to_onnx(card: ScoreCard, missing_text: str = "") -> bytes:
    """Write a score card as an ONNX model.

    Parameters
    ----------
    card : ScoreCard
    missing_text : str, default=""
        ONNX texts cannot be missing, so this text stands for a missing cell in the inputs. It must not be a
        level of the model.

    Returns
    -------
    bytes
        The serialised model, for a file or an inference session. Each column the rules read is one input of
        shape [rows, 1]: double for numbers (NaN is missing), for booleans (0, 1, NaN) and for dates
        (microseconds since 1970, UTC), text for levels. Outputs: `score` [rows, scores] and, for classes,
        `label` [rows] and `probability` [rows, classes]; for regression `prediction` [rows, 1]. All are doubles.

    Examples
    --------
    >>> from tamis.core.literal import Literal
    >>> from tamis.core.scorecard import Rule, ScoreCard
    >>> from tamis.store.export_onnx import to_onnx
    >>> rule = Rule((Literal("tenure", "<=", 11.0, "integer"),), (1.5,))
    >>> model = to_onnx(ScoreCard((rule,), (-0.25,), "identity"))
    >>> isinstance(model, bytes)
    True
    """
    check_card(card, "ONNX")
    check_finite(card, "ONNX")
    cells = cells_of(card)
    _check_names(card, cells, missing_text)
    graph = Graph()
    first = next(iter(cells or kinds_of(card)), None)
    if first is None:
        raise TamisError(
            "The score card lists no columns, so ONNX could not tell how many rows to score; give it the columns of the training table."
        )
    for column, kind in (cells or {first: kinds_of(card)[first]}).items():
        graph.input(column, text=kind in TEXT_KINDS)
    score = _score(card, graph, Conditions(graph, cells, missing_text), first)
    graph.output(score, "score", len(card.constant))
    if card.link in REGRESSION_LINKS:
        value = score if card.link == "identity" else graph.node("Exp", _clipped(score, graph))
        graph.output(value, "prediction", 1)
    else:
        _classify(card, score, graph)
    return graph.serialised(card.target)


def _check_names(card: ScoreCard, cells: dict[str, str], missing_text: str) -> None:
    """Inputs must not be called like outputs, and no level like a missing cell."""
    taken = next((column for column in cells if column in OUTPUTS), None)
    if taken is not None:
        raise TamisError(f"The column {taken!r} has the name of an ONNX output, so no ONNX was written; rename the column and fit again.")
    if "" in cells:
        raise TamisError("A column has the empty name, which ONNX cannot feed, so no ONNX was written; name the column and fit again.")
    levels = {level for column in card.columns for level in column.levels}
    for condition in conditions_of(card):
        levels.update(texts_of(condition))
    if missing_text in levels:
        raise TamisError(
            f"The text {missing_text!r} is a level of the model and cannot stand for missing cells as well, so no ONNX was written; "
            "choose another one with missing_text='<missing>'."
        )


def _score(card: ScoreCard, graph: Graph, conditions: Conditions, first: str) -> str:
    """[rows, scores]: a rule holds when as many of its conditions hold as it has, and then adds its weights."""
    rows = graph.node("Gather", graph.node("Shape", first), graph.constant(np.array([0])), axis=0)
    always = np.array(card.constant, dtype=np.float64)
    for rule in card.rules:
        always = always + np.array(rule.weights) if not rule.conditions else always
    shape = graph.node("Concat", rows, graph.constant(np.array([len(always)])), axis=0)
    score = graph.node("Expand", graph.constant(always[None, :]), shape)
    rules = [rule for rule in card.rules if rule.conditions]
    if not rules:
        return score
    distinct = {
        condition: place for place, condition in enumerate(dict.fromkeys(_same(each) for rule in rules for each in rule.conditions))
    }
    holds = graph.node("Concat", *(graph.number(conditions.holds(condition)) for condition in distinct), axis=1)
    members = np.zeros((len(distinct), len(rules)))
    for place, rule in enumerate(rules):
        members[[distinct[_same(condition)] for condition in rule.conditions], place] = 1.0
    counts = graph.node("MatMul", holds, graph.constant(members))
    fires = graph.number(graph.node("GreaterOrEqual", counts, graph.constant(members.sum(axis=0)[None, :])))
    weights = np.array([rule.weights for rule in rules], dtype=np.float64)
    return graph.node("Add", score, graph.node("MatMul", fires, graph.constant(weights)))


def _same(condition: Literal) -> Literal:
    """A condition without its display text: what two rules share is computed once."""
    return condition.relabelled("")


def _clipped(score: str, graph: Graph) -> str:
    """The score between -CLIP and CLIP."""
    return graph.node("Clip", score, graph.constant(np.array(-CLIP)), graph.constant(np.array(CLIP)))


def _sigmoid(score: str, graph: Graph) -> str:
    """1 / (1 + exp(-score)), in the range where exp neither over- nor underflows."""
    grown = graph.node("Exp", graph.node("Neg", _clipped(score, graph)))
    return graph.node("Div", graph.constant(np.array(1.0)), graph.node("Add", grown, graph.constant(np.array(1.0))))


def _classify(card: ScoreCard, score: str, graph: Graph) -> None:
    """`label` and `probability`."""
    if by_sign(card):
        chosen = graph.node("Cast", graph.node("Greater", score, graph.constant(np.array(0.0))), to="INT64")
        place = graph.node("Squeeze", chosen, graph.constant(np.array([1])))
    else:
        place = graph.node("ArgMax", score, axis=1, keepdims=0)
    labels = _labels(card)
    kind = {"O": "STRING", "b": "BOOL", "i": "INT64", "f": "DOUBLE"}[labels.dtype.kind]
    graph.output(graph.node("Gather", graph.constant(labels), place, axis=0), "label", None, kind)
    if card.link == "none":
        return
    if card.link == "platt":
        slopes, shifts = np.array(card.platt, dtype=np.float64).T
        score = graph.node("Add", graph.node("Mul", score, graph.constant(slopes[None, :])), graph.constant(shifts[None, :]))
    if by_sign(card):
        shares = graph.node("Concat", _sigmoid(graph.node("Neg", score), graph), _sigmoid(score, graph), axis=1)
    elif card.link == "softmax":
        shares = graph.node("Softmax", score, axis=1)
    else:
        parts = _sigmoid(score, graph)
        shares = graph.node("Div", parts, graph.node("ReduceSum", parts, graph.constant(np.array([1])), keepdims=1))
    graph.output(shares, "probability", len(card.classes))


def _labels(card: ScoreCard) -> np.ndarray[Any, Any]:
    """The classes as one ONNX tensor: all of one type."""
    labels = [plain(label) for label in card.classes]
    types = {type(label) for label in labels}
    if types == {str}:
        return np.array(labels, dtype=object)
    if types == {bool}:
        return np.array(labels, dtype=bool)
    if types == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    if types == {float}:
        return np.array(labels, dtype=np.float64)
    raise TamisError(
        f"The classes {labels!r} are of several types or too large, and ONNX labels have one type, so no ONNX was written; use text labels."
    )
