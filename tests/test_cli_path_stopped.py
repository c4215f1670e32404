"""Stopped runs of `tamis path`: kill -9 loses no finished knot, Ctrl-C leaves a usable model; its progress bar, and its demos."""

import re
import resource
import signal
import subprocess
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tamis
from helpers_cli import call, command, environment, one_sentence, process
from tamis.cli.demo_fused import NEAR, NOISE, fused_model, jumps_of
from tamis.cli.demo_fused import signal as noisy_signal
from tamis.cli.progress import ProgressBar, describe
from tamis.core.errors import TamisFileError
from tamis.store.journal import Journal

RUN = ("--target", "y", "--cv", "2", "--journal", "run.journal", "--save", "m.tamis", "--report", "r.html")
LONG = ("path", "long.parquet", *RUN)
DAMPED = ("path", "long.parquet", *RUN, "--kappa", "300", "--loss", "huber")


def write_long(folder, seed=2):
    """A path of hundreds of knots."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(600, 250))
    y = X[:, :30] @ draw.normal(size=30) + draw.normal(size=600)
    parquet.write_table(pa.table({f"c{j}": X[:, j] for j in range(250)} | {"y": y}), folder / "long.parquet")
    return folder


def knots_on_disk(folder):
    try:
        with Journal.open(folder / "run.journal", append=False) as journal:
            return [(repr(meta), {name: array.tobytes() for name, array in arrays.items()}) for meta, arrays in journal.records("path")]
    except TamisFileError:
        return []


def wait_for(folder, count, child):
    until = time.monotonic() + 100
    while len(knots_on_disk(folder)) <= count and child.poll() is None:
        assert time.monotonic() < until, "the run makes no progress"
        time.sleep(0.02)


def started(folder, *words):
    """A command under way, with Ctrl-C as a shell would give it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command(*words), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = write_long(tmp_path_factory.mktemp("whole"))
    done = process(*LONG, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_killed_runs_go_on_and_end_in_the_same_path(uninterrupted, tmp_path):
    folder, words, kills = write_long(tmp_path), LONG, 0
    for wanted in (10, 100):
        child = started(folder, *words)
        before = knots_on_disk(folder)
        wait_for(folder, max(wanted, len(before)), child)
        seen = knots_on_disk(folder)
        kills += child.poll() is None
        child.kill()
        child.communicate()
        kept = knots_on_disk(folder)
        assert kept[: len(seen)] == seen
        assert seen[: len(before)] == before
        assert not (folder / "m.tamis").exists()
        words = ("resume", "run.journal")
    assert kills == 2
    done = process("resume", "run.journal", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = (tamis.load(where / "m.tamis") for where in (folder, uninterrupted))
    assert [knot.names for knot in first.path_.knots] == [knot.names for knot in second.path_.knots]
    assert np.allclose(first.path_.t, second.path_.t, rtol=1e-11, atol=0)
    for ours, theirs in zip(first.path_.knots, second.path_.knots, strict=True):
        assert np.allclose(ours.coefficients, theirs.coefficients, rtol=1e-9, atol=1e-12)
    assert (first.selected_, first.status_) == (second.selected_, second.status_)
    assert first.certificate_.holds
    assert (folder / "r.html").stat().st_size > 50_000


def test_ctrl_c_keeps_the_path_so_far(uninterrupted, tmp_path):
    folder = write_long(tmp_path)
    child = started(folder, *LONG)
    wait_for(folder, 10, child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=100)
    assert (child.returncode, err) == (0, "")
    assert "Interrupted: this is the best model so far" in out
    model = tamis.load(folder / "m.tamis")
    assert model.status_ == "interrupted"
    assert 1 <= len(model.path_) < len(knots_on_disk(uninterrupted))
    assert "The path was interrupted" in (folder / "r.html").read_text()


def test_damped_runs_go_on_where_they_were(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = write_long(tmp_path / "whole")
    assert process(*DAMPED, folder=whole).returncode == 0
    folder = write_long(tmp_path)
    child = started(folder, *DAMPED)
    wait_for(folder, 20, child)
    assert child.poll() is None
    child.kill()
    child.communicate()
    seen = knots_on_disk(folder)
    assert process("resume", "run.journal", folder=folder).returncode == 0
    assert knots_on_disk(folder)[: len(seen)] == seen
    first, second = (tamis.load(where / "m.tamis") for where in (folder, whole))
    assert first.selected_ == second.selected_
    assert np.allclose(first.coef_, second.coef_, rtol=1e-9, atol=0)
    assert first.certificate_.holds


def test_a_changed_file_is_not_resumed(uninterrupted, tmp_path):
    (tmp_path / "run.journal").write_bytes((uninterrupted / "run.journal").read_bytes())
    data = uninterrupted / "long.parquet"
    whole = data.read_bytes()
    write_long(uninterrupted, seed=3)
    try:
        done = process("resume", "run.journal", folder=tmp_path)
    finally:
        data.write_bytes(whole)
    assert (done.returncode, one_sentence(done.stderr)) == (1, True)
    assert "has changed since the run was stopped" in done.stderr


# ---- progress ---------------------------------------------------------------------------------------------------
def test_progress_of_paths_of_unknown_length_only_rises():
    with ProgressBar(patience=1e9, passes=6) as bar:
        seen = []
        for phase in ("path", *(f"fold-{k}" for k in range(5))):
            for knot in range(40):
                bar({"phase": phase, "knot": knot, "of": 0, "t": 0.1 * knot, "held": knot, "gap": float("inf")})
                seen.append(bar.done)
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[39] < 1 / 6 <= seen[40]
    assert 5 / 6 < seen[-1] < 1
    assert describe({"phase": "fold-2", "knot": 3, "of": 0, "t": 0.25, "held": 4, "gap": float("inf")}) == "fold 2 4, t = 0.25, 4 held"


# ---- demos ------------------------------------------------------------------------------------------------------
def seconds_of(*words, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = process(*words, folder=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime - before.ru_utime


def test_the_demo_of_paths_compares_honestly(tmp_path):
    done, seconds = seconds_of("demo", "path", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert seconds < 20
    assert [file.name for file in tmp_path.iterdir()] == ["tamis-demo.html"]
    assert "Certified. Exact to" in done.stdout
    entries = re.findall(r"^  ([A-Za-z/ ]+?) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert len(entries) == 10
    assert entries[0][1] == entries[0][2]
    assert [entry[0] for entry in entries] == [entry[0] for entry in sorted(entries, key=lambda entry: float(entry[2]))]
    assert "The order of entry is that of the lasso." in done.stdout
    errors = {name.strip(): float(error) for name, error in re.findall(r"^  ([a-zA-Z(), ]+?) +(\d{4}) ± \d+, ", done.stdout, re.MULTILINE)}
    assert set(errors) == {"exact path", "lasso", "lasso, refitted", "matching pursuit (OMP)"}
    # Refitting each lasso support is a method of its own; the best of all is named, whoever it is.
    best = min(errors, key=errors.get)
    assert (f"that of the {best};" in done.stdout) if best != "exact path" else ("The exact path has the lowest" in done.stdout)


def test_the_demo_of_jumps_finds_them(tmp_path):
    done, seconds = seconds_of("demo", "fused", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert seconds < 20
    assert "6 of 6 jumps were found" in done.stdout
    page = (tmp_path / "tamis-demo.html").read_text()
    assert "Coefficients along the columns" in page
    distances = [float(found) for found in re.findall(r"distance to the truth, .*: +([\d.]+)", done.stdout)]
    assert distances[2] < 0.5 * distances[1] < 0.5 * distances[0]


def test_jumps_are_found_on_other_noise():
    for seed in (1, 2):
        truth, seen = noisy_signal(seed)
        model = fused_model().fit(np.eye(len(seen)), seen)
        found = [place for place, _ in jumps_of(model.projected_coef_)]
        clear = [place for place, size in jumps_of(truth) if abs(size) >= 5 * NOISE]
        assert len(clear) == 4
        assert all(min(abs(place - other) for other in found) <= NEAR for place in clear)
    assert jumps_of(np.array([1.0, 1.0, 3.0])) == [(2, 2.0)]


def test_demos_are_listed(capsys):
    assert call("demo", "--list") == 0
    said = capsys.readouterr().out
    assert re.search(r"^path +", said, re.MULTILINE)
    assert re.search(r"^fused +", said, re.MULTILINE)
