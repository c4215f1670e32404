"""Twenty thousand damaged model files, and files made to do harm: a correct load or one sentence, and nothing else."""

from __future__ import annotations

import io
import json
import os
import random
import re
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers_store import one_sentence, put, same, same_arrays
from tamis.core.errors import TamisFileError
from tamis.store.codec import encode_array
from tamis.store.model_file import read_model, write_model

MUTANTS = 20_000
META = {"C": 1.0, "bound": float("-inf"), "names": ["a <= 3", "été"], "scores": [[0.1, 0.2], []]}
DATA = {
    "weights": np.array([1.5, np.nan]),
    "state.bits": np.arange(8, dtype=np.uint8),
    "levels": np.array(["a", "é"]),
    "on": np.array([True, False]),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sample") / "a.tamis"
    write_model(path, "Sample", META, DATA)
    return path.read_bytes()


def correct(found: tuple[str, dict[str, Any], dict[str, Any]]) -> bool:
    return found[0] == "Sample" and same(found[1], META) and same_arrays(found[2], DATA)


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    place = rng.choice([0, len(data), rng.randrange(len(data))])
    data[place:place] = rng.choice([b"\0", b"PK\5\6", b"PK\3\4", b"\x80\x04.", rng.randbytes(rng.randrange(1, 60))])


def remove(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    del data[place : place + rng.randrange(1, 50)]


def move(data: bytearray, rng: random.Random) -> None:
    a, b, size = rng.randrange(len(data)), rng.randrange(len(data)), rng.randrange(1, 80)
    data[b : b + size] = data[a : a + size]


def overwrite(data: bytearray, rng: random.Random) -> None:
    place, size = rng.randrange(len(data)), rng.choice([1, 2, 4, 8, 100])
    data[place : place + size] = rng.choice([b"\0", b"\xff", b"\x7f", b"A"]) * size


def edit_header(data: bytearray, rng: random.Random) -> None:
    """Put a strange number into a field of a local header, a directory entry or the end record."""
    mark, size = rng.choice([(b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)])
    places = [match.start() for match in re.finditer(re.escape(mark), data)]
    width = rng.choice([1, 2, 4])
    if not places or max(places) + size > len(data):
        return  # an earlier change took it away
    place = rng.choice(places) + rng.randrange(4, size - width + 1)
    number = rng.choice([0, 1, 2, 8, 20, 45, 99, len(data), len(data) - 22, 0x7FFFFFFF, 0xFFFFFFFF, rng.randrange(1 << 32)])
    data[place : place + width] = (number % (1 << 8 * width)).to_bytes(width, "little")


def edit_text(data: bytearray, rng: random.Random) -> None:
    """Exchange one name, number or mark for another one of the same kind, wherever it stands."""
    pairs = [(b"weights", b"weightz"), (b"levels", b"weights"), (b"on.npy", b"in.npy"), (b"<f8", b"<i8"), (b"|O", b"|b"), (b"1", b"2")]
    pairs += [(b"Sample", b"Simple"), (b"bytes", b"bites"), (b"crc32", b"crc64"), (b"meta.json", b"mete.json"), (b"False", b"True ")]
    old, new = rng.choice(pairs)
    places = [match.start() for match in re.finditer(re.escape(old), data)]
    for place in rng.sample(places, rng.randrange(len(places) + 1)):
        data[place : place + len(old)] = new


CHANGES: list[Callable[[bytearray, random.Random], None]] = [
    *[flip] * 3, truncate, insert, remove, move, overwrite, *[edit_header] * 4, edit_text,
]  # fmt: skip


def test_twenty_thousand_mutants(tmp_path: Path, sample: bytes) -> None:
    rng, path = random.Random(8), tmp_path / "mutant.tamis"
    loaded = refused = 0
    start = time.process_time()
    for _ in range(MUTANTS):
        data = bytearray(sample)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            rng.choice(CHANGES)(data, rng)
            data = data or bytearray(b"x")
        put(path, data)
        try:
            assert correct(read_model(path)), bytes(data)
            loaded += 1
        except TamisFileError as error:
            one_sentence(error)
            refused += 1
    assert loaded + refused == MUTANTS
    assert loaded > 100  # dates, permissions and the like do not matter
    assert refused > 0.8 * MUTANTS
    assert time.process_time() - start < 40


def test_every_single_bit(tmp_path: Path, sample: bytes) -> None:
    """Where the header holds nothing that matters the model is the same; everywhere else the change is seen."""
    path, loaded = tmp_path / "mutant.tamis", 0
    for place in range(len(sample)):
        data = bytearray(sample)
        data[place] ^= 1 << place % 8
        put(path, data)
        try:
            found = read_model(path)
        except TamisFileError:
            continue
        loaded += 1
        assert correct(found), place
    assert 0 < loaded < 0.3 * len(sample)


def sealed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A faultless zip of any members, made by the standard library."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def document(arrays: dict[str, bytes], /, **changes: Any) -> bytes:
    listing = {name: {"bytes": len(blob), "crc32": zlib.crc32(blob)} for name, blob in arrays.items()}
    return json.dumps({"format": "tamis model", "version": [1, 0], "kind": "K", "meta": {}, "arrays": listing} | changes).encode()


def model(blob: bytes = b"", method: int = zipfile.ZIP_STORED, /, **changes: Any) -> bytes:
    """A model file with one array 'x' of any bytes and every checksum right."""
    return sealed({"arrays/x.npy": blob, "meta.json": document({"x": blob}, **changes)}, method)


def pickled(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


class Bomb:
    """What a pickled object can do to whoever unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


def patched(data: bytes, mark: bytes, field: int, form: str, value: int) -> bytes:
    """One field of the first header of a kind, changed."""
    place = data.index(mark) + field
    size = struct.calcsize(form)
    return data[:place] + struct.pack(form, value) + data[place + size :]


NUMBERS = encode_array(np.arange(4.0), "x")
ZEROS = encode_array(np.zeros(8_000_000), "x")


def twice(name: str) -> bytes:
    """A zip with two members of one name: written under another name of the same length, then renamed."""
    other = name[:-1] + "?"
    members = {"meta.json": document({"x": NUMBERS}), "arrays/x.npy": NUMBERS, other: b"{}"}
    return sealed(members).replace(other.encode(), name.encode())


def overlapping() -> bytes:
    """A member inside another one's bytes, each faultless by itself, as a bomb of many members would have them."""
    inner = sealed({"arrays/x.npy": NUMBERS})
    data = sealed({"notes.bin": inner, "arrays/x.npy": NUMBERS, "meta.json": document({"x": NUMBERS})})
    directory = data.rindex(b"PK\1\2", 0, data.rindex(b"PK\1\2"))
    return data[: directory + 42] + struct.pack("<L", 30 + len("notes.bin")) + data[directory + 46 :]


def crowded() -> bytes:
    """A directory of a million empty entries that claims to hold two."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    start = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"a"
    return start + entry * 1_000_000 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, 47_000_000, len(start), 0)


def of_size(size: int) -> bytes:
    """A deflated array that directory and listing declare to be of another size than it has."""
    facts = {"x": {"bytes": size, "crc32": zlib.crc32(NUMBERS)}}
    return patched(model(NUMBERS, zipfile.ZIP_DEFLATED, arrays=facts), b"PK\1\2", 24, "<L", size)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a pickle": lambda: b"\x80\x04\x95" + bytes(100),
    "a table": lambda: b"a,b\n1,2\n",
    "an empty zip": lambda: sealed({}),
    "a zip of something else": lambda: sealed({"word/document.xml": b"<xml/>"}),
    "pickled objects": lambda: model(pickled(np.array([Bomb()], dtype=object))),
    "a pickle instead of npy": lambda: model(b"\x80\x04cos\nabort\n)R."),
    "structured": lambda: model(pickled(np.zeros(2, dtype=[("a", "f8")]))),
    "Fortran order": lambda: model(pickled(np.asfortranarray(np.zeros((2, 3))))),
    "zip bomb": lambda: model(ZEROS, zipfile.ZIP_DEFLATED),
    "bzip2": lambda: model(NUMBERS, zipfile.ZIP_BZIP2),
    "lzma": lambda: model(NUMBERS, zipfile.ZIP_LZMA),
    "large JSON in little": lambda: sealed({"meta.json": b" " * 100_000_000}, zipfile.ZIP_DEFLATED),
    "deep JSON": lambda: sealed({"meta.json": b'{"a":' * 50_000 + b"1" + b"}" * 50_000}),
    "many JSON values": lambda: sealed({"meta.json": b"[" + b"1," * 10_000_000 + b"1]"}),
    "JSON is a list": lambda: sealed({"meta.json": b"[]"}),
    "JSON is a number": lambda: sealed({"meta.json": b"1"}),
    "unquoted NaN": lambda: sealed({"meta.json": document({}).replace(b'"meta": {}', b'"meta": {"a": NaN}')}),
    "foreign format": lambda: model(NUMBERS, format="other"),
    "no version": lambda: model(NUMBERS, version=None),
    "version is text": lambda: model(NUMBERS, version=["1", 0]),
    "version is empty": lambda: model(NUMBERS, version=[]),
    "kind is a list": lambda: model(NUMBERS, kind=["os:system"]),
    "meta is a list": lambda: model(NUMBERS, meta=[]),
    "arrays is a list": lambda: model(NUMBERS, arrays=["x"]),
    "array without facts": lambda: model(NUMBERS, arrays={"x": None}),
    "array without a size": lambda: model(NUMBERS, arrays={"x": {"crc32": zlib.crc32(NUMBERS)}}),
    "array of another checksum": lambda: model(NUMBERS, arrays={"x": {"crc32": 1, "bytes": len(NUMBERS)}}),
    "array of another size": lambda: model(NUMBERS, arrays={"x": {"crc32": zlib.crc32(NUMBERS), "bytes": 1 << 40}}),
    "array that is not there": lambda: model(NUMBERS, arrays={"y": {"crc32": zlib.crc32(NUMBERS), "bytes": len(NUMBERS)}}),
    "array of a long name": lambda: model(NUMBERS, arrays={"y" * 5000: {"crc32": zlib.crc32(NUMBERS), "bytes": len(NUMBERS)}}),
    "path upwards": lambda: sealed({"../x.npy": NUMBERS, "meta.json": document({})}),
    "path from the root": lambda: sealed({"/etc/cron.d/x": NUMBERS, "meta.json": document({})}),
    "path upwards inside": lambda: sealed({"arrays/../../x": NUMBERS, "meta.json": document({})}),
    "path of Windows": lambda: sealed({"..\\x": NUMBERS, "meta.json": document({})}),
    "drive of Windows": lambda: sealed({"C:/x": NUMBERS, "meta.json": document({})}),
    "name with a zero byte": lambda: sealed({"meta.json?x": b"", "meta.json": document({})}).replace(b"?", b"\0"),
    "two meta.json": lambda: twice("meta.json"),
    "two arrays of one name": lambda: twice("arrays/x.npy"),
    "overlapping members": overlapping,
    "a crowd of members": crowded,
    "too many members": lambda: sealed({str(i): b"" for i in range(20_001)}),
    "encrypted": lambda: patched(patched(model(NUMBERS), b"PK\1\2", 8, "<H", 1), b"PK\3\4", 6, "<H", 1),
    "larger than the file": lambda: patched(model(NUMBERS), b"PK\1\2", 24, "<L", 0x7FFFFFFF),
    "beyond the file": lambda: patched(model(NUMBERS), b"PK\1\2", 42, "<L", 0x7FFFFFF0),
    "shorter than declared": lambda: of_size(5000),
    "longer than declared": lambda: of_size(100),
    "a comment": lambda: model(NUMBERS)[:-2] + b"\x05\x00hello",
    "something before": lambda: b"#!/bin/sh\n" + model(NUMBERS),
    "something behind": lambda: model(NUMBERS) + b"\n",
    "64-bit records": lambda: model(NUMBERS)[:-22] + b"PK\6\7" + bytes(16) + model(NUMBERS)[-22:],
    "only an end record": lambda: b"PK\5\6" + bytes(18),
    "only a start": lambda: b"PK\3\4" + bytes(18),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_sentence_without_time_or_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.tamis"
    path.write_bytes(HOSTILE[name]())
    size = path.stat().st_size
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(TamisFileError) as caught:
            read_model(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"The file '{path}' is damaged or not a tamis model (" in one_sentence(caught.value)
    assert time.process_time() - start < 5
    assert peak < 2 * size + 20_000_000


def test_the_hostile_files_differ_from_a_good_one_by_little(tmp_path: Path) -> None:
    """Otherwise the test above would pass for a reader that refuses everything."""
    path = tmp_path / "good.tamis"
    zeros = encode_array(np.zeros(3), "x")
    for data in (model(NUMBERS), model(NUMBERS, zipfile.ZIP_DEFLATED), model(NUMBERS, new=1, version=[1, 9]), model(zeros)):
        put(path, data)
        kind, meta, arrays = read_model(path)
        assert (kind, meta, list(arrays)) == ("K", {}, ["x"])


def test_a_thousand_sealed_mutants(tmp_path: Path) -> None:
    """Content changed by somebody who can count checksums: plain data comes out, or one sentence."""
    rng, path, loaded = random.Random(9), tmp_path / "mutant.tamis", 0
    blobs = {name: encode_array(array, name) for name, array in DATA.items()}
    for _ in range(1_000):
        changed = {name: bytearray(blob) for name, blob in blobs.items()}
        for blob in rng.sample(list(changed.values()), 2):
            rng.choice([flip, truncate, insert, overwrite, edit_text])(blob, rng)
        text = bytearray(document({name: bytes(blob) for name, blob in changed.items()}, kind="Sample", meta={"a": [1, {"$float": "nan"}]}))
        if rng.random() < 0.3:
            rng.choice([flip, remove, move, overwrite, edit_text])(text, rng)
        members = {f"arrays/{name}.npy": bytes(blob) for name, blob in changed.items()} | {"meta.json": bytes(text)}
        path.write_bytes(sealed(members, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))
        try:
            kind, meta, arrays = read_model(path)
        except TamisFileError as error:
            one_sentence(error)
            continue
        loaded += 1
        assert isinstance(kind, str)
        assert isinstance(meta, dict)
        assert all(array.dtype.kind in "biufcSUmM" and array.tolist() is not None for array in arrays.values())
    assert 10 < loaded < 900
