"""One column of any table as plain arrays: numbers with NaN for missing, or codes of text levels.

Everything a condition can read is one of four things: numbers, dates (microseconds since 1970, UTC), booleans,
and levels. Which of them a column holds is decided here, once, for every library a table can come from.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.core.literal import value_text

Array = NDArray[Any]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NUMERIC = ("numeric", "integer")
NAMELESS_ABSENCE = ("NoneType", "NAType", "NaTType")
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Values:
    """One column, ready to be compared.

    Attributes
    ----------
    kind : str
        "numeric", "integer", "date", "boolean" (then `numbers` is set), "level" or "ordered" (then `codes` is).
    numbers : ndarray of float64 or None
        NaN where missing; dates in microseconds since 1970 (UTC), booleans as 0 and 1.
    codes : ndarray of int or None
        Position in `levels`; -1 where missing.
    levels : tuple of str
        Level texts: in their own order when ordered, else sorted.
    zoned : bool
        Dates with a time zone (turned to UTC).
    mixed : bool
        Cells of several types, compared as text.
    costly : bool
        Made cell by cell in Python, so worth keeping.
    """

    kind: str
    numbers: Floats | None = None
    codes: Array | None = None
    levels: tuple[str, ...] = ()
    zoned: bool = False
    mixed: bool = False
    costly: bool = False

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def _cells(self) -> Array:
        cells = self.numbers if self.codes is None else self.codes
        assert cells is not None  # one of the two is always there
        return cells

    @cached_property
    def missing(self) -> Bools:
        """Where the cell holds nothing."""
        return np.isnan(self._cells) if self.codes is None else self.codes < 0

    @property
    def position(self) -> dict[str, int]:
        """Level text -> code."""
        return {level: code for code, level in enumerate(self.levels)}

    def take(self, rows: Array) -> Values:
        """The same column on some rows."""
        return replace(
            self, numbers=None if self.numbers is None else self.numbers[rows], codes=None if self.codes is None else self.codes[rows]
        )


def refused(name: str, held: str, instead: str) -> TamisError:
    """The sentence for a column no condition can read."""
    return TamisError(f"Column {name!r} holds {held}, which no condition can read; {instead}, or leave the column out.")


def numbers(cells: Any, kind: str = "numeric") -> Values:
    """A column of numbers."""
    return Values(kind, numbers=np.ascontiguousarray(cells, dtype=np.float64))


def coded(codes: Array, texts: Sequence[str], ordered: bool = False, mixed: bool = False) -> Values:
    """A column of levels from codes into texts (-1: missing); equal texts become one level, unordered ones are sorted."""
    levels = tuple(dict.fromkeys(texts)) if ordered else tuple(sorted(set(texts)))
    position = {level: code for code, level in enumerate(levels)}
    translation = np.array([*(position[text] for text in texts), -1], dtype=smallest_integer(len(levels)))
    return Values("ordered" if ordered else "level", codes=translation[codes], levels=levels, mixed=mixed)


def smallest_integer(count: int) -> type[np.signedinteger[Any]]:
    """The smallest integer type that holds -1 .. count."""
    return np.int8 if count < 2**7 else np.int16 if count < 2**15 else np.int32


def level_text(value: Any) -> str:
    """A level as text: 3.0 and 3 alike, bytes decoded."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (float, np.floating)):
        return value_text(float(value))
    return str(value)


def values_of_array(cells: Array, name: str) -> Values:
    """A one-dimensional numpy array of any type."""
    match cells.dtype.kind:
        case "b":
            return numbers(cells, "boolean")
        case "i" | "u":
            return numbers(cells, "integer")
        case "f":
            return numbers(cells)
        case "M":
            return dates(cells)
        case "O":
            return values_of_objects(cells.tolist())
        case "U" | "S" | "T":
            return values_of_objects(cells.tolist())
        case "c":
            raise refused(name, "complex numbers (Complex data not supported)", "give its real and imaginary parts as two columns")
        case "m":
            raise refused(name, "durations", "turn them into numbers such as seconds")
    raise refused(name, f"cells of type {cells.dtype}", "turn them into numbers, text or dates")


