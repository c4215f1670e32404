"""The command line end to end: what a run writes is what the model says, in every form."""

import csv
import io
import json
import os
import pty
import re
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tamis
from helpers_cli import call, churn, command, environment, one_sentence
from tamis.tables.readers import read_table

QUICK = ("-C", "20", "--n-cuts", "6")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run with every output, and its folder."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.csv").write_text(churn())
    files = [
        word
        for form, name in (
            ("report", "r.html"),
            ("save", "m.tamis"),
            ("sql-file", "m.sql"),
            ("python", "m.py"),
            ("json", "m.json"),
            ("onnx", "m.onnx"),
        )
        for word in (f"--{form}", folder / name)
    ]
    assert call("rules", folder / "train.csv", "--target", "churn", *QUICK, "--sql", "sqlite", "--strict", "--quiet", *files) == 0
    return folder


@pytest.fixture(scope="module")
def model(run):
    return tamis.load(run / "m.tamis")


@pytest.fixture(scope="module")
def rows(run):
    return read_table(run / "train.csv")


@pytest.fixture(scope="module")
def scores(model, rows):
    return model.decision_function(rows.drop_columns(["churn"]))


def test_a_run_says_what_it_found(run, capsys):
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK, "--holdout", "0.25", "--sql", "duckdb") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "Learning 'churn', 2 classes (no: 160, yes: 20), from 3 columns of 180 rows." in said.out
    assert re.search(r"Certified\. Within .* % of the best", said.out)
    assert "IF contract = monthly" in said.out
    assert "THEN churn = yes" in said.out
    assert "single conditions" in said.out
    assert re.search(r"On 60 rows it has not seen .*\n  accuracy \d", said.out)
    assert "SELECT" in said.out
    assert "Traceback" not in said.out


def test_quiet_prints_nothing_but_the_sql(run, capsys):
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK, "--quiet", "--sql", "sqlite") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ((run / "m.sql").read_text(), "")


def test_the_sql_scores_like_the_model(run, rows, scores):
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE data (tenure INTEGER, contract TEXT, charge REAL)")
        listed = rows.select(["tenure", "contract", "charge"]).to_pylist()
        database.executemany("INSERT INTO data VALUES (:tenure, :contract, :charge)", listed)
        found = database.execute((run / "m.sql").read_text()).fetchall()
    assert np.allclose([row[0] for row in found], scores, rtol=1e-12, atol=0)
    assert [row[-1] for row in found] == ["yes" if score > 0 else "no" for score in scores]


def test_the_python_source_scores_like_the_model(run, rows, scores):
    space = {}
    exec((run / "m.py").read_text(), space)
    found = [space["score"](row) for row in rows.to_pylist()]
    assert np.allclose(np.ravel(found), scores, rtol=1e-12, atol=0)


def test_exports_are_the_same_as_those_of_the_run(run, capsys):
    for form, name, more in (("sql", "m.sql", ("--dialect", "sqlite")), ("python", "m.py", ()), ("json", "m.json", ())):
        assert call("export", run / "m.tamis", "--to", form, *more) == 0
        assert capsys.readouterr().out == (run / name).read_text()
    assert call("export", run / "m.tamis", "--to", "onnx", "-o", run / "again.onnx") == 0
    assert (run / "again.onnx").read_bytes() == (run / "m.onnx").read_bytes()
    assert call("export", run / "m.tamis", "--to", "sql", "--from", "customers", "--key", "id", "-o", run / "k.sql") == 0
    text = (run / "k.sql").read_text()
    assert 'FROM "customers"' in text
    assert '"id"' in text
    json.loads((run / "m.json").read_text())


def test_show_says_what_the_run_said(run, capsys):
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK) == 0
    ran = capsys.readouterr().out
    assert call("show", run / "m.tamis") == 0
    shown = capsys.readouterr().out
    start = shown.index("rule ")
    assert shown[start : shown.index("constant, for every row")] in ran


def test_reports_of_the_run_and_of_the_file_are_the_same(run):
    assert call("report", run / "m.tamis") == 0
    assert call("report", run / "m.tamis", "-o", run / "other.html") == 0
    assert (run / "m.html").read_bytes() == (run / "other.html").read_bytes() == (run / "r.html").read_bytes()
    assert (run / "m.html").read_text().startswith("<!doctype html>")


def test_predictions_are_the_models(run, model, rows, capsys):
    features = rows.drop_columns(["churn"])
    assert call("predict", run / "m.tamis", run / "train.csv", "--id", "churn", "--id", "tenure") == 0
    printed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(printed[0]) == ["churn", "tenure", "prediction", "probability_no", "probability_yes"]
    assert [row["prediction"] for row in printed] == list(model.predict(features))
    assert [row["churn"] for row in printed] == rows.column("churn").to_pylist()
    assert np.allclose([float(row["probability_yes"]) for row in printed], model.predict_proba(features)[:, 1], rtol=1e-15)


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet", "p.arrow"])
def test_predictions_go_to_any_kind_of_file(run, model, rows, name):
    assert call("predict", run / "m.tamis", run / "train.csv", "-o", run / name) == 0
    found = read_table(run / name)
    assert found.column("prediction").to_pylist() == list(model.predict(rows.drop_columns(["churn"])))


