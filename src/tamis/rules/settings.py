"""The parameters of a rule fit that the engine reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
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
    def of(cls, model: Any) -> Settings:
        """From an estimator's parameters, which `check_parameters` has seen."""
        threads = 1 if model.n_jobs is None else model.n_jobs if model.n_jobs > 0 else (os.cpu_count() or 1) + 1 + model.n_jobs
        names = (name for name in cls.__dataclass_fields__ if name != "threads")
        return cls(**{name: getattr(model, name) for name in names}, threads=max(1, int(threads)))

    def check_work(self, literals: int) -> None:
        """Refuse lattices whose tails are too large to be bounded for this rho; small rho needs no length limit."""
        length = literals if self.max_length is None else min(self.max_length, literals)
        exponent = self.rho / (self.rho - 1.0)
        weight = (1.0 + self.growth) ** -exponent
        # below this expected weight of a whole tail the first bounds usually decide, however long it is
        tail = literals * np.log1p(weight) if length > 8 else np.log1p(sum(comb(literals, j) * weight**j for j in range(1, length + 1)))
        listed = float(sum(comb(literals, j) for j in range(1, min(length, 12) + 1)))
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
            raise TamisError(
                f"monotone has {len(self.monotone)} entries for {len(columns)} columns, so nothing was fitted; "
                "give one -1, 0 or 1 per column, or a dict."
            )
        for name, way in wanted.items():
            if name not in columns or way not in (-1, 0, 1):
                raise TamisError(
                    f"monotone says {name!r}: {way!r}, which is no column with a -1, 0 or 1, so nothing was fitted; "
                    f"the columns are {columns[:8]}."
                )
            places = [k for k, literal in enumerate(schema.literals) if literal.column == name and literal.operator != "missing"]
            if way and any(schema.direction[k] == 0 for k in places):
                raise TamisError(
                    f"monotone names {name!r}, whose values have no order, so nothing was fitted; "
                    "drop it from monotone or make the column ordered."
                )
            for k in places:
                sign[k] = way * schema.direction[k]
        return sign
