"""Which twin of a kernel runs: numpy until its time would have paid for compiling, numba from then on.

Compiling costs a second or two when no earlier process has left its code in numba's cache, and loading it a part of a
second when one has. So the estimated numpy seconds are added up, and the switch comes when they exceed that cost: never
much worse than the better choice, whatever the fit.
`TAMIS_KERNELS=numpy` or `numba` forces one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tamis.kernels import reference
from tamis.kernels.reference import Leaves, Literals, Net, RowValues

__all__ = ["Leaves", "Literals", "Net", "RowValues", "conjunction_sums", "kernels_in_use", "leaf_powers"]

COMPILE_SECONDS, LOAD_SECONDS = 1.5, 0.3
SECONDS_PER_CELL = 2.5e-11  # numpy twin, by matrix product in float32: per node, counted literal, row and group
SECONDS_PER_PAIR = 4e-9  # numpy twin, pair by pair: per (node, extension) and row
SMALL = 2**22  # cells below which threads are not worth starting
_spent = [0.0]  # seconds of numpy work so far in this process


def kernels_in_use() -> str:
    """What the next call will run: "numpy" or "numba"."""
    forced = os.environ.get("TAMIS_KERNELS", "")
    if forced in ("numpy", "numba"):
        return forced
    ready = "tamis.kernels.fast" in sys.modules or _spent[0] > COMPILE_SECONDS
    return "numba" if ready or (_spent[0] > LOAD_SECONDS and _compiled_before()) else "numpy"


@cache
def _compiled_before() -> bool:
    """Whether numba's cache, beside this file or where NUMBA_CACHE_DIR says, holds the kernel that is slowest to compile."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    return next(folder.rglob("fast._powers-*.nbi"), None) is not None


def _twin(seconds: float) -> Any:
    """The module to call, after noting what numpy would spend."""
    _spent.append(_spent.pop() + seconds)
    if kernels_in_use() == "numpy":
        return reference
    from tamis.kernels import fast

    return fast


def conjunction_sums(literals: Literals, nodes: Any, starts: Any, extensions: Any, values: RowValues, threads: int = 1) -> tuple[Any, Any]:
    """Support and value sums of nodes joined with their extensions; see `reference.conjunction_sums`."""
    cells = len(nodes) * literals.counted[0].size * 64.0 * (1 + len(values.values))
    by_pair = len(extensions) * literals.rows * SECONDS_PER_PAIR
    twin = _twin(by_pair if len(extensions) * 4 < len(nodes) * len(literals.words) else max(cells * SECONDS_PER_CELL, 0.2 * by_pair))
    if twin is reference or threads <= 1 or cells < SMALL:
        return tuple(twin.conjunction_sums(literals, nodes, starts, extensions, values))
    _ = values.planes, literals.by_word, literals.counted  # built once, before the threads share them

    def part(first: int, last: int) -> Any:
        inside = slice(starts[first], starts[last])
        return twin.conjunction_sums(literals, nodes[first:last], starts[first : last + 1] - starts[first], extensions[inside], values)

    return _threaded(part, len(nodes), threads)


def leaf_powers(literals: Literals, leaves: Leaves, net: Net, threads: int = 1) -> tuple[Any, Any]:
    """Power sums over the extensions of nodes; see `reference.leaf_powers`."""
    cells = len(leaves.nodes) * literals.counted[0].size * 64.0 * (1 + len(net.shifted.values))
    twin = _twin(cells * SECONDS_PER_CELL)
    if twin is reference or threads <= 1 or cells < SMALL:
        return tuple(twin.leaf_powers(literals, leaves, net))
    _ = net.shifted.planes, literals.by_word, literals.counted

    def part(first: int, last: int) -> Any:
        starts = leaves.starts[first : last + 1]
        some = replace(
            leaves, nodes=leaves.nodes[first:last], starts=starts - starts[0], extensions=leaves.extensions[starts[0] : starts[-1]],
            support=leaves.support[first:last], factor=leaves.factor[first:last], sign=leaves.sign[first:last],
        )  # fmt: skip
        return twin.leaf_powers(literals, some, net)

    return _threaded(part, len(leaves.nodes), threads)


def _threaded(part: Callable[[int, int], Any], count: int, threads: int) -> tuple[Any, Any]:
    """Slices of the nodes on threads, results in order."""
    cuts = np.unique(np.linspace(0, count, 4 * threads + 1).astype(int))
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(part, cuts[:-1].tolist(), cuts[1:].tolist()))
    return np.concatenate([first for first, _ in found]), np.concatenate([second for _, second in found])
