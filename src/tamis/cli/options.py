"""What can be said on the command line, once: each option's name, type and one line of help.

No option has a default here: what is not said is left to the estimator, so there is one place for defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

DATA, MODEL, CHOOSE, RUN, RESULT = "Data", "Model", "Choosing C, and what is shown", "Running", "Results"
FILES = ".csv, .tsv, .parquet, .arrow, .feather, .duckdb or .sqlite (file.db::table names a table)"

Train = Annotated[str, Argument(metavar="TRAIN", help=f"Training data: {FILES}.", show_default=False)]
Data = Annotated[str, Argument(metavar="DATA", help=f"Data: {FILES}.", show_default=False)]
Model = Annotated[Path, Argument(metavar="MODEL", help="A saved model (.tamis).", show_default=False)]
JournalFile = Annotated[Path, Argument(metavar="JOURNAL", help="The journal of an interrupted run (--journal).", show_default=False)]

Target = Annotated[str, Option("--target", "-y", metavar="COLUMN", help="The column to predict.", rich_help_panel=DATA, show_default=False)]
KnownTarget = Annotated[str | None, Option("--target", "-y", metavar="COLUMN", help="The column predicted, if not the model's own.")]
TableName = Annotated[str | None, Option("--table", metavar="NAME", help="The table of a database file.", rich_help_panel=DATA)]
Weights = Annotated[str | None, Option("--weights", metavar="COLUMN", help="A column of sample weights.", rich_help_panel=DATA)]
Drop = Annotated[list[str] | None, Option("--drop", metavar="COLUMN", help="Leave a column out (repeat).", rich_help_panel=DATA)]
Identifiers = Annotated[
    list[str] | None, Option("--id", metavar="COLUMN", help="A column that names rows: never used in rules (repeat).", rich_help_panel=DATA)
]
KeptIdentifiers = Annotated[list[str] | None, Option("--id", metavar="COLUMN", help="A column to copy beside the predictions (repeat).")]
Holdout = Annotated[float | None, Option("--holdout", metavar="SHARE", help="Keep this share of rows for a test.", rich_help_panel=DATA)]
Task = Annotated[
    Literal["auto", "classify", "regress"],
    Option("--task", help="auto: text, booleans and whole numbers with at most 10 values are classes.", rich_help_panel=DATA),
]

Rho = Annotated[
    float | None, Option("--rho", help="Norm exponent in (1, 2]; smaller selects fewer rules. Default 1.1.", rich_help_panel=MODEL)
]
Loss = Annotated[
    Literal["logistic", "squared_hinge", "hinge", "squared", "huber", "poisson"] | None,
    Option("--loss", help="Default logistic, or squared for numbers.", show_default=False, rich_help_panel=MODEL),
]
Growth = Annotated[float | None, Option("--growth", help="Price factor of one more condition. Default 2.", rich_help_panel=MODEL)]
MaxLength = Annotated[
    int | None,
    Option("--max-length", help="Most conditions in a rule; 1 = single conditions, 0 = no limit. Default 3.", rich_help_panel=MODEL),
]
MinSupport = Annotated[
    float | None, Option("--min-support", help="Fewest rows a rule covers, or a share below 1. Default 1.", rich_help_panel=MODEL)
]
Lattice = Annotated[
    Literal["conjunction", "disjunction"] | None,
    Option("--lattice", help="How rules are shown. Default conjunction.", rich_help_panel=MODEL),
]
CutKind = Annotated[
    Literal["quantile", "uniform", "supervised", "all", "none", "paper"] | None,
    Option(
        "--cuts", help="Where numbers are cut; none: the columns are yes/no conditions already. Default quantile.", rich_help_panel=MODEL
    ),
]
CutCount = Annotated[int | None, Option("--n-cuts", help="Cuts per column of numbers. Default 8.", rich_help_panel=MODEL)]
MaxLiterals = Annotated[int | None, Option("--max-literals", help="Most single conditions. Default 2000.", rich_help_panel=MODEL)]
MultiClass = Annotated[
    Literal["grouped", "ovr"] | None,
    Option("--multi-class", help="One set of rules, or one per class. Default grouped.", rich_help_panel=MODEL),
]
Complements = Annotated[
    Literal["one", "both"] | None, Option("--complements", help="Weigh one or both of x = a, x != a. Default one.", rich_help_panel=MODEL)
]
ClassWeight = Annotated[
    Literal["balanced"] | None, Option("--class-weight", help="balanced: every class counts the same.", rich_help_panel=MODEL)
]
Increasing = Annotated[
    list[str] | None,
    Option("--increasing", metavar="COLUMN", help="Scores may only rise with this column (repeat).", rich_help_panel=MODEL),
]
Decreasing = Annotated[
    list[str] | None,
    Option("--decreasing", metavar="COLUMN", help="Scores may only fall with this column (repeat).", rich_help_panel=MODEL),
]

Costs = Annotated[
    list[str] | None,
    Option("--cost", metavar="NAME=FACTOR", help="Make a column or a condition dearer or cheaper (repeat).", rich_help_panel=MODEL),
]
Propositions = Annotated[
    list[str] | None,
    Option(
        "--proposition",
        metavar="NAME=EXPRESSION",
        help="A condition of your own, such as 'debt=due > 2 * income' (repeat).",
        rich_help_panel=MODEL,
    ),
]

Cost = Annotated[
    float | None, Option("--C", "-C", help="Loss weight; given: this one only, no path. Default chosen.", rich_help_panel=CHOOSE)
]
Choose = Annotated[
    str | None,
    Option("--choose", help="cv, cv-best, aic, bic, ebic, stability, last, or a value of C. Default cv.", rich_help_panel=CHOOSE),
]
Folds = Annotated[int | None, Option("--cv", metavar="FOLDS", help="Folds of cross-validation. Default 5.", rich_help_panel=CHOOSE)]
Scoring = Annotated[str | None, Option("--scoring", help="Score of cross-validation, such as macro_f1 or auc.", rich_help_panel=CHOOSE)]
PathLength = Annotated[int | None, Option("--n-path", help="Values of C on the path. Default 20.", rich_help_panel=CHOOSE)]
MaxRules = Annotated[int | None, Option("--max-rules", help="Show at most this many rules.", rich_help_panel=CHOOSE)]
Prune = Annotated[
    str | None, Option("--prune", help="certified, none, or a relative cut such as 0.01. Default certified.", rich_help_panel=CHOOSE)
]
Refit = Annotated[bool | None, Option("--refit", help="Refit the weights of the chosen rules.", rich_help_panel=CHOOSE)]

Tolerance = Annotated[float | None, Option("--tolerance", help="Relative gap to certify. Default 0.01.", rich_help_panel=RUN)]
GainTolerance = Annotated[
    float | None, Option("--gain-tolerance", help="Share of the gain that may be missing. Default 0.1.", rich_help_panel=RUN)
]
SolverName = Annotated[Literal["mm", "mirror"] | None, Option("--solver", help="Default mm.", rich_help_panel=RUN)]
MaxNodes = Annotated[int | None, Option("--max-nodes", help="Most conjunctions held at once. Default 3000.", rich_help_panel=RUN)]
TimeLimit = Annotated[float | None, Option("--time-limit", metavar="SECONDS", help="Stop here with the path so far.", rich_help_panel=RUN)]
Journal = Annotated[Path | None, Option("--journal", help="Keep every step here, so that `tamis resume` can go on.", rich_help_panel=RUN)]
Jobs = Annotated[int | None, Option("--jobs", "-j", help="Workers; -1 = all cores. Default 1.", rich_help_panel=RUN)]
Seed = Annotated[int, Option("--seed", help="Random state of folds and of --holdout.", rich_help_panel=RUN)]
Strict = Annotated[bool, Option("--strict", help="Exit with code 2 unless the certificate holds.", rich_help_panel=RUN)]

Report = Annotated[Path | None, Option("--report", metavar="FILE", help="Write the HTML report.", rich_help_panel=RESULT)]
Save = Annotated[Path | None, Option("--save", metavar="FILE", help="Save the model (.tamis).", rich_help_panel=RESULT)]
Sql = Annotated[
    str | None, Option("--sql", metavar="DIALECT", help="Print the model as SQL: duckdb, postgres, sqlite, ...", rich_help_panel=RESULT)
]
SqlFile = Annotated[Path | None, Option("--sql-file", metavar="FILE", help="Write that SQL here instead.", rich_help_panel=RESULT)]
PythonFile = Annotated[Path | None, Option("--python", metavar="FILE", help="Write the model as Python source.", rich_help_panel=RESULT)]
JsonFile = Annotated[Path | None, Option("--json", metavar="FILE", help="Write the model as JSON.", rich_help_panel=RESULT)]
OnnxFile = Annotated[Path | None, Option("--onnx", metavar="FILE", help="Write the model as ONNX.", rich_help_panel=RESULT)]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but what was asked for.", rich_help_panel=RESULT)]

PathLoss = Annotated[
    Literal["squared", "huber", "poisson", "logistic"] | None,
    Option("--loss", help="Default squared, or logistic for classes.", show_default=False, rich_help_panel=MODEL),
]
Transform = Annotated[
    str | None,
    Option(
        "--transform",
        metavar="D",
        help="Sparse in D beta: identity, fused, fused+identity, grid:8x8, or a file with D (.npz, .mtx, .csv).",
        rich_help_panel=MODEL,
    ),
]
Penalty = Annotated[
    Literal["entry", "group", "column"] | None,
    Option("--penalty", help="Whether columns enter alone, in groups, or for all classes at once. Default entry.", rich_help_panel=MODEL),
]
Groups = Annotated[
    Path | None, Option("--groups", metavar="FILE", help="A table: a column's name, its group. Others stand alone.", rich_help_panel=MODEL)
]
Kappa = Annotated[
    float | None, Option("--kappa", help="Damping of the iterations; larger is nearer to the exact path.", rich_help_panel=MODEL)
]
Coupling = Annotated[float | None, Option("--nu", help="With --transform: how loosely gamma follows D beta.", rich_help_panel=MODEL)]
NoIntercept = Annotated[bool, Option("--no-intercept", help="Fit no constant.", rich_help_panel=MODEL)]
NoStandardize = Annotated[bool, Option("--no-standardize", help="Take columns in their own units.", rich_help_panel=MODEL)]
Nonnegative = Annotated[bool, Option("--nonnegative", help="No coefficient below zero.", rich_help_panel=MODEL)]
Factors = Annotated[
    list[str] | None,
    Option("--penalty-factor", metavar="NAME=VALUE", help="How much dearer a column is; 0 is always in (repeat).", rich_help_panel=MODEL),
]
LongestTime = Annotated[float | None, Option("--t-max", help="Stop the path at this time.", rich_help_panel=CHOOSE)]
MaxFeatures = Annotated[int | None, Option("--max-features", help="Stop when so many are in.", rich_help_panel=CHOOSE)]
ChooseTime = Annotated[
    str | None,
    Option("--choose", help="cv, cv-best, aic, bic, ebic, discrepancy, stability, last, or a time t. Default cv.", rich_help_panel=CHOOSE),
]
Picture = Annotated[Path | None, Option("--picture", metavar="FILE", help="Draw the path: .svg, .png or .pdf.", rich_help_panel=RESULT)]
Time = Annotated[float | None, Option("--t", help="Anywhere on a path; the chosen time by default.")]

Row = Annotated[int, Option("--row", metavar="NUMBER", help="The row to explain, from 1.")]
Out = Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Write here instead of printing.")]
ReportOut = Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="The HTML file. Default the model's name with .html.")]
DemoOut = Annotated[Path, Option("--out", "-o", metavar="FILE", help="The HTML report.")]
Form = Annotated[Literal["sql", "python", "json", "onnx"], Option("--to", help="The form to export.", show_default=False)]
Dialect = Annotated[str, Option("--dialect", help="SQL: duckdb, postgres, sqlite, mysql, bigquery, snowflake, tsql, spark.")]
SourceTable = Annotated[str, Option("--from", metavar="TABLE", help="SQL: the table to score.")]
Key = Annotated[list[str] | None, Option("--key", metavar="COLUMN", help="SQL: a column to carry along (repeat).")]
List = Annotated[bool, Option("--list", help="Name the demos and leave.")]
