"""What a linear model is fitted on: numbers in columns, with names, checked once and in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from tamis.core.chunked import Chunked
from tamis.core.design import BLOCK_BYTES, Dense, Design, Sparse
from tamis.core.errors import TamisError
from tamis.tables.contract import checked_table
from tamis.tables.frame import FRAMES

Array = NDArray[Any]
LARGEST = 1e150  # beyond this, squares leave the range of doubles


@dataclass(frozen=True)
class Columns:
    """The columns of a fit or of a prediction.

    `design` holds them as they came, in their own units.
    """

    design: Design
    names: tuple[str, ...]

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.design.shape[0]

    def __len__(self) -> int:
        return self.design.shape[1]


def checked_columns(model: Any, X: Any, *, reset: bool) -> Columns:
    """Numbers from an array, a frame, a sparse matrix, a memory-mapped array or a Chunked one."""
    if isinstance(X, Chunked):
        return _chunked(model, X, reset)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > BLOCK_BYTES:
        return _chunked(model, Chunked.of(X), reset)
    if type(X).__module__.partition(".")[0] in FRAMES and not hasattr(X, "tocsc"):
        matrix: Any = _of_frame(model, X, reset)
    else:
        matrix = validate_data(
            model, X, accept_sparse="csc", dtype=np.float64, order="F", reset=reset, ensure_all_finite=False, accept_large_sparse=True
        )
    names = column_names(model, matrix.shape[1])
    if not isinstance(matrix, np.ndarray):
        _refuse_unusable(np.asarray(matrix.data), lambda: _first_bad_sparse(matrix, names))
        return Columns(Sparse(matrix), names)
    _refuse_unusable(matrix, lambda: _first_bad(matrix, names))
    return Columns(Dense(matrix), names)


def column_names(model: Any, count: int) -> tuple[str, ...]:
    """The columns' own names, or x0, x1, ..."""
    given = getattr(model, "feature_names_in_", None)
    return tuple(map(str, given)) if given is not None else tuple(f"x{j}" for j in range(count))


def _chunked(model: Any, matrix: Chunked, reset: bool) -> Columns:
    """Blocks are read once here, to look for what cannot be used."""
    if reset:
        model.n_features_in_ = matrix.shape[1]
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
    elif matrix.shape[1] != model.n_features_in_:
        raise TamisError(
            f"X has {matrix.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} features as input; "
            "give the columns the model was fitted on."
        )
    names = column_names(model, matrix.shape[1])
    for _, part in matrix.parts():
        _refuse_unusable(part, lambda part=part: _first_bad(part, names))
    return Columns(matrix, names)


def _of_frame(model: Any, X: Any, reset: bool) -> Array:
    """A frame's numbers; a column of anything else is named."""
    table = checked_table(model, X, reset=reset)
    numbers = np.empty((table.n_rows, len(table.names)), order="F")
    for j, name in enumerate(table.names):
        values = table.column(j).numbers
        if values is None:
            raise TamisError(
                f"The column {name!r} holds text or categories, which a linear model cannot weigh, so nothing was fitted; "
                "turn it into numbers, for instance with scikit-learn's OneHotEncoder, or leave it out."
            )
        numbers[:, j] = values
    return numbers


def _refuse_unusable(cells: Array, where: Any) -> None:
    """NaN, infinity and numbers whose squares cannot be computed with."""
    if not cells.size:
        return
    largest = float(np.maximum(cells.max(), -cells.min()))
    if np.isnan(largest):
        raise TamisError(f"X contains NaN{where()}, so nothing could be computed; fill in the missing values, or drop those rows.")
    if np.isinf(largest):
        raise TamisError(f"X contains infinity{where()}, so nothing could be computed; replace it, or drop those rows.")
    if largest > LARGEST:
        raise TamisError(f"X reaches {largest:.3g}{where()}, beyond what can be computed with, so nothing was fitted; rescale that column.")


def _first_bad(matrix: Array, names: Sequence[str]) -> str:
    bad = ~(np.abs(matrix) <= LARGEST)
    columns = np.flatnonzero(bad.any(axis=0))
    return f" in column {names[columns[0]]!r} ({int(bad[:, columns[0]].sum())} rows)" if len(columns) else ""


def _first_bad_sparse(matrix: Any, names: Sequence[str]) -> str:
    bad = int(np.flatnonzero(~(np.abs(matrix.data) <= LARGEST))[0])
    return f" in column {names[int(np.searchsorted(matrix.indptr, bad, side='right')) - 1]!r}"


def penalty_factors(given: Any, names: Sequence[str]) -> Array:
    """One factor >= 0 per column, from numbers or from a mapping of names (others 1); 0 is never penalised, infinity never enters."""
    if given is None:
        return np.ones(len(names))
    if isinstance(given, Mapping):
        unknown = sorted(str(name) for name in given if name not in names)
        if unknown:
            raise TamisError(
                f"penalty_factor names {unknown[0]!r}, which is no column, so nothing was fitted; the columns begin {names[:3]}."
            )
        given = [given.get(name, 1.0) for name in names]
    try:
        factors = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise TamisError(f"penalty_factor={given!r} is no list of numbers, so nothing was fitted; give one number per column.") from error
    if factors.shape != (len(names),) or np.any(np.isnan(factors)) or factors.min(initial=0.0) < 0:
        raise TamisError(
            f"penalty_factor has shape {factors.shape} for {len(names)} columns, or holds a negative number or NaN, so nothing was fitted; "
            "give one number >= 0 per column."
        )
    return factors
