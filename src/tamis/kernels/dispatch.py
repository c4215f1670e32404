"""Which twin of a kernel runs: numpy until its time would have paid for compiling, numba from then on.

Compiling costs about a second in a process with a cold cache. So the estimated numpy seconds are added up,
and the switch comes when they exceed that cost: never much worse than the better choice, whatever the fit.
`TAMIS_KERNELS=numpy` or `numba` forces one.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tamis.kernels import reference
from tamis.kernels.reference import RowValues

__all__ = ["RowValues", "conjunction_sums", "kernels_in_use"]

COMPILE_SECONDS = 0.7
SECONDS_PER_ROW = 3e-9  # numpy twin, per (node, extension) pair and row
_spent = 0.0


def kernels_in_use() -> str:
    """ "numpy" or "numba": what the next call will run."""
    forced = os.environ.get("TAMIS_KERNELS", "")
    if forced in ("numpy", "numba"):
        return forced
    return "numba" if "tamis.kernels.fast" in sys.modules or _spent > COMPILE_SECONDS else "numpy"


def conjunction_sums(literals: Any, rows: int, nodes: Any, starts: Any, extensions: Any, values: RowValues, threads: int = 1) -> tuple[Any, Any]:
    """Support and value sums of nodes joined with their extensions; see `reference.conjunction_sums`."""
    global _spent
    _spent += len(extensions) * rows * SECONDS_PER_ROW
    if kernels_in_use() == "numpy":
        return reference.conjunction_sums(literals, rows, nodes, starts, extensions, values)
    from tamis.kernels import fast

    if threads <= 1 or len(extensions) * literals.shape[1] < 50_000 or len(nodes) < 2 * threads:
        return tuple(fast.conjunction_sums(literals, rows, nodes, starts, extensions, values))  # type: ignore[return-value]
    cuts = np.unique(np.searchsorted(starts, np.linspace(0, starts[-1], threads + 1)))
    cuts[0], cuts[-1] = 0, len(nodes)

    def part(first: int, last: int) -> Any:
        inside = slice(starts[first], starts[last])
        return fast.conjunction_sums(literals, rows, nodes[first:last], starts[first : last + 1] - starts[first], extensions[inside], values)

    _ = values.planes  # built once, before the threads share it
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(part, cuts[:-1], cuts[1:]))
    return np.concatenate([support for support, _ in found]), np.concatenate([sums for _, sums in found])
