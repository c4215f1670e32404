"""Choosing a knot by every rule there is, against formulas worked out by hand; and races that end when validation says enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers_follow import Toy, ruler
from tamis.core.certificate import Certificate
from tamis.core.choose import Fold, choose, information, instability, race, with_facts
from tamis.core.errors import TamisError
from tamis.core.follow import Problem, Walk, Watch
from tamis.core.path import Knot, Path

CERTIFICATE = Certificate("duality gap", 1.0, 0.995, 0.01)
NORMAL = {"likelihood": "normal", "loss": "squared"}
BINOMIAL = {"likelihood": "binomial", "loss": "logistic"}


def knot(t: float, pieces: int, loss: float = 1.0, columns: int = 1) -> Knot:
    atoms = tuple((k,) for k in range(pieces))
    names = tuple(f"x{k}" for k in range(pieces))
    return Knot(t, atoms, names, np.ones((pieces, columns)), np.zeros(columns), CERTIFICATE, {"loss": loss})


def path_of(pieces: Sequence[int], losses: Sequence[float] | None = None, columns: int = 1, **scores: Sequence[float]) -> Path:
    """One knot per number of pieces, at 1, 2, 4, ..."""
    losses = losses or [1.0] * len(pieces)
    knots = tuple(knot(2.0**i, count, loss, columns) for i, (count, loss) in enumerate(zip(pieces, losses, strict=True)))
    return Path(knots, knob="C", scores={name: np.array(values) for name, values in scores.items()})


# ---- cross-validation ------------------------------------------------------------------------------------------

VALIDATED = path_of([0, 1, 3, 4, 9], mean=[1.0, 0.62, 0.55, 0.5, 0.7], error=[0.3, 0.2, 0.01, 0.06, 0.2])


def test_cv_takes_the_smallest_model_within_one_standard_error_of_the_best() -> None:
    """The standard error that counts is the best knot's own, not that of the knot compared with it."""
    assert choose(VALIDATED) == choose(VALIDATED, "cv") == 2
    assert choose(path_of([0, 1, 2], mean=[0.6, 0.9, 0.5], error=[0, 0, 0.1])) == 0  # even before a bad one
    assert choose(path_of([0, 1, 2], mean=[0.75, 0.5, 0.5], error=[0, 0.25, 0])) == 0  # just within counts
    assert choose(path_of([0, 1, 2], mean=[0.76, 0.5, 0.5], error=[0, 0.25, 0])) == 1


def test_cv_best_takes_the_best_mean_and_the_first_of_equals() -> None:
    assert choose(VALIDATED, "cv-best") == 3
    assert choose(path_of([0, 1, 2], mean=[0.5, 0.4, 0.4], error=[9, 9, 9]), "cv-best") == 1


def test_a_path_validated_in_part_is_chosen_from_that_part() -> None:
    path = path_of([0, 1, 2, 3], mean=[0.9, 0.2], error=[0.0, 0.1])
    assert (choose(path, "cv"), choose(path, "cv-best"), choose(path, "last")) == (1, 1, 3)


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 3)), min_size=1, max_size=9))
def test_one_standard_error_by_its_definition(scores: list[tuple[float, float]]) -> None:
    mean, error = zip(*scores, strict=True)
    best = min(range(len(mean)), key=lambda i: mean[i])
    within = [i for i in range(len(mean)) if mean[i] <= mean[best] + error[best]]
    path = path_of(range(len(mean)), mean=mean, error=error)
    assert choose(path, "cv") == within[0] <= best == choose(path, "cv-best")


# ---- criteria --------------------------------------------------------------------------------------------------

PIECES, LOSSES = [0, 1, 2, 5, 12], [60.0, 50.0, 47.5, 44.0, 40.0]


