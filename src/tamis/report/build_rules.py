"""The report of a rule model: rules in original units at every knot, measured where the fit measured them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.core.path import Knot
from tamis.core.scorecard import Rule, ScoreCard
from tamis.report.build import chosen_knot, common, how_chosen, path_picture, validation
from tamis.report.content import Claim, Figure, Measure, Piece, ReportContent, ScoreColumn, Stop, Value
from tamis.report.wording import count, share
from tamis.rules.ruleset import RuleSet
from tamis.rules.shown import ShownRule
from tamis.rules.statistics import RuleStatistics
from tamis.rules.text import outcome_text

PRESENT = 5
Key = tuple[frozenset[Any], bool]


def rule_content(model: Any) -> ReportContent:
    """Everything the report of a fitted RuleClassifier or RuleRegressor says."""
    path, rules, card = model.path_, model.rules_, model.card_
    chosen = chosen_knot(model, path)
    listing = Listing(rules)
    stops = []
    for index, knot in enumerate(path.knots):
        shown = rules if index == chosen else rules_at(model, knot)
        certificate = model.certificate_ if index == chosen else knot.certificate
        pieces = tuple(listing.place(rule) for rule in shown)
        stops.append(
            Stop(
                float(knot.t),
                Claim.of(certificate),
                pieces,
                tuple(rule.weights for rule in shown),
                shown.constant,
                *validation(path, index),
            )
        )
    shared = common(model, path, "rules")
    shared["figures"] = with_class_share(model, shared["figures"])
    return ReportContent(
        title_of(card),
        path_picture(path, stops, chosen, how_chosen(model)),
        tuple(listing.pieces),
        subtitle=subtitle_of(model),
        columns=score_columns(card),
        measures=measures_of(card, rules.statistics),
        word="rule",
        words="rules",
        **shared | {"notes": tuple(dict.fromkeys((*shared["notes"], *rules.notes, *same_rows(model))))},
    )


class Listing:
    """Every rule of every knot once, with what was measured about it: first of all in the chosen model."""

    def __init__(self, rules: RuleSet) -> None:
        self.pieces: list[Piece] = []
        self._places: dict[Key, int] = {}
        self._held_out = rules.statistics.out_of_fold
        self._chosen = {key_of(rule): rule for rule in rules}

    def place(self, rule: ShownRule) -> int:
        """Position of a rule in the list, adding it when it is new."""
        key = key_of(rule)
        if key not in self._places:
            self._places[key] = len(self.pieces)
            values: dict[str, Value] = {"length": rule.length}
            chosen = self._chosen.get(key)
            if chosen is not None and self._held_out is not None:
                values |= {f"{name} held out": float(getattr(self._held_out, name)[chosen.index]) for name in ("precision", "mean")}
            known = chosen or rule
            if known.count:
                values |= {name: getattr(known, name) for name in ("coverage", "count", "precision", "lift", "mean", "difference")}
            self.pieces.append(Piece(rule.text, rule.parts or (rule.text,), values, "OR" if rule.opposite else "AND"))
        return self._places[key]


def key_of(rule: ShownRule) -> Key:
    """The same conditions, shown the same way, are the same rule whatever their order."""
    return frozenset((c.column, c.operator, c.value, c.members) for c in rule.conditions), rule.opposite


def rules_at(model: Any, knot: Knot) -> RuleSet:
    """The rules of another knot, written like the chosen model's, measured where the fit measured the whole path."""
    literals, card = model.schema_.literals, model.card_
    weights = np.asarray(knot.coefficients, dtype=float)
    rules = tuple(Rule(tuple(literals[i] for i in atom), tuple(map(float, row))) for atom, row in zip(knot.atoms, weights, strict=True))
    there = ScoreCard(rules, tuple(map(float, knot.intercept)), card.link, card.classes, card.columns, card.target)
    return RuleSet(there, measured(model, knot), knot.certificate, model.schema_, lattice=model.rules_.lattice, keep_order=True)


