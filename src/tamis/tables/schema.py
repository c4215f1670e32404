"""The schema: which conditions a training table gives, and how to find them again in any other table.

Everything is learned from training rows of positive weight: cut points, levels, which conditions are rare, which
say the same. The schema keeps no data, so that prediction, exports and a recheck rebuild the same conditions from
raw columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tamis.core.errors import TamisError, TamisFileError
from tamis.core.literal import Literal
from tamis.core.scorecard import Column
from tamis.tables.columns import NUMERIC, Array, Bools, Floats, Values
from tamis.tables.cuts import Cuts, Levels, Missing, Target
from tamis.tables.frame import Table
from tamis.tables.literals import Cells, Found, conditions_of, shortened
from tamis.tables.options import Options, cost_reader, fewer_cuts, least_support, options_of, unused_costs
from tamis.tables.propositions import GivenColumn, Source, as_booleans, holds_given, propositions_of
from tamis.tables.registry import Registry
from tamis.tables.weights import checked_labels, checked_weights, summable, target_of

GROUPS = {"numeric": "numbers", "integer": "numbers", "boolean": "booleans", "date": "dates", "level": "text", "ordered": "text"}
DIRECTIONS = {"<=": -1, ">": 1, "true": 1, "false": -1}
FIELDS = ("column", "operator", "value", "kind", "members", "label")


@dataclass(frozen=True)
class Schema:
    """The conditions (literals) of a table, in order.

    Attributes
    ----------
    columns : tuple of Column
        The training table's columns.
    literals : tuple of Literal
        The conditions.
    complement : ndarray of int (literals,)
        Position of the condition that holds on exactly the other training rows, -1 where there is none.
    costs : ndarray of float (literals,)
        Factor for the price of a rule that uses the condition, relative to the default.
    same_rows : dict of int to tuple of str
        Texts of dropped conditions that hold on the same training rows as a kept one.
    notes : tuple of str
        One sentence per thing dropped, merged, pooled or otherwise worth knowing.
    named : bool
        Whether the training table had column names of its own; then columns are found by name.
    sources : dict
        Functions and columns behind the propositions that are no expressions; never saved.
    """

    columns: tuple[Column, ...]
    literals: tuple[Literal, ...]
    complement: Array
    costs: Array
    same_rows: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    named: bool = True
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.literals)

    @property
    def texts(self) -> tuple[str, ...]:
        """The conditions as people read them."""
        return tuple(literal.text() for literal in self.literals)

    @property
    def direction(self) -> Array:
        """+1 for conditions that larger values satisfy (`x > a`, `x`), -1 for `x <= a` and `not x`, else 0."""
        found = [DIRECTIONS.get(literal.operator, 0) for literal in self.literals]
        ordered = [literal.kind == "ordered" and literal.operator == "in" for literal in self.literals]
        levels = {column.name: column.levels for column in self.columns}
        upper = [
            is_set and literal.members[-1:] == levels[literal.column][-1:] for literal, is_set in zip(self.literals, ordered, strict=True)
        ]
        return np.where(ordered, np.where(upper, 1, -1), np.array(found, dtype=np.int64).reshape(-1))

    @property
    def ordered(self) -> dict[str, tuple[int, ...]]:
        """Column -> positions of its thresholds, by cut: the conditions a monotone constraint speaks about."""
        found: dict[str, list[int]] = {}
        for position, sign in enumerate(self.direction):
            if sign:
                found.setdefault(self.literals[position].column, []).append(position)
        return {name: tuple(positions) for name, positions in found.items()}

    def truth(self, table: Table, only: Sequence[int] | None = None) -> Iterator[Bools]:
        """Which rows satisfy each condition, one condition at a time.

        Parameters
        ----------
        table : Table
            Any table with the columns the conditions read: found by name when both tables have names, else by
            position. A missing cell satisfies `missing` only; a level never seen is unequal to all others.
        only : sequence of int, optional
            Positions of the conditions wanted, in the order wanted; others cost nothing.

        Yields
        ------
        ndarray of bool (rows,)

        Examples
        --------
        >>> from tamis.tables.frame import as_table
        >>> from tamis.tables.schema import learn_schema
        >>> schema = learn_schema(as_table({"age": [20, 40, None]}))
        >>> [(text, rows.tolist()) for text, rows in zip(schema.texts, schema.truth(as_table({"age": [30, None]})))]
        [('age <= 20', [False, False]), ('age > 20', [True, False]), ('age is missing', [False, True])]
        """
        chosen = range(len(self.literals)) if only is None else only
        table = self._aligned(table, {self.literals[position].column for position in chosen})
        learned = {column.name: column for column in self.columns}
        name, cells = None, None
        for position in chosen:
            literal = self.literals[position]
            if literal.operator == "given":
                yield holds_given(literal, self.sources.get(literal.column), table)
                continue
            if cells is None or literal.column != name:
                name, cells = literal.column, Cells(self._values(table, literal.column, learned))
            yield cells.holds(literal)

    def _aligned(self, table: Table, wanted: set[str]) -> Table:
        """The table under the training columns' names; one sentence when some are not there."""
        if not (self.named and table.named):
            if len(table.names) != len(self.columns):
                raise TamisError(
                    f"The table has {len(table.names)} columns, but the rules were learned on {len(self.columns)}, "
                    "so they do not match; give the same columns, or a frame with the same column names."
                )
            return replace(table, names=tuple(column.name for column in self.columns))
        absent = [column.name for column in self.columns if column.name in wanted and column.name not in table.position]
        if absent:
            listed, columns = shortened(list(map(repr, absent))), "columns" if len(absent) > 1 else "column"
            raise TamisError(
                f"The table has no {columns} {listed}, which the rules read, so they cannot be evaluated; add what is missing."
            )
        return table

    def _values(self, table: Table, name: str, learned: Mapping[str, Column]) -> Values:
        """A column of the table, of the kind it had in training."""
        return conform(table.column(name), learned[name]) if name in learned else self._given_column(table, name)

    def _given_column(self, table: Table, name: str) -> Values:
        """A proposition that was given as a column: on other rows, a column of that name takes its place."""
        if name in table.position:
            return as_booleans(table.column(name), f"The column {name!r}")
        source = self.sources.get(name)
        if isinstance(source, GivenColumn):
            found = source.on(table)
            if found is not None:
                return found
        raise TamisError(
            f"The proposition {name!r} was given as a column for the training rows only; add a boolean column of that name to the table."
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON-able data."""
        lost = [literal.column for literal in self.literals if literal.operator == "given" and literal.value is None]
        if lost:
            raise TamisError(
                f"The proposition {lost[0]!r} is a Python function, so it cannot be saved; write it as an expression such as 'age > 30'."
            )
        return {
            "version": 1,
            "named": self.named,
            "columns": [[column.name, column.kind, list(column.levels)] for column in self.columns],
            "literals": [[_plain(getattr(literal, name)) for name in FIELDS] for literal in self.literals],
            "complement": [int(position) for position in self.complement],
            "costs": [float(cost) for cost in self.costs],
            "same_rows": {str(position): list(texts) for position, texts in self.same_rows.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Inverse of `to_dict`; damaged data is one sentence."""
        try:
            if data["version"] > 1:
                raise TamisFileError("The schema was written by a newer version of tamis, so it cannot be read; upgrade tamis.")
            literals = [dict(zip(FIELDS, record, strict=True)) for record in data["literals"]]
            schema = cls(
                columns=tuple(Column(str(name), str(kind), tuple(map(str, levels))) for name, kind, levels in data["columns"]),
                literals=tuple(Literal(**{**record, "members": tuple(map(str, record["members"]))}) for record in literals),
                complement=np.array(data["complement"], dtype=np.int64).reshape(-1),
                costs=np.array(data["costs"], dtype=np.float64).reshape(-1),
                same_rows={int(position): tuple(map(str, texts)) for position, texts in data["same_rows"].items()},
                notes=tuple(map(str, data["notes"])),
                named=bool(data["named"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, TamisFileError):
                raise
            raise TamisFileError(f"The schema is damaged ({type(error).__name__}), so the model cannot be read; save it again.") from error
        if not len(schema.literals) == len(schema.complement) == len(schema.costs):
            raise TamisFileError("The schema is damaged (its parts differ in length), so the model cannot be read; save it again.")
        return schema


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def conform(values: Values, learned: Column) -> Values:
    """A column as the kind it had in training; one sentence quoting it when it holds something else."""
    given, wanted = GROUPS[values.kind], GROUPS[learned.kind]
    if given == wanted or (given == "booleans" and wanted == "numbers"):
        return values
    if values.missing.all():
        size = len(values)
        return Values(learned.kind, codes=np.full(size, -1)) if wanted == "text" else Values(learned.kind, numbers=np.full(size, np.nan))
    if wanted == "booleans" and values.kind in NUMERIC:
        return as_booleans(values, f"The column {learned.name!r}, which held booleans in training,")
    raise TamisError(
        f"Column {learned.name!r} held {wanted} in training but now holds {given}, so it cannot be evaluated; convert the column."
    )


def learn_schema(
    table: Table,
    *,
    cuts: str | Cuts | Sequence[Any] | Mapping[str, Any] = "quantile",
    n_cuts: int = 8,
    levels: Levels | Mapping[str, Levels] | None = None,
    missing: Missing | None = None,
    complements_needed: bool = True,
    propositions: Mapping[str, Any] | None = None,
    costs: Mapping[str, float] | None = None,
    min_support: float = 1.0,
    max_literals: int = 2000,
    y: Any = None,
    sample_weight: Any = None,
) -> Schema:
    """Learn which conditions a table gives.

    Parameters
    ----------
    table : Table
        Training rows (see `as_table`).
    cuts, n_cuts, levels, missing
        How columns become conditions (see `Cuts`, `Levels`, `Missing`): one choice for all columns, or a dict by
        column. cuts="none" uses columns of booleans, or of 0 and 1, as they are and without negations.
    complements_needed : bool
        False leaves out a condition when the one that holds on exactly the other rows is there already.
    propositions : dict, optional
        Name -> expression text, function of the input giving one truth value per row, or column of booleans.
    costs : dict, optional
        Condition text or column name -> factor for the price of using it.
    min_support : float
        What a condition must cover: rows by weight (1: any row), or below 1 a share of the weight.
    max_literals : int
        More conditions than this is an error that proposes fewer cuts.
    y, sample_weight : array, optional
        What supervised cuts tell apart (floats are a quantity, anything else names classes); weight 2 is the row twice.

    Examples
    --------
    >>> from tamis.tables.frame import as_table
    >>> from tamis.tables.schema import learn_schema
    >>> learn_schema(as_table({"tenure": [3, 11, 40], "plan": ["a", "b", "a"]})).texts
    ('tenure <= 3', 'tenure > 3', 'tenure <= 11', 'tenure > 11', 'plan = a', 'plan = b')
    """
    options = options_of(table, cuts, n_cuts, levels, missing)
    given, sources = propositions_of(propositions, table)
    training = _training_rows(table, y if options.supervised else None, sample_weight)
    least = least_support(min_support, training.total)
    limit = int(max_literals)
    advice = fewer_cuts(options, len(table.names), limit)
    registry = Registry(training.table.n_rows, least, training.weights, cost_reader(costs), limit, advice, complements_needed)
    columns, notes = _learn_columns(training, options, registry)
    bare = Schema(columns, tuple(given), np.full(len(given), -1), np.ones(len(given)), named=table.named, sources=sources)
    for literal, rows in zip(given, bare.truth(training.table), strict=True):
        registry.add_column(literal.column, [(literal, rows)])
    notes += [*registry.notes(min_support), *unused_costs(costs, registry.texts, table.names)]
    kept = registry.kept()
    same_rows = {place: tuple(text for _, text in entry.merged) for place, (_, entry) in enumerate(kept) if entry.merged}
    literals, prices = tuple(entry.literal for _, entry in kept), np.array([entry.cost for _, entry in kept])
    return Schema(columns, literals, registry.complements_of(kept), prices, same_rows, tuple(notes), table.named, sources)


@dataclass(frozen=True)
class _Training:
    """The rows that count: their weights (None: once each) and what supervised cuts tell apart."""

    table: Table
    weights: Floats | None
    target: Target | None

    @property
    def total(self) -> float:
        return float(self.table.n_rows) if self.weights is None else float(self.weights.sum())


def _training_rows(table: Table, y: Any, sample_weight: Any) -> _Training:
    """Rows of weight 0 do not exist; the weights of the others are rounded so that their sums are exact."""
    if not table.n_rows:
        raise TamisError(f"Found array with 0 sample(s) (shape=(0, {len(table.names)})) while a minimum of 1 is required; pass some rows.")
    weights = checked_weights(sample_weight, table.n_rows)
    labels = checked_labels(y, table.n_rows)
    if weights is not None:
        there = np.flatnonzero(weights)
        table, weights, labels = table.subset(there), summable(weights[there]), labels if labels is None else labels[there]
    return _Training(table, weights, target_of(labels, weights))


def _learn_columns(training: _Training, options: Options, registry: Registry) -> tuple[tuple[Column, ...], list[str]]:
    """One column at a time: read, find its conditions, see which rows they cover, let it go."""
    columns: list[Column] = []
    notes: list[str] = []
    for position, name in enumerate(training.table.names):
        values = training.table.column(position)
        if name in options.cuts and values.codes is not None and options.cuts[name].kind != "none":
            raise TamisError(
                f"cuts names the column {name!r}, which holds text and cannot be cut; leave it out, or choose its levels with levels=."
            )
        found: Found = conditions_of(name, values, options.of(name), training.weights, training.target, registry.least)
        cells = Cells(values)
        registry.add_column(
            name, ((literal, cells.holds(literal)) for literal in found.literals), explained=bool(found.notes) and not found.literals
        )
        columns.append(Column(name, found.kind, found.levels))
        notes += found.notes
    return tuple(columns), notes
