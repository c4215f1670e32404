"""Nothing acknowledged is ever lost: kills, torn tails, flipped bits, full disks, two writers, Ctrl-C at any line."""

from __future__ import annotations

import errno
import os
import random
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_store import ARRAYS, JSON, SOURCE, interrupted_at, knot, names, one_sentence, put, records_of, same, same_arrays, small_journal
from tamis.core.errors import TamisError, TamisFileError
from tamis.store.journal import Journal

KILLS = 200


def check_is_prefix(journal: Journal, acknowledged: int) -> int:
    """Everything acknowledged is there, in order and to the bit, and at most one record more."""
    records = journal.records("knot")
    assert acknowledged <= len(records) <= acknowledged + 1
    for i, (meta, arrays) in enumerate(records):
        assert same(meta, knot(i)[0])
        assert same_arrays(arrays, knot(i)[1])
    return len(records)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["knot", "é", "", "fold 1"]), JSON, ARRAYS), max_size=4), JSON)
def test_records_come_back_the_same(tmp_path_factory: pytest.TempPathFactory, records: list[Any], header: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    with Journal.create(path, header) as journal:
        for record in records:
            journal.append(*record)
        opened = [journal.records(section) for section in ("knot", "é", "", "fold 1", "none")]
    with Journal.open(path) as journal:
        assert same(journal.header, header)
        assert len(journal) == len(records)
        assert journal.cut == 0
        for k, section in enumerate(("knot", "é", "", "fold 1", "none")):
            expected = [record[1:] for record in records if record[0] == section]
            for found in (journal.records(section), opened[k]):
                assert len(found) == len(expected)
                assert all(same(a[0], b[0]) and same_arrays(a[1], b[1]) for a, b in zip(found, expected, strict=True))


def test_append_returns_after_the_disk_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (sizes.append(os.fstat(descriptor).st_size), fsync(descriptor))[1])
    with Journal.create(tmp_path / "a", {}) as journal:
        for i in range(3):
            journal.append("knot", *knot(i))
            assert sizes[-1] == (tmp_path / "a").stat().st_size


def write_until_killed(path: Path, acknowledge: int) -> None:
    """What the child does: go on where the journal ends, and say each number once it is safe."""
    try:
        journal = Journal.open(path) if path.exists() and path.stat().st_size > 200 else Journal.create(path, {"long": "x" * 100})
        i = len(journal)
        while True:
            journal.append("knot", *knot(i))
            i += 1
            os.write(acknowledge, struct.pack("<I", i))
    finally:
        os._exit(1)


