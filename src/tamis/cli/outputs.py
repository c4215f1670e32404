"""The files a run was asked for: everything that can be refused is refused before the work, not after it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tamis.cli.request import Outputs
from tamis.core.errors import TamisError

PICTURES = (".svg", ".png", ".pdf")


def check_outputs(outputs: Outputs, inputs: tuple[str, ...] = ()) -> None:
    """Refuse what could only fail later: folders that do not exist, files over their own input, unknown dialects."""
    files = outputs.files()
    for file in files:
        check_file(file, inputs)
    if outputs.picture:
        check_picture(Path(outputs.picture))
    if len({file.absolute() for file in files}) < len(files):
        raise TamisError("Two results were asked for in the same file, so one would overwrite the other; name two files.")
    for form in ("sql", "json", "python", "onnx"):
        if getattr(outputs, form) or (form == "sql" and outputs.sql_file):
            export(_empty_card(), form, dialect=outputs.sql or "duckdb")


def check_picture(file: Path) -> None:
    """Refuse a picture in a form matplotlib would not write."""
    if file.suffix.lower() not in PICTURES:
        raise TamisError(f"'{file}' has an ending that no picture is drawn in; choose {', '.join(PICTURES)}.")


def check_file(file: Path, inputs: tuple[str, ...] = ()) -> None:
    """Whether a file can be written, as far as can be known before writing it."""
    from tamis.store.atomic import target_of

    target = target_of(file)
    if any(Path(name).exists() and Path(name).resolve() == target for name in inputs):
        raise TamisError(f"'{file}' is the data itself, so it will not be overwritten; name another file.")
    if not target.parent.is_dir():
        raise TamisError(f"The folder '{target.parent}' does not exist, so '{target.name}' could not be written; create it first.")
    if not os.access(target.parent, os.W_OK):
        raise TamisError(f"The folder '{target.parent}' is read-only, so '{target.name}' could not be written; choose another folder.")


def export(card: Any, form: str, dialect: str = "duckdb", table: str = "data", key: list[str] | None = None) -> str | bytes:
    """A score card as SQL, Python, JSON or ONNX."""
    if form == "sql":
        from tamis.store.export_sql import to_sql

        return to_sql(card, dialect=dialect, table=table, key=key or None).rstrip() + "\n"
    if form == "python":
        from tamis.store.export_python import to_python

        return to_python(card)
    if form == "json":
        from tamis.store.export_json import to_json

        return to_json(card).rstrip() + "\n"
    from tamis.store.export_onnx import to_onnx

    return to_onnx(card)


def write_outputs(model: Any, outputs: Outputs, announce: Callable[[str], None]) -> str | None:
    """Write every file that was asked for; returns the SQL to print, if it goes to no file."""
    if outputs.save:
        model.save(outputs.save)
        announce(f"Saved the model to {outputs.save}")
    if outputs.report:
        model.report(outputs.report)
        announce(f"Wrote the report to {outputs.report}")
    if outputs.picture:
        write(Path(outputs.picture), picture_of(model, Path(outputs.picture).suffix.lower()[1:]))
        announce(f"Drew the path to {outputs.picture}")
    for form, file in (("sql", outputs.sql_file), ("python", outputs.python), ("json", outputs.json), ("onnx", outputs.onnx)):
        if file:
            write(Path(file), export(model.card_, form, dialect=outputs.sql or "duckdb"))
            announce(f"Wrote {'Python source' if form == 'python' else form.upper()} to {file}")
    return str(export(model.card_, "sql", dialect=outputs.sql)) if outputs.sql and not outputs.sql_file else None


def picture_of(model: Any, form: str) -> bytes:
    """The path's picture as the bytes of a file, the same ones for the same model."""
    import io

    import matplotlib as mpl

    mpl.use("Agg")  # no window, whatever this machine would open
    import matplotlib.pyplot as plt

    from tamis.report.displays import PathDisplay

    sink = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "tamis"}):
        figure = PathDisplay.from_estimator(model).plot().figure_
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(sink, format=form, dpi=150, metadata=dated)
        plt.close(figure)
    return sink.getvalue()


def write(file: Path, content: str | bytes) -> None:
    """Write a whole file, or none."""
    from tamis.store.atomic import write_bytes, write_text

    if isinstance(content, bytes):
        write_bytes(file, content)
    else:
        write_text(file, content)


def _empty_card() -> Any:
    """A model without rules: exporting it shows whether the form, its dialect and its library are there."""
    from tamis.core.scorecard import Column, ScoreCard

    return ScoreCard((), (0.0,), "identity", columns=(Column("x", "numeric"),))
