"""Transforms D: what should be sparse when it is not the coefficients but D beta: jumps, edges, neighbouring voxels, pairs.

A transform is a sparse matrix with a name for every row, and the projection that turns "these rows of D beta are zero"
into coefficients that obey it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tamis.core.errors import TamisError

Floats = NDArray[np.float64]
RANK_CUT = 1e-10  # relative to the largest pivot, rows scaled to norm 1: a row nearer to the span of others adds no constraint
DIRECT_WORK = 4e9  # multiplications up to which the constraints are factorised; iterations beyond
TERMS_SHOWN = 4
WORDS = ("identity", "fused", "fused+identity", "grid:8x8", "grid:4x4x4")


@dataclass(frozen=True, eq=False)
class Transform:
    """A sparse matrix D with a name for each row.

    Rows of zeros are kept, so that rows stay where the caller put them; such a row never enters a path, as nothing pulls it.

    Parameters
    ----------
    matrix : sparse matrix of shape (rows, columns)
        D itself; made compressed by rows.
    words : str
        What it is, for reports.
    labels : tuple of str, optional
        Names of the rows; read off the coefficients when not given.

    Examples
    --------
    >>> from tamis.structures.transform import differences
    >>> jumps = differences(3)
    >>> jumps.names(["a", "b", "c"])
    ('a - b', 'b - c')
    >>> jumps.project([1.0, 2.0, 6.0], [False, True])
    array([1.5, 1.5, 6. ])
    """

    matrix: Any
    words: str = "matrix"
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        matrix = sparse.csr_array(self.matrix, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        object.__setattr__(self, "matrix", matrix)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """A name per row, given those of the columns; repeated ones are numbered."""
        if len(columns) != self.shape[1]:
            raise TamisError(
                f"The transform has {self.shape[1]} columns and {len(columns)} names were given, so its rows cannot be named; "
                "give one name per column."
            )
        start, index, data = self.matrix.indptr, self.matrix.indices, self.matrix.data
        found = self.labels or tuple(
            _sum_of_terms([(data[at], str(columns[index[at]])) for at in range(start[row], start[row + 1])]) for row in range(self.shape[0])
        )
        seen: dict[str, int] = {}
        unique = []
        for name in found:
            seen[name] = seen.get(name, 0) + 1
            unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
        return tuple(unique)

    def project(self, beta: Any, support: Any) -> Floats:
        """The nearest coefficients at which every row outside the support is zero: what the selection says, and no more.

        Parameters
        ----------
        beta : array of shape (columns,) or (columns, classes)
            Dense coefficients.
        support : array of bool of shape (rows,) or (rows, classes), or positions of rows
            Which rows may differ from zero.

        Returns
        -------
        ndarray
            Like beta.
        """
        values = np.asarray(beta, dtype=np.float64)
        marks = np.asarray(support)
        if marks.dtype != bool:
            chosen = np.zeros(self.shape[0], dtype=bool)
            chosen[marks.astype(np.intp)] = True
            marks = chosen
        if marks.ndim == 1:
            return self._project(values, ~marks)
        return np.column_stack([self._project(values[:, column], ~marks[:, column]) for column in range(values.shape[1])])

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.bool_]]:
        """Entries per row; rows that say "these two are equal"; rows that say "this one is zero"."""
        count = np.diff(self.matrix.indptr)
        total = np.asarray(self.matrix.sum(axis=1)).ravel()
        return count, (count == 2) & (total == 0.0), count == 1

    def _project(self, beta: Floats, silent: NDArray[np.bool_]) -> Floats:
        """Projection on the null space of the silent rows: equalities first, by components; what is left, by a factorisation.

        Coefficients that must be equal form components, and one that holds a coefficient that must be zero is zero. The null space
        of all rows lies in that of these, so projecting first on it (means over components) and then within it loses nothing.
        """
        count, pairs, singles = self._kinds
        component, scale = self._components(np.flatnonzero(silent & pairs), np.flatnonzero(silent & singles))
        groups = len(scale)
        lift = sparse.csr_array((scale[component], (np.arange(len(component)), component)), shape=(len(component), groups))
        inside = lift.T @ beta
        rest = self.matrix[np.flatnonzero(silent & (count > 0) & ~pairs & ~singles)]
        if rest.shape[0]:
            inside = _off_rows(sparse.csr_array(rest @ lift), inside)
        return np.asarray(lift @ inside)

    def _components(self, pairs: NDArray[np.intp], singles: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats]:
        """Which component each coefficient belongs to, and 1 / sqrt(size) of each, 0 where it must vanish."""
        columns = self.shape[1]
        ends = self.matrix.indices[self.matrix.indptr[pairs][:, None] + np.arange(2)]
        edges = sparse.coo_array((np.ones(len(pairs)), (ends[:, 0], ends[:, 1])), shape=(columns, columns))
        groups, component = sparse.csgraph.connected_components(edges.tocsr(), directed=False)
        scale = 1.0 / np.sqrt(np.bincount(component, minlength=groups))
        scale[component[self.matrix.indices[self.matrix.indptr[singles]]]] = 0.0
        return component, scale


def _off_rows(rows: Any, values: Floats) -> Floats:
    """Values minus their part in the span of sparse rows; each row scaled to norm 1, so factors of rows decide nothing."""
    from scipy.linalg import qr
    from scipy.sparse.linalg import LinearOperator, lsmr

    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = sparse.csr_array(rows[length > 0].multiply(1.0 / length[length > 0][:, None]))
    if not rows.shape[0]:
        return values
    used = np.unique(rows.indices)
    span = rows[:, used]
    here, there = span.shape
    result = values.copy()
    if float(here) * there * min(here, there) <= DIRECT_WORK:
        basis, pivots, _ = qr(span.T.toarray(), mode="economic", pivoting=True)
        size = np.abs(np.diag(pivots))
        basis = basis[:, : int(np.count_nonzero(size > RANK_CUT * size[0]))]
        result[used] -= basis @ (basis.T @ values[used])
        return result
    operator = LinearOperator((there, here), matvec=lambda weights: span.T @ weights, rmatvec=lambda each: span @ each)
    columns = values[used].reshape(there, -1)
    solved = [lsmr(operator, column, atol=1e-12, btol=1e-12, conlim=1.0 / RANK_CUT, maxiter=20 * there)[0] for column in columns.T]
    result[used] -= (span.T @ np.column_stack(solved)).reshape(values[used].shape)
    return result


def _sum_of_terms(terms: list[tuple[float, str]]) -> str:
    """`a - b`, `0.5 a`, `a - 2 b + c`; long sums are cut."""
    if not terms:
        return "0"
    text = ""
    ordered = sorted(terms, key=lambda term: term[0] < 0) if len(terms) == 2 else terms
    for factor, name in ordered[:TERMS_SHOWN]:
        size = "" if abs(factor) == 1 else f"{abs(factor):.4g} "
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{size}{name}"
    return text if len(terms) <= TERMS_SHOWN else f"{text} + ... ({len(terms)} terms)"


def _width(columns: int | Sequence[str]) -> int:
    """How many columns, from their number or their names."""
    width = columns if isinstance(columns, int | np.integer) else len(columns)
    if width < 1:
        raise TamisError(f"A transform over {width} columns has no rows, so nothing can be selected; give data with at least one column.")
    return int(width)


def identity(columns: int | Sequence[str]) -> Transform:
    """Each coefficient itself."""
    return Transform(sparse.eye_array(_width(columns), format="csr"), "identity")


def differences(columns: int | Sequence[str]) -> Transform:
    """Each coefficient minus the next one: sparse when the coefficients are constant over stretches."""
    width = _width(columns)
    if width < 2:
        raise TamisError("Differences need two columns and X has n_features = 1, so D has no rows; use transformation='identity'.")
    return Transform(sparse.diags_array([np.ones(width - 1), -np.ones(width - 1)], offsets=[0, 1], shape=(width - 1, width)), "fused")


def graph(edges: Iterable[Sequence[Any]], columns: int | Sequence[str]) -> Transform:
    """One difference per edge; edges are pairs of positions, or of names when the columns' names are given.

    Examples
    --------
    >>> from tamis.structures.transform import graph
    >>> graph([("a", "c"), ("b", "c")], ["a", "b", "c"]).names(["a", "b", "c"])
    ('a - c', 'b - c')
    """
    width = _width(columns)
    place = {} if isinstance(columns, int | np.integer) else {name: at for at, name in enumerate(columns)}
    found = []
    for edge in edges:
        ends = tuple(edge)
        if len(ends) != 2:
            raise TamisError(f"The edge {edge!r} does not have two ends, so there is no transform; give pairs of columns.")
        here, there = (_position(end, place, width, edge) for end in ends)
        if here == there:
            raise TamisError(f"The edge {edge!r} joins a column with itself, so its difference is always 0; leave it out.")
        found.append((here, there))
    if not found:
        raise TamisError("The list of edges is empty, so the transform has no rows; give at least one pair of columns.")
    return Transform(_incidence(np.array(found), width), "graph")


def _position(end: Any, place: dict[str, int], width: int, edge: Any) -> int:
    """The column that an edge speaks of."""
    if end in place:
        return place[end]
    if isinstance(end, int | np.integer) and not isinstance(end, bool) and 0 <= end < width:
        return int(end)
    near = get_close_matches(str(end), place, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"give names of columns, or positions from 0 to {width - 1}."
    raise TamisError(f"The edge {edge!r} names {end!r}, which is no column, so there is no transform; {hint}")


def _incidence(pairs: NDArray[np.intp], width: int) -> Any:
    """+1 at the first and -1 at the second end of each pair."""
    rows = np.repeat(np.arange(len(pairs)), 2)
    return sparse.csr_array((np.tile([1.0, -1.0], len(pairs)), (rows, pairs.ravel())), shape=(len(pairs), width))


def grid(shape: Sequence[int]) -> Transform:
    """Differences between neighbours of a grid whose cells are the columns, the last axis running fastest.

    Examples
    --------
    >>> from tamis.structures.transform import grid
    >>> grid((2, 2)).names(["a", "b", "c", "d"])
    ('a - c', 'b - d', 'a - b', 'c - d')
    """
    sides = tuple(int(side) for side in shape)
    if not sides or min(sides) < 1 or prod(sides) < 2:
        raise TamisError(f"A grid of shape {tuple(shape)!r} has no neighbours, so the transform has no rows; give sides such as (8, 8).")
    cells = np.arange(prod(sides)).reshape(sides)
    pairs = [
        np.stack([np.delete(cells, -1, axis).ravel(), np.delete(cells, 0, axis).ravel()], axis=1)
        for axis, side in enumerate(sides)
        if side > 1
    ]
    return Transform(_incidence(np.concatenate(pairs), prod(sides)), "grid:" + "x".join(map(str, sides)))


def stack(*parts: Transform, factors: Sequence[float] | None = None) -> Transform:
    """Rows of several transforms one under the other, each multiplied by its factor.

    Examples
    --------
    >>> from tamis.structures.transform import differences, identity, stack
    >>> stack(differences(2), identity(2), factors=[1, 0.5]).names(["a", "b"])
    ('a - b', '0.5 a', '0.5 b')
    """
    if not parts:
        raise TamisError("No transforms were given to be stacked, so there is none; give at least one.")
    times = [1.0] * len(parts) if factors is None else [float(factor) for factor in factors]
    if len(times) != len(parts) or not np.all(np.isfinite(times)) or 0.0 in times:
        raise TamisError(f"factors={factors!r} does not fit {len(parts)} transforms, so they are not stacked; give one number each, not 0.")
    widths = [part.shape[1] for part in parts]
    if len(set(widths)) > 1:
        raise TamisError(f"The transforms have {widths} columns, so they cannot be stacked; make them of one width.")
    names = [str(at) for at in range(widths[0])]
    labels = None
    if any(part.labels for part in parts):
        labels = tuple(name for part in parts for name in (part.labels or part.names(names)))
    words = "+".join(part.words if factor == 1 else f"{factor:g} {part.words}" for part, factor in zip(parts, times, strict=True))
    return Transform(sparse.vstack([factor * part.matrix for part, factor in zip(parts, times, strict=True)]), words, labels)


def from_matrix(matrix: Any, names: Sequence[str] | None = None) -> Transform:
    """A transform from a dense or sparse matrix; rows are named after their coefficients unless names are given."""
    held = matrix if sparse.issparse(matrix) else _numbers(matrix)
    values = held.data if sparse.issparse(held) else held
    if held.ndim != 2 or 0 in held.shape:
        raise TamisError(
            f"The transform has shape {held.shape}, so it has no rows over columns; give a matrix with one column per column of X."
        )
    if not np.all(np.isfinite(values)):
        raise TamisError("The transform holds NaN or infinite entries, so D beta means nothing; replace them.")
    if not np.any(values):
        raise TamisError(f"All {held.shape[0]} rows of the transform are zero, so nothing could ever enter; give at least one other row.")
    if names is not None and len(names) != held.shape[0]:
        raise TamisError(
            f"{len(names)} names were given for {held.shape[0]} rows of the transform, so they cannot be told; give one per row."
        )
    return Transform(held, "matrix", None if names is None else tuple(map(str, names)))


def _numbers(matrix: Any) -> Floats:
    """An array of floats, or a sentence."""
    try:
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise TamisError(
            f"transformation={matrix!r} is not a matrix of numbers, so there is no D; give a matrix, or a word such as 'fused'."
        ) from None


def as_transform(what: Any, columns: int | Sequence[str]) -> Transform:
    """Whatever a user may mean by `transformation=`, checked against the columns.

    Parameters
    ----------
    what : None, str, array, sparse matrix, Transform, or a list of these
        None and "identity" mean the coefficients themselves, "fused" differences of neighbours, "grid:8x8" those on a grid; words are
        joined by "+", lists are stacked.
    columns : int or sequence of str
        The columns, or how many there are.

    Returns
    -------
    Transform

    Examples
    --------
    >>> from tamis.structures.transform import as_transform
    >>> as_transform("fused+identity", ["a", "b"]).names(["a", "b"])
    ('a - b', 'a', 'b')
    """
    width = _width(columns)
    if what is None:
        return identity(width)
    if isinstance(what, str):
        parts = [_from_word(word.strip(), what, width) for word in what.split("+")]
        return parts[0] if len(parts) == 1 else stack(*parts)
    if isinstance(what, list | tuple) and any(part is None or isinstance(part, str | Transform) or hasattr(part, "shape") for part in what):
        return stack(*(as_transform(part, width) for part in what))
    made = what if isinstance(what, Transform) else from_matrix(what)
    if made.shape[1] != width:
        raise TamisError(
            f"The transform has {made.shape[1]} columns and X has {width}, so D beta means nothing; give D one column per column of X."
        )
    return made


def _from_word(word: str, whole: str, width: int) -> Transform:
    """A transform from its word."""
    if word == "identity":
        return identity(width)
    if word == "fused":
        return differences(width)
    if re.fullmatch(r"grid:\d{1,9}(x\d{1,9})*", word):
        sides = [int(side) for side in word[5:].split("x")]
        if prod(sides) != width:
            raise TamisError(
                f"transformation={whole!r} speaks of {prod(sides)} cells and X has {width} columns, so they do not match; "
                "give sides whose product is the number of columns."
            )
        return grid(sides)
    near = get_close_matches(word, WORDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(map(repr, WORDS))}, or a matrix."
    raise TamisError(f"transformation={whole!r} is not known, so there is no D; {hint}")
