"""`tamis demo`: the eight winning lines, certified, exact on boards it has not seen; the default setting told honestly beside it."""

import re
import resource

import numpy as np
import pytest

from helpers_cli import one_sentence, process
from tamis.cli.demo_data import CELLS, LINES, halves
from tamis.cli.demos import lines_model, propositions


@pytest.fixture(scope="module")
def fitted():
    crosses, wins = propositions()
    learned, tested = halves(wins.tolist())
    return lines_model().fit(crosses.take(learned), wins[learned]), crosses.take(tested), wins[tested]


def cells_of(rule):
    return tuple(sorted(CELLS.index(condition.column.removesuffix(" is x")) for condition in rule.conditions))


def test_the_eight_largest_rules_are_the_eight_lines(fitted):
    model = fitted[0]
    ordered = sorted(model.rules_, key=lambda rule: -abs(rule.weights[0]))
    assert {cells_of(rule) for rule in ordered[:8]} == set(LINES)
    lowest = min(rule.weights[0] for rule in ordered[:8])
    assert lowest > 0
    others = [rule.weights[0] for rule in ordered[8:] if len(rule.conditions) == 3]
    assert all(weight < 0.5 * lowest for weight in others)


def test_the_lines_are_certified_and_exact_on_unseen_boards(fitted):
    model, boards, wins = fitted
    assert model.certificate_.holds
    assert model.certificate_.gap <= 0.01
    assert np.array_equal(model.predict(boards), wins)


def test_the_demo_prints_boards_and_writes_one_report(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = process("demo", folder=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    assert after.ru_utime - before.ru_utime <= 15
    assert [file.name for file in tmp_path.iterdir()] == ["tamis-demo.html"]
    first, second = done.stdout.split("\n2. ")
    assert "All 958 final boards of tic-tac-toe (x moves first); x has won 626 of them." in first
    assert "The 8 largest rules: 8 of them are the 8 winning lines." in first
    assert "Accuracy on the boards it has not seen: 100.0%" in first
    assert len(re.findall(r"x x x|x · ·|· x ·|· · x", first)) >= 18  # three full rows; each other line shows in three rows
    assert re.search(r"Within 0\.\d+ % of the best possible model over all conjunctions of up to 3 of 9 conditions", first)
    assert "54 conditions" in second
    assert re.search(r"Accuracy on the boards it has not seen: (9[5-9]\.\d|100\.0)%", second)
    assert "single conditions" in second


def test_the_demo_replaces_its_report_and_refuses_a_folder(tmp_path):
    (tmp_path / "taken").mkdir()
    done = process("demo", "--out", "taken", folder=tmp_path)
    assert (done.returncode, one_sentence(done.stderr)) == (1, True)
    assert "is a folder" in done.stderr
