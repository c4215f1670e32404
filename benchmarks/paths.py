"""CPU time of whole paths, ours and other libraries', and of a plain loop that makes the same iterates.

    TAMIS_PEER_PYTHON=.../python python benchmarks/paths.py [--problems wide tall logistic small-80 small-200 small-442]

One block is one problem and one repeat, every method in its own process: fits are repeated there (`repeated`), and
ratios are formed inside blocks. Peers with compiled or slow fits are measured in the first block only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from linear_data import PROBLEMS, checksum, path_problem
from linear_peers import PATHS
from runner import LINEAR, Cell, Json, Runner, metered, options, preamble, table, write

Array = np.ndarray[Any, Any]
LABELS = {
    "exact": "tamis exact path to 300 variables (estimator)",
    "exact-engine": "tamis exact path to 300 variables (engine alone)",
    "lbi-20": "tamis LBI kappa 20, to 20 t0 (estimator)",
    "lbi-50": "tamis LBI kappa 50, to 20 t0 (estimator)",
    "lbi-500": "tamis LBI kappa 500, to 20 t0 (estimator)",
    "lbi-engine-20": "tamis LBI kappa 20, the model at 20 t0 (engine alone)",
    "lbi-engine-50": "tamis LBI kappa 50, the model at 20 t0 (engine alone)",
    "lbi-engine-500": "tamis LBI kappa 500, the model at 20 t0 (engine alone)",
    "plain-20": "plain numpy loop, kappa 20",
    "plain-50": "plain numpy loop, kappa 50",
    "plain-500": "plain numpy loop, kappa 500",
    "adelie": "adelie grpnet, 100 penalties to 1e-2",
    "lasso_path": "scikit-learn lasso_path, 100 penalties to 1e-2",
    "lars_path": "scikit-learn lars_path, 300 steps",
    "celer": "celer celer_path, 100 penalties to 1e-2",
    "skglm": "skglm Lasso.path, 100 penalties to 1e-2",
    "skglm-classes": "skglm SparseLogisticRegression, 100 warm fits to 1e-2",
}
STAMP = {
    "adelie": "adelie", "lasso_path": "scikit-learn", "lars_path": "scikit-learn", "celer": "celer", "skglm": "skglm",
    "skglm-classes": "skglm",
}  # fmt: skip
REGRESSION = (
    "exact", "exact-engine", "lbi-50", "lbi-engine-50", "lbi-500", "lbi-engine-500", "plain-50", "plain-500", "adelie", "lasso_path",
    "lars_path", "celer", "skglm",
)  # fmt: skip
SMALL = ("exact", "exact-engine", "lbi-50", "lbi-engine-50", "plain-50", "adelie", "lasso_path", "lars_path")
METHODS = {
    "wide": REGRESSION,
    "tall": REGRESSION,
    "logistic": ("lbi-20", "lbi-engine-20", "plain-20", "adelie", "celer", "skglm-classes"),
    **dict.fromkeys(("small-80", "small-200", "small-442"), SMALL),
}
ONCE = ("celer", "skglm", "skglm-classes")
PEER_SECONDS = 300.0
BUDGET, MOST = 6.0, 5  # CPU seconds after which a cell fits no more, and fits at most
PLAIN_SECONDS = 5.0  # CPU seconds of a plain loop, after which its time is extrapolated by the count of iterations
LONGEST = 20.0
#: How many times faster than the plain loop the iterations are to be.
TIMES = {"wide": {"50": 50.0, "500": 200.0}, "logistic": {"20": 40.0}}


# ------------------------------------------------------------------------------------------------------- in a measured process


def repeated(fit: Callable[[], Json]) -> Json:
    """CPU seconds of some fits after one that is not counted, and what the last reached; one fit alone if that takes long."""
    with metered() as first:
        found = fit()
    times: list[float] = []
    while len(times) < MOST and first.cpu + sum(times) < BUDGET and first.cpu < BUDGET / 2:
        with metered() as meter:
            found = fit()
        times.append(meter.cpu)
    return {**found, "cpu": statistics.median(times or [first.cpu]), "times": times, "first": first.cpu}


def peer_cell(problem: str, method: str, repeat: int) -> Json:
    """One peer's path; compiled code is loaded by a small path of the same kind before."""
    del repeat
    warm_X, warm_y = path_problem("small-80")
    PATHS[method](warm_X, np.where(warm_y > 0, 1.0, -1.0) if PROBLEMS[problem].classes else warm_y)
    X, y = path_problem(problem)
    return {**repeated(lambda: PATHS[method](X, y)), "data": checksum(X[:50], y)}


