"""What importing costs, and what the package promises by name."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import tamis

SOURCE = str(Path(tamis.__file__).resolve().parent.parent)
HEAVY = {
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "narwhals",
    "duckdb",
    "onnx",
    "sqlglot",
    "jinja2",
}
LISTING = "import atexit, json, sys; atexit.register(lambda: sys.stderr.write(json.dumps(sorted(sys.modules))))\n"
MODULES = sorted(module.name for module in pkgutil.walk_packages(tamis.__path__, "tamis.") if not module.name.endswith("__main__"))


def run(code: str, *arguments: str) -> tuple[str, set[str], float]:
    """Output, loaded top-level modules and CPU seconds of a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", LISTING + code, *arguments], capture_output=True, text=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, {name.split(".")[0] for name in json.loads(done.stderr)}, seconds


def test_import_is_quick_and_loads_nothing_heavy() -> None:
    code = "import time; start = time.process_time(); import tamis; print(time.process_time() - start)"
    runs = [run(code) for _ in range(7)]
    assert not runs[0][1] & HEAVY
    assert min(float(output) for output, _, _ in runs) <= 0.030


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['tamis', '--help']\nfrom tamis.cli.app import main\nmain()"
    runs = [run(code) for _ in range(5)]
    assert "demo" in runs[0][0]
    assert not runs[0][1] & HEAVY
    assert min(seconds for _, _, seconds in runs) <= 0.4


def test_the_listing_sees_heavy_modules() -> None:
    assert HEAVY & run("import numpy")[1] == {"numpy"}


def test_public_names_are_listed() -> None:
    assert set(tamis.__all__) <= set(dir(tamis))
    assert len(set(tamis.__all__)) == len(tamis.__all__) > 0
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tamis.no_such_name


@pytest.mark.parametrize("name", tamis.__all__)
def test_public_names_resolve_and_show_an_example(name: str) -> None:
    thing = getattr(tamis, name)
    if not (inspect.isclass(thing) or callable(thing)):
        return
    text = inspect.getdoc(thing) or ""
    assert thing.__doc__, f"{name} has no docstring of its own"
    assert "Examples\n--------\n" in text, f"{name} shows no example"
    assert ">>> " in text.split("Examples\n--------\n")[1]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may write files
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    outcome = doctest.testmod(importlib.import_module(module), optionflags=options)
    assert outcome.failed == 0
