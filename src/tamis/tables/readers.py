"""Files in: CSV, TSV, Parquet, Arrow and database tables become one pyarrow table with plain columns.

Plain means numbers, text, booleans, dates and times, and levels (dictionary columns): what a condition can read.
In columns of numbers the usual spellings of "no value" (NA, NaN, null, ...) are missing; in columns of text only
the empty cell is, so that a level called "NA" is never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.core.errors import TamisError
from tamis.tables.source import chosen, first_line, kind_of, split_table, unreadable_column

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: str | Path, table: str | None = None, columns: Sequence[str] | None = None, drop: Sequence[str] = ()) -> pa.Table:
    r"""Read a file, or one table of a database file, as a pyarrow table.

    Parameters
    ----------
    path : str or Path
        A file ending in .csv, .tsv (also compressed: .gz, .bz2, .zst), .parquet, .arrow, .feather, .duckdb,
        .sqlite or .db; `file.db::table` names a table of a database.
    table : str, optional
        The table of a database file; not needed when it has only one.
    columns, drop : sequence of str, optional
        Only these columns, and not those; the others are not read at all where the format allows it.

    Returns
    -------
    pyarrow.Table
        Unique, non-empty column names; at least one row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tamis.tables.readers import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "people.csv")
    ...     _ = file.write_text("age,town\n31,Lyon\n,Oslo\n")
    ...     read_table(file).to_pydict()
    {'age': [31, None], 'town': ['Lyon', 'Oslo']}
    """
    file, inside = split_table(path, table)
    kind = kind_of(file)
    if inside is not None and kind != "database":
        raise TamisError(f"'{file}' is not a database, so it has no table '{inside}'; leave the table name out.")
    if kind == "database":
        from tamis.tables.databases import read_database

        found = read_database(file, inside, columns, drop)
    elif kind == "csv":
        from tamis.tables.delimited import read_delimited

        found = read_delimited(file, columns, drop)
    else:
        found = _read_columnar(file, kind, columns, drop)
    if not found.num_rows:
        raise TamisError(f"'{file}' names its columns but has no rows, so there is nothing to read; check how it was written.")
    return plain(found, file)


def _read_columnar(file: Path, kind: str, columns: Sequence[str] | None, drop: Sequence[str]) -> pa.Table:
    """Parquet and Arrow files; broken ones are one sentence."""
    import pyarrow as pa

    try:
        return _read_parquet(file, columns, drop) if kind == "parquet" else _read_arrow(file, columns, drop)
    except (OSError, pa.ArrowException) as error:
        what = "a Parquet" if kind == "parquet" else "an Arrow or Feather"
        raise TamisError(f"'{file}' cannot be read as {what} file ({first_line(error)}); write it again, or check its ending.") from error


def _read_parquet(file: Path, columns: Sequence[str] | None, drop: Sequence[str]) -> pa.Table:
    """Batch by batch, so that the compressed file is never held beside its columns."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(file, memory_map=True) as source:
        index = "__index_level_0__"  # how a frame's unnamed index is written: not a column of the user's
        names = [name for name in source.schema_arrow.names if name != index or name in (columns or ())]
        wanted = chosen(names, columns, drop, file)
        schema = pa.schema([source.schema_arrow.field(name) for name in wanted])
        return pa.Table.from_batches(source.iter_batches(columns=wanted), schema=schema)


def _read_arrow(file: Path, columns: Sequence[str] | None, drop: Sequence[str]) -> pa.Table:
    """The IPC file format memory-mapped, or the IPC stream format."""
    import pyarrow as pa

    source = pa.memory_map(str(file))
    try:
        table = pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        table = pa.ipc.open_stream(source).read_all()
    return table.select(chosen(table.column_names, columns, drop, file))


def plain(table: pa.Table, file: Path) -> pa.Table:
    """Every column as a type a condition can read; nested and binary columns are one sentence."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        target = _plain_type(field.type)
        if target is None:
            raise TamisError(unreadable_column(field.name, file, str(field.type)))
        if target != field.type:
            column = table.column(position)
            if isinstance(column.type, pa.BaseExtensionType):
                column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
            table = table.set_column(position, field.name, column.cast(target))
    return table.replace_schema_metadata(None)


def _plain_type(held: pa.DataType) -> Any:
    """The type to hold a column in, or None when it has none."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(held, pa.BaseExtensionType):
        held = held.storage_type
    if types.is_dictionary(held):
        return held if _plain_type(held.value_type) == held.value_type else _plain_type(held.value_type)
    if types.is_null(held) or types.is_decimal(held) or types.is_float16(held):
        return pa.float64()
    if types.is_time(held) or types.is_string_view(held):
        return pa.string()
    if types.is_duration(held):
        return pa.int64()
    text_or_time = types.is_string, types.is_large_string, types.is_date, types.is_timestamp
    return held if any(test(held) for test in (types.is_integer, types.is_floating, types.is_boolean, *text_or_time)) else None