@pytest.mark.parametrize("facts", [BINOMIAL, NORMAL])
@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
@pytest.mark.parametrize(("rows", "log_candidates"), [(100.0, 7.0), (1e4, 2.0), (30.0, 0.0)])
def test_criteria_by_hand(criterion: str, facts: Mapping[str, str], rows: float, log_candidates: float) -> None:
    """-2 log-likelihood (its part that varies) plus 2, log m, or log m + 2 gamma log p per piece, gamma = 1/2."""
    path = with_facts(path_of(PIECES, LOSSES), rows=rows, log_candidates=log_candidates, **facts)
    each = {"aic": 2.0, "bic": math.log(rows), "ebic": math.log(rows) + log_candidates}[criterion]
    # for normal errors the sum of squares is twice the loss, and its variance is estimated by the mean square
    fit = [rows * math.log(2 * loss / rows) if facts is NORMAL else 2 * loss for loss in LOSSES]
    exact = [value + each * count for value, count in zip(fit, PIECES, strict=True)]
    assert [information(path, i, criterion) for i in range(5)] == pytest.approx(exact, rel=1e-12)
    assert choose(path, criterion) == int(np.argmin(exact))


def test_dearer_pieces_choose_smaller_models() -> None:
    path = with_facts(path_of(PIECES, LOSSES), rows=100.0, log_candidates=15.0, **BINOMIAL)
    assert [choose(path, by) for by in ("aic", "bic", "ebic")] == [3, 2, 1]
    assert information(path, 3, "ebic", gamma=0.0) == information(path, 3, "bic")
    assert information(path, 3, "ebic", gamma=1.0) - information(path, 3, "bic") == pytest.approx(5 * 2 * 15.0)


def test_a_piece_with_several_scores_is_paid_for_once_per_free_one() -> None:
    """K classes have K - 1 free scores; a single score is free itself."""
    for columns, free in ((1, 1), (2, 1), (3, 2), (5, 4)):
        path = with_facts(path_of([3], [10.0], columns), rows=50.0, log_candidates=1.0, likelihood="multinomial")
        assert information(path, 0, "aic") == pytest.approx(20.0 + 2.0 * 3 * free)


def test_a_perfect_normal_fit_is_the_best_there_is() -> None:
    path = with_facts(path_of([0, 2], [5.0, 0.0]), rows=10.0, log_candidates=1.0, **NORMAL)
    assert math.isfinite(information(path, 1, "bic"))
    assert choose(path, "bic") == 1


def test_facts_are_added_to_those_there_are() -> None:
    path = with_facts(with_facts(VALIDATED, rows=3.0, loss="a"), loss="b")
    assert dict(path.provenance) == {"rows": 3.0, "loss": "b"}
    assert (path.knots, path.scores) == (VALIDATED.knots, VALIDATED.scores)
    assert dict(VALIDATED.provenance) == {}


# ---- stability, a place, the last ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "position"),
    [([0, 0.01, 0.05, 0.2], 2), ([0, 0.06, 0.0, 0.0], 0), ([0.3, 0, 0, 0], 0), ([0, 0, 0, 0], 3), ([0, 0.04, 0.051, 0.01], 1)],
)
def test_stability_takes_the_last_knot_before_the_first_unstable_one(scores: list[float], position: int) -> None:
    assert choose(path_of([0, 1, 2, 3], instability=scores), "stability") == position


def test_instability_by_hand() -> None:
    """Two f (1 - f) per piece that any subsample selects, averaged; a path that ended early stands for the rest of the way."""
    a, b, ab, none = (Knot(1.0, atoms, tuple(map(str, atoms)), np.ones((len(atoms), 1)), np.zeros(1), CERTIFICATE) for atoms in PARTS)
    samples = [[none, a, ab], [none, ab, ab], [none, b, ab], [a, a]]
    found = instability(samples, 3)
    assert found == pytest.approx([2 * 0.25 * 0.75, (2 * 0.75 * 0.25 + 2 * 0.5 * 0.5) / 2, (0 + 2 * 0.75 * 0.25) / 2])
    assert instability([[none], [none]], 1).tolist() == [0.0]
    assert instability([], 2).tolist() == [0.0, 0.0]


PARTS = (((0,),), ((1, 2),), ((0,), (1, 2)), ())


@pytest.mark.parametrize(("by", "position"), [(1.0, 0), (3, 1), (4.0, 2), (1e9, 4), (0.1, 0), (np.float64(2.0), 1), ("last", 4)])
def test_a_place_on_the_path_or_its_end(by: Any, position: int) -> None:
    assert choose(VALIDATED, by) == position


