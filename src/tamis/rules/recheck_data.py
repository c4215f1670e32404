"""The conditions of a saved schema on raw rows, evaluated as plainly as possible: cell by cell, one column at a time.

It reads the JSON of a schema (column, operator, value, kind, members) and any table, and knows nothing of the code
that learned the schema. No condition holds on a missing cell except `missing` itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError

Array = NDArray[Any]
COLUMN, OPERATOR, VALUE, KIND, MEMBERS = range(5)
PLAIN_ARROW = ("double", "float", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def absent(cell: Any) -> bool:
    """None, NaN, NaT or pandas.NA."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (not isinstance(cell, str | bytes) and bool(cell != cell))


def text_of(cell: Any) -> str:
    """A level as text; whole numbers without `.0`."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)
    return str(cell)


def moment_of(cell: Any) -> np.datetime64:
    """A date, datetime, datetime64 or ISO text as a moment in UTC, to the microsecond below."""
    if isinstance(cell, str):
        try:
            cell = datetime.datetime.fromisoformat(cell)
        except ValueError:
            return np.datetime64(cell).astype("datetime64[us]")
    if getattr(cell, "tzinfo", None) is not None:
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    if hasattr(cell, "isoformat"):
        cell = cell.isoformat()[:26]
    return np.datetime64(cell).astype("datetime64[us]")


@dataclass(frozen=True)
class Cells:
    """One column of raw cells, read in whichever way a condition asks for."""

    name: str
    raw: Array

    @cached_property
    def missing(self) -> Array:
        """Where nothing is."""
        if self.raw.dtype.kind in "biu":
            return np.zeros(len(self.raw), dtype=bool)
        if self.raw.dtype.kind in "fM":
            return self.raw != self.raw
        return np.fromiter((absent(cell) for cell in self.raw.tolist()), bool, len(self.raw))

    @cached_property
    def kind(self) -> str:
        """One of number, boolean, date, text, or nothing when every cell is missing."""
        if self.raw.dtype.kind in "biufM":
            return "nothing" if self.missing.all() else {"b": "boolean", "M": "date"}.get(self.raw.dtype.kind, "number")
        held = {type(cell) for cell, gone in zip(self.raw.tolist(), self.missing, strict=True) if not gone}
        if not held:
            return "nothing"
        if held <= {bool, np.bool_}:
            return "boolean"
        if all(hasattr(kind, "__float__") and not issubclass(kind, str | np.str_ | np.datetime64) for kind in held):
            return "number"
        dates = (datetime.date, np.datetime64)
        return "date" if all(issubclass(kind, dates) for kind in held) else "text"

    @cached_property
    def numbers(self) -> Array:
        """As floats, NaN where missing."""
        if self.raw.dtype.kind in "biuf":
            return self.raw.astype(np.float64)
        return self._each(float, np.nan, np.float64)

    @cached_property
    def moments(self) -> Array:
        """As moments, NaT where missing."""
        if self.raw.dtype.kind == "M":
            return self.raw.astype("datetime64[us]")
        return self._each(moment_of, np.datetime64("NaT", "us"), "datetime64[us]")

    @cached_property
    def texts(self) -> tuple[Array, list[str]]:
        """(code of each cell, -1 where missing; text of each code)."""
        seen: dict[str, int] = {}
        cells = self.raw.tolist() if self.raw.dtype.kind != "M" else list(self.raw)
        codes = [-1 if gone else seen.setdefault(text_of(cell), len(seen)) for cell, gone in zip(cells, self.missing, strict=True)]
        return np.array(codes, dtype=np.int64), list(seen)

    def _each(self, read: Callable[[Any], Any], nothing: Any, dtype: Any) -> Array:
        try:
            found = [nothing if gone else read(cell) for cell, gone in zip(self.raw.tolist(), self.missing, strict=True)]
        except (TypeError, ValueError) as error:
            raise TamisError(
                f"Column {self.name!r} does not hold what it held in training ({error}), so the certificate cannot be rechecked; "
                "give the training rows."
            ) from error
        return np.array(found, dtype=dtype)

    def satisfies(self, record: Sequence[Any]) -> Array:
        """The rows on which one condition of the schema holds."""
        operator, value, kind = record[OPERATOR], record[VALUE], record[KIND]
        if operator == "missing":
            return self.missing
        if operator in ("<=", ">"):
            cells, cut = (self.moments, moment_of(value)) if kind == "date" else (self.numbers, float(value))
            return (cells <= cut) if operator == "<=" else (cells > cut)
        if operator in ("true", "false"):
            return self.numbers == (1.0 if operator == "true" else 0.0)
        levels = {str(value)} if operator in ("==", "!=") else set(record[MEMBERS])
        codes, texts = self.texts
        inside = np.array([*(text in levels for text in texts), False], dtype=bool)[codes]
        return inside if operator in ("==", "in") else ~inside & (codes >= 0)


@dataclass(frozen=True)
class Raw:
    """Any table: its column names (None for arrays without), its size, and how to read a column."""

    X: Any

    @cached_property
    def names(self) -> list[str] | None:
        """Column names, if the table has text names."""
        X = self.X
        if isinstance(X, Mapping):
            return [str(name) for name in X]
        if isinstance(X, np.ndarray):
            return list(X.dtype.names) if X.dtype.names else None
        found = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", None)
        names = None if found is None else list(found)
        return names if names and all(isinstance(name, str) for name in names) else None

    @cached_property
    def width(self) -> int:
        """How many columns."""
        if self.names is not None:
            return len(self.names)
        return len(self.X[0]) if isinstance(self.X, list | tuple) else int(self.X.shape[1])

    @cached_property
    def _compressed(self) -> Any:
        return self.X.tocsc()

    def cells(self, position: int) -> Array:
        """One column as a one-dimensional array."""
        X = self.X
        if isinstance(X, Mapping):
            return _array(list(X.values())[position])
        if isinstance(X, np.ndarray):
            return X[X.dtype.names[position]] if X.dtype.names else X[:, position]
        if isinstance(X, list | tuple):
            return _array([row[position] for row in X])
        if hasattr(X, "tocsc"):
            return np.asarray(self._compressed[:, [position]].toarray()).ravel()
        if hasattr(X, "iloc"):
            return _array(X.iloc[:, position])
        if hasattr(X, "to_series"):
            return _array(X.to_series(position))
        if hasattr(X, "column_names"):
            return _array(X.column(position))
        return _array(X[list(X.columns)[position]])


def _array(cells: Any) -> Array:
    """A column of any library as a numpy array, of objects unless it is plain numbers, booleans or dates."""
    if hasattr(cells, "to_pylist") and str(cells.type) not in PLAIN_ARROW:
        cells = cells.to_pylist()
    elif hasattr(cells, "to_numpy"):
        cells = cells.to_numpy()
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biufMO":
        return cells
    result = np.empty(len(cells), dtype=object)
    result[:] = list(cells)
    return result


def literal_rows(X: Any, schema: Mapping[str, Any]) -> tuple[Array, int]:
    """(packed truth of every literal on every row, number of rows): (literals, bytes), first row in the lowest bit."""
    table = Raw(X)
    learned = [str(column[0]) for column in schema["columns"]]
    by_name = bool(schema["named"]) and table.names is not None
    if not by_name and table.width != len(learned):
        raise TamisError(
            f"The table has {table.width} columns but the model was fitted on {len(learned)}, so its certificate cannot be rechecked; "
            "give the training table."
        )
    names = table.names if by_name and table.names is not None else learned
    place = {name: position for position, name in enumerate(names)}
    packed: list[Array] = []
    rows, name, cells = 0, None, None
    for record in schema["literals"]:
        if record[OPERATOR] == "given":
            from tamis.rules.recheck_expression import holds

            truth = holds(str(record[VALUE]), lambda column: _column(table, place, column))
        else:
            if cells is None or record[COLUMN] != name:
                name, cells = record[COLUMN], _column(table, place, record[COLUMN])
            truth = cells.satisfies(record)
        rows = len(truth)
        packed.append(np.packbits(truth, bitorder="little"))
    return (np.stack(packed) if packed else np.zeros((0, 0), dtype=np.uint8)), rows


def _column(table: Raw, place: Mapping[str, int], name: str) -> Cells:
    if name not in place:
        raise TamisError(f"The table has no column {name!r}, which the rules read, so the certificate cannot be rechecked; add it.")
    return Cells(name, table.cells(place[name]))
