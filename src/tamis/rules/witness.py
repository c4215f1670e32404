"""What a rule certificate hands to its independent recheck: the claim's numbers and the training rows, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.core.certificate import Certificate
from tamis.core.path import Knot


def witnessed(knot: Knot, built: Sequence[Any], plan: Any) -> Certificate:
    """The knot's certificate with its witness."""
    return knot.certificate
