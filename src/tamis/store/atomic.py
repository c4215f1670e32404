"""Files that are either whole or not there: nobody ever sees half of one, whatever stops the writing.

Everything is written to a temporary file in the same folder, forced to the disk, and renamed over the
target in one step. Every way this can fail is told in one sentence.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from tamis.core.errors import TamisFileError

FilePath = str | os.PathLike[str]

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def write_bytes(path: FilePath, data: bytes) -> None:
    """Write a whole file, or leave everything as it was."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: FilePath, text: str) -> None:
    """Write a whole UTF-8 file with the line ends the text has, on every system."""
    # Half of a surrogate pair has no UTF-8; a name that holds one is shown escaped, not refused.
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


@contextmanager
def atomic_file(path: FilePath) -> Iterator[BinaryIO]:
    """A file to write to that takes its place only when the block ends well; after any exception nothing changed."""
    target = target_of(path)
    temporary = target.with_name(f".tamis-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            keep_mode(file, target)
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # An OSError that names another file came from the caller's own work inside the block: it is theirs to tell.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise failed(error, target) from error
        raise
    flush_folder(target)


def target_of(path: FilePath) -> Path:
    """Where a new file goes (links are followed), after asking all that can be asked before any work is done."""
    try:
        target = Path(os.fsdecode(path))
        folder_meant = os.fsdecode(path).endswith(("/", os.sep)) or target.is_dir()
        target = target.resolve()
        mode = target.stat().st_mode if target.exists() else None
    except (TypeError, ValueError):
        raise TamisFileError(f"{path!r} is not a file name, so nothing was written; give the path of a file as text.") from None
    except OSError as error:
        raise failed(error, Path(path)) from error
    except RuntimeError:
        raise TamisFileError(f"{str(path)!r} is a link that leads back to itself, so nothing was written; choose another name.") from None
    if folder_meant:
        raise TamisFileError(f"{str(path)!r} is a folder, so nothing was written; give the name of a file inside it.")
    if mode is not None and not stat.S_ISREG(mode):
        raise TamisFileError(f"{str(path)!r} is a device or a pipe and not a file, so nothing was written; give the name of a file.")
    if mode is not None and not os.access(target, os.W_OK):
        raise TamisFileError(f"{str(path)!r} is read-only, so it was left as it is; choose another name or make it writable.")
    return target


def open_existing(path: FilePath, *, write: bool = False) -> FileIO:
    """Open a regular file unbuffered, or say in one sentence why that is not possible."""
    try:
        source = Path(os.fsdecode(path))
        mode = source.stat().st_mode
        # Opening a pipe would wait for somebody to write to it, so the kind of file is asked for first.
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise TamisFileError(f"{str(path)!r} is {kind} and not a file, so nothing was read; give the name of a file.")
        return source.open("r+b" if write else "rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        raise TamisFileError(f"There is no file {str(path)!r}, so nothing was read; check the name and the folder.") from None
    except OSError as error:
        doing = "read and continued" if write else "read"
        raise TamisFileError(f"{str(path)!r} cannot be {doing} ({error.strerror}), so nothing was; check who may use it.") from error
    except TamisFileError:
        raise
    except (TypeError, ValueError):
        raise TamisFileError(f"{path!r} is not a file name, so nothing was read; give the path of a file as text.") from None


def failed(error: OSError, target: Path) -> TamisFileError:
    """Why a file could not be written, what that means, and what to do."""
    name = str(target)
    if error.errno in FULL:
        return TamisFileError(
            f"The disk is full or a size limit is reached, so {name!r} was not written and nothing else changed; "
            "free some space or choose another folder."
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return TamisFileError(
            f"The folder {str(target.parent)!r} does not exist, so {target.name!r} was not written; create it or choose another folder."
        )
    if error.errno in DENIED:
        return TamisFileError(
            f"The folder {str(target.parent)!r} is read-only for this user, so {target.name!r} was not written and nothing else changed; "
            "choose another folder."
        )
    reason = error.strerror or type(error).__name__
    return TamisFileError(f"{name!r} was not written ({reason}) and nothing else changed; choose another name or folder.")


def keep_mode(file: BinaryIO, target: Path) -> None:
    """A file that replaces another keeps its permissions; a new one has those the user's umask gives."""
    # Some file systems have no permissions to keep.
    with suppress(OSError):
        mode = stat.S_IMODE(target.stat().st_mode)
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)


def flush_folder(target: Path) -> None:
    """Force the folder's entry to the disk: without it a power cut may undo the renaming (not a thing on Windows)."""
    if os.name != "posix":
        return
    # The file itself is whole by now; a folder that cannot be opened or synchronised only weakens the promise.
    with suppress(OSError):
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
