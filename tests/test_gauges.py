"""Gauges against their definition: the subgradient condition of the proximal map, and the dual norm as a supremum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.core.structure import Gauge
from tamis.structures.gauges import Block, Column, Entry, Group, labels_of

KINDS = ("entry", "group", "block", "column")


def masks_of(kind: str, label: Any, classes: int) -> list[Any]:
    rows = len(label)
    found = {}
    for row in range(rows):
        for k in range(classes):
            key = {"entry": (row, k), "group": (label[row], k), "block": label[row], "column": row}[kind]
            found.setdefault(key, np.zeros((rows, classes), dtype=bool))[row, k] = True
    return list(found.values())


@st.composite
def cases(draw: Any) -> tuple[Any, list[Any], Any, Any]:
    kind, classes, rows = draw(st.sampled_from(KINDS)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    label = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    levels = [draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf])) for _ in range(max(rows, 4))]
    per_label = {name: levels[position] for position, name in enumerate(range(4))}
    row_weight = np.array([per_label[name] for name in label]) if kind in ("group", "block") else np.array(levels[:rows])
    gauge: Any = {
        "entry": lambda: Entry(row_weight),
        "group": lambda: Group(label, per_label),
        "block": lambda: Block(label, classes, per_label),
        "column": lambda: Column(rows, row_weight),
    }[kind]()
    dual = np.random.default_rng(draw(st.integers(0, 10**6))).standard_normal((rows, classes)) * draw(st.sampled_from([0.0, 1.0, 5.0]))
    return gauge, masks_of(kind, label, classes), row_weight, dual


@given(cases())
def test_shrinking_satisfies_the_condition_that_defines_it(case: Any) -> None:
    gauge, masks, row_weight, dual = case
    assert isinstance(gauge, Gauge)
    theta = gauge.shrink(dual)
    np.testing.assert_array_equal(gauge.weight, row_weight)
    for mask in masks:
        weight = row_weight[mask.any(axis=1)][0]
        length = np.linalg.norm(theta[mask])
        if length > 0:
            np.testing.assert_allclose(dual[mask] - theta[mask], weight * theta[mask] / length, atol=1e-12)
        else:
            assert np.linalg.norm(dual[mask]) <= weight + 1e-12


@given(cases())
def test_reach_and_dual_norm_are_the_largest_ratio(case: Any) -> None:
    gauge, masks, row_weight, dual = case
    ratio = np.zeros(len(dual))
    for mask in masks:
        rows = mask.any(axis=1)
        weight = row_weight[rows][0]
        if weight > 0:
            ratio[rows] = np.maximum(ratio[rows], np.linalg.norm(dual[mask]) / weight)
    np.testing.assert_allclose(gauge.reach(dual), ratio, atol=1e-13)
    assert gauge.dual_norm(dual) == pytest.approx(ratio.max())
    both = np.stack([dual, 2 * dual], axis=2)
    np.testing.assert_allclose(gauge.reach(both), np.stack([ratio, 2 * ratio], axis=1), atol=1e-13)


@given(cases())
def test_a_union_of_pieces_behaves_as_in_the_whole(case: Any) -> None:
    gauge, masks, _, dual = case
    rows = np.flatnonzero(np.any([mask.any(axis=1) for mask in masks[::2]], axis=0))
    part = gauge.restrict(rows)
    np.testing.assert_allclose(part.shrink(dual[rows]), gauge.shrink(dual)[rows], atol=1e-13)
    np.testing.assert_allclose(part.reach(dual[rows]), gauge.reach(dual)[rows], atol=1e-13)


def test_nonnegative_rows_only_shrink_from_above() -> None:
    gauge = Entry(np.array([1.0, 1.0, 2.0]), np.array([True, False, True]))
    dual = np.array([[-3.0], [-3.0], [5.0]])
    assert gauge.shrink(dual)[:, 0].tolist() == [0.0, -2.0, 3.0]
    assert gauge.reach(dual).tolist() == [0.0, 3.0, 2.5]
    assert gauge.dual_norm(-dual) == 3.0


def test_default_weights_are_the_root_of_the_size() -> None:
    np.testing.assert_allclose(Group(["b", "a", "b"]).weight, np.sqrt([2, 1, 2]))
    np.testing.assert_allclose(Block(["b", "a", "b"], 3).weight, np.sqrt([6, 3, 6]))
    np.testing.assert_allclose(Column(2).weight, [1, 1])
    assert Group(["b", "a", "b"]).sizes().tolist() == [2, 1]
    assert Group(["b", "a", "b"]).sizes(2).tolist() == [2, 2, 1, 1]
    assert Block(["b", "a", "b"], 3).sizes().tolist() == [6, 3]
    assert Entry(np.ones(2)).sizes(3).tolist() == [1] * 6
    assert Group(["b", "a", "b"]).names == ("b", "a")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Entry(np.array([1.0, -2.0])), "the weight -2 cannot be used"),
        (lambda: Entry(np.array([1.0, np.nan])), "the weight nan cannot be used"),
        (lambda: Entry(np.ones(2), np.array([True])), "nonnegative has shape (1,) for 2 rows"),
        (lambda: Group([0, 1], [1.0, 2.0, 3.0]), "do not fit 2 groups"),
        (lambda: Group([0, 1], "size"), "the weights 'size' are not known"),
        (lambda: Group([0, "b"], {0: 1.0}), "the group 'b' has no weight"),
        (lambda: labels_of({"a": [0, 1], "b": [1]}, 2), "the groups 'a' and 'b' both hold row 1"),
        (lambda: labels_of({"a": [0, 1], "b": []}, 2), "the group 'b' is empty"),
        (lambda: labels_of([[0], [2]], 2), "names row 2 and there are 2"),
        (lambda: labels_of([[0], [2]], 3), "row 1 is in no group"),
    ],
)
def test_what_is_no_gauge_is_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(TamisError, match=re.escape(words)):
        make()


def test_groups_cannot_be_torn() -> None:
    with pytest.raises(ValueError, match="tear"):
        Group([0, 0, 1]).restrict(np.array([0, 2]))
