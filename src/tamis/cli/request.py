"""What one `tamis rules` or `tamis path` run was asked to do, as plain data: a journal keeps it, and `tamis resume` reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tamis.core.errors import TamisError, TamisFileError

CHOICES = ("cv", "cv-best", "aic", "bic", "ebic", "stability", "last")


@dataclass(frozen=True)
class DataSource:
    """Which rows and columns to learn from.

    Attributes
    ----------
    train : str
        The data file, `file.db::table` included.
    target : str
    table, weights : str or None
    drop, identifiers : tuple of str
        Columns that the model may not use.
    holdout : float or None
        Share of the rows kept for a test.
    task : str
        "auto", "classify" or "regress".
    """

    train: str
    target: str
    table: str | None = None
    weights: str | None = None
    drop: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    holdout: float | None = None
    task: str = "auto"


@dataclass(frozen=True)
class Outputs:
    """Which files to write, and what to print."""

    report: str | None = None
    save: str | None = None
    picture: str | None = None
    sql: str | None = None
    sql_file: str | None = None
    python: str | None = None
    json: str | None = None
    onnx: str | None = None
    quiet: bool = False
    strict: bool = False

    def files(self) -> list[Path]:
        """Every file that will be written."""
        return [Path(name) for name in (self.save, self.report, self.picture, self.sql_file, self.python, self.json, self.onnx) if name]


@dataclass(frozen=True)
class Request:
    """Data, outputs and the estimator's parameters (only those that were said)."""

    source: DataSource
    outputs: Outputs = field(default_factory=Outputs)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    journal: str | None = None
    command: str = "rules"

    @classmethod
    def from_options(cls, said: Mapping[str, Any], command: str = "rules") -> Request:
        """Sort the options of a command into what they are about."""
        rest = {name: value for name, value in said.items() if value not in (None, [], ())}
        source = DataSource(**_taken(rest, DataSource))
        outputs = Outputs(**_taken(rest, Outputs))
        seed, journal = rest.pop("seed", 0), rest.pop("journal", None)
        if source.holdout is not None and not 0 < source.holdout < 1:
            raise TamisError(
                f"--holdout is {source.holdout}, but a share of the rows lies between 0 and 1; say for instance --holdout 0.25."
            )
        if command == "path":
            from tamis.cli import path

            if source.task == "auto" and rest.get("loss") in path.TASKS:
                source = replace(source, task=path.TASKS[rest["loss"]])
            found = path.parameters(rest)
        else:
            found = _parameters(rest)
        return cls(source, outputs, found, seed, None if journal is None else str(journal), command)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data; files are named from the root, so that a run can be resumed from any folder."""
        data = asdict(self)
        data["source"]["train"] = _from_root(self.source.train)
        for name in ("report", "save", "picture", "sql_file", "python", "json", "onnx"):
            data["outputs"][name] = data["outputs"][name] and str(Path(data["outputs"][name]).absolute())
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """Inverse of `to_dict`; a header that no command of ours wrote is one sentence."""
        try:
            source: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data["source"].items()}
            said = (data["parameters"], data["seed"], data["journal"], data.get("command", "rules"))
            return cls(DataSource(**source), Outputs(**data["outputs"]), *said)
        except (KeyError, TypeError, AttributeError) as error:
            raise TamisFileError(
                "The journal's command cannot be understood, so it cannot be resumed here; run the command again."
            ) from error


def _taken(said: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Take out of the options those that are fields of `kind`."""
    found = {entry.name: said.pop(entry.name) for entry in fields(kind) if entry.name in said}
    return {
        name: tuple(value) if isinstance(value, list) else str(value) if isinstance(value, Path) else value for name, value in found.items()
    }


def _from_root(train: str) -> str:
    """`folder/file.db::table` with the folder named from the root."""
    from tamis.tables.source import split_table

    file, inside = split_table(train)
    return f"{file.absolute()}" + ("" if inside is None else f"::{inside}")


def _parameters(said: Mapping[str, Any]) -> dict[str, Any]:
    """The estimator's parameters in its own words."""
    found = dict(said)
    if found.get("max_length") == 0:
        found["max_length"] = None
    for name in ("choose", "prune"):
        if isinstance(found.get(name), str):
            found[name] = number_or_word(found[name])
    if found.get("prune") == "none":
        found["prune"] = None
    for name, words in (("choose", CHOICES), ("prune", ("certified",))):
        if isinstance(found.get(name), str) and found[name] not in words:
            raise TamisError(
                f"--{name} is '{found[name]}', which is not known, so nothing was fitted; say {', '.join(words)}, or a number."
            )
    monotone = dict.fromkeys(found.pop("increasing", ()), 1) | dict.fromkeys(found.pop("decreasing", ()), -1)
    propositions = dict(pair("proposition", said) for said in found.pop("proposition", ()))
    costs = {name: factor("cost", name, text) for name, text in (pair("cost", said) for said in found.pop("cost", ()))}
    together = {"monotone": monotone, "propositions": propositions, "costs": costs}
    return found | {name: value for name, value in together.items() if value}


def pair(option: str, said: str) -> tuple[str, str]:
    """NAME=VALUE taken apart at the first equals sign."""
    name, equals, value = said.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise TamisError(f"--{option} '{said}' is not NAME=VALUE, so nothing was fitted; write it with an equals sign.")
    return name.strip(), value.strip()


def factor(option: str, name: str, text: str) -> float:
    """The number of NAME=VALUE."""
    try:
        return float(text)
    except ValueError as error:
        raise TamisError(
            f"--{option} {name}={text} has no number after the equals sign, so nothing was fitted; give a factor such as 2."
        ) from error


def number_or_word(text: str) -> float | str:
    """A number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text
