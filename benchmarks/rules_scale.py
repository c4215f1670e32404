"""Speed, memory and accuracy of rule fits as the table grows, against RuleFit in the same minutes.

    python benchmarks/rules_scale.py [--parts sizes path million first import]

The planted generator gives 12 uniform columns and a target made of a rule of two, one of three and one of one
condition plus noise; 96 literals come from fixed cuts at .2 .4 .6 .8 in both directions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from methods import Fitted, fit_l1, fit_lightgbm, fit_rulefit, fit_tamis, tamis_model, tamis_size
from runner import Cell, Json, Runner, metered, options, peak_memory, preamble, table, write

CUTS = [0.2, 0.4, 0.6, 0.8]
OPTIONS = {"rho": 1.1, "growth": 2.0, "max_length": 3, "loss": "logistic", "tolerance": 0.01}
PARTS = ("sizes", "path", "million", "first", "import")
SIZES = {
    "tamis": "tamis, 96 literals",
    "rulefit": "RuleFit (defaults)",
    "tamis-8cuts": "tamis, 8 quantile cuts",
    "lightgbm": "LightGBM (defaults)",
    "l1": "L1 on the 96 literals",
}
#: Which installed package stamps a cell.
STAMP = {"rulefit": "imodels", "lightgbm": "lightgbm", "l1": "scikit-learn"}


# ------------------------------------------------------------------------------------------------------- in a measured process


def fit_by_name(method: str, frame: Any, y: Any, C: float) -> Fitted:
    """One fit of the size table."""
    if method == "tamis":
        return fit_tamis(frame, y, 0, C=C, cuts=CUTS, **OPTIONS)
    if method == "tamis-8cuts":
        return fit_tamis(frame, y, 0, C=C, n_cuts=8, **OPTIONS)
    if method == "rulefit":
        return fit_rulefit(frame, y, 0)
    if method == "lightgbm":
        return fit_lightgbm(frame, y, 0, grid={})
    return fit_l1(frame, y, 0, cuts=CUTS, grid=[0.01, 0.1, 1.0])


@contextmanager
def compiled() -> Iterator[None]:
    """Our compiled code is loaded inside, however small the fit is, and used from then on."""
    os.environ["TAMIS_KERNELS"] = "numba"
    try:
        yield
    finally:
        del os.environ["TAMIS_KERNELS"]


def size_cell(method: str, rows: int, state: int, C: float) -> Json:
    """One method at one size: a small fit first (libraries, compiled code), then the measured one, then fresh rows."""
    from sklearn.metrics import roc_auc_score

    from datasets import planted

    with compiled():
        fit_by_name(method, *planted(500, 7), C)
    frame, y = planted(rows, state)
    before = peak_memory()
    with metered() as meter:
        fitted = fit_by_name(method, frame, y, C)
    peak = peak_memory()
    test, truth = planted(5000, 10_000 + state)
    many = planted(200_000, 1)[0]
    with metered() as predicting:
        fitted.predict(many)
    return {
        "cpu": meter.cpu, "wall": meter.wall, "peak": peak, "before": before, "auc": roc_auc_score(truth, fitted.score(test)),
        "rules": fitted.rules, "length": fitted.length, "rows_per_second": len(many) / max(predicting.cpu, 1e-9), **fitted.notes,
    }  # fmt: skip


def path_cell(rows: int, knots: int, state: int) -> Json:
    """A path of so many C, then one fit at its largest C, both warm, both without folds."""
    from datasets import planted

    frame, y = planted(rows, state)
    shared = {**OPTIONS, "cuts": CUTS, "max_rules": None}
    with compiled():
        tamis_model(**shared, C=1.0).fit(*planted(500, 7))
    with metered() as along:
        model = tamis_model(**shared, choose="ebic", n_path=knots).fit(frame, y)
    path = model.path_
    largest = float(max(path.t))
    with metered() as single:
        alone = tamis_model(**shared, C=largest).fit(frame, y)
    return {
        "path_cpu": along.cpu, "single_cpu": single.cpu, "knots": len(path), "largest": largest, "status": path.status,
        "certified": sum(certificate.gap <= 0.01 for certificate in path.certificates), "rules": len(path.knots[-1].atoms),
        "single_gap": alone.certificate_.gap, "single_hull": alone.certificate_.scope.held,
    }  # fmt: skip


def make_parquet(file: str, rows: int, columns: int) -> None:
    """Write the planted table with its target, block by block."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from datasets import planted_target

    rng, names, writer = np.random.default_rng(3), [f"x{i}" for i in range(columns)], None
    for start in range(0, rows, 50_000):
        X = rng.random((min(50_000, rows - start), columns))
        block = pa.table({**{name: X[:, i] for i, name in enumerate(names)}, "y": planted_target(X, rng)})
        writer = writer or pq.ParquetWriter(file, block.schema)
        writer.write_table(block)
    if writer is not None:
        writer.close()


