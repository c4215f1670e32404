"""How well coefficients come back: exact paths, lasso, relaxed lasso, OMP, MCP and abess, each chosen by the same folds.

    TAMIS_PEER_PYTHON=.../python python benchmarks/bias.py [--designs slides ar-1 ar-3] [--seeds 20]

Every method sees the same rows, columns (centred, of mean square 1) and five folds, and takes the model with the
best mean over them; only the one-SE line takes a smaller one. The measure is ||b - b*||^2 on that scale.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from linear_data import RECOVERY, checksum, recovery
from linear_peers import CHOICES, least_squares
from runner import LINEAR, Cell, Json, Runner, metered, options, preamble, table, write

Array = np.ndarray[Any, Any]
METHODS = {
    "iss": "tamis exact path, best mean",
    "iss-1se": "tamis exact path, one-SE",
    "lbi": "tamis LBI kappa 100, best mean",
    "lasso": "lasso (LassoCV)",
    "relaxed": "relaxed lasso (supports of lars_path refitted)",
    "omp": "OMP (OrthogonalMatchingPursuitCV, sizes to 100)",
    "mcp": "MCP (skglm, gamma 1.5, 3, 6)",
    "abess": "best subset (abess, sizes 0 to 100)",
    "oracle": "least squares on the true support",
}
STAMP = {"lasso": "scikit-learn", "relaxed": "scikit-learn", "omp": "scikit-learn", "mcp": "skglm", "abess": "abess", "oracle": "numpy"}
SAME = 0.01  # errors that differ by less than this share are called equal
GAIN = 1.8  # how many times smaller than the lasso's the error is to be on the first design


# ------------------------------------------------------------------------------------------------------- in a measured process


def chosen(method: str, X: Array, y: Array, truth: Array, folds: Any) -> Array:
    """Coefficients of one method."""
    if method == "oracle":
        return least_squares(X, y, truth != 0)[0]
    if method in CHOICES:
        return CHOICES[method](X, y, folds)
    from tamis import BregmanRegressor, InverseScaleRegressor

    if method == "lbi":
        return BregmanRegressor(kappa=100.0, choose="cv-best", cv=folds).fit(X, y).coef_
    return InverseScaleRegressor(choose="cv" if method == "iss-1se" else "cv-best", cv=folds).fit(X, y).coef_


def cell(design: str, method: str, seeds: int) -> Json:
    """All data sets of one design for one method; one fit before the clock starts loads what there is to load."""
    from sklearn.model_selection import KFold

    rows = []
    for state in (-1, *range(seeds)):
        X, y, truth = recovery(design, max(state, 0))
        folds = list(KFold(5, shuffle=True, random_state=max(state, 0)).split(X))
        with metered() as meter:
            found = np.asarray(chosen(method, X, y, truth, folds))
        if state < 0:
            continue
        hits = int(((found != 0) & (truth != 0)).sum())
        size = int((found != 0).sum())
        rows.append({
            "state": state, "mse": float(((found - truth) ** 2).sum()), "size": size, "f1": 2 * hits / (size + int((truth != 0).sum())),
            "cpu": meter.cpu, "data": checksum(X, y),
        })  # fmt: skip
    return {"rows": rows}


# ---------------------------------------------------------------------------------------------------------------- the page


def summary(rows: list[Json], name: str) -> tuple[float, float]:
    """Mean and its standard error."""
    values = [float(row[name]) for row in rows]
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def with_error(rows: list[Json], name: str, form: str) -> str:
    """Mean (standard error)."""
    mean, error = summary(rows, name)
    return f"{mean:{form}} ({error:{form}})"


def design_text(name: str, found: dict[str, list[Json]], goals: list[str]) -> str:
    """One design: the table, and the methods whose error is smaller than ours by more than two standard errors of the difference."""
    ours, lines = found["iss"], []
    for method, rows in found.items():
        ratio = summary(rows, "mse")[0] / summary(ours, "mse")[0]
        wins = sum(row["mse"] < (1 - SAME) * mine["mse"] for row, mine in zip(rows, ours, strict=True))
        lines.append([
            METHODS[method], with_error(rows, "mse", ".3f"), f"{ratio:.2f}", "-" if method == "iss" else f"{wins} of {len(rows)}",
            with_error(rows, "size", ".1f"), with_error(rows, "f1", ".3f"), f"{summary(rows, 'cpu')[0]:.3f}",
        ])  # fmt: skip
    if name == "slides" and "lasso" in found:
        gain = summary(found["lasso"], "mse")[0] / summary(ours, "mse")[0]
        word = "reached" if gain >= GAIN else "**not reached**"
        goals.append(f"- the lasso's error over that of the exact path on the first design: {gain:.2f}, goal >= {GAIN:g}: {word}")
    header = ["method", "error (SE)", "x exact path", "better than exact path (by 1 %)", "size (SE)", "F1 (SE)", "CPU s"]
    return f"## {RECOVERY[name].label}\n\n{table(header, lines)}\n\n{verdict(found)}\n"


def verdict(found: dict[str, list[Json]]) -> str:
    """Who is better and who worse than the exact path, in a sentence."""
    better, worse, same = [], [], []
    for method, rows in found.items():
        if method in ("iss", "oracle"):
            continue
        difference = [{"d": row["mse"] - mine["mse"]} for row, mine in zip(rows, found["iss"], strict=True)]
        mean, error = summary(difference, "d")
        least = max(2 * error, SAME * summary(found["iss"], "mse")[0])
        (better if mean < -least else worse if mean > least else same).append(METHODS[method].split(" (")[0])
    parts = [f"{word}: {', '.join(names) or 'none'}" for word, names in (("Better", better), ("worse", worse), ("neither", same))]
    against = "Against the exact path with the best mean, by more than two standard errors of the paired difference and 1 %"
    return f"{against}. {'; '.join(parts)}."


def main() -> None:
    """Run or continue the benchmark and write its page."""
    parser = options("Recovery of coefficients.")
    parser.add_argument("--designs", nargs="*", default=list(RECOVERY), choices=list(RECOVERY))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    runner = Runner("bias", arguments.cache, arguments.again, arguments.stale, arguments.seconds, LINEAR)

    def measured(design: str, method: str) -> Cell:
        job = {"design": design, "method": method, "seeds": arguments.seeds}
        return Cell("bias", "cell", job, (STAMP.get(method, "tamis"),), method in STAMP)

    blocks = [tuple(measured(design, method) for method in arguments.methods) for design in arguments.designs]
    records = runner.run(blocks)
    text = preamble(
        "Coefficients that come back",
        runner,
        f"{arguments.seeds} data sets per design, signals sign(u) + u with u normal, five folds, the same for every method.\n"
        "Error: ||b - b*||^2 on columns of mean square 1.",
    )
    goals: list[str] = []
    for design, block in zip(arguments.designs, records, strict=True):
        found = {record["cell"]["method"]: record["result"]["rows"] for record in block if "result" in record}
        if len({tuple(row["data"] for row in rows) for rows in found.values()}) > 1:
            raise SystemExit(f"The cells of {design} saw different data, so they cannot be compared; use one numpy generator for all.")
        text += "\n" + (design_text(design, found, goals) if "iss" in found else "")
    errors = [f"Failed: {record['cell']}: {record['error']}" for block in records for record in block if "error" in record]
    text += "\n## Goals\n\n" + "\n".join(goals) + "\n" + "".join(f"\n{error}" for error in errors)
    write("bias", arguments.out, {"versions": runner.versions(), "cells": [record for block in records for record in block]}, text)


if __name__ == "__main__":
    main()
