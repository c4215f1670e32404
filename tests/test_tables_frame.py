"""Every table a user may bring: the same columns out of each library, and one sentence for what cannot be read."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
import subprocess
import sys
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.tables.columns import Values, iso_text, level_text, micros
from tamis.tables.frame import Table, as_table
from tamis.tables.schema import learn_schema

UTC = datetime.UTC
NOON = datetime.datetime(2021, 3, 4, 12, 30)


def plain(values: Values) -> list[Any]:
    """A column as plain cells."""
    if values.codes is not None:
        return [None if code < 0 else values.levels[code] for code in values.codes]
    assert values.numbers is not None
    return [None if math.isnan(cell) else cell for cell in values.numbers]


def column(table: Any, which: str | int = 0) -> tuple[str, list[Any]]:
    values = as_table(table).column(which)
    return values.kind, plain(values)


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "longdouble", "bool", ">f8", "<i4"])
def test_numpy_numbers_of_every_width(dtype: str) -> None:
    kind, cells = column(np.array([[0], [1], [1]], dtype=dtype))
    assert cells == [0, 1, 1]
    assert kind == {"b": "boolean", "i": "integer", "u": "integer", "f": "numeric"}[np.dtype(dtype).kind]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, 2, None], ("integer", [1, 2, None])),
        ([1, 2.5, math.nan], ("numeric", [1, 2.5, None])),
        ([True, None, False], ("boolean", [1, None, 0])),
        ([np.True_, np.False_, math.nan], ("boolean", [1, 0, None])),
        ([True, 2, 0.5], ("numeric", [1, 2, 0.5])),
        (["b", None, "a"], ("level", ["b", None, "a"])),
        (["b", math.nan, pd.NA], ("level", ["b", None, None])),
        ([1, "1", None], ("level", ["1", "1", None])),
        ([1.0, "x", True], ("level", ["1", "x", "True"])),
        ([{"a": 1}, 2.5, None], ("level", ["{'a': 1}", "2.5", None])),
        ([None, math.nan, pd.NaT], ("numeric", [None, None, None])),
        ([decimal.Decimal("1.5"), decimal.Decimal("NaN"), 2], ("numeric", [1.5, None, 2])),
        ([10**400, 1, None], ("level", ["1" + "0" * 400, "1", None])),
        ([NOON, None, pd.Timestamp(NOON)], ("date", [micros(NOON), None, micros(NOON)])),
        ([datetime.date(1970, 1, 2), np.datetime64("NaT"), np.datetime64("1970-01-01T00:00:01")], ("date", [86_400e6, None, 1e6])),
        ([datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), None, None], ("date", [0, None, None])),
        ([b"ab", b"\xff", None], ("level", ["ab", "\ufffd", None])),
        ([np.float32(0.5), np.int8(3), None], ("numeric", [0.5, 3, None])),
    ],
)
def test_objects_are_told_by_what_they_hold(cells: list[Any], expected: tuple[str, list[Any]]) -> None:
    assert column([[cell] for cell in cells]) == expected
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = np.array([*cells, None], dtype=object)[:-1]
    assert column(array) == expected


def test_numpy_text_and_dates() -> None:
    assert column(np.array([["b"], ["a"], [""]])) == ("level", ["b", "a", ""])
    assert column(np.array([[b"b"], [b"a"]])) == ("level", ["b", "a"])
    assert column(np.array([["b"], ["a"]], dtype=np.dtypes.StringDType())) == ("level", ["b", "a"])
    days = np.array([["1970-01-02"], ["NaT"]], dtype="datetime64[D]")
    assert column(days) == ("date", [86_400e6, None])
    assert column(days.astype("datetime64[ns]")) == ("date", [86_400e6, None])


def test_structured_arrays_bring_names() -> None:
    array = np.array([(1, "a"), (2, "b")], dtype=[("n", int), ("t", "U3")])
    table = as_table(array)
    assert table.names == ("n", "t")
    assert table.named
    assert column(array, "t") == ("level", ["a", "b"])


ordered = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
PANDAS: list[tuple[Any, str, list[Any]]] = [
    (pd.Series([1, 2, None], dtype="Int64"), "integer", [1, 2, None]),
    (pd.Series([1, 2, None], dtype="UInt8"), "integer", [1, 2, None]),
    (pd.Series([1.5, None, math.nan], dtype="Float32"), "numeric", [1.5, None, None]),
    (pd.Series([True, None, False], dtype="boolean"), "boolean", [1, None, 0]),
    (pd.Series([True, False]), "boolean", [1, 0]),
    (pd.Series(["b", None, "a"], dtype="string"), "level", ["b", None, "a"]),
    (pd.Series(["b", None, "a"], dtype=object), "level", ["b", None, "a"]),
    (pd.Series(["b", None, "a"]), "level", ["b", None, "a"]),
    (pd.Series(["b", None, "a"], dtype="category"), "level", ["b", None, "a"]),
    (pd.Series([30, None, 4], dtype="category"), "level", ["30", None, "4"]),
    (pd.Series([1.0, 2.5, 1.0], dtype="category"), "level", ["1", "2.5", "1"]),
    (pd.Series(["L", None, "S"], dtype=ordered), "ordered", ["L", None, "S"]),
    (pd.Series([NOON, None]), "date", [micros(NOON), None]),
    (pd.Series([NOON, None]).dt.tz_localize("Asia/Tokyo"), "date", [micros(NOON) - 9 * 3.6e9, None]),
    (pd.Series([datetime.date(1970, 1, 2), None], dtype=object), "date", [86_400e6, None]),
    (pd.Series([1, "a", None], dtype=object), "level", ["1", "a", None]),
    (pd.Series([None, None], dtype=object), "level", [None, None]),
    (pd.Series([0.0, 1.0, 0.0], dtype=pd.SparseDtype(float)), "numeric", [0, 1, 0]),
    (pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())), "integer", [1, None]),
    (pd.Series([True, None], dtype=pd.ArrowDtype(pa.bool_())), "boolean", [1, None]),
    (pd.Series(["b", None], dtype=pd.ArrowDtype(pa.string())), "level", ["b", None]),
    (pd.Series([decimal.Decimal("1.5"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))), "numeric", [1.5, None]),
]


@pytest.mark.parametrize(("series", "kind", "cells"), PANDAS, ids=[f"{series.dtype}-{kind}" for series, kind, _ in PANDAS])
def test_pandas_types(series: Any, kind: str, cells: list[Any]) -> None:
    frame = pd.DataFrame({"c": series})
    frame.index = pd.Index(range(len(frame), 0, -1))  # positions count, not labels
    assert column(frame) == (kind, cells)


POLARS: list[tuple[Any, str, list[Any]]] = [
    (pl.Series([1, 2, None], dtype=pl.Int8), "integer", [1, 2, None]),
    (pl.Series([1.5, None, math.nan], dtype=pl.Float32), "numeric", [1.5, None, None]),
    (pl.Series([True, None, False]), "boolean", [1, None, 0]),
    (pl.Series(["b", None, "a", "b"]), "level", ["b", None, "a", "b"]),
    (pl.Series(["b", None, "a"], dtype=pl.Categorical), "level", ["b", None, "a"]),
    (pl.Series(["L", None, "S"], dtype=pl.Enum(["S", "M", "L"])), "ordered", ["L", None, "S"]),
    (pl.Series([datetime.date(1970, 1, 2), None]), "date", [86_400e6, None]),
    (pl.Series([NOON, None]), "date", [micros(NOON), None]),
    (pl.Series([NOON, None]).dt.replace_time_zone("Asia/Tokyo"), "date", [micros(NOON) - 9 * 3.6e9, None]),
    (pl.Series([None, None]), "numeric", [None, None]),
    (pl.Series([1, "a", None], dtype=pl.Object), "level", ["1", "a", None]),
    (pl.Series(["1.50", None]).cast(pl.Decimal(9, 2)), "numeric", [1.5, None]),
]


@pytest.mark.parametrize(("series", "kind", "cells"), POLARS, ids=[str(series.dtype) for series, _, _ in POLARS])
def test_polars_types(series: Any, kind: str, cells: list[Any]) -> None:
    frame = pl.DataFrame({"c": series})
    assert column(frame) == (kind, cells)
    assert column(nw.from_native(frame)) == (kind, cells)


ARROW: list[tuple[Any, str, list[Any]]] = [
    (pa.array([1, 2**60 + 1, None]), "integer", [1, float(2**60), None]),
    (pa.array([1.5, None, math.nan]), "numeric", [1.5, None, None]),
    (pa.array([True, None, False]), "boolean", [1, None, 0]),
    (pa.array(["b", None, "a", "b"]), "level", ["b", None, "a", "b"]),
    (pa.array(["b", None, "a"], pa.large_string()), "level", ["b", None, "a"]),
    (pa.array(["b", None, "a", "b"]).dictionary_encode(), "level", ["b", None, "a", "b"]),
    (pa.DictionaryArray.from_arrays(pa.array([2, None, 0]), pa.array(["S", "M", "L"]), ordered=True), "ordered", ["L", None, "S"]),
    (pa.DictionaryArray.from_arrays(pa.array([1, 0, 2]), pa.array(["S", None, "L"])), "level", [None, "S", "L"]),
    (pa.array([datetime.date(1970, 1, 2), None]), "date", [86_400e6, None]),
    (pa.array([NOON, None], pa.timestamp("ns")), "date", [micros(NOON), None]),
    (pa.nulls(2), "numeric", [None, None]),
    (pa.array([1, None]).cast(pa.decimal128(30, 2)), "numeric", [1, None]),
    (pa.array([np.float16(1.5), None], pa.float16()), "numeric", [1.5, None]),
]


@pytest.mark.parametrize(("array", "kind", "cells"), ARROW, ids=[str(array.type) for array, _, _ in ARROW])
def test_arrow_types(array: Any, kind: str, cells: list[Any]) -> None:
    table = pa.table({"c": array})
    assert column(table) == (kind, cells)
    assert column(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == (kind, cells)
    assert column(table.to_batches()[0]) == (kind, cells)
    assert column(table.slice(0, 0)) == (kind, [])


def test_dictionary_chunks_with_levels_of_their_own() -> None:
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", None, "a"]).dictionary_encode()]
    assert column(pa.table({"c": pa.chunked_array(chunks)})) == ("level", ["b", "a", "c", None, "a"])


@pytest.mark.parametrize("size", [1, 127, 128, 255, 256, 257, 40_000])
def test_any_number_of_levels_keeps_them_apart(size: int) -> None:
    levels = [f"{level:05}" for level in range(size)]
    cells = [*levels[::-1], None, levels[-1]]
    for series in (pl.Series(cells), pl.Series(cells, dtype=pl.Categorical), pl.Series(cells, dtype=pl.Enum(levels))):
        assert column(pl.DataFrame({"c": series}))[1] == cells
    assert column(pd.DataFrame({"c": pd.Categorical(cells)}))[1] == cells
    assert column(pa.table({"c": pa.array(cells).dictionary_encode()}))[1] == cells
    assert column([[cell] for cell in cells])[1] == cells


def test_sparse_zeros_are_values() -> None:
    dense = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0], [0.0, math.nan, 0.0], [0.0, 1.5, 3.0]])
    reference = learn_schema(as_table(dense))
    for build in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array, sp.dok_array):
        table = as_table(build(dense))
        assert table.backend == "scipy"
        assert learn_schema(table).literals == reference.literals
        assert [rows.tolist() for rows in reference.truth(table)] == [rows.tolist() for rows in reference.truth(as_table(dense))]
    twice = sp.coo_array((np.array([1.0, 2.0, 4.0]), (np.array([0, 0, 1]), np.array([0, 0, 0]))), shape=(2, 1))
    before = twice.data.copy()
    assert column(twice) == ("numeric", [3, 4])
    assert (twice.data == before).all()
    unsorted = sp.csc_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(2, 1))
    assert column(unsorted) == ("numeric", [2, 5])
    assert len(unsorted.data) == 3  # the user's matrix is left alone


def test_level_texts() -> None:
    assert [level_text(level) for level in ("a", 3, 3.0, 2.5, True, np.int64(4), np.float32(0.5), b"x")] == [
        "a",
        "3",
        "3",
        "2.5",
        "True",
        "4",
        "0.5",
        "x",
    ]


@given(st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)))
def test_moments_read_back_from_their_text(moment: datetime.datetime) -> None:
    since = micros(moment)
    assert since == round((moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)) or abs(since) > 2**53
    assert micros(iso_text(since)) == since
    assert micros(np.datetime64(moment)) == since
    assert ("T" in iso_text(since)) == (moment.time() != datetime.time())


def test_names_and_backends() -> None:
    array = np.zeros((2, 2))
    assert as_table(array).names == ("x0", "x1")
    assert not as_table(array).named
    assert as_table(array, names=["a", "b"]).names == ("a", "b")
    assert as_table(array, names=["a", "b"]).named
    numbered = as_table(pd.DataFrame(array))
    assert (numbered.names, numbered.named) == (("x0", "x1"), False)
    found = [
        as_table(frame).backend
        for frame in (array, [[1]], sp.csr_array(array), pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]}))
    ]
    assert found == ["numpy", "list", "scipy", "pandas", "polars", "pyarrow"]
    table = as_table(array)
    assert as_table(table) is table


def test_columns_are_read_one_at_a_time_and_only_costly_ones_are_kept() -> None:
    read: list[int] = []

    class Spied(Table):
        pass

    table = as_table({"n": np.arange(5.0), "t": ["a", "b", "a", None, "b"]})
    original = table.fetch
    spied = Table(table.names, 5, "dict", True, None, lambda position: (read.append(position), original(position))[1], 5)
    for _ in range(3):
        spied.column("t")
        spied.subset([0, 1]).column("t")
    assert read == [1]
    spied.column(0)
    spied.column("n")
    assert read == [1, 0, 0]


def test_nothing_is_copied_for_a_numpy_table() -> None:
    array = np.asfortranarray(np.random.default_rng(0).normal(size=(1000, 3)))
    values = as_table(array).column(1)
    assert values.numbers is not None
    assert np.shares_memory(values.numbers, array)


def test_tables_can_be_sent_to_other_processes() -> None:
    # Not how models are stored: only what joblib does with arguments.
    table = as_table(np.arange(6.0).reshape(3, 2)).subset([2, 0])
    again = pickle.loads(pickle.dumps(table))
    assert plain(again.column(1)) == [5, 1]


class Opaque:
    """Something with an array inside, as scikit-learn's checks pass it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([[1.0, 2.0], [3.0, 4.0]])


