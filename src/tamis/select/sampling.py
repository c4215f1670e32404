"""Halves of the rows, and what a base estimator selects on each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.chunked import Chunked
from tamis.core.errors import TamisError
from tamis.core.path import Knot
from tamis.tables.folds import halves, row_hashes
from tamis.tables.frame import as_table

Array = NDArray[Any]
STEP = 0x9E3779B97F4A7C15  # what `halves` adds per sample, so that sample k can be had without those before it
DUST = 1e-9  # share of a row's weight below which what is left of it is rounding


def hashes_of(X: Any, target: Array, seed: int) -> NDArray[np.uint64]:
    """What tells equal rows from others; the same whatever holds them."""
    if isinstance(X, Chunked):
        return np.concatenate([row_hashes(as_table(block), target[where], seed) for where, block in X.parts()])
    return row_hashes(as_table(X), target, seed)


@dataclass(frozen=True)
class Halves:
    """Subsamples of half of the rows, by content: a weight of 2 is the row twice, and the order of rows changes nothing."""

    hashes: NDArray[np.uint64] = field(repr=False)
    codes: Array = field(repr=False)
    weight: Array = field(repr=False)
    pairs: bool = True

    def draw(self, count: int) -> Iterator[tuple[Array, ...]]:
        """`count` samples, as weights of rows: in pairs of a half and its complement, or one by one."""
        for k in range(count // 2 if self.pairs else count):
            yield self.one(k)

    def one(self, k: int) -> tuple[Array, ...]:
        """The k-th pair, or the k-th half."""
        salted = self.hashes + np.uint64(k * STEP % 2**64)
        half = halves(salted, self.codes, self.weight, 1)[0]
        if not self.pairs:
            return (half,)
        rest = self.weight - half
        rest[rest < DUST * self.weight] = 0.0
        return half, rest

    def check(self, classes: Sequence[Any]) -> None:
        """Refuse rows that cannot be halved: both parts need rows, and all classes."""
        half = self.one(0)[0]
        for part in (half, self.weight - half):
            there = part > DUST * self.weight
            if not there.any():
                raise TamisError("There is only one sample (one row of positive weight), so there are no halves of it; give more rows.")
            lacking = np.setdiff1d(self.codes[self.weight > 0], self.codes[there])
            if classes and len(lacking):
                raise TamisError(
                    f"The class {classes[int(lacking[0])]!r} has a single row, so one half of the rows would lack it; give it more rows."
                )


@dataclass(frozen=True)
class Sample:
    """What was selected on one sample.

    Attributes
    ----------
    chosen : tuple of str
        The pieces counted.
    free : tuple of str
        Pieces that were in before the data had a say.
    short : bool
        Whether the path ended before q had entered.
    log_candidates : float
        Logarithm of how many could have been selected.
    """

    chosen: tuple[str, ...]
    free: tuple[str, ...]
    short: bool
    log_candidates: float


@dataclass(frozen=True)
class Job:
    """The same work on every sample; sent to other processes as it is."""

    base: Any
    X: Any = field(repr=False)
    y: Array = field(repr=False)
    owner: Mapping[str, str] = field(repr=False)
    q: int | None = None
    t: float | None = None
    deadline: float | None = None
    plain: bool = False

    def __call__(self, weights: tuple[Array, ...]) -> list[Sample] | str:
        """Samples of a pair, or why it was not finished."""
        # an array that joblib mapped into memory is an array like before, not one that was too large to hold
        X = np.asarray(self.X) if self.plain else self.X
        found = []
        for weight in weights:
            if self.deadline is not None and time.time() >= self.deadline:
                return "budget"
            model = self._limited()
            model.fit(X, np.asarray(self.y), sample_weight=np.asarray(weight))
            late = self.deadline is not None and time.time() >= self.deadline
            if model.status_ == "interrupted" or (model.status_ == "budget" and late):
                return "budget" if late else "interrupted"
            found.append(self._sample(model))
        return found

    def _limited(self) -> Any:
        """The base with what is left of the time."""
        from sklearn.base import clone

        model = clone(self.base)
        if self.deadline is not None:
            left = max(self.deadline - time.time(), 0.0)
            model.set_params(time_limit=left if model.time_limit is None else min(left, model.time_limit))
        return model

    def _sample(self, model: Any) -> Sample:
        path = model.path_
        first = path.knots[0]
        free = self._owners(first.names) if first.t == 0 else ()
        size = float(path.provenance.get("log_candidates", 0.0))
        if self.t is not None:
            # before its first knot a path holds nothing, and what it was told to stop at is where it is read
            names = () if first.t > self.t * (1 + 1e-12) else path.read(self.t).names
            return Sample(tuple(name for name in self._owners(names) if name not in free), free, False, size)
        assert self.q is not None
        chosen, short = self._first(path.knots, free, self.q)
        return Sample(chosen, free, short, size)

    def _owners(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names as they are counted, each once."""
        return tuple(dict.fromkeys(self.owner.get(name, name) for name in names))

    def _first(self, knots: Sequence[Knot], free: Sequence[str], q: int) -> tuple[tuple[str, ...], bool]:
        """The first q to enter; those that enter together are counted together, or not at all where they would be more than q."""
        entered = dict.fromkeys(free)
        for knot in knots:
            together = [name for name in self._owners(knot.names) if name not in entered]
            if len(entered) - len(free) + len(together) > q:
                return tuple(entered)[len(free) :], False
            entered |= dict.fromkeys(together)
        return tuple(entered)[len(free) :], len(entered) - len(free) < q
