"""What a structure of atoms offers a solver: which atoms exist, how they are searched, what they are called.

A structure may be far too large to list. A solver holds a few atoms and asks for the price of all the others:
the best newcomers, and one bound that covers every atom not held, listed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tamis.core.design import Bits
from tamis.core.dual import DualPoint

Atom = tuple[int, ...]
Array = NDArray[Any]


@dataclass(frozen=True)
class Priced:
    """The answer to a pricing call.

    Attributes
    ----------
    newcomers : tuple of atoms
        Atoms that violate the floor, worst first.
    scores : ndarray
        A lower bound of each newcomer's violation.
    bound : float
        No atom outside the held ones scores above this.
    looked : int
        How many atoms were looked at one by one.
    """

    newcomers: tuple[Atom, ...]
    scores: Array
    bound: float
    looked: int


@dataclass(frozen=True)
class Held:
    """The atoms a solver holds, closed under taking ancestors, with what it needs of their order.

    `ancestor[i], owner[i]` list every pair (ancestor, atom), each atom being its own ancestor, so sums over
    ancestors or descendants are one bincount.
    """

    atoms: tuple[Atom, ...]
    index: dict[Atom, int]
    columns: Bits
    ancestor: NDArray[np.intp]
    owner: NDArray[np.intp]
    cost: NDArray[np.float64]
    silent: NDArray[np.bool_]
    sign: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.atoms)

    def over_descendants(self, values: Array) -> Array:
        """For each atom, the sum of values over itself and its held descendants."""
        return np.bincount(self.ancestor, values[self.owner], len(self.atoms))

    def over_ancestors(self, values: Array) -> Array:
        """For each atom, the sum of values over itself and its ancestors."""
        return np.bincount(self.owner, values[self.ancestor], len(self.atoms))


@runtime_checkable
class Structure(Protocol):
    """The protocol every structure offers."""

    def price(
        self, point: DualPoint, held: Held, floor: float, count: int = 100, stop: Callable[[], bool] | None = None, *,
        thorough: bool = True, enough: int | None = None,
    ) -> Priced: ...  # fmt: skip
    def name(self, atom: Atom) -> str: ...
    def columns(self, atoms: Sequence[Atom]) -> Bits: ...
    def describe(self) -> str: ...


@runtime_checkable
class Hierarchy(Structure, Protocol):
    """A structure whose atoms have ancestors: weight on an atom is paid for by every ancestor."""

    rho: float

    def root(self) -> Held: ...
    def grow(self, held: Held, newcomers: Sequence[Atom]) -> Held: ...
    def restrict(self, held: Held, keep: Sequence[int]) -> tuple[Held, Array]: ...


@runtime_checkable
class Gauge(Protocol):
    """What coefficients cost: a weighted sum of norms over pieces that do not overlap.

    Arrays are (rows, classes), one row per column of the design. `separable` says that every entry is a piece of its own, which
    shrinks by soft thresholding outside the interval `flat()`. Weight 0 is free, weight inf never enters.
    """

    separable: ClassVar[bool]

    @property
    def weight(self) -> NDArray[np.float64]:
        """The weight of the piece that each row belongs to."""
        ...

    def shrink(self, dual: Array) -> Array: ...
    def flat(self) -> tuple[Array, Array]: ...
    def reach(self, dual: Array) -> Array: ...
    def dual_norm(self, vector: Array) -> float: ...
    def restrict(self, rows: Array) -> Gauge: ...
