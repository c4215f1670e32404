"""Conditions and propositions as ONNX comparisons: NaN and one agreed text stand for missing cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.expression_tree import (
    Absolute,
    Among,
    Arithmetic,
    Compare,
    Condition,
    Joined,
    Missing,
    Name,
    Number,
    Opposite,
    Text,
    Truth,
    Value,
    columns_of,
    parse,
    walk,
)
from tamis.core.literal import Literal
from tamis.store.export_card import microseconds, moment_of
from tamis.store.export_onnx_graph import Graph
from tamis.store.export_propositions import reading_of

TEXT_KINDS = ("level", "ordered")
_OPERATORS = {"<=": "LessOrEqual", "<": "Less", ">": "Greater", ">=": "GreaterOrEqual", "==": "Equal"}
_ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div"}


def texts_of(condition: Literal) -> list[str]:
    """The texts a condition compares with."""
    if condition.operator == "given":
        nodes = list(walk(parse(condition.value)))
        members = [member for node in nodes if isinstance(node, Among) for member in node.members]
        return [node.value for node in [*nodes, *members] if isinstance(node, Text)]
    return [str(condition.value)] if condition.operator in ("==", "!=") else list(condition.members)


class Verdict(NamedTuple):
    """Three-valued truth of a proposition: rows in neither are unknown."""

    yes: str
    no: str


class Conditions:
    """Turns conditions into nodes of [rows, 1] truth values."""

    def __init__(self, graph: Graph, kinds: Mapping[str, str], missing_text: str) -> None:
        self.graph = graph
        self.kinds = kinds
        self.missing_text = missing_text

    def holds(self, condition: Literal) -> str:
        """Where one condition holds."""
        graph, column, operator = self.graph, condition.column, condition.operator
        if operator == "given":
            if not columns_of(condition.value):
                raise TamisError(f"The proposition {column!r} reads no column, so no ONNX was written; leave it out and fit again.")
            return self.verdict(parse(condition.value)).yes
        if operator == "missing":
            return self.missing(column)
        if operator in ("<=", ">"):
            cut = self.moment(condition.value) if condition.kind == "date" else float(condition.value)
            # Comparisons with NaN are false, so missing cells satisfy neither side.
            return graph.node(_OPERATORS[operator], column, graph.constant(np.array([[cut]])))
        if operator in ("true", "false"):
            return graph.node("Equal", column, graph.constant(np.array([[float(operator == "true")]])))
        members = (str(condition.value),) if operator in ("==", "!=") else condition.members
        inside = self.among(column, members)
        if operator in ("==", "in"):
            return inside
        return graph.node("Not", graph.node("Or", inside, self.missing(column)))

    def missing(self, column: str) -> str:
        """Where a cell holds nothing."""
        if self.kinds[column] in TEXT_KINDS:
            return self.graph.node("Equal", column, self.graph.constant(np.array([[self.missing_text]], dtype=object)))
        return self.graph.node("IsNaN", column)

    def among(self, column: str, members: tuple[str, ...]) -> str:
        """Where a text is one of several; an empty list holds nowhere."""
        graph = self.graph
        if not members:
            return graph.node("Not", graph.node("Equal", column, column))
        found = graph.node("Equal", column, graph.constant(np.array([members], dtype=object)))
        if len(members) == 1:
            return found
        most = graph.node("ReduceMax", graph.number(found), graph.constant(np.array([1])), keepdims=1)
        return graph.node("Cast", most, to="BOOL")

    def moment(self, text: str) -> float:
        """An ISO date as microseconds since 1970; years outside 1 to 9999 lie beyond every cell."""
        moment = moment_of(text)
        if moment is None:
            return -np.inf if text.startswith("-") else np.inf
        return float(microseconds(moment))

    def verdict(self, node: Condition) -> Verdict:
        """Where a proposition holds, and where it fails."""
        match node:
            case Joined(operator=operator, parts=parts):
                verdicts = [self.verdict(part) for part in parts]
                both, either = ("And", "Or") if operator == "and" else ("Or", "And")
                return Verdict(self.chain(both, [each.yes for each in verdicts]), self.chain(either, [each.no for each in verdicts]))
            case Opposite(condition=inner):
                verdict = self.verdict(inner)
                return Verdict(verdict.no, verdict.yes)
            case Missing(column=column):
                absent = self.missing(column)
                return Verdict(absent, self.graph.node("Not", absent))
            case Truth(column=column):
                yes, no = (self.holds(Literal(column, operator, kind="boolean")) for operator in ("true", "false"))
                return Verdict(yes, no)
            case Among(value=value, members=members):
                return self.verdict(Joined("or", tuple(Compare("==", value, member) for member in members)))
            case Compare():
                return self.comparison(node)

    def chain(self, operator: str, parts: list[str]) -> str:
        """And or Or of several truth values."""
        whole = parts[0]
        for part in parts[1:]:
            whole = self.graph.node(operator, whole, part)
        return whole

    def comparison(self, node: Compare) -> Verdict:
        """Both sides as numbers or as texts; unknown where a side is missing."""
        graph, reading = self.graph, reading_of(node, self.kinds)
        left, right = self.value(node.left, reading), self.value(node.right, reading)
        if reading == "text":
            unknown = [self.missing(side.column) for side in (node.left, node.right) if isinstance(side, Name)]
        else:
            unknown = [graph.node("IsNaN", side) for side in (left, right)]
        known = graph.node("Not", self.chain("Or", unknown)) if unknown else graph.constant(np.array([[True]]))
        holds = graph.node(_OPERATORS["==" if node.operator == "!=" else node.operator], left, right)
        fails = graph.node("Not", holds)
        if node.operator == "!=":
            holds, fails = fails, holds
        return Verdict(graph.node("And", holds, known), graph.node("And", fails, known))

    def value(self, node: Value, reading: str) -> str:
        """One side of a comparison."""
        graph = self.graph
        match node:
            case Number(value=number):
                return graph.constant(np.array([[number]]))
            case Text(value=text):
                if reading == "text":
                    return graph.constant(np.array([[text]], dtype=object))
                if moment_of(text) is None:
                    raise TamisError(f"{text!r} is not an ISO date, so no ONNX was written; write dates like '2024-01-31'.")
                return graph.constant(np.array([[self.moment(text)]]))
            case Name(column=column):
                return column
            case Absolute(value=inner):
                return graph.node("Abs", self.value(inner, "number"))
            case Arithmetic(operator=operator, left=left, right=right):
                first, second = self.value(left, "number"), self.value(right, "number")
                result = graph.node(_ARITHMETIC[operator], first, second)
                if operator != "/":
                    return result
                zero = graph.node("Equal", second, graph.constant(np.array([[0.0]])))
                return graph.node("Where", zero, graph.constant(np.array([[np.nan]])), result)
