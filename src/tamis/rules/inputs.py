"""Where a path of rules comes from, in plain data."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from tamis.rules.task import Task
from tamis.tables.frame import Table


def said(value: Any) -> str:
    """A parameter in words that are the same on every run: functions and objects without a repr of their own by their names."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {said(item)}" for name, item in value.items()) + "}"
    text = repr(value)
    return text if " at 0x" not in text else f"<{getattr(value, '__name__', type(value).__name__)}>"


def provenance(model: Any, table: Table, task: Task) -> dict[str, Any]:
    """Where a path comes from: versions, shape, parameters that shape the result."""
    import sklearn

    from tamis import __version__

    versions = {"tamis": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__, "python": platform.python_version()}
    parameters = {
        name: said(value) for name, value in sorted(model.get_params(deep=False).items()) if name not in ("journal", "verbose", "n_jobs")
    }
    return {
        "versions": versions,
        "rows_given": table.n_rows,
        "columns_given": len(table.names),
        "parameters": parameters,
        "link": task.link,
    }
