"""Conditions as they are collected: rare ones dropped, those with the same training rows merged, complements found.

Two conditions are the same when the same training rows satisfy them. Rows are compared by a 128-bit fingerprint
of the packed truth, so a million rows cost 16 bytes a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.literal import Literal
from tamis.tables.columns import Array, Bools, Floats
from tamis.tables.literals import shortened

MOST_NOTES = 8


@dataclass
class Entry:
    """A kept condition, and the conditions merged into it."""

    literal: Literal
    cost: float
    order: int
    opposite: bytes
    merged: list[tuple[str, str]] = field(default_factory=list)  # (column, text)


@dataclass
class Registry:
    """Collects conditions column by column.

    `least` is the smallest support kept (0: any row will do), in the units of `weights`.
    """

    n_rows: int
    least: float
    weights: Floats | None
    cost_of: Callable[[Literal], float]
    limit: int
    suggestion: str
    complements: bool = True
    entries: dict[bytes, Entry] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    constant: list[str] = field(default_factory=list)
    dropped: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {"idle": {}, "rare": {}})
    offered: int = 0

    def add_column(self, name: str, found: Iterable[tuple[Literal, Bools]], explained: bool = False) -> None:
        """Take in the conditions of one column with the rows that satisfy them."""
        verdicts = []
        idle = []
        for literal, rows in found:
            verdict = self._add(literal, rows)
            verdicts.append(verdict)
            if verdict == "idle":
                idle.append(literal.text())
        if set(verdicts) <= {"idle"}:
            if not explained:
                self.constant.append(name)
        elif idle:
            self.dropped["idle"][name] = idle

    def _add(self, literal: Literal, rows: Bools) -> str:
        """What became of one condition: "kept", "merged", "idle" (all rows or none) or "rare"."""
        self.offered += 1
        text = literal.text()
        self.texts.add(text)
        covered = int(np.count_nonzero(rows))
        if covered in (0, self.n_rows):
            return "idle"
        if self.least and self._support(rows, covered) < self.least:
            self.dropped["rare"].setdefault(literal.column, []).append(text)
            return "rare"
        own, opposite = fingerprints(rows)
        entry = Entry(literal, self.cost_of(literal), self.offered, opposite)
        known = self.entries.get(own)
        if known is not None:
            first, second = (entry, known) if entry.cost < known.cost else (known, entry)
            first.merged = [*known.merged, (second.literal.column, second.literal.text())]
            self.entries[own] = first
            return "merged"
        if not self.complements and opposite in self.entries:
            return "merged"
        if len(self.entries) >= self.limit:
            raise TamisError(
                f"The table gives more than max_literals={self.limit} conditions, so the search would be too large; {self.suggestion}"
            )
        self.entries[own] = entry
        return "kept"

    def _support(self, rows: Bools, covered: int) -> float:
        return covered if self.weights is None else float(np.dot(self.weights, rows))

    def kept(self) -> list[tuple[bytes, Entry]]:
        """The conditions that stay, in the order their columns gave them."""
        return sorted(self.entries.items(), key=lambda item: item[1].order)

    def complements_of(self, kept: list[tuple[bytes, Entry]]) -> Array:
        """For each kept condition the position of the one that holds on exactly the other training rows, else -1."""
        position = {rows: place for place, (rows, _) in enumerate(kept)}
        return np.array([position.get(entry.opposite, -1) for _, entry in kept], dtype=np.int64)

    def notes(self, min_support: float) -> list[str]:
        """One sentence per kind of thing dropped and column; a summary where that would be a list of its own."""
        notes = []
        if self.constant:
            are = "Columns {} are" if len(self.constant) > 1 else "Column {} is"
            notes.append(
                f"{are.format(shortened([repr(name) for name in self.constant]))} constant on the training rows, so no condition is made."
            )
        notes += _per_column(self.dropped["idle"], "on every training row or on none", "left out")
        notes += _per_column(self.dropped["rare"], f"on less than min_support={min_support:g}", "left out")
        return notes + self._merger_notes()

    def _merger_notes(self) -> list[str]:
        """Conditions of other columns that say the same; within a column that is only another wording."""
        found: dict[str, list[str]] = {}
        for _, entry in self.kept():
            for column, text in entry.merged:
                if column != entry.literal.column:
                    found.setdefault(column, []).append(f"{text} (as {entry.literal.text()})")
        return _per_column(found, "on the same training rows as others", "merged")


def _per_column(found: dict[str, list[str]], where: str, done: str) -> list[str]:
    """One sentence per column, or one for all of them."""
    if len(found) > MOST_NOTES:
        total = sum(map(len, found.values()))
        return [f"{total} conditions on {len(found)} columns ({shortened([repr(name) for name in found])}) hold {where} and are {done}."]
    return [
        f"1 condition on {name!r} holds {where} and is {done}: {texts[0]}."
        if len(texts) == 1
        else f"{len(texts)} conditions on {name!r} hold {where} and are {done}: {shortened(texts)}."
        for name, texts in found.items()
    ]


def fingerprints(rows: Bools) -> tuple[bytes, bytes]:
    """Fingerprints of the rows that satisfy a condition, and of those that do not."""
    packed = np.packbits(rows)
    opposite = ~packed
    if len(rows) % 8:
        opposite[-1] &= 256 - 2 ** (8 - len(rows) % 8)  # packbits fills the last byte with zeros, and so must we
    return blake2b(packed.data, digest_size=16).digest(), blake2b(opposite.data, digest_size=16).digest()
