"""Series of pandas, polars, pyarrow and whatever else narwhals knows, as `Values`.

The library at hand does the work on whole columns (casting, coding levels); only columns of mixed Python
objects are looked at cell by cell. Nothing here imports a frame library: the series brought its own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tamis.tables.columns import Array, Values, coded, level_text, numbers, refused, values_of_array, values_of_objects

INSTEAD = "turn them into numbers, text or dates"


def values_of_series(native: Any, name: str) -> Values:
    """One native column."""
    import narwhals as nw

    series = nw.from_native(native, series_only=True)
    dtype = series.dtype
    if dtype == nw.Boolean:
        return numbers(_floats(series), "boolean")
    if dtype.is_integer():
        return numbers(_floats(series), "integer")
    if dtype.is_numeric():
        return numbers(_floats(series))
    if dtype in (nw.Date, nw.Datetime):
        return Values("date", numbers=_floats(series.dt.timestamp("us")), zoned=getattr(dtype, "time_zone", None) is not None)
    if dtype in (nw.Categorical, nw.Enum):
        return _levels(series)
    if dtype == nw.String:
        return _texts(series)
    if dtype in (nw.Duration, nw.Time):
        raise refused(name, "durations" if dtype == nw.Duration else "times of day", "turn them into numbers such as seconds")
    if dtype == nw.Object:
        return values_of_objects(series.to_list())
    if series.null_count() == len(series):
        return numbers(np.full(len(series), np.nan))
    if hasattr(getattr(native, "dtype", None), "subtype") and native.dtype.kind in "biuf":
        return values_of_array(np.asarray(native), name)  # pandas' sparse columns
    raise refused(name, f"cells of type {getattr(native, 'dtype', getattr(native, 'type', dtype))}", INSTEAD)


def _floats(series: Any) -> Array:
    """Numbers or booleans as float64, missing as NaN."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas_like():
        return np.asarray(native.to_numpy(dtype="float64", na_value=np.nan))
    if series.implementation.is_pyarrow():
        small = native.cast("int8") if series.dtype == nw.Boolean else native
        return np.asarray(small.cast("float64", safe=False).to_numpy())
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _texts(series: Any) -> Values:
    """Text, coded by the library that holds it."""
    native = series.to_native()
    if series.implementation.is_pandas_like() and hasattr(native, "factorize"):
        codes, found = native.factorize()
        return coded(np.asarray(codes), [str(text) for text in found])
    if series.implementation.is_pyarrow():
        return _dictionary(native.dictionary_encode())
    if series.implementation.is_polars():
        return _polars_levels(native.cast(sys.modules["polars"].Categorical))
    return values_of_objects(series.to_list())


def _levels(series: Any) -> Values:
    """Categories of any type; ordered ones keep their order."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas_like():
        return coded(
            np.asarray(native.cat.codes, dtype=np.int64),
            [level_text(level) for level in native.cat.categories.tolist()],
            bool(native.cat.ordered),
        )
    if series.implementation.is_pyarrow():
        return _dictionary(native)
    if series.implementation.is_polars():
        return _polars_levels(native, list(series.dtype.categories) if series.dtype == nw.Enum else None)
    return _texts(series.cast(nw.String))


def _polars_levels(native: Any, order: list[str] | None = None) -> Values:
    """A polars column of categories, whose own codes may be those of all categories the process ever saw."""
    levels = native.unique().drop_nulls()
    texts = levels.to_list()
    place = {text: code for code, text in enumerate(texts if order is None else order)}
    own = levels.to_physical().to_numpy().astype(np.int64)
    translation = np.full(int(own.max(initial=-1)) + 2, -1, dtype=np.int64)  # the last entry stands for missing cells
    translation[own] = [place[text] for text in texts]
    cells = native.to_physical().cast(sys.modules["polars"].Int64).fill_null(len(translation) - 1).to_numpy()
    return coded(translation[cells], texts if order is None else order, order is not None)


def _dictionary(chunked: Any) -> Values:
    """A pyarrow dictionary column: its chunks may each have levels of their own, null among them."""
    codes: list[Array] = [np.zeros(0, dtype=np.int64)]
    seen: dict[str, int] = {}
    known, place = None, codes[0]
    for chunk in chunked.chunks:
        if known is None or not chunk.dictionary.equals(known):
            known = chunk.dictionary
            texts = (None if level is None else level_text(level) for level in known.to_pylist())
            place = np.array([*(-1 if text is None else seen.setdefault(text, len(seen)) for text in texts), -1], dtype=np.int64)
        codes.append(place[chunk.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)])
    return coded(np.concatenate(codes), list(seen), bool(chunked.type.ordered))


def values_of_any(cells: Any, name: str) -> Values:
    """A list, an array or a series of any library."""
    if isinstance(cells, np.ndarray):
        return values_of_array(cells, name)
    if isinstance(cells, (list, tuple)):
        return values_of_objects(cells)
    root = type(cells).__module__.partition(".")[0]
    if root == "pyarrow" and not hasattr(cells, "chunks"):
        return values_of_series(sys.modules["pyarrow"].chunked_array([cells]), name)
    if root in ("pandas", "polars", "pyarrow", "modin", "cudf"):
        return values_of_series(cells, name)
    if root == "narwhals":
        return values_of_series(cells.to_native(), name)
    return values_of_array(np.asarray(cells), name)
