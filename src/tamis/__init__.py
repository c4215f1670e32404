"""tamis: the few rules, groups, edges or components that matter, over the whole path, with a certificate.

Names are loaded when first used, so that `import tamis` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.core.certificate import Certificate
    from tamis.core.chunked import Chunked
    from tamis.core.errors import TamisError, TamisFileError, TamisWarning
    from tamis.core.path import Knot, Path
    from tamis.linear.classifier import BregmanClassifier
    from tamis.linear.regressor import BregmanRegressor, InverseScaleRegressor
    from tamis.rules.classifier import RuleClassifier
    from tamis.rules.regressor import RuleRegressor
    from tamis.rules.ruleset import RuleSet
    from tamis.select.stability import StabilitySelector
    from tamis.store.load import load
    from tamis.tables.cuts import Cuts, Levels, Missing

__version__ = "0.1.0"

_HOMES = {
    "BregmanClassifier": "tamis.linear.classifier",
    "BregmanRegressor": "tamis.linear.regressor",
    "Certificate": "tamis.core.certificate",
    "Chunked": "tamis.core.chunked",
    "Cuts": "tamis.tables.cuts",
    "InverseScaleRegressor": "tamis.linear.regressor",
    "Knot": "tamis.core.path",
    "Levels": "tamis.tables.cuts",
    "Missing": "tamis.tables.cuts",
    "Path": "tamis.core.path",
    "RuleClassifier": "tamis.rules.classifier",
    "RuleRegressor": "tamis.rules.regressor",
    "RuleSet": "tamis.rules.ruleset",
    "StabilitySelector": "tamis.select.stability",
    "TamisError": "tamis.core.errors",
    "TamisFileError": "tamis.core.errors",
    "TamisWarning": "tamis.core.errors",
    "load": "tamis.store.load",
}

__all__ = [
    "BregmanClassifier",
    "BregmanRegressor",
    "Certificate",
    "Chunked",
    "Cuts",
    "InverseScaleRegressor",
    "Knot",
    "Levels",
    "Missing",
    "Path",
    "RuleClassifier",
    "RuleRegressor",
    "RuleSet",
    "StabilitySelector",
    "TamisError",
    "TamisFileError",
    "TamisWarning",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
