"""What can be done with a saved model: show it, predict with it, export it, report it, verify it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tamis.cli.boundary import NOT_CERTIFIED, OK
from tamis.cli.outputs import check_file, export, write
from tamis.core.errors import TamisError

if TYPE_CHECKING:
    import pyarrow as pa


def load_model(file: Path) -> Any:
    """A saved model, or one sentence about why it cannot be read."""
    from tamis.store.load import load

    return load(file)


def export_model(file: Path, form: str, dialect: str, source: str, key: list[str], out: Path | None) -> int:
    """`tamis export`: to a file, or to the terminal."""
    if out is not None:
        check_file(out, (str(file),))
    elif form == "onnx":
        raise TamisError("ONNX is a binary form, so it is not printed; name a file with --out.")
    model = load_model(file)
    if hasattr(model, "card_"):
        content = export(model.card_, form, dialect, source, key)
    else:
        from tamis.cli.weighted import weighted_sum

        content = weighted_sum(model, form, dialect, source, key)
    if out is None:
        typer.echo(content, nl=False)
    else:
        write(out, content)
        typer.echo(f"Wrote {'Python source' if form == 'python' else form.upper()} to {out}")
    return OK


def report_model(file: Path, out: Path | None) -> int:
    """`tamis report`: the HTML page beside the model, or where it was asked for."""
    target = out if out is not None else file.with_suffix(".html")
    check_file(target, (str(file),))
    load_model(file).report(target)
    typer.echo(f"Wrote the report to {target}")
    return OK


def columns_of(model: Any) -> list[str]:
    """The columns a model reads."""
    if hasattr(model, "card_"):
        return [column.name for column in model.card_.columns]
    from tamis.report.build_linear import column_names

    return list(column_names(model))


def predict_rows(file: Path, data: str, table: str | None, keep: list[str], out: Path | None, t: float | None = None) -> int:
    """`tamis predict`: reads only the columns it needs."""
    from tamis.tables.readers import read_table

    if out is not None:
        check_file(out, (str(file), data.rpartition("::")[0] or data))
        _writer(out)
    model = load_model(file)
    if t is not None and hasattr(model, "card_"):
        raise TamisError(f"--t {t:g} is a time on a path and '{file}' holds rules, so nothing was predicted; leave it out.")
    names = columns_of(model)
    rows = read_table(data, table, columns=[*names, *(name for name in keep if name not in names)])
    content = _bytes_of(predictions(model, rows, keep, t), out)
    if out is None:
        typer.echo(content, nl=False)
    else:
        write(out, content)
        typer.echo(f"Wrote {rows.num_rows} predictions to {out}")
    return OK


def explain_row(file: Path, data: str, row: int, table: str | None) -> int:
    """`tamis explain`: one row of a data file."""
    from tamis.tables.readers import read_table

    model = load_model(file)
    if not hasattr(model, "rules_"):
        raise TamisError(f"'{file}' holds a path of columns and not rules, so no row was explained; `tamis show` lists its coefficients.")
    rows = read_table(data, table, columns=columns_of(model))
    if not 1 <= row <= rows.num_rows:
        raise TamisError(f"'{data}' has rows 1 to {rows.num_rows}, so row {row} cannot be explained; choose one of them.")
    cells = rows.slice(row - 1, 1).to_pylist()[0]
    typer.echo(str(model.rules_.explain(cells)))
    return OK


def predictions(model: Any, rows: pa.Table, keep: list[str], t: float | None = None) -> pa.Table:
    """The kept columns, then the prediction, then one probability (or score) per class."""
    import pyarrow as pa

    features, where = rows.select(columns_of(model)), () if t is None else (t,)
    found: dict[str, Any] = {name: rows.column(name) for name in keep}
    found[_free("prediction", found)] = pa.array(np.asarray(model.predict(features, *where)).tolist())
    classes = getattr(model, "classes_", None)
    if classes is None:
        return pa.table(found)
    if hasattr(model, "predict_proba"):
        scores, word = np.asarray(model.predict_proba(features, *where)), "probability"
    else:
        scores, word = np.asarray(model.decision_function(features, *where)), "score"
    if scores.ndim == 1:
        found[_free(word, found)] = pa.array(scores)
        return pa.table(found)
    for column, label in zip(scores.T, classes, strict=True):
        found[_free(f"{word}_{label}", found)] = pa.array(np.ascontiguousarray(column))
    return pa.table(found)


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name that no kept column has."""
    while name in taken:
        name += "_"
    return name


def _writer(out: Path) -> str:
    """How a table is written, by the file's ending."""
    kinds = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}
    kind = kinds.get(out.suffix.lower())
    if kind is None:
        raise TamisError(f"'{out}' has an ending that predictions are not written in; choose .csv, .tsv, .parquet or .arrow.")
    return kind


def _bytes_of(table: pa.Table, out: Path | None) -> bytes:
    """A table as the bytes of a file; CSV when it is printed."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    kind, sink = "csv" if out is None else _writer(out), io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",", quoting_style="needed"))
    return sink.getvalue()


def show_model(file: Path) -> int:
    """`tamis show`: what was printed when the model was learned."""
    from tamis.cli.learn import show

    show(load_model(file))
    return OK


def verify_model(file: Path, data: str, target: str | None, seed: int, **rows: Any) -> int:
    """`tamis verify`: the claim, the second opinion, and exit code 2 when they disagree."""
    from tamis.cli.data import examples_of, load, split
    from tamis.cli.request import DataSource

    model = load_model(file)
    ruled = hasattr(model, "card_")
    target = target if target is not None else model.card_.target if ruled else model._target_name
    task = "classify" if hasattr(model, "classes_") else "regress"
    source = DataSource(data, target, task=task, **rows)
    examples, _ = examples_of(load(source), source)
    if source.holdout is not None:
        examples, _ = split(examples, source.holdout, task, seed)
    typer.echo(f"Claimed: {model.certificate_.sentence()}")
    if ruled:
        found = model.certificate_.recheck(examples.features, examples.target, examples.weights, schema_dict=model.schema_.to_dict())
    else:
        features = examples.features.select(columns_of(model))
        found = model.certificate_.recheck(features, examples.target, sample_weight=examples.weights)
    typer.echo(found.sentence())
    return NOT_CERTIFIED if found.refuted else OK
