"""Transforms: what their rows are, what they are called, what is refused, and the projection against a dense pseudo-inverse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tamis.structures.transform as module
from tamis.core.errors import TamisError
from tamis.structures.transform import Transform, as_transform, differences, from_matrix, graph, grid, identity, stack

NAMES = ["a", "b", "c", "d"]


def by_pinv(D: Any, beta: Any, support: Any) -> Any:
    """beta minus its part in the row space of the silent rows."""
    A = D[~support]
    length = np.linalg.norm(A, axis=1, keepdims=True)
    A = A / np.where(length > 0, length, 1.0)
    return beta - np.linalg.pinv(A, rcond=1e-10) @ (A @ beta) if len(A) else beta


def test_builders_are_the_matrices_they_say() -> None:
    assert np.array_equal(identity(3).matrix.toarray(), np.eye(3))
    assert np.array_equal(differences(4).matrix.toarray(), np.eye(4)[:-1] - np.eye(4)[1:])
    assert np.array_equal(graph([(2, 0), ("a", "b")], NAMES).matrix.toarray(), [[-1, 0, 1, 0], [1, -1, 0, 0]])
    both = stack(differences(3), identity(3), factors=[2.0, -1.0]).matrix.toarray()
    assert np.array_equal(both, np.vstack([2 * (np.eye(3)[:-1] - np.eye(3)[1:]), -np.eye(3)]))


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 1), (2, 3, 2)])
def test_grid_joins_exactly_the_neighbours(shape: tuple[int, ...]) -> None:
    cells = list(np.ndindex(*shape))
    want = {
        (i, j) for i, here in enumerate(cells) for j, there in enumerate(cells) if i < j and np.abs(np.subtract(here, there)).sum() == 1
    }
    D = grid(shape).matrix.toarray()
    assert {(int(np.flatnonzero(row == 1)[0]), int(np.flatnonzero(row == -1)[0])) for row in D} == want
    assert len(D) == len(want)
    assert np.array_equal(np.abs(D).sum(axis=1), np.full(len(D), 2.0))


def test_rows_are_named_after_their_coefficients() -> None:
    assert identity(4).names(NAMES) == tuple(NAMES)
    assert as_transform("fused+identity", 3).names(["x", "y", "z"]) == ("x - y", "y - z", "x", "y", "z")
    assert from_matrix([[0, -1, 0, 1], [0.5, 0, 0, 0], [1, -2, 1, 0], [0, 0, 0, 0]]).names(NAMES) == ("d - b", "0.5 a", "a - 2 b + c", "0")
    assert from_matrix(np.ones((1, 6))).names(list("uvwxyz")) == ("u + v + w + x + ... (6 terms)",)
    assert from_matrix(np.eye(2), ["left", "right"]).names(["a", "b"]) == ("left", "right")
    assert stack(identity(2), identity(2)).names(["a", "b"]) == ("a", "b", "a (2)", "b (2)")


def test_as_transform_understands() -> None:
    for what, want in (
        (None, np.eye(4)),
        ("identity", np.eye(4)),
        ("fused", differences(4).matrix.toarray()),
        ("grid:2x2", grid((2, 2)).matrix.toarray()),
        ("grid:2x2+identity", np.vstack([grid((2, 2)).matrix.toarray(), np.eye(4)])),
        (np.ones((1, 4)), np.ones((1, 4))),
        ([[1, 0, 0, -1]], [[1, 0, 0, -1]]),
        (sparse.csr_matrix(np.eye(4)[:2]), np.eye(4)[:2]),
        (identity(4), np.eye(4)),
        (["fused", np.eye(4)], np.vstack([differences(4).matrix.toarray(), np.eye(4)])),
    ):
        assert np.array_equal(as_transform(what, NAMES).matrix.toarray(), want)


@pytest.mark.parametrize(
    ("act", "quoted"),
    [
        (lambda: as_transform("fussed", 4), "'fussed' is not known, so there is no D; did you mean 'fused'"),
        (lambda: as_transform("nonsense+identity", 4), "'nonsense.identity' is not known"),
        (lambda: as_transform("grid:8x8", 63), "speaks of 64 cells and X has 63 columns"),
        (lambda: as_transform(np.ones((2, 3)), NAMES), "has 3 columns and X has 4"),
        (lambda: as_transform(identity(3), NAMES), "has 3 columns and X has 4"),
        (lambda: as_transform([[1, float("nan")]], 2), "NaN or infinite"),
        (lambda: as_transform(np.zeros((0, 4)), 4), r"shape \(0, 4\)"),
        (lambda: as_transform(np.zeros((2, 4)), 4), "All 2 rows"),
        (lambda: as_transform([["x", "y"]], 2), "is not a matrix of numbers"),
        (lambda: as_transform({"a": 1}, 2), "is not a matrix of numbers"),
        (lambda: from_matrix(np.eye(2), ["one"]), "1 names were given for 2 rows"),
        (lambda: graph([("a", "z")], NAMES), "names 'z', which is no column"),
        (lambda: graph([("alpha", "bet")], ["alpha", "beta"]), "did you mean 'beta'"),
        (lambda: graph([(0, 4)], 4), "names 4"),
        (lambda: graph([(1, 1)], 4), "joins a column with itself"),
        (lambda: graph([(1, 2, 3)], 4), "does not have two ends"),
        (lambda: graph([], 4), "empty"),
        (lambda: grid((1, 1)), "no neighbours"),
        (lambda: differences(1), "n_features = 1"),
        (lambda: identity(0), "0 columns"),
        (stack, "No transforms"),
        (lambda: stack(identity(2), identity(3)), r"\[2, 3\] columns"),
        (lambda: stack(identity(2), factors=[0]), r"factors=\[0\]"),
        (lambda: identity(2).names(["a"]), "2 columns and 1 names"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(act: Any, quoted: str) -> None:
    with pytest.raises(TamisError, match=quoted) as caught:
        act()
    text = str(caught.value)
    assert len(re.findall(r"[.?](?:\s|$)", text)) == 1
    assert text[-1] in ".?"


def drawn(kind: str, rng: Any, width: int) -> Transform:
    if kind == "pairs":
        return graph([rng.choice(width, 2, replace=False) for _ in range(2 * width)], width)
    if kind == "pairs and singles":
        return stack(graph([rng.choice(width, 2, replace=False) for _ in range(width)], width), identity(width), factors=[0.5, 3.0])
    general = rng.integers(-2, 3, (width, width)) * (rng.random((width, width)) < 0.4)
    general[0, :2] = 1, 1
    return stack(from_matrix(general), differences(width), identity(width))


@given(st.integers(0, 10**6), st.sampled_from(["pairs", "pairs and singles", "general"]), st.floats(0.1, 0.95))
def test_projection_is_that_of_a_dense_pseudo_inverse(seed: int, kind: str, share: float) -> None:
    rng = np.random.default_rng(seed)
    D = drawn(kind, rng, int(rng.integers(3, 9)))
    support = rng.random(D.shape[0]) < share
    beta = rng.standard_normal(D.shape[1])
    got = D.project(beta, support)
    assert np.allclose(got, by_pinv(D.matrix.toarray(), beta, support), atol=1e-9)
    assert np.abs(D.matrix[~support] @ got).max(initial=0.0) < 1e-9
    assert np.allclose(D.project(beta, np.flatnonzero(support)), got, atol=1e-14)
    assert np.allclose(D.project(got, support), got, atol=1e-9)


def test_equal_coefficients_are_exactly_equal_and_zeros_exactly_zero() -> None:
    beta = np.random.default_rng(0).standard_normal(5)
    got = as_transform("fused+identity", 5).project(beta, np.array([1, 0, 1, 0, 1, 1, 1, 0, 1], dtype=bool))
    assert got[0] == beta[0]
    assert got[1] == got[2] == np.mean(beta[1:3])
    assert got[3] == got[4] == 0.0  # coefficient 3 must vanish, and 4 must equal it


def test_projection_of_several_classes_with_their_own_supports() -> None:
    rng = np.random.default_rng(1)
    D, beta = as_transform("fused+identity", 6), rng.standard_normal((6, 3))
    support = rng.random((11, 3)) < 0.5
    together = D.project(beta, support)
    for j in range(3):
        assert np.array_equal(together[:, j], D.project(beta[:, j], support[:, j]))
    assert np.allclose(D.project(beta, support[:, 0])[:, 1], D.project(beta[:, 1], support[:, 0]), atol=1e-15)


def test_large_general_transforms_are_projected_by_iterations_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    D = from_matrix(sparse.random_array((60, 40), density=0.1, rng=rng, data_sampler=rng.standard_normal))
    beta, support = rng.standard_normal((40, 2)), rng.random(60) < 0.6
    direct = D.project(beta, support)
    monkeypatch.setattr(module, "DIRECT_WORK", 0.0)
    assert np.abs(D.project(beta, support) - direct).max() < 1e-9
    assert np.abs(direct - beta).max() > 0.1


def test_zero_rows_change_nothing() -> None:
    D = from_matrix([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    beta = np.array([1.0, 2.0, 4.0])
    assert D.shape == (3, 3)
    assert np.allclose(D.project(beta, np.zeros(3, dtype=bool)), by_pinv(D.matrix.toarray(), beta, np.zeros(3, dtype=bool)))


@given(st.integers(0, 10**6))
def test_permuting_columns_permutes_the_projection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    D = drawn("general", rng, 6)
    order, beta, support = rng.permutation(6), rng.standard_normal(6), rng.random(D.shape[0]) < 0.7
    assert np.allclose(from_matrix(D.matrix[:, order]).project(beta[order], support), D.project(beta, support)[order], atol=1e-9)
