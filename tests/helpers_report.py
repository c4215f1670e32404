"""Fabricated reports, seeded: a path that looks like a real one, without fitting anything."""

from __future__ import annotations

import math

import numpy as np

from tamis.report.content import Baseline, Claim, Figure, Measure, PathPicture, Piece, ReportContent, ScoreColumn, Stop

MEASURES = (
    Measure("coverage", "covers", "share", bar=True, note="share of the training rows the rule covers"),
    Measure("precision", "precision", "fraction", note="share of the covered rows in the class the rule favours"),
    Measure("lift", "lift", "times", note="precision against the class's share of all rows"),
    Measure("length", "conditions", "count", minor=True),
)
NAMES = (
    "contract = month-to-month",
    "tenure <= 11",
    "internet = fiber optic",
    "monthly charges > 79.5",
    "payment = electronic check",
    "tech support = no",
)
MORE = (
    "online security = no",
    "senior citizen",
    "dependents = no",
    "total charges <= 1 390",
    "paperless billing",
    "partner is missing",
    "lines in {one, none}",
)
HOSTILE = (
    '</script><img src=x onerror="window.stolen=1">',
    "<svg onload='window.stolen=2'> & \"quotes\" 'single' `ticks`",
    "line one\nline two\ttab",
    "日本語の列 = 東京 🦊 عربي",
    "\u202egnol si eman siht\u202c",
    "\u2028\u2029<!--<script>",
    "{{ 7 * 7 }} {% raw %} ${1+1}",
    "lone \ud800 surrogate \x00 nul \x1b[31m",
    "x" * 5000,
)


def conditions(rng: np.random.Generator, length: int) -> tuple[str, ...]:
    """A conjunction of distinct conditions."""
    pool = [*NAMES, *MORE]
    return tuple(pool[i] for i in sorted(rng.choice(len(pool), length, replace=False)))


def pieces(rng: np.random.Generator, how_many: int) -> tuple[Piece, ...]:
    """Rules with measures that agree with each other."""
    made: dict[str, Piece] = {}
    while len(made) < how_many:
        parts = conditions(rng, int(rng.choice([1, 2, 3], p=[0.3, 0.4, 0.3])))
        if how_many > 100:
            parts = (*parts, f"balance > {len(made) * 37}")
        coverage, precision = float(rng.beta(1.6, 5)), float(0.3 + 0.65 * rng.random())
        values = {"coverage": coverage, "precision": round(precision, 3), "lift": precision / 0.27, "length": len(parts)}
        name = " AND ".join(parts)
        made.setdefault(name, Piece(name, parts, values))
    return tuple(made.values())


def path(rng: np.random.Generator, knots: int, rules: int, columns: int = 1, chosen: int | None = None) -> PathPicture:
    """Weights that grow along C, enter one after another, and sometimes leave again."""
    grid = np.geomspace(0.01, 100, knots) if knots > 1 else np.array([1.0])
    entry = np.sort(rng.random(rules)) * 0.9
    size = rng.normal(0, 1, (rules, columns)) * np.exp(-2.2 * entry)[:, None] * 2
    leave = np.where(rng.random(rules) < 0.15, entry + 0.25, 2.0)
    stops = []
    for place, t in enumerate(grid):
        at = place / max(knots - 1, 1)
        there = np.flatnonzero((entry < at) & (leave > at)) if knots > 1 else np.arange(rules)
        weights = size[there] * (1 - np.exp(-4 * (at - entry[there] + 0.02)))[:, None] if knots > 1 else size[there]
        order = np.argsort(-np.linalg.norm(weights, axis=1), kind="stable")
        gap = float(0.002 + 0.012 * at**2 * rng.random() + (0.02 if at > 0.93 else 0.0))
        holds = gap <= 0.01
        said = f"ithin {100 * gap:.1f} % of the best possible model over all conjunctions of up to 3 of 54 conditions (C = {t:.3g})"
        tail = f", with at least {96 - 3 * at:.0f}% of what it can gain over a constant; {612 + 300 * place} were looked at."
        claim = Claim(
            ("W" + said + tail) if holds else f"Not certified to 1.0 %: only w{said}{tail}", "holds" if holds else "fails", gap, 0.01
        )
        mean = 0.41 + 0.16 * math.exp(-6 * at) + 0.12 * max(0.0, at - 0.55) ** 2
        stops.append(
            Stop(
                float(t),
                claim,
                tuple(map(int, there[order])),
                tuple(tuple(map(float, row)) for row in weights[order]),
                tuple(rng.normal(-0.4, 0.1, columns)),
                mean,
                0.006 + 0.004 * at,
            )
        )
    picked = int(knots * 0.55) if chosen is None else chosen
    return PathPicture(
        "C",
        tuple(stops),
        picked,
        "log-loss",
        True,
        note="The smallest C within one standard error of the best, by 5-fold cross-validation.",
    )


