"""`tamis rules`, `tamis path` and `tamis resume`: read, fit, write what was asked for, and say what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from tamis.cli.boundary import NOT_CERTIFIED, OK
from tamis.cli.data import Examples, examples_of, fingerprint, load, split
from tamis.cli.outputs import check_outputs, write_outputs
from tamis.cli.progress import ProgressBar
from tamis.cli.request import Request
from tamis.core.errors import TamisError, TamisFileError

STOPPED = {
    "interrupted": "Interrupted: this is the best model so far, with its honest certificate.",
    "budget": "The time or size limit was reached: this is the best model so far, with its honest certificate.",
}


def learn(request: Request, data: str | None = None) -> int:
    """Carry out a request; `data` is the fingerprint the data must have (a resumed run)."""
    source, outputs = request.source, request.outputs
    started = time.monotonic()
    check_outputs(outputs, (source.train.rpartition("::")[0] or source.train,))
    table = load(source)
    command: dict[str, Any] = {}
    if request.journal is not None:
        command = {"command": request.to_dict(), "data": fingerprint(table)}
        if data is not None and command["data"] != data:
            changed = f"'{source.train}' has changed since the run was stopped, so it cannot go on"
            raise TamisError(f"{changed}; restore the data, or run `tamis {request.command}` again.")
    examples, task = examples_of(table, source)
    del table
    if request.command == "path":
        from tamis.cli.path import check_numbers

        check_numbers(examples.features)
    test = None
    if source.holdout is not None:
        examples, test = split(examples, source.holdout, task, request.seed)
    model = estimator(task, request, examples.features.column_names)
    if not outputs.quiet:
        typer.echo(f"{introduction(examples, task, request)}\n")
    fit(model, examples, command)
    return finish(model, request, examples, test, time.monotonic() - started)


def introduction(examples: Examples, task: str, request: Request) -> str:
    """What is about to be learned, and from what: the moment to notice a wrong guess."""
    import numpy as np

    source, rows, columns = request.source, examples.features.num_rows, examples.features.num_columns
    if task == "classify":
        labels, counts = np.unique(examples.target, return_counts=True)
        listed = ", ".join(f"{label}: {number}" for label, number in list(zip(labels, counts, strict=True))[:6])
        what = f"{len(labels)} classes ({listed}{', ...' if len(labels) > 6 else ''})"
    else:
        what = f"a number (mean {np.mean(examples.target):.6g})"
    other = "regress" if task == "classify" else "classify"
    doubtful = source.task == "auto" and examples.target.dtype.kind in "iuf" and np.all(examples.target == np.round(examples.target))
    guessed = f" (say --task {other} if that is wrong)" if doubtful else ""
    return f"Learning '{source.target}', {what}, from {columns} columns of {rows} rows{guessed}."


def estimator(task: str, request: Request, columns: Sequence[str]) -> Any:
    """The estimator for a task, with the parameters that were said."""
    if request.command == "path":
        from tamis.cli import path

        return path.estimator(task, request, columns)
    from tamis.rules.classifier import RuleClassifier
    from tamis.rules.regressor import RuleRegressor

    kind: Any = RuleClassifier if task == "classify" else RuleRegressor
    known = kind().get_params()
    for name in request.parameters:
        if name not in known:
            verb = "classification" if task == "classify" else "regression"
            raise TamisError(f"--{name.replace('_', '-')} means nothing in {verb}, so nothing was fitted; leave it out, or check --task.")
    return kind(**request.parameters, random_state=request.seed, journal=request.journal)


def fit(model: Any, examples: Examples, command: Mapping[str, Any]) -> None:
    """Fit under a progress bar; the journal's header keeps the command, so that `tamis resume` can repeat it."""
    model._journal_header = dict(command)
    with ProgressBar(passes=passes_of(model)) as bar:
        model._observe = (bar,)
        try:
            model.fit(examples.features, examples.target, sample_weight=examples.weights)
        finally:
            del model._observe, model._journal_header


def passes_of(model: Any) -> int:
    """How often a model's path will be followed, as far as that is known: once, and once per fold."""
    return 1 + int(model.cv) if model.choose in ("cv", "cv-best") and isinstance(model.cv, int) else 1


def finish(model: Any, request: Request, examples: Examples, test: Examples | None, seconds: float) -> int:
    """Write the files first, then say what was found; the exit code is about the certificate only when it was asked to be."""
    said: list[str] = []
    sql = write_outputs(model, request.outputs, said.append)
    if not request.outputs.quiet:
        show(model)
        if test is not None:
            show_test(model, examples, test)
        for line in (STOPPED.get(model.status_, ""), *said, f"{seconds:.1f} s."):
            if line:
                typer.echo(line)
    if sql is not None:
        typer.echo(sql if request.outputs.quiet else f"\n{sql}", nl=False)
    return NOT_CERTIFIED if request.outputs.strict and not model.certificate_.holds else OK


def show(model: Any) -> None:
    """The model in the terminal."""
    from tamis.report.build import content_of
    from tamis.report.terminal import print_report

    content = content_of(model)
    print_report(content)
    for note in content.notes:
        typer.echo(f"Note: {note}")
    typer.echo()


def show_test(model: Any, examples: Examples, test: Examples) -> None:
    """How the model does on the rows it has not seen."""
    from tamis.cli.evaluate import measures

    typer.echo(f"On {test.features.num_rows} rows it has not seen (a constant in brackets):")
    for name, value, constant in measures(model, test.features, test.target, test.weights, examples.target):
        typer.echo(f"  {name} {value:.4g}" + ("" if constant is None else f" ({constant:.4g})"))
    typer.echo()


def resume_from(journal: Path) -> int:
    """Repeat the command a journal was started by; its finished knots are taken from it instead of being solved again."""
    from tamis.store.journal import Journal

    with Journal.open(journal, append=False) as opened:
        header = opened.header
    if "command" not in header:
        unknown = f"'{journal}' was not started by `tamis rules` or `tamis path`, so its command is not known"
        raise TamisFileError(f"{unknown}; fit again from Python with the same data and journal='{journal}'.")
    request = Request.from_dict(header["command"])
    return learn(replace(request, journal=str(journal)), str(header.get("data", "")))
