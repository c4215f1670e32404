"""From a file to what an estimator takes: features, target, weights, the task, and rows kept for a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.cli.request import DataSource
from tamis.core.errors import TamisError
from tamis.tables.readers import read_table
from tamis.tables.source import unknown_column

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 10  # whole numbers with more distinct values than this are measured, not classes


@dataclass(frozen=True)
class Examples:
    """Rows ready for an estimator."""

    features: pa.Table
    target: Any
    weights: Any = None

    def rows(self, positions: Any) -> Examples:
        """Some of the rows."""
        target = named(np.asarray(self.target)[positions], self.target.name)
        return Examples(self.features.take(positions), target, None if self.weights is None else self.weights[positions])


def load(source: DataSource) -> pa.Table:
    """The data file without the columns to drop, after checking that every column named exists."""
    table = read_table(source.train, source.table, drop=[name for name in source.drop if name != source.target])
    named = [("--target", source.target), ("--weights", source.weights), *(("--id", name) for name in source.identifiers)]
    for role, name in named:
        if name is not None and name not in table.column_names:
            raise TamisError(f"{role}: " + unknown_column(name, table.column_names, f"'{source.train}'"))
    return table


def examples_of(table: pa.Table, source: DataSource) -> tuple[Examples, str]:
    """Features, target and weights of a table, and the task: "classify" or "regress"."""
    target, task = read_target(table.column(source.target), source)
    weights = None if source.weights is None else _weights(table.column(source.weights), source.weights)
    apart = {source.target, source.weights, *source.identifiers}
    features = table.select([name for name in table.column_names if name not in apart])
    if not features.num_columns:
        raise TamisError(
            f"'{source.train}' has no column beside the target '{source.target}', so there is nothing to learn from; add columns."
        )
    return Examples(features, target, weights), task


def read_target(column: pa.ChunkedArray, source: DataSource) -> tuple[Any, str]:
    """The target as numpy values, and the task it suggests (or the one that was asked for)."""
    import pyarrow as pa

    kind, name = column.type, source.target
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    missing = column.null_count + (int(np.isnan(column.to_numpy()).sum()) - column.null_count if pa.types.is_floating(kind) else 0)
    if missing:
        rows = "1 row" if missing == 1 else f"{missing} rows"
        raise TamisError(
            f"The target '{name}' is missing in {rows}, and rows without it teach nothing; fill it in or leave those rows out."
        )
    if source.task == "regress" and not numeric:
        raise TamisError(
            f"The target '{name}' holds {kind}, so it cannot be predicted as a number; say --task classify, or choose another column."
        )
    values = (
        column.to_numpy() if numeric or pa.types.is_boolean(kind) else np.array([str(value) for value in column.to_pylist()], dtype=object)
    )
    task = source.task if source.task != "auto" else "classify" if _few(values, numeric) else "regress"
    if task == "classify" and numeric and np.all(values == np.round(values)):
        values = values.astype(np.int64)
    return named(values, name), task


class NamedValues(np.ndarray[Any, Any]):
    """Values of a column that know its name, as a frame's columns do: estimators read `y.name` for their texts."""

    name: str = ""


def named(values: Any, name: str) -> NamedValues:
    """An array with a name."""
    found = np.asarray(values).view(NamedValues)
    found.name = name
    return found


def _few(values: Any, numeric: bool) -> bool:
    """Whether values look like classes: not numbers, or few whole numbers."""
    if not numeric:
        return True
    distinct = np.unique(values)
    return len(distinct) <= FEW and bool(np.all(distinct == np.round(distinct)))


def _weights(column: pa.ChunkedArray, name: str) -> Any:
    """Sample weights; the estimators judge their values, here only that they are numbers."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
        raise TamisError(f"The weights '{name}' must be a number in every row, so that each row counts for something known; fill them in.")
    return column.to_numpy().astype(float)


def split(examples: Examples, share: float, task: str, seed: int) -> tuple[Examples, Examples]:
    """Rows to learn from and rows to test on; classes keep their shares."""
    from sklearn.model_selection import train_test_split

    everything = np.arange(examples.features.num_rows)
    counts = np.unique(examples.target, return_counts=True)[1] if task == "classify" else np.array([2])
    tested = int(np.ceil(share * len(everything)))
    stratify = (
        examples.target if task == "classify" and counts.min() >= 2 and min(tested, len(everything) - tested) >= len(counts) else None
    )
    if not 0 < tested < len(everything):
        raise TamisError(f"--holdout {share} of {len(everything)} rows leaves nothing to learn from; choose another share.")
    kept, test = train_test_split(everything, test_size=tested, random_state=seed, stratify=stratify)
    return examples.rows(np.sort(kept)), examples.rows(np.sort(test))


def fingerprint(table: pa.Table) -> str:
    """A checksum of the data as it was read: a resumed run must see the same rows."""
    import hashlib

    import pyarrow as pa

    digest = hashlib.blake2b(digest_size=16)
    with pa.ipc.new_stream(pa.PythonFile(_Hashed(digest), mode="w"), table.schema) as stream:
        stream.write_table(table, max_chunksize=1 << 16)
    return digest.hexdigest()


class _Hashed:
    """A file that keeps nothing but a checksum of what is written to it."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self._digest, self._written = digest, 0

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        """Nothing is open."""
