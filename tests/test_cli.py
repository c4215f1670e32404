"""The command line's surface: help, versions, exit codes, and one sentence for everything that can be mistyped."""

import errno
import resource
import subprocess
import sys

import pytest

import tamis
from helpers_cli import call, churn, command, environment, one_sentence, process
from tamis.cli.boundary import run, sentence
from tamis.cli.demo_data import CELLS, LINES, halves, tic_tac_toe
from tamis.cli.progress import ProgressBar, describe
from tamis.cli.request import Request
from tamis.core.errors import TamisError

HEAVY = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "numba", "narwhals", "matplotlib", "jinja2"}
COMMANDS = ("demo", "rules", "path", "resume", "show", "predict", "explain", "export", "report", "verify", "doctor")


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text(churn())
    return file


def test_help_is_quick_and_loads_nothing_heavy():
    code = "import sys\ntry:\n from tamis.cli.app import main; main(['--help'])\nfinally:\n print('LOADED', *sys.modules)"
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)  # other programs do not count
    assert all(name in done.stdout for name in COMMANDS)
    assert not HEAVY & set(done.stdout.partition("LOADED")[2].split())
    assert min(seconds) <= 0.4


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    assert call(name, "--help") == 0
    assert "Usage: tamis" in capsys.readouterr().out


def test_version():
    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"tamis {tamis.__version__}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rulez"], "No such command 'rulez'"),
        (["rules"], "Missing argument 'TRAIN'"),
        (["rules", "FILE"], "Missing option '--target'"),
        (["rules", "FILE", "--target", "churn", "--los", "hinge"], "No such option: --los"),
        (["rules", "FILE", "--target", "churn", "--loss", "cubic"], "'cubic' is not one of"),
        (["rules", "FILE", "--target", "churn", "--rho", "one"], "Invalid value for '--rho'"),
        (["rules", "nowhere.csv", "--target", "churn"], "There is no file 'nowhere.csv'"),
        (["rules", "FILE", "--target", "chrn"], "has no column 'chrn'; did you mean 'churn'?"),
        (["rules", "FILE", "--target", "churn", "--weights", "w"], "--weights: "),
        (["rules", "FILE", "--target", "churn", "--id", "key"], "--id: "),
        (["rules", "FILE", "--target", "churn", "--drop", "key"], "has no column 'key'"),
        (
            ["rules", "FILE", "--target", "churn", "--drop", "tenure", "--drop", "contract", "--drop", "charge"],
            "no column beside the target",
        ),
        (["rules", "FILE", "--target", "churn", "--task", "regress"], "cannot be predicted as a number"),
        (["rules", "FILE", "--target", "churn", "--weights", "contract"], "must be a number in every row"),
        (["rules", "FILE", "--target", "tenure"], "The target 'tenure' is missing in"),
        (["rules", "FILE", "--target", "charge", "--class-weight", "balanced"], "--class-weight means nothing in regression"),
        (["rules", "FILE", "--target", "churn", "--holdout", "1.5"], "--holdout is 1.5"),
        (["rules", "FILE", "--target", "churn", "--table", "t"], "is not a database"),
        (["rules", "FILE", "--target", "churn", "--report", "FILE"], "is the data itself"),
        (["rules", "FILE", "--target", "churn", "--report", "no/r.html"], "does not exist"),
        (["rules", "FILE", "--target", "churn", "--save", "."], "is a folder"),
        (["rules", "FILE", "--target", "churn", "--save", "a", "--report", "./a"], "in the same file"),
        (["rules", "FILE", "--target", "churn", "--sql", "cobol"], "cobol"),
        (["rules", "FILE", "--target", "churn", "--choose", "luck"], "luck"),
        (["rules", "FILE", "--target", "churn", "--prune", "most"], "most"),
        (["rules", "FILE", "--target", "churn", "--rho", "3"], "rho"),
        (["rules", "FILE", "--target", "churn", "--cost", "tenure"], "is not NAME=VALUE"),
        (["rules", "FILE", "--target", "churn", "--cost", "tenure=much"], "has no number"),
        (["rules", "FILE", "--target", "churn", "--cost", "tenur=2"], "tenur"),
        (["rules", "FILE", "--target", "churn", "--proposition", "p=tenur > 3"], "tenur"),
        (["rules", "FILE", "--target", "churn", "--proposition", "p=tenure >"], "tenure >"),
        (["rules", "FILE", "--target", "churn", "-C", "0"], "C=0.0"),
        (["rules", "FILE", "--target", "churn", "--increasing", "contract"], "'contract'"),
        (["rules", "FILE", "--target", "churn", "--min-support", "1000"], "min_support"),
        (["show", "nowhere.tamis"], "There is no file 'nowhere.tamis'"),
        (["show", "FILE"], "FILE"),
        (["predict", "nowhere.tamis", "FILE"], "There is no file 'nowhere.tamis'"),
        (["predict", "FILE", "FILE", "--out", "p.xlsx"], "predictions are not written in"),
        (["export", "FILE", "--to", "onnx"], "--out"),
        (["export", "FILE"], "Missing option '--to'"),
        (["report", "nowhere.tamis"], "There is no file 'nowhere.tamis'"),
        (["verify", "nowhere.tamis", "FILE"], "There is no file 'nowhere.tamis'"),
        (["resume", "nowhere.journal"], "There is no file 'nowhere.journal'"),
        (["resume", "FILE"], "FILE"),
        (["demo", "chess"], "There is no demo 'chess'"),
        (["demo", "--out", "no/where.html"], "does not exist"),
    ],
)
def test_wrong_words_are_one_sentence(words, says, data, monkeypatch, capfd):
    monkeypatch.chdir(data.parent)
    code = call(*(data.name if word == "FILE" else word for word in words))
    said = capfd.readouterr().err
    assert code == 1
    assert one_sentence(said), said
    assert says.replace("FILE", data.name) in said
    assert [file.name for file in data.parent.iterdir()] == [data.name]


