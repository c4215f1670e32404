"""What the user asked for, settled per column before any column is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.tables.cuts import Cuts, Levels, Missing, is_count
from tamis.tables.frame import Table
from tamis.tables.literals import Wishes

AFTER_A_COLUMN = (" <=", " >", " =", " !=", " in {", " not in {", " is missing", " >=")


@dataclass(frozen=True)
class Options:
    """Cuts, levels and missing per column."""

    default: Wishes
    cuts: Mapping[str, Cuts] = field(default_factory=dict)
    levels: Mapping[str, Levels] = field(default_factory=dict)

    def of(self, column: str) -> Wishes:
        """What was asked for on one column."""
        return Wishes(self.cuts.get(column, self.default.cuts), self.levels.get(column, self.default.levels), self.default.missing)

    @property
    def supervised(self) -> bool:
        """Whether any column needs y."""
        return any(cuts.kind == "supervised" for cuts in (self.default.cuts, *self.cuts.values()))


def options_of(table: Table, cuts: Any, n_cuts: int, levels: Any, missing: Missing | None) -> Options:
    """Read `cuts` and `levels`, each one choice for all columns or a dict by column."""
    by_column = cuts if isinstance(cuts, Mapping) else {}
    by_level = levels if isinstance(levels, Mapping) else {}
    _known(table, "cuts", by_column)
    _known(table, "levels", by_level)
    default = Wishes(
        _cuts("quantile" if isinstance(cuts, Mapping) or cuts is None else cuts, n_cuts),
        Levels() if isinstance(levels, Mapping) or levels is None else _levels(levels),
        missing or Missing(),
    )
    return Options(
        default, {name: _cuts(wish, n_cuts) for name, wish in by_column.items()}, {name: _levels(wish) for name, wish in by_level.items()}
    )


def _cuts(wish: Any, n_cuts: int) -> Cuts:
    if isinstance(wish, Cuts):
        return wish
    if isinstance(wish, str):
        return Cuts.paper() if wish == "paper" else Cuts(n_cuts, wish)
    if is_count(wish):
        return Cuts(int(wish))
    if isinstance(wish, (list, tuple, np.ndarray)):
        return Cuts(at=list(wish))
    raise TamisError(
        f"cuts={wish!r} is not a way to cut columns, so none can be cut; give a name such as 'quantile', Cuts(...), or cut points."
    )


def _levels(wish: Any) -> Levels:
    if isinstance(wish, Levels):
        return wish
    if is_count(wish):
        return Levels(top=int(wish))
    raise TamisError(f"levels={wish!r} does not say which levels to use, so none can be; give Levels(top=50), or a dict of them by column.")


def _known(table: Table, what: str, wishes: Mapping[Any, Any]) -> None:
    for name in wishes:
        if name not in table.position:
            near = get_close_matches(str(name), table.names, n=1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"its columns are {', '.join(map(repr, table.names[:8]))}{' and more' * (len(table.names) > 8)}."
            )
            raise TamisError(f"{what} names the column {name!r}, which the table does not have; {hint}")


def least_support(min_support: float, total: float) -> float:
    """The smallest weight a condition must cover; 0 when covering any row is enough."""
    share = float(min_support)
    if not share > 0 or math.isinf(share):
        raise TamisError(
            f"min_support={min_support!r} is no amount of rows, so conditions cannot be chosen; give rows (1 or more) or a share below 1."
        )
    if share > total and share > 1:
        raise TamisError(
            f"min_support={min_support:g} exceeds the {total:g} rows there are, so no condition could stay; give less, or a share."
        )
    return 0.0 if share == 1 else share * total if share < 1 else share


def cost_reader(costs: Mapping[str, Any] | None) -> Callable[[Literal], float]:
    """The cost of a condition: by its text, else by its column, else 1."""
    table = dict(costs or {})
    for name, cost in table.items():
        usable = isinstance(cost, (int, float, np.number)) and not isinstance(cost, bool) and math.isfinite(cost) and cost > 0
        if not usable:
            raise TamisError(
                f"costs[{name!r}] is {cost!r}, which is no price, so conditions cannot be weighed; give a finite number above 0."
            )
    return lambda literal: float(table.get(literal.text(), table.get(literal.column, 1.0)))


def unused_costs(costs: Mapping[str, float] | None, known: set[str], columns: tuple[str, ...]) -> list[str]:
    """Notes on costs of conditions this table does not give; a name that cannot be one is an error.

    Cut points are learned anew in every fold, so a cost for `age <= 30` may be idle there without being wrong.
    """
    idle = []
    for name in costs or {}:
        if name in known or name in columns:
            continue
        plausible = any(name.removeprefix("not ").startswith(column) and name != column for column in columns)
        if not plausible or not (name.startswith("not ") or any(sign in name for sign in AFTER_A_COLUMN)):
            near = get_close_matches(str(name), [*columns, *known], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "use a column's name or a condition's text such as 'age <= 30'."
            raise TamisError(f"costs names {name!r}, which is neither a column nor a condition; {hint}")
        idle.append(f"costs names the condition {name!r}, which this table does not give, so it has no effect.")
    return idle


def fewer_cuts(options: Options, n_columns: int, limit: int) -> str:
    """What to do about too many conditions."""
    cuts = options.default.cuts
    fitting = limit // (2 * max(n_columns, 1))
    if cuts.kind in ("quantile", "uniform", "supervised") and 1 <= fitting < cuts.count:
        return f"use fewer cuts (n_cuts={fitting}), fewer levels (levels=Levels(top=10)), or raise max_literals."
    if cuts.kind == "all":
        return f"use fewer cuts (cuts='quantile', n_cuts={max(1, min(8, fitting))}), or raise max_literals."
    return "use fewer cuts, levels or columns (Cuts(count=4, every=2), Levels(top=10)), or raise max_literals."
