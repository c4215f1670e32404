"""Any table a user may have, read one column at a time.

A `Table` never copies the whole input: it knows how to fetch one column as `Values`, and a subset of rows is a
list of positions applied to a column when it is asked for. What the input is, is told from the modules already
loaded; no frame library is imported for a numpy array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.tables.columns import Array, Values, values_of_array

FRAMES = ("pandas", "polars", "pyarrow", "narwhals", "modin", "cudf", "fireducks", "dask", "duckdb", "ibis", "pyspark", "sqlframe")
ACCEPTED = "pass a pandas, polars or pyarrow frame, a numpy array, a scipy sparse array or a list of rows"


@dataclass(frozen=True, eq=False)
class Table:
    """A table with named columns, fetched lazily.

    Attributes
    ----------
    names : tuple of str
        Column names; `x0, x1, ...` for input without names.
    n_rows : int
    backend : str
        The library the input came from: "numpy", "scipy", "list", "pandas", "polars", ...
    named : bool
        Whether the input brought names of its own.
    native : object
        The input itself (all rows), for propositions that are callables.
    height : int
        Rows of the input.
    rows : ndarray of int or None
        Positions in the input when this is a subset of it.
    """

    names: tuple[str, ...]
    n_rows: int
    backend: str
    named: bool
    native: Any = field(repr=False)
    fetch: Callable[[int], Values] = field(repr=False)
    height: int = field(repr=False)
    rows: Array | None = field(default=None, repr=False)
    kept: dict[int, Values] = field(default_factory=dict, repr=False)
    token: object = field(default_factory=object, repr=False)  # the same for all parts of one input

    @cached_property
    def position(self) -> dict[str, int]:
        """Column name -> position."""
        return {name: position for position, name in enumerate(self.names)}

    def column(self, which: str | int) -> Values:
        """One column as plain arrays, by name or position."""
        position = self.position[which] if isinstance(which, str) else which
        values = self.kept.get(position)
        if values is None:
            values = self.fetch(position)
            # Codes are small and were costly to make; plain numbers are neither, and stay with their owner.
            if values.costly or values.codes is not None:
                self.kept[position] = values
        return values if self.rows is None else values.take(self.rows)

    def subset(self, rows: Any) -> Table:
        """The table on some rows (positions, or a boolean mask), without copying anything."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        chosen = chosen if self.rows is None else self.rows[chosen]
        return replace(self, rows=chosen, n_rows=len(chosen))


@dataclass(frozen=True)
class _ArrayReader:
    array: Array
    names: tuple[str, ...]

    def __call__(self, position: int) -> Values:
        cells = self.array[self.names[position]] if self.array.dtype.names else self.array[:, position]
        return values_of_array(cells, self.names[position])


@dataclass(frozen=True)
class _SparseReader:
    """Compressed columns; what is not stored is the value zero."""

    matrix: Any
    names: tuple[str, ...]

    def __call__(self, position: int) -> Values:
        start, stop = self.matrix.indptr[position], self.matrix.indptr[position + 1]
        cells = np.zeros(self.matrix.shape[0], dtype=self.matrix.dtype)
        cells[self.matrix.indices[start:stop]] = self.matrix.data[start:stop]
        return values_of_array(cells, self.names[position])


@dataclass(frozen=True)
class _SeriesReader:
    """A column of a frame or of a mapping, found by position."""

    pick: Callable[[int], Any]
    names: tuple[str, ...]

    def __call__(self, position: int) -> Values:
        from tamis.tables.backends import values_of_any

        return values_of_any(self.pick(position), self.names[position])


def as_table(X: Any, names: Sequence[str] | None = None) -> Table:
    """Read any table.

    Parameters
    ----------
    X : table
        A pandas, polars, pyarrow or other eager frame narwhals knows, a numpy array of any type, a scipy sparse
        array or matrix (zeros are values), a list of rows, or a dict of columns.
    names : sequence of str, optional
        Column names for input that brings none.

    Returns
    -------
    Table

    Examples
    --------
    >>> from tamis.tables.frame import as_table
    >>> table = as_table([[1, "red"], [2, None]])
    >>> table.names, table.column("x1").levels
    (('x0', 'x1'), ('red',))
    """
    if isinstance(X, Table):
        return X
    root = type(X).__module__.partition(".")[0]
    if isinstance(X, np.ndarray):
        return _from_array(X, names, "numpy")
    if hasattr(X, "tocsc") and hasattr(X, "nnz"):
        return _from_sparse(X, names)
    if root in FRAMES or hasattr(X, "__narwhals_dataframe__"):
        return _from_frame(X, root, names)
    if isinstance(X, Mapping):
        return _from_mapping(X, names)
    if isinstance(X, (list, tuple)):
        return _from_array(_objects(X), names, "list")
    if hasattr(X, "__array__"):
        return _from_array(np.asarray(X), names, root)
    raise TamisError(f"A {type(X).__name__} is not a table, so it has no columns to read; {ACCEPTED}.")


def _objects(rows: Sequence[Any]) -> Array:
    """A list of rows as an array of objects, so that every column keeps its own types."""
    try:
        array = np.array(rows, dtype=object)
    except ValueError as error:
        raise TamisError("The rows of the list differ in length, so they form no table; give every row one cell per column.") from error
    if array.ndim == 1 and any(isinstance(row, (list, tuple)) for row in rows):
        raise TamisError("The rows of the list differ in length, so they form no table; give every row one cell per column.")
    return array