def test_a_table_of_one_class_is_one_sentence(tmp_path, capfd):
    file = tmp_path / "one.csv"
    file.write_text("x,y\n1,a\n2,a\n3,a\n")
    assert call("rules", file, "-y", "y", "--save", tmp_path / "m.tamis") == 1
    said = capfd.readouterr().err
    assert one_sentence(said)
    assert "'a'" in said
    assert not (tmp_path / "m.tamis").exists()


@pytest.mark.parametrize(("column", "says"), [("0", "sample_weight is zero for every row"), ("-1", "negative"), ("inf", "infinite")])
def test_impossible_weights_are_one_sentence(tmp_path, capfd, column, says):
    file = tmp_path / "w.csv"
    file.write_text("x,y,w\n" + "".join(f"{i},{'ab'[i % 2]},{column}\n" for i in range(20)))
    assert call("rules", file, "-y", "y", "--weights", "w") == 1
    said = capfd.readouterr().err
    assert one_sentence(said)
    assert says in said


def test_a_process_of_its_own_says_the_same_and_a_traceback_only_when_asked(data):
    done = process("rules", "x.csv", "-y", "churn", folder=data.parent)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "There is no file 'x.csv'; check its name and folder.\n"
    debugged = process("rules", "x.csv", "-y", "churn", folder=data.parent, TAMIS_DEBUG="1")
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr


def test_failures_become_codes_and_sentences(capfd):
    def failing(error):
        def body():
            raise error

        return run(body)

    assert failing(TamisError("What, so what; do this.")) == 1
    assert failing(KeyboardInterrupt()) == 130
    assert failing(MemoryError()) == 1
    assert failing(ZeroDivisionError("division by zero")) == 1
    assert run(lambda: 2) == 2
    assert run(lambda: None) == 0
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0] == "What, so what; do this."
    assert "TAMIS_DEBUG=1" in said[3]


def test_what_the_system_refuses_is_said_in_words():
    assert "disk is full" in sentence(OSError(errno.ENOSPC, "No space left on device", "m.tamis"))
    assert "read-only" in sentence(OSError(errno.EROFS, "Read-only file system", "m.tamis"))
    assert sentence(OSError(errno.EIO, "Input/output error", "m.tamis")).startswith("'m.tamis' cannot be used")
    assert sentence(ValueError("two\nlines")) == "two lines."


