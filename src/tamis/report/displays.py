"""Pictures in notebooks: scikit-learn style displays of a path and of a set of rules.

matplotlib is imported when something is drawn, and no global setting of it is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.core.errors import TamisError
from tamis.core.path import Path
from tamis.report.axis import WIDTH, knob_axis
from tamis.report.build import chosen_knot, content_of, path_content
from tamis.report.content import ReportContent
from tamis.report.picture import filled, gap_scale, piece_weight, top_pieces
from tamis.report.wording import MINUS, distance, finite, number, share, visible

COLOURS = ("#0f6fa8", "#c65a11", "#0b8064", "#a8447f", "#8a6d00", "#5b57b8")
POSITIVE, NEGATIVE, ACCENT, SOFT, LINE, GREY = "#23698f", "#b4532a", "#23606f", "#59636c", "#e3dfd6", "#c3c4c1"
GOOD, WARN = "#7fae97", "#e0b45c"
LONGEST_LABEL = 46
MOST_DOTS = 60


class PathDisplay:
    """The path of a model: weights along the knob, the validation score, and the certificates.

    Parameters
    ----------
    content : ReportContent
        See `from_path` and `from_estimator` for the usual ways to make one.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The panel of weights.
    axes_ : tuple of Axes
        All panels.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from tamis.core.certificate import Certificate
    >>> from tamis.core.path import Knot, Path
    >>> from tamis.report.displays import PathDisplay
    >>> certificate = Certificate("duality gap", 1.0, 0.995, 0.01)
    >>> knots = tuple(Knot(t, ((0,),), ("tenure <= 11",), np.array([[t]]), np.zeros(1), certificate) for t in (0.1, 1.0, 10.0))
    >>> display = PathDisplay.from_path(Path(knots, knob="C")).plot()
    >>> display.ax_.get_ylabel()
    'weight'
    """

    def __init__(self, content: ReportContent) -> None:
        self.content = content

    @classmethod
    def from_path(cls, path: Path, *, chosen: int | None = None, ax: Any = None) -> PathDisplay:
        """A display of a path, drawn at once when an `ax` is given."""
        display = cls(path_content(path, title="", chosen=chosen))
        return display if ax is None else display.plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PathDisplay:
        """A display of a fitted model's path with the knot it chose."""
        path = getattr(estimator, "path_", None)
        if path is None:
            raise TamisError(f"This {type(estimator).__name__} has no path yet, so there is nothing to draw; fit it first.")
        return cls.from_path(path, chosen=chosen_knot(estimator, path), ax=ax)

    def plot(self, ax: Any = None, *, max_pieces: int | None = None, legend: bool = False, log: bool = True) -> PathDisplay:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw the weights there; by default a new figure shows weights, validation score and certificates.
        max_pieces : int, optional
            Draw at most so many pieces: the coloured ones and then the largest.
        legend : bool
            Name the coloured pieces in a legend instead of beside their lines.
        log : bool
            Draw a knob that spans decades by its logarithm.

        Returns
        -------
        PathDisplay
            This display, with `ax_`, `axes_` and `figure_`.
        """
        import matplotlib.pyplot as plt

        scored = any(stop.mean is not None for stop in self.content.path.stops)
        if ax is None:
            heights = [4.2, *([1.7] if scored else []), 0.8]
            figure, axes = plt.subplots(
                len(heights), 1, sharex=True, figsize=(8.6, 1.0 + sum(heights)), height_ratios=heights, layout="constrained"
            )
            self.figure_, self.axes_ = figure, tuple(axes)
        else:
            self.figure_, self.axes_ = ax.figure, (ax,)
        self.ax_ = self.axes_[0]
        x, self._end = self._places(log)
        self._weights(self.ax_, x, max_pieces, legend)
        if len(self.axes_) > 1:
            if scored:
                self._scores(self.axes_[1], x)
            self._gaps(self.axes_[-1], x)
        self._knob(self.axes_[-1], x)
        self.figure_.align_ylabels(self.axes_)
        return self

    def _places(self, log: bool) -> tuple[Any, float]:
        """Where knots are drawn, and where the last one's model ends: on a logarithm time zero stands a little before the first entry."""
        path = self.content.path
        axis, self._ticks, self._scale = knob_axis(path)
        places, values = np.asarray(axis), np.array([stop.t for stop in path.stops])
        if self._scale == "order":
            return places / WIDTH * max(len(values) - 1, 1), float(max(len(values) - 1, 1))
        self._scale = self._scale if log else "linear"
        if self._scale == "linear" or len(values) < 2:
            return values, float(values[-1] + (0.05 * (values[-1] - values[0]) if path.steps else 0.0))
        # As far from the first entry as on the page's axis, in the knob's own units.
        first = int(np.flatnonzero(values > 0)[0])
        slope = np.log(values[-1] / values[first]) / (places[-1] - places[first]) if places[-1] > places[first] else 1.0 / WIDTH
        before, end = (
            float(values[at] * np.exp(slope * far)) for at, far in ((first, places[0] - places[first]), (-1, WIDTH - places[-1]))
        )
        return np.concatenate([[before] if first else values[:1], values[1:]]), end if path.steps else float(values[-1])

    def _knob(self, axis: Any, x: Any) -> None:
        """The axis of the knob, drawn in the direction the path was followed."""
        path = self.content.path
        if self._scale == "order":
            axis.set_xticks(x, [number(stop.t) for stop in path.stops])
        else:
            axis.set_xscale(self._scale)
            if self._scale == "log":
                # The page's own marks; that of time zero belongs to the place where it is drawn.
                marks = [(float(tick.text.replace(MINUS, "-")), tick.text) for tick in self._ticks]
                axis.set_xticks([value or float(x[0]) for value, _ in marks], [text for _, text in marks])
                axis.minorticks_off()
            else:
                axis.xaxis.set_major_formatter(lambda value, _: number(float(f"{value:.6g}")))
        if len(x) > 1:
            axis.set_xlim(x[0], self._end)
        axis.set_xlabel(visible(path.knob))
        for panel in self.axes_:
            panel.axvline(x[path.chosen], color=ACCENT, linewidth=1.4, zorder=1)

    def _weights(self, axis: Any, x: Any, most: int | None, legend: bool) -> None:
        """Coloured lines for the first pieces, grey ones for the rest; names stand at the right end."""
        content = self.content
        dense = np.zeros((len(content.pieces), len(x)))
        for place, stop in enumerate(content.path.stops):
            for piece, row in zip(stop.pieces, stop.weights, strict=True):
                dense[piece, place] = finite(piece_weight(row)) or 0.0
        top = top_pieces(content)[:most]
        others = [int(piece) for piece in np.argsort(-np.abs(dense).max(axis=1), kind="stable") if piece not in top]
        others = others if most is None else others[: max(most - len(top), 0)]
        _clean(axis)
        axis.axhline(0.0, color=GREY, linewidth=0.9, zorder=1)
        places, heights = self._lines(dense, x)
        if others:
            axis.plot(places, heights[others].T, color=GREY, linewidth=0.8, zorder=2)
        for piece, colour in zip(top, COLOURS, strict=False):
            name = visible(content.pieces[piece].name, LONGEST_LABEL).replace("$", r"\$")
            axis.plot(places, heights[piece], color=colour, linewidth=2.0, zorder=3, label=name)
        if legend and top:
            axis.legend(frameon=False, fontsize=9, loc="best")
        else:
            self._names(axis, dense[:, -1] if len(x) else np.zeros(len(dense)), top)
        axis.set_ylabel("weight" if len(content.columns) == 1 else "size of the weights")

    def _lines(self, dense: Any, x: Any) -> tuple[Any, Any]:
        """Places and heights of the lines: each starts where its piece enters, the zeros before and after are not drawn."""
        if self.content.path.steps:
            # A model stays until the next knot: at each the line goes straight from the height before it to its own.
            before = np.column_stack([np.zeros(len(dense)), dense[:, :-1]])
            there = (dense != 0) | (before != 0)
            corners = np.stack([np.where(there, before, np.nan), np.where(there, dense, np.nan)], axis=2).reshape(len(dense), 2 * len(x))
            last = np.where(dense[:, -1:] != 0, dense[:, -1:], np.nan)
            return np.append(np.repeat(x, 2), self._end), np.column_stack([corners, last])
        there = dense != 0
        near = there.copy()
        near[:, :-1] |= there[:, 1:]
        near[:, 1:] |= there[:, :-1]
        return x, np.where(near, dense, np.nan)

    def _names(self, axis: Any, ends: Any, top: tuple[int, ...]) -> None:
        """Names of the coloured pieces beside their line's end, moved apart so that none covers another."""
        low, high = axis.get_ylim()
        height = axis.get_window_extent().height / axis.figure.dpi * 72
        step = 13.0 * (high - low) / max(height, 60.0)
        order = sorted(top, key=lambda piece: ends[piece])
        at: list[float] = []
        for piece in order:
            at.append(max(float(ends[piece]), at[-1] + step if at else low + step / 2))
        ceiling = high - step / 2
        for index in reversed(range(len(at))):
            at[index] = min(at[index], ceiling)
            ceiling = at[index] - step
        for piece, place in zip(order, at, strict=True):
            name = visible(self.content.pieces[piece].name, LONGEST_LABEL).replace("$", r"\$")
            axis.annotate(
                name,
                (1.0, place),
                (7, 0),
                ("axes fraction", "data"),
                "offset points",
                color=COLOURS[top.index(piece)],
                fontsize=9,
                va="center",
            )

    def _scores(self, axis: Any, x: Any) -> None:
        """Validation curve with its band of one standard error."""
        path = self.content.path
        mean = np.array([np.nan if stop.mean is None else stop.mean for stop in path.stops])
        error = np.array([stop.error or 0.0 for stop in path.stops])
        _clean(axis)
        style, step = ("steps-post", "post") if path.steps else ("default", None)
        axis.fill_between(x, mean - error, mean + error, color=ACCENT, alpha=0.15, linewidth=0, step=step)
        axis.plot(x, mean, color=ACCENT, linewidth=1.8, marker="o", markersize=3 if len(x) <= MOST_DOTS else 0, drawstyle=style)
        axis.plot(x[path.chosen], mean[path.chosen], color=ACCENT, marker="o", markersize=7)
        axis.set_ylabel(visible(path.score or "score"))

    def _gaps(self, axis: Any, x: Any) -> None:
        """One bar per knot, hatched where the certificate does not hold."""
        stops, steps = self.content.path.stops, self.content.path.steps
        asked, top = gap_scale(stops)
        spread = bool(np.all(x > 0)) and self._scale == "log"
        middle = np.sqrt(x[1:] * x[:-1]) if spread else (x[1:] + x[:-1]) / 2
        edges = np.append(x, self._end) if steps else np.concatenate([x[:1], middle, x[-1:]])
        for index, stop in enumerate(stops):
            colour, hatch = (GOOD, None) if stop.claim.holds else (WARN, "////")
            axis.bar(
                edges[index],
                filled(stop.claim, finite(stop.claim.gap), top),
                edges[index + 1] - edges[index],
                align="edge",
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.6 if len(stops) <= MOST_DOTS else 0.0,
            )
        _clean(axis, grid=False)
        if asked is not None:
            claim = stops[0].claim
            at = filled(claim, asked, top)
            axis.axhline(at, color=SOFT, linewidth=0.9, linestyle=(0, (4, 4)))
            axis.set_yticks([0.0, at], ["1e−17" if claim.residual else "0", distance(asked, claim.residual)])
        axis.set_ylim(0, 1)
        axis.set_ylabel("residual" if stops[0].claim.residual else "gap")


