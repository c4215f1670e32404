"""The `.tamis` file: the same bytes for the same model, everything back to the bit, readable without tamis, for ever."""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_store import ARRAYS, JSON, interrupted_at, names, one_sentence, put, same, same_arrays
from tamis.core.errors import TamisError, TamisFileError
from tamis.store.model_file import DIRECTORY, MEMBERS, read_model, write_model

FIXTURES = Path(__file__).parent / "fixtures"

# What the fixture holds; it was written by the first release, and every later one must read it.
META = {
    "C": 1.0,
    "bound": float("-inf"),
    "classes": ["non", "été", 3, True, None],
    "$schema": {"cuts": [0.1, -0.0, 1e300]},
    "text": 'quote " and \\ and \n',
    "nested": {"empty": [], "gap": float("nan")},
}
DATA: dict[str, Any] = {
    "knot0.coefficients": np.array([[1.5, -2.0], [np.nan, np.inf]]),
    "knot0.flat": np.array([3, 1, 2], dtype=np.int64),
    "state.bits": np.arange(16, dtype=np.uint8).reshape(2, 8),
    "empty": np.zeros((0, 3)),
    "levels": np.array(["a", "été", ""]),
    "a/../π": np.array([True, False]),
    "when": np.array(["2026-01-01", "NaT"], dtype="M8[s]"),
    "scalar": np.array(7, dtype=np.int32),
}


@settings(max_examples=100)
@given(st.text(min_size=1, max_size=5), JSON, ARRAYS)
def test_everything_comes_back_the_same(tmp_path_factory: pytest.TempPathFactory, kind: str, meta: dict[str, Any], arrays: Any) -> None:
    path = tmp_path_factory.mktemp("model") / "a.tamis"
    write_model(path, kind, meta, arrays)
    found = read_model(path)
    assert found[0] == kind
    assert same(found[1], meta)
    assert same_arrays(found[2], arrays)
    first = path.read_bytes()
    write_model(path, kind, meta, dict(reversed(arrays.items())))
    assert path.read_bytes() == first  # the order in which arrays were collected does not count
    write_model(path, *found)
    assert path.read_bytes() == first


def test_the_first_releases_file_is_read_and_written_byte_by_byte(tmp_path: Path) -> None:
    kind, meta, arrays = read_model(FIXTURES / "model-1.0.tamis")
    assert kind == "Sample"
    assert same(meta, META)
    assert same_arrays(arrays, DATA)
    write_model(tmp_path / "again.tamis", "Sample", META, DATA)
    assert (tmp_path / "again.tamis").read_bytes() == (FIXTURES / "model-1.0.tamis").read_bytes()
    # Should somebody write the fixture anew, this still knows the old one.
    assert hashlib.sha256((FIXTURES / "model-1.0.tamis").read_bytes()).hexdigest() == FIXTURE_HASH


FIXTURE_HASH = "ec550a75f4465e1960de45be39153bc21ef33b470782d9609077deb93ec62aa5"


def test_it_can_be_read_without_tamis(tmp_path: Path) -> None:
    path = tmp_path / "a.tamis"
    write_model(path, "Sample", META, DATA)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(archive.namelist())
        document = json.loads(archive.read("meta.json"))
        found = {name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False) for name in archive.namelist() if name.endswith(".npy")}
    assert {key: document[key] for key in ("format", "version", "kind")} == {"format": "tamis model", "version": [1, 0], "kind": "Sample"}
    assert document["meta"]["bound"] == {"$float": "-inf"}
    safe = {name: array for name, array in DATA.items() if "/" not in name}
    assert same_arrays(safe, {name: found[f"arrays/{name}.npy"] for name in safe})
    assert not any(".." in name.split("/") or name.startswith("/") for name in found)


