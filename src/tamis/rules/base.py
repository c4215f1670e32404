"""What RuleClassifier and RuleRegressor share: the fit, the fitted attributes, files and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, check_random_state

from tamis.core.choose import with_facts
from tamis.core.follow import Watch
from tamis.core.path import Knot
from tamis.core.scorecard import Rule, ScoreCard
from tamis.kernels.reference import conjunction_words, unpack_rows
from tamis.rules.baselines import baselines
from tamis.rules.build import rule_scores
from tamis.rules.coverage import rule_hits
from tamis.rules.fitting import Fitted, Plan, fit_path, fold_data, schedule_of
from tamis.rules.inputs import provenance
from tamis.rules.journaling import open_journal
from tamis.rules.measuring import out_of_fold, path_statistics
from tamis.rules.refit import platt_of, refitted
from tamis.rules.ruleset import RuleSet
from tamis.rules.settings import Settings
from tamis.rules.task import Task
from tamis.rules.witness import with_witnesses
from tamis.store.kept import Kept
from tamis.structures.tails import padded
from tamis.tables.contract import checked_table
from tamis.tables.frame import Table
from tamis.tables.schema import Schema, learn_schema

Array = NDArray[Any]
FRAMES = ("pandas", "polars", "pyarrow")
VALIDATED = ("cv", "cv-best")


class RuleModel(Kept, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The common part of the rule estimators; not for use by itself."""

    _target_name: str = "target"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _fit(self, table: Table, task: Task, raw: tuple[Any, Any]) -> Self:
        """Learn the schema, follow the path with its folds, choose, prune, measure, certify."""

        def learn(weight: Array) -> Schema:
            # a fold has fewer rows than the whole: what was asked of the whole must not become impossible there
            least = (
                min(self.min_support, float(weight.sum())) if self.min_support > 1 and weight is not task.row_weight else self.min_support
            )
            return learn_schema(
                table, cuts=self.cuts, n_cuts=self.n_cuts, propositions=self.propositions, costs=self.costs, min_support=least,
                max_literals=self.max_literals, y=task.codes if task.classes else task.y[:, 0], sample_weight=weight,
            )  # fmt: skip

        by = self.choose if self.C is None else "last"
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        with Watch(self.time_limit) as watch:
            plan = Plan(self, table, task, learn(task.row_weight), Settings.of(self), learn, watch=watch, observe=self._observers())
            built = plan.built(plan.schema, task)
            journal = open_journal(self.journal, self, built[0], getattr(self, "_journal_header", None))
            try:
                plan = replace(plan, schedule=schedule_of(built, self.C, self.n_path), journal=journal)
                platt = task.loss.name in ("hinge", "squared_hinge")
                folds = fold_data(plan, self.cv, seed) if by in VALIDATED and len(plan.schedule) > 1 and not watch.stop() else []
                fitted = fit_path(plan, built, by, folds, scoring=self.scoring, keep_scores=platt, max_rules=self.max_rules)
                self.baselines_ = baselines(plan, fitted, self.scoring)
            finally:
                if journal is not None:
                    journal.close()
        self._publish(plan, fitted, raw, platt=platt)
        return self

    def _observers(self) -> tuple[Any, ...]:
        """Progress callbacks: the command line's, or a printed line per knot when verbose."""
        found = tuple(getattr(self, "_observe", ()))
        return found if not self.verbose else (*found, _printed)

    def _publish(self, plan: Plan, fitted: Fitted, raw: tuple[Any, Any], *, platt: bool) -> None:
        """Set the fitted attributes."""
        task = plan.task
        fitted = replace(fitted, path=with_witnesses(with_facts(fitted.path, **provenance(self, plan.table, task)), fitted.built, task))
        knot = fitted.knot
        self.schema_, self.path_ = plan.schema, fitted.path
        self.status_, self.C_, self.notes_ = fitted.path.status, float(knot.t), (*plan.schema.notes, *self._notes(fitted))
        weights, constant = knot.coefficients, knot.intercept
        if self.refit and len(knot.atoms):
            weights, constant, note = refitted(knot, fitted.built)
            self.notes_ = (*self.notes_, note)
        slopes = platt_of(fitted) if platt else ()
        card = self._card(knot, weights, constant, "platt" if slopes else task.link, task.classes, slopes)
        self.atoms_, self.weights_, self.constant_ = knot.atoms, np.asarray(weights), np.asarray(constant)
        self.certificate_ = knot.certificate
        self.path_statistics_ = path_statistics(fitted, task, card)
        statistics = RuleSet.measure(card, self._hits(fitted, knot.atoms), *raw, task.classes or None)
        statistics = statistics.with_out_of_fold(out_of_fold(fitted, plan.schema))
        backend = plan.table.backend if plan.table.backend in FRAMES else None
        self.rules_ = RuleSet(card, statistics, self.certificate_, self.schema_, lattice=self.lattice, backend=backend)
        self.card_ = self.rules_.card
        self.selected_ = tuple(rule.text for rule in self.rules_)

    def _card(self, knot: Knot, weights: Array, constant: Array, link: str, classes: tuple[Any, ...], slopes: Any) -> ScoreCard:
        """The chosen rules in the portable form, in the knot's order."""
        literals = self.schema_.literals
        rules = tuple(Rule(tuple(literals[k] for k in atom), tuple(map(float, row))) for atom, row in zip(knot.atoms, weights, strict=True))
        return ScoreCard(rules, tuple(map(float, constant)), link, classes, tuple(self.schema_.columns), self._target_name, slopes)

    def _notes(self, fitted: Fitted) -> list[str]:
        """What was asked for and could not be done."""
        notes, rules = [], len(fitted.knot.atoms)
        if self.C is None and self.choose in VALIDATED and len(fitted.path) > 1 and not len(fitted.path.scores.get("mean", ())):
            why = (
                "the fit was stopped before any fold was done"
                if fitted.path.status in ("interrupted", "budget")
                else "there are too few rows of each class"
            )
            notes.append(f"The path was not cross-validated, because {why}: its knot was chosen by {fitted.by}.")
        if self.max_rules is not None and rules > self.max_rules:
            instead = "the smallest C of the path" if self.C is None else f"C = {self.C:g}"
            notes.append(f"max_rules={self.max_rules} could not be met: at {instead} there are {rules} rules; give a smaller C.")
        return notes

    def _hits(self, fitted: Fitted, atoms: Any) -> Any:
        """Which training rows a rule covers, one rule at a time."""
        compressed = fitted.built[0].rows
        words = conjunction_words(compressed.literals.words, padded(atoms))
        place = compressed.design_row

        def covered(i: int) -> Array:
            truth = unpack_rows(words[i][None], compressed.literals.rows)[0]
            return np.asarray((place >= 0) & truth[place])

        return covered

    # ---- use ------------------------------------------------------------------------------------------
    def _scores(self, X: Any) -> Array:
        """(rows, columns) scores of a table."""
        check_is_fitted(self, "card_")
        return rule_scores(self.schema_, checked_table(self, X, reset=False), self.atoms_, self.weights_, self.constant_)

    def transform(self, X: Any) -> Array:
        """Which selected rules hold on each row: features for another model.

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray of 0 and 1 (rows, rules)
        """
        check_is_fitted(self, "card_")
        hits, rows = rule_hits(self.card_, self.schema_, checked_table(self, X, reset=False))
        held = np.zeros((rows, len(self.rules_)), dtype=np.uint8)
        for i, rule in enumerate(self.rules_):
            held[:, i] = hits(i) != rule.opposite
        return held

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The selected rules, as text.

        Parameters
        ----------
        input_features : array of str, optional
            Only compared with the names seen in fit.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "card_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array(self.selected_, dtype=object)

    def _to_model(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from tamis.rules.persist import to_model

        return to_model(self)

    @classmethod
    def _from_model(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        from tamis.rules.persist import from_model

        found: Self = from_model(cls, meta, arrays)
        return found


def _printed(event: Mapping[str, Any]) -> None:
    if event["phase"] == "path":
        place = f"C = {event['t']:.4g} ({event['knot'] + 1} of {event['of']})"
        print(f"{place}: gap {event['gap']:.3%}, {event['held']} held, {event['looked']} looked at")  # noqa: T201 - what verbose asks for