def certifying(source: Any) -> list[float]:
    """CPU seconds of every certification that the source class makes from now on."""
    seconds: list[float] = []
    plain = source.finish

    def finish(self: Any, knots: Any) -> Any:
        with metered() as meter:
            found = plain(self, knots)
        seconds.append(meter.cpu)
        return found

    source.finish = finish
    return seconds


def estimator_cell(problem: str, method: str, repeat: int) -> Json:
    """One of our estimators as a user calls it, without cross-validation, certified; how much of its time certifying took."""
    del repeat
    from tamis import BregmanClassifier, BregmanRegressor, InverseScaleRegressor
    from tamis.linear.damped import DampedSource
    from tamis.linear.exact import ExactSource

    X, y = path_problem(problem)
    classes, exact = PROBLEMS[problem].classes, method == "exact"
    seconds = certifying(ExactSource if exact else DampedSource)
    if exact:
        model: Any = InverseScaleRegressor(max_features=300, choose="last")
    else:  # the estimator's kappa is in units of the target's standard deviation; those of this page are as in the recursion
        kappa = float(method.split("-")[1])
        options = {"kappa": kappa if classes else kappa / float(y.std()), "choose": "last"}
        model = (BregmanClassifier if classes else BregmanRegressor)(**options, t_max=LONGEST * bregman(X, y, classes, kappa).start.t0)

    def fit() -> Json:
        path = model.fit(X, y).path_
        first = next((t for t in path.t if t > 0), 1.0)
        worst = max(certificate.value for certificate in path.certificates)
        return {"knots": len(path) - 1, "size": len(path.knots[-1].atoms), "end": path.t[-1] / first, "certificate": worst}

    found = repeated(fit)
    return {**found, "certify": statistics.median(seconds[1:] or seconds), "data": checksum(X[:50], y)}


def engine_cell(problem: str, method: str, repeat: int) -> Json:
    """The path alone: no checks of input, no certificate, no names."""
    del repeat
    from tamis.core.design import Dense
    from tamis.solvers.duals import ColumnQuadratic, DenseDuals, Duals, GramQuadratic, LazyDuals
    from tamis.solvers.inverse_scale import InverseScale

    X, y = path_problem(problem)
    rows, columns = X.shape

    def exact() -> Json:
        duals: Duals
        if rows < columns:
            duals = LazyDuals(Dense(X), y)
        elif rows * columns <= 2_000_000:
            duals = DenseDuals(ColumnQuadratic(X, y))
        else:
            duals = DenseDuals(GramQuadratic(Dense(X).gram() / rows, X.T @ y / rows, float(np.linalg.norm(y)) / rows**0.5))
        events = list(InverseScale(duals, most=300).events())
        return {"knots": len(events), "size": len(events[-1].support), "end": events[-1].t / events[0].t}

    def iterations() -> Json:
        run = bregman(X, y, PROBLEMS[problem].classes, float(method.rsplit("-", maxsplit=1)[-1]))
        last = next(run.follow([LONGEST * run.start.t0]))
        return {"knots": 1, "size": int((last.theta != 0).sum()), "end": LONGEST, "iterations": last.iteration}

    return {**repeated(exact if method == "exact-engine" else iterations), "data": checksum(X[:50], y)}


def bregman(X: Array, y: Array, classes: bool, kappa: float) -> Any:
    """Our iterations on prepared columns."""
    from tamis.core.design import Dense
    from tamis.core.loss import Logistic, Squared
    from tamis.solvers.bregman import BregmanProblem, LinearizedBregman
    from tamis.structures.gauges import Entry

    rows, columns = X.shape
    loss: Any = Logistic() if classes else Squared()
    problem = BregmanProblem(Dense(X), loss, y[:, None], np.full(rows, 1 / rows), Entry(np.ones(columns)), kappa, intercept=classes)
    return LinearizedBregman(problem)


