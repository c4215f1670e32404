"""The parameters of a rule fit that the engine reads, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.tables.schema import Schema

Array = NDArray[Any]
WORK_LIMIT = 1e9  # conjunctions a tail may have to list before the search is refused


@dataclass(frozen=True)
class Settings:
    """What shapes the lattice, the objective and the search; see RuleClassifier for each meaning."""

    rho: float = 1.1
    growth: float = 2.0
    max_length: int | None = 3
    min_support: float = 1
    tolerance: float = 0.01
    gain_tolerance: float = 0.1
    complements: str = "one"
    monotone: Any = None
    prune: Any = "certified"
    solver: str = "mm"
    max_nodes: int = 3000
    threads: int = 1

    @classmethod
    def of(cls, model: Any, **changes: Any) -> Settings:
        """From an estimator's parameters; one sentence about the first that makes no sense."""
        threads = 1 if model.n_jobs is None else model.n_jobs if model.n_jobs > 0 else _cores() + 1 + model.n_jobs
        names = (name for name in cls.__dataclass_fields__ if name != "threads")
        found = cls(**{name: getattr(model, name) for name in names}, threads=max(1, int(threads)))
        settings = found if not changes else cls(**{**found.__dict__, **changes})
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse values that no fit could use."""
        rules: list[tuple[str, Any, bool, str]] = [
            ("rho", self.rho, _number(self.rho) and 1.05 <= self.rho <= 2, "a number between 1.05 and 2"),
            ("growth", self.growth, _number(self.growth) and 0 < self.growth < np.inf, "a positive number"),
            ("max_length", self.max_length, self.max_length is None or (_whole(self.max_length) and self.max_length >= 1), "a whole number >= 1, or None"),
            ("min_support", self.min_support, _number(self.min_support) and self.min_support > 0, "a share of the rows below 1, or a number of rows from 1 on"),
            ("tolerance", self.tolerance, _number(self.tolerance) and 0 < self.tolerance < 1, "a number between 0 and 1"),
            ("gain_tolerance", self.gain_tolerance, _number(self.gain_tolerance) and 0 < self.gain_tolerance <= 1, "a number between 0 and 1"),
            ("complements", self.complements, self.complements in ("one", "both"), "'one' or 'both'"),
            ("solver", self.solver, self.solver in ("mm", "mirror"), "'mm' or 'mirror'"),
            ("prune", self.prune, self.prune in ("certified", None) or (_number(self.prune) and 0 <= self.prune < 1), "'certified', None, or a share of the largest weight"),
            ("max_nodes", self.max_nodes, _whole(self.max_nodes) and self.max_nodes >= 2, "a whole number >= 2"),
        ]  # fmt: skip
        for name, value, fine, wanted in rules:
            if not fine:
                raise TamisError(f"{name}={value!r} cannot be used, so nothing was fitted; give {wanted}.")

    def check_work(self, literals: int) -> None:
        """Refuse lattices whose tails are too large to be bounded for this rho; small rho needs no length limit."""
        length = literals if self.max_length is None else min(self.max_length, literals)
        exponent = self.rho / (self.rho - 1.0)
        weight = (1.0 + self.growth) ** -exponent
        # below this expected weight of a whole tail the first bounds usually decide, however long it is
        tail = literals * np.log1p(weight) if length > 8 else np.log1p(sum(_choose(literals, j) * weight**j for j in range(1, length + 1)))
        listed = float(sum(_choose(literals, j) for j in range(1, min(length, 12) + 1)))
        if tail > 1.0 and listed > WORK_LIMIT:
            raise TamisError(
                f"rho={self.rho:g} with max_length={self.max_length} over {literals} conditions would have to look at more than "
                f"{WORK_LIMIT:.0e} conjunctions one by one, so nothing was fitted; set max_length=3 or lower, use rho=1.1, or fewer cuts."
            )

    def silent(self, schema: Schema, support: Array) -> list[int]:
        """Of two complementary conditions, the one that covers more rows keeps no weight of its own."""
        if self.complements == "both":
            return []
        pairs = [(k, int(other)) for k, other in enumerate(schema.complement) if other > k]
        return [max(pair, key=lambda k: (support[k], k)) for pair in pairs]

    def signs(self, schema: Schema) -> Array:
        """Per condition 0, or the only sign a rule with it may have under the monotone constraints."""
        sign = np.zeros(len(schema), dtype=np.int8)
        if self.monotone is None or not len(self.monotone):
            return sign
        columns = [column.name for column in schema.columns]
        wanted = self.monotone if isinstance(self.monotone, Mapping) else dict(zip(columns, self.monotone, strict=False))
        if not isinstance(self.monotone, Mapping) and len(self.monotone) != len(columns):
            raise TamisError(f"monotone has {len(self.monotone)} entries for {len(columns)} columns, so nothing was fitted; give one -1, 0 or 1 per column, or a dict.")
        for name, way in wanted.items():
            if name not in columns or way not in (-1, 0, 1):
                raise TamisError(f"monotone says {name!r}: {way!r}, which is no column with a -1, 0 or 1, so nothing was fitted; the columns are {columns[:8]}.")
            places = [k for k, literal in enumerate(schema.literals) if literal.column == name and literal.operator != "missing"]
            if way and any(schema.direction[k] == 0 for k in places):
                raise TamisError(f"monotone names {name!r}, whose values have no order, so nothing was fitted; drop it from monotone or make the column ordered.")
            for k in places:
                sign[k] = way * schema.direction[k]
        return sign


def _choose(n: int, k: int) -> float:
    from math import comb

    return float(comb(n, k))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _cores() -> int:
    import os

    return os.cpu_count() or 1
