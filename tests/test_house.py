"""The house rules that no linter knows: sizes, cycles, doors, and text that has no place in a repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tamis"
MODULES = sorted(PACKAGE.rglob("*.py"))
PYTHON = [*MODULES, *(path for folder in ("tests", "benchmarks", "docs") for path in sorted((ROOT / folder).rglob("*.py")))]

MODULE_LINES, FUNCTION_LINES = 400, 60

# Assembled from pieces, so that this file does not hold what it forbids.
FORBIDDEN = {
    "a machine's path": re.compile("|".join(("/" + "work/", "/tmp/" + "venv", "/home/" + r"\w+/", "/Users" + r"/\w+/"))),
    "a file outside the repository": re.compile(r"(?:^|[^\w-])shared" + "/"),
    "a registry's host": re.compile(
        "|".join(("pypi" + r"\.org", "python" + r"hosted\.org", "anaconda" + r"\.(?:org|com)", "test\\." + "pypi"))
    ),
}
TEXT = {".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".json", ".html", ".css", ".js", ".sh", ".cfg", ".txt", ".j2", ".jinja", ""}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {dotted(path): path for path in MODULES}


def imported(node: ast.AST, module: str, lazy: bool) -> Iterator[str]:
    """Dotted names imported below node; inside functions only when lazy; never those for the type checker."""
    package = module if NAMES[module].stem == "__init__" else module.rpartition(".")[0]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - child.level + 1]) if child.level else ""
            base = ".".join(part for part in (base, child.module) if part)
            yield from (f"{base}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for rest in child.orelse:
                yield from imported(rest, module, lazy)
        elif lazy or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(child, module, lazy)


def own(module: str, lazy: bool) -> set[str]:
    """Modules of tamis that a module imports."""
    names = imported(tree_of(NAMES[module]), module, lazy)
    found = (next((name for name in (full, full.rpartition(".")[0]) if name in NAMES), None) for full in names)
    return {name for name in found if name is not None and name != module}


def reached(start: str, lazy: bool) -> set[str]:
    """Everything of tamis that importing a module pulls in, itself left out unless a cycle leads back to it."""
    seen: set[str] = set()
    front = [start]
    while front:
        new = own(front.pop(), lazy) - seen
        seen |= new
        front += new
    return seen


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_fit_on_a_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long, f"over {FUNCTION_LINES} lines: {long}"
    assert text.count("\n") <= MODULE_LINES


def test_no_import_cycle() -> None:
    assert not [module for module in NAMES if module in reached(module, lazy=False)]


def test_every_module_says_what_it_is_for() -> None:
    silent = [module for module, path in NAMES.items() if len(ast.get_docstring(tree_of(path)) or "") < 10]
    assert not silent


def test_recheck_shares_no_code_with_what_it_checks() -> None:
    # import-linter forbids what is known today; this also forbids what will be written tomorrow.
    parts = {name for name in NAMES if name.startswith("tamis.rules.recheck")}
    allowed = {"tamis.core.certificate", "tamis.core.errors", "tamis.core.literal"}
    assert "tamis.rules.recheck" in parts
    assert set().union(*(reached(part, lazy=True) for part in parts)) <= parts | allowed


def names_modules(tree: ast.Module) -> bool:
    """True when a module names others of ours in strings and imports by name."""
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    calls = {node.id if isinstance(node, ast.Name) else node.attr for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}
    return bool(calls & {"import_module", "__import__"}) and any(re.fullmatch(r"tamis(\.\w+)+(:\w+)?", text) for text in strings)


def test_layers_have_no_hidden_doors() -> None:
    # An import by name is one that import-linter cannot see. These are all there are: the lazy public names, the exports by
    # language, the file that finds its class, and the two methods that go up to the report (`Path.plot`, `model.report`).
    doors = {"tamis", "tamis.store.export", "tamis.store.load", "tamis.core.path", "tamis.store.kept"}
    assert {module for module in NAMES if names_modules(tree_of(NAMES[module]))} == doors


def tracked() -> list[Path]:
    """Files under version control, or, in a source archive, every file beside the hidden and built ones."""
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]
    built = {"site", "dist", "build", "__pycache__"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(part.startswith(".") or part in built for part in path.relative_to(ROOT).parts)
    ]


def test_no_text_that_only_makes_sense_on_one_machine() -> None:
    found = []
    for path in tracked():
        if path.suffix not in TEXT:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {what}" for what, pattern in FORBIDDEN.items() if pattern.search(line)]
    assert not found


def test_nothing_is_ever_unpickled() -> None:
    banned = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "skops"}
    found = {
        module: sorted(banned & {name.split(".")[0] for name in imported(tree_of(NAMES[module]), module, lazy=True)}) for module in NAMES
    }
    assert not {module: names for module, names in found.items() if names}
    loaders = [module for module, path in NAMES.items() if re.search(r"allow_pickle\s*=\s*True", path.read_text(encoding="utf-8"))]
    assert not loaders


def test_the_checks_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a cycle and a long way round is seen as such."""
    for name, text in {"a": "from tamis.b import x\n", "b": "def f():\n    import tamis.c\nfrom . import a\n", "c": "import os\n"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "NAMES", {f"tamis.{name}": tmp_path / f"{name}.py" for name in "abc"})
    assert "tamis.a" in reached("tamis.a", lazy=False)
    assert reached("tamis.a", lazy=False) == {"tamis.a", "tamis.b"}
    assert reached("tamis.a", lazy=True) == {"tamis.a", "tamis.b", "tamis.c"}
    assert FORBIDDEN["a file outside the repository"].search("see shared" + "/tools")
    assert FORBIDDEN["a machine's path"].search("/" + "work/main")
