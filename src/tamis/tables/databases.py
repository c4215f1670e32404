"""Database tables in, read-only: DuckDB through its own Arrow output, SQLite through the standard library.

SQLite cells have types of their own, whatever their column says; each column is therefore looked at once, and
read in the narrowest type that holds all its cells.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.core.errors import TamisError
from tamis.tables.source import chosen, first_line, unreadable_column

if TYPE_CHECKING:
    import pyarrow as pa

SPELLINGS = ("", "na", "n/a", "nan", "null", "none")  # text that means "no value" in a column of numbers
ROWS = 50_000
AT_ONCE = 100  # columns looked at in one statement: SQLite caps a statement's result columns


def read_database(file: Path, table: str | None, columns: Sequence[str] | None = None, drop: Sequence[str] = ()) -> pa.Table:
    """One table or view of a DuckDB or SQLite file; the only one when none is named."""
    with file.open("rb") as stream:
        start = stream.read(16)
    if start.startswith(b"SQLite format 3\0"):
        return _read_sqlite(file, table, columns, drop)
    if start[8:12] == b"DUCK":
        return _read_duckdb(file, table, columns, drop)
    raise TamisError(f"'{file}' is neither a DuckDB nor a SQLite database, so no table can be read from it; check its ending.")


def _pick(file: Path, tables: list[str], table: str | None) -> str:
    """The table to read: the one named, or the only one there is."""
    listed = ", ".join(f"'{name}'" for name in tables)
    if not tables:
        raise TamisError(f"'{file}' has no tables, so there is nothing to read; check that it is the right database.")
    if table is None and len(tables) > 1:
        raise TamisError(f"'{file}' has several tables; name one of {listed}, as in '{file.name}::{tables[0]}'.")
    if table is None:
        return tables[0]
    same = [name for name in tables if name == table] or [name for name in tables if name.lower() == table.lower()]
    if not same:
        raise TamisError(f"'{file}' has no table '{table}'; its tables are {listed}.")
    return same[0]


def _broken(file: Path, kind: str, error: BaseException) -> str:
    said = f"'{file}' cannot be read as a {kind} database ({first_line(error)})"
    return f"{said}; close other programs that write to it, or write it again."


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def _read_duckdb(file: Path, table: str | None, columns: Sequence[str] | None, drop: Sequence[str]) -> pa.Table:
    try:
        import duckdb
    except ImportError as error:
        needed = f"'{file}' is a DuckDB database, and reading it needs duckdb"
        raise TamisError(f"{needed}; install it with: pip install 'tamis[sql]'.") from error
    try:
        with duckdb.connect(str(file), read_only=True) as connection:
            found = connection.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
            places = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in found}
            schema, name = places[_pick(file, list(places), table)]
            place = f"{quoted(schema)}.{quoted(name)}"
            names = [row[0] for row in connection.execute(f"DESCRIBE {place}").fetchall()]
            wanted = chosen(names, columns, drop, file)
            return connection.sql(f"SELECT {', '.join(map(quoted, wanted))} FROM {place}").to_arrow_table()
    except duckdb.Error as error:
        raise TamisError(_broken(file, "DuckDB", error)) from error


@contextmanager
def _sqlite(file: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection whose errors are one sentence."""
    try:
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TamisError(_broken(file, "SQLite", error)) from error


def _read_sqlite(file: Path, table: str | None, columns: Sequence[str] | None, drop: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    with _sqlite(file) as connection:
        listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        place = quoted(_pick(file, [row[0] for row in connection.execute(listing)], table))
        declared = {row[1]: str(row[2]).upper() for row in connection.execute(f"PRAGMA table_info({place})")}
        wanted = chosen(list(declared), columns, drop, file)
        types: dict[str, str] = {}
        for part in range(0, len(wanted), AT_ONCE):
            types.update(_sqlite_types(connection, place, wanted[part : part + AT_ONCE], file))
        held = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
        schema = pa.schema([(name, held[types[name]]) for name in wanted])
        reading = connection.execute(f"SELECT {', '.join(_as_type(name, types[name]) for name in wanted)} FROM {place}")
        batches = []
        while rows := reading.fetchmany(ROWS):
            arrays = [pa.array(cells, kind) for cells, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
            batches.append(pa.record_batch(arrays, schema=schema))
    return _dates(pa.Table.from_batches(batches, schema=schema), declared)


def _as_type(name: str, kind: str) -> str:
    """A column in the type it is read in; text that means "no value" becomes NULL."""
    column = quoted(name)
    if kind == "TEXT":
        return f"NULLIF(CAST({column} AS TEXT), '')"
    return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS {kind}) END"


def _sqlite_types(connection: sqlite3.Connection, place: str, names: Sequence[str], file: Path) -> Iterator[tuple[str, str]]:
    """INTEGER, REAL or TEXT per column, after one look at the types of its cells."""
    spelled = ", ".join(f"'{word}'" for word in SPELLINGS)
    counts = []
    for name in names:
        column = quoted(name)
        counts += [f"total(typeof({column}) = '{kind}')" for kind in ("integer", "real", "blob")]
        counts.append(f"total(typeof({column}) = 'text' AND lower(trim({column})) NOT IN ({spelled}))")
    found: list[Any] = list(connection.execute(f"SELECT {', '.join(counts)} FROM {place}").fetchone())
    for position, name in enumerate(names):
        integers, reals, blobs, texts = found[4 * position : 4 * position + 4]
        if blobs:
            raise TamisError(unreadable_column(name, file, "binary cells"))
        yield name, "TEXT" if texts or not integers + reals else "REAL" if reals else "INTEGER"


def _dates(table: pa.Table, declared: dict[str, str]) -> pa.Table:
    """Columns declared as dates, booleans: SQLite itself only knows text and numbers."""
    import pyarrow as pa
    from pyarrow import compute

    for position, field in enumerate(table.schema):
        kind, column = declared[field.name], table.column(position)
        if pa.types.is_string(field.type) and ("DATE" in kind or "TIME" in kind):
            target: Any = pa.date32() if "TIME" not in kind else pa.timestamp("us")
        elif pa.types.is_integer(field.type) and "BOOL" in kind and compute.all(compute.is_in(column, pa.array([0, 1, None]))).as_py():
            target = pa.bool_()
        else:
            continue
        try:
            table = table.set_column(position, field.name, column.cast(target))
        except pa.ArrowInvalid:
            continue  # not ISO dates after all: they stay text
    return table
