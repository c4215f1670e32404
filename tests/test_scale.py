"""The executors agree with a plain loop, whoever does the work and in whatever order it finishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from functools import reduce as fold_left

import numpy as np
import pytest
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.scale.executor import Dask, Executor, Serial, executor, fold_tree


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(params=["serial", "threads", "processes", "dask"])
def work(request: pytest.FixtureRequest, client: Client) -> Executor:
    if request.param == "dask":
        return executor(client=client)
    return executor(1) if request.param == "serial" else executor(2, kind=request.param)


def slow_first(part: int) -> int:
    time.sleep(0.05 if part == 0 else 0.0)
    return part * part


def numbers(part: int) -> np.ndarray:
    return np.random.default_rng(part).normal(size=50) * 10.0 ** (part % 17 - 8)


def broken(part: int) -> int:
    if part == 3:
        raise KeyError("part three")
    return part


def test_map_keeps_the_order_of_the_parts(work: Executor) -> None:
    assert list(work.map(slow_first, range(12))) == [part * part for part in range(12)]


def test_reduce_has_the_same_bits_on_every_executor(work: Executor) -> None:
    assert work.reduce(numbers, range(37)).tobytes() == Serial().reduce(numbers, range(37)).tobytes()
    # The tree is a sum, but not the left-to-right one: equality above is not an accident of exact arithmetic.
    plain = sum(numbers(part) for part in range(37))
    assert np.allclose(work.reduce(numbers, range(37)), plain, rtol=1e-9)


def test_bits_depend_on_the_tree_or_the_test_above_shows_nothing() -> None:
    assert Serial().reduce(numbers, range(37), tree=2).tobytes() != Serial().reduce(numbers, range(37), tree=64).tobytes()


def test_an_error_in_a_part_reaches_the_caller(work: Executor) -> None:
    with pytest.raises(KeyError, match="part three"):
        list(work.map(broken, range(6)))
    with pytest.raises(KeyError, match="part three"):
        work.reduce(broken, range(6))


@pytest.mark.filterwarnings("ignore:.*tasks:UserWarning:joblib")
def test_parts_are_not_all_taken_at_once(work: Executor) -> None:
    taken = []
    parts = (taken.append(part) or part for part in range(1000))
    results = work.map(slow_first, parts)
    assert next(results) == 0
    assert len(taken) < 100
    if isinstance(results, Generator):
        results.close()


def test_nothing_to_reduce_is_one_sentence(work: Executor) -> None:
    with pytest.raises(TamisError, match="at least one"):
        work.reduce(slow_first, [])


def test_many_windows_are_as_good_as_one() -> None:
    assert list(executor(2).map(slow_first, range(200))) == [part * part for part in range(200)]


def test_threads_share_memory_and_run_together() -> None:
    met = threading.Barrier(2, timeout=20)
    assert len(list(executor(2, kind="threads").map(lambda _: met.wait(), range(2)))) == 2


def test_joblib_configuration_is_followed_when_n_jobs_is_not_given() -> None:
    from joblib import parallel_config

    met = threading.Barrier(2, timeout=20)
    with parallel_config(backend="threading", n_jobs=2):
        assert len(list(executor().map(lambda _: met.wait(), range(2)))) == 2


@given(st.lists(st.text(max_size=3), min_size=1, max_size=90), st.integers(2, 9))
def test_a_tree_is_a_fold_in_order(words: list[str], tree: int) -> None:
    sizes = []

    def fold(group: list[str]) -> str:
        sizes.append(len(group))
        return fold_left(lambda a, b: a + b, group)

    assert fold_tree(iter(words), fold, tree) == "".join(words)
    assert all(2 <= size <= tree for size in sizes)


@pytest.mark.parametrize(("options", "said"), [({"n_jobs": 0}, "n_jobs=0"), ({"n_jobs": 2, "kind": "fibres"}, "'fibres'")])
def test_bad_requests_are_quoted(options: dict[str, object], said: str) -> None:
    with pytest.raises(TamisError, match=said):
        executor(**options)
    with pytest.raises(TamisError, match="tree=1"):
        Serial().reduce(slow_first, range(3), tree=1)


def test_a_client_is_enough(client: Client) -> None:
    assert isinstance(executor(client=client), Dask)
