"""JSON and npy, both ways: everything that goes in comes out the same, and nothing else comes out."""

from __future__ import annotations

import io
import json
import math
import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_store import ARRAYS, JSON, one_sentence, same, same_arrays
from tamis.core.errors import TamisError
from tamis.store.codec import JSON_BYTES, JSON_DEPTH, Unreadable, decode_array, decode_json, encode_array, encode_json


@given(JSON)
def test_json_comes_back_the_same(value: dict[str, Any]) -> None:
    data = encode_json(value)
    assert same(value, decode_json(data))
    # Standard JSON: a parser that refuses NaN reads it too.
    json.loads(data.decode("ascii"), parse_constant=pytest.fail)


def test_json_forms() -> None:
    value = {"a": (1, 2.5, math.nan, -math.inf), "$x": {"$float": "inf"}, "n": np.float64(2.0), "i": np.int8(3), "b": np.True_, "z": -0.0}
    assert encode_json(value) == (
        b'{"a":[1,2.5,{"$float":"nan"},{"$float":"-inf"}],"$$x":{"$$float":"inf"},"n":2.0,"i":3,"b":true,"z":-0.0}'
    )
    assert encode_json({"t": np.str_("é")}) == rb'{"t":"\u00e9"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, {"b": {1, 2}}]}, "The value at 'a[1].b' is of type set, which a tamis file cannot hold, so nothing was written;"),
        ({"a": {1: 2}}, "The value at 'a' is a mapping whose keys are not all text"),
        ({"a": b"x"}, "of type bytes"),
        ({"a": np.arange(3)}, "of type ndarray"),
        ({"a": 1 << 5000}, "of type int"),
        ({"a": 1j}, "of type complex"),
        ({"a": print}, "of type builtin_function_or_method"),
    ],
)
def test_what_json_cannot_hold_is_named(value: Any, text: str) -> None:
    with pytest.raises(TamisError, match=re.escape(text)) as caught:
        encode_json(value)
    one_sentence(caught.value)


def test_json_that_contains_itself_or_is_too_large() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(TamisError, match=f"nested deeper than {JSON_DEPTH} levels, so nothing was written"):
        encode_json(ring)
    with pytest.raises(TamisError, match=r"too large .* so nothing was written; keep large numbers in arrays"):
        encode_json([1] * 3_000_000)
    deep: Any = 1.0
    for _ in range(JSON_DEPTH):
        deep = [deep]
    assert decode_json(encode_json(deep)) == deep
    deepest: Any = math.inf  # its own mark is one level more
    for _ in range(JSON_DEPTH):
        deepest = [deepest]
    assert decode_json(encode_json(deepest)) == deepest


HOSTILE_JSON = {
    "deep lists": b"[" * 100 + b"]" * 100,
    "deeper lists": b"[" * 4_000_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "many values": b"[" + b"1," * 5_000_000 + b"1]",
    "large": b" " * (JSON_BYTES + 1),
    "string without end": b'"' + b'\\"' * 5_000_000,
    "strings without end": b'"a' * 3_000_001,
    "repeated key": b'{"a":1,"a":2}',
    "repeated after unmarking": b'{"$$a":1,"b":2,"$$a":3}',
    "unknown mark": b'{"$object":"os.system"}',
    "unknown number": b'{"$float":"1"}',
    "number of a strange kind": b'{"$float":[]}',
    "NaN": b"[NaN]",
    "Infinity": b"[-Infinity]",
    "digits": b"1" * 100_000,
    "UTF-16": '{"a":1}'.encode("utf-16-le"),
    "UTF-16 that hides its brackets": ('["\u2200",' + "[" * 100 + "]" * 100 + "]").encode("utf-16-le"),
    "not text": b'"\xff\xfe"',
    "nothing": b"",
    "two": b"{}{}",
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json_is_refused_at_once(name: str) -> None:
    start = time.process_time()
    with pytest.raises(Unreadable):
        decode_json(HOSTILE_JSON[name])
    assert time.process_time() - start < 5


@given(ARRAYS)
def test_arrays_come_back_the_same_and_numpy_reads_them(arrays: dict[str, Any]) -> None:
    blobs = {name: encode_array(array, name) for name, array in arrays.items()}
    found = {name: decode_array(bytearray(blob)) for name, blob in blobs.items()}
    assert same_arrays(arrays, found)
    assert same_arrays(arrays, {name: np.load(io.BytesIO(blob), allow_pickle=False) for name, blob in blobs.items()})
    assert all(array.flags.writeable and array.flags.c_contiguous and array.flags.aligned for array in found.values())


@pytest.mark.parametrize(
    "array", [np.array([1, None]), np.zeros(2, dtype=[("a", "f8")]), np.zeros(2, dtype=np.longdouble), [[1], [2, "x", print]]]
)
def test_arrays_that_npy_holds_only_by_pickling_are_refused(array: Any) -> None:
    if isinstance(array, list):
        array = np.array([*array, None], dtype=object)
    with pytest.raises(TamisError, match=r"The array 'some name' holds values of type .* so nothing was written; turn it into numbers"):
        encode_array(array, "some name")


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytearray:
    """An npy file with any header at all."""
    text = header.encode("latin1") + b"\n"
    return bytearray(b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + data)


def header(descr: str, shape: str, order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def pickled() -> bytearray:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}, print], dtype=object), allow_pickle=True)
    return bytearray(buffer.getvalue())