class RulesDisplay:
    """The pieces of a fitted model as diverging bars of weights, with what each covers.

    Parameters
    ----------
    content : ReportContent
        See `from_estimator` for the usual way to make one.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from tamis.report.content import Claim, PathPicture, Piece, ReportContent, Stop
    >>> from tamis.report.displays import RulesDisplay
    >>> stop = Stop(1.0, Claim("Within 0.8 % of the best."), pieces=(0,), weights=((1.32,),))
    >>> display = RulesDisplay(ReportContent("churn", PathPicture("C", (stop,)), (Piece("tenure <= 11"),))).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['tenure <= 11']
    """

    def __init__(self, content: ReportContent) -> None:
        self.content = content

    @classmethod
    def from_estimator(cls, estimator: Any, *, most: int = 20, ax: Any = None) -> RulesDisplay:
        """A display of a fitted model, drawn at once when an `ax` is given."""
        display = cls(content_of(estimator))
        return display if ax is None else display.plot(ax=ax, most=most)

    def plot(self, ax: Any = None, *, most: int = 20) -> RulesDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int
            How many pieces, most important first.

        Returns
        -------
        RulesDisplay
            This display, with `ax_` and `figure_`.
        """
        import matplotlib.pyplot as plt

        stop, columns = self.content.chosen, self.content.columns
        pieces = [self.content.pieces[index] for index in stop.pieces[:most]]
        weights = np.array(stop.weights[:most], dtype=float).reshape(len(pieces), len(columns))
        if ax is None:
            _, ax = plt.subplots(figsize=(8.6, 0.9 + 0.34 * max(len(pieces), 2) * (1 + 0.35 * (len(columns) - 1))), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        rows, thick = np.arange(len(pieces)), 0.68 / len(columns)
        for place, column in enumerate(columns):
            colours = (
                [POSITIVE if weight >= 0 else NEGATIVE for weight in weights[:, 0]] if len(columns) == 1 else COLOURS[place % len(COLOURS)]
            )
            ax.barh(
                rows + (place - (len(columns) - 1) / 2) * thick,
                weights[:, place],
                thick * 0.94,
                color=colours,
                label=visible(column.name),
                zorder=2,
            )
        _clean(ax, grid=False)
        ax.axvline(0.0, color=GREY, linewidth=0.9)
        ax.set_yticks(rows, [visible(piece.name, 2 * LONGEST_LABEL).replace("$", r"\$") for piece in pieces])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(max(len(pieces), 1) - 0.5, -0.5)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(self._direction())
        if len(columns) > 1:
            ax.legend(frameon=False, fontsize=9)
        self._coverage(ax, [piece.values.get("coverage") for piece in pieces])
        return self

    def _direction(self) -> str:
        """What the sign of a weight means."""
        column = self.content.columns[0]
        if len(self.content.columns) > 1 or not column.positive:
            return "weight"
        return f"{visible(column.negative)}  ←  {visible(column.name)}  →  {visible(column.positive)}".replace("$", r"\$")

    def _coverage(self, ax: Any, shares: list[Any]) -> None:
        """What each piece covers, as text at the right."""
        for row, value in enumerate(shares):
            known = finite(value)
            if known is not None:
                ax.annotate(
                    share(known),
                    (1.0, row),
                    (42, 0),
                    ("axes fraction", "data"),
                    "offset points",
                    color=SOFT,
                    fontsize=9,
                    va="center",
                    ha="right",
                )
        if any(finite(value) is not None for value in shares):
            ax.annotate("covers", (1.0, 1.0), (42, 3), "axes fraction", "offset points", color=SOFT, fontsize=9, ha="right")


def _clean(axis: Any, grid: bool = True) -> None:
    """Calm axes: no box, faint lines."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(LINE)
    axis.tick_params(colors=SOFT, labelsize=9)
    axis.xaxis.label.set_color(SOFT)
    axis.yaxis.label.set_color(SOFT)
    if grid:
        axis.grid(axis="y", color=LINE, linewidth=0.8, zorder=0)
        axis.set_axisbelow(True)
