"""The kernels: the compiled twin against numpy against a plain loop, and which of them runs when."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.kernels import dispatch, reference
from tamis.kernels.reference import NEGLIGIBLE, Leaves, Literals, Net, RowValues, pack_rows, unpack_rows

PACKAGE = Path(dispatch.__file__).resolve().parents[1]
EDGES = (1, 2, 63, 64, 65, 127, 128, 129)
TOPS = (0, 1, 15, 16, 32767, 2**16, 2**16 + 1, 2**31, 2**42)  # largest row values; their sums stay exact in float64


@dataclass(frozen=True)
class Work:
    """Nodes with their extensions over random literals, and what a pricing call knows about the rows."""

    truth: np.ndarray
    nodes: np.ndarray
    starts: np.ndarray
    extensions: np.ndarray
    values: np.ndarray

    @property
    def literals(self) -> Literals:
        return Literals(pack_rows(self.truth.T), len(self.truth))

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.literals, self.nodes, self.starts, self.extensions, RowValues(self.values)

    def rows_of(self, node: int) -> list[int]:
        held = [int(k) for k in self.nodes[node] if k >= 0]
        return [i for i in range(len(self.truth)) if all(self.truth[i, k] for k in held)]

    def pairs(self) -> list[tuple[int, int]]:
        """Every (node, extension), in the order of the extensions."""
        return [(node, int(k)) for node in range(len(self.nodes)) for k in self.extensions[self.starts[node] : self.starts[node + 1]]]


def random_work(rng: np.random.Generator, rows: int, literals: int, nodes: int, depth: int, groups: int, most: int, top: int) -> Work:
    """Up to `most` extensions per node, some nodes without any, paths padded with -1.

    Literals may be true everywhere or nowhere, and many are another one again or its opposite.
    """
    truth = rng.random((rows, literals)) < rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], literals)
    for k, other in enumerate(rng.integers(0, literals, literals)):
        if (kind := rng.random()) < 0.5:
            truth[:, k] = truth[:, other] ^ (kind < 0.3)
    paths = np.where(rng.random((nodes, depth)) < 0.6, rng.integers(0, literals, (nodes, depth)), -1)
    size = rng.integers(0, most + 1, nodes) * (rng.random(nodes) < 0.8)
    starts = np.concatenate([[0], np.cumsum(size)])
    return Work(truth, paths, starts, rng.integers(0, literals, int(size.sum())), rng.integers(0, top + 1, (groups, rows)))


@st.composite
def works(draw: st.DrawFn) -> Work:
    """The rows' number and the values' size are drawn, all the rest is random: small cases hide what large ones show."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = int(rng.integers(1, 13)), int(rng.integers(1, 7)), int(rng.integers(0, 4))
    return random_work(
        rng, draw(st.sampled_from(EDGES)), *shape, int(rng.integers(0, 4)), int(rng.choice([1, 12])), draw(st.sampled_from(TOPS))
    )


def plain_sums(work: Work) -> tuple[list[int], list[list[int]]]:
    """Support and sums, row by row in Python's integers."""
    support, sums = [], []
    for node, k in work.pairs():
        both = [i for i in work.rows_of(node) if work.truth[i, k]]
        support.append(len(both))
        sums.append([sum(int(group[i]) for i in both) for group in work.values])
    return support, sums


def twins() -> list[Any]:
    """The compiled one is imported where it is tested: once it is, every later fit in this process would use it."""
    return [reference, importlib.import_module("tamis.kernels.fast")]


