"""The conditions one column gives, and which rows satisfy them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal, value_text
from tamis.tables.columns import Bools, Floats, Values, iso_text, micros
from tamis.tables.cuts import Cuts, Levels, Missing, Spread, Target, places, readable_cut, spread_of, uniform_points

DAY = 86_400_000_000.0
LARGEST_INTEGER = 2.0**53


@dataclass(frozen=True)
class Found:
    """What one column gives: its kind as learned, its conditions in order, and what the user should know."""

    kind: str
    literals: tuple[Literal, ...]
    levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wishes:
    """What the user asked for on one column."""

    cuts: Cuts = field(default_factory=Cuts)
    levels: Levels = field(default_factory=Levels)
    missing: Missing = field(default_factory=Missing)


def conditions_of(name: str, values: Values, wishes: Wishes, weights: Floats | None, target: Target | None, rare: float) -> Found:
    """All conditions of one column, before rare and repeated ones are dropped."""
    if values.missing.all():
        return Found("numeric", ())  # a column of nothing comes in as any type, depending on the library
    if wishes.cuts.kind == "none":
        return _as_given(name, values)
    if values.codes is not None:
        found = _ordered(name, values) if values.kind == "ordered" else _nominal(name, values, wishes.levels, weights, rare)
    elif values.kind == "boolean":
        found = Found("boolean", (Literal(name, "true", kind="boolean"), Literal(name, "false", kind="boolean")))
    else:
        found = _numeric(name, values, wishes.cuts, weights, target)
    if not wishes.missing.indicator or not values.missing.any():
        return found
    return Found(found.kind, (*found.literals, Literal(name, "missing", kind=found.kind)), found.levels, found.notes)


def _as_given(name: str, values: Values) -> Found:
    """cuts="none": booleans, and numbers that are all 0 or 1, used as they are."""
    if values.codes is not None or values.numbers is None:
        raise _not_given(name, f"text such as {values.levels[0]!r}" if values.levels else "text")
    odd = values.numbers[~values.missing & (values.numbers != 0) & (values.numbers != 1)]
    if len(odd):
        raise _not_given(name, f"{'dates' if values.kind == 'date' else 'numbers'} such as {written(values.kind, float(odd.min()))}")
    if values.kind == "boolean":
        return Found("boolean", (Literal(name, "true", kind="boolean"),))
    return Found("integer", (Literal(name, ">", 0.0, "integer", label=name),))


def _not_given(name: str, held: str) -> TamisError:
    return TamisError(
        f"cuts='none' takes columns of booleans or of 0 and 1 as they are, but column {name!r} holds {held}; "
        "make it boolean, or cut columns with cuts='quantile'."
    )


def written(kind: str, number: float) -> str:
    """A cut or cell as people write it."""
    return iso_text(number) if kind == "date" else value_text(float(number))


def _nominal(name: str, values: Values, levels: Levels, weights: Floats | None, rare: float) -> Found:
    """`=` per level, then `!=`, then the pool of all others."""
    assert values.codes is not None  # checked by the caller
    present = values.codes >= 0
    size = np.bincount(values.codes[present], None if weights is None else weights[present], len(values.levels))
    seen = np.flatnonzero(size > 0)
    ranked = sorted(seen, key=lambda code: (-size[code], code))
    kept = [code for code in ranked[: levels.top] if size[code] >= rare]
    pooled = [code for code in ranked if code not in set(kept)]
    if len(pooled) == 1 and len(kept) < levels.top:
        kept, pooled = [*kept, *pooled], []  # a pool of one is that level, which is dropped by name if it is rare
    notes = [f"Column {name!r} holds cells of several types, so they are compared as text."] if values.mixed else []
    own = [values.levels[code] for code in sorted(kept)]
    literals = [Literal(name, "==", level, "level") for level in own]
    if levels.negate and len(seen) > (2 if present.all() else 1):
        literals += [Literal(name, "!=", level, "level") for level in own]
    if pooled and own:
        label = "other" if "other" not in values.levels else "other (pooled)"
        literals.append(Literal(name, "not in", None, "level", tuple(own), f"{name} = {label}"))
        if levels.negate:
            literals.append(Literal(name, "in", None, "level", tuple(own), f"{name} != {label}"))
        listed = shortened([values.levels[code] for code in sorted(pooled)])
        notes.append(f"Column {name!r} has {len(pooled)} rare levels, pooled as '{label}': {listed}.")
    if pooled and not own:
        notes.append(f"Each of the {len(pooled)} levels of column {name!r} is rarer than min_support, so it gives no condition.")
    return Found("level", tuple(literals), (), tuple(notes))


def _ordered(name: str, values: Values) -> Found:
    """`<=` and `>` between the levels seen, as sets of levels, so that no export needs to know the order."""
    assert values.codes is not None  # checked by the caller
    order, seen = values.levels, np.unique(values.codes[values.codes >= 0])
    literals: list[Literal] = []
    for code in seen[:-1]:
        literals.append(Literal(name, "in", None, "ordered", order[: code + 1], f"{name} <= {order[code]}"))
        literals.append(Literal(name, "in", None, "ordered", order[code + 1 :], f"{name} > {order[code]}"))
    return Found("ordered", tuple(literals), order)


def _numeric(name: str, values: Values, cuts: Cuts, weights: Floats | None, target: Target | None) -> Found:
    """`<=` and `>` at every cut of a column of numbers or dates."""
    assert values.numbers is not None  # checked by the caller
    spread = spread_of(values.numbers, weights)
    kind = "date" if values.kind == "date" else "integer" if _whole(spread.values) else "numeric"
    notes = (f"Column {name!r} has a time zone, so its cut points are in UTC.",) if values.zoned else ()
    literals: list[Literal] = []
    for point in _points(name, kind, cuts, spread, values.numbers, target):
        if cuts.kind == "paper":
            literals += _both_sides(name, kind, point)
        else:
            cut = iso_text(point) if kind == "date" else float(point)
            literals += [Literal(name, "<=", cut, kind), Literal(name, ">", cut, kind)]
    return Found(kind, tuple(literals), (), notes)


def _whole(distinct: Floats) -> bool:
    """Whether all values are whole numbers, so that a cut can be one of them."""
    return bool(np.isfinite(distinct).all() and (np.abs(distinct) <= LARGEST_INTEGER).all() and (distinct == np.rint(distinct)).all())


def _points(name: str, kind: str, cuts: Cuts, spread: Spread, column: Floats, target: Target | None) -> list[float]:
    """Cut points, ascending."""
    if cuts.kind == "list":
        return _listed(name, kind, cuts.at or ())
    distinct = spread.values
    if cuts.kind == "paper" or (cuts.kind == "uniform" and len(distinct) > cuts.every):
        raw = uniform_points(cuts.count, spread)
        if cuts.kind == "paper" or not cuts.readable:
            return list(dict.fromkeys(map(float, raw if kind == "numeric" or cuts.kind == "paper" else np.floor(raw))))
        between = np.unique(np.searchsorted(distinct, raw, side="right") - 1)
    else:
        between = places(cuts, spread, column, target)
    points = [_between(kind, float(distinct[place]), float(distinct[place + 1]), cuts.readable) for place in between]
    return [point for point in points if point is not None]


def _between(kind: str, low: float, high: float, readable: bool) -> float | None:
    """One cut a with low <= a < high."""
    if kind == "integer":
        return low
    if kind == "date":
        return readable_date(low, high) if readable else low
    if readable:
        return readable_cut(low, high)
    middle = low / 2 + high / 2
    return middle if low <= middle < high and math.isfinite(middle) else readable_cut(low, high)


def readable_date(low: float, high: float) -> float:
    """The roundest moment in the middle half of the gap; days stay days, as whole numbers stay whole."""
    if low % DAY == 0 and high % DAY == 0:
        return low
    middle, quarter = low / 2 + high / 2, high / 4 - low / 4
    moment = np.datetime64(int(middle), "us")
    for unit in ("Y", "M", "D", "h", "m", "s"):
        floor = moment.astype(f"datetime64[{unit}]")
        near = [micros((floor + step).astype("datetime64[us]")) for step in (0, 1)]
        near = [cut for cut in near if middle - quarter <= cut <= middle + quarter and low <= cut < high]
        if near:
            return min(near, key=lambda cut: abs(cut - middle))
    return low


def _listed(name: str, kind: str, at: Sequence[object]) -> list[float]:
    """The user's own cut points as numbers, ascending and distinct."""
    try:
        points = [micros(point) if kind == "date" else float(point) for point in at]  # type: ignore[arg-type]
    except (TypeError, ValueError, AttributeError) as error:
        wanted = "ISO dates" if kind == "date" else "numbers"
        raise TamisError(f"The cut points {list(at)!r} of column {name!r} are not {wanted}, so it cannot be cut; give {wanted}.") from error
    if not all(math.isfinite(point) for point in points):
        raise TamisError(
            f"The cut points {list(at)!r} of column {name!r} are not all finite, so it cannot be cut; leave NaN and infinity out."
        )
    return sorted(set(points))


