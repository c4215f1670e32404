"""The schema against plain Python: which rows, which complements, and what may not change it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_tables import LIBRARIES, Cells, columns_of, holds, is_missing, numpy_pandas, objects, tables
from tamis.core.errors import TamisError, TamisFileError
from tamis.tables.cuts import Cuts, Levels, Missing
from tamis.tables.frame import as_table
from tamis.tables.schema import Schema, learn_schema

OPTIONS: list[dict[str, Any]] = [
    {},
    {"cuts": "all"},
    {"cuts": "uniform", "n_cuts": 3},
    {"cuts": Cuts(2, every=2), "levels": Levels(top=2)},
    {"cuts": "paper"},
    {"missing": Missing(indicator=False), "complements_needed": False},
]


def expected(schema: Schema, cells: Cells) -> list[list[bool]]:
    return [[holds(literal, cell) for cell in cells[literal.column]] for literal in schema.literals]


def found(schema: Schema, table: Any) -> list[list[bool]]:
    return [rows.tolist() for rows in schema.truth(as_table(table))]


@given(tables(), st.sampled_from(OPTIONS))
def test_truth_is_what_each_condition_says_about_each_cell(cells: Cells, options: dict[str, Any]) -> None:
    schema = learn_schema(as_table(cells), **options)
    assert found(schema, cells) == expected(schema, cells)


@given(tables(), st.data())
def test_truth_on_unseen_rows(cells: Cells, data: st.DataObject) -> None:
    schema = learn_schema(as_table(cells))
    # New rows of the same types: whatever of the same column, shifted or unseen.
    fresh = {name: [_other(cell) for cell in column] for name, column in cells.items()}
    kept = {name: column for name, column in fresh.items() if not all(map(is_missing, column))}
    assert [rows for literal, rows in zip(schema.literals, found(schema, fresh), strict=True) if literal.column in kept] == [
        [holds(literal, cell) for cell in fresh[literal.column]] for literal in schema.literals if literal.column in kept
    ]


def _other(cell: Any) -> Any:
    if isinstance(cell, bool) or cell is None:
        return cell
    if isinstance(cell, int):
        return cell + 1
    if isinstance(cell, float):
        return cell / 2
    return cell + "?" if isinstance(cell, str) else cell.replace(day=min(cell.day + 1, 28))


@given(tables())
def test_kept_conditions_split_the_rows_and_differ_from_each_other(cells: Cells) -> None:
    schema = learn_schema(as_table(cells))
    rows = [tuple(row) for row in found(schema, cells)]
    assert all(any(row) and not all(row) for row in rows)
    assert len(set(rows)) == len(rows)


@given(tables())
def test_complements_are_exact_on_the_training_rows(cells: Cells) -> None:
    schema = learn_schema(as_table(cells))
    rows = np.array(found(schema, cells), dtype=bool)
    brute = [next((j for j in range(len(rows)) if (rows[j] == ~rows[i]).all()), -1) for i in range(len(rows))]
    assert schema.complement.tolist() == brute


@given(tables())
def test_merged_conditions_hold_on_the_same_rows(cells: Cells) -> None:
    wide = cells | {f"{name} again": column for name, column in cells.items()}
    schema = learn_schema(as_table(wide))
    assert schema.texts == learn_schema(as_table(cells)).texts
    for position in range(len(schema)):
        text = schema.literals[position].text()
        again = text.replace(schema.literals[position].column, f"{schema.literals[position].column} again", 1)
        assert again in schema.same_rows[position]
    assert len(schema) == 0 or any("same training rows" in note and "again" in note for note in schema.notes)


@given(tables(), st.sampled_from(OPTIONS))
def test_every_library_gives_the_same_conditions(cells: Cells, options: dict[str, Any]) -> None:
    reference = learn_schema(as_table(cells), **options)
    for name, build in LIBRARIES.items():
        table = as_table(build(cells))
        schema = learn_schema(table, **options)
        assert schema.literals == reference.literals, name
        assert schema.columns == reference.columns, name
        assert schema.notes == reference.notes, name
        assert [rows.tolist() for rows in schema.truth(table)] == found(reference, cells), name
    unnamed = learn_schema(as_table(objects(cells), names=list(cells)), **options)
    assert unnamed.literals == reference.literals


@given(tables(), st.sampled_from(OPTIONS), st.randoms(use_true_random=False))
def test_row_order_changes_nothing(cells: Cells, options: dict[str, Any], random: Any) -> None:
    order = list(range(len(next(iter(cells.values())))))
    random.shuffle(order)
    shuffled = {name: [column[row] for row in order] for name, column in cells.items()}
    assert learn_schema(as_table(shuffled), **options).to_dict() == learn_schema(as_table(cells), **options).to_dict()
    weights = 0.1 + np.arange(len(order)) % 3
    straight = learn_schema(as_table(cells), **options, min_support=0.2, sample_weight=weights)
    assert learn_schema(as_table(shuffled), **options, min_support=0.2, sample_weight=weights[order]).to_dict() == straight.to_dict()


@given(tables(), st.sampled_from([*OPTIONS, {"cuts": "supervised", "n_cuts": 3}]), st.data())
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(cells: Cells, options: dict[str, Any], data: st.DataObject) -> None:
    n_rows = len(next(iter(cells.values())))
    weights = data.draw(st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows).filter(any))
    support = data.draw(st.sampled_from([1, 2, 0.25]))
    if sum(weights) < support:
        return
    labels = np.arange(n_rows) % 2
    repeated = {name: [cell for cell, weight in zip(column, weights, strict=True) for _ in range(weight)] for name, column in cells.items()}
    once = learn_schema(as_table(cells), **options, min_support=support, sample_weight=weights, y=labels)
    twice = learn_schema(as_table(repeated), **options, min_support=support, y=np.repeat(labels, weights))
    assert once.to_dict() == twice.to_dict()


@given(tables(), st.sampled_from(OPTIONS))
def test_a_schema_survives_json(cells: Cells, options: dict[str, Any]) -> None:
    schema = learn_schema(as_table(cells), **options, costs={next(iter(cells)): 1.5})
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again.to_dict() == schema.to_dict()
    assert again.literals == schema.literals
    assert found(again, cells) == found(schema, cells)


@given(tables(least=2), st.data())
def test_a_subset_is_the_table_of_those_rows(cells: Cells, data: st.DataObject) -> None:
    n_rows = len(next(iter(cells.values())))
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=n_rows))
    part = {name: [column[row] for row in rows] for name, column in cells.items()}
    table = as_table(cells)
    assert learn_schema(table.subset(rows)).texts == learn_schema(as_table(objects(part), names=list(cells))).texts
    mask = np.isin(np.arange(n_rows), rows)
    twice = table.subset(mask).subset(np.arange(mask.sum())[::-1])
    schema = learn_schema(table)
    assert [got.tolist() for got in schema.truth(twice)] == [got[mask][::-1].tolist() for got in schema.truth(table)]


@settings(max_examples=40)
@given(columns_of(12))
def test_supports_respect_min_support(column: list[Any]) -> None:
    if sum(map(is_missing, column)) == len(column):
        return
    schema = learn_schema(as_table({"x": column}), min_support=4)
    assert all(rows.sum() >= 4 for rows in schema.truth(as_table({"x": column})))
    rest = set(learn_schema(as_table({"x": column})).texts) - set(schema.texts)
    assert not rest or any("min_support" in note or "pooled" in note for note in schema.notes)


def test_only_gives_the_wanted_conditions_in_the_wanted_order() -> None:
    table = as_table({"a": [1, 2, 3, 4], "b": ["u", "v", "u", None]})
    schema = learn_schema(table)
    whole = list(schema.truth(table))
    order = [len(schema) - 1, 0, 3, 0]
    assert [rows.tolist() for rows in schema.truth(table, only=order)] == [whole[position].tolist() for position in order]
    # A column that no wanted condition reads need not be there.
    assert next(schema.truth(as_table({"a": [9]}), only=[1])).tolist() == [True]


def test_min_support_as_a_share_of_the_weight() -> None:
    table = as_table({"c": ["a"] * 6 + ["b"] * 3 + ["d"]})
    assert learn_schema(table, min_support=0.3, levels=Levels(negate=False)).texts == ("c = a", "c = b")
    weights = [1.0] * 9 + [9.0]
    assert learn_schema(table, min_support=0.3, levels=Levels(negate=False), sample_weight=weights).texts == ("c = a", "c = d")


def test_one_keeps_any_row_however_light() -> None:
    table = as_table({"x": [1, 2, 3]})
    assert learn_schema(table, sample_weight=[0.1, 0.1, 0.1]).texts == learn_schema(table).texts


def test_columns_are_found_by_name_or_by_position() -> None:
    schema = learn_schema(as_table({"a": [1, 2, 3], "b": ["u", "v", "v"]}))
    straight = found(schema, {"a": [1, 3], "b": ["v", "u"]})
    assert found(schema, {"more": [0, 0], "b": ["v", "u"], "a": [1, 3]}) == straight
    assert found(schema, [[1, "v"], [3, "u"]]) == straight
    by_position = learn_schema(as_table([[1, "u"], [2, "v"], [3, "v"]]))
    assert by_position.texts == ("x0 <= 1", "x0 > 1", "x0 <= 2", "x0 > 2")
    assert found(by_position, {"any": [1, 3], "names": ["v", "u"]}) == straight[:4]


def test_missing_columns_and_other_widths_are_one_sentence() -> None:
    schema = learn_schema(as_table({"age": [1, 2, 3], "town": ["u", "v", "v"]}))
    with pytest.raises(TamisError, match=r"^The table has no column 'age', which the rules read, so .*; add what is missing\.$"):
        found(schema, {"town": ["u"]})
    with pytest.raises(TamisError, match=r"has 3 columns, but the rules were learned on 2"):
        found(schema, [[1, "u", 2]])


@pytest.mark.parametrize(
    ("trained", "given_later", "says"),
    [
        ([1, 2, 3], ["a", "b", "c"], "held numbers in training but now holds text"),
        (["a", "b", "b"], [1, 2, 3], "held text in training but now holds numbers"),
        ([True, False, None], ["yes", "no", "no"], "held booleans in training but now holds text"),
        ([True, False, None], [0, 1, 5], "held booleans in training, gives numbers such as 5"),
        ([1, 2, 3], [__import__("datetime").date(2020, 1, 1)] * 3, "held numbers in training but now holds dates"),
    ],
)
def test_another_type_of_column_is_one_sentence_quoting_it(trained: list[Any], given_later: list[Any], says: str) -> None:
    schema = learn_schema(as_table({"the column": trained}))
    with pytest.raises(TamisError, match=says) as caught:
        found(schema, {"the column": given_later})
    assert "'the column'" in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_harmless_changes_of_type_are_accepted() -> None:
    numbers = learn_schema(as_table({"x": [1, 2, 3]}))
    assert found(numbers, {"x": [True, False]}) == found(numbers, {"x": [1.0, 0.0]})
    booleans = learn_schema(as_table({"x": [True, False, None]}))
    assert found(booleans, {"x": [1.0, 0.0, math.nan]}) == found(booleans, {"x": [True, False, None]})
    levels = learn_schema(as_table({"x": ["a", "b", None]}))
    nothing = found(levels, {"x": [None, None]})
    assert nothing == found(levels, {"x": [math.nan, math.nan]})
    assert nothing[levels.texts.index("x is missing")] == [True, True]
    assert sum(map(sum, nothing)) == 2


def test_unseen_levels_are_unequal_to_all_and_belong_to_the_pool() -> None:
    schema = learn_schema(as_table({"c": ["a"] * 5 + ["b"] * 4 + ["d", "e", "f"]}), levels=Levels(top=2))
    assert schema.texts == ("c = a", "c = b", "c != a", "c != b", "c = other", "c != other")
    assert found(schema, {"c": ["new"]}) == [[False], [False], [True], [True], [True], [False]]
    assert any("3 rare levels, pooled as 'other': d, e, f" in note for note in schema.notes)


def test_a_level_called_other_is_not_confused_with_the_pool() -> None:
    schema = learn_schema(as_table({"c": ["other"] * 5 + ["b"] * 4 + ["d", "e", "f"]}), levels=Levels(top=2))
    assert "c = other" in schema.texts
    assert "c = other (pooled)" in schema.texts


def test_two_levels_without_gaps_give_two_conditions_only() -> None:
    assert learn_schema(as_table({"c": ["u", "v", "u"]})).texts == ("c = u", "c = v")
    with_gap = learn_schema(as_table({"c": ["u", "v", None]}))
    assert with_gap.texts == ("c = u", "c = v", "c is missing")
    assert with_gap.same_rows == {0: ("c != v",), 1: ("c != u",)}


def test_costs_by_text_before_column_and_the_cheapest_stays() -> None:
    cells = {"a": [1, 2, 3], "b": [1, 2, 3]}
    schema = learn_schema(as_table(cells), costs={"a": 3.0, "a <= 1": 0.5})
    assert schema.texts == ("a <= 1", "b > 1", "b <= 2", "b > 2")
    assert schema.costs.tolist() == [0.5, 1.0, 1.0, 1.0]
    assert schema.same_rows[1] == ("a > 1",)


def test_costs_that_name_nothing() -> None:
    table = as_table({"age": [1, 2, 3]})
    with pytest.raises(TamisError, match=r"costs names 'agee', which is neither a column nor a condition; did you mean 'age'\?"):
        learn_schema(table, costs={"agee": 2})
    # In another fold the cut may lie elsewhere: that is no mistake, but it is said.
    assert any("'age <= 30'" in note and "no effect" in note for note in learn_schema(table, costs={"age <= 30": 2}).notes)
    for bad in (0, -1, math.nan, math.inf, "cheap", None, True):
        with pytest.raises(TamisError, match=r"costs\['age'\] is .*, which is no price"):
            learn_schema(table, costs={"age": bad})


def test_directions_for_monotone_constraints() -> None:
    table = as_table({"n": [1, 2, 3, 4], "b": [True, False, False, True], "c": ["u", "v", "w", "w"]})
    schema = learn_schema(table)
    signs = {text: int(sign) for text, sign in zip(schema.texts, schema.direction, strict=True)}
    assert {text: sign for text, sign in signs.items() if text.startswith("n ")} == {
        text: (1 if ">" in text else -1) for text in signs if text.startswith("n ")
    }
    assert signs["b"] == 1
    assert signs["not b"] == -1
    assert all(signs[text] == 0 for text in signs if text.startswith("c "))
    assert [schema.texts[position] for position in schema.ordered["n"]] == ["n <= 1", "n > 1", "n <= 2", "n > 2", "n <= 3", "n > 3"]


def test_ordered_categories_are_thresholds_as_sets_of_levels() -> None:
    sizes = pd.CategoricalDtype(["S", "M", "L", "XL"], ordered=True)
    schema = learn_schema(as_table(pd.DataFrame({"size": pd.Series(["L", "S", None, "XL", "S"], dtype=sizes)})))
    assert schema.texts == ("size <= S", "size > S", "size <= L", "size > L", "size is missing")
    assert schema.direction.tolist() == [-1, 1, -1, 1, 0]
    assert schema.ordered == {"size": (0, 1, 2, 3)}
    assert schema.columns[0].levels == ("S", "M", "L", "XL")
    # A level between two cuts was not seen, yet has its place; one that is no level at all has none.
    fresh = pd.DataFrame({"size": ["M", "XL", "huge", None]})
    assert found(schema, fresh) == [
        [False, False, False, False],
        [True, True, False, False],
        [True, False, False, False],
        [False, True, False, False],
        [False, False, False, True],
    ]
    assert found(Schema.from_dict(schema.to_dict()), fresh) == found(schema, fresh)


def test_notes_name_what_is_left_out() -> None:
    schema = learn_schema(as_table({"k": [1, 1, 1], "n": [None] * 3, "x": [1, 2, 3]}), cuts={"x": [1.5, 99]})
    assert schema.texts == ("x <= 1.5", "x > 1.5")
    assert "Columns 'k', 'n' are constant on the training rows, so no condition is made." in schema.notes
    assert any("x <= 99" in note and "every training row" in note for note in schema.notes)
    many = learn_schema(as_table(np.repeat(np.arange(40.0)[:, None], 30, axis=1)))
    assert len(many.notes) == 1
    assert "29 columns" in many.notes[0]


def test_nothing_survives() -> None:
    schema = learn_schema(as_table({"k": [1, 1, 1]}))
    assert len(schema) == 0
    assert schema.complement.shape == schema.costs.shape == schema.direction.shape == (0,)
    assert list(schema.truth(as_table({"k": [1]}))) == []
    assert Schema.from_dict(schema.to_dict()).to_dict() == schema.to_dict()


@pytest.mark.parametrize("damage", [{}, {"version": 2}, {"costs": []}, {"literals": [[1]]}, {"columns": 3}, {"complement": "x"}])
def test_damaged_schemas_are_one_sentence(damage: dict[str, Any]) -> None:
    data = learn_schema(as_table({"x": [1, 2, 3]})).to_dict()
    broken = data | damage if damage else {}
    with pytest.raises(TamisFileError, match=r"^The schema (is damaged|was written by a newer)"):
        Schema.from_dict(broken)


def test_whole_numbers_too_large_for_a_double_are_cut_like_any_number() -> None:
    cells = [2**60, 2**60 + 1, 2**61, -(2**62)]
    schema = learn_schema(as_table({"key": cells}))
    assert schema.texts == ("key <= -2e+18", "key > -2e+18", "key <= 2e+18", "key > 2e+18")
    assert schema.columns[0].kind == "numeric"


def test_a_float_column_of_whole_numbers_reads_as_integers() -> None:
    schema = learn_schema(as_table(numpy_pandas({"tenure": [11, 12, None, 40]})))
    assert schema.texts == ("tenure <= 11", "tenure > 11", "tenure <= 12", "tenure > 12", "tenure is missing")
    assert schema.columns[0].kind == "integer"
