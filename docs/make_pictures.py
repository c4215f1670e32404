"""Runs the worked examples on the real library and writes what their pages show: pictures and outputs, into `docs/pictures`.

`python docs/make_pictures.py` writes them; `--check` only compares the outputs with those written, as .ci/run does.
"""

import re
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np

from churn import churn
from tamis import InverseScaleRegressor, RuleClassifier, StabilitySelector
from tamis.cli.demo_path import WAYS, judged, judged_path, verdict
from tamis.report.displays import PathDisplay, RulesDisplay

FOLDER = Path(__file__).parent / "pictures"
CUSTOMER = {"tenure": 5, "contract": "monthly", "payment": "cheque", "fee": 84.5, "calls": 4, "age": None}


def outputs(folder: Path) -> None:
    """Every output and picture of every page."""
    mpl.rcParams |= {"svg.hashsalt": "tamis", "svg.fonttype": "path", "savefig.bbox": "tight"}
    rules(folder)
    diabetes(folder)
    signal(folder)


def write_texts(folder: Path, texts: dict[str, str], plain: tuple[str, ...] = ()) -> None:
    """Outputs wrapped to the width of a page; `plain` ones as they are."""
    for name, text in texts.items():
        lines = text.rstrip().splitlines() if name in plain else [part for line in text.splitlines() for part in textwrap.wrap(line, 100)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def save(figure: object, file: Path) -> None:
    """A picture whose bytes depend on nothing but what it shows."""
    figure.savefig(file, metadata={"Date": None})  # type: ignore[attr-defined]


def rules(folder: Path) -> None:
    """Find rules in a table."""
    frame = churn().to_pandas()
    target = frame.pop("left")
    model = RuleClassifier(random_state=0).fit(frame, target)
    texts = {
        "rules": model.rules_.text(),
        "certificate": model.certificate_.sentence(),
        "recheck": model.certificate_.recheck(frame, target).sentence(),
        "baselines": "\n".join(f"{name}: {facts['sentence']}" for name, facts in model.baselines_.items()),
        "explain": str(model.rules_.explain(CUSTOMER)),
        "sql": model.rules_.to_sql("duckdb", table="customers"),
    }
    write_texts(folder, texts, plain=("sql",))
    for name, display in {"path": PathDisplay, "rules": RulesDisplay}.items():
        save(display.from_estimator(model).plot().figure_, folder / f"{name}.svg")


def diabetes(folder: Path) -> None:
    """Follow a selection path."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import KFold

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = InverseScaleRegressor(random_state=0).fit(X, y)
    selector = StabilitySelector(InverseScaleRegressor(choose="last"), random_state=0).fit(X, y)
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    numbers = X.to_numpy()
    lines = [
        judged_path(InverseScaleRegressor(cv=folds).fit(X, y)),
        *(judged(name, way, numbers, y.to_numpy(), folds) for name, way in WAYS.items()),
    ]
    table = [
        f"{line.name:24} {line.error:5.0f} with {line.size:2}; simplest within one error {line.simple_error:.0f} with {line.simple_size}"
        for line in lines
    ]
    texts = {
        "diabetes_selected": f"{model.selected_}\n{model.certificate_.sentence()}",
        "diabetes_events": "\n".join(f"{t:.4f}  {column} {event}" for t, event, column in model.events_[:7]),
        "diabetes_compared": "\n".join(
            ["Cross-validated mean squared error on the same five folds:", *table, "", *textwrap.wrap(verdict(lines), 100)]
        ),
        "diabetes_stable": f"{selector.selected_}\n{selector.bound_sentence()}",
    }
    write_texts(folder, texts, plain=("diabetes_events", "diabetes_compared"))
    save(PathDisplay.from_estimator(model).plot().figure_, folder / "diabetes_path.svg")


def signal(folder: Path) -> None:
    """Find jumps in a signal."""
    from matplotlib.figure import Figure

    rng = np.random.default_rng(0)
    level = np.repeat([0.0, 3.0, -1.0, 2.0], 25)
    y = level + 0.3 * rng.normal(size=100)
    model = InverseScaleRegressor(transformation="fused").fit(np.eye(100), y)
    write_texts(folder, {"signal_selected": str(model.selected_)})
    figure = Figure(figsize=(8.6, 3.2), layout="constrained")
    axis = figure.subplots()
    axis.plot(y, ".", color="#9aa0a6", markersize=4, label="data")
    axis.plot(model.intercept_ + model.coef_, color="#c65a11", linewidth=1.0, label="dense")
    axis.step(range(100), model.intercept_ + model.projected_coef_, where="mid", color="#0f6fa8", linewidth=2.0, label="projected")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, ncols=3, loc="upper right")
    save(figure, folder / "signal.svg")


def words(path: Path) -> str:
    """An output without its line ends and the digits that another processor may compute differently."""
    return re.sub(r"\d[\d ]*\.\d+(e[-+]?\d+)?|\d[\d ]*\d\d|\d+ %", "#", " ".join(path.read_text(encoding="utf-8").split()))


def main() -> None:
    if "--check" not in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        outputs(FOLDER)
        return
    with tempfile.TemporaryDirectory() as scratch:
        outputs(Path(scratch))
        stale = [path.name for path in sorted(FOLDER.glob("*.txt")) if words(path) != words(Path(scratch) / path.name)]
    if stale:
        sys.exit(f"The pages show outputs that the library no longer gives: {', '.join(stale)}. Run python docs/make_pictures.py.")


if __name__ == "__main__":
    main()