@pytest.mark.parametrize(("most", "position"), [(None, 4), (9, 4), (8, 3), (4, 3), (3, 2), (2, 1), (1, 1), (0, 0)])
def test_max_pieces_goes_back_to_the_last_knot_that_is_small_enough(most: int | None, position: int) -> None:
    assert choose(VALIDATED, "last", max_pieces=most) == position
    assert choose(VALIDATED, "cv", max_pieces=most) == min(position, 2)


def test_max_pieces_never_goes_further_along_and_has_a_first_knot_to_fall_back_on() -> None:
    assert choose(path_of([2, 5, 1], mean=[9, 1, 5], error=[0, 0, 0]), "cv", max_pieces=2) == 0
    assert choose(path_of([7, 8]), "last", max_pieces=2) == 0


# ---- what cannot be chosen -------------------------------------------------------------------------------------

CRITERION_FACTS = {"rows": 9.0, "log_candidates": 1.0, "likelihood": None, "loss": "hinge"}


@pytest.mark.parametrize(
    ("path", "by", "said"),
    [
        (Path(), "cv", "The path has no knot"),
        (Path(), "last", "The path has no knot"),
        (Path(), 1.0, "The path has no knot"),
        (VALIDATED, "best", "choose='best' is not known.*'cv', 'cv-best'.* or a value of C"),
        (VALIDATED, True, "choose=True is not known"),
        (VALIDATED, None, "choose=None is not known"),
        (VALIDATED, math.nan, "C = nan is no place on the path"),
        (path_of([1]), "cv", "not cross-validated"),
        (path_of([1], mean=[], error=[]), "cv-best", "not cross-validated"),
        (path_of([1]), "stability", "not resampled"),
        (path_of([1]), "bic", "choose='bic' needs a likelihood"),
        (with_facts(path_of([1]), **CRITERION_FACTS), "ebic", "choose='ebic' needs a likelihood and loss 'hinge' has none"),
    ],
)
def test_what_cannot_be_chosen_is_one_sentence(path: Path, by: Any, said: str) -> None:
    with pytest.raises(TamisError, match=said) as caught:
        choose(path, by)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert "; " in text


# ---- races -----------------------------------------------------------------------------------------------------


@dataclass
class Ready:
    """A run whose knots are known beforehand."""

    count: int
    watch: Watch = field(default_factory=Watch)
    status: str = "running"
    ended: str = "complete"
    problem: Problem = field(default_factory=ruler)

    def __iter__(self) -> Iterator[Knot]:
        for i in range(self.count):
            yield knot(2.0**i, i)
        self.status = self.ended


def errors(values: Sequence[float]) -> Callable[[Knot], float]:
    return lambda knot: values[len(knot.atoms)]


def folds_of(table: Sequence[Sequence[float]], weights: Sequence[float] | None = None) -> list[Fold]:
    return [Fold(Ready(len(row)), errors(row), weight) for row, weight in zip(table, weights or [1.0] * len(table), strict=True)]


def test_a_race_without_folds_is_the_main_path() -> None:
    path = race(Ready(4, ended="budget"), [])
    assert (path.t.tolist(), path.status, path.knob, dict(path.scores)) == ([1, 2, 4, 8], "budget", "C", {})


