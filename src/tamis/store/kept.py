"""What every estimator offers once it is fitted: a report, and a file; and what their files have in common."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tamis.core.errors import TamisFileError
from tamis.store.model_file import write_model

PLAIN = (str, int, float, bool, type(None))


class Kept:
    """For estimators with `path_`, `_to_model` and `_from_model`."""

    _to_model: Any

    def report(self, file: str | os.PathLike[str]) -> None:
        """Write the report: one HTML file that opens from disk.

        Parameters
        ----------
        file : path
        """
        self._check_fitted()
        builder: Any = importlib.import_module("tamis.report.build")  # by name: the report is a layer above
        builder.report(self, file)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the model as a `.tamis` file: JSON and arrays, nothing pickled.

        Parameters
        ----------
        file : path
        """
        self._check_fitted()
        write_model(file, type(self).__name__, *self._to_model())

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "path_")


def stored_parameters(model: Any) -> dict[str, Any]:
    """Parameters as plain values, and lists and mappings of these; others (functions, frames) return to their default on loading."""
    plain = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    return {name: value for name, value in plain.items() if _storable(value)}


def with_parameters(cls: Any, stored: Mapping[str, Any]) -> Any:
    """An estimator with the stored parameters that it knows."""
    known = cls().get_params(deep=False)
    return cls(**{name: value for name, value in stored.items() if name in known})


def _plain(value: Any) -> Any:
    """Arrays as lists, numpy numbers as Python's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _storable(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_storable, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _storable(item) for key, item in value.items())
    return isinstance(value, PLAIN)


def rebuilt(cls: Any, meta: Mapping[str, Any], arrays: Mapping[str, Any], build: Callable[[Any, Any, Any], Any]) -> Any:
    """A model from what a file holds; content that makes no sense is one sentence, wherever it is noticed."""
    try:
        return build(cls, meta, arrays)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, TamisFileError):
            raise
        raise TamisFileError(
            f"The model file is not a whole {cls.__name__} ({type(error).__name__}: {error}), so it was not loaded; save the model again."
        ) from error
