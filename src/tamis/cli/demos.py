"""`tamis demo`: one demo per family, each on data made by code, each with a report to open."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tamis.cli.boundary import OK
from tamis.cli.demo_data import CELLS, LINES, halves, tic_tac_toe
from tamis.core.errors import TamisError

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.rules.classifier import RuleClassifier


@dataclass(frozen=True)
class Demo:
    """A demo: what it is called, what it shows, and what runs it."""

    name: str
    shows: str
    run: Callable[[Path], None]


def show_list() -> int:
    """`tamis demo --list`."""
    for demo in DEMOS.values():
        typer.echo(f"{demo.name:12} {demo.shows}")
    typer.echo("Other families bring their demo with them.")
    return OK


def run_demo(name: str, out: Path) -> int:
    """`tamis demo [NAME]`."""
    from tamis.cli.outputs import check_file

    if name not in DEMOS:
        raise TamisError(f"There is no demo '{name}'; there are {', '.join(DEMOS)}.")
    check_file(out)
    DEMOS[name].run(out)
    return OK


def propositions() -> tuple[pa.Table, Any]:
    """The boards as nine yes/no columns "cell is x", and whether x has won."""
    import numpy as np
    import pyarrow as pa

    columns, wins = tic_tac_toe()
    crosses = {f"{cell} is x": [mark == "x" for mark in marks] for cell, marks in columns.items()}
    return pa.table(crosses), np.array(wins)


def lines_model() -> RuleClassifier:
    """A cheap third condition, and columns that are conditions already: what finds the eight lines."""
    from tamis import RuleClassifier

    return RuleClassifier(cuts="none", growth=1.2, loss="squared_hinge", C=100.0, rho=1.1, max_length=3)


def rules_demo(out: Path) -> None:
    """Tic-tac-toe: nine propositions, then everything by default."""
    import numpy as np
    import pyarrow as pa

    from tamis import RuleClassifier
    from tamis.cli.data import named
    from tamis.cli.learn import show
    from tamis.cli.progress import ProgressBar

    started = time.monotonic()
    crosses, wins = propositions()
    columns, _ = tic_tac_toe()
    learned, tested = (np.array(part) for part in halves(wins.tolist()))
    typer.echo(f"All {len(wins)} final boards of tic-tac-toe (x moves first); x has won {wins.sum()} of them.")
    typer.echo(f"Learning from {len(learned)} boards, testing on the other {len(tested)}.\n")

    typer.secho("1. Nine conditions, 'this cell is x', with cheap long rules (--growth 1.2)", bold=True)
    model = lines_model().fit(crosses.take(learned), named(wins[learned], "a win for x"))
    typer.echo(model.certificate_.sentence())
    draw_boards(model)
    typer.echo(_accuracy(model, crosses.take(tested), wins[tested]))

    typer.secho("\n2. The same boards with every setting left alone: 54 conditions, C chosen by cross-validation", bold=True)
    with ProgressBar() as bar:
        plain = RuleClassifier(random_state=0)
        plain._observe = (bar,)
        boards = pa.table(columns)
        plain.fit(boards.take(learned), named(wins[learned], "a win for x"))
        del plain._observe
    show(plain)
    typer.echo(_accuracy(plain, boards.take(tested), wins[tested]))
    model.report(out)
    typer.echo(f"\nWrote {out}: open it in a browser. {time.monotonic() - started:.1f} s.")
    typer.echo("Next, your own data: tamis rules train.csv --target COLUMN --report report.html")


def _accuracy(model: Any, features: Any, labels: Any) -> str:
    share = float((model.predict(features) == labels).mean())
    return f"Accuracy on the boards it has not seen: {share:.1%}, with {len(model.rules_)} rules."


def draw_boards(model: Any) -> None:
    """The eight largest rules as little boards, four in a row, with their weights."""
    placed = [(sorted(_cells(rule)), rule.weights[0]) for rule in model.rules_]
    placed.sort(key=lambda entry: -abs(entry[1]))
    for first in range(0, min(len(placed), 8), 4):
        typer.echo()
        for line in _side_by_side(placed[first : first + 4]):
            typer.echo(f"  {line}")
    lines = {tuple(sorted(line)) for line in LINES}
    found = sum(tuple(cells) in lines for cells, _ in placed[:8])
    rest = placed[8:]
    typer.echo(f"\nThe {min(8, len(placed))} largest rules: {found} of them are the 8 winning lines.", nl=not rest)
    if rest:
        largest = max(abs(weight) for _, weight in rest)
        typer.echo(f" The other {len(rest)} weigh at most {largest:.2f}, beside {abs(placed[7][1]):.2f}.")


def _cells(rule: Any) -> list[int]:
    """Which cells a rule speaks of."""
    return [CELLS.index(condition.column.removesuffix(" is x")) for condition in rule.conditions]


def _side_by_side(placed: Sequence[tuple[list[int], float]]) -> list[str]:
    """Three lines of boards and one of weights."""
    rows = [
        "      ".join(" ".join("x" if 3 * row + column in cells else "·" for column in range(3)) for cells, _ in placed) for row in range(3)
    ]
    return [*rows, "      ".join(f"{weight:+.2f}".ljust(5) for _, weight in placed)]


def path_demo(out: Path) -> None:
    """Diabetes: the exact path beside the lasso."""
    from tamis.cli import demo_path

    demo_path.path_demo(out)


def fused_demo(out: Path) -> None:
    """A signal with six jumps."""
    from tamis.cli import demo_fused

    demo_fused.fused_demo(out)


DEMOS = {
    "rules": Demo("rules", "the eight winning lines of tic-tac-toe, found among all conjunctions and certified", rules_demo),
    "path": Demo("path", "which columns matter for diabetes: the exact path beside the lasso, on the same folds", path_demo),
    "fused": Demo("fused", "the jumps of a noisy signal, found by a path that is sparse in differences", fused_demo),
}
