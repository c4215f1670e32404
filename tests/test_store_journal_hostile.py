"""Damaged and hostile journals, and those of other versions: told in one sentence, or read, and never anything else."""

from __future__ import annotations

import re
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from helpers_store import one_sentence, put, records_of, same, same_arrays, small_journal
from tamis.core.errors import TamisFileError
from tamis.store.journal import HEAD, MAGIC, Journal


def test_every_flipped_bit_is_seen(tmp_path: Path) -> None:
    """A flip in the last frame looks like a torn tail; anywhere else intact records follow, so it is told."""
    source, path = tmp_path / "source", tmp_path / "flipped"
    ends = small_journal(source)
    data = source.read_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        put(path, damaged)
        if place >= ends[-2]:
            assert records_of(path) == [1, 2]
            continue
        with pytest.raises(TamisFileError) as caught:
            Journal.open(path)
        assert path.read_bytes() == damaged
        if place < ends[0]:
            assert "start a new journal" in one_sentence(caught.value)
        elif place < ends[1]:
            assert "it was left as it is; start a new journal" in one_sentence(caught.value)
        else:
            # Doing what the sentence says gives the records before the damage.
            count = re.search(r"copy its first (\d+) bytes to a new file to go on from the 1 records before", one_sentence(caught.value))
            assert count is not None
            path.write_bytes(damaged[: int(count[1])])
            assert records_of(path) == [1]


def frame(payload: bytes, magic: bytes = MAGIC, length: int | None = None) -> bytes:
    """A frame with a right checksum around any payload."""
    size = len(payload) if length is None else length
    return HEAD.pack(magic, size, zlib.crc32(payload, zlib.crc32(size.to_bytes(8, "little")))) + payload


def with_json(text: bytes, rest: bytes = b"") -> bytes:
    return frame(len(text).to_bytes(4, "little") + text + rest)


GOOD = with_json(b'{"section":"","meta":{"format":"tamis journal","version":[1,0],"header":{}},"arrays":[]}')
HOSTILE = {
    "nothing": b"",
    "text": b"a,b\n1,2\n" * 100,
    "pickle": b"\x80\x04\x95" + bytes(100),
    "foreign header": with_json(b'{"section":"","meta":{"format":"x","version":[1,0],"header":{}},"arrays":[]}'),
    "no version": with_json(b'{"section":"","meta":{"format":"tamis journal","version":[],"header":{}},"arrays":[]}'),
    "header is a list": with_json(b'{"section":"","meta":{"format":"tamis journal","version":[1],"header":[]},"arrays":[]}'),
    "huge frame": GOOD + frame(b"", length=1 << 62) + GOOD,
    "JSON longer than the frame": GOOD + frame(b"\xff\xff\xff\xff{}"),
    "empty frame": GOOD + frame(b""),
    "not JSON": GOOD + with_json(b"nope"),
    "deep JSON": GOOD + with_json(b"[" * 100_000),
    "a list": GOOD + with_json(b"[]"),
    "no arrays": GOOD + with_json(b'{"section":"a","meta":{}}'),
    "sizes are text": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[["x","1"]]}'),
    "negative size": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[["x",-1],["y",1]]}'),
    "size too large": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[["x",1000]]}', b"abc"),
    "bytes left over": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[]}', b"abc"),
    "one name twice": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[["x",0],["x",0]]}'),
    "name is a number": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[[1,0]]}'),
    "array is no array": GOOD + with_json(b'{"section":"a","meta":{},"arrays":[["x",3]]}', b"abc"),
    "many frame heads": GOOD + b"x" + b"".join(HEAD.pack(MAGIC, 100_000, 0) for _ in range(20_000)) + GOOD,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_journals_are_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(HOSTILE[name])
    start = time.process_time()
    if name == "many frame heads":
        # Searching them all would take quadratic time; giving up means calling the rest a torn tail, on a copy.
        with Journal.open(path, append=False) as journal:
            assert journal.cut > 0
    else:
        with pytest.raises(TamisFileError) as caught, Journal.open(path) as journal:
            journal.records("a")
        one_sentence(caught.value)
        assert path.read_bytes() == HOSTILE[name]
    assert time.process_time() - start < 2


def test_versions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(GOOD)
    assert len(Journal.open(path)) == 0
    newer = b'{"section":"","meta":{"format":"tamis journal","version":[1,7],"header":{},"new":1},"arrays":[],"more":2}'
    path.write_bytes(with_json(newer) + with_json(b'{"section":"a","meta":{},"arrays":[],"why":"later"}'))
    with Journal.open(path) as journal:
        assert journal.records("a") == [({}, {})]
    path.write_bytes(with_json(newer.replace(b"[1,7]", b"[2,0]")))
    with pytest.raises(TamisFileError, match="has format 2 and this tamis reads format 1, so it was left as it is; install") as caught:
        Journal.open(path)
    one_sentence(caught.value)
    with Journal.open(FIXTURE, append=False) as journal:
        assert journal.header == {"data": "fingerprint"}
        assert [meta["i"] for meta, _ in journal.records("knot")] == [1, 2, 3]
        assert all(same(meta, FIRST[meta["i"]][0]) and same_arrays(arrays, FIRST[meta["i"]][1]) for meta, arrays in journal.records("knot"))


# Written by the first release; every later one must read it.
FIXTURE = Path(__file__).parent / "fixtures" / "journal-1.0.journal"
FIRST = {
    i: ({"i": i, "gap": float("inf"), "names": ["règle"]}, {"x": np.arange(i, dtype=np.float64) / 3, "y": np.array([[True]])})
    for i in range(1, 4)
}