def test_predicting_reads_no_column_it_does_not_need(run, rows, tmp_path):
    wide = rows.append_column("nested", pa.array([[1]] * rows.num_rows)).append_column("raw", pa.array([b"\xff"] * rows.num_rows))
    parquet.write_table(wide, tmp_path / "wide.parquet")
    assert call("predict", run / "m.tamis", tmp_path / "wide.parquet", "-o", tmp_path / "p.csv") == 0
    assert read_table(tmp_path / "p.csv").num_rows == rows.num_rows


def test_a_row_is_explained(run, model, rows, scores, capsys):
    assert call("explain", run / "m.tamis", run / "train.csv", "--row", "4") == 0
    said = capsys.readouterr().out
    assert f"score {scores[3]:+.4g}".replace("+", "") in said
    assert call("explain", run / "m.tamis", run / "train.csv", "--row", "0") == 1
    assert one_sentence(capsys.readouterr().err)


def test_conditions_of_ones_own_and_prices(run, tmp_path, capsys):
    words = ("--proposition", "fresh=tenure < 12", "--cost", "tenure=50", "--save", tmp_path / "m.tamis")
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK, *words) == 0
    assert "fresh" in capsys.readouterr().out
    model = tamis.load(tmp_path / "m.tamis")
    assert any("fresh" in text for text in model.selected_)
    assert not any("tenure" in text for text in model.selected_)
    assert call("predict", tmp_path / "m.tamis", run / "train.csv", "-o", tmp_path / "p.csv") == 0


def test_verify_agrees_and_refutes(run, tmp_path, capsys):
    assert call("verify", run / "m.tamis", run / "train.csv") == 0
    assert "Recheck agrees" in capsys.readouterr().out
    (tmp_path / "other.csv").write_text(churn().replace(",no\n", ",?\n").replace(",yes\n", ",no\n").replace(",?\n", ",yes\n"))
    assert call("verify", run / "m.tamis", tmp_path / "other.csv") == 2
    assert "Recheck refutes" in capsys.readouterr().out


def test_verify_knows_the_rows_that_were_kept_for_the_test(run, tmp_path, capsys):
    words = ("--holdout", "0.25", "--seed", "3")
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK, *words, "--save", tmp_path / "m.tamis") == 0
    assert call("verify", tmp_path / "m.tamis", run / "train.csv", *words) == 0
    assert "Recheck agrees" in capsys.readouterr().out
    assert call("verify", tmp_path / "m.tamis", run / "train.csv") == 1
    assert one_sentence(capsys.readouterr().err)


def test_not_certified_is_exit_code_2_only_when_strict(run, tmp_path, capsys):
    words = (
        "rules",
        run / "train.csv",
        "-y",
        "churn",
        "-C",
        "500",
        "--max-nodes",
        "2",
        "--tolerance",
        "1e-9",
        "--save",
        tmp_path / "m.tamis",
    )
    assert call(*words) == 0
    assert "Not certified" in capsys.readouterr().out
    assert call(*words, "--strict") == 2
    assert tamis.load(tmp_path / "m.tamis").certificate_.holds is False


def test_a_time_limit_keeps_the_path_so_far(run, tmp_path, capsys):
    assert call("rules", run / "train.csv", "-y", "churn", "--time-limit", "0.01", "--save", tmp_path / "m.tamis") == 0
    assert "limit was reached" in capsys.readouterr().out
    assert len(tamis.load(tmp_path / "m.tamis").path_) >= 1


def test_numbers_are_regressed_and_weights_and_ids_stay_out_of_rules(tmp_path, capsys):
    lines = ["id,w,x,y"] + [f"{i},{1 + i % 3},{i % 20},{(i % 20 > 9) * 3 + i % 7 / 10}" for i in range(200)]
    (tmp_path / "n.csv").write_text("\n".join(lines) + "\n")
    words = (
        "rules",
        tmp_path / "n.csv",
        "-y",
        "y",
        "--weights",
        "w",
        "--id",
        "id",
        "--cuts",
        "all",
        "-C",
        "50",
        "--holdout",
        "0.2",
        "--save",
        tmp_path / "m.tamis",
    )
    assert call(*words) == 0
    said = capsys.readouterr().out
    assert "a number (mean" in said
    assert "from 1 columns of 160 rows" in said
    assert float(re.search(r"  R2 (0\.\d+) \(", said)[1]) > 0.8
    assert "--task" not in said
    assert call("predict", tmp_path / "m.tamis", tmp_path / "n.csv", "-o", tmp_path / "p.csv") == 0
    predicted = np.array(read_table(tmp_path / "p.csv").column("prediction").to_pylist())
    assert predicted[np.arange(200) % 20 > 9].min() > 2.5 > predicted[np.arange(200) % 20 <= 9].max()


