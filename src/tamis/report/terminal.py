"""The same content for a terminal: a table of rules, the certificate, the comparison, as rich renderables.

Without colour or a terminal everything stays readable text: state is said in words, weights carry their sign,
bars are only an ornament that is left out when the output is not a terminal or cannot show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tamis.report import wording
from tamis.report.content import Claim, ReportContent, Value
from tamis.report.picture import piece_weight
from tamis.report.view import BADGES, pieces_text, strongest
from tamis.report.wording import decimals_for, finite, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COLOURS = {"holds": "green", "fails": "yellow", "none": "bright_black"}
STYLE: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold", "show_edge": False, "padding": (0, 2, 0, 0)}
BAR_WIDTH = 9
PLAIN = str.maketrans({wording.MINUS: "-", wording.SPACE: " ", wording.THIN: " ", wording.NOTHING: "-", "×": "x"})
"""Numbers are printed so that any terminal shows them and any other program can read them."""
NARROW = 92
"""Columns of a terminal below which minor measures are left out."""


def print_report(content: ReportContent, console: Console | None = None, most: int | None = 20) -> None:
    """Print certificate, pieces and comparison.

    Parameters
    ----------
    content : ReportContent
    console : rich.console.Console, optional
    most : int, optional
        How many pieces to list; None for all.
    """
    from rich.console import Console

    console = console or Console()
    console.print(claim_line(content.claim))
    console.print()
    console.print(piece_table(content, most=most, width=console.width, bars=bars_fit(console)))
    if content.baselines:
        console.print()
        console.print(baseline_table(content))


def plain_signed(weight: float, decimals: int) -> str:
    """A weight with its sign."""
    return wording.signed(weight, decimals).translate(PLAIN)


def plain_form(value: Value, form: str) -> str:
    """A measured value as its column shows it."""
    return visible(value) if isinstance(value, str) else wording.in_form(value, form).translate(PLAIN)


def bars_fit(console: Console) -> bool:
    """Whether small bars may be drawn: on a terminal that knows the characters."""
    return bool(console.is_terminal and console.encoding.lower().startswith("utf"))


def claim_line(claim: Claim) -> RenderableType:
    """The certificate: its state in a word, then its sentence."""
    from rich.text import Text

    state = BADGES[claim.state]
    sentence = visible(claim.sentence)
    # The sentences of the two unhappy states begin with these very words.
    said = Text("" if sentence.startswith(state) else f"{state}. ", style=f"bold {COLOURS[claim.state]}")
    head = state if sentence.startswith(state) else ""
    return said.append(head, style=f"bold {COLOURS[claim.state]}").append(sentence[len(head) :], style="default")


def piece_table(content: ReportContent, *, most: int | None = 20, width: int = 120, bars: bool = False) -> RenderableType:
    """The pieces of the chosen model, most important first, and the constant.

    Parameters
    ----------
    content : ReportContent
    most : int, optional
        How many pieces to list; None for all.
    width : int
        Columns the terminal has; narrow ones lose the minor measures.
    bars : bool
        Draw a small bar beside each weight.
    """
    from rich.table import Table
    from rich.text import Text

    stop = content.chosen
    measures = [measure for measure in content.measures if width >= NARROW or not measure.minor]
    several = len(content.columns) > 1
    table = Table(**STYLE)
    # Texts are given as Text, never as strings, which rich would read as markup.
    table.add_column(Text(content.word), overflow="fold", ratio=1)
    heading = Text("weights" if several else visible(content.columns[0].name))
    table.add_column(heading, justify="left" if several else "right", no_wrap=not several)
    if bars and not several:
        table.add_column("", no_wrap=True)
    for measure in measures:
        wordy = measure.form == "text"
        table.add_column(Text(visible(measure.label)), justify="left" if wordy else "right", no_wrap=not wordy, overflow="fold")
    widest = max((abs(piece_weight(row)) for row in stop.weights), default=0.0)
    shared = decimals_for(weight for row in stop.weights for weight in row)
    listed = len(stop.pieces) if most is None else most
    for index, row in list(zip(stop.pieces, stop.weights, strict=True))[:listed]:
        piece = content.pieces[index]
        decimals = decimals_for(row) if content.own_units else shared
        cells: list[Any] = [_sentence(content, piece.conditions, piece.name, piece.joiner, row), _weights(content, row, decimals)]
        if bars and not several:
            cells.append(_bar(row[0], widest))
        cells += [Text(plain_form(piece.values.get(measure.key), measure.form)) for measure in measures]
        table.add_row(*cells)
    if len(stop.pieces) > listed:
        table.add_row(Text(f"and {pieces_text(content, len(stop.pieces) - listed)} more", style="dim"))
    if stop.constant:
        table.add_row(Text("constant, for every row", style="dim"), _weights(content, stop.constant, decimals_for(stop.constant)))
    return table


def _sentence(content: ReportContent, conditions: Sequence[str], name: str, joiner: str, row: Sequence[float]) -> RenderableType:
    """`IF a AND b THEN churn`, or the plain name of a piece that has no conditions."""
    from rich.text import Text

    if not conditions:
        return Text(visible(name))
    text = Text("IF ", style="dim")
    for place, condition in enumerate(conditions):
        if place:
            text.append(f" {joiner} ", style="dim")
        text.append(visible(condition), style="not dim default")
    column = content.columns[0]
    toward = "" if len(content.columns) > 1 else column.positive if row[0] > 0 else column.negative
    if toward:
        text.append(" THEN ", style="dim").append(visible(toward), style=f"not dim bold {'blue' if row[0] > 0 else 'red'}")
    return text


def _weights(content: ReportContent, row: Sequence[float], decimals: int) -> RenderableType:
    """One weight, or one per column with the column's name."""
    from rich.text import Text

    if len(row) == 1:
        return Text(plain_signed(row[0], decimals), style="bold")
    shown = strongest(row, 4)
    return Text("\n".join(f"{visible(content.columns[column].name)} {plain_signed(row[column], decimals)}" for column in shown))


def _bar(weight: float, widest: float) -> RenderableType:
    """A weight as blocks left or right of a middle line."""
    from rich.text import Text

    size = round(BAR_WIDTH * abs(weight) / widest) if widest else 0
    left, right = ("█" * size, "") if weight < 0 else ("", "█" * size)
    text = Text(f"{left:>{BAR_WIDTH}}", style="red").append("│", style="dim")
    return text.append(f"{right:<{BAR_WIDTH}}", style="blue")


def baseline_table(content: ReportContent) -> RenderableType:
    """The comparison with simpler models, and below it what it says."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(**STYLE)
    table.add_column("model", overflow="fold")
    certified = any(finite(row.gap) is not None for row in content.baselines)
    for heading in (visible(content.baseline_score or "score"), content.words, *(["gap"] if certified else [])):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for row in content.baselines:
        known = finite(row.gap)
        score = wording.with_error(row.score, row.error).translate(PLAIN)
        cells = [visible(row.name), score, plain_form(row.pieces, "count")]
        cells += ["-" if known is None else wording.gap(known).translate(PLAIN)] if certified else []
        table.add_row(*(Text(cell, style="bold" if row.ours else "default") for cell in cells))
    said = [Text(visible(row.sentence)) for row in content.baselines if row.sentence]
    return Group(table, *([Text(""), *said] if said else []))
