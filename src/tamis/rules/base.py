"""What RuleClassifier and RuleRegressor share: the fit, the fitted attributes, files and reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

from tamis.core.choose import with_facts
from tamis.core.errors import TamisError
from tamis.core.follow import Watch
from tamis.core.scorecard import Rule, ScoreCard
from tamis.kernels.reference import conjunction_words, unpack_rows
from tamis.rules.baselines import baselines
from tamis.rules.build import rule_scores
from tamis.rules.fitting import Fitted, Plan, fit_path, fold_data, schedule_of
from tamis.rules.inputs import checked_table, checked_weight, provenance
from tamis.rules.journaling import open_journal
from tamis.rules.ruleset import RuleSet
from tamis.rules.settings import Settings
from tamis.rules.task import Task
from tamis.rules.witness import with_witnesses
from tamis.structures.tails import padded
from tamis.tables.frame import Table

from tamis.tables.schema import Schema, learn_schema

Array = NDArray[Any]


class RuleModel(BaseEstimator):  # type: ignore[misc]
    """The common part of the rule estimators; not for use by itself."""

    _target_name: str = "target"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def _more_checks(self) -> None:
        """Refuse parameters no fit could use."""
        if self.C is not None and not (isinstance(self.C, (int, float, np.number)) and 0 < self.C < np.inf):
            raise TamisError(f"C={self.C!r} cannot be used, so nothing was fitted; give a positive number, or None for a path.")
        if self.lattice not in ("conjunction", "disjunction"):
            raise TamisError(f"lattice={self.lattice!r} is not known, so nothing was fitted; use 'conjunction' or 'disjunction'.")
        if self.time_limit is not None and not self.time_limit > 0:
            raise TamisError(f"time_limit={self.time_limit!r} leaves no time, so nothing was fitted; give seconds, or None.")
        if not (isinstance(self.n_path, (int, np.integer)) and self.n_path >= 1):
            raise TamisError(f"n_path={self.n_path!r} cannot be used, so nothing was fitted; give a whole number of knots >= 1.")

    def _fit(self, table: Table, task: Task, raw: tuple[Any, Any, Any]) -> Self:
        """Learn the schema, follow the path with its folds, choose, prune, measure, certify."""
        self._more_checks()
        settings = Settings.of(self)

        def learn(weight: Array) -> Schema:
            return learn_schema(
                table, cuts=self.cuts, n_cuts=self.n_cuts, propositions=self.propositions, costs=self.costs,
                min_support=self.min_support, max_literals=self.max_literals, y=task.codes if task.classes else task.y[:, 0], sample_weight=weight,
            )  # fmt: skip

        by = self.choose if self.C is None else "last"
        seed = int(check_random_state(self.random_state).randint(2**31 - 1)) if self.random_state is not None else 0
        with Watch(self.time_limit) as watch:
            plan = Plan(self, table, task, learn(task.row_weight), settings, learn, watch=watch, observe=self._observers())
            built = plan.built(plan.schema, task)
            journal = open_journal(self.journal, self, built[0], getattr(self, "_journal_header", None))
            try:
                plan = Plan(**{**plan.__dict__, "schedule": schedule_of(built, self.C, self.n_path), "journal": journal})
                platt = task.loss.name in ("hinge", "squared_hinge") and bool(task.classes)
                folds = fold_data(plan, self.cv, seed) if by in ("cv", "cv-best") and len(plan.schedule) > 1 else []
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

    def _publish(self, plan: Plan, fitted: Fitted, raw: tuple[Any, Any, Any], *, platt: bool) -> None:
        """Set the fitted attributes."""
        from tamis.rules.refit import platt_of, refitted

        task = plan.task
        fitted = replace(fitted, path=with_witnesses(with_facts(fitted.path, **provenance(self, plan.table, task)), fitted.built, task))
        knot = fitted.knot
        self.schema_, self.path_ = plan.schema, fitted.path
        self.status_, self.C_, self.notes_ = fitted.path.status, float(knot.t), tuple(plan.schema.notes)
        weights, constant = knot.coefficients, knot.intercept
        certificate = knot.certificate
        if self.refit and len(knot.atoms):
            weights, constant, note = refitted(knot, fitted.built, task)
            self.notes_ = (*self.notes_, note)
        slopes = platt_of(fitted, task) if platt else ()
        link = "platt" if slopes else task.link
        rules = tuple(
            Rule(tuple(plan.schema.literals[k] for k in atom), tuple(float(w) for w in row)) for atom, row in zip(knot.atoms, weights, strict=True)
        )
        columns = tuple(plan.schema.columns)
        self.card_ = ScoreCard(rules, tuple(float(c) for c in constant), link, task.classes, columns, self._target_name, slopes)
        self.atoms_, self.weights_, self.constant_ = knot.atoms, np.asarray(weights), np.asarray(constant)
        self.certificate_ = certificate
        statistics = RuleSet.measure(self.card_, self._hits(fitted, knot.atoms, plan.table.n_rows), raw[1], raw[2], task.classes or None)
        self.rules_ = RuleSet(self.card_, statistics, certificate, self.schema_, lattice=self.lattice, backend=_frame_backend(plan.table))
        self.card_ = self.rules_.card
        self.selected_ = tuple(rule.text for rule in self.rules_)

    def _hits(self, fitted: Fitted, atoms: Any, rows: int) -> Any:
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

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The selected rules, as text.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "card_")
        return np.array(self.selected_, dtype=object)

    def report(self, file: str | os.PathLike[str]) -> None:
        """Write the report: one HTML file that opens from disk.

        Parameters
        ----------
        file : path
        """
        import importlib

        check_is_fitted(self, "card_")
        builder: Any = importlib.import_module("tamis.report.build")
        builder.report(self, file)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the model as a `.tamis` file: JSON and arrays, nothing pickled.

        Parameters
        ----------
        file : path
        """
        from tamis.store.model_file import write_model

        check_is_fitted(self, "card_")
        write_model(file, type(self).__name__, *self._to_model())

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
        print(f"C = {event['t']:.4g} ({event['knot'] + 1} of {event['of']}): gap {event['gap']:.3%}, {event['held']} held, {event['looked']} looked at")


def _frame_backend(table: Table) -> str | None:
    return table.backend if table.backend in ("pandas", "polars", "pyarrow") else None


__all__ = ["RuleModel", "checked_table", "checked_weight"]