def _both_sides(name: str, kind: str, point: float) -> list[Literal]:
    """The paper's `x <= a` and `x >= a`; the second as `x > b`, b the last number before a, which is exact on every row."""
    if kind == "numeric":
        return [
            Literal(name, "<=", point, kind),
            Literal(name, ">", math.nextafter(point, -math.inf), kind, label=f"{name} >= {value_text(point)}"),
        ]
    first, last = float(math.floor(point)), float(math.ceil(point))
    if kind == "date":
        return [
            Literal(name, "<=", iso_text(first), kind),
            Literal(name, ">", iso_text(last - 1), kind, label=f"{name} >= {iso_text(last)}"),
        ]
    return [Literal(name, "<=", first, kind), Literal(name, ">", last - 1.0, kind, label=f"{name} >= {value_text(last)}")]


class Cells:
    """One column of some table, asked for the rows that satisfy conditions."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._position: dict[str, int] | None = None

    def holds(self, literal: Literal) -> Bools:
        """Which rows satisfy the condition; a missing cell satisfies `missing` only."""
        match literal.operator:
            case "<=":
                return np.less_equal(self.numbers, self._cut(literal))
            case ">":
                return np.greater(self.numbers, self._cut(literal))
            case "true":
                return np.equal(self.numbers, 1.0)
            case "false":
                return np.equal(self.numbers, 0.0)
            case "missing":
                return self.values.missing
            case "==" | "in":
                return self._among(literal)
            case "!=" | "not in":
                return ~self._among(literal) & ~self.values.missing
        raise TamisError(f"The condition {literal.text()!r} has the unknown operator {literal.operator!r}, so it cannot be evaluated.")

    @property
    def numbers(self) -> Floats:
        """The column as numbers; NaN compares false with everything."""
        assert self.values.numbers is not None  # the schema checked what the column holds
        return self.values.numbers

    def _cut(self, literal: Literal) -> float:
        return micros(literal.value) if literal.kind == "date" else float(literal.value)

    def _among(self, literal: Literal) -> Bools:
        codes = self.values.codes
        assert codes is not None  # the schema checked what the column holds
        if self._position is None:
            self._position = self.values.position
        if literal.operator in ("==", "!="):
            return np.equal(codes, self._position.get(str(literal.value), -2))
        wanted = np.zeros(len(self.values.levels) + 1, dtype=bool)
        wanted[[self._position[member] for member in literal.members if member in self._position]] = True
        return wanted[codes]  # code -1, a missing cell, reads the last entry: False


def shortened(texts: Sequence[str], most: int = 5) -> str:
    """A list in a sentence, cut where it gets long."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
