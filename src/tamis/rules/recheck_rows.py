"""The training rows of a fit as a recheck needs them: held as packed bits, or rebuilt from raw data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError
from tamis.rules.recheck_data import literal_rows

Array = NDArray[Any]


@dataclass(frozen=True)
class WitnessRows:
    """The training rows of a fit, shared by the witnesses of all its knots.

    Attributes
    ----------
    literals : int
        How many literals there are.
    n_rows : int
        How many training rows, in the user's order.
    group : ndarray of int (rows,) or None
        Rows merged for the dual point: for each row its entry there, -1 for a row without weight; None: one each.
    bits : ndarray of uint8 (literals, bytes) or None
        Packed truth of the literals, first row in the lowest bit. None when only the problem was kept: then
        `check` needs the training data. Never pickled.
    pattern : ndarray of int (rows,) or None
        Which row of `bits` each training row has; None: its own.
    y : ndarray (rows,) or None
        Class positions, or numbers.
    weight, row_weight : ndarray (rows,) or None
        What multiplies the loss (without C), and what counts for support.
    offset : ndarray (rows, columns) or None
    classes : tuple
        Class labels in order; empty in regression.
    class_weight : tuple of float or None
        Factor of each class in `weight`, for rows that are given again.
    """

    literals: int
    n_rows: int
    group: Array | None = None
    bits: Array | None = None
    pattern: Array | None = None
    y: Array | None = None
    weight: Array | None = None
    row_weight: Array | None = None
    offset: Array | None = None
    classes: tuple[Any, ...] = ()
    class_weight: tuple[float, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickles carry the problem, not the data."""
        return vars(self.without_data())

    def without_data(self) -> WitnessRows:
        """What a model file keeps."""
        return replace(self, bits=None, pattern=None, y=None, weight=None, row_weight=None, offset=None)

    def given_again(self, X: Any, y: Any, sample_weight: Any, schema: Mapping[str, Any] | None, offset: Any = None) -> WitnessRows:
        """The same rows rebuilt from raw data, through the schema's JSON."""
        if y is None or schema is None:
            raise TamisError("The training data are not held any more, so the certificate can only be rechecked with X, y and the schema.")
        bits, rows = literal_rows(X, schema)
        if rows != self.n_rows or len(bits) != self.literals or len(y) != rows:
            raise TamisError(
                f"The table has {rows} rows, {len(bits)} conditions and {len(y)} targets, but the model was fitted on {self.n_rows} rows "
                f"and {self.literals} conditions, so its certificate cannot be rechecked; give the training data."
            )
        row_weight = np.ones(rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        target, weight = self._encoded(y), row_weight
        if self.class_weight is not None:
            weight = row_weight * np.asarray(self.class_weight)[target.astype(int)]
        shift = None if offset is None else np.asarray(offset, dtype=np.float64).reshape(rows, -1)
        return replace(self, bits=bits, pattern=None, y=target, weight=weight, row_weight=row_weight, offset=shift)

    def _encoded(self, y: Any) -> Array:
        read = getattr(y, "tolist", None) or getattr(y, "to_pylist", None)
        labels = read() if read is not None else list(y)
        if not self.classes:
            return np.array(labels, dtype=np.float64)
        position = {label: i for i, label in enumerate(self.classes)}
        unknown = [label for label in labels if label not in position]
        if unknown:
            raise TamisError(f"The label {unknown[0]!r} is not one of the classes {list(self.classes)!r}; give the training data.")
        return np.array([position[label] for label in labels], dtype=np.float64)

    def by_row(self) -> Array:
        """The literals of each training row, eight to a byte, first literal in the highest bit: (rows, bytes)."""
        assert self.bits is not None
        packed = np.empty((8 * self.bits.shape[1], -(-self.literals // 8)), dtype=np.uint8)
        step = max(1, 2**22 // max(self.literals, 1) // 8)
        for first in range(0, self.bits.shape[1], step):
            part = np.unpackbits(self.bits[:, first : first + step], axis=1, bitorder="little")
            packed[8 * first : 8 * first + part.shape[1]] = np.packbits(part.T, axis=1)
        return packed[: self.n_rows] if self.pattern is None else packed[self.pattern]

    def to_meta(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON-able data and arrays, without the rows themselves."""
        names = ("literals", "n_rows", "classes", "class_weight")
        meta = {name: list(value) if isinstance(value := getattr(self, name), tuple) else value for name in names}
        return meta, {} if self.group is None else {"group": self.group}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> WitnessRows:
        """Inverse of `to_meta`."""
        factors = None if meta["class_weight"] is None else tuple(map(float, meta["class_weight"]))
        return cls(int(meta["literals"]), int(meta["n_rows"]), arrays.get("group"), classes=tuple(meta["classes"]), class_weight=factors)