def test_a_reader_that_leaves_early_is_no_error(data):
    words = " ".join(command("rules", data, "-y", "churn", "--sql", "duckdb", "-C", "1"))
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, env=environment(), timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_options_become_parameters():
    request = Request.from_options(
        {"train": "a.csv", "target": "y", "drop": ["u", "v"], "increasing": ["x"], "decreasing": ["z"], "max_length": 0, "choose": "2.5",
         "prune": "none", "rho": 1.5, "cost": ["u = 2"], "proposition": ["p=a = b"], "loss": None,
         "seed": 3, "quiet": True, "strict": False, "task": "auto", "journal": None}
    )  # fmt: skip
    assert request.parameters == {
        "max_length": None,
        "choose": 2.5,
        "prune": None,
        "rho": 1.5,
        "monotone": {"x": 1, "z": -1},
        "costs": {"u": 2.0},
        "propositions": {"p": "a = b"},
    }
    assert (request.seed, request.journal, request.outputs.quiet, request.source.drop) == (3, None, True, ("u", "v"))


def test_a_request_survives_the_journal_header(tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    said = {"train": "a.csv", "target": "y", "drop": ["u"], "cuts": "none", "report": "r.html", "seed": 1, "journal": "j"}
    again = Request.from_dict(json.loads(json.dumps(Request.from_options(said).to_dict())))
    assert again.source.train == str(tmp_path / "a.csv")
    assert again.outputs.report == str(tmp_path / "r.html")
    assert (again.source.drop, again.parameters, again.seed) == (("u",), {"cuts": "none"}, 1)
    with pytest.raises(TamisError, match="cannot be understood"):
        Request.from_dict({"source": {"traine": 1}})


def test_tic_tac_toe_has_its_known_boards():
    columns, wins = tic_tac_toe()
    boards = list(zip(*columns.values(), strict=True))
    assert tuple(columns) == CELLS
    assert (len(boards), len(set(boards)), sum(wins)) == (958, 958, 626)
    for board, win in zip(boards, wins, strict=True):
        x, o = (any(all(board[i] == mark for i in line) for line in LINES) for mark in "xo")
        assert win == x
        assert not (x and o)
        assert board.count("x") - board.count("o") in (0, 1)
        assert x or o or "blank" not in board
        assert not x or board.count("x") == board.count("o") + 1
        assert not o or board.count("x") == board.count("o")
    first, second = halves(wins)
    assert sorted(first + second) == list(range(958))
    assert sum(wins[i] for i in first) == sum(wins[i] for i in second) == 313


def test_demos_are_listed(capsys):
    assert call("demo", "--list") == 0
    assert "rules" in capsys.readouterr().out


class Screen:
    """A stream that may be a terminal."""

    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def events():
    for knot in range(20):
        for phase in ("path", "fold-0", "fold-1"):
            yield {"phase": phase, "knot": knot, "of": 20, "gap": 0.02, "held": 7, "looked": 99, "t": 1.0, "seconds": 1.0}
    for knot in range(20):
        yield {"phase": "single", "knot": knot, "of": 20, "gap": 0.01, "held": 3, "t": 1.0}


def test_progress_only_rises():
    with ProgressBar(Screen(terminal=False), patience=0) as bar:
        seen = []
        for event in events():
            bar(event)
            seen.append(bar.done)
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert 0.5 < seen[59] < 0.85
    assert 0.9 < seen[-1] <= 1.0


@pytest.mark.parametrize(("terminal", "patience", "drawn"), [(True, 0, True), (True, 60, False), (False, 0, False)])
def test_the_bar_shows_only_on_a_terminal_and_only_for_long_work(terminal, patience, drawn):
    screen = Screen(terminal)
    with ProgressBar(screen, patience=patience) as bar:
        for event in events():
            bar(event)
    assert ("gap 2.0 %" in screen.text or "gap 1.0 %" in screen.text) == drawn
    assert bool(screen.text) == drawn


def test_events_in_words():
    assert describe({"phase": "fold-3", "knot": 0, "of": 20, "gap": float("inf"), "held": 1}) == "fold 3 1 of 20, 1 held"
    assert describe({"phase": "single-fold-0", "knot": 4, "of": 5}) == "single conditions 5 of 5"