def test_whole_numbers_are_classes_when_few_and_may_be_called_otherwise(tmp_path, capsys):
    (tmp_path / "c.csv").write_text("x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(60)))
    assert call("rules", tmp_path / "c.csv", "-y", "y", "-C", "1") == 0
    assert "3 classes (0: 20, 1: 20, 2: 20), from 1 columns of 60 rows (say --task regress if that is wrong)" in capsys.readouterr().out
    assert call("rules", tmp_path / "c.csv", "-y", "y", "-C", "1", "--task", "regress") == 0
    assert "a number (mean 1)" in capsys.readouterr().out


def test_awkward_names_pass_through_every_output(tmp_path, capsys):
    name, label = "a\"b 'c' <b>&\n[red]", "</script>[/]"
    with (tmp_path / "odd.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([name, "y"])
        writer.writerows((("é;ß" if i % 3 else "x,y"), (label if i % 3 else "ok")) for i in range(60))
    files = (
        "--report",
        tmp_path / "r.html",
        "--save",
        tmp_path / "m.tamis",
        "--python",
        tmp_path / "m.py",
        "--json",
        tmp_path / "m.json",
        "--sql",
        "duckdb",
    )
    assert call("rules", tmp_path / "odd.csv", "-y", "y", "-C", "5", *files) == 0
    assert "</script>[/]" not in (tmp_path / "r.html").read_text()
    assert "[red]" in capsys.readouterr().out
    assert call("predict", tmp_path / "m.tamis", tmp_path / "odd.csv") == 0


def test_a_truncated_or_hostile_model_is_one_sentence(run, tmp_path, capsys):
    whole = (run / "m.tamis").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PK\x03\x04", whole.replace(b"RuleClassifier", b"RuleClassifieq")):
        (tmp_path / "bad.tamis").write_bytes(content)
        for words in (("show",), ("report",), ("predict", run / "train.csv")):
            assert call(words[0], tmp_path / "bad.tamis", *words[1:]) == 1
            assert one_sentence(capsys.readouterr().err)
    assert [file.name for file in tmp_path.iterdir()] == ["bad.tamis"]


def test_data_without_a_column_of_the_model_is_one_sentence(run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("tenure,contrakt,charge\n1,monthly,2\n")
    assert call("predict", run / "m.tamis", tmp_path / "new.csv", "-o", tmp_path / "p.csv") == 1
    said = capsys.readouterr().err
    assert one_sentence(said)
    assert "did you mean 'contrakt'?" in said
    (tmp_path / "new.csv").write_text("tenure,contract,charge\nlong,monthly,2\n")
    assert call("predict", run / "m.tamis", tmp_path / "new.csv", "-o", tmp_path / "p.csv") == 1
    assert "'tenure'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_the_doctor_finds_nothing_wrong(capsys):
    assert call("doctor") == 0
    said = capsys.readouterr().out
    assert "Self-test: learned, certified, saved, loaded and verified" in said
    assert "Nothing wrong was found." in said


def test_the_bar_is_drawn_on_a_terminal_and_removed(tmp_path):
    lines = ["a,b,c,d,y"] + [
        f"{i % 97},{i * 31 % 89},{i * 7 % 83},{i * 17 % 79},{'yes' if (i * 7919 % 101) + i % 13 > 60 else 'no'}" for i in range(16_000)
    ]
    (tmp_path / "long.csv").write_text("\n".join(lines) + "\n")
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        command("rules", tmp_path / "long.csv", "-y", "y", "--time-limit", "4", "--quiet"),
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env=environment(TERM="xterm"),
    )
    os.close(theirs)
    drawn = b""
    try:
        while block := os.read(ours, 4096):
            drawn += block
    except OSError:
        pass  # the terminal closes with its last program
    assert child.wait(timeout=60) == 0
    assert re.search(r"path \d+ of 20|fold \d \d+ of 20", drawn.decode())
    assert b"%" in drawn


@pytest.mark.parametrize("words", [("--save", "m.tamis"), ("--report", "r.html"), ("--python", "m.py")])
def test_a_full_disk_is_one_sentence_and_no_partial_file(run, tmp_path, words):
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "-", *command("rules", run / "train.csv", "-y", "churn", *QUICK, "--quiet", *words)]
    done = subprocess.run(limited, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert one_sentence(done.stderr)
    assert "disk is full" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="this system has no folder that nobody can write to")
def test_a_folder_that_takes_no_files_is_one_sentence(run, capsys):
    assert call("rules", run / "train.csv", "-y", "churn", *QUICK, "--quiet", "--save", "/proc/m.tamis") == 1
    said = capsys.readouterr().err
    assert one_sentence(said)
    assert "m.tamis" in said
