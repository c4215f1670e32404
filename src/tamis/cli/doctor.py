"""`tamis doctor`: what this installation is made of, what it can do, and whether it works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from tamis.cli.boundary import OK, USER_ERROR

NEEDED = ("numpy", "scipy", "scikit-learn", "numba", "narwhals", "pyarrow", "typer", "rich", "jinja2", "matplotlib")
OPTIONAL = {
    "pandas": "frames in and out",
    "polars": "frames in and out",
    "duckdb": "reading DuckDB files (tamis[sql])",
    "sqlglot": "SQL dialects (tamis[sql])",
    "onnx": "exporting ONNX (tamis[onnx])",
    "onnxruntime": "running ONNX (tamis[onnx])",
    "torch": "pruning networks (tamis[torch])",
    "dask": "clusters (tamis[scale])",
    "music21": "chorales (tamis[music])",
}


def version() -> str:
    """The installed version, without importing anything heavy."""
    from tamis import __version__

    return __version__


def examine() -> int:
    """Print what there is, and run a short fit; exit code 1 when something needed is missing or wrong."""
    typer.echo(f"tamis {version()} on Python {sys.version.split()[0]} ({sys.platform}), {os.cpu_count()} cores")
    broken = [line for line in _needed() if line]
    typer.echo("Optional parts:")
    for name, use in OPTIONAL.items():
        typer.echo(f"  {name} {_version_of(name) or 'not installed'}: {use}")
    for check in (_numba_cache, _threads, _kernels, _terminal, self_test):
        try:
            typer.echo(check())
        except Exception as error:  # noqa: BLE001 - a doctor reports every ailment and goes on
            broken.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
    for line in broken:
        typer.secho(f"Wrong: {line}", err=True)
    typer.echo("Nothing wrong was found." if not broken else f"{len(broken)} things are wrong.")
    return USER_ERROR if broken else OK


def _needed() -> Iterator[str]:
    """One line per dependency; what is yielded is what is missing."""
    found = {name: _version_of(name) for name in NEEDED}
    typer.echo("Needed parts: " + ", ".join(f"{name} {held or 'MISSING'}" for name, held in found.items()))
    for name, held in found.items():
        yield "" if held else f"{name} is not installed, so parts of tamis fail; install tamis again with pip."


def _version_of(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numba_cache() -> str:
    """Compiled kernels are kept beside the package, or in a folder of the user's."""
    import tamis

    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(given) if given else Path(tamis.__file__).parent / "kernels" / "__pycache__"
    if _writable(beside):
        return f"Compiled kernels are kept in {beside}"
    own = Path.home() / ".cache" / "numba"
    if _writable(own):
        return f"Compiled kernels are kept in {own}"
    return (
        "No folder for compiled kernels is writable: each process compiles anew (about a second); set NUMBA_CACHE_DIR to a writable folder."
    )


def _writable(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that exists, can be written to."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def _threads() -> str:
    import numpy  # noqa: F401 - loads the linear algebra whose threads are counted
    import scipy.linalg  # noqa: F401

    threadpool_info: Any = import_module("threadpoolctl").threadpool_info
    found = [
        " ".join(f"{pool['internal_api']} {pool.get('version') or ''}".split()) + f" with {pool['num_threads']} threads"
        for pool in threadpool_info()
    ]
    return "Linear algebra: " + (", ".join(dict.fromkeys(found)) or "no threaded library found")


def _kernels() -> str:
    from tamis.kernels.dispatch import kernels_in_use

    forced = os.environ.get("TAMIS_KERNELS")
    return f"Kernels: {kernels_in_use()} at first" + (
        f" (TAMIS_KERNELS={forced})" if forced else ", compiled ones when the work is worth it"
    )


def _terminal() -> str:
    return f"Terminal: {'yes' if sys.stdout.isatty() else 'no'}, encoding {sys.stdout.encoding}"


def self_test() -> str:
    """Learn the winning lines of tic-tac-toe, save, load, predict the same, and ask for a second opinion."""
    import tempfile

    import numpy as np

    from tamis import load
    from tamis.cli.demos import lines_model, propositions

    started = time.monotonic()
    columns, wins = propositions()
    model = lines_model().fit(columns, wins)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "self-test.tamis")
        model.save(file)
        again: Any = load(file)
    checks: dict[str, Callable[[], Any]] = {
        "the certificate does not hold": lambda: model.certificate_.holds,
        "the boards are not all predicted": lambda: np.array_equal(model.predict(columns), np.asarray(wins)),
        "the loaded model predicts otherwise": lambda: np.array_equal(again.decision_function(columns), model.decision_function(columns)),
        "the second opinion refutes it": lambda: (
            not again.certificate_.recheck(columns, np.asarray(wins), schema_dict=again.schema_.to_dict()).refuted
        ),
    }
    for complaint, passed in checks.items():
        if not passed():
            raise AssertionError(f"in the self-test {complaint}")
    return f"Self-test: learned, certified, saved, loaded and verified in {time.monotonic() - started:.1f} s"
