"""A rule fit's journal: every finished knot of every run in it, so that a killed fit goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.path import Knot
from tamis.rules.build import Built

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


def open_journal(file: Any, model: Any, built: Built, said: Mapping[str, Any] | None) -> Any:
    """The journal at `file`, new or of the very same fit; None without one."""
    if file is None:
        return None
    from tamis.store.journal import Journal

    header = {"fit": fingerprint(model, built), **(said or {})}
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


def fingerprint(model: Any, built: Built) -> dict[str, Any]:
    """What decides a fit's result: its parameters, and a hash of its encoded data."""
    digest = hashlib.sha256()
    targets = built.rows.targets
    for part in (built.rows.literals.words, targets.y, targets.weight, targets.offset):
        digest.update(np.ascontiguousarray(part).tobytes())
    parameters = {name: repr(value) for name, value in sorted(model.get_params(deep=False).items()) if name not in RUN_ONLY}
    return {"estimator": type(model).__name__, "parameters": parameters, "data": digest.hexdigest()}
