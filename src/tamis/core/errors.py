"""The errors users see: one sentence each, saying what is wrong, what follows from it, and what to do next."""

from __future__ import annotations


class TamisError(ValueError):
    """Base of every error tamis raises on purpose; a ValueError, as scikit-learn's contract asks."""


class TamisFileError(TamisError):
    """A `.tamis` model or a journal could not be read: damaged, foreign, too large, or from a newer version."""


class TamisWarning(UserWarning):
    """Something the user should know about a result that is still usable: what, consequence, next step."""