@given(
    table=st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(st.floats(-5, 5), min_size=n, max_size=n), min_size=1, max_size=4)),
    data=st.data(),
)
def test_scores_of_a_race_by_hand(table: list[list[float]], data: st.DataObject) -> None:
    """The mean over folds by their weights, and its standard error from the folds' spread."""
    weights = data.draw(st.lists(st.floats(0.5, 9), min_size=len(table), max_size=len(table)))
    path = race(Ready(len(table[0])), folds_of(table, weights), patience=99)
    assert (len(path), path.status) == (len(table[0]), "complete")
    assert path.scores["folds"].tolist() == table
    for i, column in enumerate(zip(*table, strict=True)):
        mean = sum(w * e for w, e in zip(weights, column, strict=True)) / sum(weights)
        variance = sum(w * (e - mean) ** 2 for w, e in zip(weights, column, strict=True)) / sum(weights)
        assert path.scores["mean"][i] == pytest.approx(mean, rel=1e-12, abs=1e-12)
        assert path.scores["error"][i] == pytest.approx(math.sqrt(variance / max(len(table) - 1, 1)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "mean", [[5, 4, 3, 2, 1, 0, 0, 0], [5, 1, 2, 2, 0.5, 2, 2, 0.1], [1, 1, 1], [3, 2]], ids=["late", "just in time", "short", "rising"]
)
def test_a_race_goes_to_the_end_while_there_is_hope(mean: list[float]) -> None:
    path = race(Ready(len(mean)), folds_of([mean, mean]))
    assert (len(path), path.status) == (len(mean), "complete")
    assert path.scores["mean"].tolist() == mean


@pytest.mark.parametrize(
    ("mean", "patience", "best"),
    [([5, 1, 2, 2, 2, 0, 0, 0], 3, 1), ([1] * 8, 3, 0), ([5, 1, 2, 2, 2, 0, 0, 0], 1, 1), ([9, 8, 7, 8, 9, 9, 1, 0], 2, 2)],
)
def test_patience_ends_a_race(mean: list[float], patience: int, best: int) -> None:
    """The best knot is on the path with one beyond it, and at most as many as it took to give up hope."""
    path = race(Ready(8), folds_of([mean, mean]), patience=patience)
    assert path.status == "stopped"
    assert best + 2 <= len(path) <= best + 1 + patience
    assert path.scores["mean"].tolist() == mean[: len(path)]
    assert choose(path, "cv-best") == best


def test_patience_is_three_unless_said_otherwise() -> None:
    assert race(Ready(8), folds_of([[2, 3, 3, 1, 9, 9, 9, 9]])).scores["mean"].min() == 1
    assert race(Ready(8), folds_of([[2, 3, 3, 3, 1, 9, 9, 9]])).scores["mean"].min() == 2


def test_every_fold_judges_its_knots_once_and_in_order() -> None:
    judged: list[tuple[int, int]] = []

    def judge(fold: int) -> Callable[[Knot], float]:
        return lambda now: judged.append((fold, len(now.atoms))) or [5, 1, 2, 2, 2, 0][len(now.atoms)]

    race(Ready(6), [Fold(Ready(6), judge(fold)) for fold in range(2)])
    assert sorted(judged) == [(fold, i) for fold in range(2) for i in range(5)]
    assert [i for fold, i in judged if fold == 0] == [0, 1, 2, 3, 4]


def test_a_fold_that_ends_early_ends_the_race_with_what_all_folds_reached() -> None:
    path = race(Ready(6), folds_of([[4, 3, 2, 1, 1, 1], [4, 3]]))
    assert path.status == "stopped"
    assert path.scores["mean"].tolist() == [4, 3]
    assert 2 <= len(path) <= 3
    assert choose(path, "cv-best") == 1


def test_folds_that_reach_nothing_leave_one_knot() -> None:
    path = race(Ready(6), [Fold(Ready(0, ended="budget"), errors([])) for _ in range(2)])
    assert len(path) == 1
    assert len(path.scores["mean"]) == 0


@pytest.mark.parametrize("who", ["main", "fold"])
@pytest.mark.parametrize("moment", [("step", 0.5, 0), ("certify", 1.5, 1), ("certify", 4.5, 3), ("step", 4.5, 5)])
def test_a_race_out_of_time_keeps_its_path_and_judges_no_fold_cut_short(who: str, moment: tuple[str, float, int]) -> None:
    schedule = [0.5, 1.5, 4.5, 5.5]
    with Watch() as watch:
        late = Toy(lambda *now: setattr(watch, "deadline", 0.0) if now == moment else None)
        main = Walk(ruler(), late if who == "main" else Toy(), schedule, watch)
        judged: list[Knot] = []
        folds = [
            Fold(Walk(ruler(), late if who == "fold" and i else Toy(), schedule, watch), lambda now: judged.append(now) or -now.t)
            for i in range(2)
        ]
        path = race(main, folds)
    assert path.status == "budget"
    assert 1 <= len(path) <= 4
    assert path.t.tolist() == schedule[: len(path)]
    assert all(now.certificate.holds for now in judged)
    assert path.scores["mean"].tolist() == [-t for t in schedule[: len(path.scores["mean"])]]
    assert len(path.scores["mean"]) <= len(path)
    assert all(certificate.holds for certificate in path.certificates[:-1])
