"""Order of entry of the exact split path against the published table, and split linearised Bregman iterations beside it.

    python benchmarks/split_auc.py [--seeds 100]

The numbers are those of the engines (`SplitQuadratic` with `InverseScale` and `DenseDuals`; `SplitBregman`) without
intercept or any preparation of columns, as the published recipe has it, and not of an estimator.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from linear_data import split_problem, transform
from runner import LINEAR, Cell, Json, Runner, metered, options, preamble, table, write

Array = np.ndarray[Any, Any]
TRANSFORMS = {"identity": "D = I", "fused": "D = [first differences; I]"}
NUS = (1.0, 5.0, 10.0)
#: Means and standard deviations as published: the lasso (genlasso) and nu = 1, 5, 10.
PUBLISHED = {
    "identity": (".9426 (.0390)", {1.0: (0.9845, 0.0185), 5.0: (0.9969, 0.0065), 10.0: (0.9982, 0.0043)}),
    "fused": (".9705 (.0212)", {1.0: (0.9955, 0.0056), 5.0: (0.9996, 0.0014), 10.0: (0.9998, 0.0009)}),
}
LIMIT = 30.0  # CPU seconds for all exact paths
GRID, LONGEST = 4000, 10.0  # times at which the iterations are looked at, even in the logarithm, and the last over the first


def area(first: Array, relevant: Array) -> float:
    """Share of pairs (relevant, irrelevant) in which the relevant one enters first; ties count half."""
    early, late = first[relevant][:, None], first[~relevant][None]
    return float(((early < late) + 0.5 * (early == late)).mean())


def exact_entry(X: Array, y: Array, D: Array, nu: float) -> tuple[Array, float]:
    """When each entry of gamma is first not zero (never: infinity), and how many knots there were."""
    from tamis.solvers.duals import DenseDuals
    from tamis.solvers.inverse_scale import InverseScale
    from tamis.solvers.split import SplitQuadratic

    first, knots = np.full(len(D), np.inf), 0
    for event in InverseScale(DenseDuals(SplitQuadratic(X, y, D, nu))).events():
        fresh = event.support[np.isinf(first[event.support]) & (event.values != 0)]
        first[fresh], knots = event.t, knots + 1
    return first, knots


def iterated_entry(X: Array, y: Array, D: Array, nu: float) -> tuple[Array, int, float]:
    """The same for split iterations with kappa 200; times are those of the grid, up to its end; iterations and the end."""
    from scipy import sparse

    from tamis.core.loss import Squared
    from tamis.solvers.split_lbi import SplitBregman, SplitProblem
    from tamis.structures.gauges import Entry

    rows = len(y)
    problem = SplitProblem(
        X, Squared(), y[:, None], np.full(rows, 1 / rows), sparse.csr_array(D), nu, Entry(np.ones(len(D))), 200.0, intercept=False
    )
    run = SplitBregman(problem)
    first, iterations = np.full(len(D), np.inf), 0
    end = LONGEST * run.start.t
    for snapshot in run.follow(np.geomspace(run.start.t, end, GRID)):
        fresh = np.isinf(first) & (snapshot.gamma[:, 0] != 0)
        first[fresh], iterations = snapshot.t, snapshot.iteration
    return first, iterations, end


def lasso_cell(seeds: int) -> Json:
    """The lasso's order of entry on the same data (D = I)."""
    from sklearn.linear_model import lars_path

    areas = []
    with metered() as meter:
        for state in range(seeds):
            X, y, truth = split_problem(state)
            alphas, _, found = lars_path(X, y, method="lasso")
            held = found != 0
            first = np.where(held.any(axis=1), np.argmax(held, axis=1), len(alphas)).astype(float)
            areas.append(area(first, truth != 0))
    return {"areas": areas, "cpu": meter.cpu}


def exact_cell(name: str, nu: float, seeds: int) -> Json:
    """Areas of all data sets for one D and nu; one path before the clock starts loads what there is to load."""
    D, areas, knots, cpu = transform(name), [], [], 0.0
    exact_entry(*split_problem(0)[:2], D, nu)
    for state in range(seeds):
        X, y, truth = split_problem(state)
        with metered() as meter:
            first, count = exact_entry(X, y, D, nu)
        cpu += meter.cpu
        areas.append(area(first, D @ truth != 0))
        knots.append(count)
    return {"areas": areas, "knots": knots, "cpu": cpu}


