"""The training rows of a linear fit as a recheck needs them: held as they came, or given again; columns on one scale, in runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.errors import TamisError

Array = NDArray[Any]
RUN_BYTES = 64 * 2**20  # prepared cells held at once
STILL = 1e-12  # a spread below this share of the mean is rounding: the column does not vary


@dataclass(frozen=True)
class WitnessRows:
    """The training rows of a fit, shared by the witnesses of all its knots.

    Attributes
    ----------
    rows, columns : int
        How many rows had a weight, and how many columns there are.
    names : tuple of str
        The columns' names.
    named : bool
        Whether the fit was given these names, so that a frame is read by them.
    classes : tuple
        Class labels in order; empty for numbers.
    class_weight : "balanced", tuple of float or None
        Factor of each class in the weights, for rows that are given again.
    blocks : tuple of matrices or None
        The columns, cut into blocks of rows. None when only the problem was kept: then `check` needs the training data. Never pickled.
    target : ndarray (rows, scores) or None
        Numbers, +-1, or one-hot rows.
    weight : ndarray (rows,) or None
        Zero on rows that were left out.
    """

    rows: int
    columns: int
    names: tuple[str, ...]
    named: bool = False
    classes: tuple[Any, ...] = ()
    class_weight: tuple[float, ...] | str | None = None
    blocks: tuple[Any, ...] | None = field(default=None, repr=False)
    target: Array | None = field(default=None, repr=False)
    weight: Array | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles carry the problem, not the data."""
        return vars(self.without_data())

    def without_data(self) -> WitnessRows:
        """What a model file keeps."""
        return replace(self, blocks=None, target=None, weight=None)

    def given_again(self, X: Any, y: Any, sample_weight: Any) -> WitnessRows:
        """The same rows from data in any form that a fit takes."""
        if X is None or y is None:
            raise TamisError("The training data are not held any more, so the certificate can only be rechecked with X and y; give both.")
        blocks, target = self._matrices(X), self._encoded(y)
        found, width = sum(int(block.shape[0]) for block in blocks), int(blocks[0].shape[1])
        weight = np.ones(found) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weight = np.full(found, float(weight)) if weight.ndim == 0 else weight
        if len(target) != found or weight.shape != (found,) or width != self.columns or not np.count_nonzero(weight > 0) == self.rows:
            raise TamisError(
                f"The data have {found} rows ({np.count_nonzero(weight > 0)} with a weight), {width} columns and {len(target)} targets, "
                f"but the model was fitted on {self.rows} rows and {self.columns} columns, so its certificate cannot be rechecked; "
                "give the training data."
            )
        return replace(self, blocks=blocks, target=target, weight=weight * self._factors(target, weight))

    def used(self) -> WitnessRows:
        """Without the rows that have no weight."""
        assert self.blocks is not None
        assert self.target is not None
        assert self.weight is not None
        rows = np.flatnonzero(self.weight > 0)
        if len(rows) == len(self.weight):
            return self
        return replace(self, rows=len(rows), blocks=_picked(self.blocks, rows), target=self.target[rows], weight=self.weight[rows])

    def _matrices(self, X: Any) -> tuple[Any, ...]:
        """Blocks of rows of whatever holds the columns."""
        given = getattr(X, "column_names", None)  # frames first: any other attribute of theirs may be a column
        given = given if isinstance(given, list) else getattr(X, "columns", None)
        if given is None and hasattr(X, "blocks"):
            return tuple(X.blocks)
        if given is None and hasattr(X, "tocsc"):
            return (X.tocsc(),)
        if given is None:
            matrix = np.asarray(X)
            if matrix.ndim != 2:
                raise TamisError(f"X has shape {matrix.shape}, which is no table, so nothing was rechecked; give the training data.")
            return (matrix,)
        given = list(given)
        missing = [name for name in self.names if name not in given] if self.named else []
        if missing:
            raise TamisError(
                f"X has no column {missing[0]!r}, which the model was fitted on, so nothing was rechecked; give the training data."
            )
        return (np.column_stack([_numbers(X[name], name) for name in (self.names if self.named else given)]),)

    def _encoded(self, y: Any) -> Array:
        """Targets as the fit saw them."""
        read = getattr(y, "tolist", None) or getattr(y, "to_pylist", None)
        if not self.classes:
            return _numbers(y, "y").reshape(-1, 1)
        position = {label: i for i, label in enumerate(self.classes)}
        labels = read() if read is not None else np.asarray(y).reshape(-1).tolist()
        labels = [label[0] if isinstance(label, list) else label for label in labels]
        unknown = [label for label in labels if label not in position]
        if unknown:
            raise TamisError(
                f"The label {unknown[0]!r} is not one of the classes {list(self.classes)!r}, so nothing was rechecked; "
                "give the training data."
            )
        codes = np.array([position[label] for label in labels])
        return np.where(codes == 1, 1.0, -1.0)[:, None] if len(self.classes) == 2 else np.eye(len(self.classes))[codes]

    def _factors(self, target: Array, weight: Array) -> Array | float:
        """What class weights make of each row."""
        if self.class_weight is None:
            return 1.0
        member = np.hstack([target < 0, target > 0]) if len(self.classes) == 2 else target > 0
        if isinstance(self.class_weight, str):
            mass = weight @ member
            return np.asarray(member @ (mass.sum() / (len(self.classes) * np.maximum(mass, 1e-300))))
        return np.asarray(member @ np.array(self.class_weight))

    def cells(self, run: Array) -> Array:
        """Some columns of all rows, as floats."""
        assert self.blocks is not None
        parts = []
        for block in self.blocks:
            part = block.tocsc()[:, run].toarray() if hasattr(block, "tocsc") else block[:, run]
            parts.append(np.asarray(part, dtype=np.float64))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _numbers(column: Any, name: str) -> Array:
    """A column of a frame, or a target, as floats."""
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TamisError(
            f"{name!r} holds something that is no number ({error}), so nothing was rechecked; give the training data."
        ) from error