def dates(cells: Array, zoned: bool = False) -> Values:
    """A column of datetime64, NaT where missing."""
    moments = cells.astype("datetime64[us]")
    since = moments.astype(np.int64).astype(np.float64)
    since[np.isnat(moments)] = np.nan
    return Values("date", numbers=since, zoned=zoned)


def values_of_objects(cells: Sequence[Any]) -> Values:
    """Python objects: what the cells hold decides; anything mixed is compared as text."""
    kinds = set(map(type, cells))
    absent = {kind for kind in kinds if kind.__name__ in NAMELESS_ABSENCE}
    odd = tuple(kind for kind in kinds if issubclass(kind, (float, np.floating, Decimal, np.datetime64)))
    present = np.fromiter((not (type(cell) in absent or (isinstance(cell, odd) and cell != cell)) for cell in cells), bool, len(cells))
    held = {type(cell) for cell, there in zip(cells, present, strict=True) if there} if odd else kinds - absent
    filled = [cell for cell, there in zip(cells, present, strict=True) if there] if not present.all() else cells
    return replace(_of_held(filled, present, held), costly=True)


def _of_held(filled: Sequence[Any], present: Bools, held: set[type]) -> Values:
    """The column from its cells that are not missing, and their types."""
    if all(issubclass(kind, str) for kind in held) and held:
        return _spread_codes(filled, present)
    if all(issubclass(kind, (bool, np.bool_)) for kind in held) and held:
        return numbers(_spread(filled, present), "boolean")
    if all(issubclass(kind, (Number, np.bool_)) and not issubclass(kind, (complex, np.complexfloating)) for kind in held):
        whole = held and all(issubclass(kind, Integral) for kind in held)
        try:
            return numbers(_spread([float(cell) for cell in filled], present), "integer" if whole else "numeric")
        except OverflowError:  # an integer beyond every double: only its text can tell it apart
            return _spread_codes([level_text(cell) for cell in filled], present, mixed=True)
    if all(issubclass(kind, (datetime.date, np.datetime64)) for kind in held):
        zoned = any(getattr(cell, "tzinfo", None) is not None for cell in filled)
        return Values("date", numbers=_spread([micros(cell) for cell in filled], present), zoned=zoned)
    return _spread_codes([level_text(cell) for cell in filled], present, mixed=len(held) > 1)


def _spread(filled: Iterable[Any], present: Bools) -> Floats:
    """The filled cells back in their places, NaN elsewhere."""
    found = np.full(len(present), np.nan)
    found[present] = np.array(list(filled), dtype=np.float64)
    return found


def _spread_codes(filled: Sequence[str], present: Bools, mixed: bool = False) -> Values:
    """Codes of the texts in their places, -1 elsewhere."""
    seen: dict[str, int] = {}
    codes = np.full(len(present), -1, dtype=np.int64)
    codes[present] = np.fromiter((seen.setdefault(text, len(seen)) for text in filled), np.int64, len(filled))
    return coded(codes, [str(text) for text in seen], mixed=mixed)


def micros(moment: Any) -> float:
    """Microseconds since 1970 (UTC) of a date, a datetime, a datetime64 or ISO text."""
    if isinstance(moment, str):
        moment = _moment_of(moment)
    if isinstance(moment, np.datetime64):
        return float(moment.astype("datetime64[us]").astype(np.int64))
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return float((moment - EPOCH) // MICROSECOND)


def _moment_of(text: str) -> Any:
    """ISO text as a moment; numpy reads the years Python's calendar does not have."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return np.datetime64(text)


def iso_text(since: float) -> str:
    """Microseconds since 1970 as ISO text: only the date at midnight, no fraction of a second unless needed."""
    moment = np.datetime64(int(since), "us")
    for unit in ("D", "s"):
        if moment.astype(f"datetime64[{unit}]") == moment:
            return str(moment.astype(f"datetime64[{unit}]"))
    return str(moment)
