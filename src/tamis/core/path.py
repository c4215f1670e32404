"""A path: what was selected, with what coefficients and what certificate, at every value of one knob.

A knot is immutable and made of plain arrays, so that it can be journaled, saved, resumed from and drawn
without knowing which method made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError, TamisFileError

Array = NDArray[Any]
FEW = 64  # a path of more knots is stored as a few arrays rather than some arrays per knot


@dataclass(frozen=True, eq=False)
class Knot:
    """One point of a path; two knots are equal only if they are the same one, for arrays have no single answer.

    Attributes
    ----------
    t : float
        The knob's value.
    atoms : tuple of tuple of int
        The selected pieces, most important first (a conjunction is the tuple of its literals' positions).
    names : tuple of str
        What the pieces are called.
    coefficients : ndarray (atoms, columns)
        Their weights, one column per score.
    intercept : ndarray (columns,)
        The free constants.
    certificate : Certificate
        How far from the best answer at this t.
    measures : dict
        Numbers worth drawing: loss, norm, seconds, held atoms, ...
    state : dict of arrays
        What the solver needs to go on from here as if it had never stopped.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import Certificate, Knot
    >>> certificate = Certificate("duality gap", value=1.0, bound=0.995, tolerance=0.01)
    >>> knot = Knot(0.5, ((0, 2),), ("a <= 3 AND b",), np.array([[1.5]]), np.array([-0.2]), certificate)
    >>> meta, arrays = knot.to_record()
    >>> Knot.from_record(meta, arrays).names
    ('a <= 3 AND b',)
    """

    t: float
    atoms: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    coefficients: Array
    intercept: Array
    certificate: Certificate
    measures: Mapping[str, float] = field(default_factory=dict)
    state: Mapping[str, Array] = field(default_factory=dict, repr=False)

    def to_record(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The knot as JSON-able data and named arrays: what a journal and a model file store."""
        lengths = np.array([len(atom) for atom in self.atoms], dtype=np.int64)
        flat = np.array([index for atom in self.atoms for index in atom], dtype=np.int64)
        meta = {"t": float(self.t), "names": list(self.names), "certificate": self.certificate.to_dict(), "measures": dict(self.measures)}
        arrays = {"lengths": lengths, "flat": flat, "coefficients": self.coefficients, "intercept": self.intercept}
        return meta, arrays | {f"state.{name}": np.asarray(value) for name, value in self.state.items()}

    @classmethod
    def from_record(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Knot:
        """Inverse of `to_record`."""
        lengths, flat, names = arrays["lengths"].tolist(), arrays["flat"].tolist(), tuple(meta["names"])
        if min(lengths, default=0) < 0 or sum(lengths) != len(flat) or not len(lengths) == len(names) == len(arrays["coefficients"]):
            raise TamisFileError("A knot's atoms, names and coefficients do not fit together, so the path was not read; fit it again.")
        ends = list(accumulate(lengths))
        return cls(
            t=float(meta["t"]),
            atoms=tuple(tuple(flat[end - length : end]) for end, length in zip(ends, lengths, strict=True)),
            names=names,
            coefficients=arrays["coefficients"],
            intercept=arrays["intercept"],
            certificate=Certificate.from_dict(meta["certificate"]),
            measures=dict(meta["measures"]),
            state={name[6:]: value for name, value in arrays.items() if name.startswith("state.")},
        )


@dataclass(frozen=True, eq=False)
class Path:
    """Knots in the order followed, append-only.

    Attributes
    ----------
    knots : tuple of Knot
    status : str
        "complete", "stopped" (nothing more to find), "interrupted" (Ctrl-C) or "budget" (time or size limit).
    knob : str
        What `t` is called, such as "C".
    scores : dict of str to ndarray
        Validation results per knot when the path was cross-validated: "mean", "error" (standard error), "folds".
    provenance : dict
        Versions, parameters and the data's fingerprint.
    between : callable or None
        (knot before, knot after, t) -> the model at t, for methods that move between knots; None for those that stay where the
        last knot put them.
    notes : tuple of str
        What was found on the way, one sentence each.

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import Certificate, Knot, Path
    >>> certificate = Certificate("duality gap", value=1.0, bound=0.995, tolerance=0.01)
    >>> knots = [Knot(t, ((0,),), ("a <= 3",), np.array([[2 * t]]), np.zeros(1), certificate) for t in (0.1, 1.0)]
    >>> path = Path(tuple(knots), knob="C")
    >>> path.selected(0.5), path.coefficients(0.5)
    (('a <= 3',), array([[0.2]]))
    >>> path.events()
    [(0.1, 'enters', 'a <= 3')]
    """

    knots: tuple[Knot, ...] = ()
    status: str = "complete"
    knob: str = "t"
    scores: Mapping[str, Array] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    between: Callable[[Knot, Knot, float], Knot] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.knots)

    def __iter__(self) -> Iterator[Knot]:
        return iter(self.knots)

    @property
    def t(self) -> Array:
        """Knob values in the order followed."""
        return np.array([knot.t for knot in self.knots])

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """One certificate per knot."""
        return tuple(knot.certificate for knot in self.knots)

    def extended(self, knot: Knot) -> Path:
        """The path with one more knot."""
        return replace(self, knots=(*self.knots, knot))

    def at(self, t: float) -> Knot:
        """The last knot whose knob value does not lie beyond t (the first one if all do)."""
        if not self.knots:
            raise TamisError("The path has no knot, so nothing can be read from it; give the fit more time or a larger budget.")
        if np.isnan(t):
            raise TamisError(f"{self.knob} = nan is no place on the path, so nothing can be read there; give a number.")
        ahead = -1.0 if len(self.knots) > 1 and self.knots[-1].t < self.knots[0].t else 1.0
        reached = [knot for knot in self.knots if ahead * knot.t <= ahead * t * (1 + 1e-12 * ahead * np.sign(t))]
        return reached[-1] if reached else self.knots[0]

    def read(self, t: float) -> Knot:
        """The model at t, with the method's own interpolation; an interpolated one keeps the certificate of the knot before it."""
        knot = self.at(t)
        if self.between is None or not knot.t < t or knot is self.knots[-1]:
            return knot
        return self.between(knot, self.knots[next(i for i, other in enumerate(self.knots) if other is knot) + 1], t)

    @property
    def pieces(self) -> dict[tuple[int, ...], str]:
        """Every atom that any knot holds, with its name, in order of first appearance."""
        return {atom: name for knot in self.knots for atom, name in zip(knot.atoms, knot.names, strict=True)}

    def coefficients(self, t: float) -> Array:
        """Dense coefficients at t over all `pieces` of the path, (pieces, columns); zero where not selected."""
        knot, position = self.read(t), {atom: i for i, atom in enumerate(self.pieces)}
        dense = np.zeros((len(position), knot.coefficients.shape[1]))
        for atom, row in zip(knot.atoms, knot.coefficients, strict=True):
            dense[position[atom]] = row
        return dense

    def selected(self, t: float) -> tuple[str, ...]:
        """Names of the pieces selected at t, most important first."""
        return self.read(t).names

    def events(self) -> list[tuple[float, str, str]]:
        """(t, "enters" or "leaves", name) in path order."""
        events: list[tuple[float, str, str]] = []
        before: dict[tuple[int, ...], str] = {}
        for knot in self.knots:
            now = dict(zip(knot.atoms, knot.names, strict=True))
            events += [(knot.t, "leaves", name) for atom, name in before.items() if atom not in now]
            events += [(knot.t, "enters", name) for atom, name in now.items() if atom not in before]
            before = now
        return events

    def select(self, by: str | float = "cv", **options: Any) -> Knot:
        """Choose a knot: "cv", "aic", "bic", "ebic", "last", or a value of the knob."""
        from tamis.core.choose import choose  # the chooser reads paths, so it comes second

        return self.knots[choose(self, by, **options)]

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per knot and selected piece, as a pandas (default), polars or pyarrow frame, whichever is installed."""
        import narwhals as nw

        rows = [
            (knot.t, name, float(row[0]) if len(row) == 1 else float(np.linalg.norm(row)))
            for knot in self.knots
            for name, row in zip(knot.names, knot.coefficients, strict=True)
        ]
        schema = {self.knob: nw.Float64(), "piece": nw.String(), "weight": nw.Float64()}
        columns = {name: [row[i] for row in rows] for i, name in enumerate(schema)}
        library: Any = backend or installed_frame()
        return nw.from_dict(columns, schema, backend=library).to_native()

    def plot(self, ax: Any = None) -> Any:
        """Draw the path with matplotlib."""
        import importlib

        displays: Any = importlib.import_module("tamis.report.displays")
        return displays.PathDisplay.from_path(self).plot(ax=ax)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The whole path as JSON-able data and named arrays."""
        meta: dict[str, Any] = {
            "status": self.status,
            "knob": self.knob,
            "provenance": dict(self.provenance),
            "scores": sorted(self.scores),
            "notes": list(self.notes),
        }
        if len(self.knots) > FEW and not any(knot.state for knot in self.knots):
            packed, arrays = _packed(self.knots, self.pieces)
            meta |= packed
        else:
            records = [knot.to_record() for knot in self.knots]
            meta["knots"] = [record[0] for record in records]
            arrays = {f"knot{i}.{name}": value for i, record in enumerate(records) for name, value in record[1].items()}
        return meta, arrays | {f"scores.{name}": np.asarray(value) for name, value in self.scores.items()}

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Path:
        """Inverse of `to_arrays`."""
        groups: dict[str, dict[str, Array]] = {}
        for name, value in arrays.items():
            group, _, rest = name.partition(".")
            groups.setdefault(group, {})[rest] = value
        if "pieces" in meta:
            knots = _unpacked(meta, groups["packed"])
        else:
            knots = [Knot.from_record(record, groups.get(f"knot{i}", {})) for i, record in enumerate(meta["knots"])]
        scores = {name: arrays[f"scores.{name}"] for name in meta["scores"]}
        notes = tuple(str(note) for note in meta.get("notes", ()))
        return cls(tuple(knots), meta["status"], meta["knob"], scores, meta["provenance"], notes=notes)


def _packed(knots: Sequence[Knot], pieces: Mapping[tuple[int, ...], str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Many knots as a few arrays: which pieces each holds, one behind the other, and every piece's name once."""
    place = {atom: i for i, atom in enumerate(pieces)}
    meta = {
        "pieces": list(pieces.values()),
        "knots": [{"t": float(knot.t), "certificate": knot.certificate.to_dict(), "measures": dict(knot.measures)} for knot in knots],
    }
    arrays = {
        "sizes": np.array([len(knot.atoms) for knot in knots], dtype=np.int64),
        "held": np.array([place[atom] for knot in knots for atom in knot.atoms], dtype=np.int64),
        "lengths": np.array([len(atom) for atom in pieces], dtype=np.int64),
        "flat": np.array([index for atom in pieces for index in atom], dtype=np.int64),
        "coefficients": np.concatenate([knot.coefficients for knot in knots]),
        "intercept": np.array([knot.intercept for knot in knots]),
    }
    return meta, {f"packed.{name}": value for name, value in arrays.items()}


def _unpacked(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> list[Knot]:
    """Inverse of `_packed`."""
    sizes, held, lengths, flat = (arrays[name].tolist() for name in ("sizes", "held", "lengths", "flat"))
    names, coefficients = [str(name) for name in meta["pieces"]], arrays["coefficients"]
    fits = min(sizes, default=0) >= 0 and min(lengths, default=0) >= 0 and sum(sizes) == len(held) == len(coefficients)
    fits = (
        fits and sum(lengths) == len(flat) and len(lengths) == len(names) and len(sizes) == len(meta["knots"]) == len(arrays["intercept"])
    )
    if not fits or not all(0 <= piece < len(names) for piece in held):
        raise TamisFileError("The path's pieces and coefficients do not fit together, so the path was not read; fit it again.")
    ends = list(accumulate(lengths))
    atoms = [tuple(flat[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    knots, first = [], 0
    for size, record, intercept in zip(sizes, meta["knots"], arrays["intercept"], strict=True):
        mine = held[first : first + size]
        knots.append(
            Knot(
                t=float(record["t"]),
                atoms=tuple(atoms[i] for i in mine),
                names=tuple(names[i] for i in mine),
                coefficients=coefficients[first : first + size],
                intercept=np.asarray(intercept),
                certificate=Certificate.from_dict(record["certificate"]),
                measures=dict(record["measures"]),
            )
        )
        first += size
    return knots


FRAMES: Sequence[str] = ("pandas", "polars", "pyarrow")


def installed_frame(which: Callable[[str], Any] | None = None) -> str:
    """The first installed frame library, so that none needs to be a dependency."""
    from importlib.util import find_spec

    for name in FRAMES:
        if (which or find_spec)(name) is not None:
            return name
    raise TamisError("No frame library is installed, so there is no frame to return; install pandas, polars or pyarrow.")