def test_anything_with_an_array_inside() -> None:
    assert column(Opaque(), 1) == ("numeric", [2, 4])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "More than one column is named 'a', so a rule could not say which it means; rename them.",
        ),
        (pa.table([[1], [2]], names=["a", "a"]), "More than one column is named 'a'"),
        (pd.DataFrame({"a": [1], 2: [3]}), "Column names must all be text, but one is 2"),
        (np.zeros(3), "Expected 2D array, got 1D array instead"),
        (np.array(3.0), "Expected 2D array, got scalar array instead"),
        (np.zeros((2, 2, 2)), "Expected 2D array, got 3D array instead"),
        (np.zeros((3, 0)), "0 feature(s) (shape=(3, 0)) while a minimum of 1 is required"),
        (pl.DataFrame(), "0 feature(s)"),
        ([[1, 2], [3]], "The rows of the list differ in length"),
        ([1, 2], "Expected 2D array, got 1D array instead"),
        ([], "Expected 2D array"),
        (pd.Series([1, 2]), "A Series is a single column, so it is no table"),
        (pl.Series([1, 2]), "A Series is a single column"),
        (pl.LazyFrame({"a": [1]}), "A LazyFrame has not been computed yet, so it cannot be read; call .collect() first."),
        ({"a": [1, 2], "b": [1]}, "The columns of the dict have 1 to 2 cells"),
        ({}, "0 feature(s)"),
        ("text", "A str is not a table"),
        (None, "A NoneType is not a table"),
        (3, "A int is not a table"),
    ],
)
def test_what_is_no_table_is_one_sentence(table: Any, says: str) -> None:
    with pytest.raises(TamisError) as caught:
        as_table(table)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (np.array([[1 + 2j]]), "Complex data not supported"),
        (np.array([[1]], dtype="timedelta64[s]"), "holds durations"),
        (pd.DataFrame({"x0": pd.to_timedelta([1, 2])}), "holds durations"),
        (pl.DataFrame({"x0": [datetime.time(1)]}), "holds times of day"),
        (pl.DataFrame({"x0": [[1], [2]]}), "holds cells of type List(Int64)"),
        (pd.DataFrame({"x0": pd.period_range("2020", periods=2, freq="M")}), "holds cells of type period[M]"),
        (pa.table({"x0": [b"a"]}), "holds cells of type binary"),
    ],
)
def test_what_no_condition_can_read_names_the_column(table: Any, says: str) -> None:
    with pytest.raises(TamisError, match=r"^Column 'x0' holds .*, or leave the column out\.$") as caught:
        as_table(table).column(0)
    assert says in str(caught.value)


