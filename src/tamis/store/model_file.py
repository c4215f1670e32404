"""The `.tamis` model file: a zip of `meta.json` and npy arrays that holds data only and can be read by anybody.

The same model gives the same bytes on every machine: members are stored uncompressed, sorted, and dated 1980.
`meta.json` lists every array with its size and CRC-32, so that names cannot be exchanged. The reader believes
nothing: it checks the directory, every declared size and every checksum before it uses what they describe.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import FileIO
from typing import IO, Any, BinaryIO
from urllib.parse import quote

import numpy as np

from tamis.core.errors import TamisError, TamisFileError
from tamis.store.atomic import FilePath, atomic_file, open_existing
from tamis.store.codec import JSON_BYTES, Array, Unreadable, decode_array, decode_json, encode_array, encode_json

FORMAT, VERSION = "tamis model", (1, 0)
LARGEST, MEMBERS, DIRECTORY, RATIO, NAME = 1_900 << 20, 20_000, 4 << 20, 250, 1000
META = "meta.json"
LOCAL, CENTRAL, END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")

# Everything that the zip reader of the standard library is known to raise on damaged files.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError, MemoryError, OSError)


def write_model(path: FilePath, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a model file atomically; the same content gives the same bytes."""
    if not kind:
        raise TamisError(f"The kind {kind!r} is empty, so nothing was written; give the name of the model's class.")
    members = {member_of(name): name for name in arrays}
    # What is written must be readable again, so writing keeps to the reader's limits.
    directory = sum(46 + len(member) for member in members)
    if len(members) >= MEMBERS or directory > DIRECTORY - 1000 or sum(np.asarray(array).nbytes for array in arrays.values()) > LARGEST:
        raise TamisError(
            f"The model is larger than a model file can hold ({LARGEST >> 20} MB in {MEMBERS} arrays), so it was not written; "
            "keep fewer knots or less of their state."
        )
    with atomic_file(path) as file:
        listing, entries, place = {}, b"", 0
        for member, name in sorted(members.items()):
            blob = encode_array(arrays[name], name)
            listing[name] = {"bytes": len(blob), "crc32": zlib.crc32(blob)}
            place, entry = add(file, member, blob, place)
            entries += entry
        document = {"format": FORMAT, "version": list(VERSION), "kind": kind, "meta": meta, "arrays": listing}
        place, entry = add(file, META, encode_json(document), place)
        entries += entry
        file.write(entries)
        file.write(END.pack(b"PK\5\6", 0, 0, len(members) + 1, len(members) + 1, len(entries), place, 0))


def add(file: BinaryIO, member: str, data: bytes, place: int) -> tuple[int, bytes]:
    """Write one stored member at `place`; where the next one goes, and this one's entry in the directory.

    Written by hand because the standard library's zip writer turns a Ctrl-C into another error when it closes.
    """
    name = member.encode("ascii")
    # The same on every system and every day: version 2.0, no flags, stored, 1 January 1980, made on Unix, readable.
    facts = (20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(name), 0)
    file.write(LOCAL.pack(b"PK\3\4", *facts) + name)
    file.write(data)
    entry = CENTRAL.pack(b"PK\1\2", 3 << 8 | 20, *facts, 0, 0, 0, 0o644 << 16, place)
    return place + LOCAL.size + len(name) + len(data), entry + name


def member_of(name: Any) -> str:
    """Where an array is kept: readable, and nothing that a file system could take for a path."""
    if not isinstance(name, str) or len(name) > NAME:
        raise TamisError(f"An array is named {str(name)[:50]!r}, which a model file cannot hold, so nothing was written; use a short text.")
    return f"arrays/{quote(name, safe='', errors='surrogatepass')}.npy"


def read_model(path: FilePath) -> tuple[str, dict[str, Any], dict[str, Array]]:
    """Kind, meta and arrays of a model file; one sentence if it is damaged, foreign, too large or too new."""
    with open_existing(path) as file:
        try:
            return read_open(file, str(path))
        except Unreadable as reason:
            why = str(reason)
        except TamisFileError:
            raise
        except DAMAGE as error:
            why = f"its zip cannot be read: {str(error) or type(error).__name__}"
    why = " ".join(why.split())
    raise TamisFileError(
        f"The file {str(path)!r} is damaged or not a tamis model ({why}), so nothing was loaded; "
        "go back to an earlier copy, or save the model again."
    )


