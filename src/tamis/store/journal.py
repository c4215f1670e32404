"""The journal: records that survive whatever stops the program, once `append` has returned.

The file is a header frame followed by one frame per record. A frame is magic, length, CRC-32 and payload; the
payload is JSON (section, meta, names and sizes of the arrays) followed by the arrays as npy. Every frame is forced
to the disk before `append` returns, so that only the last one can be torn; opening cuts it. Damage anywhere else is
not a torn tail, and is told instead of cut, because intact records follow it.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tamis.core.errors import TamisError, TamisFileError
from tamis.store.atomic import FilePath, failed, flush_folder, open_existing, target_of
from tamis.store.codec import Array, Unreadable, decode_array, decode_json, encode_array, encode_json

FORMAT, VERSION = "tamis journal", (1, 0)
MAGIC = b"\x89TJ\n"
HEAD = struct.Struct("<4sQI")
LARGEST, ARRAYS = (1 << 31) - 1, 20_000

Record = tuple[dict[str, Any], dict[str, Array]]


class Journal:
    """An append-only file of records; make one with `Journal.create`, go on with `Journal.open`.

    Attributes
    ----------
    path : Path
    header : dict
        What the journal was created with.
    cut : int
        Bytes of a damaged tail that opening removed (or skipped, when only reading): a record that was being
        written when the program was stopped, and that nobody had been told was safe.
    """

    def __init__(self, file: FileIO, path: Path, *, writing: bool) -> None:
        self.path, self.header, self.cut = path, dict[str, Any](), 0
        self._file, self._writing = file, writing
        self._process, self._lock = os.getpid(), threading.RLock()
        self._frames: list[tuple[str, int]] = []
        self._end = 0

    @classmethod
    def create(cls, path: FilePath, header: Mapping[str, Any]) -> Self:
        """Start a journal; never overwrites anything but an empty file or a start that was itself cut short."""
        target = target_of(path)
        frame = seal(pack("", {"format": FORMAT, "version": list(VERSION), "header": header}, {}))
        try:
            file = target.open("a+b", buffering=0)
        except OSError as error:
            raise failed(error, target) from error
        journal, fresh = cls(file, target, writing=True), False
        try:
            lock(file, target)
            fresh = unborn(file)
            if not fresh:
                raise TamisFileError(f"The file {str(path)!r} exists, so no journal was started; resume it or choose another name.")
            journal._write(frame)
            flush_folder(target)
            journal._scan()
        except BaseException:
            # Still locked, so that nobody else can have begun to use it.
            with suppress(OSError):
                if fresh:
                    target.unlink(missing_ok=True)
            file.close()
            raise
        return journal

    @classmethod
    def open(cls, path: FilePath, *, append: bool = True) -> Self:
        """Go on with a journal after cutting a torn tail; with `append=False` only read, even while another process writes."""
        file = open_existing(path, write=append)
        try:
            journal = cls(file, Path(os.fsdecode(path)), writing=append)
            if append:
                lock(file, journal.path)
            journal._scan()
        except BaseException:
            file.close()
            raise
        return journal

    def append(self, section: str, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Add one record; when this returns, the record is on the disk, and a failure leaves the journal as it was."""
        frame = seal(pack(section, meta, arrays))
        with self._lock:
            self._check_writable()
            start = self._end
            self._write(frame)
            self._frames.append((section, start))

    def records(self, section: str) -> list[Record]:
        """All records of a section, in the order they were appended."""
        with self._lock:
            if self._file.closed:
                raise TamisError(f"The journal {str(self.path)!r} is closed, so nothing can be read; open it again.")
            try:
                return [unpack(self._payload(start))[1:] for name, start in self._frames if name == section]
            except (Unreadable, EOFError, OSError) as reason:
                raise damaged(self.path, str(reason)) from None

    def close(self) -> None:
        """Release the file and its lock; closing twice does nothing."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._frames)

    def _check_writable(self) -> None:
        """One sentence for each reason why nothing may be added."""
        name = str(self.path)
        if self._file.closed:
            raise TamisError(f"The journal {name!r} is closed, so the record was not added; open it again.")
        if not self._writing:
            raise TamisError(f"The journal {name!r} was opened for reading only, so the record was not added; open it with append=True.")
        if self._process != os.getpid():
            raise TamisError(
                f"The journal {name!r} belongs to the process that opened it, so the record was not added; "
                "append from there, or give each worker its own."
            )

    def _write(self, frame: bytes) -> None:
        """Append a frame and force it to the disk; whatever interrupts this, the frame is taken back."""
        try:
            # Whatever an earlier failure could not take back is cut here: a frame always follows the last good one.
            self._file.truncate(self._end)
            self._file.seek(self._end)
            rest = memoryview(frame)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException as error:
            with suppress(OSError):
                self._file.truncate(self._end)
            if isinstance(error, OSError):
                raise failed(error, self.path) from error
            raise
        self._end += len(frame)

    def _scan(self) -> None:
        """Read and check every frame; keep the intact ones, cut a torn tail, refuse any other damage."""
        size = self._file.seek(0, os.SEEK_END)
        self._end, self._frames = 0, []
        try:
            self.header = header_of(self._payload(0), self.path)
            self._end = self._file.tell()
            while self._end < size:
                section = section_of(self._payload(self._end))[0]
                self._frames.append((section, self._end))
                self._end = self._file.tell()
        except EOFError as reason:
            if self._end == 0:
                raise damaged(self.path, "it does not start like one") from None
            if self._intact_after(self._end + 1, size):
                raise damaged(self.path, f"{reason} at byte {self._end}", self._end, len(self._frames)) from None
            self.cut = size - self._end
        except (Unreadable, OSError) as reason:
            raise damaged(self.path, str(reason)) from None
        if self.cut and self._writing:
            self._file.truncate(self._end)
            os.fsync(self._file.fileno())

    def _payload(self, start: int) -> bytearray:
        """The payload of the frame at `start`; EOFError if there is no intact frame."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(start)
        head = self._file.read(HEAD.size)
        if len(head) < HEAD.size:
            raise EOFError("a frame that stops early")
        magic, length, checksum = HEAD.unpack(head)
        if magic != MAGIC:
            raise EOFError("bytes that are no frame")
        # Compared with what the file can hold before any memory is asked for.
        if length > min(LARGEST, size - start - HEAD.size):
            raise EOFError("a frame that stops early")
        payload = bytearray(length)
        view = memoryview(payload)
        while view:
            # An unbuffered file may give less than asked for.
            count = self._file.readinto(view)
            if not count:
                raise EOFError("a frame that stops early")
            view = view[count:]
        if crc(payload) != checksum:
            raise EOFError("a frame whose checksum is wrong")
        return payload

    def _intact_after(self, start: int, size: int) -> bool:
        """True when an intact frame follows: then the damage is not a torn tail."""
        budget, chunk = 4 * (size - start), 1 << 20
        for base in range(start, size, chunk):
            self._file.seek(base)
            block, found = self._file.read(chunk + len(MAGIC) - 1), -1
            while budget > 0 and (found := block.find(MAGIC, found + 1)) >= 0:
                self._file.seek(base + found + len(MAGIC))
                length = int.from_bytes(self._file.read(8), "little")
                # The budget keeps a hostile file of many frame heads from costing quadratic time.
                budget -= HEAD.size + (length if length < size - base - found else 0)
                with suppress(EOFError):
                    self._payload(base + found)
                    return True
        return False