def test_names_must_fit() -> None:
    with pytest.raises(TamisError, match="2 names were given for 3 columns"):
        as_table(np.zeros((2, 3)), names=["a", "b"])
    with pytest.raises(TamisError, match="More than one column is named 'a'"):
        as_table(np.zeros((2, 2)), names=["a", "a"])


def test_no_rows() -> None:
    with pytest.raises(TamisError, match=r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"):
        learn_schema(as_table(np.zeros((0, 2))))
    schema = learn_schema(as_table(np.array([[1.0], [2.0]])))
    assert [rows.shape for rows in schema.truth(as_table(np.zeros((0, 1))))] == [(0,), (0,)]


def test_an_array_loads_no_library_it_does_not_need() -> None:
    code = (
        "import sys, numpy as np\n"
        "from tamis.tables.frame import as_table\n"
        "from tamis.tables.schema import learn_schema\n"
        "table = as_table(np.random.default_rng(0).normal(size=(50, 3)))\n"
        "list(learn_schema(table).truth(table))\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'narwhals', 'sklearn', 'scipy', 'numba'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert result.stdout.strip() == "[]"


def test_a_polars_frame_loads_no_other_frame_library() -> None:
    code = (
        "import sys, polars as pl\n"
        "before = set(sys.modules)\n"
        "from tamis.tables.frame import as_table\n"
        "from tamis.tables.schema import learn_schema\n"
        "table = as_table(pl.DataFrame({'a': [1, 2, None], 'b': ['u', 'v', 'u'], 'c': [True, None, False]}))\n"
        "list(learn_schema(table).truth(table))\n"
        "print(sorted({'pandas', 'pyarrow', 'sklearn', 'scipy', 'numba'} & (set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert result.stdout.strip() == "[]"