def _picked(blocks: tuple[Any, ...], used: Array) -> tuple[Any, ...]:
    """Some rows of all blocks."""
    first, found = 0, []
    for block in blocks:
        inside = used[(used >= first) & (used < first + block.shape[0])] - first
        first += block.shape[0]
        found.append(block.tocsr()[inside] if hasattr(block, "tocsr") else np.asarray(block)[inside])
    return tuple(found)


class Table:
    """The columns centred and scaled under weights that sum to 1, in runs of bounded size.

    Attributes
    ----------
    share : ndarray (rows,)
        The weights.
    center, scale : ndarray (columns,)
        From a column to its prepared form: (x - center) / scale.
    varies : ndarray of bool (columns,)
        Whether a column is more than a constant; others are taken for zero unless `whole`.
    """

    def __init__(self, rows: WitnessRows, fit_intercept: bool, standardize: bool, whole: bool = False) -> None:
        assert rows.weight is not None
        self.rows, self.whole = rows, whole
        self.share = rows.weight / rows.weight.sum()
        self.count, self.columns = rows.rows, rows.columns
        self.center, spread = np.zeros(self.columns), np.zeros(self.columns)
        for run in self.runs():
            cells = rows.cells(run)
            if fit_intercept:
                first = self.share @ cells
                self.center[run] = first + self.share @ (cells - first)  # the second mean has the digits that a large offset costs
            spread[run] = np.sqrt(self.share @ (cells - self.center[run]) ** 2)
        self.varies = spread > (STILL * np.maximum(np.abs(self.center), 1e-300) if fit_intercept else 0.0)
        self.scale = np.where(self.varies, spread, 1.0) if standardize else np.ones(self.columns)
        self.spread = np.where(self.varies, spread, 0.0)
        small = 8 * self.count * self.columns <= RUN_BYTES
        self._held = self._made(np.arange(self.columns)) if small else None

    def runs(self, columns: Array | None = None) -> Iterator[Array]:
        """Positions of columns in runs of bounded size."""
        positions = np.arange(self.columns) if columns is None else columns
        step = max(1, RUN_BYTES // (8 * max(1, self.count)))
        for first in range(0, len(positions), step):
            yield positions[first : first + step]

    def prepared(self, run: Array) -> Array:
        """Some prepared columns."""
        return self._made(run) if self._held is None else self._held[:, run]

    def _made(self, run: Array) -> Array:
        cells = (self.rows.cells(run) - self.center[run]) / self.scale[run]
        return cells if self.whole else np.where(self.varies[run], cells, 0.0)

    def dot(self, columns: Array, weights: Array) -> Array:
        """Prepared columns times weights (columns, ...)."""
        total = np.zeros((self.count, *weights.shape[1:]))
        step = max(1, RUN_BYTES // (8 * max(1, self.count)))
        for first in range(0, len(columns), step):
            total += self.prepared(columns[first : first + step]) @ weights[first : first + step]
        return total

    def score(self, values: Array) -> Array:
        """Products of all prepared columns with row values (rows, ...)."""
        parts = [self.prepared(run).T @ values for run in self.runs()]
        return np.concatenate(parts) if parts else np.zeros((0, *values.shape[1:]))
