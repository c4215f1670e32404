"""StabilitySelector: the pieces that are selected again and again when only half of the rows are looked at."""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, check_random_state

from tamis.core.errors import TamisError
from tamis.core.follow import Watch
from tamis.linear.base import PathModel
from tamis.select.frequencies import Found, bound_of, bound_words, certificate_of, path_of
from tamis.select.pieces import Pieces, checked_base, checked_knob, linear_pieces, rule_pieces, sampled
from tamis.select.sampling import Halves, Job, Sample, hashes_of
from tamis.store.kept import Kept
from tamis.tables.targets import checked_labels, checked_numbers, checked_weight, target_name

Array = NDArray[Any]


class StabilitySelector(Kept, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Selection by how often: a path is followed on many halves of the rows, and pieces are kept that enter early on most of them.

    A piece is what the base selects: a column, a group of columns, a row of D (with a `transformation`), or a rule. Each of
    `n_samples` subsamples of half of the rows counts the first `q` pieces to enter its path, or those selected at `t`. Pieces
    counted in a share of at least `threshold` of the samples are selected. How many of these are false to be expected is bounded by
    q^2 / ((2 threshold - 1) p), where p is how many could enter; `bound_sentence()` says under which assumptions.

    Parameters
    ----------
    base : estimator, optional
        InverseScaleRegressor (default), BregmanRegressor, BregmanClassifier, RuleClassifier or RuleRegressor. How it chooses a model
        on its path plays no part here. Cut points of rules are settled once, on all rows; a single condition and its opposite are
        counted as one piece.
    n_samples : int
        How many subsamples; even with `pairs`.
    q : int, optional
        Count the first so many to enter. Pieces that enter together (on a path of separate knots: from one to the next) are counted
        together, or not at all if they would be more than q. Default round(sqrt(0.8 p)); with rules, p is here the number of
        conditions, and for a base with a fixed C there is none: it counts what is selected at that C.
    t : float, optional
        Count what is selected at this time (linear models) or this C (rules), in place of `q`.
    threshold : float
        In (0.5, 1]: the share of samples that have to select a piece. 0.6 to 0.9 are usual.
    pairs : bool
        Use each half and its complement (Shah and Samworth), rather than halves drawn one by one. Halves keep the shares of
        classes, and rows that are equal are dealt out evenly.
    n_jobs : int, optional
        Processes; results do not depend on it.
    random_state : int, optional
        Deals the rows into halves. Rows are told apart by what they hold, so their order changes nothing.
    time_limit : float, optional
        Seconds after which the samples done so far are used.
    verbose : int

    Attributes
    ----------
    frequencies_ : ndarray (columns,), or dict of name to share
        In column order where pieces are columns; otherwise by name, and of rules only those that were ever counted.
    selected_ : tuple of str
        The pieces kept, most frequent first.
    bound_ : float
        Bound on the expected number of false ones among them.
        It is ``q_^2 / ((2 threshold - 1) n_candidates_)``.
    q_ : float
        The q of the bound: the given one, or with `t` the mean number selected.
    n_candidates_ : float
        p: how many pieces could enter.
    n_samples_ : int
        Samples that were finished.
    kind_ : str
        "columns", "groups", "rows of D", "groups of rows of D" or "rules".
    path_ : Path
        The selection at every threshold.
    certificate_ : Certificate
        Of kind "none": a frequency is an estimate. It says what is known instead.
    status_, notes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import StabilitySelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 20))
    >>> y = 2 * X[:, 3] - 2 * X[:, 8] + rng.normal(size=100)
    >>> selector = StabilitySelector(n_samples=50, q=3).fit(X, y)
    >>> sorted(selector.selected_), round(selector.bound_, 3)
    (['x3', 'x8'], 0.9)
    >>> selector.transform(X).shape
    (100, 2)
    """

    def __init__(
        self, base: Any = None, n_samples: int = 100, q: int | None = None, t: float | None = None, threshold: float = 0.75, *,
        pairs: bool = True, n_jobs: int | None = None, random_state: Any = None, time_limit: float | None = None, verbose: int | bool = 0,
    ) -> None:  # fmt: skip
        self.base, self.n_samples, self.q, self.t, self.threshold = base, n_samples, q, t, threshold
        self.pairs, self.n_jobs, self.random_state, self.time_limit, self.verbose = pairs, n_jobs, random_state, time_limit, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(checked_base(self.base)).input_tags
        tags.target_tags.required = True
        return tags

    # ---- fit ----------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Follow the path on every subsample and count.

        Parameters
        ----------
        X : whatever the base accepts
        y : array
        sample_weight : array, optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        from tamis.select.parameters import check_parameters

        check_parameters(self)
        base = checked_base(self.base)
        q, t = checked_knob(base, self.q, self.t)
        table, rows = self._checked_table(base, X)
        values, codes, classes = _target(base, y, rows)
        weight = checked_weight(sample_weight, rows)
        self._target_name = target_name(y)
        pieces, base = self._pieces(base, table, values, codes, weight)
        if q is None and t is None:
            q = pieces.q
        if q is not None and q > 1 and np.log(q) > pieces.log_candidates * (1 + 1e-12):
            many = round(np.exp(pieces.log_candidates))
            raise TamisError(f"q={q} exceeds the {many} {pieces.kind} that can enter, so nothing was fitted; give a smaller q.")
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        numbers = np.asarray(values if not classes else codes, dtype=float)
        drawn = Halves(hashes_of(X, numbers[:, None], seed), codes, weight, bool(self.pairs))
        drawn.check(classes)
        deadline = None if self.time_limit is None else time.time() + self.time_limit
        job = Job(sampled(base, q, t), X, values, pieces.owner, q, t, deadline, type(X) is np.ndarray)
        samples, status = self._samples(job, drawn)
        self._publish(samples, status, pieces, q)
        return self

    def _checked_table(self, base: Any, X: Any) -> tuple[Any, int]:
        """The input as its base reads it, and how many rows it has; its columns are learned."""
        if isinstance(base, PathModel):
            from tamis.linear.inputs import checked_columns

            columns = checked_columns(self, X, reset=True)
            return columns, columns.rows
        from tamis.tables.contract import checked_table

        table = checked_table(self, X, reset=True)
        return table, table.n_rows

    def _pieces(self, base: Any, table: Any, values: Array, codes: Array, weight: Array) -> tuple[Pieces, Any]:
        if isinstance(base, PathModel):
            return linear_pieces(base, table, weight), base
        return rule_pieces(base, table, codes if is_classifier(base) else values, weight)

    def _samples(self, job: Job, drawn: Halves) -> tuple[list[Sample], str]:
        """Samples until all are done or there is a reason to stop; the first ones are the same however many are asked for."""
        from tamis.scale.executor import executor

        samples: list[Sample] = []
        results = executor(self.n_jobs, "processes").map(job, drawn.draw(self.n_samples))
        with Watch(self.time_limit) as watch:
            try:
                for done in results:
                    if isinstance(done, str):
                        return samples, done
                    samples += done
                    if self.verbose:
                        sys.stdout.write(f"{len(samples)} of {self.n_samples} samples, {watch.seconds:.1f} s\n")
                    reason = watch.reason()
                    if reason is not None and len(samples) < self.n_samples:
                        return samples, reason
            finally:
                _closed(results)
        return samples, "complete"

    def _publish(self, samples: list[Sample], status: str, pieces: Pieces, q: int | None) -> None:
        """Set the fitted attributes."""
        if not samples:
            raise TamisError(
                f"The fit was stopped ({status}) before its first samples were done, so there are no frequencies; give it more time."
            )
        counts = Counter(name for sample in samples for name in sample.chosen)
        free = dict.fromkeys(name for sample in samples for name in sample.free)
        names = pieces.names or tuple(sorted(counts, key=lambda name: (-counts[name], name)))
        share = np.array([1.0 if name in free else counts[name] / len(samples) for name in names])
        size = min(sample.log_candidates for sample in samples) if pieces.kind == "rules" else pieces.log_candidates
        mean = float(np.mean([len(sample.chosen) for sample in samples]))
        self._found = Found(
            pieces.kind, names, share, pieces.labels, size, mean if q is None else float(q), q is None, mean,
            len(samples), bool(self.pairs), float(self.threshold), tuple(free),
        )  # fmt: skip
        self.status_, self.notes_ = status, tuple(self._notes(samples, status, q))
        self._settle()

    def _settle(self) -> None:
        """Everything that follows from the frequencies."""
        found = self._found
        self.kind_, self.n_samples_, self.q_, self.threshold_ = found.kind, found.samples, found.q, found.threshold
        self.n_candidates_ = float(np.rint(np.exp(found.log_candidates))) if found.log_candidates < 700 else np.inf
        self.frequencies_: Any = (
            found.share.copy() if found.kind == "columns" else dict(zip(found.names, found.share.tolist(), strict=True))
        )
        self.selected_ = tuple(found.names[i] for i in found.at(found.threshold))
        self.bound_ = bound_of(found)
        self.certificate_ = certificate_of(found)
        self.path_ = path_of(found, self.status_, self.certificate_, self._provenance())

    def _notes(self, samples: list[Sample], status: str, q: int | None) -> list[str]:
        """What a reader should know of the samples."""
        notes = []
        if status != "complete":
            why = "its time was up" if status == "budget" else "it was interrupted"
            notes.append(f"The fit was stopped after {len(samples)} of {self.n_samples} samples because {why}: frequencies are coarser.")
        short = sum(sample.short for sample in samples)
        if short:
            notes.append(f"On {short} of {len(samples)} samples the path ended before {q} had entered; the bound allows for that.")
        if self._found.free:
            listed = ", ".join(map(repr, self._found.free[:5])) + (", ..." if len(self._found.free) > 5 else "")
            notes.append(f"In every model whatever the data say, and not counted: {listed}.")
        return notes

    def _provenance(self) -> dict[str, Any]:
        """Where the frequencies come from."""
        import platform

        import sklearn

        from tamis import __version__
        from tamis.linear.parameters import said

        versions = {"tamis": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__, "python": platform.python_version()}
        given = self.get_params(deep=False)
        parameters = {name: said(given[name]) for name in sorted(given) if name not in ("verbose", "n_jobs")}
        return {"versions": versions, "columns_given": int(self.n_features_in_), "parameters": parameters}

    # ---- use ----------------------------------------------------------------------------------------------------
    def _get_support_mask(self) -> Array:
        """Which columns are in a selected piece."""
        check_is_fitted(self, "path_")
        found = self._found
        if found.labels is None:
            raise TamisError(
                f"What was selected are {found.kind}, not columns, so no columns can be picked from X; read selected_ or to_frame()."
            )
        chosen = np.zeros(len(found.names), dtype=bool)
        chosen[found.at(found.threshold)] = True
        return np.asarray(chosen[found.labels])

    def inverse_transform(self, X: Any) -> Any:
        """Columns back in their places, zeros where they were not selected; also when none was, where scikit-learn would refuse.

        Parameters
        ----------
        X : array (rows, selected columns)

        Returns
        -------
        ndarray (rows, columns)
        """
        mask, shape = self._get_support_mask(), tuple(getattr(X, "shape", ()))
        return np.zeros((shape[0], len(mask))) if not mask.any() and shape[1:] == (0,) else super().inverse_transform(X)

    def bound_sentence(self) -> str:
        """The bound on false selections in words, with what it assumes.

        Returns
        -------
        str
        """
        check_is_fitted(self, "path_")
        return bound_words(self._found)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per piece: its name, its frequency, whether it is selected; the most frequent first.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            The first one installed by default.

        Returns
        -------
        frame
        """
        import narwhals as nw

        from tamis.core.path import installed_frame

        check_is_fitted(self, "path_")
        found = self._found
        order = found.order()
        schema = {"piece": nw.String(), "frequency": nw.Float64(), "selected": nw.Boolean()}
        columns = {
            "piece": [found.names[i] for i in order], "frequency": found.share[order].tolist(),
            "selected": [name in set(self.selected_) for name in (found.names[i] for i in order)],
        }  # fmt: skip
        library: Any = backend or installed_frame()
        return nw.from_dict(columns, schema, backend=library).to_native()

    def _to_model(self) -> tuple[dict[str, Any], dict[str, Array]]:
        from tamis.select.persist import to_model

        return to_model(self)

    @classmethod
    def _from_model(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        from tamis.select.persist import from_model

        found: Self = from_model(cls, meta, arrays)
        return found


def _closed(results: Any) -> None:
    """Work that has not begun is called off; joblib would warn of it, but it was asked for."""
    if hasattr(results, "close"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def _target(base: Any, y: Any, rows: int) -> tuple[Array, Array, tuple[Any, ...]]:
    """The target as the base takes it, class positions (zeros for numbers), and the classes."""
    if not is_classifier(base):
        return checked_numbers(y, rows, "a classifier as base"), np.zeros(rows, dtype=int), ()
    labels = checked_labels(y, rows, "a regressor as base")
    classes, codes = np.unique(labels, return_inverse=True)
    return labels, codes, tuple(classes.tolist())
