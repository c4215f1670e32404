"""The errors users see: one sentence each, saying what is wrong, what follows from it, and what to do next."""

from __future__ import annotations


class TamisError(ValueError):
    """Base of every error tamis raises on purpose; a ValueError, as scikit-learn's contract asks.

    Examples
    --------
    >>> from tamis import RuleClassifier, TamisError
    >>> try:
    ...     RuleClassifier(rho=3.0).fit([[0], [1]], [0, 1])
    ... except TamisError as error:
    ...     print(error)
    rho=3.0 cannot be used, so nothing was fitted; give a number between 1.05 and 2.
    """


class TamisFileError(TamisError):
    """A `.tamis` model or a journal could not be read: damaged, foreign, too large, or from a newer version.

    Examples
    --------
    >>> import tamis
    >>> from pathlib import Path
    >>> _ = Path("broken.tamis").write_bytes(b"not a model")
    >>> try:
    ...     tamis.load("broken.tamis")
    ... except tamis.TamisFileError as error:
    ...     print(error)
    The file 'broken.tamis' is damaged or not a tamis model (it does not start and end like one), so nothing was loaded;
    go back to an earlier copy, or save the model again.
    """


class TamisWarning(UserWarning):
    """Something the user should know about a result that is still usable: what, consequence, next step.

    Examples
    --------
    Turn such warnings into errors where nobody reads them:

    >>> import warnings
    >>> from tamis import TamisWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", TamisWarning)
    """
