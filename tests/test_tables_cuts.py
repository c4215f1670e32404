"""Where columns are cut, against brute force: same partition, fewest digits, weights as repetitions."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tamis.core.errors import TamisError
from tamis.core.literal import value_text
from tamis.tables.cuts import Cuts, Levels, quantile_places, readable_cut, spread_of
from tamis.tables.frame import as_table
from tamis.tables.literals import readable_date
from tamis.tables.schema import Schema, learn_schema
from tamis.tables.weights import summable

floats = st.floats(allow_nan=False, allow_infinity=False)
modest = st.floats(-1e6, 1e6, allow_nan=False)


def digits_of(number: float) -> int:
    """Significant digits of the shortest decimal that reads back as this double."""
    mantissa = f"{number!r}".lower().split("e")[0].lstrip("-").replace(".", "").strip("0")
    return len(mantissa)


def some_number_within(low: Fraction, high: Fraction, digits: int) -> bool:
    """Whether any decimal of so many digits lies in [low, high]: every decade is tried."""
    if low <= 0 <= high:
        return True
    if high < 0:
        low, high = -high, -low
    first = math.floor(math.log10(float(low))) - 1 if low else -330
    for decade in range(first, math.ceil(math.log10(float(high))) + 2):
        step = Fraction(10) ** (decade - digits + 1)
        if min(high // step, 10**digits) * step >= low:
            return True
    return False


@given(floats, floats)
def test_a_readable_cut_splits_the_gap(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    assume(low < high)
    cut = readable_cut(low, high)
    assert cut is not None
    assert low <= cut < high


@given(modest, modest)
def test_a_readable_cut_has_the_fewest_digits_of_the_middle_half(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    assume(high - low > 1e-9 * max(abs(low), abs(high)) > 0)
    cut = readable_cut(low, high)
    assert cut is not None
    exact_low, exact_high = Fraction(low), Fraction(high)
    quarter = (exact_high - exact_low) / 4
    slack = quarter / 10**6  # the middle half is computed in doubles
    assert exact_low + quarter - slack <= Fraction(cut) <= exact_high - quarter + slack
    fewest = digits_of(cut)
    if fewest > 1:
        assert not some_number_within(exact_low + quarter + slack, exact_high - quarter - slack, fewest - 1)


@pytest.mark.parametrize(
    ("low", "high", "cut"),
    [
        (0.1, 0.2, 0.15), (11.0, 12.0, 11.5), (-1.0, 1.2, 0.0), (1.25, 3.75, 2.0), (1000.0, 5000.0, 3000.0),
        (-math.inf, 5.0, 2.0), (-math.inf, -5.0, -8.0), (5.0, math.inf, 8.0), (0.0, math.inf, 0.5), (-math.inf, math.inf, 0.0),
        (-1.7976931348623157e308, 1.7976931348623157e308, 0.0), (5e-324, 1e-323, 5e-324),
    ],
)  # fmt: skip
def test_readable_cuts_by_hand(low: float, high: float, cut: float) -> None:
    assert readable_cut(low, high) == cut


def test_next_to_minus_infinity_there_is_nothing_finite_to_write() -> None:
    assert readable_cut(-math.inf, -1.7976931348623157e308) is None


@given(
    st.lists(st.one_of(st.sampled_from([1.0, 2.0, 2.5]), floats), min_size=1, max_size=60),
    st.sampled_from(["quantile", "uniform", "all", "supervised"]),
    st.booleans(),
)
def test_readable_and_plain_cuts_split_the_training_rows_alike(column: list[float], kind: str, integers: bool) -> None:
    cells = [float(round(cell)) for cell in column] if integers else column
    table, labels = as_table({"x": cells}), [row % 3 for row in range(len(cells))]
    parts = []
    for readable in (True, False):
        schema = learn_schema(table, cuts=Cuts(4, kind, readable=readable, every=3), y=labels)
        parts.append([rows.tolist() for rows in schema.truth(table)])
        # what is written is what is computed
        for literal, rows in zip(schema.literals, schema.truth(table), strict=True):
            read = float(literal.text().rsplit(" ", 1)[1])
            assert rows.tolist() == [cell <= read if literal.operator == "<=" else cell > read for cell in cells]
    assert parts[0] == parts[1]


@given(st.lists(st.tuples(st.sampled_from(range(30)), st.integers(1, 4)), min_size=1, max_size=40), st.integers(1, 9))
def test_quantile_cuts_are_the_nearest_to_equal_weight(rows: list[tuple[int, int]], count: int) -> None:
    column, weights = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows], float)
    spread = spread_of(column, weights)
    assume(spread.gaps)
    repeated = sorted(value for value, weight in rows for _ in range(weight))
    distinct = sorted(set(repeated))
    below = [sum(cell <= value for cell in repeated) for value in distinct][:-1]
    wanted = [Fraction(len(repeated) * part, count + 1) for part in range(1, count + 1)]
    brute = sorted({min(range(len(below)), key=lambda place: (abs(below[place] - target), place)) for target in wanted})
    assert quantile_places(count, spread).tolist() == brute


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40, unique=True), st.integers(1, 6))
def test_uniform_cuts_part_rows_where_equal_width_does(column: list[float], count: int) -> None:
    low, high = min(column), max(column)
    assume(high - low > 1e-6)
    schema = learn_schema(as_table({"x": column}), cuts=Cuts(count, "uniform", every=1))
    got = {
        tuple(rows)
        for literal, rows in zip(schema.literals, schema.truth(as_table({"x": column})), strict=True)
        if literal.operator == "<="
    }
    points = [low + (high - low) * part / (count + 1) for part in range(1, count + 1)]
    assume(all(abs(cell - point) > 1e-9 for cell in column for point in points))
    assert got == {tuple(cell <= point for cell in column) for point in points}


@given(st.lists(st.integers(-5, 20), min_size=1, max_size=30))
def test_few_distinct_values_are_cut_between_every_two(column: list[int]) -> None:
    assume(len(set(column)) <= 10)
    texts = learn_schema(as_table({"x": column}), n_cuts=3).texts
    assert texts == tuple(text for value in sorted(set(column))[:-1] for text in (f"x <= {value}", f"x > {value}"))


def best_single_cut(column: list[float], impurity: Any) -> float:
    """The smallest total impurity any single cut reaches."""
    distinct = sorted(set(column))
    return min(impurity([cell <= cut for cell in column]) for cut in distinct[:-1])


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(1, 3)), min_size=3, max_size=25))
def test_one_supervised_cut_is_the_best_one(rows: list[tuple[int, int, int]]) -> None:
    column, labels, weights = ([float(row[part]) for row in rows] for part in range(3))
    assume(len(set(column)) > 1)

    def entropy(side: list[bool]) -> float:
        total = 0.0
        for here in (True, False):
            masses = [sum(w for s, k, w in zip(side, labels, weights, strict=True) if s == here and k == label) for label in range(3)]
            total -= sum(mass * math.log(mass / sum(masses)) for mass in masses if mass)
        return total

    table = as_table({"x": column})
    schema = learn_schema(table, cuts=Cuts(1, "supervised", every=1), y=np.array(labels, int), sample_weight=weights)
    whole = entropy([True] * len(column))
    if not len(schema):
        assert best_single_cut(column, entropy) > whole * (1 - 1e-6) - 1e-9
        return
    assert entropy(list(next(schema.truth(table)))) == pytest.approx(best_single_cut(column, entropy), rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-20, 20), st.integers(1, 3)), min_size=3, max_size=25))
def test_one_supervised_cut_of_a_quantity_leaves_the_least_variance(rows: list[tuple[int, int, int]]) -> None:
    column, target, weights = ([float(row[part]) for row in rows] for part in range(3))
    assume(len(set(column)) > 1)

    def squares(side: list[bool]) -> float:
        total = 0.0
        for here in (True, False):
            part = [(y, w) for s, y, w in zip(side, target, weights, strict=True) if s == here]
            mean = sum(y * w for y, w in part) / max(sum(w for _, w in part), 1)
            total += sum(w * (y - mean) ** 2 for y, w in part)
        return total

    table = as_table({"x": column})
    schema = learn_schema(table, cuts=Cuts(1, "supervised", every=1), y=1e8 + np.array(target), sample_weight=weights)
    whole = squares([True] * len(column))
    reached = squares(list(next(schema.truth(table)))) if len(schema) else whole
    assert reached == pytest.approx(best_single_cut(column, squares), rel=1e-6, abs=1e-6)


def test_supervised_cuts_find_planted_thresholds() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(4000, 2))
    y = np.where((X[:, 0] > 0.3) & (X[:, 0] <= 0.7), "in", "out")
    literals = learn_schema(as_table(X), cuts="supervised", n_cuts=2, y=y).literals
    assert [literal.value for literal in literals if literal.column == "x0"][::2] == pytest.approx([0.3, 0.7], abs=0.005)


def test_paper_cuts_are_four_equal_widths_with_both_signs() -> None:
    column = [0.0, 0.3, 2.0, 4.0, 5.0, 6.0, 10.0]
    table = as_table({"x": [*column, 0.25]})
    schema = learn_schema(table, cuts="paper")
    assert schema.texts == tuple(text for cut in (2, 4, 6, 8) for text in (f"x <= {cut}", f"x >= {cut}") if text != "x <= 8")
    assert schema.same_rows == {4: ("x <= 8",)}
    # `x >= 2` is exact on rows never seen, too.
    probes = [math.nextafter(2.0, -1), 2.0, math.nextafter(2.0, 3)]
    assert [rows.tolist() for rows in schema.truth(as_table({"x": probes}), only=[1])] == [[False, True, True]]


def test_paper_cuts_of_whole_numbers_stay_whole() -> None:
    schema = learn_schema(as_table({"x": [0, 1, 2, 3, 4, 9]}), cuts="paper")
    assert schema.texts == ("x <= 1", "x >= 2", "x <= 3", "x >= 4", "x <= 5", "x >= 6")
    assert all(float(literal.value).is_integer() for literal in schema.literals)


def test_listed_cuts_are_used_as_they_are() -> None:
    table = as_table({"x": list(range(100)), "y": [cell / 7 for cell in range(100)]})
    assert learn_schema(table, cuts={"x": [18, 65], "y": Cuts(at=(3.3,))}).texts == (
        "x <= 18", "x > 18", "x <= 65", "x > 65", "y <= 3.3", "y > 3.3",
    )  # fmt: skip


def test_infinite_cells_are_compared_like_any_number() -> None:
    table = as_table({"x": [-math.inf, 1.0, 2.0, math.inf, None]})
    schema = learn_schema(table)
    assert all(math.isfinite(literal.value) for literal in schema.literals if literal.operator in ("<=", ">"))
    low = [rows.tolist() for literal, rows in zip(schema.literals, schema.truth(table), strict=True) if literal.operator == "<="]
    assert low == [[True, False, False, False, False], [True, True, False, False, False], [True, True, True, False, False]]


def test_minus_zero_is_zero() -> None:
    assert learn_schema(as_table({"x": [-0.0, 0.0, 1.0]})).texts == ("x <= 0", "x > 0")


def test_dates_are_cut_at_round_moments() -> None:
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 5), datetime.date(2021, 3, 1)]
    assert learn_schema(as_table({"d": days})).texts == ("d <= 2020-01-01", "d > 2020-01-01", "d <= 2020-01-05", "d > 2020-01-05")
    moments = [datetime.datetime(2020, 1, 1, 3, 4), datetime.datetime(2020, 1, 1, 7, 0), datetime.datetime(2021, 3, 1)]
    assert learn_schema(as_table({"d": moments})).texts[::2] == ("d <= 2020-01-01T05:00:00", "d <= 2020-08-01")
    assert learn_schema(as_table({"d": days}), cuts={"d": ["2020-02-01"]}).texts == ("d <= 2020-02-01", "d > 2020-02-01")


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**14))
def test_a_readable_date_splits_the_gap(low: int, width: int) -> None:
    cut = readable_date(float(low), float(low + width))
    assert low <= cut < low + width
    assert cut == int(cut)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_summable_weights_have_one_sum_in_every_order(amounts: list[float], random: Any) -> None:
    rounded = summable(np.array(amounts))
    assert np.abs(rounded - amounts).max() <= 1e-15 * sum(amounts)
    exact = sum(map(Fraction, rounded.tolist()))
    shuffled = rounded.tolist()
    random.shuffle(shuffled)
    running = 0.0
    for amount in shuffled:
        running += amount
    assert Fraction(running) == exact


def test_whole_weights_are_not_touched() -> None:
    weights = np.array([1.0, 3.0, 2.0**40, 0.5])
    assert summable(weights).tolist() == weights.tolist()


def one_sentence(error: Exception) -> bool:
    text = str(error)
    return text.endswith((".", "?")) and "\n" not in text and len(text) < 400


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Cuts(kind="thirds"), r"cuts='thirds' is not a way to cut columns; use one of quantile, uniform"),
        (lambda: Cuts(0), r"number of cuts is 0"),
        (lambda: Cuts(2.5), r"number of cuts is 2\.5"),  # type: ignore[arg-type]
        (lambda: Cuts(True), r"number of cuts is True"),
        (lambda: Cuts(kind="list"), r"have no cut points"),
        (lambda: Levels(top=0), r"Levels\(top=0\) leaves no level"),
    ],
)
def test_impossible_options_are_one_sentence(make: Any, says: str) -> None:
    with pytest.raises(TamisError, match=says) as caught:
        make()
    assert one_sentence(caught.value)


TABLE: dict[str, list[Any]] = {
    "age": [1.5, 2.5, 3.5, None],
    "town": ["a", "b", "c", "a"],
    "born": [datetime.date(2000, 1, day) for day in (1, 2, 3, 4)],
}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cuts": "thirds"}, "cuts='thirds' is not a way"),
        ({"cuts": 2.5}, "cuts=2.5 is not a way"),
        ({"n_cuts": 0}, "The number of cuts is 0"),
        ({"cuts": {"agee": 3}}, "cuts names the column 'agee', which the table does not have; did you mean 'age'?"),
        ({"levels": {"city": Levels()}}, "levels names the column 'city'"),
        ({"levels": "all"}, "levels='all' does not say which levels"),
        ({"cuts": {"town": Cuts()}}, "cuts names the column 'town', which holds text"),
        ({"cuts": {"age": ["x"]}}, "cut points ['x'] of column 'age' are not numbers"),
        ({"cuts": {"born": ["soon"]}}, "cut points ['soon'] of column 'born' are not ISO dates"),
        ({"cuts": {"age": [math.nan]}}, "cut points [nan] of column 'age' are not all finite"),
        ({"cuts": "supervised", "y": None}, "Supervised cuts need y"),
        ({"cuts": Cuts(kind="supervised", every=1), "y": [1, 2]}, "y has shape (2,) for 4 rows"),
        ({"cuts": "none"}, "cuts='none' takes columns of booleans or of 0 and 1 as they are, but column 'age' holds numbers such as 1.5"),
        ({"cuts": {"town": "none"}}, "but column 'town' holds text such as 'a'"),
        ({"cuts": {"born": "none"}}, "but column 'born' holds dates such as 2000-01-01"),
        ({"min_support": 0}, "min_support=0 is no amount of rows"),
        ({"min_support": math.nan}, "min_support=nan is no amount of rows"),
        ({"min_support": 5}, "min_support=5 exceeds the 4 rows there are"),
        ({"sample_weight": [1, 1]}, "sample_weight has shape (2,) for 4 rows"),
        ({"sample_weight": [1, 1, 1, -1]}, "sample_weight holds NaN, infinite or negative weights"),
        ({"sample_weight": [0, 0, 0, 0]}, "Every sample_weight is 0"),
        ({"max_literals": 5}, "The table gives more than max_literals=5 conditions"),
    ],
)
def test_impossible_wishes_are_one_sentence(options: dict[str, Any], says: str) -> None:
    options = {"cuts": Cuts(kind="supervised", every=1), "y": None} if options.get("y", 0) is None else options
    with pytest.raises(TamisError) as caught:
        learn_schema(as_table(TABLE), **options)
    assert says in str(caught.value)
    assert one_sentence(caught.value)


def test_too_many_conditions_propose_a_number_of_cuts_that_fits() -> None:
    table = as_table(np.random.default_rng(0).normal(size=(200, 10)))
    with pytest.raises(TamisError, match=r"use fewer cuts \(n_cuts=5\)"):
        learn_schema(table, max_literals=100)
    assert len(learn_schema(table, max_literals=100, n_cuts=5)) == 100
    with pytest.raises(TamisError, match=r"cuts='quantile', n_cuts=5"):
        learn_schema(table, max_literals=100, cuts="all")


def test_none_uses_booleans_and_zero_one_columns_as_they_are() -> None:
    cells = {"b": [True, False, None], "i": [0, 1, 0], "f": [0.0, None, 1.0]}
    schema = learn_schema(as_table(cells), cuts="none")
    assert schema.texts == ("b", "i", "f")
    assert schema.complement.tolist() == [-1, -1, -1]
    assert [rows.tolist() for rows in schema.truth(as_table(cells))] == [[True, False, False], [False, True, False], [False, False, True]]
    one = learn_schema(as_table({"b": [True, False, None, True], "i": [0, 1, 0, 1]}), cuts={"i": "none"})
    assert one.texts == ("b", "not b", "b is missing", "i")


def test_a_cut_is_stored_as_it_is_shown() -> None:
    rng = np.random.default_rng(1)
    schema: Schema = learn_schema(as_table(rng.normal(size=(500, 5)) * 10.0 ** rng.integers(-12, 12, size=5)))
    for literal in schema.literals:
        assert float(value_text(literal.value)) == literal.value