def same_bits(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    for a, b in zip(first, second, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


@given(truth=st.integers(0, 2**32), rows=st.sampled_from(EDGES), columns=st.integers(0, 3))
def test_packing_and_unpacking_is_no_change(truth: int, rows: int, columns: int) -> None:
    given_ = np.random.default_rng(truth).random((columns, rows)) < 0.5
    words = pack_rows(given_)
    assert words.shape == (columns, math.ceil(rows / 64))
    assert np.array_equal(unpack_rows(words, rows), given_)
    assert np.array_equal(np.bitwise_count(words).sum(axis=1), given_.sum(axis=1))  # nothing beyond the last row
    for c, i in np.argwhere(given_)[:5]:
        assert int(words[c, i // 64]) >> int(i % 64) & 1


@given(works())
@settings(max_examples=150)
def test_sums_of_both_twins_are_those_of_a_plain_loop(work: Work) -> None:
    support, sums = plain_sums(work)
    found, compiled = (twin.conjunction_sums(*work.arguments) for twin in twins())
    same_bits(found, compiled)
    assert found[0].tolist() == support
    assert found[1].tolist() == sums
    assert found[1].shape == (len(work.extensions), len(work.values))


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 1000])
def test_sums_agree_at_the_edges_of_words_in_every_size(rows: int) -> None:
    """Few extensions per node and many, which numpy does in two ways."""
    for most in (1, 30):
        work = random_work(np.random.default_rng(rows), rows, 30, 8, 2, 2, most, 2**20)
        found, compiled = (twin.conjunction_sums(*work.arguments) for twin in twins())
        same_bits(found, compiled)
        assert found[0].tolist() == plain_sums(work)[0]


def test_opposite_and_repeated_literals_are_counted_as_any_other() -> None:
    """Every pattern of four literals that are one column or its opposite, at an edge of a word."""
    one = np.random.default_rng(0).random(65) < 0.5
    every = np.tile(np.arange(4), 5)
    for pattern in range(16):
        truth = np.stack([one ^ bool(pattern >> k & 1) for k in range(4)], axis=1)
        nodes = np.array([[-1], [0], [1], [2], [3]])
        work = Work(truth, nodes, 4 * np.arange(6), every, np.arange(65)[None] * 70_000)
        support, sums = plain_sums(work)
        for twin in twins():
            found = twin.conjunction_sums(*work.arguments)
            assert (found[0].tolist(), found[1].tolist()) == (support, sums)


def test_the_numpy_twin_in_small_pieces_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    for most in (1, 20):
        work = random_work(rng, 200, 20, 9, 2, 2, most, 2**17)
        leaves, net = leaf_work(work, rng, columns=2, offset=2**16, signed=False, least=0, exponent=3.0)
        whole = reference.conjunction_sums(*work.arguments), reference.leaf_powers(work.literals, leaves, net)
        with monkeypatch.context() as patch:
            patch.setattr(reference, "TWIN_CELLS", 500)
            same_bits(whole[0], reference.conjunction_sums(*work.arguments))
            same_bits(whole[1], reference.leaf_powers(work.literals, leaves, net))


@pytest.mark.parametrize("twin", [0, 1], ids=["numpy", "numba"])
def test_nodes_without_extensions_have_no_sums_and_no_powers(twin: int) -> None:
    kernels = twins()[twin]
    work = random_work(np.random.default_rng(0), 65, 4, 3, 1, 2, 0, 9)
    support, sums = kernels.conjunction_sums(*work.arguments)
    assert (support.shape, sums.shape) == ((0,), (0, 2))
    leaves, net = leaf_work(work, np.random.default_rng(0), columns=2, offset=0, signed=False, least=0, exponent=2.0)
    powers, looked = kernels.leaf_powers(work.literals, leaves, net)
    assert powers.tolist() == [0.0] * 3
    assert looked.tolist() == [0] * 3


def test_values_whose_sum_would_be_inexact_are_refused() -> None:
    with pytest.raises(OverflowError, match="too large"):
        _ = RowValues(np.full((1, 2), 2**52)).floats
    assert RowValues(np.full((1, 2), 2**51)).floats.sum() == 2**52


# ---- power sums ----------------------------------------------------------------------------------------------


def leaf_work(
    work: Work, rng: np.random.Generator, *, columns: int, offset: int, signed: bool, least: int, exponent: float
) -> tuple[Leaves, Net]:
    """The same nodes as leaves, with signed values in [-offset, offset] and weights of the rows."""
    rows, literals = work.truth.shape
    shifted = [rng.integers(0, 2 * offset + 1, (columns, rows)), *([rng.integers(1, 5, (1, rows))] if least else [])]
    support = np.array([len(work.rows_of(node)) for node in range(len(work.nodes))], dtype=np.int64)
    sign = rng.integers(-1, 2, len(work.nodes)) if signed else np.zeros(len(work.nodes), dtype=np.int64)
    leaves = Leaves(work.nodes, work.starts, work.extensions, support, rng.random(len(work.nodes)) / (1 + offset), sign)
    literal_sign = rng.integers(-1, 2, literals) if signed else np.zeros(literals, dtype=np.int64)
    return leaves, Net(RowValues(np.concatenate(shifted)), offset, columns, least, rng.random(literals), literal_sign, exponent)


def plain_powers(work: Work, leaves: Leaves, net: Net) -> tuple[list[float], list[int]]:
    """The definition: sum of (factor shrink_k |G|)^exponent over the extensions that drop rows, but neither all nor too many."""
    powers, looked = [0.0] * len(work.nodes), [0] * len(work.nodes)
    for node, k in work.pairs():
        rows = work.rows_of(node)
        both = [i for i in rows if work.truth[i, k]]
        if not both or len(both) == len(rows) or (net.least and sum(int(net.shifted.values[-1, i]) for i in both) < net.least):
            continue
        looked[node] += 1
        total = [sum(int(net.shifted.values[column, i]) - net.offset for i in both) for column in range(net.columns)]
        if way := int(leaves.sign[node]) or int(net.sign[k]):
            total = [max(way * value, 0) for value in total]
        powers[node] += (float(leaves.factor[node]) * float(net.shrink[k]) * math.hypot(*total)) ** net.exponent
    return powers, looked


@given(work=works(), seed=st.integers(0, 2**32), offset=st.sampled_from([0, 1, 100, 2**16 + 3, 2**30]), signed=st.booleans())
@settings(max_examples=300)
def test_powers_of_both_twins_are_those_of_a_plain_loop(work: Work, seed: int, offset: int, signed: bool) -> None:
    rng = np.random.default_rng(seed)
    columns, least, exponent = int(rng.integers(1, 4)), int(rng.choice([0, 1, 20, 100])), float(rng.choice([2, 3, 11, 21]))
    leaves, net = leaf_work(work, rng, columns=columns, offset=offset, signed=signed, least=least, exponent=exponent)
    exact, counted = plain_powers(work, leaves, net)
    found = [twin.leaf_powers(work.literals, leaves, net) for twin in twins()]
    for powers, looked in found:
        assert looked.tolist() == counted
        for power, truth, count in zip(powers, exact, counted, strict=True):
            assert abs(power - truth) <= 1e-12 * truth + NEGLIGIBLE * count
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-13, abs=0)


@pytest.mark.parametrize("twin", [0, 1], ids=["numpy", "numba"])
def test_powers_too_small_to_matter_are_counted_but_not_added(twin: int) -> None:
    kernels = twins()[twin]
    work = Work(np.array([[True, True], [True, False]]), np.array([[0]]), np.array([0, 1]), np.array([1]), np.zeros((0, 2), dtype=np.int64))
    zero = np.zeros(2, dtype=np.int64)
    for factor, power in ((1e-9, 0.0), (1e-7, 1e-14)):
        leaves = Leaves(work.nodes, work.starts, work.extensions, np.array([2]), np.array([factor]), zero[:1])
        net = Net(RowValues(np.array([[1, 1]])), 0, 1, 0, np.ones(2), zero, 2.0)
        powers, looked = kernels.leaf_powers(work.literals, leaves, net)
        assert (powers[0], looked[0]) == (pytest.approx(power, rel=1e-12, abs=0), 1)


# ---- threads and the choice of a twin ------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize("shape", [(1000, 60, 150), (2000, 1500, 3)])
def test_threads_change_no_bit(kernels: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough work for threads to be used; also with more threads than nodes."""
    monkeypatch.setenv("TAMIS_KERNELS", kernels)
    rng = np.random.default_rng(3)
    rows, literals, nodes = shape
    work = random_work(rng, rows, literals, nodes, 2, 2, 50, 2**18)
    leaves, net = leaf_work(work, rng, columns=2, offset=2**15, signed=True, least=5, exponent=3.0)
    assert work.literals.words.size * 64 * len(work.nodes) > dispatch.SMALL
    sums = [dispatch.conjunction_sums(*work.arguments, threads=threads) for threads in (1, 2, 3, 8)]
    powers = [dispatch.leaf_powers(work.literals, leaves, net, threads=threads) for threads in (1, 2, 3, 8)]
    for several in (sums, powers):
        for other in several[1:]:
            same_bits(several[0], other)
    same_bits(sums[0], reference.conjunction_sums(*work.arguments))


def in_a_new_process(script: str, home: Path | None = None, **environment: str) -> list[str]:
    """What a script prints, where no kernel was used before."""
    kept = {name: value for name, value in os.environ.items() if name != "TAMIS_KERNELS"}
    kept["PYTHONPATH"] = str(home or PACKAGE.parent)
    call = [sys.executable, "-c", COMMON + script]
    done = subprocess.run(call, env=kept | environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


COMMON = """
import sys
import numpy as np
from tamis.kernels import dispatch
from tamis.kernels.reference import Literals, RowValues, pack_rows

def work(rows=64, nodes=2):
    truth = np.random.default_rng(0).random((3, rows)) < 0.5
    every = np.tile(np.arange(3), nodes)
    values = RowValues(np.arange(rows)[None])
    literals, roots, starts = Literals(pack_rows(truth), rows), np.zeros((nodes, 1), dtype=int), np.arange(nodes + 1) * 3
    found = dispatch.conjunction_sums(literals, roots, starts, every, values)
    assert found[0][:3].tolist() == (truth & truth[0]).sum(axis=1).tolist()
    assert found[1][:3, 0].tolist() == ((truth & truth[0]) @ np.arange(rows)).tolist()

def used():
    assert ("tamis.kernels.fast" in sys.modules) == ("numba" in sys.modules)
    return "numba" if "numba" in sys.modules else "numpy"
"""


def test_small_work_never_loads_the_compiler() -> None:
    assert in_a_new_process("for _ in range(100): work()\nprint(dispatch.kernels_in_use(), used())") == ["numpy", "numpy"]


def test_numpy_can_be_forced_however_much_work_there_is() -> None:
    script = "dispatch.COMPILE_SECONDS = 0.0\nfor _ in range(3): work(10000)\nprint(dispatch.kernels_in_use(), used())"
    assert in_a_new_process(script, TAMIS_KERNELS="numpy") == ["numpy", "numpy"]


def test_numba_can_be_forced_however_little_work_there_is() -> None:
    script = "print(dispatch.kernels_in_use(), used())\nwork()\nprint(dispatch.kernels_in_use(), used())"
    assert in_a_new_process(script, TAMIS_KERNELS="numba") == ["numba", "numpy", "numba", "numba"]


def test_the_compiler_comes_when_numpy_has_cost_as_much() -> None:
    """Not before, once and for all, and an unknown wish forces nothing."""
    script = """
dispatch.COMPILE_SECONDS = 0.01
work()
print(dispatch.kernels_in_use(), used())
calls = 0
while used() == "numpy" and calls < 1000:
    work(5000, 20)
    calls += 1
print(1 < calls < 1000, dispatch.kernels_in_use(), used())
dispatch.COMPILE_SECONDS = 1e9
print(dispatch.kernels_in_use())
"""
    assert in_a_new_process(script, TAMIS_KERNELS="auto") == ["numpy", "numpy", "True", "numba", "numba", "numba"]


@pytest.mark.parametrize("before", [True, False])
def test_code_that_was_compiled_before_comes_sooner(before: bool, tmp_path: Path) -> None:
    if before:
        (tmp_path / "kernels").mkdir()
        (tmp_path / "kernels" / "fast._powers-1.py311.nbi").touch()
    script = """
dispatch.COMPILE_SECONDS, dispatch.LOAD_SECONDS = 1e9, 0.01
work()
print(dispatch.kernels_in_use())
while dispatch._spent[0] <= dispatch.LOAD_SECONDS:
    work(5000, 20)
print(dispatch.kernels_in_use())
"""
    assert in_a_new_process(script, NUMBA_CACHE_DIR=str(tmp_path)) == ["numpy", "numba" if before else "numpy"]


def test_kernels_are_compiled_where_no_cache_folder_can_be_written(tmp_path: Path) -> None:
    """A file stands where each folder would be, which stops an administrator, too; a plain cached function is refused there."""
    home, file = tmp_path / "home", tmp_path / "file"
    file.touch()
    shutil.copytree(PACKAGE / "kernels", home / "tamis" / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "__init__.py", home / "tamis")
    (home / "tamis" / "kernels" / "__pycache__").touch()
    (home / "tamis" / "kernels" / "plain.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef one():\n    return 1\n")
    script = """
work()
try:
    import tamis.kernels.plain
except RuntimeError as error:
    print("refused", "cache" in str(error))
print(used(), dispatch.__file__)
"""
    nowhere = {name: str(file / "cache") for name in ("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "USERPROFILE", "LOCALAPPDATA")}
    found = in_a_new_process(script, home, TAMIS_KERNELS="numba", PYTHONDONTWRITEBYTECODE="1", **nowhere)
    assert found == ["refused", "True", "numba", str(home / "tamis" / "kernels" / "dispatch.py")]
