"""`tamis path`, end to end: what a run writes is what the model says, stopped runs go on, and mistakes are one sentence."""

import csv
import io
import json
import re
import sqlite3

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse
from scipy.io import mmwrite

import tamis
from helpers_cli import call, one_sentence
from tamis.cli.path import groups_in, is_file_name, matrix_in
from tamis.cli.request import Request
from tamis.core.errors import TamisError
from tamis.tables.readers import read_table

COLUMNS = ("age", "dose", "a b", "pulse", "noise")


def write_numbers(file, rows=150, text=False):
    """A table of numbers whose target needs three of five columns."""
    draw = np.random.default_rng(5)
    X = draw.normal(size=(rows, 5)) * [10, 1, 0.1, 5, 1]
    y = 0.3 * X[:, 0] + 2 * X[:, 1] - 15 * X[:, 2] + draw.normal(size=rows)
    head = [*COLUMNS, "kind", "site", "count", "y", "w"] if text else [*COLUMNS, "kind", "count", "y", "w"]
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        for i in range(rows):
            kind = "high" if y[i] > 1 else "low" if y[i] < -1 else "middle"
            cells = [*map(repr, X[i].tolist()), kind, *(["north"] if text else []), draw.poisson(np.exp(0.2 * y[i].clip(-5, 5)))]
            writer.writerow([*cells, repr(float(y[i])), 1 + i % 2])
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, and models learned from it by the command."""
    found = tmp_path_factory.mktemp("path")
    data = write_numbers(found / "train.csv")
    numbers = ("--target", "y", "--drop", "kind", "--drop", "count", "--drop", "w", "--quiet")
    results = ("--report", found / "m.html", "--save", found / "m.tamis", "--picture", found / "m.svg")
    assert call("path", data, *numbers, "--strict", *results) == 0
    kinds = ("--target", "kind", "--drop", "y", "--drop", "count", "--drop", "w", "--quiet")
    assert call("path", data, *kinds, "--penalty", "column", "--save", found / "c.tamis") == 0
    return found


@pytest.fixture(scope="module")
def rows(folder):
    return read_table(folder / "train.csv")


@pytest.fixture(scope="module")
def model(folder):
    return tamis.load(folder / "m.tamis")


@pytest.fixture(scope="module")
def features(rows):
    return rows.select(list(COLUMNS))


def test_a_run_says_what_it_found(folder, capsys):
    words = ("--drop", "kind", "--drop", "count", "--weights", "w", "--holdout", "0.2")
    assert call("path", folder / "train.csv", "-y", "y", *words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "Learning 'y', a number (mean" in said.out
    assert "from 5 columns of 120 rows." in said.out
    assert re.search(r"Certified\. Exact to \d\.\de-1\d: up to here no dual of 5 columns", said.out)
    assert re.search(r"age +\+0\.\d+ +\d +0\.\d+", said.out)
    assert re.search(r"On 30 rows it has not seen .*\n  R2 0\.\d", said.out)
    assert "%" not in said.out.split("On 30 rows")[0]


def test_the_model_is_the_estimators(folder, model, rows, features):
    again = tamis.InverseScaleRegressor(random_state=0).fit(features, rows.column("y").to_numpy())
    assert type(model) is tamis.InverseScaleRegressor
    assert np.array_equal(model.coef_, again.coef_)
    assert model.t_ == again.t_
    assert {"age", "dose", "a b"} <= set(model.selected_)
    assert (folder / "m.html").read_text().startswith("<!doctype html>")
    assert "<svg" in (folder / "m.svg").read_text()


@pytest.mark.parametrize(
    ("words", "kind", "parameters"),
    [
        (("--kappa", "50"), "BregmanRegressor", {"kappa": 50.0}),
        (("--loss", "huber"), "BregmanRegressor", {"loss": "huber"}),
        (("--loss", "squared", "--max-features", "2"), "InverseScaleRegressor", {"max_features": 2}),
        (("--no-intercept", "--no-standardize", "--nonnegative"), "InverseScaleRegressor",
         {"fit_intercept": False, "standardize": False, "nonnegative": True}),
        (("--penalty-factor", "a b=0", "--penalty-factor", "age = 3"), "InverseScaleRegressor",
         {"penalty_factor": {"a b": 0.0, "age": 3.0}}),
        (("--t-max", "0.5", "--choose", "last"), "InverseScaleRegressor", {"t_max": 0.5, "choose": "last"}),
        (("--choose", "0.4", "--cv", "3", "--seed", "4"), "InverseScaleRegressor", {"choose": 0.4, "cv": 3, "random_state": 4}),
        (("--transform", "fused+identity", "--nu", "2"), "InverseScaleRegressor", {"nu": 2.0}),
    ],
)  # fmt: skip
def test_words_become_parameters(folder, rows, tmp_path, words, kind, parameters):
    file = tmp_path / "m.tamis"
    drops = ("--drop", "kind", "--drop", "count", "--drop", "w", "--quiet")
    assert call("path", folder / "train.csv", "-y", "y", *drops, *words, "--save", file) == 0
    found = tamis.load(file)
    assert type(found).__name__ == kind
    said = found.get_params()
    assert {name: said[name] for name in parameters} == parameters


def test_counts_and_classes_find_their_estimator(folder, tmp_path, capsys):
    drops = ("--drop", "kind", "--drop", "y", "--drop", "w")
    assert call("path", folder / "train.csv", "-y", "count", *drops, "--loss", "poisson", "--save", tmp_path / "p.tamis") == 0
    assert "a number (mean" in capsys.readouterr().out
    found = tamis.load(tmp_path / "p.tamis")
    assert (type(found).__name__, found.loss) == ("BregmanRegressor", "poisson")
    classes = tamis.load(folder / "c.tamis")
    assert type(classes).__name__ == "BregmanClassifier"
    assert classes.classes_.tolist() == ["high", "low", "middle"]


def test_groups_come_from_a_file(folder, tmp_path):
    (tmp_path / "g.csv").write_text("column,group\nage,body\npulse,body\n")
    words = ("--drop", "kind", "--drop", "count", "--drop", "w", "--quiet", "--groups", tmp_path / "g.csv", "--save", tmp_path / "m.tamis")
    assert call("path", folder / "train.csv", "-y", "y", *words) == 0
    found = tamis.load(tmp_path / "m.tamis")
    for knot in found.path_.knots:
        assert ("age" in knot.names) == ("pulse" in knot.names)
    assert any(("dose" in knot.names) != ("age" in knot.names) for knot in found.path_.knots)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv", "tsv", "mtx"])
def test_a_matrix_comes_from_a_file(folder, tmp_path, kind):
    D = np.diff(np.eye(5), axis=0)
    file = tmp_path / f"D.{kind}"
    if kind == "npz":
        sparse.save_npz(file, sparse.csr_array(D))
    elif kind == "npy":
        np.save(file, D)
    elif kind == "mtx":
        mmwrite(file, sparse.coo_array(D))
    else:
        separator = "," if kind == "csv" else "\t"
        np.savetxt(file, D, delimiter=separator, header=separator.join(COLUMNS) if kind == "csv" else "", comments="")
    assert is_file_name(str(file))
    found = matrix_in(file)
    assert np.array_equal(found.toarray() if sparse.issparse(found) else found, D)
    words = ("--drop", "kind", "--drop", "count", "--drop", "w", "--quiet", "--transform", file, "--save", tmp_path / "m.tamis")
    assert call("path", folder / "train.csv", "-y", "y", *words) == 0
    assert tamis.load(tmp_path / "m.tamis").transformation_.shape == (4, 5)


# ---- saved models -----------------------------------------------------------------------------------------------
def test_show_and_report_repeat_the_run(folder, capsys):
    words = ("--drop", "kind", "--drop", "count", "--drop", "w")
    assert call("path", folder / "train.csv", "-y", "y", *words) == 0
    ran = capsys.readouterr().out
    assert call("show", folder / "m.tamis") == 0
    shown = capsys.readouterr().out
    assert shown.strip() in ran
    assert call("report", folder / "m.tamis", "-o", folder / "again.html") == 0
    assert (folder / "again.html").read_bytes() == (folder / "m.html").read_bytes()


def test_predictions_are_the_models_anywhere_on_the_path(folder, model, features, capsys):
    assert call("predict", folder / "m.tamis", folder / "train.csv", "--id", "kind") == 0
    printed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(printed[0]) == ["kind", "prediction"]
    assert np.allclose([float(row["prediction"]) for row in printed], model.predict(features), rtol=1e-15)
    t = float(model.path_.t[1]) * 1.01
    assert call("predict", folder / "m.tamis", folder / "train.csv", "--t", t, "-o", folder / "p.parquet") == 0
    early = read_table(folder / "p.parquet").column("prediction").to_numpy()
    assert np.array_equal(early, model.predict(features, t))
    assert not np.allclose(early, model.predict(features))
    classes = tamis.load(folder / "c.tamis")
    assert call("predict", folder / "c.tamis", folder / "train.csv", "-o", folder / "p.csv") == 0
    found = read_table(folder / "p.csv")
    assert found.column("prediction").to_pylist() == classes.predict(features).tolist()
    chances = np.column_stack([found.column(f"probability_{label}").to_numpy() for label in classes.classes_])
    assert np.allclose(chances, classes.predict_proba(features), rtol=1e-12)


def test_only_the_columns_of_the_model_are_read(folder, rows, tmp_path):
    wide = rows.append_column("nested", pa.array([[1]] * rows.num_rows))
    parquet.write_table(wide, tmp_path / "wide.parquet")
    assert call("predict", folder / "m.tamis", tmp_path / "wide.parquet", "-o", tmp_path / "p.csv") == 0


@pytest.mark.parametrize("name", ["m.tamis", "c.tamis", "b.tamis", "n.tamis"])
def test_exports_score_like_the_model(folder, rows, features, name, capsys):
    extra = {
        "b.tamis": ("--target", "big", "--kappa", "30"),
        "n.tamis": ("--target", "count", "--loss", "poisson"),
    }
    if name in extra:
        table = rows.append_column("big", pa.array(rows.column("y").to_numpy() > 0)).drop_columns(["kind", "w", "y"])
        table = table.drop_columns(["count"]) if name == "b.tamis" else table.drop_columns(["big"])
        parquet.write_table(table, folder / f"{name}.parquet")
        assert call("path", folder / f"{name}.parquet", *extra[name], "--quiet", "--save", folder / name) == 0
    found = tamis.load(folder / name)
    classes = getattr(found, "classes_", None)
    scores = np.reshape(found._scores(features), (rows.num_rows, -1))
    capsys.readouterr()
    texts = {}
    for form in ("python", "json", "sql"):
        assert call("export", folder / name, "--to", form, "--dialect", "sqlite", "--key", "kind") == 0
        texts[form] = capsys.readouterr().out
    space = {}
    exec(texts["python"], space)
    listed = features.to_pylist()
    assert np.allclose(np.reshape([space["score"](row) for row in listed], scores.shape), scores, rtol=1e-12, atol=1e-12)
    predicted = found.predict(features)
    said = [space["predict"](row) for row in listed]
    assert said == predicted.tolist() if classes is not None else np.allclose(said, predicted, rtol=1e-12)
    if classes is not None:
        chances = np.array([[space["probability"](row)[label] for label in classes.tolist()] for row in listed])
        assert np.allclose(chances, found.predict_proba(features), rtol=1e-10)
    document = json.loads(texts["json"])
    matrix = features.to_pandas()[document["columns"]].to_numpy()
    rebuilt = [
        part["constant"] + matrix @ [part["coefficients"].get(column, 0.0) for column in document["columns"]] for part in document["scores"]
    ]
    assert np.allclose(np.transpose(rebuilt), scores, rtol=1e-12, atol=1e-12)
    with sqlite3.connect(":memory:") as database:
        database.create_function("EXP", 1, lambda value: None if value is None else float(np.exp(value)))
        database.execute('CREATE TABLE data (age REAL, dose REAL, "a b" REAL, pulse REAL, noise REAL, kind TEXT)')
        database.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?, ?)", [[*row.values(), "k"] for row in listed])
        answered = database.execute(texts["sql"]).fetchall()
        database.execute("INSERT INTO data VALUES (NULL, NULL, NULL, NULL, NULL, 'none')")
        missing = database.execute(texts["sql"]).fetchall()[-1]
    assert np.allclose([row[1:-1] for row in answered], scores, rtol=1e-10, atol=1e-12)
    ours = [bool(row[-1]) for row in answered] if name == "b.tamis" else [row[-1] for row in answered]
    assert ours == predicted.tolist() if classes is not None else np.allclose(ours, predicted, rtol=1e-10)
    assert missing[0] == "none"
    assert set(missing[1:]) == {None}


def test_verify_agrees_and_refutes(folder, tmp_path, capsys):
    for name in ("m.tamis", "c.tamis"):
        assert call("verify", folder / name, folder / "train.csv") == 0
        assert "Recheck agrees" in capsys.readouterr().out
    lines = (folder / "train.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([*lines[:1], *lines[20:], *lines[20:39]]) + "\n")
    assert call("verify", folder / "m.tamis", tmp_path / "other.csv") == 2
    assert "Recheck refutes" in capsys.readouterr().out


def test_verify_knows_holdout_and_weights(folder, tmp_path, capsys):
    same = ("--weights", "w", "--holdout", "0.2", "--seed", "7")
    run = ("path", folder / "train.csv", "-y", "y", "--drop", "kind", "--drop", "count", *same, "--quiet", "--save", tmp_path / "m.tamis")
    assert call(*run) == 0
    assert call("verify", tmp_path / "m.tamis", folder / "train.csv", *same) == 0
    assert "Recheck agrees" in capsys.readouterr().out


# ---- mistakes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "The columns 'kind', 'site' do not hold numbers, which is all that a path can weigh"),
        (("--drop", "kind"), "The column 'site' does not hold numbers"),
        (("--id", "kind", "--drop", "site", "--choose", "luck"), "--choose is 'luck'"),
        (("--transform", "fuzed"), "did you mean 'fused'?"),
        (("--transform", "grid:2x2"), "speaks of 4 cells and X has 7 columns"),
        (("--transform", "nowhere.npz"), "There is no file"),
        (("--transform", "train.csv"), "cannot be read as a matrix"),
        (("--transform", "broken.npz"), "cannot be read as a matrix"),
        (("--groups", "nowhere.csv"), "There is no file"),
        (("--groups", "g.csv"), "'nobody'"),
        (("--groups", "one.csv"), "has 1 column"),
        (("--penalty", "group"), "needs groups"),
        (("--penalty-factor", "age"), "is not NAME=VALUE"),
        (("--penalty-factor", "age=much"), "has no number"),
        (("--penalty-factor", "ages=2"), "'ages'"),
        (("--kappa", "-1"), "kappa=-1.0"),
        (("--nu", "0"), "nu=0.0"),
        (("--t-max", "0"), "t_max=0.0"),
        (("--max-features", "0"), "max_features=0"),
        (("--cv", "1"), "cv=1"),
        (("--loss", "hinge"), "'hinge' is not one of"),
        (("--loss", "logistic", "--kappa", "0"), "kappa=0.0"),
        (("--task", "classify", "--loss", "poisson"), "--loss poisson is for numbers"),
        (("--task", "classify", "--max-features", "3"), "--max-features means nothing in classification"),
        (("--picture", "p.bmp"), "no picture is drawn in"),
        (("--picture", "no/p.svg"), "does not exist"),
        (("--save", "a.svg", "--picture", "a.svg"), "in the same file"),
        (("--holdout", "2"), "--holdout is 2"),
        (("--weights", "kind"), "must be a number in every row"),
        (("--t", "1"), "No such option: --t"),
    ],
)  # fmt: skip
def test_wrong_words_are_one_sentence(tmp_path, monkeypatch, capfd, words, says):
    monkeypatch.chdir(tmp_path)
    write_numbers(tmp_path / "train.csv", 40, text=True)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "g.csv").write_text("column,group\nage,1\nnobody,2\n")
    (tmp_path / "one.csv").write_text("column\nage\n")
    before = sorted(tmp_path.iterdir())
    drops = () if not words or words[0] in ("--drop", "--id", "--weights") else ("--drop", "kind", "--drop", "site")
    assert call("path", "train.csv", "-y", "y", *drops, *words) == 1
    said = capfd.readouterr().err
    assert one_sentence(said), said
    assert says in said
    assert sorted(tmp_path.iterdir()) == before


def test_missing_cells_and_files_of_groups_in_one_sentence(tmp_path, capfd):
    (tmp_path / "m.csv").write_text("a,b,y\n1,2,3\n,1,2\n3,2,1\n1,1,2.5\n")
    assert call("path", tmp_path / "m.csv", "-y", "y") == 1
    said = capfd.readouterr().err
    assert one_sentence(said)
    assert "'a'" in said
    for text, says in (("column,group\na,1\na,2\n", "twice"), ("column,group\na,\n", "empty cell in line 2")):
        (tmp_path / "g.csv").write_text(text)
        with pytest.raises(TamisError, match=says):
            groups_in(tmp_path / "g.csv")


def test_what_is_for_rules_only_says_so(folder, tmp_path, capsys):
    for words, says in (
        (("explain", folder / "m.tamis", folder / "train.csv"), "holds a path of columns and not rules"),
        (("export", folder / "m.tamis", "--to", "onnx", "-o", tmp_path / "m.onnx"), "not written as ONNX"),
        (("export", folder / "m.tamis", "--to", "sql", "--key", "score"), "has the name of another column"),
        (("predict", folder / "m.tamis", folder / "train.csv", "--t", "-1"), "no time on a path"),
    ):
        assert call(*words) == 1
        said = capsys.readouterr().err
        assert one_sentence(said)
        assert says in said
    (tmp_path / "r.csv").write_text("x,y\n" + "".join(f"{i},{'ab'[i > 20]}\n" for i in range(40)))
    assert call("rules", tmp_path / "r.csv", "-y", "y", "-C", "1", "--quiet", "--save", tmp_path / "r.tamis") == 0
    assert call("predict", tmp_path / "r.tamis", tmp_path / "r.csv", "--t", "1") == 1
    assert "holds rules" in capsys.readouterr().err


def test_a_path_that_does_not_hold_is_exit_code_2_only_when_strict(tmp_path, capsys):
    # Columns over twelve decades, taken as they are: rounding decides.
    draw = np.random.default_rng(0)
    X = draw.normal(size=(60, 8)) * np.geomspace(1e-7, 1e7, 8)
    y = X @ (draw.normal(size=8) / np.geomspace(1e-7, 1e7, 8))
    lines = [",".join(map(repr, [*row.tolist(), float(goal)])) for row, goal in zip(X, y, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join([",".join([*(f"c{j}" for j in range(8)), "y"]), *lines]) + "\n")
    words = ("path", tmp_path / "d.csv", "-y", "y", "--no-standardize", "--choose", "last", "--save", tmp_path / "m.tamis")
    assert call(*words) == 0
    said = capsys.readouterr().out
    holds = tamis.load(tmp_path / "m.tamis").certificate_.holds
    assert ("Not certified" in said) is not holds
    assert call(*words, "--strict") == (0 if holds else 2)


def test_a_request_survives_the_journal_header(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    said = {
        "train": "a.csv", "target": "y", "loss": "huber", "transform": "D.npz", "groups": "g.csv", "picture": "p.svg", "no_intercept": True,
        "no_standardize": False, "nonnegative": False, "penalty_factor": ["u = 2"], "choose": "0.5", "seed": 1, "task": "auto",
    }  # fmt: skip
    first = Request.from_options(said, "path")
    again = Request.from_dict(json.loads(json.dumps(first.to_dict())))
    assert again.command == "path"
    assert again.source.task == "regress"
    assert again.parameters == {
        "loss": "huber", "transformation": str(tmp_path / "D.npz"), "groups": str(tmp_path / "g.csv"), "penalty": "group",
        "fit_intercept": False, "penalty_factor": {"u": 2.0}, "choose": 0.5,
    }  # fmt: skip
    assert again.outputs.picture == str(tmp_path / "p.svg")
    old = first.to_dict()
    del old["command"]
    assert Request.from_dict(old).command == "rules"
