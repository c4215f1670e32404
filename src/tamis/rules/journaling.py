"""A rule fit's journal: what tells it from the journal of any other fit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tamis.rules.build import Built
from tamis.store.knots import Section, open_knots, parameters_of

__all__ = ["Section", "open_journal"]


def open_journal(file: Any, model: Any, built: Built, said: Mapping[str, Any] | None) -> Any:
    """The journal at `file`, new or of the very same fit; None without one."""
    return None if file is None else open_knots(file, fingerprint(model, built), said)


def fingerprint(model: Any, built: Built) -> dict[str, Any]:
    """What decides a fit's result: its parameters, and a hash of its encoded data."""
    digest = hashlib.sha256()
    targets = built.rows.targets
    for part in (built.rows.literals.words, targets.y, targets.weight, targets.offset):
        digest.update(np.ascontiguousarray(part).tobytes())
    return {"estimator": type(model).__name__, "parameters": parameters_of(model), "data": digest.hexdigest()}
