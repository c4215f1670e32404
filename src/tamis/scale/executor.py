"""One tiny interface for work in parts: map in order, reduce in a fixed tree.

Results never depend on how many workers there are or which one is quicker: `map` gives them in the order of the
parts, and `reduce` combines them along a tree whose shape depends on the number of parts alone, so that even
floating-point sums have the same bits everywhere. Whoever brings another cluster writes these two methods, or
uses joblib's own backends: inside `joblib.parallel_config(backend=...)` the joblib executor follows that choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce as fold_left
from itertools import islice
from operator import add
from typing import Any, TypeVar

from tamis.core.errors import TamisError

Part = TypeVar("Part")
Result = TypeVar("Result")
Item = TypeVar("Item")

KINDS = ("threads", "processes")


class Executor(ABC):
    """Runs a function on parts. Subclasses only say how `map` runs."""

    @abstractmethod
    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Results in the order of the parts; only a window of parts is taken ahead of the one waited for."""

    def reduce(
        self, function: Callable[[Part], Result], parts: Iterable[Part], combine: Callable[[Result, Result], Result] = add, tree: int = 4
    ) -> Result:
        """All results combined, neighbours first; `combine` must be associative and must not change its arguments."""
        return fold_tree(self.map(function, parts), lambda group: fold_left(combine, group), tree)


class Serial(Executor):
    """One part after the other, in this thread."""

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """The builtin map."""
        return map(function, parts)


@dataclass(frozen=True)
class Joblib(Executor):
    """Threads (for kernels that release the interpreter lock) or processes (for whole paths) through joblib."""

    n_jobs: int | None = None
    kind: str = "threads"

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Results as they become due; stopping early cancels what has not begun."""
        from joblib import Parallel, effective_n_jobs

        workers = effective_n_jobs(self.n_jobs)
        if workers == 1:
            return map(function, parts)
        # Made here, not in the generator: it reads joblib's configuration, which may be gone at the first `next`.
        return in_windows(Parallel(n_jobs=self.n_jobs, prefer=self.kind, return_as="generator"), function, parts, 16 * workers)


@dataclass(frozen=True)
class Dask(Executor):
    """A dask cluster: the caller passes a `distributed.Client` and keeps owning it."""

    client: Any

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Results in order, with twice as many parts under way as the cluster has threads."""
        ahead = 2 * max(1, sum(self.client.nthreads().values()))
        waiting: deque[Any] = deque()
        try:
            for part in parts:
                waiting.append(self.client.submit(function, part, pure=False))
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            self.client.cancel(list(waiting))

    def reduce(
        self, function: Callable[[Part], Result], parts: Iterable[Part], combine: Callable[[Result, Result], Result] = add, tree: int = 4
    ) -> Result:
        """The same tree, combined where the results lie: only the last one travels to the caller."""
        leaves = (self.client.submit(function, part, pure=False) for part in parts)
        result: Result = fold_tree(leaves, lambda group: self.client.submit(fold_group, combine, *group, pure=False), tree).result()
        return result


def executor(n_jobs: int | None = None, kind: str = "threads", client: Any = None) -> Executor:
    """The executor that the usual parameters ask for.

    Parameters
    ----------
    n_jobs : int, optional
        As in scikit-learn: None is 1 unless joblib's configuration says otherwise, -1 all cores.
    kind : {"threads", "processes"}
        What joblib should start; processes suit long pure-Python tasks.
    client : distributed.Client, optional
        Run on this dask cluster instead.

    Examples
    --------
    >>> from tamis.scale.executor import executor
    >>> list(executor(1).map(len, ["one", "three"]))
    [3, 5]
    >>> executor(1).reduce(len, ["one", "three"])
    8
    """
    if client is not None:
        return Dask(client)
    if kind not in KINDS:
        raise TamisError(
            f"kind={kind!r} is not a way to run in parallel, so nothing was started; use one of {', '.join(map(repr, KINDS))}."
        )
    if n_jobs == 0:
        raise TamisError("n_jobs=0 leaves nobody to do the work; use 1 for one worker or -1 for all cores.")
    return Serial() if n_jobs == 1 else Joblib(n_jobs, kind)


def in_windows(parallel: Any, function: Callable[[Part], Result], parts: Iterable[Part], size: int) -> Iterator[Result]:
    """One pool, fed a window at a time: joblib alone would run ahead without limit and keep every result."""
    from joblib import delayed

    rest = iter(parts)
    with parallel:
        while window := list(islice(rest, size)):
            yield from parallel(delayed(function)(part) for part in window)


def fold_group(combine: Callable[[Result, Result], Result], *group: Result) -> Result:
    """Combine one group where it lies (dask sends this function to the worker)."""
    return fold_left(combine, group)


def fold_tree(items: Iterable[Item], fold: Callable[[Sequence[Item]], Item], tree: int) -> Item:
    """Fold neighbours in groups of `tree`, level by level, holding at most `tree` items per level."""
    if tree < 2:
        raise TamisError(f"tree={tree} never combines anything; use 2 or more.")
    levels: list[list[Item]] = []
    for item in items:
        height, carried = 0, item
        while True:
            if height == len(levels):
                levels.append([])
            levels[height].append(carried)
            if len(levels[height]) < tree:
                break
            carried = fold(levels[height])
            levels[height] = []
            height += 1
    rest: list[Item] = []
    for level in levels:  # what stands higher came earlier
        group = [*level, *rest]
        rest = [fold(group)] if len(group) > 1 else group
    if not rest:
        raise TamisError("There are no parts, so there is nothing to combine; pass at least one.")
    return rest[0]