def _from_array(array: Array, names: Sequence[str] | None, backend: str) -> Table:
    if array.dtype.names and array.ndim == 1:
        return _table(array, _ArrayReader, array.dtype.names, names, len(array), backend, named=True)
    if array.ndim != 2:
        raise TamisError(
            f"Expected 2D array, got {'scalar' if array.ndim == 0 else f'{array.ndim}D'} array instead, so there are no columns to read. "
            "Reshape your data: array.reshape(-1, 1) for a single column, array.reshape(1, -1) for a single row."
        )
    return _table(array, _ArrayReader, None, names, array.shape[0], backend, width=array.shape[1])


def _from_sparse(matrix: Any, names: Sequence[str] | None) -> Table:
    if getattr(matrix, "ndim", 2) != 2:
        raise TamisError(f"Expected 2D array, got {matrix.ndim}D array instead, so there are no columns to read. Reshape your data.")
    columns = matrix.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return _table(columns, _SparseReader, None, names, columns.shape[0], "scipy", width=columns.shape[1], native=matrix)


def _from_mapping(columns: Mapping[Any, Any], names: Sequence[str] | None) -> Table:
    cells = {
        name: column if hasattr(column, "__len__") and not isinstance(column, str) else list(column) for name, column in columns.items()
    }
    lengths = {len(column) for column in cells.values()}
    if len(lengths) > 1:
        raise TamisError(f"The columns of the dict have {min(lengths)} to {max(lengths)} cells, so they form no table; make them equal.")
    picked = list(cells.values())
    table = _table(picked.__getitem__, _SeriesReader, tuple(cells), names, max(lengths, default=0), "dict", named=True)
    return replace(table, native=columns)


def _from_frame(frame: Any, root: str, names: Sequence[str] | None) -> Table:
    if root == "narwhals":
        frame = frame.to_native()
        root = type(frame).__module__.partition(".")[0]
    if hasattr(frame, "collect") and not hasattr(frame, "shape"):
        raise TamisError(f"A {type(frame).__name__} has not been computed yet, so it cannot be read; call .collect() first.")
    if len(getattr(frame, "shape", (0, 0))) != 2:
        raise TamisError(f"A {type(frame).__name__} is a single column, so it is no table; pass a frame, such as series.to_frame().")
    if root == "pyarrow":
        pick, found, n_rows = frame.column, frame.schema.names, frame.num_rows
    elif hasattr(frame, "iloc"):
        pick, found, n_rows = (lambda position: frame.iloc[:, position]), list(frame.columns), frame.shape[0]
    elif root == "polars":
        pick, found, n_rows = frame.to_series, frame.columns, frame.height
    else:
        pick, found, n_rows = _other_frame(frame)
    table = _table(pick, _SeriesReader, _own_names(found), names, n_rows, root, width=len(found))
    return replace(table, native=frame)


def _own_names(found: Sequence[Any]) -> tuple[str, ...] | None:
    """The names of a frame if they are texts; a frame numbered like an array has none."""
    texts = [isinstance(name, str) for name in found]
    if any(texts) and not all(texts):
        odd = found[texts.index(False)]
        raise TamisError(
            f"Column names must all be text, but one is {odd!r}, so rules could not be written: feature names are only supported "
            "if all input features have string names; rename the columns, for example with X.columns = X.columns.astype(str)."
        )
    return tuple(found) if found and all(texts) else None


def _other_frame(frame: Any) -> tuple[Callable[[int], Any], list[str], int]:
    """Whatever else narwhals can read eagerly."""
    import narwhals as nw

    try:
        eager = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise TamisError(f"A {type(frame).__name__} cannot be read as a table of columns; {ACCEPTED}.") from error
    found = eager.columns
    return (lambda position: eager.get_column(found[position]).to_native()), found, eager.shape[0]


def _table(
    source: Any,
    reader: Callable[[Any, tuple[str, ...]], Callable[[int], Values]],
    own: tuple[str, ...] | None,
    given: Sequence[str] | None,
    n_rows: int,
    backend: str,
    *,
    width: int | None = None,
    named: bool | None = None,
    native: Any = None,
) -> Table:
    """Names settled and checked, the rest wrapped."""
    width = len(own or ()) if width is None else width
    chosen = tuple(given) if given is not None else own
    if chosen is not None and len(chosen) != width:
        raise TamisError(f"{len(chosen)} names were given for {width} columns, so they cannot be matched; give one name per column.")
    if not width:
        raise TamisError(
            f"Found array with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required; pass a table with columns."
        )
    twice = [name for name, count in Counter(chosen or ()).items() if count > 1]
    if twice:
        listed = ", ".join(map(repr, twice[:5])) + (f" and {len(twice) - 5} more" if len(twice) > 5 else "")
        raise TamisError(f"More than one column is named {listed}, so a rule could not say which it means; rename them.")
    names = chosen if chosen is not None else tuple(f"x{position}" for position in range(width))
    has_names = chosen is not None if named is None else named
    return Table(names, n_rows, backend, has_names, source if native is None else native, reader(source, names), n_rows)
