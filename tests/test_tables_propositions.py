"""Propositions the user names: expressions, functions, columns of booleans."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.tables.frame import as_table
from tamis.tables.schema import Schema, learn_schema

CELLS: dict[str, list[Any]] = {"age": [10, 20, 30, None, 50], "town": ["u", "v", "u", "w", None]}
NEW: dict[str, list[Any]] = {"age": [40, None, 5], "town": ["u", "u", "new"]}


def rows_of(schema: Schema, table: Any, name: str) -> list[bool]:
    position = [literal.column for literal in schema.literals].index(name)
    return next(schema.truth(as_table(table), only=[position])).tolist()


def test_an_expression_becomes_a_condition_and_survives_saving() -> None:
    schema = learn_schema(as_table(CELLS), propositions={"grown in u": "age > 15 and town = 'u'"})
    assert schema.literals[-1] == Literal("grown in u", "given", "age > 15 and town = 'u'", "given")
    assert schema.texts[-1] == "grown in u"
    assert rows_of(schema, CELLS, "grown in u") == [False, False, True, False, False]
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert rows_of(again, NEW, "grown in u") == [True, False, False]


def test_expressions_read_columns_by_position_when_the_training_table_had_no_names() -> None:
    table = as_table(np.array([[1.0, 5.0], [2.0, 1.0], [3.0, 9.0]]))
    schema = learn_schema(table, propositions={"rising": "x1 > x0"}, costs={"rising": 0.5})
    assert rows_of(schema, pd.DataFrame({"p": [1.0, 4.0], "q": [2.0, 3.0]}), "rising") == [True, False]


@pytest.mark.parametrize(
    ("build", "function"),
    [
        (pd.DataFrame, lambda frame: frame["age"] > 15),
        (lambda cells: pd.DataFrame(cells).convert_dtypes(), lambda frame: frame["age"] > 15),
        (pl.DataFrame, lambda frame: frame["age"] > 15),
        (pa.table, lambda table: pa.compute.greater(table["age"], 15)),
        (dict, lambda cells: [age is not None and age > 15 for age in cells["age"]]),
    ],
)
def test_a_function_sees_the_users_own_table(build: Any, function: Any) -> None:
    import pyarrow.compute  # noqa: F401  (the lambda above uses it)

    table = as_table(build(CELLS))
    schema = learn_schema(table, propositions={"grown": function}, costs={"grown": 0.5})
    assert rows_of(schema, build(CELLS), "grown") == [False, True, True, False, True]
    assert rows_of(schema, build(NEW), "grown") == [True, False, False]
    part = learn_schema(table.subset([4, 0, 1]), propositions={"grown": function}, costs={"grown": 0.5})
    position = part.texts.index("grown")
    assert next(part.truth(table.subset([4, 0, 1]), only=[position])).tolist() == [True, False, True]


def test_a_function_cannot_be_saved() -> None:
    schema = learn_schema(as_table(CELLS), propositions={"odd": lambda cells: [True, False, True, False, True]})
    with pytest.raises(TamisError, match="'odd' is a Python function, so it cannot be saved; write it as an expression"):
        schema.to_dict()


@pytest.mark.parametrize(
    "column",
    [
        [True, False, None, True, True],
        np.array([1, 0, 0, 1, 1]),
        pd.Series([True, False, pd.NA, True, True], dtype="boolean"),
        pl.Series([True, False, None, True, True]),
    ],
)
def test_a_column_of_booleans_is_on_its_rows_and_then_a_column_of_that_name(column: Any) -> None:
    table = as_table(CELLS)
    schema = learn_schema(table, propositions={"vip": column})
    assert schema.literals[-1] == Literal("vip", "true", None, "boolean")
    assert next(schema.truth(table, only=[len(schema) - 1])).tolist() == [True, False, False, True, True]
    assert next(schema.truth(table.subset([1, 3]), only=[len(schema) - 1])).tolist() == [False, True]
    assert rows_of(schema, NEW | {"vip": [True, None, False]}, "vip") == [True, False, False]
    with pytest.raises(TamisError, match="'vip' was given as a column for the training rows only; add a boolean column of that name"):
        rows_of(schema, NEW, "vip")
    again = Schema.from_dict(schema.to_dict())
    assert rows_of(again, NEW | {"vip": [0, 1, 1]}, "vip") == [False, True, True]


def test_a_column_may_be_given_for_all_rows_or_for_the_part() -> None:
    whole = [True, False, False, True, True]
    table = as_table(CELLS)
    part = table.subset([0, 1, 3, 4])
    for column in (whole, [whole[row] for row in (0, 1, 3, 4)]):
        schema = learn_schema(part, propositions={"vip": column}, min_support=1)
        position = [literal.column for literal in schema.literals].index("vip")
        assert next(schema.truth(part, only=[position])).tolist() == [True, False, True, True]
    # Given for the part only, it says nothing about a row outside of it.
    with pytest.raises(TamisError, match="for the training rows only"):
        next(schema.truth(table.subset([2]), only=[position]))


def test_weightless_rows_are_left_out_of_propositions_too() -> None:
    schema = learn_schema(as_table(CELLS), propositions={"vip": [True, True, True, True, False]}, sample_weight=[1, 1, 1, 1, 0])
    assert "vip" not in schema.texts
    assert any("'vip' is constant" in note for note in schema.notes)


@pytest.mark.parametrize(
    ("propositions", "says"),
    [
        ({"age": "age > 3"}, "The proposition 'age' is named like a column"),
        ({"": "age > 3"}, "has the name ''"),
        ({3: "age > 3"}, "has the name 3"),
        ({"p": "age >"}, "The proposition 'age >' cannot be read"),
        ({"p": "agee > 3"}, "reads the column 'agee'"),
        ({"p": [True, False]}, "The proposition 'p' has 2 values for 5 rows"),
        ({"p": [1, 2, 3, 4, 5]}, "The proposition 'p' gives numbers such as 2 instead of true and false"),
        ({"p": ["a"] * 5}, "The proposition 'p' gives text or dates"),
        ({"p": lambda cells: [True]}, "The proposition 'p' returned shape (1,) for 5 rows"),
        ({"p": lambda cells: 3}, "The proposition 'p' returned shape () for 5 rows"),
        ({"p": lambda cells: cells["age"]}, "The proposition 'p' gives numbers such as 10 instead"),
    ],
)
def test_unusable_propositions_are_one_sentence(propositions: Any, says: str) -> None:
    with pytest.raises(TamisError) as caught:
        learn_schema(as_table(CELLS), propositions=propositions)
    assert says in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_proposition_like_another_condition_is_merged_and_has_a_cost() -> None:
    schema = learn_schema(as_table({"age": [10, 20, 30]}), propositions={"grown": "age > 15"})
    assert "grown" in schema.same_rows[1]
    cheap = learn_schema(as_table({"age": [10, 20, 30]}), propositions={"grown": "age > 15"}, costs={"grown": 0.5})
    assert "grown" in cheap.texts
    assert "age > 10" not in cheap.texts
    assert cheap.complement[cheap.texts.index("age <= 10")] == cheap.texts.index("grown")
