"""From plain content to what the page needs: every number as text, every name made visible, per knot.

The template writes the chosen knot's table from this view and the script writes the other knots' tables from
the same view, so the two agree by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tamis.report.content import Baseline, Claim, Measure, Piece, ReportContent, Stop
from tamis.report.picture import Picture, picture_of, top_pieces
from tamis.report.wording import NOTHING, count, decimals_for, distance, finite, gap, in_form, knob_text, signed, visible, with_error

BADGES = {"holds": "Certified", "fails": "Not certified", "none": "No certificate"}
MOST_COLUMNS = 6
SHORT_COLUMNS = 4
MOST_EVENTS = 4
EVENT_LENGTH = 90


@dataclass(frozen=True, slots=True)
class View:
    """What the template reads."""

    content: ReportContent
    picture: Picture | None
    data: dict[str, Any]
    baselines: list[dict[str, Any]]
    hidden: int


def picture_for(content: ReportContent) -> Picture | None:
    """The picture of a path; a single knot has none."""
    return picture_of(content) if len(content.path.stops) > 1 else None


def view_of(content: ReportContent, most: int | None = None, picture: Picture | None = None) -> View:
    """Everything the page shows, holding at most `most` pieces per knot; a picture made before is used again."""
    picture = picture or picture_for(content)
    kept = sorted({index for stop in content.path.stops for index in stop.pieces[:most]} | set(top_pieces(content)))
    place = {index: new for new, index in enumerate(kept)}
    before: Sequence[Stop | None] = (None, *content.path.stops[:-1])
    data = {
        "knob": visible(content.path.knob),
        "chosen": content.path.chosen,
        "word": content.word,
        "words": content.words,
        "nothing": visible(content.nothing),
        "steps": content.path.steps,
        "badges": BADGES,
        "columns": [[visible(column.name), visible(column.negative), visible(column.positive)] for column in content.columns],
        "several": len(content.columns) > 1,
        "shown": SHORT_COLUMNS if len(content.columns) > MOST_COLUMNS else len(content.columns),
        "measures": [{"label": visible(measure.label), "classes": _classes(measure), "bar": measure.bar} for measure in content.measures],
        "pieces": [_piece(content, content.pieces[index]) for index in kept],
        "tops": {place[piece]: colour for colour, piece in enumerate(top_pieces(content), start=1)} if picture else {},
        "knots": [
            _knot(content, stop, place, most) | {"story": story(content, stop, last)}
            for stop, last in zip(content.path.stops, before, strict=True)
        ],
        "x": [round(x / 10, 2) for x in picture.x] if picture else [0],
    }
    return View(content, picture, data, comparison(content.baselines), len(content.pieces) - len(kept))


def _classes(measure: Measure) -> str:
    """How the cells of a measure are laid out."""
    return "measure" + " wordy" * (measure.form == "text") + " minor" * measure.minor


def _piece(content: ReportContent, piece: Piece) -> dict[str, Any]:
    """One piece: name, conditions, and each measure as (text, sortable value, bar)."""
    values = []
    for measure in content.measures:
        value = piece.values.get(measure.key)
        known = finite(value)
        key = visible(value) if isinstance(value, str) else None if known is None else float(f"{known:.6g}")
        bar = round(100 * min(max(known, 0.0), 1.0), 1) if measure.bar and known is not None else None
        values.append([in_form(value, measure.form), key, bar] if bar is not None else [in_form(value, measure.form), key])
    return {
        "name": visible(piece.name),
        "parts": [visible(condition) for condition in piece.conditions],
        "joiner": visible(piece.joiner),
        "values": values,
    }


def _knot(content: ReportContent, stop: Stop, place: dict[int, int], most: int | None) -> dict[str, Any]:
    """One knot: its pieces and weights (rounded once, here), its certificate, and what the slider says there."""
    rows = stop.weights[:most]
    shared = decimals_for(weight for row in stop.weights for weight in row)
    decimals = [decimals_for(row) if content.own_units else shared for row in rows]
    return {
        "t": knob_text(stop.t),
        "pieces": [place[index] for index in stop.pieces[:most]],
        "weights": [[round(finite(weight) or 0.0, digits) for weight in row] for row, digits in zip(rows, decimals, strict=True)],
        "constant": [signed(weight, decimals_for(stop.constant)) for weight in stop.constant],
        "decimals": decimals if content.own_units else shared,
        "count": len(stop.pieces),
        "counted": pieces_text(content, len(stop.pieces)),
        "label": f"{visible(content.path.knob)} = {knob_text(stop.t)}, {pieces_text(content, len(stop.pieces))}, {short_claim(stop.claim)}",
        "claim": visible(stop.claim.sentence),
        "state": stop.claim.state,
        "short": short_claim(stop.claim),
        "score": with_error(stop.mean, stop.error) if finite(stop.mean) is not None else "",
    }


def story(content: ReportContent, stop: Stop, before: Stop | None) -> str:
    """What enters and leaves at a knot, in words."""
    if before is None:
        return f"The path starts here, with {pieces_text(content, len(stop.pieces))}."
    now, then = set(stop.pieces), set(before.pieces)
    said = [_event("Enters", content, [index for index in stop.pieces if index not in then])]
    said.append(_event("Leaves", content, [index for index in before.pieces if index not in now]))
    return " ".join(filter(None, said)) or f"The same {content.words} as at the knot before, with other weights."


def _event(verb: str, content: ReportContent, pieces: Sequence[int]) -> str:
    """`Enters: a; b; and 3 more.`"""
    if not pieces:
        return ""
    names = [visible(content.pieces[index].name, EVENT_LENGTH) for index in pieces[:MOST_EVENTS]]
    more = f"; and {len(pieces) - MOST_EVENTS} more" if len(pieces) > MOST_EVENTS else ""
    return f"{verb}: {'; '.join(names)}{more}."


def pieces_text(content: ReportContent, how_many: int) -> str:
    """`1 rule`, `14 rules`."""
    return f"{count(how_many)} {content.word if how_many == 1 else content.words}"


def strongest(weights: Sequence[float], how_many: int) -> list[int]:
    """Positions of the largest weights in column order: what a row shows when there are many columns."""
    order = sorted(range(len(weights)), key=lambda column: (-abs(weights[column]), column))
    return sorted(order[:how_many])


def short_claim(claim: Claim) -> str:
    """A claim in a few words, for the slider."""
    if claim.state == "none":
        return "no certificate"
    known = finite(claim.gap)
    said = "" if known is None else f"{'exact to' if claim.residual else 'within'} {distance(known, claim.residual)}"
    if claim.holds:
        return said or "certified"
    return f"not certified, {said or 'distance unknown'}"


def comparison(baselines: Sequence[Baseline]) -> list[dict[str, Any]]:
    """Rows of the comparison, each with the place of its dot and of its standard error on one shared axis (0..100)."""
    known = [(score, finite(row.error) or 0.0) for row in baselines if (score := finite(row.score)) is not None]
    low, high = min((score - error for score, error in known), default=0.0), max((score + error for score, error in known), default=1.0)
    pad = 0.08 * (high - low) or 1.0

    def at(value: float) -> float:
        return round(100 * (value - low + pad) / (high - low + 2 * pad), 2)

    rows = []
    for row in baselines:
        score, error = finite(row.score), finite(row.error) or 0.0
        rows.append(
            {
                "name": visible(row.name),
                "score": with_error(row.score, row.error),
                "dot": None if score is None else at(score),
                "left": None if score is None else at(score - error),
                "width": None if score is None else round(at(score + error) - at(score - error), 2),
                "pieces": in_form(row.pieces, "count"),
                "gap": NOTHING if finite(row.gap) is None else gap(float(row.gap or 0.0)),
                "sentence": visible(row.sentence),
                "ours": row.ours,
            }
        )
    return rows
