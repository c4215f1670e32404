"""What the linear estimators share: the fit, the fitted attributes, prediction anywhere on the path, files and reports."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state
from threadpoolctl import ThreadpoolController

from tamis.core.choose import validated_score, with_facts
from tamis.core.errors import TamisError
from tamis.core.follow import Watch
from tamis.core.path import Knot, Path
from tamis.linear.fitting import Fitted, Plan, fit_path
from tamis.linear.inputs import checked_columns
from tamis.linear.journaling import open_journal
from tamis.linear.method import Method
from tamis.linear.parameters import number, said
from tamis.linear.task import Task
from tamis.linear.witness import with_witnesses
from tamis.store.kept import Kept

Array = NDArray[Any]
SMALL = 4_000_000  # cells up to which one thread does


class PathModel(Kept, BaseEstimator):  # type: ignore[misc]
    """The common part of the linear estimators; not for use by itself."""

    _target_name: str = "target"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _fit(self, task: Task, method: Method) -> Self:
        """Follow the path with its folds, choose, publish."""
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        with Watch(self.time_limit) as watch:
            journal = open_journal(self.journal, self, task, getattr(self, "_journal_header", None))
            try:
                observers = (*getattr(self, "_observe", ()), *((_printed,) if self.verbose else ()))
                sigma = getattr(self, "sigma", None)
                plan = Plan(task, method, self._choice(), self.cv, seed, watch, observers, journal, sigma, self.n_jobs or 1)
                # small products are far slower on several threads than on one when a machine is busy
                with _libraries().limit(limits=1 if task.columns.rows * len(task.columns) <= SMALL else None, user_api="blas"):
                    fitted = fit_path(plan)
            finally:
                if journal is not None:
                    journal.close()
        self._method, self._loss_name = method, task.loss.name
        self._publish(task, fitted)
        return self

    def _choice(self) -> str | float:
        choice: str | float = self.choose
        return choice

    def _publish(self, task: Task, fitted: Fitted) -> None:
        """Set the fitted attributes."""
        path = with_facts(fitted.path, **self._provenance(task))
        self._arrays = fitted.finished.arrays
        self.path_ = self._readable(with_witnesses(path, task, self))
        knot = self.path_.knots[fitted.chosen]
        self.t_, self.certificate_, self.status_ = float(knot.t), knot.certificate, path.status
        self.selected_ = knot.names
        self.notes_ = (*path.notes, *self._notes(task, fitted))
        self.events_ = self.path_.events()
        self.baselines_ = self._baselines(fitted)
        self._publish_coefficients(knot)

    def _publish_coefficients(self, knot: Knot) -> None:
        """`coef_` and `intercept_` in the shapes scikit-learn gives them."""
        dense, level = self._dense(knot), np.asarray(knot.intercept, dtype=float)
        self.coef_: Array = dense.T.copy()
        self.intercept_: Any = level.copy()
        if not hasattr(self, "classes_"):
            self.coef_, self.intercept_ = dense[:, 0].copy(), float(level[0])

    def _dense(self, knot: Knot) -> Array:
        """(columns, scores) coefficients that predict."""
        columns, values = self._weights(knot)
        dense = np.zeros((self.n_features_in_, values.shape[1]))
        dense[columns] = values
        return dense

    def _weights(self, knot: Knot) -> tuple[Array, Array]:
        """Columns and coefficients that predict."""
        found: tuple[Array, Array] = self._method.weights(knot)
        return found

    def _readable(self, path: Path) -> Path:
        """The path with its method's own interpolation; exact paths stay where the last knot put them."""
        between = getattr(self._method, "between", None)
        return path if between is None else replace(path, between=between(path.knots, self._arrays))

    def _notes(self, task: Task, fitted: Fitted) -> list[str]:
        """What a reader should know of the data and of the choice."""
        notes, names = [], task.columns.names
        still = fitted.finished.still
        if len(still):
            listed = ", ".join(repr(names[j]) for j in still[:5]) + (", ..." if len(still) > 5 else "")
            verb, them = ("is", "it never enters") if len(still) == 1 else ("are", "they never enter")
            notes.append(f"{listed} {verb} constant, so {them} the path.")
        if len(fitted.path) <= 1:
            notes.append("No column is related to the target, so the path is empty and the model is a constant.")
        elif fitted.by != self._choice():
            stopped = fitted.path.status in ("interrupted", "budget")
            why = "the fit was stopped before the folds were done" if stopped else "there are too few rows to validate on"
            notes.append(f"The path was not validated, because {why}: its knot was chosen by {fitted.by}.")
        elif fitted.by in ("cv", "cv-best") and fitted.path.status != "complete" and fitted.chosen == len(fitted.path) - 1:
            notes.append("The chosen model is the last of a path that was cut off, so a longer one may be better: raise its limits.")
        return notes

    def _baselines(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The validated score beside that of a constant."""
        path, lines = fitted.path, {}
        for name, position, by in (("constant", 0, ""), ("model", fitted.chosen, fitted.by)):
            found = validated_score(path, position, by)
            if found is not None:
                lines[name] = {"score": found[0], "error": found[1], "rules": len(path.knots[position].atoms), "gap": None}
        return lines

    def _provenance(self, task: Task) -> dict[str, Any]:
        """Where a path comes from: versions, shape, parameters that shape the result."""
        import sklearn

        from tamis import __version__

        versions = {"tamis": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__, "python": platform.python_version()}
        parameters = {
            name: said(value) for name, value in sorted(self.get_params(deep=False).items()) if name not in ("journal", "verbose", "n_jobs")
        }
        return {
            "versions": versions, "rows_given": task.columns.rows, "columns_given": len(task.columns), "parameters": parameters,
        }  # fmt: skip

    # ---- use --------------------------------------------------------------------------------------------------
    def _knot_at(self, t: float | None) -> Knot:
        """The chosen model, or the one at another time; before the first knot nothing is selected."""
        check_is_fitted(self, "path_")
        path = self.path_
        if t is None:
            return path.at(self.t_)
        if not number(t) or not t >= 0:
            raise TamisError(f"t={t!r} is no time on a path, so nothing can be read there; give a number >= 0.")
        if (t > path.t[-1] * (1 + 1e-12) and path.status != "complete") or (t > path.t[-1] * (1 + 1e-12) and path.between is not None):
            raise TamisError(
                f"t={t:g} lies beyond the end of the path at t = {path.t[-1]:g}, so the model there is not known; fit with a larger t_max."
            )
        return path.read(float(t))

    def coefficients(self, t: float | None = None) -> tuple[Array, Array]:
        """Coefficients and intercept anywhere on the path.

        Parameters
        ----------
        t : float, optional
            The time; the chosen one by default. Larger is less regularised; 1 / t is what the lasso calls alpha.

        Returns
        -------
        coef : ndarray (columns,), or (scores, columns) with several
        intercept : float or ndarray
        """
        knot = self._knot_at(t)
        dense, level = self._dense(knot), np.asarray(knot.intercept, dtype=float)
        return (dense[:, 0], level[0]) if dense.shape[1] == 1 else (dense.T, level)

    def _scores(self, X: Any, t: float | None = None) -> Array:
        """(rows, scores)"""
        knot = self._knot_at(t)
        table = checked_columns(self, X, reset=False)
        columns, values = self._weights(knot)
        scores = np.tile(np.asarray(knot.intercept, dtype=float), (table.rows, 1))
        return scores + table.design.dot(columns, values) if len(columns) else scores

    def _to_model(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from tamis.linear.persist import to_model

        return to_model(self)

    @classmethod
    def _from_model(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        from tamis.linear.persist import from_model

        found: Self = from_model(cls, meta, arrays)
        return found


@cache
def _libraries() -> Any:
    """What computes products here; looking for it takes longer than a small fit."""
    return ThreadpoolController()


def _printed(event: Mapping[str, Any]) -> None:
    if event["phase"] == "path":
        print(f"t = {event['t']:.4g}: {event['held']} selected, {event['seconds']:.1f} s")  # noqa: T201 - what verbose asks for
