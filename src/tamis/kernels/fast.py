"""Compiled twins of the loops in `reference`; imported only by `dispatch`, and only when the work is worth the compile.

One primitive does nearly all: for the rows of one node, the sums of bit planes over every literal at once. Words of
all literals lie side by side, so the processor counts eight literals per instruction. Sums are of integers: any
order and any number of threads gives the reference's bits. Of two opposite literals only one is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from tamis.kernels.reference import NEGLIGIBLE, Leaves, Literals, Net, RowValues


def _compiled(function: Callable[..., Any]) -> Any:
    """njit with an on-disk cache, or without one where no cache folder is writable (numba raises there)."""
    try:
        return numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    except RuntimeError:
        return numba.njit(nogil=True, boundscheck=False)(function)


def _count_bits(typing_context: Any, word: Any) -> Any:
    """The processor's own count of set bits, which LLVM also vectorises."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


_popcount: Any = intrinsic(_count_bits)


@_compiled
def _add_word(counted, planes, group, shift, word, mask, support, sums):  # type: ignore[no-untyped-def]
    """Add what one word of rows gives to the support and plane sums of every column."""
    size = counted.shape[1]
    for k in range(size):
        support[k] += np.int64(_popcount(mask & counted[word, k]))
    for four in range(len(group)):
        at = 4 * four
        plane0, plane1 = mask & planes[at, word], mask & planes[at + 1, word]
        plane2, plane3 = mask & planes[at + 2, word], mask & planes[at + 3, word]
        if (plane0 | plane1 | plane2 | plane3) == 0:
            continue
        total, left = sums[group[four]], shift[four]
        for k in range(size):
            column = counted[word, k]
            low = np.int64(_popcount(plane0 & column)) + (np.int64(_popcount(plane1 & column)) << 1)
            high = (np.int64(_popcount(plane2 & column)) << 2) + (np.int64(_popcount(plane3 & column)) << 3)
            total[k] += (low + high) << left


@_compiled
def _node_sums(by_word, counted, planes, group, shift, node, support, sums):  # type: ignore[no-untyped-def]
    """Support and sums of one node with every counted column."""
    support[:] = 0
    sums[:] = 0
    for word in range(by_word.shape[0]):
        mask = ~np.uint64(0)
        for depth in range(len(node)):
            if node[depth] >= 0:
                mask &= by_word[word, node[depth]]
        if mask != 0:
            _add_word(counted, planes, group, shift, word, mask, support, sums)


@_compiled
def _sums(by_word, halves, nodes, starts, extensions, planes, group, shift, support, sums):  # type: ignore[no-untyped-def]
    counted, place, mirrored = halves
    last = counted.shape[1] - 1
    all_support = np.zeros(last + 1, np.int64)
    all_sums = np.zeros((sums.shape[1], last + 1), np.int64)
    for node in range(nodes.shape[0]):
        if starts[node + 1] == starts[node]:
            continue
        _node_sums(by_word, counted, planes, group, shift, nodes[node], all_support, all_sums)
        for at in range(starts[node], starts[node + 1]):
            k, opposite = place[extensions[at]], mirrored[extensions[at]]
            support[at] = all_support[last] - all_support[k] if opposite else all_support[k]
            for g in range(sums.shape[1]):
                sums[at, g] = all_sums[g, last] - all_sums[g, k] if opposite else all_sums[g, k]


@_compiled
def _powers(by_word, halves, nodes, starts, extensions, planes, group, shift, node_support, factor, node_sign, net, powers, looked):  # type: ignore[no-untyped-def]
    counted, place, mirrored = halves
    offset, columns, least, shrink, sign, exponent, whole, smallest = net
    last = counted.shape[1] - 1
    support = np.zeros(last + 1, np.int64)
    sums = np.zeros((columns + 1, last + 1), np.int64)
    for node in range(nodes.shape[0]):
        _node_sums(by_word, counted, planes, group, shift, nodes[node], support, sums)
        for at in range(starts[node], starts[node + 1]):
            k, opposite = place[extensions[at]], mirrored[extensions[at]]
            rows = support[last] - support[k] if opposite else support[k]
            weight = sums[columns, last] - sums[columns, k] if opposite else sums[columns, k]
            if rows == 0 or rows >= node_support[node] or (least > 0 and weight < least):
                continue
            looked[node] += 1
            way = node_sign[node] if node_sign[node] != 0 else sign[extensions[at]]
            square = 0.0
            for column in range(columns):
                total = sums[column, last] - sums[column, k] if opposite else sums[column, k]
                value = np.float64(total - offset * rows)
                if way != 0:
                    value = max(way * value, 0.0)
                square += value * value
            weighed = factor[node] * shrink[extensions[at]] * np.sqrt(square)
            if weighed > smallest:
                powers[node] += weighed**whole if whole > 0 else weighed**exponent


def conjunction_sums(literals: Literals, nodes: Any, starts: Any, extensions: Any, values: RowValues) -> tuple[Any, Any]:
    """Same contract as `reference.conjunction_sums`."""
    support = np.zeros(len(extensions), dtype=np.int64)
    sums = np.zeros((len(extensions), len(values.values)), dtype=np.int64)
    _sums(literals.by_word, literals.counted, nodes, starts, extensions, *values.planes, support, sums)
    return support, sums


def leaf_powers(literals: Literals, leaves: Leaves, net: Net) -> tuple[Any, Any]:
    """Same contract as `reference.leaf_powers`."""
    count = len(leaves.nodes)
    powers, looked = np.zeros(count), np.zeros(count, dtype=np.int64)
    # rho / (rho - 1) is a whole number at the usual rho but for its last bits: multiplying is ten times faster than a power
    whole = round(net.exponent) if abs(net.exponent - round(net.exponent)) < 1e-13 * net.exponent else 0
    facts = (net.offset, net.columns, net.least, net.shrink, net.sign, net.exponent, whole, NEGLIGIBLE ** (1.0 / net.exponent))
    _powers(
        literals.by_word, literals.counted, leaves.nodes, leaves.starts, leaves.extensions, *net.shifted.planes, leaves.support,
        leaves.factor, leaves.sign, facts, powers, looked,
    )  # fmt: skip
    return powers, looked
