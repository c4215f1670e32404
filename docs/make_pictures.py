"""Runs the worked example on the real library and writes what its page shows: pictures and outputs, into `docs/pictures`.

`python docs/make_pictures.py` writes them; `--check` only compares the outputs with those written, as .ci/run does.
"""

import re
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib as mpl

from churn import churn
from tamis import RuleClassifier
from tamis.report.displays import PathDisplay, RulesDisplay

FOLDER = Path(__file__).parent / "pictures"
CUSTOMER = {"tenure": 5, "contract": "monthly", "payment": "cheque", "fee": 84.5, "calls": 4, "age": None}


def outputs(folder: Path) -> None:
    """Fit, and write every output and picture of the page."""
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
    for name, text in texts.items():
        lines = text.rstrip().splitlines() if name == "sql" else [part for line in text.splitlines() for part in textwrap.wrap(line, 100)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    mpl.rcParams |= {"svg.hashsalt": "tamis", "svg.fonttype": "path", "savefig.bbox": "tight"}
    for name, display in {"path": PathDisplay, "rules": RulesDisplay}.items():
        figure = display.from_estimator(model).plot().figure_
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


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
        sys.exit(f"The page shows outputs that the library no longer gives: {', '.join(stale)}. Run python docs/make_pictures.py.")


if __name__ == "__main__":
    main()
