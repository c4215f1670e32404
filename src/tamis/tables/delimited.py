"""Delimited text in: the delimiter, the encoding and the types are found out; what cannot be read says where."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.core.errors import TamisError
from tamis.tables.source import chosen, first_line

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1 << 18
BLOCK = 1 << 26  # types are inferred from one block: up to 64 MB that is the whole file
DELIMITERS = (",", ";", "\t", "|")
WIDER = {"null": "int64", "int64": "double"}  # what a column becomes when a later block does not fit; else text


def read_delimited(file: Path, columns: Sequence[str] | None = None, drop: Sequence[str] = ()) -> pa.Table:
    """A CSV or TSV file, plain or compressed, with types inferred; empty cells are missing."""
    import pyarrow as pa

    try:
        with pa.input_stream(str(file)) as stream:
            sample = stream.read(SAMPLE)
    except (OSError, pa.ArrowException) as error:
        raise TamisError(_unreadable(file, error)) from error
    text, encoding = _decoded(sample, file)
    delimiter = "\t" if _inner_ending(file) in (".tsv", ".tab") else sniff_delimiter(text)
    names, lines = _header(text, delimiter, file)
    wanted = chosen(names, columns, drop, file)
    plan = _Plan(file, names, wanted, lines, delimiter, _decimal_point(text, delimiter), encoding)
    table = plan.read({})
    _refuse_garbled(table, file)
    _refuse_open_quote(table, file)
    return _empty_text_is_missing(table)


def _inner_ending(file: Path) -> str:
    endings = [ending.lower() for ending in file.suffixes if ending.lower() not in (".gz", ".bz2", ".zst")]
    return endings[-1] if endings else ""


def _decoded(sample: bytes, file: Path) -> tuple[str, str]:
    """The first part of the file as text, and its encoding: UTF-8, or UTF-16 with a byte-order mark."""
    encoding = "utf-16" if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    if b"\0" in sample and encoding == "utf-8":
        raise TamisError(f"'{file}' holds binary data, not delimited text; check its ending, or write it as CSV.")
    decoder = codecs.getincrementaldecoder("utf-16" if encoding == "utf-16" else "utf-8-sig")()
    try:
        return decoder.decode(sample), encoding
    except UnicodeDecodeError as error:
        line = sample[: error.start].count(b"\n") + 1
        raise TamisError(_not_utf8(file, f"line {line} holds the byte 0x{sample[error.start]:02x}")) from error


def _unreadable(file: Path, error: BaseException) -> str:
    return f"'{file}' cannot be read ({first_line(error)}); check that it is whole and that you may read it."


def _not_utf8(file: Path, where: str) -> str:
    return f"'{file}' is not UTF-8 text ({where}), so its words would be garbled; save it as UTF-8 (for instance with iconv)."


def sniff_delimiter(text: str) -> str:
    r"""The delimiter under which most records of a sample are as wide as the header; a comma when none splits it.

    Examples
    --------
    >>> sniff_delimiter("a;b\n1,5;2\n")
    ';'
    """
    best = (0.0, 0, ",")
    for order, delimiter in enumerate(DELIMITERS):
        records = _records(text, delimiter, 100)
        width = len(records[0]) if records else 0
        if width > 1:
            share = sum(len(record) == width for record in records) / len(records)
            best = max(best, (share, width * len(DELIMITERS) - order, delimiter))
    return best[2]


def _records(text: str, delimiter: str, count: int) -> list[list[str]]:
    """The first complete, non-empty records of a sample."""
    whole = text if len(text) < SAMPLE // 4 else text[: text.rfind("\n") + 1]  # the last line of a full sample may be cut
    found: list[list[str]] = []
    try:
        for record in csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter):
            if record:
                found.append(record)
            if len(found) >= count:
                break
    except csv.Error:
        pass  # a cell too large for the sniffer: what came before it is enough
    return found


def _header(text: str, delimiter: str, file: Path) -> tuple[list[str], int]:
    """Column names (a nameless column is called by its position) and the number of lines they take."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        record = next((record for record in reader if any(cell.strip() for cell in record)), None)
    except csv.Error as error:
        raise TamisError(f"'{file}' has a first line that cannot be read ({first_line(error)}); write it again as CSV.") from error
    if record is not None:
        return [cell.strip() or f"column_{i}" for i, cell in enumerate(record, 1)], reader.line_num
    raise TamisError(f"'{file}' holds no text, so there is nothing to read; check how it was written.")


