"""The `tamis` command: what can be said, and which module does it.

Nothing heavy is imported here, so that `tamis --help` answers at once; each command imports its own module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tamis.cli import options as say
from tamis.cli.boundary import run

HELP = """Finds the few rules or columns that matter in a table, and says how far they can be from the best.

Start with [bold]tamis demo[/bold], or with your own data: [bold]tamis rules train.csv --target churn --report churn.html[/bold]
"""
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
app = typer.Typer(
    name="tamis",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    rich_markup_mode="rich",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 ok, 1 user error, 2 not certified, 130 interrupted."""
    told = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(lambda: app(args=told, prog_name="tamis", standalone_mode=False), leaving=True))


def _version(wanted: bool) -> None:
    if wanted:
        from tamis.cli.doctor import version

        typer.echo(f"tamis {version()}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)] = False,
) -> None:
    """What comes before every command."""


@app.command()
def demo(
    name: Annotated[str, typer.Argument(help="Which demo; see --list.")] = "rules",
    listing: say.List = False,
    out: say.DemoOut = Path("tamis-demo.html"),
) -> int:
    """Show one of the methods at work, in a few seconds and without any data: tic-tac-toe learned from its final boards, or another."""
    from tamis.cli import demos

    return demos.show_list() if listing else demos.run_demo(name, out)


@app.command()
def rules(
    train: say.Train,
    target: say.Target,
    table: say.TableName = None,
    task: say.Task = "auto",
    weights: say.Weights = None,
    drop: say.Drop = None,
    identifiers: say.Identifiers = None,
    holdout: say.Holdout = None,
    loss: say.Loss = None,
    max_length: say.MaxLength = None,
    min_support: say.MinSupport = None,
    rho: say.Rho = None,
    growth: say.Growth = None,
    lattice: say.Lattice = None,
    cuts: say.CutKind = None,
    n_cuts: say.CutCount = None,
    max_literals: say.MaxLiterals = None,
    multi_class: say.MultiClass = None,
    complements: say.Complements = None,
    class_weight: say.ClassWeight = None,
    increasing: say.Increasing = None,
    decreasing: say.Decreasing = None,
    cost: say.Costs = None,
    proposition: say.Propositions = None,
    C: say.Cost = None,
    choose: say.Choose = None,
    cv: say.Folds = None,
    scoring: say.Scoring = None,
    n_path: say.PathLength = None,
    max_rules: say.MaxRules = None,
    prune: say.Prune = None,
    refit: say.Refit = None,
    tolerance: say.Tolerance = None,
    gain_tolerance: say.GainTolerance = None,
    solver: say.SolverName = None,
    max_nodes: say.MaxNodes = None,
    time_limit: say.TimeLimit = None,
    journal: say.Journal = None,
    n_jobs: say.Jobs = None,
    seed: say.Seed = 0,
    strict: say.Strict = False,
    report: say.Report = None,
    save: say.Save = None,
    sql: say.Sql = None,
    sql_file: say.SqlFile = None,
    python: say.PythonFile = None,
    json: say.JsonFile = None,
    onnx: say.OnnxFile = None,
    quiet: say.Quiet = False,
) -> int:
    """Learn a short list of weighted IF-THEN rules from a table, with a certificate of how good they are."""
    said = dict(locals())
    from tamis.cli.learn import learn
    from tamis.cli.request import Request

    return learn(Request.from_options(said))


@app.command()
def path(
    train: say.Train,
    target: say.Target,
    table: say.TableName = None,
    task: say.Task = "auto",
    weights: say.Weights = None,
    drop: say.Drop = None,
    identifiers: say.Identifiers = None,
    holdout: say.Holdout = None,
    loss: say.PathLoss = None,
    transform: say.Transform = None,
    penalty: say.Penalty = None,
    groups: say.Groups = None,
    kappa: say.Kappa = None,
    nu: say.Coupling = None,
    no_intercept: say.NoIntercept = False,
    no_standardize: say.NoStandardize = False,
    nonnegative: say.Nonnegative = False,
    penalty_factor: say.Factors = None,
    t_max: say.LongestTime = None,
    max_features: say.MaxFeatures = None,
    choose: say.ChooseTime = None,
    cv: say.Folds = None,
    time_limit: say.TimeLimit = None,
    journal: say.Journal = None,
    n_jobs: say.Jobs = None,
    seed: say.Seed = 0,
    strict: say.Strict = False,
    report: say.Report = None,
    save: say.Save = None,
    picture: say.Picture = None,
    quiet: say.Quiet = False,
) -> int:
    """Follow which columns matter, from none to all: the whole selection path, each model fitted without shrinkage, with a certificate."""
    said = dict(locals())
    from tamis.cli.learn import learn
    from tamis.cli.request import Request

    return learn(Request.from_options(said, "path"))


@app.command()
def resume(journal: say.JournalFile) -> int:
    """Go on with a run that was stopped, from the journal it kept; ends in the same result."""
    from tamis.cli.learn import resume_from

    return resume_from(journal)


@app.command()
def show(model: say.Model) -> int:
    """Print a saved model: its rules or columns, its certificate and its comparison with simpler models."""
    from tamis.cli.models import show_model

    return show_model(model)


@app.command()
def predict(
    model: say.Model,
    data: say.Data,
    table: say.TableName = None,
    keep: say.KeptIdentifiers = None,
    t: say.Time = None,
    out: say.Out = None,
) -> int:
    """Predict the rows of a data file: prediction and scores as CSV, or as the file named with --out."""
    from tamis.cli.models import predict_rows

    return predict_rows(model, data, table, keep or [], out, t)


@app.command()
def explain(model: say.Model, data: say.Data, row: say.Row = 1, table: say.TableName = None) -> int:
    """Take the score of one row apart: the rules that hold, what each adds, and the rules one condition away."""
    from tamis.cli.models import explain_row

    return explain_row(model, data, row, table)


@app.command()
def export(
    model: say.Model,
    to: say.Form,
    dialect: say.Dialect = "duckdb",
    source: say.SourceTable = "data",
    key: say.Key = None,
    out: say.Out = None,
) -> int:
    """Write a saved model as SQL, Python source, JSON or ONNX that gives the model's own scores."""
    from tamis.cli.models import export_model

    return export_model(model, to, dialect, source, key or [], out)


@app.command()
def report(model: say.Model, out: say.ReportOut = None) -> int:
    """Write the HTML report of a saved model: one file, no network."""
    from tamis.cli.models import report_model

    return report_model(model, out)


@app.command()
def verify(
    model: say.Model,
    data: say.Data,
    target: say.KnownTarget = None,
    table: say.TableName = None,
    weights: say.Weights = None,
    holdout: say.Holdout = None,
    seed: say.Seed = 0,
) -> int:
    """Ask for a second opinion on the certificate, by code that shares nothing with the solver; exit code 2 if refuted.

    DATA is the training data; --weights, --holdout and --seed must be those of the run.
    """
    from tamis.cli.models import verify_model

    return verify_model(model, data, target, seed, table=table, weights=weights, holdout=holdout)


@app.command()
def doctor() -> int:
    """Look at this installation: versions, kernels, threads, optional parts, and a short self-test."""
    from tamis.cli.doctor import examine

    return examine()
