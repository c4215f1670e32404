"""One door to all exports: what the command line and `RuleSet` call by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tamis.core.errors import TamisError
from tamis.core.scorecard import ScoreCard

#: Where each export lives; nothing is imported before it is used.
EXPORTS = {
    "sql": "tamis.store.export_sql:to_sql",
    "python": "tamis.store.export_python:to_python",
    "json": "tamis.store.export_json:to_json",
    "onnx": "tamis.store.export_onnx:to_onnx",
}


def export(card: ScoreCard, to: str, **options: Any) -> str | bytes:
    """Write a score card in another language.

    Parameters
    ----------
    card : ScoreCard
    to : str
        `sql`, `python`, `json` or `onnx`.
    **options
        What that export takes: `dialect`, `table`, `key`, `probability` for SQL, `indent` for JSON,
        `missing_text` for ONNX.

    Returns
    -------
    str or bytes
        Text, or the bytes of an ONNX file.

    Examples
    --------
    >>> from tamis.core.scorecard import ScoreCard
    >>> from tamis.store.export import export
    >>> export(ScoreCard((), (0.5,), "identity"), "json", indent=None)[:15]
    '{"classes": [],'
    """
    if to not in EXPORTS:
        raise TamisError(f"{to!r} is no language tamis exports to, so nothing was written; use one of {', '.join(EXPORTS)}.")
    module, name = EXPORTS[to].split(":")
    write: Callable[..., str | bytes] = getattr(import_module(module), name)
    known = [parameter for parameter in inspect.signature(write).parameters if parameter != "card"]
    odd = [option for option in options if option not in known]
    if odd:
        raise TamisError(f"The export to {to} has no option {odd[0]!r}, so nothing was written; it takes {', '.join(known) or 'none'}.")
    return write(card, **options)
