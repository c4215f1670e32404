"""What the terminal shows: the same content, readable with and without colour, and no text taken for markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import helpers_report
from tamis.report.content import Claim, PathPicture, Piece, ReportContent, Stop
from tamis.report.terminal import baseline_table, claim_line, print_report


def printed(content: ReportContent, width: int = 130, terminal: bool = False, most: int | None = 20) -> str:
    file = io.StringIO()
    print_report(
        content, Console(file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None), most=most
    )
    return file.getvalue()


def test_every_rule_weight_and_sentence_is_printed() -> None:
    content = helpers_report.churn()
    text = " ".join(printed(content, most=None, width=200).split())
    for index, row in zip(content.chosen.pieces, content.chosen.weights, strict=True):
        toward = "churn" if row[0] > 0 else "stays"
        weight = f"{row[0]:+.2f}" if abs(row[0]) >= 0.005 else "0.00"
        assert f"IF {content.pieces[index].name} THEN {toward} {weight}" in text
    assert content.claim.sentence in text
    assert "single conditions 0.439 ± 0.008 17 0.60 %" in text
    for row in content.baselines:
        assert row.sentence in text


def test_without_a_terminal_there_is_no_colour_and_no_ornament() -> None:
    text = printed(helpers_report.churn())
    assert "\x1b" not in text
    assert "█" not in text
    # Numbers another program can read.
    assert not set("−×\u00a0\u202f–") & set(text)


def test_on_a_terminal_there_are_colours_and_bars() -> None:
    text = printed(helpers_report.churn(), terminal=True)
    assert "\x1b[" in text
    assert "█" in text


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for content in (helpers_report.churn(), helpers_report.flowers()):
        assert max(len(line.rstrip()) for line in printed(content, width=width).splitlines()) <= width


def test_a_narrow_terminal_leaves_out_minor_measures() -> None:
    assert "conditions" in printed(helpers_report.churn(), width=130).split("IF")[0]
    assert "conditions\n" not in printed(helpers_report.churn(), width=80).split("IF", 1)[0].replace(" ", "")
    assert "lift" in printed(helpers_report.churn(), width=80)


def test_long_lists_are_cut_and_say_so() -> None:
    content = helpers_report.churn()
    rest = len(content.chosen.pieces) - 5
    text = printed(content, most=5)
    assert text.count("IF ") == 5
    assert f"and {rest} rules more" in text
    assert "rules more" not in printed(content, most=None)


def test_several_columns_are_named() -> None:
    content = helpers_report.flowers()
    text = printed(content)
    for column, weight in zip(content.columns, content.chosen.weights[0], strict=True):
        assert f"{column.name} {weight:+.2f}" in text


def test_the_state_is_said_in_a_word_once() -> None:
    def said(claim: Claim) -> str:
        file = io.StringIO()
        Console(file=file, width=200).print(claim_line(claim))
        return file.getvalue().strip()

    assert said(Claim("Within 0.8 % of the best.", "holds")) == "Certified. Within 0.8 % of the best."
    assert said(Claim("Not certified to 1 %: only within 4 %.", "fails")) == "Not certified to 1 %: only within 4 %."
    assert said(Claim("No certificate: not convex.", "none")) == "No certificate: not convex."


def test_user_text_is_never_markup_or_a_control_sequence() -> None:
    names = ("[red]name[/red]", "[/]", "\x1b[31mred", "a\nb", ":smile:")
    stop = Stop(1.0, Claim("[bold]Held[/bold].", "holds"), tuple(range(len(names))), tuple((1.0,) for _ in names))
    text = printed(ReportContent("t", PathPicture("C", (stop,)), tuple(map(Piece, names))), terminal=False)
    for shown in ("[red]name[/red]", "[/]", "\ufffd[31mred", "a↵b", ":smile:", "[bold]Held[/bold]."):
        assert shown in text
    assert "\x1b" not in printed(helpers_report.hostile())


def test_comparison_without_scores_still_reads() -> None:
    file = io.StringIO()
    Console(file=file, width=100).print(baseline_table(helpers_report.hostile()))
    assert "-" in file.getvalue()