def _decimal_point(text: str, delimiter: str) -> str:
    """A comma where numbers are written 1,5 (only possible when something else separates the cells)."""
    if delimiter == ",":
        return "."
    cells = [cell for record in _records(text, delimiter, 200)[1:] for cell in record]
    commas = sum(bool(re.fullmatch(r"\s*-?\d+,\d+\s*", cell)) for cell in cells)
    points = sum(bool(re.fullmatch(r"\s*-?\d+\.\d+\s*", cell)) for cell in cells)
    return "," if commas and not points else "."


class _Plan:
    """How to read one delimited file; kept apart from reading so that a second attempt changes only the types."""

    def __init__(self, file: Path, names: list[str], wanted: list[str], lines: int, delimiter: str, point: str, encoding: str) -> None:
        self.file, self.names, self.wanted = file, names, wanted
        self.lines, self.delimiter, self.point, self.encoding = lines, delimiter, point, encoding

    def read(self, types: dict[str, Any], threads: bool = True) -> pa.Table:
        """Read with inferred types; widen a column and read again when a late block does not fit."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        uneven: list[Any] = []

        def keep(row: Any) -> str:
            uneven.append(row)
            return "error"

        try:
            return arrow_csv.read_csv(
                str(self.file),
                arrow_csv.ReadOptions(
                    column_names=self.names, skip_rows=self.lines, block_size=self._block(), encoding=self.encoding, use_threads=threads
                ),
                arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=keep),
                arrow_csv.ConvertOptions(column_types=types, include_columns=self.wanted, decimal_point=self.point),
            )
        except pa.ArrowInvalid as error:
            if uneven and threads:
                return self.read(types, threads=False)  # only a sequential read knows the row's number
            wider = None if uneven else self._widened(types, str(error))
            if wider is None:
                raise TamisError(self._sentence(uneven, error)) from error
            return self.read(wider, threads)
        except OSError as error:
            raise TamisError(_unreadable(self.file, error)) from error

    def _block(self) -> int:
        packed = self.file.suffix.lower() in (".gz", ".bz2", ".zst")
        return BLOCK if packed else max(1 << 16, min(self.file.stat().st_size, BLOCK))

    def _widened(self, types: dict[str, Any], said: str) -> dict[str, Any] | None:
        """The types with the column that did not fit made wider, or None when that is not what went wrong."""
        import pyarrow as pa

        found = re.search(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([\w]+)", said)
        if not found or found[2] == "string":
            return None
        name = self.names[int(found[1])]
        return types | {name: {"int64": pa.int64(), "double": pa.float64()}.get(WIDER.get(found[2], ""), pa.string())}

    def _sentence(self, uneven: list[Any], error: BaseException) -> str:
        if uneven:
            row = uneven[0]
            where = f"line {row.number}" if row.number is not None else "a line"
            start = row.text if len(row.text) <= 60 else row.text[:57] + "..."
            found = f"'{self.file}' has {row.actual_columns} cells in {where} ('{start}') where its header has {row.expected_columns}"
            return f"{found}; put cells that hold the delimiter in quotes."
        if "UTF8" in str(error):
            return _not_utf8(self.file, "after its first lines")
        if "Empty CSV" in str(error):
            return f"'{self.file}' names its columns but has no rows, so there is nothing to read; check how it was written."
        return f"'{self.file}' cannot be read as delimited text ({first_line(error)}); write it again as CSV."


def _refuse_garbled(table: pa.Table, file: Path) -> None:
    """Arrow reads text that is not UTF-8 as bytes; here it is an error."""
    import pyarrow as pa

    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise TamisError(_not_utf8(file, f"in column '{field.name}'"))


def _refuse_open_quote(table: pa.Table, file: Path) -> None:
    """A quote that is never closed swallows all later rows into one cell; that must not pass in silence."""
    import pyarrow as pa

    last = table.slice(max(table.num_rows - 1, 0), 1)
    words = [field.name for field in last.schema if pa.types.is_string(field.type)]
    swallowed = [name for name in words if "\n" in str(last.column(name)[0].as_py())]
    if not swallowed:
        return
    quotes = 0
    with pa.input_stream(str(file)) as stream:
        while block := stream.read(1 << 22):
            quotes += block.count(b'"')
    if quotes % 2:
        opened = f"'{file}' opens a quote in column '{swallowed[0]}' that is never closed"
        raise TamisError(f"{opened}, so the rows after it are lost; close or remove it.")


def _empty_text_is_missing(table: pa.Table) -> pa.Table:
    """Empty cells of text columns as missing; columns of numbers have them so already."""
    import pyarrow as pa
    from pyarrow import compute

    for position, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(position)
            empty = compute.equal(column, pa.scalar(""))
            if compute.any(empty).as_py():
                table = table.set_column(position, field.name, compute.if_else(empty, pa.scalar(None, pa.string()), column))
    return table