def churn(seed: int = 0, knots: int = 20, rules: int = 40) -> ReportContent:
    """A two-class report with everything on it."""
    rng = np.random.default_rng(seed)
    said = "Conjunctions add -0.021 ± 0.008 log-loss over single conditions: worth it here."
    return ReportContent(
        "Which rules decide churn?",
        path=path(rng, knots, rules),
        pieces=pieces(rng, rules),
        subtitle="7 043 rows, 19 columns, 54 conditions; rules of up to 3 conditions, logistic loss.",
        columns=(ScoreColumn("weight", "stays", "churn"),),
        measures=MEASURES,
        figures=(
            Figure("rules", "14", "of 27 434 possible"),
            Figure("log-loss", "0.418 ± 0.009", "5-fold cross-validation"),
            Figure("accuracy", "0.806", "on the same folds"),
            Figure("churn", "27 %", "of all rows"),
        ),
        baselines=(
            Baseline("always the largest class", 0.578, 0.004, 0, None, "What a constant reaches."),
            Baseline("single conditions", 0.439, 0.008, 17, 0.006, said),
            Baseline("this model", 0.418, 0.009, 14, 0.008, "", ours=True),
        ),
        baseline_score="log-loss",
        baseline_note="Log-loss on the same folds, with one standard error.",
        notes=(
            "Column customer_id is constant in every fold and was dropped.",
            "`phone service = no` covers the same rows as `lines = none`; only the second is shown.",
            "Weights were chosen together with the rules; they are not refitted.",
        ),
        provenance=(
            ("tamis", "0.1.0"),
            ("Python", "3.11.9"),
            ("numpy", "2.4.6"),
            ("rows", "7 043"),
            ("rho", "1.1"),
            ("max_length", "3"),
            ("data", "sha256 8f14e45f…"),
        ),
        word="rule",
        words="rules",
    )


def flowers(seed: int = 3, classes: int = 3, rules: int = 12) -> ReportContent:
    """A report with one weight per class."""
    rng = np.random.default_rng(seed)
    names = ("setosa", "versicolor", "virginica", "a class with a rather long name", *(f"class {i}" for i in range(20)))[:classes]
    return ReportContent(
        "Which rules tell the flowers apart?",
        path=path(rng, 12, rules, classes),
        pieces=pieces(rng, rules),
        columns=tuple(ScoreColumn(name) for name in names),
        measures=MEASURES,
        word="rule",
        words="rules",
    )


def hostile() -> ReportContent:
    """Every text a user can choose is an attack."""
    rng = np.random.default_rng(5)
    listed = tuple(
        Piece(name, (name, "tenure <= 11") if i % 2 else (), {"coverage": 0.2, "precision": math.nan, "lift": math.inf, "kind": name})
        for i, name in enumerate(HOSTILE)
    )
    measures = (*MEASURES[:3], Measure("kind", HOSTILE[0], "text", note=HOSTILE[1]))
    attack = HOSTILE[0]
    base = path(rng, 6, len(listed))
    stops = tuple(
        Stop(s.t, Claim(HOSTILE[1], s.claim.state, s.claim.gap, 0.01), s.pieces, s.weights, s.constant, s.mean, s.error) for s in base.stops
    )
    return ReportContent(
        attack,
        path=PathPicture(HOSTILE[1], stops, len(stops) - 1, attack, note=attack),
        pieces=listed,
        subtitle=HOSTILE[7],
        columns=(ScoreColumn(attack, HOSTILE[1], HOSTILE[4]),),
        measures=measures,
        figures=(Figure(attack, HOSTILE[1], HOSTILE[2]),),
        baselines=(Baseline(attack, 0.5, 0.1, 3, 0.1, HOSTILE[6]), Baseline(HOSTILE[8], None, None, None, None, HOSTILE[3])),
        baseline_score=attack,
        notes=HOSTILE,
        provenance=tuple((name, name) for name in HOSTILE),
        word="rule",
        words="rules",
    )


def heavy(knots: int = 20, rules: int = 500) -> ReportContent:
    """As large as the promise about size goes: every knot holds this many rules."""
    rng = np.random.default_rng(11)
    listed = pieces(rng, rules)
    every = tuple(range(rules))
    claim = Claim("Within 0.8 % of the best possible model.", "holds", 0.008, 0.01)
    stops = tuple(
        Stop(float(t), claim, every, tuple((float(w),) for w in rng.normal(0, 1, rules)), (0.1,)) for t in np.geomspace(0.01, 100, knots)
    )
    return ReportContent("heavy", PathPicture("C", stops, knots // 2), listed, measures=MEASURES, word="rule", words="rules")