def read_open(file: FileIO, name: str) -> tuple[str, dict[str, Any], dict[str, Array]]:
    """The content of an open model file, or `Unreadable`."""
    check_directory(file)
    with zipfile.ZipFile(file) as archive:
        members = check_members(archive)
        if META not in members:
            raise Unreadable("it has no meta.json")
        if members[META].file_size > JSON_BYTES:
            raise Unreadable(f"more than {JSON_BYTES >> 20} MB of JSON")
        kind, meta, listing = check_document(decode_json(content(archive, members[META])), name)
        arrays = {}
        for array, expected in listing.items():
            info = members.get(member_of(array)) if len(array) <= NAME else None
            if info is None or expected != {"bytes": info.file_size, "crc32": info.CRC}:
                raise Unreadable(f"the array {array[:50]!r} is missing or not the one that was saved")
            arrays[array] = decode_array(content(archive, info))
    return kind, meta, arrays


def check_directory(file: FileIO) -> None:
    """Refuse a directory that is too large before the zip reader builds it: sizes in it are only claims."""
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(4)
    file.seek(max(0, size - 42))
    tail = file.read(42).rjust(42, b"\0")
    if start != b"PK\x03\x04" or tail[20:24] != b"PK\x05\x06" or tail[-2:] != b"\0\0" or tail[:4] == b"PK\x06\x07":
        raise Unreadable("it does not start and end like one")
    count, length, offset = (int.from_bytes(tail[20 + a : 20 + b], "little") for a, b in ((10, 12), (12, 16), (16, 20)))
    if offset + length != size - 22:
        raise Unreadable("its directory is not where it should be")
    if count > MEMBERS or length > DIRECTORY or size > LARGEST + DIRECTORY + 2 * JSON_BYTES:
        raise Unreadable("more members or bytes than a model file may have")


def check_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Members by name, once their declared sizes, places and names have been found possible."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [info.header_offset for info in infos[1:]] + [archive.start_dir]
    for info, end in zip(infos, ends, strict=True):
        parts = info.filename.split("/")
        if info.filename != info.orig_filename or not parts[0] or ".." in parts or "\\" in info.filename or ":" in parts[0]:
            raise Unreadable("a member whose name is a path out of the file")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable("an encrypted or unusually compressed member")
        if info.header_offset + 30 + info.compress_size > end:
            raise Unreadable("members that overlap")
        stored = info.compress_type == zipfile.ZIP_STORED
        if (stored and info.file_size != info.compress_size) or info.file_size > RATIO * info.compress_size + (1 << 16):
            raise Unreadable("a member that claims to be far larger than it is")
    if len({info.filename for info in infos}) != len(infos):
        raise Unreadable("two members of one name")
    if len(infos) > MEMBERS or sum(info.file_size for info in infos) > LARGEST + 2 * JSON_BYTES:
        raise Unreadable("more members or bytes than a model file may have")
    return {info.filename: info for info in infos}


def content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """A member's bytes, exactly as many as declared; the zip reader compares the checksum when the last one is read."""
    data = bytearray(info.file_size)
    with archive.open(info) as stream:
        filled = fill(stream, memoryview(data))
    if filled != len(data):
        raise Unreadable(f"the member {info.filename[:50]!r} is not what was saved")
    return data


def fill(stream: IO[bytes], view: memoryview) -> int:
    """Read until the view is full or the stream ends, in pieces, so that decompression needs no second copy."""
    filled = 0
    while filled < len(view):
        piece = stream.read(min(1 << 20, len(view) - filled))
        if not piece:
            break
        view[filled : filled + len(piece)] = piece
        filled += len(piece)
    return filled


def check_document(document: Any, name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Kind, meta and listing of a document that this version understands; unknown keys beside them are for later versions."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Unreadable("its meta.json does not describe a tamis model")
    version = document.get("version")
    if not isinstance(version, list) or not version or not isinstance(version[0], int):
        raise Unreadable("it has no version")
    if version[0] > VERSION[0]:
        found = ".".join(str(part) for part in version[:2])
        raise TamisFileError(
            f"The file {name!r} has format {found} and this tamis reads up to {VERSION[0]}.x, so nothing was loaded; install a newer tamis."
        )
    kind, meta, listing = document.get("kind"), document.get("meta"), document.get("arrays")
    if not isinstance(kind, str) or not isinstance(meta, dict) or not isinstance(listing, dict):
        raise Unreadable("its meta.json lacks a kind, meta or arrays")
    return kind, meta, listing
