"""Compiled twins of the loops in `reference`; imported only by `dispatch`, and only when the work is worth the compile.

All sums are integer sums, so any order and any number of threads gives the same bits as the reference.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

WORD_BLOCK = 128  # words of a row block: one block of every plane stays in the cache


def _compiled(function: Callable[..., Any]) -> Any:
    """njit with an on-disk cache, or without one where no cache folder is writable (numba raises there)."""
    try:
        return numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    except RuntimeError:
        return numba.njit(nogil=True, boundscheck=False)(function)


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    """The processor's own count of set bits, which LLVM also vectorises."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


def _conjunction_sums(literals, nodes, starts, extensions, planes, group, power, groups, support, sums):  # type: ignore[no-untyped-def]
    words = literals.shape[1]
    mask = np.empty(WORD_BLOCK, np.uint64)
    both = np.empty(WORD_BLOCK, np.uint64)
    for node in range(nodes.shape[0]):
        for first in range(0, words, WORD_BLOCK):
            size = min(WORD_BLOCK, words - first)
            any_row = np.uint64(0)
            for w in range(size):
                mask[w] = ~np.uint64(0)
            for depth in range(nodes.shape[1]):
                literal = nodes[node, depth]
                if literal >= 0:
                    for w in range(size):
                        mask[w] &= literals[literal, first + w]
            for w in range(size):
                any_row |= mask[w]
            if any_row == 0:
                continue
            for at in range(starts[node], starts[node + 1]):
                literal = extensions[at]
                covered = np.int64(0)
                for w in range(size):
                    both[w] = mask[w] & literals[literal, first + w]
                    covered += np.int64(_popcount(both[w]))
                if covered == 0:
                    continue
                support[at] += covered
                for plane in range(planes.shape[0]):
                    count = np.int64(0)
                    for w in range(size):
                        count += np.int64(_popcount(both[w] & planes[plane, first + w]))
                    sums[at, group[plane]] += count * power[plane]


_conjunction_sums_compiled = _compiled(_conjunction_sums)


def conjunction_sums(literals: Any, rows: int, nodes: Any, starts: Any, extensions: Any, values: Any) -> Any:
    """Same contract as `reference.conjunction_sums`."""
    planes, group, power = values.planes
    support = np.zeros(len(extensions), dtype=np.int64)
    sums = np.zeros((len(extensions), len(values.values)), dtype=np.int64)
    _conjunction_sums_compiled(literals, nodes, starts, extensions, planes, group, power, len(values.values), support, sums)
    return support, sums


def loaded() -> bool:
    """True; importing this module is what costs, so being able to call this says it has been paid."""
    return importlib.util.find_spec("numba") is not None
