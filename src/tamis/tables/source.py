"""What is being read, before it is read: which kind of file, which table inside it, which columns."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from tamis.core.errors import TamisError

KINDS = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".duckdb": "database", ".ddb": "database", ".db": "database", ".sqlite": "database", ".sqlite3": "database",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".zst")
UNDERSTOOD = ".csv, .tsv (also .gz, .bz2, .zst), .parquet, .arrow, .feather, .duckdb, .sqlite and .db"


def split_table(path: str | Path, table: str | None = None) -> tuple[Path, str | None]:
    """`file.db::table` as (file, table); a `table` given beside it must agree."""
    name, separator, inside = str(path).rpartition("::")
    if not separator or Path(str(path)).exists():
        return Path(path), table
    if table is not None and table != inside:
        raise TamisError(f"'{path}' names the table '{inside}', but the table asked for is '{table}'; give only one of them.")
    return Path(name), inside or None


def kind_of(file: Path) -> str:
    """What a file holds, by its ending; one sentence when there is no such file or it cannot be read as data."""
    if file.is_dir():
        raise TamisError(f"'{file}' is a folder, not a data file; name one file inside it.")
    if not file.exists():
        near = get_close_matches(file.name, _names_beside(file), n=1)
        raise TamisError(f"There is no file '{file}'; " + (f"did you mean '{near[0]}'?" if near else "check its name and folder."))
    inner = file.with_suffix("") if file.suffix.lower() in PACKED else file
    kind = KINDS.get(inner.suffix.lower())
    if kind is None or (inner is not file and kind != "csv"):
        raise TamisError(f"'{file}' has an ending that is not known here; understood are {UNDERSTOOD}.")
    if file.is_file() and not file.stat().st_size:
        raise TamisError(f"'{file}' is empty (0 bytes), so there is nothing to read; check how it was written.")
    return kind


def _names_beside(file: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in file.parent.iterdir())
    except OSError:
        return []


def chosen(names: Sequence[str], columns: Sequence[str] | None, drop: Sequence[str], file: Path) -> list[str]:
    """The columns to read, in file order; an unknown or repeated name is one sentence."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            twice = f"'{file}' has more than one column named '{name}'"
            raise TamisError(f"{twice}, so a rule could not say which it means; rename one of them.")
        seen.add(name)
    for name in (*(columns or ()), *drop):
        if name not in seen:
            raise TamisError(unknown_column(name, names, f"'{file}'"))
    return [name for name in names if (columns is None or name in columns) and name not in drop]


def unknown_column(name: str, names: Sequence[str], where: str) -> str:
    """The sentence for a column that is not there, with the nearest name, or all of them when they are few."""
    near = get_close_matches(name, names, n=1) or [known for known in names if known.lower() == name.lower()]
    if near:
        return f"{where} has no column '{name}'; did you mean '{near[0]}'?"
    listed = ", ".join(f"'{known}'" for known in names[:12])
    return f"{where} has no column '{name}'; its columns are {listed}" + (f" and {len(names) - 12} more." if len(names) > 12 else ".")


def unreadable_column(name: str, file: Path, held: str) -> str:
    """The sentence for a column whose cells are neither numbers, text, dates nor booleans."""
    return f"Column '{name}' of '{file}' holds {held}, which no condition can read; leave it out (--drop '{name}')."


def first_line(error: BaseException) -> str:
    """What a library said, short enough for one sentence."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return line if len(line) <= 160 else line[:157] + "..."
