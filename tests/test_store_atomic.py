"""Files are whole or not there, whatever stops the writing: full disks, read-only folders, Ctrl-C at any line."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_store import SOURCE, interrupted_at, names, one_sentence
from tamis.core.errors import TamisFileError
from tamis.store.atomic import atomic_file, open_existing, write_bytes, write_text
from tamis.store.journal import Journal

POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions, limits and links")


def test_writes_a_new_file_and_replaces_an_old_one(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "één\nline\r\n")
    assert target.read_bytes() == "één\nline\r\n".encode()
    write_bytes(str(target), b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    write_text(target, "half a pair: \ud800")
    assert target.read_text() == "half a pair: \\ud800"
    assert names(tmp_path) == ["a.txt"]


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with atomic_file(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2
    assert target.read_bytes() == b"new"


@POSIX
def test_order_of_safety(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content on the disk before the name changes, the folder's entry after it."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"file of {os.fstat(descriptor).st_size} bytes")
        fsync(descriptor)

    def spy_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(Path, "replace", spy_replace)
    write_bytes(tmp_path / "a", b"12345")
    assert steps == ["file of 5 bytes", "rename", "folder"]


@POSIX
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "fresh", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


THEIRS = [KeyboardInterrupt(), SystemExit(3), ZeroDivisionError("theirs"), OSError(errno.EIO, "theirs", "other.csv")]


@pytest.mark.parametrize("error", THEIRS)
def test_the_blocks_own_exception_passes_and_nothing_changes(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def work() -> None:
        with atomic_file(target) as file:
            file.write(b"half of the")
            raise error

    with pytest.raises(type(error)) as caught:
        work()
    assert caught.value is error
    assert names(tmp_path) == ["a"]
    assert target.read_bytes() == b"old"


FAULTS: list[tuple[Any, str]] = [(Path, "open"), (os, "fsync"), (Path, "replace"), (os, "fchmod")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EFBIG, None])
@pytest.mark.parametrize(("owner", "name"), FAULTS, ids=lambda part: part if isinstance(part, str) else "")
def test_every_step_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int | None) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt if number is None else OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail, raising=False)
        if name == "fchmod" and number is not None:
            # A file system without permissions is no reason to lose work.
            write_bytes(target, b"new")
        else:
            with pytest.raises(KeyboardInterrupt if number is None else TamisFileError) as caught:
                write_bytes(target, b"new")
            if number is not None:
                one_sentence(caught.value)
    assert names(tmp_path) == ["a"]
    assert target.read_bytes() == (b"new" if name == "fchmod" and number is not None else b"old")


def test_ctrl_c_at_every_line(tmp_path: Path) -> None:
    target, line, seen = tmp_path / "a", 0, set()
    while True:
        line += 1
        target.write_bytes(b"old")
        hit = interrupted_at(line, lambda: write_bytes(target, b"new, and longer"), ("atomic.py",))
        assert names(tmp_path) == ["a"]
        seen.add(target.read_bytes())
        if not hit:
            break
    assert seen == {b"old", b"new, and longer"}
    assert line > 20


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder whose parents any user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="tamis-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


CHILD = """
import os, resource, sys
import numpy as np
from tamis.core.errors import TamisFileError
from tamis.store.atomic import write_bytes
from tamis.store.journal import Journal
from tamis.store.model_file import write_model
mode, folder = sys.argv[1:]
big = {"x": np.arange(40_000.0)}
def attempt(work, *arguments):
    try:
        work(*arguments)
    except TamisFileError as error:
        print(error)
    else:
        print("written")