def million_cell(rows: int, columns: int, C: float, max_length: int, n_cuts: int) -> Json:
    """Read a Parquet file and fit; the file is written by another process, so the peak is that of reading and fitting."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "table.parquet")
        subprocess.run([sys.executable, "-c", f"import rules_scale; rules_scale.make_parquet({file!r}, {rows}, {columns})"], check=True)
        megabytes = Path(file).stat().st_size / 1e6
        with metered() as meter:
            data = pq.read_table(file)
            y = data.column("y").to_numpy()
            model = tamis_model(**{**OPTIONS, "max_length": max_length}, C=C, n_cuts=n_cuts).fit(data.drop_columns(["y"]), y)
    rules, length, notes = tamis_size(model)
    return {
        "cpu": meter.cpu, "wall": meter.wall, "peak": peak_memory(), "file_mb": megabytes, "rules": rules, "length": length,
        "literals": len(model.schema_.literals), **notes,
    }  # fmt: skip


def first_fit(setting: str) -> None:
    """What a new process does: import, make the estimator, fit 1 000 rows of 30 columns; prints its own times."""
    from datasets import planted

    frame, y = planted(1000, 0, 30)
    with metered() as importing:
        model = tamis_model(**({"C": 1.0} if setting == "one C" else {}))
    with metered() as fitting:
        model.fit(frame, y)
    out = {"fit_wall": fitting.wall, "fit_cpu": fitting.cpu, "import_wall": importing.wall, "import_cpu": importing.cpu}
    print(json.dumps({**out, "numba": "numba" in sys.modules, "gap": model.certificate_.gap}))


def first_cell(setting: str, repeat: int) -> Json:
    """The whole of a first fit, from starting Python to its end, with an empty cache of compiled code."""
    del repeat
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-c", f"import rules_scale; rules_scale.first_fit({setting!r})"]
        with metered() as meter:
            done = subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, capture_output=True, text=True, check=True)
    return {"process_cpu": meter.cpu, "process_wall": meter.wall, **json.loads(done.stdout.splitlines()[-1])}


def import_cell(count: int) -> Json:
    """Milliseconds that `import tamis` adds to starting Python, and of `tamis --help`; the best of alternating runs."""

    def times(*command: str) -> tuple[float, float]:
        with metered() as meter:
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
        return 1000 * meter.wall, 1000 * meter.cpu

    commands = {"bare": ("-c", "pass"), "import": ("-c", "import tamis"), "help": ("-m", "tamis", "--help")}
    runs = [{name: times(*command) for name, command in commands.items()} for _ in range(count)]
    best = {(name, kind): min(run[name][kind] for run in runs) for name in commands for kind in (0, 1)}
    probe = "import sys, tamis; print(*[name for name in ('numpy', 'scipy', 'sklearn', 'numba', 'pandas') if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout.split()
    return {
        "import_ms": best["import", 0] - best["bare", 0], "import_cpu_ms": best["import", 1] - best["bare", 1],
        "help_ms": best["help", 0], "help_cpu_ms": best["help", 1], "loaded": loaded,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- the page


def blocks_of(arguments: Any) -> list[tuple[str, tuple[Cell, ...]]]:
    """Every part's blocks; us and RuleFit of one size and repeat are one block."""
    blocks: list[tuple[str, tuple[Cell, ...]]] = []

    def add(part: str, *cells: tuple[str, Json, str]) -> None:
        if part in arguments.parts:
            packed = (Cell("rules_scale", name, values, (stamp,), stamp != "tamis") for name, values, stamp in cells)
            blocks.append((part, tuple(packed)))

    add("import", ("import_cell", {"count": 15}, "tamis"))
    for setting in ("one C", "defaults"):
        for repeat in range(arguments.repeats):
            add("first", ("first_cell", {"setting": setting, "repeat": repeat}, "tamis"))
    for state in range(arguments.repeats):
        for rows in arguments.sizes:
            wanted = [{"method": name, "rows": rows, "state": state, "C": arguments.C} for name in arguments.methods]
            add("sizes", *(("size_cell", values, STAMP.get(values["method"], "tamis")) for values in wanted))
    for rows in (2000, 10_000):
        for state in range(arguments.repeats):
            add("path", ("path_cell", {"rows": rows, "knots": 20, "state": state}, "tamis"))
    rows, columns = arguments.million
    settings = {"C": arguments.million_C, "max_length": arguments.million_length, "n_cuts": arguments.million_cuts}
    add("million", ("million_cell", {"rows": rows, "columns": columns, **settings}, "tamis"))
    return blocks


