"""Knots in a journal: every finished knot of every run of a fit, so that a killed fit goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.core.errors import TamisError
from tamis.core.path import Knot
from tamis.store.journal import Journal

RUN_ONLY = ("journal", "verbose", "n_jobs", "time_limit")  # parameters that do not change the result


@dataclass(frozen=True)
class Section:
    """One run's part of the journal."""

    journal: Any
    name: str

    def knots(self) -> list[Knot]:
        """What an earlier run left here."""
        return [Knot.from_record(meta, arrays) for meta, arrays in self.journal.records(self.name)]

    def append(self, knot: Knot) -> None:
        """On disk when this returns."""
        self.journal.append(self.name, *knot.to_record())


def open_knots(file: Any, fit: Mapping[str, Any], said: Mapping[str, Any] | None) -> Any:
    """The journal at `file`, new or of the very same fit (`fit` says which); None without one."""
    if file is None:
        return None
    header = {"fit": dict(fit), **(said or {})}
    if not (Path(file).exists() and Path(file).stat().st_size):
        return Journal.create(file, header)
    journal = Journal.open(file)
    if journal.header.get("fit") != header["fit"]:
        journal.close()
        raise TamisError(
            f"The journal {str(file)!r} belongs to a fit of other data or parameters, so nothing was fitted; "
            "name another journal or delete it."
        )
    return journal


def parameters_of(model: Any) -> dict[str, str]:
    """What of an estimator's parameters decides its result."""
    return {name: repr(value) for name, value in sorted(model.get_params(deep=False).items()) if name not in RUN_ONLY}