def plain_cell(problem: str, method: str, repeat: int) -> Json:
    """The recursion as it is written down, for as many iterations as fit into some seconds; compared with ours where it ended.

    Step, start and rates are ours, so that both make the same iterates; timed is what a loop needs for them: one gradient and
    the largest eigenvalue of the smaller product of X with itself.
    """
    del repeat
    X, y = path_problem(problem)
    with metered() as setting_up:
        smaller = X @ X.T if len(y) < X.shape[1] else X.T @ X
        np.linalg.eigvalsh(smaller)
        X.T @ y
    rows, kappa, classes = len(y), float(method.split("-")[1]), PROBLEMS[problem].classes
    run = bregman(X, y, classes, kappa)
    start, alpha, rate = run.start, run.alpha, run.kappa0 * run.alpha
    total, done, cpu = int((LONGEST - 1) * start.t0 / alpha), 0, 0.0
    dual, theta, level = -start.t0 * start.gradient[:, 0], np.zeros(X.shape[1]), float(start.intercept[0])
    while done < total and cpu < PLAIN_SECONDS:
        block = min(total - done, 100)
        with metered() as meter:
            for _ in range(block):
                score = X @ theta + level
                slope = (-y / (1 + np.exp(y * score)) if classes else score - y) / rows
                dual = dual - alpha * (slope @ X)
                level -= rate * slope.sum()
                theta = kappa * (dual - np.clip(dual, -1.0, 1.0))
        done, cpu = done + block, cpu + meter.cpu
    ours = run.iterate(done)
    largest = max(float(np.abs(theta).max()), 1e-300)
    apart = float(np.abs(ours.theta[:, 0] - theta).max()) / largest
    return {
        "cpu": setting_up.cpu + cpu * total / done, "measured": cpu, "iterations": done, "total": total, "knots": done,
        "size": int((theta != 0).sum()), "end": 1 + done * alpha / start.t0, "apart": apart,
        "same": bool(np.array_equal(ours.theta[:, 0] != 0, theta != 0)), "data": checksum(X[:50], y),
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- the page


def cell_of(problem: str, method: str, repeat: int) -> Cell:
    """How one method is measured."""
    arguments = {"problem": problem, "method": method, "repeat": repeat}
    if method in STAMP:
        return Cell("paths", "peer_cell", arguments, (STAMP[method],), True, limit=PEER_SECONDS)
    if method.startswith("plain"):
        return Cell("paths", "plain_cell", arguments, ("tamis", "numpy"))
    return Cell("paths", "engine_cell" if "engine" in method else "estimator_cell", arguments, ("tamis",))


Found = dict[str, list[Json]]  # results of one problem by method, in the order of the blocks


def results(block_records: list[list[Json]]) -> Found:
    """What every method gave on one problem."""
    found: Found = {}
    for block in block_records:
        for record in block:
            if "result" in record:
                found.setdefault(record["cell"]["method"], []).append({**record["result"], "repeat": record["cell"]["repeat"]})
    return found


def median(rows: list[Json], name: str) -> float:
    """Median over blocks."""
    return statistics.median(float(row[name]) for row in rows)


def ratio(found: Found, above: str, below: str) -> float | None:
    """Median over blocks of one method's time over another's."""
    below_at = {row["repeat"]: row["cpu"] for row in found.get(below, []) if "cpu" in row}
    pairs = [row["cpu"] / below_at[row["repeat"]] for row in found.get(above, []) if "cpu" in row and row["repeat"] in below_at]
    return statistics.median(pairs) if pairs else None


def line(method: str, rows: list[Json], found: Found) -> list[str]:
    """One method's line of a problem's table."""
    if any("stopped" in row for row in rows):
        return [LABELS[method], f"stopped after {rows[0]['stopped']:.0f} s (wall)", *["-"] * 6]
    beside = ratio(found, method, "adelie")
    plain = method.startswith("plain")
    extrapolated = plain and rows[0]["iterations"] < rows[0]["total"]
    note = f"{rows[0]['iterations']:,} of {rows[0]['total']:,} iterations" if plain else f"{rows[0]['knots']:,}"
    seconds = f"{median(rows, 'cpu'):.3g}" + (" (extrapolated)" if extrapolated else "")
    certified = ["-", "-"]
    if "certificate" in rows[0]:
        certified = [f"{max(row['certificate'] for row in rows):.0e}", f"{median(rows, 'certify'):.3f}"]
    return [
        LABELS[method],
        seconds,
        "-" if beside is None else f"{beside:.2f}",
        note,
        f"{rows[0]['size']:,}",
        f"{rows[0]['end']:.3g}",
        *certified,
    ]


def problem_text(problem: str, found: Found, goals: list[str]) -> str:
    """One problem's table, what the plain loop says of the iterates, and the goals."""
    ordered = [method for method in METHODS[problem] if method in found]
    header = ["method", "CPU s", "x adelie", "knots", "variables at the end", "end over start", "certificate", "of it certifying, CPU s"]
    text = f"## {PROBLEMS[problem].label}\n\n" + table(header, [line(method, found[method], found) for method in ordered]) + "\n"
    for method in (method for method in ordered if method.startswith("plain")):
        apart, same = max(row["apart"] for row in found[method]), all(row["same"] for row in found[method])
        last = max(row["iterations"] for row in found[method])
        text += (
            f"\nIterate {last:,} of the plain loop with kappa {method.split('-')[1]} and ours: {apart:.0e} apart relative to the largest "
            f"coefficient, supports {'equal' if same else '**differ**'}.\n"
        )
        goals.append(verdict(f"{problem}, kappa {method.split('-')[1]}: distance of iterates", apart, 1e-10, "{:.0e}"))
    goals.extend(goals_of(problem, found))
    return text


def goals_of(problem: str, found: Found) -> list[str]:
    """The goals of a problem, line by line."""
    out = []

    def add(what: str, value: float | None, limit: float, form: str, above: bool = False) -> None:
        if value is not None:
            out.append(verdict(f"{problem}, {what}", value, limit, form, above))

    if problem == "wide":
        add("exact path to 300 variables over adelie's 100 penalties", ratio(found, "exact", "adelie"), 1.5, "{:.2f}")
    for kappa, least in TIMES.get(problem, {}).items():
        for name, what in ((f"lbi-{kappa}", "estimator, 100 models, certified"), (f"lbi-engine-{kappa}", "engine, the same iterates")):
            add(f"kappa {kappa}: plain loop over LBI ({what})", ratio(found, f"plain-{kappa}", name), least, "{:.0f}", above=True)
    if problem.startswith("small"):
        add("LBI (engine, the same iterates) over plain loop, kappa 50", ratio(found, "lbi-engine-50", "plain-50"), 1, "{:.2f}")
        add("LBI (estimator, 100 models, certified) over plain loop, kappa 50", ratio(found, "lbi-50", "plain-50"), 1, "{:.2f}")
    claims = [row["certificate"] for rows in found.values() for row in rows if "certificate" in row]
    add("worst certificate", max(claims, default=None), 1e-8, "{:.0e}")
    return out


def verdict(what: str, value: float, limit: float, form: str, above: bool = False) -> str:
    """One goal, reached or not."""
    reached = value >= limit if above else value <= limit
    return f"- {what}: {form.format(value)}, goal {'>=' if above else '<='} {limit:g}: {'reached' if reached else '**not reached**'}"


NOTE = """Columns are centred and of mean square 1, one thread. A fit that is not counted comes first; then up to five are, and the median
is taken, and that over blocks. The work is not equal: other estimators, tolerances (every library's default) and path ends; ours end
at 300 variables or at 20 times the first entry's time, theirs at a hundredth of the largest penalty. "End over start" is the last time
over the first, or the largest penalty over the last. Estimators' times include checking input, keeping LBI's 100 models, and certifying."""


def main() -> None:
    """Run or continue the benchmark and write its page."""
    parser = options("CPU time of whole paths.")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", default=list(LABELS), choices=list(LABELS))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    runner = Runner("paths", arguments.cache, arguments.again, arguments.stale, arguments.seconds, LINEAR)
    keys, blocks = [], []
    for problem in arguments.problems:
        wanted = [method for method in METHODS[problem] if method in arguments.methods]
        often = [method for method in wanted if method not in ONCE]
        for repeat in range(arguments.repeats):
            keys.append(problem)
            blocks.append(tuple(cell_of(problem, method, repeat) for method in often))
        keys.extend([problem] * (len(wanted) - len(often)))
        blocks.extend((cell_of(problem, method, 0),) for method in wanted if method in ONCE)
    records = runner.run(blocks)
    text = preamble("Whole paths", runner, NOTE)
    goals: list[str] = []
    for problem in arguments.problems:
        found = results([block for key, block in zip(keys, records, strict=True) if key == problem])
        if len({row["data"] for rows in found.values() for row in rows if "data" in row}) > 1:
            raise SystemExit(f"The cells of {problem} saw different data, so they cannot be compared; use one numpy generator for all.")
        text += "\n" + problem_text(problem, found, goals)
    errors = [f"Failed: {record['cell']}: {record['error']}" for block in records for record in block if "error" in record]
    text += "\n## Goals\n\n" + "\n".join(goals) + "\n" + "".join(f"\n{error}" for error in errors)
    write("paths", arguments.out, {"versions": runner.versions(), "cells": [record for block in records for record in block]}, text)


if __name__ == "__main__":
    main()
