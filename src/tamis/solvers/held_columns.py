"""A changing set of a design's columns, side by side in memory, so that products with them are one call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class HeldColumns:
    """Some columns of a design, side by side in memory."""

    def __init__(self, design: Design, room: int = 32) -> None:
        self._design = design
        self._buffer: Floats = np.empty((design.shape[0], room), order="F")
        self._names: Indices = np.empty(room, dtype=np.intp)
        self.place: dict[int, int] = {}
        self.count = 0

    def order(self) -> Indices:
        """Which columns, as they lie."""
        return self._names[: self.count]

    def all(self) -> Floats:
        """All of them."""
        return self._buffer[:, : self.count]

    def one(self, column: int) -> Floats:
        """One of them."""
        return self._buffer[:, self.place[column]]

    def add(self, columns: list[int]) -> None:
        """Lay more columns beside."""
        fresh = [j for j in columns if j not in self.place]
        if not fresh:
            return
        need = self.count + len(fresh)
        if need > self._buffer.shape[1]:
            larger = np.empty((self._buffer.shape[0], max(need, 2 * self._buffer.shape[1])), order="F")
            larger[:, : self.count] = self.all()
            self._buffer, self._names = larger, np.resize(self._names, larger.shape[1])
        self._buffer[:, self.count : need] = self._design.block(np.array(fresh))
        self._names[self.count : need] = fresh
        self.place.update({j: self.count + i for i, j in enumerate(fresh)})
        self.count = need

    def keep(self, columns: Indices) -> None:
        """Hold exactly these, in this order."""
        short = min(len(columns), self.count)
        other = np.flatnonzero(columns[:short] != self._names[:short])
        same = int(other[0]) if len(other) else short
        if same == len(columns) == self.count:
            return
        wanted = [int(j) for j in columns]
        moved = [self.place.get(j) for j in wanted[same:]]
        known = self._buffer[:, [place for place in moved if place is not None]]
        known_names = [j for j, place in zip(wanted[same:], moved, strict=True) if place is not None]
        for j in self._names[same : self.count].tolist():
            del self.place[j]
        self.count = same
        self._lay(known_names, known)
        self.add([j for j in wanted[same:] if j not in self.place])
        if known_names != wanted[same : same + len(known_names)]:
            self._reorder(wanted)

    def _lay(self, names: list[int], columns: Floats) -> None:
        end = self.count + len(names)
        self._buffer[:, self.count : end] = columns
        self._names[self.count : end] = names
        self.place.update({j: self.count + i for i, j in enumerate(names)})
        self.count = end

    def _reorder(self, wanted: list[int]) -> None:
        order = [self.place[j] for j in wanted]
        self._buffer[:, : self.count] = self._buffer[:, order]
        self._names[: self.count] = wanted
        self.place = {j: i for i, j in enumerate(wanted)}