def pack(section: str, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """A record as bytes."""
    if not all(isinstance(name, str) for name in (section, *arrays)):
        raise TamisError("A section or an array of the record has a name that is not text, so the record was not added; name it with text.")
    blobs = [encode_array(array, name) for name, array in arrays.items()]
    listing = [[name, len(blob)] for (name, blob) in zip(arrays, blobs, strict=True)]
    text = encode_json({"section": section, "meta": meta, "arrays": listing})
    payload = b"".join((len(text).to_bytes(4, "little"), text, *blobs))
    if len(payload) > LARGEST or len(blobs) > ARRAYS:
        raise TamisError(
            f"The record is larger than a journal can hold ({LARGEST >> 20} MB), so it was not added; store less of the state."
        )
    return payload


def seal(payload: bytes) -> bytes:
    """A payload as a frame."""
    return HEAD.pack(MAGIC, len(payload), crc(payload)) + payload


def crc(payload: bytes | bytearray) -> int:
    """Checksum of the length and the payload: a changed length is as bad as changed content."""
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(8, "little")))


def section_of(payload: bytearray) -> tuple[str, dict[str, Any], list[tuple[str, int]], int]:
    """Section, meta, and names and sizes of the arrays, with the place where the first one starts."""
    start = 4 + int.from_bytes(payload[:4], "little")
    if start > len(payload):
        raise Unreadable("a record that is shorter than it says")
    found = decode_json(payload[4:start])
    try:
        section, meta, listing = found["section"], found["meta"], [(name, size) for name, size in found["arrays"]]
    except (KeyError, TypeError, ValueError):
        raise Unreadable("a record without section, meta and arrays") from None
    sizes_fit = all(isinstance(name, str) and isinstance(size, int) and size >= 0 for name, size in listing)
    if not (isinstance(section, str) and isinstance(meta, dict) and sizes_fit and start + sum(size for _, size in listing) == len(payload)):
        raise Unreadable("a record whose parts do not fit together")
    if len({name for name, _ in listing}) != len(listing) or len(listing) > ARRAYS:
        raise Unreadable("a record with too many arrays, or two of one name")
    return section, meta, listing, start


def unpack(payload: bytearray) -> tuple[str, dict[str, Any], dict[str, Array]]:
    """Inverse of `pack`."""
    section, meta, listing, start = section_of(payload)
    arrays = {}
    for name, size in listing:
        arrays[name] = decode_array(payload[start : start + size])
        start += size
    return section, meta, arrays


def header_of(payload: bytearray, path: Path) -> dict[str, Any]:
    """What the journal was created with, if it is a journal that this version understands."""
    first = section_of(payload)[1]
    version, header = first.get("version"), first.get("header")
    if first.get("format") != FORMAT or not isinstance(header, dict) or not isinstance(version, list) or not version:
        raise Unreadable("no header of a journal")
    if version[0] != VERSION[0]:
        raise TamisFileError(
            f"The journal {str(path)!r} has format {version[0]} and this tamis reads format {VERSION[0]}, so it was left as it is; "
            "install the newest tamis."
        )
    return header


def unborn(file: FileIO) -> bool:
    """True for an empty file and for a header frame that was being written when the program was stopped."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return MAGIC.startswith(head[: len(MAGIC)])
    magic, length, _ = HEAD.unpack(head)
    return magic == MAGIC and HEAD.size + length > size


def lock(file: FileIO, path: Path) -> None:
    """Keep every other writer out until the file is closed or the process ends, however it ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(1 << 40)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network folders know no locks; there the promise is the caller's.
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise TamisFileError(
                f"The journal {str(path)!r} is being written by another fit, so it was left alone; wait for it or choose another name."
            ) from None


def damaged(path: Path, reason: str, end: int = 0, kept: int = 0) -> TamisFileError:
    """What is wrong with a journal, and how to save what can be saved."""
    step = f"copy its first {end} bytes to a new file to go on from the {kept} records before the damage" if kept else "start a new journal"
    return TamisFileError(f"The journal {str(path)!r} cannot be used ({reason}), so it was left as it is; {step}.")
