"""Stopped runs: kill -9 loses no finished knot and resume ends in the same file; Ctrl-C leaves a usable model."""

import random
import signal
import subprocess
import time

import numpy as np
import pytest

import tamis
from helpers_cli import command, environment, one_sentence, process
from tamis.core.errors import TamisFileError
from tamis.store.journal import Journal
from tamis.tables.readers import read_table

SECTIONS = ("path", "fold-0", "fold-1", "single", "single-fold-0", "single-fold-1")
RUN = (
    "rules",
    "train.csv",
    "--target",
    "y",
    "--cv",
    "2",
    "--n-path",
    "6",
    "--journal",
    "run.journal",
    "--save",
    "m.tamis",
    "--report",
    "r.html",
)


def folder_with_data(folder):
    """A table whose path takes a few seconds."""
    draw = random.Random(1)
    lines = ["a,b,c,d,y"]
    for _ in range(500):
        a, b, c, d = (draw.random() for _ in range(4))
        score = 3 * (a > 0.6 and b < 0.4) + 2 * (c > 0.5 and d > 0.5) - 1 + draw.gauss(0, 0.7)
        lines.append(f"{a:.3f},{b:.3f},{c:.3f},{d:.3f},{'yes' if score > 0 else 'no'}")
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    return folder


def started(folder, *words):
    """A command under way, with Ctrl-C as a shell would give it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits "ignored", and pytest may run in the background
    try:
        return subprocess.Popen(command(*words), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def finished_knots(folder):
    """Every knot on disk, as its section and its bytes."""
    try:
        with Journal.open(folder / "run.journal", append=False) as journal:
            return [
                (section, repr(meta), {name: array.tobytes() for name, array in arrays.items()})
                for section in SECTIONS
                for meta, arrays in journal.records(section)
            ]
    except TamisFileError:
        return []


def wait_for_more(folder, count, child):
    """Until there are more knots than that, or the run has ended by itself."""
    until = time.monotonic() + 60
    while len(finished_knots(folder)) <= count and child.poll() is None:
        assert time.monotonic() < until, "the run makes no progress"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = folder_with_data(tmp_path_factory.mktemp("whole"))
    done = process(*RUN, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_killed_runs_go_on_and_end_in_the_same_files(uninterrupted, tmp_path):
    folder = folder_with_data(tmp_path)
    words, kills = RUN, 0
    for wanted in (3, 9, 16):
        child = started(folder, *words)
        before = finished_knots(folder)
        wait_for_more(folder, max(wanted, len(before)), child)
        seen = finished_knots(folder)
        kills += child.poll() is None
        child.kill()
        child.communicate()
        kept = finished_knots(folder)
        assert [knot for knot in seen if knot not in kept] == []
        assert [knot for knot in before if knot not in kept] == []
        assert not (folder / "m.tamis").exists()
        words = ("resume", "run.journal")
    assert kills == 3
    done = process("resume", "run.journal", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "m.tamis").read_bytes() == (uninterrupted / "m.tamis").read_bytes()
    assert (folder / "r.html").read_bytes() == (uninterrupted / "r.html").read_bytes()
    assert finished_knots(folder) == finished_knots(uninterrupted)


def test_ctrl_c_once_keeps_the_path_so_far(uninterrupted, tmp_path):
    folder = folder_with_data(tmp_path)
    child = started(folder, *RUN)
    wait_for_more(folder, 4, child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert "Interrupted: this is the best model so far" in out
    assert "Saved the model" in out
    model = tamis.load(folder / "m.tamis")
    assert model.status_ == "interrupted"
    assert 1 <= len(model.path_) < 6
    assert np.isfinite(model.decision_function(read_table(folder / "train.csv", drop=["y"]))).all()
    assert (folder / "r.html").stat().st_size > 10_000
    assert process("resume", "run.journal", folder=folder).returncode == 0
    assert (folder / "m.tamis").read_bytes() == (uninterrupted / "m.tamis").read_bytes()


def test_ctrl_c_twice_leaves_at_once(tmp_path):
    folder = folder_with_data(tmp_path)
    child = started(folder, *RUN)
    wait_for_more(folder, 1, child)
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, err = child.communicate()
    assert child.returncode == 130
    assert one_sentence(err)
    assert {file.name for file in folder.iterdir()} <= {"train.csv", "run.journal"}


def test_missing_and_changed_data_are_one_sentence(uninterrupted, tmp_path):
    folder = tmp_path / "moved"
    folder.mkdir()
    (folder / "run.journal").write_bytes((uninterrupted / "run.journal").read_bytes())
    data = uninterrupted / "train.csv"
    whole = data.read_text()
    for spoil, says in (
        (data.unlink, "There is no file"),
        (lambda: data.write_text(whole.replace("no", "yes", 1)), "has changed since the run was stopped"),
    ):
        spoil()
        try:
            done = process("resume", "run.journal", folder=folder)
        finally:
            data.write_text(whole)
        assert done.returncode == 1
        assert one_sentence(done.stderr)
        assert says in done.stderr
    assert [file.name for file in folder.iterdir()] == ["run.journal"]


def test_a_journal_of_something_else_is_one_sentence(uninterrupted, tmp_path):
    Journal.create(tmp_path / "python.journal", {"fit": {}}).close()
    done = process("resume", tmp_path / "python.journal")
    assert (done.returncode, one_sentence(done.stderr)) == (1, True)
    assert "was not started by `tamis rules`" in done.stderr
    changed = process(*RUN, "--rho", "1.5", folder=uninterrupted)
    assert (changed.returncode, one_sentence(changed.stderr)) == (1, True)
    assert "belongs to a fit of other data or parameters" in changed.stderr
