"""JSON and npy as bytes, both ways: lossless when writing, distrustful when reading.

JSON stays inside its standard: NaN and infinities are written `{"$float": "nan"}`, and a key of the caller's that
starts with `$` gets a second one. Arrays are ordinary little-endian npy that `numpy.load` reads too; reading
accepts numbers, truth values, text and dates, checks sizes before using them, and never builds an object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError

Array = NDArray[Any]

JSON_BYTES, JSON_VALUES, JSON_DEPTH = 64 << 20, 1_000_000, 64
FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

NPY = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<|][A-Za-z0-9\[\]]{2,24})', 'fortran_order': False, 'shape': \(((?:\d{1,15}, ?)*(?:\d{1,15})?)\), \} *\n"
)
DTYPE = re.compile(r"\|b1|[|<][iu][1248]|<f[248]|<c(?:8|16)|[|<][SU][1-9]\d{0,6}|<[mM]8(?:\[\d{0,9}[A-Za-z]{1,7}\])?")

# A string that never ends swallows the rest, so that one pass is enough on any input.
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', flags=re.DOTALL)
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Unreadable(Exception):
    """Bytes that are not what they should be; the caller knows the file and makes the sentence."""


def encode_json(value: Any) -> bytes:
    """Plain data as ASCII JSON that `decode_json` turns back into the same data (tuples into lists)."""
    data = json.dumps(plain(value, "", 0), allow_nan=False, separators=(",", ":")).encode("ascii")
    try:
        check_json(data)
    except Unreadable as reason:
        raise TamisError(f"The data to write is too large ({reason}), so nothing was written; keep large numbers in arrays.") from None
    return data


def plain(value: Any, where: str, depth: int) -> Any:
    """The value with what JSON cannot say written in what it can, or a sentence naming the place that has no such form."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and value.bit_length() <= 4096):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if depth == JSON_DEPTH:
        raise TamisError(f"The data to write is nested deeper than {JSON_DEPTH} levels, so nothing was written; flatten it first.")
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"$" + key if key.startswith("$") else str(key): plain(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    what = "a mapping whose keys are not all text" if isinstance(value, Mapping) else f"of type {type(value).__name__}"
    raise TamisError(
        f"The value at {where.lstrip('.') or 'the top'!r} is {what}, which a tamis file cannot hold, so nothing was written; "
        "turn it into numbers, text, lists or an array first."
    )


def decode_json(data: bytes | bytearray) -> Any:
    """Inverse of `encode_json`; refuses sizes and depths before anything is built, repeated keys and unknown marks."""
    check_json(data)
    try:
        # Decoded here, because json.loads would also take UTF-16, in which the check above sees other quotes.
        return json.loads(data.decode("utf-8"), object_pairs_hook=unmark, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"its JSON does not parse: {error}") from None


def check_json(data: bytes | bytearray) -> None:
    """Size, depth and number of values, counted without building anything."""
    if len(data) > JSON_BYTES:
        raise Unreadable(f"more than {JSON_BYTES >> 20} MB of JSON")
    # Brackets and commas inside text count too: this is a limit against floods, far above any model.
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > JSON_VALUES:
        raise Unreadable(f"more than {JSON_VALUES} values in JSON")
    steps = np.frombuffer(STRING.sub(b"", data).translate(None, NOT_BRACKETS), dtype=np.uint8)
    level = np.cumsum(np.where((steps == ord("[")) | (steps == ord("{")), 1, -1))
    if level.size and level.max() > JSON_DEPTH + 1:
        raise Unreadable(f"JSON nested deeper than {JSON_DEPTH} levels")


def unmark(pairs: list[tuple[str, Any]]) -> Any:
    """An object as `plain` wrote it."""
    if len(pairs) == 1 and pairs[0][0] == "$float":
        mark = pairs[0][1]
        if not isinstance(mark, str) or mark not in FLOATS:
            raise Unreadable("an unknown kind of number")
        return FLOATS[mark]
    found = {}
    for key, value in pairs:
        if key.startswith("$") and not key.startswith("$$"):
            raise Unreadable(f"an unknown mark {key[:40]!r}")
        found[key.removeprefix("$")] = value
    if len(found) != len(pairs):
        raise Unreadable("a key that occurs twice")
    return found


def refuse(token: str) -> Any:
    """NaN and infinities without quotes are not JSON, and nothing of ours writes them."""
    raise Unreadable(f"{token} outside JSON's standard")


def encode_array(value: Any, name: str) -> bytes:
    """An array as little-endian, row-major npy, the same bytes on every machine."""
    array = np.asarray(value)
    if array.dtype.kind in "SU" and array.dtype.itemsize == 0:
        array = array.astype(f"{array.dtype.kind}1")
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C") if array.dtype.kind in "biufcSUmM" else array
    if not DTYPE.fullmatch(array.dtype.str):
        raise TamisError(
            f"The array {name!r} holds values of type {array.dtype}, which a tamis file cannot hold, so nothing was written; "
            "turn it into numbers, text or dates first."
        )
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}".encode("ascii")
    # Padded so that the numbers start at a multiple of 64 bytes, as npy asks.
    text += b" " * (-(len(NPY) + 3 + len(text)) % 64) + b"\n"
    return b"".join((NPY, len(text).to_bytes(2, "little"), text, array.tobytes()))


def decode_array(data: bytearray) -> Array:
    """Inverse of `encode_array`, on the bytes themselves: no copy, and nothing is allocated that the data does not fill."""
    start = len(NPY) + 2 + int.from_bytes(data[len(NPY) : len(NPY) + 2], "little")
    match = HEADER.fullmatch(data, len(NPY) + 2, start)
    if data[: len(NPY)] != NPY or match is None or not DTYPE.fullmatch(match[1].decode("ascii")):
        raise Unreadable("an array of a kind that tamis does not write")
    shape = tuple(int(size) for size in match[2].split(b",") if size.strip())
    try:
        dtype = np.dtype(match[1].decode("ascii"))
        if len(shape) > 32 or math.prod(shape) * dtype.itemsize != len(data) - start:
            raise Unreadable("an array whose shape and size disagree")
        array: Array = np.ndarray(shape, dtype, buffer=data, offset=start)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"an array that cannot be: {error}") from None
    # Bytes that are no truth value or no character would make every later use undefined or an error.
    largest = {"b": ("u1", 1), "U": ("<u4", 0x10FFFF)}.get(dtype.kind)
    if largest is not None and array.size:
        raw = np.frombuffer(data, largest[0], offset=start)
        if raw.max() > largest[1]:
            raise Unreadable("an array with impossible values")
    return array
