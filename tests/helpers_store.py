"""What the store's tests share: Ctrl-C at any line, equality that sees every bit, arrays and JSON to try."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tamis.store import codec
from tamis.store.journal import Journal

SOURCE = str(Path(codec.__file__).resolve().parents[2])


def one_sentence(error: BaseException) -> str:
    """The message, after checking that it is one sentence: what, so ..., ; next step."""
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert ", so " in text or " and nothing else changed" in text
    assert "; " in text
    return text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put(path: Path, data: bytes | bytearray) -> None:
    """Replace a file's content without first emptying it: some file systems wait for the disk when that happens."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()


def interrupted_at(line: int, work: Callable[[], None], files: tuple[str, ...]) -> bool:
    """Run `work` with a Ctrl-C at the given line event inside `files`; False when it ended before."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, keeps the order of keys, and lets NaN equal NaN."""
    if isinstance(a, tuple):
        a = list(a)
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def same_arrays(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """The same names, kinds, shapes and bits (NaN payloads too); the machine's byte order does not count."""

    def bits(array: Any) -> tuple[Any, ...]:
        array = np.asarray(array)
        return array.dtype.newbyteorder("<").str, array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes()

    return set(a) == set(b) and all(bits(a[name]) == bits(b[name]) for name in a)


# Half surrogate pairs, quotes, backslashes, dollars and newlines included.
TEXT = st.text(st.characters(), max_size=8) | st.sampled_from(["$", "$float", "$$", "nan", "a/../b", "..", '"', "\\", "é" * 3])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.dictionaries(
    TEXT,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12),
    max_size=4,
)
KINDS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.unicode_string_dtypes(endianness="?", max_len=5),
    hnp.byte_string_dtypes(max_len=5),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
)
ARRAYS = st.dictionaries(TEXT, hnp.arrays(KINDS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)), max_size=3)


def knot(i: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The i-th record, computable by writer and checker alike."""
    rng = np.random.default_rng(i)
    # Now and then a large one, which a kill can tear in the middle of the write.
    bits = np.arange(i, i + (2_000_000 if i % 4 == 0 else i % 700)).astype(np.uint8)
    arrays = {"weights": rng.normal(size=i % 40), "state.bits": bits}
    return {"i": i, "t": float(rng.exponential()), "names": [f"règle {i}"], "gap": float("inf") if i % 3 else 0.1}, arrays


def small_journal(path: Path, count: int = 3) -> list[int]:
    """A journal of a few records; the byte where each frame ends."""
    with Journal.create(path, {"data": "fingerprint"}) as journal:
        ends = [path.stat().st_size]
        for i in range(count):
            journal.append("knot", *knot(i + 1))
            ends.append(path.stat().st_size)
    return ends


def records_of(path: Path) -> list[int]:
    """The numbers of the records a journal holds, each checked to the bit."""
    with Journal.open(path) as journal:
        found = []
        for meta, arrays in journal.records("knot"):
            assert same(meta, knot(meta["i"])[0])
            assert same_arrays(arrays, knot(meta["i"])[1])
            found.append(meta["i"])
        assert len(journal) == len(found)
        return found