def by_arguments(records: list[list[Json]], *names: str) -> dict[tuple[Any, ...], list[Json]]:
    """Results of successful cells grouped by some of their arguments."""
    grouped: dict[tuple[Any, ...], list[Json]] = {}
    for record in (record for block in records for record in block if "result" in record):
        grouped.setdefault(tuple(record["cell"].get(name) for name in names), []).append(record["result"])
    return grouped


def median(rows: list[Json], name: str) -> float:
    """Median of one measure."""
    return statistics.median(float(row[name]) for row in rows)


def ratios(records: list[list[Json]], rows: int, name: str) -> list[float]:
    """Ours over RuleFit's, block by block."""
    out = []
    for block in records:
        found = {record["cell"]["method"]: record["result"] for record in block if "result" in record and record["cell"]["rows"] == rows}
        if "tamis" in found and "rulefit" in found:
            out.append(found["tamis"][name] / found["rulefit"][name])
    return out


def sizes_text(records: list[list[Json]], goals: list[str]) -> str:
    """The size table and its goals."""
    grouped, lines = by_arguments(records, "rows", "method"), []
    for (rows, method), found in sorted(grouped.items(), key=lambda item: (item[0][0], list(SIZES).index(item[0][1]))):
        ours = method.startswith("tamis")
        ratio = ratios(records, rows, "cpu") if method == "tamis" else []
        gap = f"{max(row['gap'] for row in found):.2%}" if ours else "-"
        gain = f"{min(row['gain_share'] for row in found):.1%}" if ours else "-"
        lines.append([
            f"{rows:,}", SIZES[method], gap, gain, f"{median(found, 'hull'):.0f}" if ours else "-", f"{median(found, 'rules'):.0f}",
            f"{median(found, 'length'):.2f}", f"{median(found, 'auc'):.4f}", f"{median(found, 'cpu'):.2f}",
            f"{statistics.median(ratio):.2f}" if ratio else "-", f"{median(found, 'peak'):.0f}",
            f"{median(found, 'rows_per_second') / 1e6:.2f}",
        ])  # fmt: skip
        if method == "tamis":
            goals.append(verdict(f"certified at 1 % at {rows:,} rows (worst gap)", max(row["gap"] for row in found), 0.01, "{:.4f}"))
            limit = {10_000: 0.5, 100_000: 1.0}.get(rows)
            if limit is not None and ratio:
                goals.append(verdict(f"CPU time over RuleFit's at {rows:,} rows", statistics.median(ratio), limit, "{:.2f}"))
            if rows == 100_000:
                goals.append(verdict("peak memory at 100,000 rows, MB", median(found, "peak"), 1024, "{:.0f}"))
    header = [
        "rows",
        "method",
        "gap",
        "gain share",
        "hull",
        "rules",
        "length",
        "test AUC",
        "CPU s",
        "x RuleFit",
        "peak MB",
        "predict M rows/s",
    ]
    return "## Growing tables\n\n" + table(header, lines) + "\n\nGap: the worst of the repeats; other numbers are medians.\n"


def path_text(records: list[list[Json]], goals: list[str]) -> str:
    """A path against one fit."""
    lines = []
    for (rows,), found in sorted(by_arguments(records, "rows").items()):
        ratio = statistics.median(row["path_cpu"] / row["single_cpu"] for row in found)
        knots = f"{median(found, 'knots'):.0f} ({found[0]['status']})"
        certified = min(row["certified"] / row["knots"] for row in found)
        lines.append([
            f"{rows:,}", knots, f"{certified:.0%}", f"{median(found, 'largest'):.3g}", f"{median(found, 'path_cpu'):.2f}",
            f"{median(found, 'single_cpu'):.2f}", f"{ratio:.2f}",
        ])  # fmt: skip
        goals.append(verdict(f"path of 20 over one fit at the largest C, {rows:,} rows", ratio, 4.0, "{:.2f}"))
    header = ["rows", "knots", "knots certified", "largest C", "path CPU s", "one fit CPU s", "ratio"]
    return "## A path of 20 values of C\n\n" + table(header, lines) + "\n"


