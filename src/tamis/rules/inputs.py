"""Inputs checked once, in sentences; scikit-learn's own checks where its contract asks for them."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from tamis.core.errors import TamisError
from tamis.rules.task import Task
from tamis.tables.frame import Table, as_table

Array = NDArray[Any]


def checked_table(model: Any, X: Any, *, reset: bool) -> Table:
    """The input as a Table, with scikit-learn's checks of shape, names and number of columns."""
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        X = check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
    elif reset and min(np.shape(X) or (0,)) == 0:
        rows, columns = np.shape(X)
        what = f"Found array with 0 {'feature' if columns == 0 else 'sample'}(s) (shape=({rows}, {columns})) while a minimum of 1 is required"
        raise TamisError(f"{what}, so there is nothing to learn from; pass some.")
    validate_data(model, X, skip_check_array=True, reset=reset)
    return as_table(X)


def checked_target(y: Any, rows: int) -> Array:
    """One value per row."""
    if y is None:
        raise TamisError("This estimator requires y to be passed, but the target y is None; pass one value per row.")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        import warnings

        from sklearn.exceptions import DataConversionWarning

        warnings.warn("A column-vector y was passed when a 1d array was expected; it is used as one column.", DataConversionWarning, stacklevel=4)
        values = values[:, 0]
    if values.ndim != 1:
        raise TamisError(f"y should be a 1d array, but has shape {values.shape}, so nothing was fitted; give one value per row.")
    if len(values) != rows:
        raise TamisError(f"X has {rows} rows but y has {len(values)}, so they cannot be matched: inconsistent numbers of samples; give one y per row.")
    if values.dtype.kind == "c":
        raise TamisError("Complex data not supported: y holds complex numbers; give real ones.")
    missing = np.isnan(values) if values.dtype.kind == "f" else np.array([v is None or v != v for v in values]) if values.dtype.kind == "O" else np.zeros(1)
    if np.any(missing):
        raise TamisError(f"y contains NaN or missing values in {int(missing.sum())} rows, so nothing was fitted; drop those rows first.")
    if values.dtype.kind == "f" and np.any(np.isinf(values)):
        raise TamisError("y contains infinity, so nothing was fitted; drop those rows first.")
    return values


def checked_weight(sample_weight: Any, rows: int) -> Array:
    """Finite, non-negative weights, not all zero."""
    if sample_weight is None:
        return np.ones(rows)
    if np.isscalar(sample_weight):
        return np.full(rows, float(sample_weight))
    weight = np.asarray(sample_weight, dtype=float)
    if weight.ndim != 1:
        raise TamisError("Sample weights must be 1D array or scalar, so nothing was fitted; give one weight per row.")
    if weight.shape != (rows,):
        raise TamisError(f"sample_weight.shape == {weight.shape}, expected {(rows,)}!")
    if not np.all(np.isfinite(weight)) or weight.min(initial=0.0) < 0:
        raise TamisError("sample_weight holds NaN, infinite or negative values, so nothing was fitted; give weights >= 0.")
    if not weight.sum() > 0:
        raise TamisError("sample_weight is zero for every row, so there is nothing to learn from; give some rows a positive weight.")
    return weight


def target_name(y: Any) -> str:
    """The name of y if it has one."""
    name = getattr(y, "name", None)
    return str(name) if isinstance(name, str) and name else "target"


def provenance(model: Any, table: Table, task: Task) -> dict[str, Any]:
    """Where a path comes from: versions, shape, parameters."""
    import sklearn

    from tamis import __version__

    versions = {"tamis": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__, "python": platform.python_version()}
    parameters = {name: repr(value) for name, value in sorted(model.get_params(deep=False).items())}
    return {"versions": versions, "rows_given": table.n_rows, "columns_given": len(table.names), "parameters": parameters, "link": task.link}
