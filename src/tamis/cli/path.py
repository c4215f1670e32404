"""What `tamis path` adds to `tamis rules`: its words as parameters of the linear estimators, its files, its refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.core.errors import TamisError

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.cli.request import Request

CHOICES = ("cv", "cv-best", "aic", "bic", "ebic", "discrepancy", "stability", "last")
TASKS = {"squared": "regress", "huber": "regress", "poisson": "regress", "logistic": "classify"}
MATRICES = (".npz", ".npy", ".csv", ".tsv", ".txt", ".mtx")
DAMPED = ("loss", "penalty", "groups", "kappa")
"""Parameters that InverseScaleRegressor does not have."""


def parameters(said: Mapping[str, Any]) -> dict[str, Any]:
    """The estimator's parameters in its own words; files are named from the root and read when the model is made."""
    from tamis.cli.request import factor, number_or_word, pair

    found = {name: value for name, value in said.items() if not name.startswith("no_")}
    if said.get("no_intercept"):
        found["fit_intercept"] = False
    if said.get("no_standardize"):
        found["standardize"] = False
    if not found.get("nonnegative"):
        found.pop("nonnegative", None)
    if "choose" in found:
        found["choose"] = number_or_word(found["choose"])
        if isinstance(found["choose"], str) and found["choose"] not in CHOICES:
            raise TamisError(
                f"--choose is '{found['choose']}', which is not known, so nothing was fitted; say {', '.join(CHOICES)}, or a time t."
            )
    given = [pair("penalty-factor", text) for text in found.pop("penalty_factor", ())]
    if given:
        found["penalty_factor"] = {name: factor("penalty-factor", name, text) for name, text in given}
    if "groups" in found:
        found["groups"] = str(Path(found["groups"]).absolute())
        found.setdefault("penalty", "group")
    if "transform" in found:
        what = str(found.pop("transform"))
        found["transformation"] = str(Path(what).absolute()) if is_file_name(what) else what
    return found


def is_file_name(what: str) -> bool:
    """Whether `--transform` names a file rather than a kind of D."""
    return Path(what).suffix.lower() in MATRICES


def estimator(task: str, request: Request, columns: Sequence[str]) -> Any:
    """The estimator for a task, with the parameters that were said, D and groups read from their files.

    Columns that the file of groups does not name are groups of their own.
    """
    said = dict(request.parameters)
    if "transformation" in said and is_file_name(said["transformation"]):
        said["transformation"] = matrix_in(Path(said["transformation"]))
    if "groups" in said:
        known_groups = groups_in(Path(said["groups"]))
        said["groups"] = {name: f"({name})" for name in columns if name not in known_groups} | known_groups
    kind = _kind(task, said)
    known = kind().get_params()
    if kind.__name__ == "InverseScaleRegressor":
        said.pop("loss", None)
    if task == "classify" and said.get("loss", "logistic") != "logistic":
        raise TamisError(
            f"--loss {said['loss']} is for numbers and '{request.source.target}' holds classes, so nothing was fitted; say --task regress."
        )
    for name in said:
        if name not in known:
            verb = "classification" if task == "classify" else "this path"
            raise TamisError(f"--{name.replace('_', '-')} means nothing in {verb}, so nothing was fitted; leave it out, or check --task.")
    return kind(**said, random_state=request.seed, journal=request.journal)


def _kind(task: str, said: Mapping[str, Any]) -> Any:
    """Exact for least squares without groups and damping; iterations for everything else."""
    from tamis.linear.classifier import BregmanClassifier
    from tamis.linear.regressor import BregmanRegressor, InverseScaleRegressor

    if task == "classify":
        return BregmanClassifier
    plain = said.get("loss", "squared") == "squared" and not any(name in said for name in DAMPED if name != "loss")
    return InverseScaleRegressor if plain else BregmanRegressor


def check_numbers(features: pa.Table) -> None:
    """Refuse columns of text before any work, all at once and with the words that leave them out."""
    import pyarrow as pa

    types = pa.types
    fine = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    odd = [field.name for field in features.schema if not any(test(field.type) for test in fine)]
    if odd:
        quoted = ", ".join(f"'{name}'" for name in odd[:5]) + (f" and {len(odd) - 5} more" if len(odd) > 5 else "")
        one = len(odd) == 1
        drop = " ".join(f"--drop '{name}'" for name in odd[:5])
        these, verb, they = ("column", "does", "it") if one else ("columns", "do", "them")
        raise TamisError(
            f"The {these} {quoted} {verb} not hold numbers, which is all that a path can weigh, so nothing was fitted; "
            f"leave {they} out ({drop}), or turn {they} into numbers."
        )


# ---- files ------------------------------------------------------------------------------------------------------
def groups_in(file: Path) -> dict[str, str]:
    """The group of every column, from a table whose first two columns are a column's name and its group."""
    from tamis.tables.readers import read_table

    table = read_table(file)
    if table.num_columns < 2:
        raise TamisError(
            f"'{file}' has {table.num_columns} column, so the groups are not known; "
            "give two, a column's name and its group, under a heading."
        )
    names, labels = (table.column(index).to_pylist() for index in range(2))
    found: dict[str, str] = {}
    for row, (name, label) in enumerate(zip(names, labels, strict=True), start=2):
        if name is None or label is None:
            raise TamisError(f"'{file}' has an empty cell in line {row}, so the groups are not known; give a column and its group.")
        if str(name) in found:
            raise TamisError(f"'{file}' names the column '{name}' twice, so its group is not known; name every column once.")
        found[str(name)] = str(label)
    return found


def matrix_in(file: Path) -> Any:
    """D from a file: a sparse or dense matrix of numbers."""
    from zipfile import BadZipFile
    from zlib import error as zlib_error

    if not file.is_file():
        raise TamisError(f"There is no file '{file}' to read the transform from; check its name and folder.")
    try:
        return _read_matrix(file)
    except (ValueError, LookupError, OSError, EOFError, BadZipFile, zlib_error) as error:
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise TamisError(
            f"'{file}' cannot be read as a matrix ({why}), so there is no D; "
            "write it as .npz (scipy.sparse.save_npz), .mtx or numbers in .csv."
        ) from error


def _read_matrix(file: Path) -> Any:
    import numpy as np

    kind = file.suffix.lower()
    if kind == ".mtx":
        from scipy.io import mmread

        return mmread(file)
    if kind == ".npz":
        from scipy.sparse import load_npz

        return load_npz(file)
    if kind == ".npy":
        return np.load(file, allow_pickle=False)
    with file.open(encoding="utf-8") as lines:
        first = lines.readline()
    separator = "," if kind == ".csv" else "\t" if kind == ".tsv" else None
    heading = bool(re.search(r"[A-DF-Za-df-z_]", first))
    return np.loadtxt(file, delimiter=separator, skiprows=int(heading), ndmin=2)