def million_text(records: list[list[Json]], goals: list[str]) -> str:
    """The Parquet table."""
    lines = []
    for record in (record for block in records for record in block if "result" in record):
        cell, found = record["cell"], record["result"]
        lines.append([
            f"{cell['rows']:,} x {cell['columns']}", found["literals"], cell["max_length"], cell["C"], f"{found['gap']:.2%}",
            f"{found['gain_share']:.1%}", found["hull"], f"{found['rules']:.0f}", f"{found['cpu']:.1f}", f"{found['wall']:.1f}",
            f"{found['peak']:.0f}", f"{found['file_mb']:.0f}",
        ])  # fmt: skip
        goals.append(verdict(f"peak memory for {cell['rows']:,} x {cell['columns']} from Parquet, MB", found["peak"], 4096, "{:.0f}"))
    header = ["table", "literals", "length", "C", "gap", "gain share", "hull", "rules", "CPU s", "wall s", "peak MB", "file MB"]
    return "## From a Parquet file\n\n" + table(header, lines) + "\n"


def first_text(records: list[list[Json]], goals: list[str]) -> str:
    """First fits in new processes."""
    lines = []
    for (setting,), found in sorted(by_arguments(records, "setting").items(), reverse=True):
        names = ("fit_wall", "fit_cpu", "import_wall", "process_wall", "process_cpu")
        lines.append([setting, *(f"{median(found, name):.2f}" for name in names), "yes" if any(row["numba"] for row in found) else "no"])
        if setting == "one C":
            goals.append(verdict("first fit on 1,000 x 30, cold, s", min(row["fit_wall"] for row in found), 1.5, "{:.2f}"))
    header = ["setting", "fit wall s", "fit CPU s", "imports of tamis s", "whole process wall s", "whole process CPU s", "numba loaded"]
    return (
        "## First fit on 1 000 x 30 in a new process, no compiled code cached\n\n"
        + table(header, lines)
        + "\n\nMedians; the goal is judged by the best run of one fit. The defaults make up to 20 fits and as many in each of 5 folds.\n"
    )


def import_text(records: list[list[Json]], goals: list[str]) -> str:
    """Import and help."""
    (found,) = (record["result"] for block in records for record in block)
    goals.append(verdict("import tamis, ms", found["import_ms"], 30, "{:.1f}"))
    goals.append(verdict("tamis --help, ms", found["help_ms"], 400, "{:.0f}"))
    return (
        f"## Starting\n\n`import tamis` adds {found['import_ms']:.1f} ms ({found['import_cpu_ms']:.1f} ms CPU) and loads "
        f"{', '.join(found['loaded']) or 'none of numpy, scipy, sklearn, numba, pandas'}; `tamis --help` takes {found['help_ms']:.0f} ms "
        f"({found['help_cpu_ms']:.0f} ms CPU). Best of the runs: what else the machine does only adds.\n"
    )


def verdict(what: str, value: float, limit: float, form: str) -> str:
    """One goal, reached or not."""
    return f"- {what}: {form.format(value)}, goal <= {limit:g}: {'reached' if value <= limit else '**not reached**'}"


def main() -> None:
    """Run or continue the benchmark and write its page."""
    parser = options("Speed and memory of tamis against RuleFit.")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[500, 2000, 10_000, 100_000])
    parser.add_argument("--methods", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--C", type=float, default=20.0)
    parser.add_argument("--million", nargs=2, type=int, default=[1_000_000, 100], metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--million-C", type=float, default=0.2)
    parser.add_argument("--million-length", type=int, default=2)
    parser.add_argument("--million-cuts", type=int, default=4)
    arguments = parser.parse_args()
    runner = Runner("rules_scale", arguments.cache, arguments.again, arguments.stale, arguments.seconds)
    blocks = blocks_of(arguments)
    records = runner.run([block for _, block in blocks])
    text = preamble(
        "Rules as tables grow", runner, f"Planted rules; rho 1.1, growth 2, at most 3 conditions, logistic loss, C = {arguments.C:g}."
    )
    goals: list[str] = []
    writers = {"sizes": sizes_text, "path": path_text, "million": million_text, "first": first_text, "import": import_text}
    for part in PARTS:
        own = [record for (name, _), record in zip(blocks, records, strict=True) if name == part]
        if any("result" in record for block in own for record in block):
            text += "\n" + writers[part](own, goals)
    errors = [f"Failed: {record['cell']}: {record['error']}" for block in records for record in block if "error" in record]
    text += "\n## Goals\n\n" + "\n".join(goals) + "\n" + "".join(f"\n{error}" for error in errors)
    write("rules_scale", arguments.out, {"versions": runner.versions(), "cells": [record for block in records for record in block]}, text)


if __name__ == "__main__":
    main()