def measured(model: Any, knot: Knot) -> RuleStatistics:
    """What the fit measured about a knot's rules (`path_statistics_`, in the order of `path_.pieces`); else nothing, as if of no rows."""
    every: RuleStatistics | None = getattr(model, "path_statistics_", None)
    if every is not None:
        place = {atom: index for index, atom in enumerate(model.path_.pieces)}
        return every.subset(np.array([place[atom] for atom in knot.atoms], dtype=np.int64))
    number, width = len(knot.atoms), max(len(model.card_.classes), 1)
    return RuleStatistics(
        count=np.zeros(number, dtype=np.int64),
        support=np.zeros(number),
        mass=np.zeros((number, width)),
        favoured=np.zeros(number, dtype=np.int64),
        total_count=0,
        total_support=0.0,
        total_mass=np.zeros(width),
    )


def title_of(card: ScoreCard) -> str:
    """The question this report answers."""
    named = card.target if card.target and card.target != "target" else "the target"
    return f"Which rules {'decide' if card.classes else 'move'} {named}?"


def subtitle_of(model: Any) -> str:
    """The data and the space searched, in one sentence."""
    statistics, length = model.rules_.statistics, model.max_length
    sizes = [
        f"{count(statistics.total_count)} {statistics.rows}",
        f"{count(model.n_features_in_)} columns",
        f"{count(len(model.schema_.literals))} conditions",
    ]
    reach = (
        "rules of any number of conditions"
        if length is None
        else f"rules of up to {length} conditions"
        if length > 1
        else "single conditions only"
    )
    return f"{', '.join(sizes)}; {reach}, {str(model.loss).replace('_', ' ')} loss."


def score_columns(card: ScoreCard) -> tuple[ScoreColumn, ...]:
    """What each column of weights pushes towards."""
    if len(card.constant) > 1:
        return tuple(ScoreColumn(str(label)) for label in card.classes)
    if not card.classes:
        named = card.target if card.target != "target" else "of the target"
        return (ScoreColumn("weight", f"less {named}", f"more {named}"),)
    against, towards = (outcome_text(card.link, card.classes, card.target, favoured) for favoured in (0, 1))
    return (ScoreColumn("weight", against, towards),)


def measures_of(card: ScoreCard, statistics: RuleStatistics) -> tuple[Measure, ...]:
    """The columns of the table of rules."""
    where = statistics.rows
    measures = [
        Measure("coverage", "covers", "share", bar=True, note=f"share of the {where}, by weight, on which the rule holds"),
        Measure("count", "rows", "count", note=f"how many {where} that is", minor=True),
    ]
    held_out = statistics.out_of_fold
    if card.classes:
        measures.append(Measure("precision", "precision", "fraction", note="share of the class the rule favours among the rows it covers"))
        if held_out is not None:
            measures.append(Measure("precision held out", "held out", "fraction", note="the same on rows the rules were not learned from"))
        measures.append(Measure("lift", "lift", "times", note="precision against the share of that class among all rows"))
    else:
        measures.append(Measure("mean", "mean", "number", note=f"mean of {card.target} where the rule holds"))
        if held_out is not None:
            measures.append(Measure("mean held out", "held out", "number", note="the same on rows the rules were not learned from"))
        measures.append(Measure("difference", "difference", "number", note="that mean minus the mean of the other rows"))
    return (*measures, Measure("length", "conditions", "count", minor=True))


def with_class_share(model: Any, shown: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """The figures, and how frequent the class in question is, where there is room."""
    card, statistics = model.card_, model.rules_.statistics
    if len(card.classes) != 2 or statistics.total_support <= 0 or len(shown) >= PRESENT:
        return shown
    base = float(statistics.total_mass[1] / statistics.total_support)
    return (*shown, Figure(outcome_text(card.link, card.classes, card.target, 1), share(base), f"of the {statistics.rows}"))


def same_rows(model: Any, most: int = 20) -> Sequence[str]:
    """Other wordings of the chosen rules' conditions: dropped because they hold on the same training rows."""
    twins = getattr(model.schema_, "same_rows", {})
    used = {condition for rule in model.rules_ for condition in rule.conditions}
    places = [place for place, literal in enumerate(model.schema_.literals) if literal in used and twins.get(place)]
    return [
        f"On the training rows, “{model.schema_.literals[place].text()}” is the same as {_listed(twins[place])}." for place in places[:most]
    ]


def _listed(texts: Sequence[str], most: int = 3) -> str:
    """Some texts in quotes, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(f"“{text}”" for text in texts[:most]) + more