def rebuilt(path: Path, method: int = zipfile.ZIP_STORED, **changes: Any) -> Path:
    """The same model as other software might pack it, with keys added to or replaced in meta.json."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["meta.json"] = json.dumps(json.loads(members["meta.json"]) | changes).encode()
    other = path.with_name("rebuilt.tamis")
    with zipfile.ZipFile(other, "w", method) as archive:
        for name in reversed(members):
            archive.writestr(name, members[name])
        archive.writestr("notes/added by a later version.txt", "unknown members are ignored")
    return other


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("version", [[1, 0], [1, 7], [1, 2, "beta"], [0, 9]])
def test_later_minor_versions_load(tmp_path: Path, method: int, version: list[Any]) -> None:
    write_model(tmp_path / "a.tamis", "Sample", META | {"new": {"key": 1}}, DATA)
    kind, meta, arrays = read_model(rebuilt(tmp_path / "a.tamis", method, version=version, compression={"of": "later"}))
    assert kind == "Sample"
    assert same(meta, META | {"new": {"key": 1}})
    assert same_arrays(arrays, DATA)


def test_later_major_versions_are_refused_in_one_sentence(tmp_path: Path) -> None:
    write_model(tmp_path / "a.tamis", "Sample", META, DATA)
    other = rebuilt(tmp_path / "a.tamis", version=[2, 1], kind=None, arrays="elsewhere")
    with pytest.raises(TamisFileError) as caught:
        read_model(other)
    expected = f"The file '{other}' has format 2.1 and this tamis reads up to 1.x, so nothing was loaded; install a newer tamis."
    assert one_sentence(caught.value) == expected


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path: Path) -> None:
    (tmp_path / "a.tamis").write_bytes(b"old")
    small = np.zeros(1, dtype=np.uint8)
    bad: list[tuple[str, Any, Any, str]] = [
        ("", {}, {}, "The kind '' is empty, so nothing was written"),
        ("K", {"call": print}, {}, "The value at 'meta.call' is of type builtin_function_or_method"),
        ("K", {}, {"x": np.array([None])}, "The array 'x' holds values of type object"),
        ("K", {}, {5: small}, "An array is named '5'"),
        ("K", {}, {"x" * 1001: small}, "which a model file cannot hold"),
        ("K", {}, {str(i): small for i in range(MEMBERS)}, "larger than a model file can hold"),
        ("K", {}, {"π" * 990 + str(i): small for i in range(DIRECTORY // 5900)}, "larger than a model file can hold"),
        ("K", {}, {"x": np.broadcast_to(np.zeros(1), 300_000_000)}, "larger than a model file can hold"),
    ]
    for kind, meta, arrays, text in bad:
        with pytest.raises(TamisError, match=re.escape(text)) as caught:
            write_model(tmp_path / "a.tamis", kind, meta, arrays)
        one_sentence(caught.value)
    assert names(tmp_path) == ["a.tamis"]
    assert (tmp_path / "a.tamis").read_bytes() == b"old"


def test_the_largest_number_of_members_is_read_again(tmp_path: Path) -> None:
    small = np.zeros(1, dtype=np.uint8)
    write_model(tmp_path / "a.tamis", "K", {}, {str(i): small for i in range(MEMBERS - 1)})
    assert len(read_model(tmp_path / "a.tamis")[2]) == MEMBERS - 1


FILES = ("store/model_file.py", "store/atomic.py", "store/codec.py")


def test_ctrl_c_at_every_line_of_writing(tmp_path: Path) -> None:
    path, line, hit = tmp_path / "a.tamis", 0, True
    while hit:
        line += 1
        put(path, b"old")
        hit = interrupted_at(line, lambda: write_model(path, "Sample", META, {"x": DATA["scalar"]}), FILES)
        assert names(tmp_path) == ["a.tamis"]
        if path.read_bytes() != b"old":
            assert read_model(path)[0] == "Sample"
    assert line > 60


def test_ten_megabytes_take_no_time_and_little_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"knot{i}.state": rng.normal(size=62_500) for i in range(20)}
    start = time.process_time()
    write_model(tmp_path / "a.tamis", "K", {}, arrays)
    found = read_model(tmp_path / "a.tamis")[2]
    assert time.process_time() - start < 1
    assert same_arrays(arrays, found)
    deflated = rebuilt(tmp_path / "a.tamis", zipfile.ZIP_DEFLATED)
    declared = sum(array.nbytes for array in arrays.values())
    for path in (tmp_path / "a.tamis", deflated):
        tracemalloc.start()
        read_model(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.3 * declared
