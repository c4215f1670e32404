"""Running the command line in tests: in this process where that is enough, in another one where it is not."""

import os
import subprocess
import sys
from pathlib import Path

from tamis.cli.boundary import run

SOURCES = str(Path(__file__).parent.parent / "src")
HEADER = "tenure,contract,charge,churn"


def call(*words):
    """The exit code of a command, run in this process."""
    from tamis.cli.app import app

    return run(lambda: app(args=[str(word) for word in words], prog_name="tamis", standalone_mode=False))


def environment(**more):
    return os.environ | {"PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "COLUMNS": "160"} | more


def command(*words):
    return [sys.executable, "-m", "tamis", *map(str, words)]


def process(*words, folder=None, **more):
    """A finished command in a process of its own."""
    return subprocess.run(command(*words), capture_output=True, text=True, cwd=folder, env=environment(**more), timeout=120, check=False)


def one_sentence(said):
    """Whether what stands on stderr is one sentence and no traceback."""
    said = said.strip()
    return bool(said) and "\n" not in said and "Traceback" not in said and said[-1] in ".?!p"  # a usage error ends in --help


def churn(rows=240):
    """A table with text, whole numbers, decimals and missing cells, whose rule is known."""
    lines = [HEADER]
    for i in range(rows):
        tenure, monthly, charge = (i * 7) % 37, i % 3 == 0, (i * 13) % 50 / 2
        leaves = monthly and tenure <= 11
        lines.append(f"{'' if i % 29 == 5 else tenure},{'monthly' if monthly else 'yearly'},{charge},{'yes' if leaves else 'no'}")
    return "\n".join(lines) + "\n"
