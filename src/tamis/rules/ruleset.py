"""The rules of a fitted model as people use them: sorted, measured, written out, explained, shortened, exported."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError
from tamis.core.literal import Literal, value_text
from tamis.core.path import installed_frame
from tamis.core.scorecard import ScoreCard
from tamis.rules import statistics as measures_of_rules
from tamis.rules.coverage import quality, rule_hits, scores
from tamis.rules.explain import Contribution, Explanation, Near, holds, predicted, probability_matrix, row_as_dict
from tamis.rules.redundancy import Overlap, Redundancy, importance_order, key_of, overlaps, positions, redundancies, reordered, simplified
from tamis.rules.shown import ShownRule
from tamis.rules.statistics import RuleStatistics, favoured_classes, weight_matrix
from tamis.rules.text import can_flip, condition_texts, number_text, outcome_text, text_of, weight_text
from tamis.tables.frame import as_table

EDITED = "edited by hand"


class RuleSet:
    """The rules of a fitted model, most important first.

    Parameters
    ----------
    card : ScoreCard
        Rules, constants and link.
    statistics : RuleStatistics
        What `RuleSet.measure` found for the card's rules, in the card's order.
    certificate : Certificate
        How far the model can be from the best one.
    schema : Schema, optional
        The propositions the model was fitted with; needed to evaluate rows of a table.
    lattice : {"conjunction", "disjunction"}
        "disjunction" shows a rule of several conditions by its opposite, `a OR b`, with the opposite weight and
        the constant moved, wherever its conditions have exact opposites. Scores and exports are the same.
    backend : str, optional
        Frame library of `to_frame`: "pandas", "polars" or "pyarrow"; the first installed by default.
    notes : tuple of str
        What was done to the rules by hand.
    keep_order : bool
        Keep the card's order instead of sorting by importance.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.certificate import Certificate
    >>> from tamis.core.literal import Literal
    >>> from tamis.core.scorecard import Rule, ScoreCard
    >>> from tamis.rules.ruleset import RuleSet
    >>> rule = Rule((Literal("tenure", "<=", 11.0, "integer"),), (1.32,))
    >>> card = ScoreCard((rule,), (-0.5,), "logistic", (False, True), target="churn")
    >>> tenure, churn = np.array([3, 8, 20, 40]), np.array([True, True, False, True])
    >>> statistics = RuleSet.measure(card, lambda i: tenure <= 11, churn)
    >>> rules = RuleSet(card, statistics, Certificate("none", 0.0, 0.0, 0.01, reason="an example"))
    >>> rules[0].sentence()
    'IF tenure <= 11 THEN churn (+1.32, covers 50 %, precision 1.00)'
    """

    def __init__(
        self,
        card: ScoreCard,
        statistics: RuleStatistics,
        certificate: Certificate,
        schema: Any = None,
        *,
        lattice: str = "conjunction",
        backend: str | None = None,
        notes: Sequence[str] = (),
        keep_order: bool = False,
    ) -> None:
        if len(statistics) != len(card.rules):
            raise TamisError(f"The card has {len(card.rules)} rules but {len(statistics)} were measured; measure this card's rules first.")
        order, importance = importance_order(card, statistics)
        if keep_order:
            order = np.arange(len(card.rules))
        self.card = reordered(card, order)
        self.importance = importance[order]
        self.certificate, self.schema, self.lattice, self.backend = certificate, schema, lattice, backend
        self.notes = tuple(notes)
        self.measures: Mapping[str, float] = {}
        self.largest_change = 0.0
        self.measured = statistics.subset(order)
        self._opposite = np.array([self._shown_as_opposite(rule.conditions) for rule in self.card.rules], dtype=bool)

    @staticmethod
    def measure(
        card: ScoreCard,
        hits: Callable[[int], Any],
        y: Any,
        sample_weight: Any = None,
        classes: Sequence[Any] | None = None,
        rows: str = "training rows",
    ) -> RuleStatistics:
        """What each rule of a card covers; `hits(i)` gives the rows of rule i as booleans."""
        return measures_of_rules.measure(card, hits, y, sample_weight, classes, rows)

    def _shown_as_opposite(self, conditions: tuple[Literal, ...]) -> bool:
        """Whether a disjunction says it exactly: several conditions, each with an exact opposite on the training rows."""
        if self.lattice != "disjunction" or self.schema is None or len(conditions) < 2 or not can_flip(conditions):
            return False
        place = positions(self.schema)
        where = [place.get(key_of(condition)) for condition in conditions]
        return all(i is not None and self.schema.complement[i] >= 0 for i in where)

    @cached_property
    def weights(self) -> Any:
        """Weights as shown, (rules, score columns): of the opposite sign for rules shown as disjunctions."""
        return weight_matrix(self.card) * np.where(self._opposite, -1.0, 1.0)[:, None]

    @cached_property
    def constant(self) -> tuple[float, ...]:
        """The constant as shown, one per score column."""
        moved = weight_matrix(self.card)[self._opposite].sum(axis=0) if self._opposite.any() else 0.0
        return tuple(float(value) for value in np.asarray(self.card.constant) + moved)

    @cached_property
    def statistics(self) -> RuleStatistics:
        """What was measured about the rules as shown."""
        return self.measured.flipped(self._opposite).favouring(favoured_classes(self.card, self.weights))

    @cached_property
    def rules(self) -> tuple[ShownRule, ...]:
        """Every rule with its measures."""
        return tuple(self._shown(i) for i in range(len(self.card.rules)))

    def _shown(self, i: int) -> ShownRule:
        conditions, statistics, card = self.card.rules[i].conditions, self.statistics, self.card
        lattice, favoured = "disjunction" if self._opposite[i] else "conjunction", int(statistics.favoured[i])
        return ShownRule(
            index=i,
            text=text_of(conditions, lattice),
            parts=condition_texts(conditions, lattice),
            then=outcome_text(card.link, card.classes, card.target, favoured),
            weights=tuple(float(weight) for weight in self.weights[i]),
            conditions=conditions,
            opposite=bool(self._opposite[i]),
            favoured=card.classes[favoured] if card.classes else None,
            importance=float(self.importance[i]),
            support=float(statistics.support[i]),
            count=int(statistics.count[i]),
            **{name: float(getattr(statistics, name)[i]) for name in ("coverage", "precision", "lift", "mean", "difference")},
        )

    def __len__(self) -> int:
        return len(self.card.rules)

    def __iter__(self) -> Iterator[ShownRule]:
        return iter(self.rules)

    def __getitem__(self, index: int) -> ShownRule:
        return self.rules[self._index(index)]

    def _index(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise TamisError(f"There is no rule {index}: the set has {len(self)} rules, counted from 0; choose one of them.")
        return int(index) % len(self)

    @property
    def score_names(self) -> tuple[str, ...]:
        """What the score columns are called: the classes when there are several."""
        return tuple(value_text(label) for label in self.card.classes) if len(self.constant) > 1 else ("",)

    def text(self) -> str:
        """The rules as sentences, one a line, and the constant."""
        return "\n".join([*(rule.sentence() for rule in self), self._constant_line()])

    def _constant_line(self) -> str:
        named = [f"{name} {weight_text(value)}".strip() for name, value in zip(self.score_names, self.constant, strict=True)]
        return f"{'ALWAYS' if not len(self) else 'constant'} {', '.join(named)}"

    def __str__(self) -> str:
        word = "rule" if len(self) == 1 else "rules"
        head = f"{len(self)} {word}, measured on {self.statistics.total_count} {self.statistics.rows}. {self.certificate.sentence()}"
        return "\n".join([head, self.text(), *self.notes])

    def __repr__(self) -> str:
        return f"<RuleSet of {len(self)} rules; {self.certificate.sentence()}>"

    def _repr_html_(self) -> str:
        """A table for notebooks; every text of the user's is escaped."""
        columns = self._columns()
        shown = [name for name in columns if name != "literals"]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
        lines = []
        for i in range(len(self)):
            cells = (columns[name][i] for name in shown)
            texts = (number_text(cell) if isinstance(cell, float) else str(cell) for cell in cells)
            lines.append("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in texts) + "</tr>")
        note = html.escape(f"{self._constant_line()}. {self.certificate.sentence()}")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table><p>{note}</p>"

    def _columns(self) -> dict[str, list[Any]]:
        """The columns of `to_frame`."""
        rules, classification = self.rules, bool(self.card.classes)
        weights = {f"weight {name}".strip(): [rule.weights[k] for rule in rules] for k, name in enumerate(self.score_names)}
        columns: dict[str, list[Any]] = {"rule": [rule.text for rule in rules], "then": [rule.then for rule in rules], **weights}
        measured = ("precision", "lift") if classification else ("mean", "difference")
        for name in ("importance", "length", "support", "count", "coverage", *measured):
            columns[name] = [getattr(rule, name) for rule in rules]
        held_out = self.statistics.out_of_fold
        if held_out is not None:
            for name in ("coverage", *measured):
                columns[f"{name} out of fold"] = [float(value) for value in getattr(held_out, name)]
        columns["literals"] = [" AND ".join(condition.text() for condition in rule.conditions) for rule in rules]
        return columns

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per rule, as a pandas, polars or pyarrow frame."""
        return self._frame(self._columns(), backend)

    def _frame(self, columns: dict[str, list[Any]], backend: str | None = None) -> Any:
        """Columns as a frame of the user's library."""
        import narwhals as nw

        library: Any = backend or self.backend or installed_frame()
        return nw.from_dict(columns, backend=library).to_native()

    def explain(self, row: Any) -> Explanation:
        """Take the score of one row apart.

        Parameters
        ----------
        row : mapping, Series, frame of one row, or sequence in column order

        Returns
        -------
        Explanation
            Constant, rules that hold, their sum, rules one condition away, and the probability.
        """
        cells = row_as_dict(row, [column.name for column in self.card.columns])
        truth = self._row_truth(cells)
        score, fired, near = np.array(self.constant), [], []
        for rule in self:
            failing = [condition for condition in rule.conditions if not truth(condition)]
            if bool(failing) == rule.opposite:
                score = score + np.array(rule.weights)
                fired.append(Contribution(rule.index, rule.text, rule.weights))
            elif len(failing) == 1 or rule.opposite:
                lacking = text_of(failing) if failing else rule.text
                near.append(Near(rule.index, rule.text, lacking, rule.weights))
        values = tuple(float(value) for value in score)
        shares = probability_matrix(self.card, [values])
        probability = None if shares is None else dict(zip(self.card.classes, (float(share) for share in shares[0]), strict=True))
        return Explanation(values, self.constant, tuple(fired), tuple(near), probability, predicted(self.card, values), self.score_names)

    def _row_truth(self, cells: Mapping[str, Any]) -> Callable[[Literal], bool]:
        """Judge conditions on one row; computed propositions are taken from the schema, which can compute them."""
        given = {c.column for rule in self.card.rules for c in rule.conditions if c.operator == "given"} - cells.keys()
        if given and self.schema is not None:
            cells = {**cells, **self._propositions(cells, given)}
        return lambda condition: holds(condition, cells)

    def _propositions(self, cells: Mapping[str, Any], names: set[str]) -> dict[str, bool]:
        """The user's propositions on one row, as the schema computes them."""
        table = as_table(self._frame({column.name: [cells.get(column.name)] for column in self.card.columns}))
        used = [i for i, literal in enumerate(self.schema.literals) if literal.operator == "given" and literal.column in names]
        found = zip(used, self.schema.truth(table, used), strict=True)
        return {self.schema.literals[i].column: bool(truth[0]) for i, truth in found}

    def evaluate(self, X: Any, y: Any, sample_weight: Any = None) -> RuleSet:
        """The same rules, in the same order, measured on other rows; `measures` says how well the model does there."""
        hits, rows = rule_hits(self.card, self.schema, X)
        if len(y) != rows:
            raise TamisError(f"X has {rows} rows but y has {len(y)}, so the rules cannot be evaluated; give one y per row.")
        statistics = measures_of_rules.measure(self.card, hits, y, sample_weight, rows="given rows")
        result = self._with(self.card, statistics, self.certificate, self.notes)
        weight = np.ones(rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        result.measures = quality(self.card, scores(self.card, hits, rows), y, weight)
        return result

    def overlaps(self) -> list[Overlap]:
        """Every two rules with a row in common, most similar first."""
        return overlaps(self.statistics)

    def redundancy(self, threshold: float = 0.8) -> list[Redundancy]:
        """Rules whose rows are at least this similar (Jaccard), and conditions another wording would replace."""
        return redundancies(self.card, [rule.text for rule in self], self.statistics, self.schema, threshold)

    def simplify(self, X: Any = None) -> RuleSet:
        """Fewer rules with the same score on every training row: equal rules and opposite pairs are merged.

        Parameters
        ----------
        X : table, optional
            Rows to compare on; `largest_change` of the result is the largest change of a score there.
        """
        card, statistics, said = simplified(self.card, self.measured, self.schema)
        result = self._with(card, statistics, self._edited(), (*self.notes, *said), sort=True)
        if X is not None:
            hits, rows = rule_hits(self.card, self.schema, X)
            before, (hits, rows) = scores(self.card, hits, rows), rule_hits(card, self.schema, X)
            result.largest_change = float(np.abs(scores(card, hits, rows) - before).max(initial=0.0))
            result.notes = (*result.notes, f"On the {rows} rows given, the largest change of a score is {result.largest_change:.3g}.")
        return result

    def without(self, index: int) -> RuleSet:
        """The set without one rule as shown; the other rules and the constant as shown stay as they are."""
        i = self._index(index)
        keep = [j for j in range(len(self)) if j != i]
        constant = self.card.constant
        if self._opposite[i]:
            constant = tuple(float(value) + weight for value, weight in zip(constant, self.card.rules[i].weights, strict=True))
        card = replace(reordered(self.card, keep), constant=constant)
        return self._with(card, self.measured.subset(keep), self._edited(), (*self.notes, f"Removed by hand: {self[i].text}."))

    def _edited(self) -> Certificate:
        """What a hand leaves of a certificate."""
        return replace(self.certificate, kind="none", reason=EDITED, witness=None)

    def _with(
        self, card: ScoreCard, measured: RuleStatistics, certificate: Certificate, notes: Sequence[str], sort: bool = False
    ) -> RuleSet:
        """A set like this one with other contents."""
        same: dict[str, Any] = {"lattice": self.lattice, "backend": self.backend}
        return RuleSet(card, measured, certificate, self.schema, notes=notes, keep_order=not sort, **same)

    def to_sql(self, dialect: str = "duckdb", **options: Any) -> str:
        """The score, probability and label as one SELECT statement; see `tamis.store.export`."""
        return self._exported("sql", dialect=dialect, **options)

    def to_python(self, **options: Any) -> str:
        """The source of a module without dependencies that scores a dict."""
        return self._exported("python", **options)

    def to_json(self, **options: Any) -> str:
        """The score card as versioned JSON."""
        return self._exported("json", **options)

    def to_onnx(self, **options: Any) -> Any:
        """The score card as an ONNX model."""
        return self._exported("onnx", **options)

    def _exported(self, form: str, **options: Any) -> Any:
        from tamis.store.export import export

        return export(self.card, form, **options)
