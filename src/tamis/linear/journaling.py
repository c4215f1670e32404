"""A linear fit's journal: what tells it from the journal of any other fit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tamis.core.chunked import Chunked
from tamis.core.design import Sparse
from tamis.linear.task import Task
from tamis.store.knots import open_knots, parameters_of


def open_journal(file: Any, model: Any, task: Task, said: Mapping[str, Any] | None) -> Any:
    """The journal at `file`, new or of the very same fit; None without one."""
    if file is None:
        return None
    fit = {"estimator": type(model).__name__, "parameters": parameters_of(model), "data": fingerprint(task)}
    return open_knots(file, fit, said)


def fingerprint(task: Task) -> str:
    """A hash of everything a fit reads."""
    digest, design = hashlib.sha256(), task.columns.design
    if isinstance(design, Sparse):
        matrix = design.matrix
        parts: Any = (matrix.indptr, matrix.indices, matrix.data)
    elif isinstance(design, Chunked):
        parts = (part for _, part in design.parts())
    else:
        parts = (design.block(),)
    for part in (*parts, task.target, task.weight):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\0".join(task.columns.names).encode(errors="surrogatepass"))
    return digest.hexdigest()