def kill_at_random(path: Path, rng: random.Random) -> int:
    """Fork a writer, kill it at a random moment, and return the last number it acknowledged."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        write_until_killed(path, send)
    os.close(send)
    # Some die while the journal is being made, some after a few records, at any point of the loop.
    wanted, data = rng.choice([0, 0, 1, 2, 4, 8]), b""
    while len(data) < 4 * wanted and select.select([receive], [], [], 10)[0]:
        data += os.read(receive, 4096) or b"x" * 10_000
    time.sleep(rng.choice([0, 0.002, 0.02]) * rng.random())
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    while piece := os.read(receive, 4096):
        data += piece
    os.close(receive)
    return struct.unpack(f"<{len(data) // 4}I", data)[-1] if data else 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked writers")
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(2)
    kept = 0
    path = tmp_path / "0.journal"
    for trial in range(KILLS):
        if trial % 5 == 0:
            path, kept = tmp_path / f"{trial}.journal", 0
        acknowledged = max(kept, kill_at_random(path, rng))
        if not path.exists() or path.stat().st_size <= 200:
            # Killed while the journal was being made: nothing was acknowledged, and the next child starts it again.
            assert acknowledged == 0
            continue
        with Journal.open(path) as journal:
            kept = check_is_prefix(journal, acknowledged)
        assert kept >= acknowledged
    assert kept > 0


@pytest.mark.parametrize("filler", [b"", b"\0", b"\xff"], ids=["cut short", "zeros", "ones"])
def test_torn_tails_of_every_length(tmp_path: Path, filler: bytes) -> None:
    """Power cuts leave a frame short, or at full length with pages that were never written."""
    source, path = tmp_path / "source", tmp_path / "torn"
    ends = small_journal(source)
    data = source.read_bytes()
    for length in range(ends[-2], ends[-1]):
        put(path, data[:length] + filler * (ends[-1] - length))
        expected = [1, 2, 3] if path.read_bytes() == data else [1, 2]
        assert records_of(path) == expected
        assert path.stat().st_size == (ends[-1] if len(expected) == 3 else ends[-2])
        if length % 50 == 0:
            with Journal.open(path) as journal:
                journal.append("knot", *knot(9))
            assert records_of(path) == [*expected, 9]


def test_reading_only_neither_cuts_nor_locks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    small_journal(path)
    data = path.read_bytes()[:-5]
    put(path, data)
    with Journal.open(path, append=False) as reader:
        assert len(reader) == 2
        assert reader.cut > 0
        assert path.read_bytes() == data
        with pytest.raises(TamisError, match="opened for reading only, so the record was not added; open it with append=True"):
            reader.append("knot", {}, {})
        with Journal.open(path) as writer:
            writer.append("knot", *knot(5))
        assert [meta["i"] for meta, _ in reader.records("knot")] == [1, 2]


def test_ctrl_c_at_every_line_of_append(tmp_path: Path) -> None:
    """What was acknowledged stays, frames are whole, and the interrupted record is there wholly or not at all."""
    path, line, hit = tmp_path / "a", 0, True
    journal = Journal.create(path, {})
    while hit:
        line += 1
        journal.append("safe", {"n": line}, {})
        hit = interrupted_at(line, lambda: journal.append("knot", *knot(50)), ("journal.py", "codec.py"))
        with Journal.open(path, append=False) as reader:
            assert reader.cut == 0
            assert [meta["n"] for meta, _ in reader.records("safe")] == list(range(1, line + 1))
            assert all(same_arrays(arrays, knot(50)[1]) for _, arrays in reader.records("knot"))
            assert hit or len(reader.records("knot")) > 0
    journal.close()
    assert line > 30


@pytest.mark.parametrize("step", ["write", "fsync", "truncate after write"])
def test_a_failed_append_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a"
    journal = Journal.create(path, {})
    journal.append("knot", *knot(1))
    real, size = journal._file, path.stat().st_size

    class Failing:
        """The journal's file on a disk that fills up after ten more bytes."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def write(self, data: Any) -> int:
            if step != "fsync":
                if self.written:
                    raise OSError(errno.ENOSPC, "No space left on device")
                self.written = True
                return real.write(data[:10])
            return real.write(data)

        def truncate(self, size: int) -> int:
            if step == "truncate after write" and self.written:
                raise OSError(errno.EIO, "Input/output error")
            return real.truncate(size)

        written = False

    def failing_fsync(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal._file = Failing()  # type: ignore[assignment]
    with monkeypatch.context() as patch:
        if step == "fsync":
            patch.setattr(os, "fsync", failing_fsync)
        with pytest.raises(TamisFileError) as caught:
            journal.append("knot", *knot(2))
    assert "not written" in one_sentence(caught.value)
    assert (path.stat().st_size == size) == (step != "truncate after write")
    assert len(journal) == 1
    journal._file = real
    # Once there is room again it goes on, also when the half-written frame could not be taken back at first.
    journal.append("knot", *knot(3))
    journal.close()
    assert records_of(path) == [1, 3]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    code = "import sys; from tamis.store.journal import Journal as J\nj = J.create(sys.argv[1], {}); print('ready', flush=True); input()"
    environment = os.environ | {"PYTHONPATH": SOURCE}
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=-1, stdout=-1, text=True, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        for attempt in (lambda: Journal.open(path), lambda: Journal.create(path, {})):
            with pytest.raises(TamisFileError, match="is being written by another fit, so it was left alone; wait for it or") as caught:
                attempt()
            one_sentence(caught.value)
        assert len(Journal.open(path, append=False)) == 0
        other.kill()
    Journal.open(path).close()  # a killed writer holds no lock
    with Journal.open(path), pytest.raises(TamisFileError, match="another fit"):
        Journal.open(path)


def test_threads_share_a_journal(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "a", {}) as journal:
        threads = [
            threading.Thread(target=lambda k=k: [journal.append(f"fold {k}", {"i": i}, {"x": np.full(i, k)}) for i in range(40)])  # type: ignore[misc]
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            journal.records("fold 1")
            time.sleep(0.005)
    with Journal.open(tmp_path / "a") as journal:
        assert len(journal) == 160
        for k in range(4):
            records = journal.records(f"fold {k}")
            assert [meta["i"] for meta, _ in records] == list(range(40))
            assert all((arrays["x"] == k).all() and arrays["x"].shape == (meta["i"],) for meta, arrays in records)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_worker_may_not_append(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "a", {}) as journal:
        child = os.fork()
        if child == 0:
            try:
                journal.append("knot", {}, {})
            except TamisError as error:
                os._exit(7 if "belongs to the process that opened it" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(journal) == 0


def test_creating_never_overwrites_work(tmp_path: Path) -> None:
    path = tmp_path / "a"
    small_journal(path)
    data = path.read_bytes()
    for content in (data, b"my,own,table\n", data[:-3], b"\x89"[:1] + b"PNG"):
        put(path, content)
        with pytest.raises(TamisFileError, match="exists, so no journal was started; resume it or choose another name") as caught:
            Journal.create(path, {})
        one_sentence(caught.value)
        assert path.read_bytes() == content
    header = struct.unpack("<4sQI", data[:16])[1] + 16
    for length in range(header):  # a start that was itself cut short holds nothing
        put(path, data[:length])
        Journal.create(path, {"n": length}).close()
        with Journal.open(path) as journal:
            assert journal.header == {"n": length}


def test_misuse_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a"
    journal = Journal.create(path, {})
    size = path.stat().st_size
    for bad in (("knot", {"f": print}, {}), ("knot", {}, {"x": np.array([None])}), ("knot", {}, {3: np.zeros(1)}), (None, {}, {})):
        with pytest.raises(TamisError, match=r"so (nothing was written|the record was not added); ") as caught:
            journal.append(*bad)  # type: ignore[arg-type]
        one_sentence(caught.value)
    assert path.stat().st_size == size
    journal.close()
    journal.close()
    for work in (lambda: journal.append("knot", {}, {}), lambda: journal.records("knot")):
        with pytest.raises(TamisError, match=r"is closed, so .*; open it again"):
            work()
    with pytest.raises(TamisError, match="cannot hold"):
        Journal.create(tmp_path / "b", {"f": print})
    with pytest.raises(TamisFileError, match="is a folder"):
        Journal.create(tmp_path, {})
    with pytest.raises(TamisFileError, match="There is no file"):
        Journal.open(tmp_path / "none")
    assert names(tmp_path) == ["a"]
