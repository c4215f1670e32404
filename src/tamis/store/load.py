"""Turn a model file back into the model: the one place that knows which kind is which class, by name only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tamis.core.errors import TamisFileError
from tamis.store.atomic import FilePath
from tamis.store.model_file import read_model

# Names, not classes: reading files needs no estimator until one is asked for. Nothing in a file can add to this.
KINDS = {
    "BregmanClassifier": "tamis.linear.classifier:BregmanClassifier",
    "BregmanRegressor": "tamis.linear.regressor:BregmanRegressor",
    "InverseScaleRegressor": "tamis.linear.regressor:InverseScaleRegressor",
    "RuleClassifier": "tamis.rules.classifier:RuleClassifier",
    "RuleRegressor": "tamis.rules.regressor:RuleRegressor",
    "StabilitySelector": "tamis.select.stability:StabilitySelector",
}


def load(file: FilePath) -> Any:
    """Load a model that was saved with its `save` method.

    A `.tamis` file holds numbers and text, never code: nothing in it is executed, whoever wrote it.

    Parameters
    ----------
    file : path
        A `.tamis` file.

    Returns
    -------
    model
        The fitted estimator, of the class that saved it.

    Raises
    ------
    TamisFileError
        If the file is missing, damaged, hostile, or from a newer format; one sentence says which.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import RuleClassifier, load
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> y = X[:, 0] & X[:, 1]
    >>> RuleClassifier(C=10.0).fit(X, y).save("both.tamis")
    >>> load("both.tamis").predict([[1, 1], [1, 0]])
    array([1, 0])
    """
    kind, meta, arrays = read_model(file)
    place = KINDS.get(kind)
    if place is None:
        raise TamisFileError(
            f"The file {str(file)!r} holds a {kind[:50]!r}, which this tamis does not know, so nothing was loaded; "
            f"install a newer tamis (this one knows {', '.join(sorted(KINDS))})."
        )
    module, _, name = place.partition(":")
    model_class = getattr(import_module(module), name)
    try:
        return model_class._from_model(meta, arrays)
    except TamisFileError:
        raise
    # A well-formed file with content that makes no sense: the class trips over it wherever it happens to look first.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise TamisFileError(
            f"The file {str(file)!r} does not describe a {kind} ({why}), so nothing was loaded; "
            "go back to an earlier copy, or save the model again."
        ) from error
