"""Every parameter of a selector checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.linear.parameters import number


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


SIMPLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "n_samples": (lambda value: _whole(value) and value >= 1, "a whole number of subsamples, such as 100"),
    "q": (lambda value: value is None or (_whole(value) and value >= 1), "a whole number above 0, or None for the default"),
    "t": (lambda value: value is None or (number(value) and 0 < value < np.inf), "a place on the path above 0, or None"),
    "threshold": (lambda value: number(value) and 0.5 < value <= 1, "a share above 0.5 and at most 1, such as 0.75"),
    "pairs": (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    "time_limit": (lambda value: value is None or (number(value) and value >= 0), "seconds, or None"),
}


def check_parameters(model: Any) -> None:
    """Refuse values no fit could use."""
    for name, (fine, wanted) in SIMPLE.items():
        value = getattr(model, name)
        if not fine(value):
            raise TamisError(f"{name}={value!r} cannot be used, so nothing was fitted; give {wanted}.")
    if model.pairs and model.n_samples % 2:
        raise TamisError(
            f"n_samples={model.n_samples} is odd and samples come in pairs, so nothing was fitted; give an even number, or pairs=False."
        )
