"""Reading a path: at a value, between knots, in both directions, empty, saved and loaded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers_store import one_sentence, same, same_arrays
from tamis import Certificate, Knot, Path
from tamis.core.certificate import Scope
from tamis.core.errors import TamisError, TamisFileError
from tamis.core.path import installed_frame
from tamis.store.journal import Journal
from tamis.store.model_file import read_model, write_model

CERTIFICATE = Certificate("duality gap", 1.0, 0.995, 0.01, Scope("54 conditions", "C = 1", 3, 612), 2.0, 0.1)


def knot(t: float, held: dict[tuple[int, ...], Sequence[float]], columns: int = 1) -> Knot:
    """A knot from its atoms and weights; names follow from the atoms."""
    weights = np.array(list(held.values()), dtype=float).reshape(len(held), columns)
    names = tuple(" AND ".join(f"x{i}" for i in atom) for atom in held)
    return Knot(t, tuple(held), names, weights, np.zeros(columns), CERTIFICATE, {"loss": 1 / t if t else 0.0}, {"eta": np.arange(3.0)})


A, B, C = (0,), (1, 2), (3,)
RISING = Path((knot(1.0, {A: [1.0]}), knot(2.0, {B: [3.0], A: [2.0]}), knot(4.0, {C: [5.0], B: [4.0]})), knob="C")
FALLING = Path((knot(4.0, {A: [1.0]}), knot(2.0, {B: [3.0], A: [2.0]}), knot(1.0, {C: [5.0], B: [4.0]})), knob="lambda")


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        # In the order followed, the last knot that was reached; before the first one, the first.
        (RISING, {-1: 0, 0.5: 0, 1: 0, 1.999: 0, 2 - 1e-15: 1, 2: 1, 3.9: 1, 4: 2, 1e9: 2, np.inf: 2, -np.inf: 0}),
        (FALLING, {9: 0, 4: 0, 2.001: 0, 2 + 1e-15: 1, 2: 1, 1.1: 1, 1: 2, 0.1: 2, 0: 2, -5: 2, np.inf: 0, -np.inf: 2}),
        (Path((knot(-2.0, {}), knot(-1.0, {}), knot(0.0, {}))), {-3: 0, -2 - 1e-15: 0, -1 - 1e-15: 1, -0.5: 1, 0: 2, 1: 2}),
        (Path((knot(0.0, {}), knot(-1.0, {}))), {1: 0, 0: 0, -0.5: 0, -1 + 1e-15: 1, -2: 1}),
        (Path((knot(2.0, {}),)), {-1: 0, 2: 0, 5: 0}),
        # The same place certified twice: the later answer counts.
        (Path((knot(1.0, {}), knot(2.0, {}), knot(2.0, {}))), {1.5: 0, 2.0: 2}),
    ],
    ids=["rising", "falling", "below zero", "to below zero", "one knot", "twice"],
)
def test_at(path: Path, reads: dict[float, int]) -> None:
    assert {t: path.knots.index(path.at(t)) for t in reads} == reads


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8, unique=True), st.booleans(), st.floats(-2e6, 2e6))
def test_at_agrees_with_walking_along(values: list[float], falling: bool, t: float) -> None:
    values = sorted(values, reverse=falling)
    path = Path(tuple(knot(value, {}) for value in values))
    expected = values[0]
    for value in values:
        near = abs(value - t) <= 1e-12 * abs(t)
        if value == t or near or (len(values) > 1 and falling and value > t) or (not (len(values) > 1 and falling) and value < t):
            expected = value
    assert path.at(t).t == expected
    assert all(path.at(value).t == value for value in values if not any(0 < abs(value - other) <= 1e-11 * abs(value) for other in values))


def test_an_empty_path_and_no_number_are_one_sentence() -> None:
    empty = Path()
    for read in (lambda: empty.at(1.0), lambda: empty.selected(1.0), lambda: empty.coefficients(1.0), lambda: empty.select("last")):
        with pytest.raises(TamisError, match="The path has no knot, so ") as caught:
            read()
        one_sentence(caught.value)
    with pytest.raises(TamisError, match="C = nan is no place on the path, so nothing can be read there; give a number") as caught:
        RISING.at(float("nan"))
    one_sentence(caught.value)
    assert (len(empty), list(empty), empty.events(), empty.pieces, empty.certificates, empty.t.tolist()) == (0, [], [], {}, (), [])


def test_pieces_and_coefficients() -> None:
    assert RISING.pieces == {A: "x0", B: "x1 AND x2", C: "x3"}
    assert list(RISING.pieces) == [A, B, C]
    table = {0.1: [1, 0, 0], 1: [1, 0, 0], 3: [2, 3, 0], 4: [0, 4, 5]}
    assert {t: RISING.coefficients(t)[:, 0].tolist() for t in table} == table
    assert FALLING.coefficients(1.5)[:, 0].tolist() == [2, 3, 0]
    assert RISING.selected(3) == ("x1 AND x2", "x0")
    several = Path((knot(1.0, {}, 3), knot(2.0, {B: [1, 2, 3]}, 3)))
    assert several.coefficients(1.0).tolist() == [[0, 0, 0]]
    assert several.coefficients(2.0).tolist() == [[1, 2, 3]]
    assert Path((knot(1.0, {}, 3),)).coefficients(1.0).shape == (0, 3)


def test_coefficients_are_a_copy() -> None:
    RISING.coefficients(1.0)[:] = 9
    assert RISING.coefficients(1.0)[0, 0] == 1


def test_events() -> None:
    expected = [(1.0, "enters", "x0"), (2.0, "enters", "x1 AND x2"), (4.0, "leaves", "x0"), (4.0, "enters", "x3")]
    assert RISING.events() == expected
    assert [(event, name) for _, event, name in FALLING.events()] == [(event, name) for _, event, name in expected]
    assert [t for t, _, _ in FALLING.events()] == [4.0, 2.0, 1.0, 1.0]
    back = Path((knot(1.0, {A: [1]}), knot(2.0, {}), knot(3.0, {A: [2]})))
    assert [(t, event) for t, event, _ in back.events()] == [(1.0, "enters"), (2.0, "leaves"), (3.0, "enters")]


KNOTS = st.dictionaries(st.lists(st.integers(0, 3), max_size=2, unique=True).map(tuple), st.just([1.0]), max_size=4)


@given(st.lists(KNOTS, max_size=6))
def test_events_replayed_give_what_is_selected(selections: list[dict[tuple[int, ...], list[float]]]) -> None:
    path = Path(tuple(knot(float(i), held) for i, held in enumerate(selections)))
    present: set[str] = set()
    events = path.events()
    for i, held in enumerate(selections):
        for _, what, name in (event for event in events if event[0] == i):
            assert (name in present) == (what == "leaves")
            present ^= {name}
        assert present == set(path.knots[i].names) == set(path.selected(float(i)))
        assert len(present) == len(held)


def test_extending_leaves_the_old_path_alone() -> None:
    path = Path(knob="C")
    longer = path.extended(RISING.knots[0])
    assert (len(path), len(longer), longer.knob) == (0, 1, "C")


def test_knots_and_paths_are_equal_to_themselves_and_can_be_kept_in_sets() -> None:
    """Arrays have no single answer to ==, so comparing them must not be tried."""
    one, other = knot(1.0, {A: [1.0]}), knot(1.0, {A: [1.0]})
    assert one == one
    assert one != other
    assert len({one, other, RISING, FALLING}) == 4
    assert (one, other).index(other) == 1


@pytest.mark.parametrize(("by", "position"), [("last", 2), (1.0, 0), (3.0, 1), (2, 1)])
def test_select(by: Any, position: int) -> None:
    assert RISING.select(by) is RISING.knots[position]


def same_path(a: Path, b: Path) -> bool:
    """The same knots to the bit."""
    records = [(x.to_record(), y.to_record()) for x, y in zip(a, b, strict=True)]
    return (
        all(same(x[0], y[0]) and same_arrays(x[1], y[1]) for x, y in records)
        and all(x.atoms == y.atoms and isinstance(y.names, tuple) for x, y in zip(a, b, strict=True))
        and (a.status, a.knob) == (b.status, b.knob)
        and same_arrays(a.scores, b.scores)
        and same(dict(a.provenance), dict(b.provenance))
    )


@st.composite
def paths(draw: st.DrawFn) -> Path:
    knots = []
    columns = draw(st.integers(1, 3))
    for _ in range(draw(st.integers(0, 3))):
        atoms = draw(st.lists(st.lists(st.integers(0, 10**9), max_size=3).map(tuple), max_size=4, unique=True))
        weights = draw(hnp.arrays(np.float64, (len(atoms), columns)))
        state = draw(st.dictionaries(st.text(max_size=3), hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_side=0)), max_size=2))
        certificate = Certificate("duality gap", draw(st.floats()), draw(st.floats()), 0.01, constant=draw(st.none() | st.floats()))
        measures = draw(st.dictionaries(st.text(max_size=3), st.floats(), max_size=2))
        names = tuple(draw(st.lists(st.text(max_size=4), min_size=len(atoms), max_size=len(atoms))))
        intercept = draw(hnp.arrays(np.float64, columns))
        knots.append(Knot(draw(st.floats()), tuple(atoms), names, weights, intercept, certificate, measures, state))
    scores = draw(st.dictionaries(st.text(max_size=4), hnp.arrays(np.float64, len(knots)), max_size=2))
    return Path(
        tuple(knots), draw(st.sampled_from(["complete", "interrupted"])), draw(st.text(max_size=2)), scores, {"rows": 3, "loss": "logistic"}
    )


@given(paths())
def test_a_path_survives_the_model_file(tmp_path_factory: pytest.TempPathFactory, path: Path) -> None:
    file = tmp_path_factory.mktemp("path") / "a.tamis"
    write_model(file, "Path", *path.to_arrays())
    _, meta, arrays = read_model(file)
    assert same_path(path, Path.from_arrays(meta, arrays))


def test_knots_survive_the_journal(tmp_path: Any) -> None:
    with Journal.create(tmp_path / "a", {"knob": "C"}) as journal:
        for one in RISING:
            journal.append("knot", *one.to_record())
    with Journal.open(tmp_path / "a") as journal:
        found = Path(tuple(Knot.from_record(*record) for record in journal.records("knot")), knob=journal.header["knob"])
    assert same_path(RISING, found)


def test_many_knots_are_read_in_no_time() -> None:
    """Two hundred names for each of two hundred knots: looking all of them up for every knot would show."""
    state = {f"part{i}": np.zeros(1) for i in range(200)}
    path = Path(tuple(Knot(float(i), (), (), np.zeros((0, 1)), np.zeros(1), CERTIFICATE, {}, state) for i in range(200)))
    meta, arrays = path.to_arrays()
    start = time.process_time()
    found = Path.from_arrays(meta, arrays)
    assert time.process_time() - start < 0.7
    assert same_path(path, found)


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": np.array([1, 3])},
        {"lengths": np.array([-1, 4])},
        {"lengths": np.array([3])},
        {"flat": np.array([1])},
        {"coefficients": np.zeros((1, 1))},
    ],
)
def test_a_record_whose_parts_do_not_fit_is_refused(change: dict[str, Any]) -> None:
    meta, arrays = RISING.knots[1].to_record()
    Knot.from_record(meta, arrays)
    with pytest.raises(TamisFileError, match="do not fit together, so the path was not read; fit it again") as caught:
        Knot.from_record(meta, arrays | change)
    one_sentence(caught.value)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_to_frame(backend: str) -> None:
    import narwhals as nw

    frame = nw.from_native(RISING.to_frame(backend), eager_only=True)
    assert frame.columns == ["C", "piece", "weight"]
    assert frame.rows() == [(1.0, "x0", 1.0), (2.0, "x1 AND x2", 3.0), (2.0, "x0", 2.0), (4.0, "x3", 5.0), (4.0, "x1 AND x2", 4.0)]
    several = nw.from_native(Path((knot(2.0, {B: [3, 0, 4]}, 3),)).to_frame(backend), eager_only=True)
    assert several.rows() == [(2.0, "x1 AND x2", 5.0)]
    # An empty path has the same columns of the same kinds, so that frames can be put together.
    assert nw.from_native(Path(knob="C").to_frame(backend), eager_only=True).schema == frame.schema


def test_the_first_installed_frame_library_is_used() -> None:
    assert installed_frame(lambda name: name if name != "pandas" else None) == "polars"
    assert installed_frame(lambda name: name) == "pandas"
    with pytest.raises(TamisError, match="No frame library is installed, so there is no frame to return; install pandas") as caught:
        installed_frame(lambda name: None)
    one_sentence(caught.value)
