"""Plain-Python truth for tables: what a cell means, which rows satisfy a condition, and the same table in every library."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from tamis.core.literal import Literal, value_text

Cells = dict[str, list[Any]]


def is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def holds(literal: Literal, cell: Any) -> bool:
    """One condition on one raw cell, written without looking at the package."""
    if literal.operator == "missing":
        return is_missing(cell)
    if is_missing(cell):
        return False
    if literal.operator in ("true", "false"):
        return bool(cell) == (literal.operator == "true")
    if literal.operator in ("<=", ">"):
        cut: Any = literal.value
        if literal.kind == "date":
            cut = datetime.datetime.fromisoformat(cut)
            cell = cell if isinstance(cell, datetime.datetime) else datetime.datetime.combine(cell, datetime.time())
        return cell <= cut if literal.operator == "<=" else cell > cut
    text = value_text(cell) if isinstance(cell, float) else str(cell)
    members = literal.members if literal.operator in ("in", "not in") else (literal.value,)
    return (text in members) == (literal.operator in ("==", "in"))


def objects(cells: Cells) -> np.ndarray:
    """A numpy array of Python objects."""
    array = np.empty((len(next(iter(cells.values()))), len(cells)), dtype=object)
    for position, column in enumerate(cells.values()):
        array[:, position] = np.array([*column, None], dtype=object)[:-1]
    return array


def nullable_pandas(cells: Cells) -> pd.DataFrame:
    """pandas with its nullable types: Int64, Float64, boolean, string."""
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()}).convert_dtypes()
    return frame.astype({name: "string" for name, column in cells.items() if all(isinstance(cell, str) or cell is None for cell in column)})


def numpy_pandas(cells: Cells) -> pd.DataFrame:
    """pandas as most people have it: float64 for numbers with gaps, object for the rest."""
    frame = {}
    for name, column in cells.items():
        numbers = all(cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool)) for cell in column)
        frame[name] = (
            pd.Series([math.nan if cell is None else cell for cell in column], dtype=float) if numbers else pd.Series(column, dtype=object)
        )
    return pd.DataFrame(frame)


def arrow(cells: Cells) -> pa.Table:
    """pyarrow in two chunks, so that chunk borders are met."""
    table = pa.table({name: pa.array(column) for name, column in cells.items()})
    half = table.num_rows // 2
    return pa.concat_tables([table.slice(0, half), table.slice(half)])


LIBRARIES: dict[str, Callable[[Cells], Any]] = {
    "polars": lambda cells: pl.DataFrame(cells, strict=False),
    "arrow": arrow,
    "nullable pandas": nullable_pandas,
    "numpy pandas": numpy_pandas,
    "arrow pandas": lambda cells: arrow(cells).to_pandas(types_mapper=pd.ArrowDtype),
    "dict of lists": dict,
}

NAMES = ("age", "home town", "ünï \"q\" 'a'", "x <= 3", "not b")


def columns_of(n_rows: int) -> st.SearchStrategy[list[Any]]:
    """A column of one type, with gaps; few distinct values or many."""
    few = st.sampled_from([0.5, 1.25, -3.0, 7.0])
    floats = st.floats(allow_nan=False, allow_infinity=True, width=64)
    whole = st.integers(-(2**53), 2**53)
    texts = st.text(alphabet="ab'\"é,{} \u2028", max_size=3)
    days = st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1))
    moments = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
    kinds = [few, floats, whole, st.integers(0, 4), st.booleans(), texts, st.sampled_from(["red", "blue"]), days, moments]
    return st.sampled_from(kinds).flatmap(lambda kind: st.lists(st.one_of(kind, kind, kind, st.none()), min_size=n_rows, max_size=n_rows))


@st.composite
def tables(draw: st.DrawFn, least: int = 1, most: int = 14) -> Cells:
    """A small table of columns of any types."""
    n_rows = draw(st.integers(least, most))
    width = draw(st.integers(1, 3))
    return {name: draw(columns_of(n_rows)) for name in NAMES[:width]}


def partition(column: Sequence[Any], literal: Literal) -> tuple[bool, ...]:
    return tuple(holds(literal, cell) for cell in column)
