"""What a report says, as plain data: every family fills these shapes, and page, terminal and tests read them.

Nothing here knows an estimator, HTML or a plot. A piece is whatever a method selects: a rule, a group, an
edge, a filter. Its weights live in the knots of the path, what was measured about it lives with the piece.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tamis.core.certificate import Certificate
from tamis.core.errors import TamisError

FORMS = ("share", "fraction", "number", "count", "times", "text")
STATES = ("holds", "fails", "none")

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A certificate as a reader meets it: one sentence, and whether it holds.

    Attributes
    ----------
    sentence : str
    state : str
        "holds", "fails" (a certificate weaker than asked) or "none" (none can exist; the sentence says why).
    gap, tolerance, gain_share : float or None
        The numbers behind the sentence, where they exist.
    residual : bool
        Whether gap and tolerance are violations of equations, such as 1e-13, rather than shares of an objective.
    """

    sentence: str
    state: str = "none"
    gap: float | None = None
    tolerance: float | None = None
    gain_share: float | None = None
    residual: bool = False

    def __post_init__(self) -> None:
        _one_of("state of a claim", self.state, STATES)

    @property
    def holds(self) -> bool:
        """True when what was asked for is proved."""
        return self.state == "holds"

    @classmethod
    def of(cls, certificate: Certificate) -> Claim:
        """Read a certificate into plain data."""
        if certificate.kind == "none":
            return cls(certificate.sentence(), "none")
        state = "holds" if certificate.holds else "fails"
        gap = certificate.gap if math.isfinite(certificate.gap) else None
        share = None if certificate.constant is None or certificate.nothing_to_gain else certificate.gain_share
        return cls(certificate.sentence(), state, gap, certificate.tolerance, share, certificate.is_residual)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the summary, already in words: `Figure("rules", "14", "of 27 434 looked at")`."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One column of weights; `negative` and `positive` name what a weight of that sign pushes towards."""

    name: str = "weight"
    negative: str = ""
    positive: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the table of pieces: what was measured about each piece.

    Attributes
    ----------
    key : str
        Key into `Piece.values`.
    label : str
        Column heading.
    form : str
        How the number reads: "share" (18 %), "fraction" (0.71), "number", "count" (7 043), "times" (1.9x) or "text".
    bar : bool
        Whether a small bar from 0 to 1 stands behind a share.
    note : str
        What the number means, for the heading's tooltip and the legend.
    minor : bool
        Left out on a phone.
    """

    key: str
    label: str
    form: str = "number"
    bar: bool = False
    note: str = ""
    minor: bool = False

    def __post_init__(self) -> None:
        _one_of("form of a measure", self.form, FORMS)


@dataclass(frozen=True, slots=True)
class Piece:
    """Something a method selects: its name, its conditions (joined by "AND" or "OR") when it is a rule, and what was measured about it."""

    name: str
    conditions: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    joiner: str = "AND"


@dataclass(frozen=True, slots=True)
class Stop:
    """One knot of the path, ready to be shown.

    Attributes
    ----------
    t : float
        The knob's value.
    claim : Claim
    pieces : tuple of int
        Positions into `ReportContent.pieces`, most important first.
    weights : tuple of tuples
        One tuple per piece, one weight per score column.
    constant : tuple of float
        What every row gets, per score column; empty when the method has none.
    mean, error : float or None
        Validation score and its standard error.
    """

    t: float
    claim: Claim
    pieces: tuple[int, ...] = ()
    weights: tuple[tuple[float, ...], ...] = ()
    constant: tuple[float, ...] = ()
    mean: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class PathPicture:
    """The path: knots in the order followed, the chosen one, and what was measured along it.

    Attributes
    ----------
    knob : str
        What is turned, such as "C".
    stops : tuple of Stop
    chosen : int
        Position of the chosen knot.
    score : str
        Name of the validation score, such as "log-loss"; empty when there was no validation.
    lower_is_better : bool
    scale : str
        "log", "linear", "auto" (log where the knob spans more than a decade and a half), or "time" (log from the first entry on, with
        room for time zero before it and for the last model after it).
    note : str
        How the knot was chosen and how the path ended, in words.
    steps : bool
        Whether a model stays as it is until the next knot.
    curve : tuple of (knob value, mean, error)
        The validation score where it is known between knots, too; empty when it is known at the knots only.
    """

    knob: str
    stops: tuple[Stop, ...]
    chosen: int = 0
    score: str = ""
    lower_is_better: bool = True
    scale: str = "auto"
    note: str = ""
    steps: bool = False
    curve: tuple[tuple[float, float, float], ...] = ()

    def __post_init__(self) -> None:
        _one_of("scale of a path", self.scale, ("auto", "log", "linear", "time"))
        if not self.stops:
            raise TamisError("The path has no knot, so there is nothing to report; give the fit more time or a larger budget.")
        if not 0 <= self.chosen < len(self.stops):
            raise TamisError(f"The chosen knot is {self.chosen}, but the path has {len(self.stops)} knots; choose one of them.")


@dataclass(frozen=True, slots=True)
class Baseline:
    """One line of the comparison: a simpler model, or ours.

    Attributes
    ----------
    name : str
    score, error : float or None
        The same score on the same folds for every line, and its standard error.
    pieces : int or None
        How many pieces it uses.
    gap : float or None
        Its own certificate, as a relative gap.
    sentence : str
        What the comparison says, in words.
    ours : bool
        True for the model this report is about.
    """

    name: str
    score: float | None = None
    error: float | None = None
    pieces: int | None = None
    gap: float | None = None
    sentence: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens along the path: `Event(0.021, "enters", "bmi")`."""

    t: float
    what: str
    name: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Values at consecutive places, such as coefficients along a signal: two or more curves over one axis.

    Attributes
    ----------
    title, note : str
    curves : tuple of (name, values)
        All of one length; the last one is drawn on top.
    first, last : str
        What stands at the two ends of the axis.
    """

    title: str
    note: str
    curves: tuple[tuple[str, tuple[float, ...]], ...]
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """Everything one report says.

    Attributes
    ----------
    title, subtitle : str
    path : PathPicture
        At least one knot; the chosen one is the model shown first, and its claim is the model's certificate.
    pieces : tuple of Piece
        Every piece any knot holds.
    columns : tuple of ScoreColumn
    measures : tuple of Measure
    figures : tuple of Figure
    baselines : tuple of Baseline
    baseline_score, baseline_note : str
        Name of the score the baselines are compared by, and on which rows it was measured, in words.
    notes : tuple of str
        One sentence each: what was dropped, merged, stopped, refitted.
    provenance : tuple of (label, text)
        Versions, data shape, parameters, and a date if one is wanted.
    word, words : str
        What one piece, and several, are called.
    nothing : str
        What a model without pieces is.
    events : tuple of Event
        What enters and leaves, in order.
    events_note : str
    profile : Profile or None
    own_units : bool
        Whether each piece's weights are in units of their own, so that each is written with digits of its own.

    Examples
    --------
    >>> from tamis.report.content import Claim, PathPicture, Piece, ReportContent, Stop
    >>> claim = Claim("Within 0.8 % of the best possible model over 54 conditions.", "holds", gap=0.008)
    >>> stop = Stop(1.0, claim, pieces=(0,), weights=((1.32,),))
    >>> content = ReportContent("churn", path=PathPicture("C", (stop,)), pieces=(Piece("tenure <= 11"),))
    >>> content.claim.holds
    True
    """

    title: str
    path: PathPicture
    pieces: tuple[Piece, ...]
    subtitle: str = ""
    columns: tuple[ScoreColumn, ...] = (ScoreColumn(),)
    measures: tuple[Measure, ...] = ()
    figures: tuple[Figure, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    baseline_score: str = ""
    baseline_note: str = ""
    notes: tuple[str, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    word: str = "piece"
    words: str = "pieces"
    nothing: str = "every row gets the constant"
    events: tuple[Event, ...] = ()
    events_note: str = ""
    profile: Profile | None = None
    own_units: bool = False

    def __post_init__(self) -> None:
        for stop in self.path.stops:
            widths = {len(row) for row in stop.weights} | ({len(stop.constant)} if stop.constant else set())
            if len(stop.pieces) != len(stop.weights) or widths - {len(self.columns)}:
                raise TamisError(
                    f"The knot at {self.path.knob} = {stop.t} does not carry {len(self.columns)} weights for each of its pieces, "
                    "so it cannot be shown; give one tuple of weights per piece."
                )
            if any(not 0 <= index < len(self.pieces) for index in stop.pieces):
                raise TamisError(
                    f"The knot at {self.path.knob} = {stop.t} names a piece that is not listed; list every piece of every knot."
                )

    @property
    def chosen(self) -> Stop:
        """The knot of the model this report is about."""
        return self.path.stops[self.path.chosen]

    @property
    def claim(self) -> Claim:
        """The certificate of the chosen model."""
        return self.chosen.claim

    def dated(self, date: str) -> ReportContent:
        """The same report with a date; reports carry none by default, so that the same model gives the same bytes."""
        return replace(self, provenance=(*self.provenance, ("date", date)))


def _one_of(what: str, given: str, allowed: tuple[str, ...]) -> None:
    """Refuse a word nobody would know how to show."""
    if given not in allowed:
        raise TamisError(f"The {what} is {given!r}, which cannot be shown; use one of {', '.join(map(repr, allowed))}.")
