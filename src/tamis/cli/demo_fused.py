"""`tamis demo fused`: the jumps of a noisy signal that is constant over stretches, found by the split path."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

Array = NDArray[Any]
LEVELS, LENGTHS = (0.0, 2.0, -1.0, 1.5, 3.0, 0.5, -0.5), (60, 50, 70, 40, 80, 50, 50)
NOISE = 0.4
NEAR = 2  # a jump found so many places away still counts as found


def signal(seed: int = 0) -> tuple[Array, Array]:
    """The true signal of 400 points with six jumps, and what is seen of it.

    Returns
    -------
    truth, seen : ndarray

    Examples
    --------
    >>> truth, seen = signal()
    >>> len(truth), int(np.count_nonzero(np.diff(truth)))
    (400, 6)
    """
    truth = np.repeat(LEVELS, LENGTHS)
    return truth, truth + NOISE * np.random.default_rng(seed).normal(size=len(truth))


def fused_model() -> Any:
    """One coefficient per point, sparse in the differences of neighbours; forty jumps are plenty to look at."""
    from tamis import InverseScaleRegressor

    return InverseScaleRegressor(transformation="fused", max_features=40, random_state=0)


def jumps_of(coefficients: Array) -> list[tuple[int, float]]:
    """(points before the jump, its size)."""
    steps = np.diff(coefficients)
    return [(int(at) + 1, float(steps[at])) for at in np.flatnonzero(np.abs(steps) > 1e-9 * max(float(np.abs(coefficients).max()), 1e-300))]


def fused_demo(out: Path) -> None:
    """Fit, list the jumps beside the true ones, compare errors, and write the report."""
    import pyarrow as pa

    from tamis.cli.data import named

    started = time.monotonic()
    truth, seen = signal()
    typer.echo(f"A signal of {len(truth)} points that is constant between six jumps, seen with noise of standard deviation {NOISE}.\n")
    table = pa.table({f"p{j + 1}": row for j, row in enumerate(np.eye(len(truth)))})
    model = fused_model().fit(table, named(seen, "signal"))
    typer.echo(model.certificate_.sentence())
    typer.echo(f"Chosen: t = {model.t_:.4g}, with {len(model.selected_)} jumps, by cross-validation.\n")
    found = jumps_of(model.projected_coef_)
    typer.echo(f"  {'true jump after point':>22} {'its size':>9}     {'found after':>11} {'size':>6}")
    left = list(found)
    for place, size in jumps_of(truth):
        near = min(left, key=lambda jump: abs(jump[0] - place), default=None)
        if near is not None and abs(near[0] - place) <= NEAR:
            left.remove(near)
            typer.echo(f"  {place:22} {size:+9.2f}     {near[0]:11} {near[1]:+6.2f}")
        else:
            typer.echo(f"  {place:22} {size:+9.2f}     {'not found':>11}")
    for place, size in left:
        typer.echo(f"  {'none':>22} {'':9}     {place:11} {size:+6.2f}")
    hits = len(found) - len(left)
    typer.echo(f"\n{hits} of {len(jumps_of(truth))} jumps were found, and {len(left)} that {'is' if len(left) == 1 else 'are'} not there.")
    level = float(model.intercept_)
    for name, guess in (
        ("the data themselves", seen),
        ("beta, dense", level + model.coef_),
        ("projected beta", level + model.projected_coef_),
    ):
        typer.echo(f"  root mean squared distance to the truth, {name + ':':22} {float(np.sqrt(np.mean((guess - truth) ** 2))):.3f}")
    model.report(out)
    typer.echo(f"\nWrote {out}: open it in a browser. {time.monotonic() - started:.1f} s.")
    typer.echo("Next, your own data: tamis path train.csv --target COLUMN --transform fused --report report.html")