HOSTILE_NPY = {
    "pickled": pickled(),
    "object": npy(header("'|O'", "(1,)"), b"\x80\x04N."),
    "object with size": npy(header("'<O8'", "(1,)"), b"\0" * 8),
    "Fortran": npy(header("'<f8'", "(2, 2)", "True"), b"\0" * 32),
    "structured": npy(header("[('a', '<f8')]", "(1,)"), b"\0" * 8),
    "void": npy(header("'|V8'", "(1,)"), b"\0" * 8),
    "big-endian": npy(header("'>f8'", "(1,)"), b"\0" * 8),
    "longdouble": npy(header("'<f16'", "(1,)"), b"\0" * 16),
    "too few bytes": npy(header("'<f8'", "(2,)"), b"\0" * 15),
    "too many bytes": npy(header("'<f8'", "(2,)"), b"\0" * 17),
    "huge": npy(header("'<f8'", "(100000000000000,)"), b"\0" * 8),
    "overflowing": npy(header("'<f8'", "(4294967296, 4294967296)"), b""),
    "huge text of no size": npy(header("'<U0'", "(1000000000,)"), b""),
    "huge item": npy(header("'<U999999999'", "(1,)"), b"\0" * 4),
    "huge and empty": npy(header("'<f8'", "(0, 999999999999999, 999999999999999)"), b""),
    "negative": npy(header("'<f8'", "(-1,)"), b""),
    "forty axes": npy(header("'|b1'", "(" + "1, " * 40 + ")"), b"\0"),
    "code": npy("__import__('os').system('true')", b""),
    "nested": npy("(" * 60_000, b""),
    "many commas": npy(header("'<f8'", "(" + "1, " * 15_000 + "x)"), b""),
    "extra key": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1, }", b"\0" * 8),
    "version 2": npy(header("'<f8'", "(1,)"), b"\0" * 8, b"\x02\x00"),
    "unknown unit": npy(header("'<M8[zz]'", "(1,)"), b"\0" * 8),
    "no truth value": npy(header("'|b1'", "(2,)"), b"\x01\x02"),
    "no character": npy(header("'<U1'", "(1,)"), b"\xff\xff\xff\x00"),
    "no header": bytearray(b"\x93NUMPY\x01\x00\xff\xff"),
    "nothing": bytearray(),
}


@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_hostile_arrays_are_refused_at_once(name: str) -> None:
    start = time.process_time()
    with pytest.raises(Unreadable):
        decode_array(HOSTILE_NPY[name])
    assert time.process_time() - start < 1


def test_the_hostile_arrays_differ_from_a_good_one_by_little() -> None:
    """Otherwise the test above would pass for a reader that refuses everything."""
    assert decode_array(npy(header("'<f8'", "(1,)"), b"\0" * 8)) == [0.0]
    assert decode_array(npy(header("'<f8'", "(2, 2)"), b"\0" * 32)).shape == (2, 2)
    assert decode_array(npy(header("'|b1'", "(2,)"), b"\x01\x00")).tolist() == [True, False]
    assert decode_array(npy(header("'<U1'", "(1,)"), "é".encode("utf-32-le"))) == ["é"]
    assert decode_array(npy(header("'<f8'", "(0, 3)"))).shape == (0, 3)


@given(st.data())
def test_damaged_arrays_never_raise_anything_else(data: st.DataObject) -> None:
    blob = bytearray(encode_array(np.array(["ab", "é"]), "x"))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_array(blob).tolist()
    except Unreadable:
        return