def iterated_cell(name: str, nu: float, seeds: int) -> Json:
    """Areas by iterations on some data sets, those of the exact path up to the same time, and how far times of entry are apart."""
    D, areas, exact_areas, apart, iterations, cpu = transform(name), [], [], [], [], 0.0
    for state in range(seeds):
        X, y, truth = split_problem(state)
        with metered() as meter:
            first, count, end = iterated_entry(X, y, D, nu)
        cpu += meter.cpu
        exact = exact_entry(X, y, D, nu)[0]
        exact[exact > end] = np.inf
        areas.append(area(first, D @ truth != 0))
        exact_areas.append(area(exact, D @ truth != 0))
        both = np.isfinite(first) & np.isfinite(exact)
        apart.append(float(np.median(np.abs(first[both] / exact[both] - 1))))
        iterations.append(count)
    return {"areas": areas, "exact": exact_areas, "apart": apart, "iterations": iterations, "cpu": cpu}


# ---------------------------------------------------------------------------------------------------------------- the page


def spread(areas: list[float]) -> str:
    """Mean (standard deviation)."""
    return f"{statistics.mean(areas):.4f} ({statistics.stdev(areas) if len(areas) > 1 else 0.0:.4f})"


def main() -> None:
    """Run or continue the benchmark and write its page."""
    parser = options("Order of entry of split paths.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--iterated", type=int, default=10, metavar="SEEDS", help="data sets for the iterations")
    arguments = parser.parse_args()
    runner = Runner("split_auc", arguments.cache, arguments.again, arguments.stale, arguments.seconds, LINEAR)
    keys = [(name, nu) for name in TRANSFORMS for nu in NUS]
    blocks = [(Cell("split_auc", "lasso_cell", {"seeds": arguments.seeds}, ("scikit-learn",), True),)]
    for name, nu in keys:
        exact = Cell("split_auc", "exact_cell", {"name": name, "nu": nu, "seeds": arguments.seeds}, ("tamis",))
        iterated = Cell("split_auc", "iterated_cell", {"name": name, "nu": nu, "seeds": arguments.iterated}, ("tamis",))
        blocks.append((exact, iterated))
    records = runner.run([tuple(block) for block in blocks])
    failed = [record for block in records for record in block if "error" in record]
    if failed:
        raise SystemExit(f"The cell {failed[0]['cell']} failed ({failed[0]['error']}), so no table was written; mend it and run again.")
    text = preamble("Order of entry of split paths", runner, str(__doc__).split("\n\n")[-1].strip())
    write("split_auc", arguments.out, {"versions": runner.versions(), "cells": [record for block in records for record in block]},
          text + "\n" + page(keys, records))  # fmt: skip


def page(keys: list[tuple[str, float]], records: list[list[Json]]) -> str:
    """The table, the iterations beside it, and the goal."""
    lasso, lines, beside = records[0][0]["result"], [], []
    for (name, nu), (exact, iterated) in zip(keys, records[1:], strict=True):
        found, second = exact["result"], iterated["result"]
        mean, deviation = PUBLISHED[name][1][nu]
        lines.append([
            TRANSFORMS[name], f"{nu:g}", spread(found["areas"]), f"{mean:.4f} ({deviation:.4f})",
            f"{statistics.mean(found['areas']) - mean:+.4f}", f"{statistics.mean(found['knots']):.0f}", f"{found['cpu']:.2f}",
        ])  # fmt: skip
        beside.append([
            TRANSFORMS[name], f"{nu:g}", spread(second["areas"]), spread(second["exact"]), f"{statistics.median(second['apart']):.2%}",
            f"{statistics.mean(second['iterations']):,.0f}", f"{second['cpu'] / len(second['areas']):.3f}",
            f"{found['cpu'] / len(found['areas']):.4f}",
        ])  # fmt: skip
    exact_cells = [block[0]["result"] for block in records[1:]]
    total, count = sum(cell["cpu"] for cell in exact_cells), sum(len(cell["areas"]) for cell in exact_cells)
    heads = ["transform", "nu", "exact split path", "published", "difference", "knots", "CPU s"]
    beside_heads = [*heads[:2], "iterations' area", "exact area", "entry times apart", "iterations", "CPU s each", "exact CPU s each"]
    word = "reached" if total <= LIMIT else "**not reached**"
    return f"""## Area under the curve of the order of entry, mean (sd)

{table(heads, lines)}

{len(lasso["areas"])} data sets: n = p = 50, three runs of five coefficients -2, 2, -2, noise 1. Score: the time at which an entry of gamma
is first not zero (never: last). The lasso on the same data (scikit-learn's lars_path, D = I): {spread(lasso["areas"])}, published
{PUBLISHED["identity"][0]}; published for the generalised lasso with the second transform: {PUBLISHED["fused"][0]}.

## Split iterations, kappa 200, on {len(records[1][1]["result"]["areas"])} of the data sets

{table(beside_heads, beside)}

Both up to {LONGEST:g} times the first entry's time (what enters later is last), on the same data. The iterations are looked at {GRID:,}
times, even in the logarithm; entry times apart: median over entries and data sets. Exact seconds are for paths to their end.

## Goals

- {count} exact split paths, CPU s: {total:.1f}, goal <= {LIMIT:g}: {word}
"""


if __name__ == "__main__":
    main()