if mode == "full":
    journal = Journal.create(folder + "/run.journal", {"a": 1})
    journal.append("knot", {"i": 0}, {"x": np.arange(3.0)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    attempt(journal.append, "knot", {"i": 1}, big)
    attempt(journal.append, "knot", {"i": 2}, {"x": np.arange(3.0)})
    attempt(Journal.create, folder + "/other.journal", {"text": "x" * 30_000})
elif mode == "read-only" and os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
attempt(write_bytes, folder + "/bytes", b"x" * 30_000)
attempt(write_bytes, folder + "/old", b"x" * 30_000)
attempt(write_model, folder + "/model.tamis", "Kind", {}, big)
if mode == "read-only":
    attempt(Journal.create, folder + "/run.journal", {})
"""


def child(mode: str, folder: Path) -> list[str]:
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", CHILD, mode, str(folder)], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    return done.stdout.splitlines()


@POSIX
def test_a_real_size_limit(tmp_path: Path) -> None:
    """The kernel refuses bytes in the middle of a write, as a full disk does."""
    (tmp_path / "old").write_bytes(b"old")
    said = child("full", tmp_path)
    assert said[1] == "written"  # a small record still fits after the large one was taken back
    for line in said[:1] + said[2:]:
        assert line.startswith("The disk is full or a size limit is reached, so ")
        assert line.endswith("free some space or choose another folder.")
    assert names(tmp_path) == ["old", "run.journal"]
    assert (tmp_path / "old").read_bytes() == b"old"
    with Journal.open(tmp_path / "run.journal") as journal:
        assert [meta["i"] for meta, _ in journal.records("knot")] == [0, 2]
        assert journal.cut == 0


@POSIX
def test_a_real_read_only_folder(open_folder: Path) -> None:
    """As root nothing is read-only, so the child becomes nobody first."""
    (open_folder / "old").write_bytes(b"old")
    (open_folder / "old").chmod(0o666)
    open_folder.chmod(0o555)
    said = child("read-only", open_folder)
    assert len(said) == 4
    for line in said:
        assert "is read-only for this user, so " in line
        assert line.endswith("choose another folder.")
    assert names(open_folder) == ["old"]
    assert (open_folder / "old").read_bytes() == b"old"


@POSIX
def test_a_read_only_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(TamisFileError, match="is read-only, so it was left as it is; choose another name"):
        write_bytes(tmp_path / "kept", b"new")


@POSIX
def test_bad_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    bad: dict[Any, str] = {
        tmp_path: "is a folder, so nothing was written; give the name of a file inside it.",
        "new/": "'new/' is a folder, so nothing was written",
        "": "is a folder, so nothing was written",
        tmp_path / "missing" / "a": f"The folder '{tmp_path}/missing' does not exist, so 'a' was not written; create it or choose",
        tmp_path / "file" / "a": "does not exist, so 'a' was not written",
        "/dev/full": "'/dev/full' is a device or a pipe and not a file, so nothing was written",
        "pipe": "'pipe' is a device or a pipe",
        "loop": "is a link that leads back to itself",
        "a\0b": "is not a file name, so nothing was written; give the path of a file as text.",
        7: "7 is not a file name, so nothing was written",
        None: "None is not a file name",
        "x" * 300: "was not written (File name too long) and nothing else changed",
    }
    before = names(tmp_path)
    for path, text in bad.items():
        with pytest.raises(TamisFileError) as caught:
            write_bytes(path, b"data")
        assert text in one_sentence(caught.value)
    assert names(tmp_path) == before
    assert Path("/dev/full").is_char_device()


@POSIX
def test_bad_sources(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    bad: dict[Any, str] = {
        tmp_path: "is a folder and not a file, so nothing was read; give the name of a file.",
        tmp_path / "pipe": "is a device or a pipe and not a file",
        "/dev/zero": "is a device or a pipe and not a file",
        tmp_path / "none": f"There is no file '{tmp_path}/none', so nothing was read; check the name and the folder.",
        "a\0b": "is not a file name, so nothing was read",
        3.5: "3.5 is not a file name, so nothing was read",
        "y" * 300: "cannot be read (File name too long), so nothing was",
    }
    for path, text in bad.items():
        with pytest.raises(TamisFileError) as caught:
            open_existing(path)
        assert text in one_sentence(caught.value)
