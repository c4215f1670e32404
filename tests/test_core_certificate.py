"""A certificate claims what its two numbers prove and no more, in every digit it prints."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from helpers_store import same
from tamis import Certificate
from tamis.core.certificate import Recheck, Scope, at_least, percent
from tamis.core.errors import TamisError
from tamis.store.codec import decode_json, encode_json

SCOPE = Scope("27 434 rules", "C = 1", held=40, looked=612)
NUMBERS = st.floats() | st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300])


def claim(value: float, bound: float, constant: float | None = None, **changes: Any) -> Certificate:
    settings = {"kind": "duality gap", "tolerance": 0.01, "scope": SCOPE, "gain_tolerance": 0.1} | changes
    return Certificate(**settings, value=value, bound=bound, constant=constant)


BEST = "of the best possible model over"
X = Scope("x")


def gained(share: int) -> str:
    return f"with at least {share} % of what it can gain over a constant"


SENTENCES = [
    (claim(1.0, 0.992), f"Within 0.80 % {BEST} 27 434 rules (C = 1); 612 were looked at."),
    (claim(1.0, 0.992, 3.0), f"Within 0.80 % {BEST} 27 434 rules (C = 1), {gained(99)}; 612 were looked at."),
    # 0.9999 of the gain is not all of it, and a gap of 0.801 % is more than 0.80 %.
    (claim(1.0, 0.99199, 80.9, scope=X), f"Within 0.81 % {BEST} x, {gained(99)}."),
    (claim(1.0, 1.0, 2.0, scope=X), f"Within 0 % {BEST} x, {gained(100)}."),
    (claim(1.0, 0.9, scope=X), f"Not certified to 1.0 %: only within 10 % {BEST} x."),
    (claim(1.0, 0.995, 1.01, scope=X), f"Not certified to 1.0 %: only within 0.50 % {BEST} x, {gained(66)}."),
    # A hair over the tolerance: the two numbers must not read the same.
    (claim(1.0, 0.98999, scope=X), f"Not certified to 1.0 %: only within 1.1 % {BEST} x."),
    (claim(1.0, -math.inf, scope=X), f"Not certified to 1.0 %: only within an unknown distance {BEST} x."),
    (claim(1.0, math.nan, 2.0, scope=X), f"Not certified to 1.0 %: only within an unknown distance {BEST} x, {gained(0)}."),
    (claim(1.0, 1.0, 1.0), "Nothing to gain over a constant (C = 1): no model over 27 434 rules does better; 612 were looked at."),
    # Nothing could be gained, but this answer is worse than the constant: the failure comes first.
    (claim(5.0, 1.0, 1.0, scope=X), f"Not certified to 1.0 %: only within 80 % {BEST} x."),
    (claim(1.0, 0.999, scope=Scope("x", looked=1_234_567)), f"Within 0.10 % {BEST} x; 1 234 567 were looked at."),
    (Certificate("none", 1.0, 0.0, 0.01, reason="deep nets are not convex."), "No certificate: deep nets are not convex."),
]


@pytest.mark.parametrize(("certificate", "text"), SENTENCES)
def test_sentences(certificate: Certificate, text: str) -> None:
    assert certificate.sentence() == text
    starts_well = text.startswith(("Within", "Nothing to gain"))
    assert certificate.holds == starts_well


@given(NUMBERS, NUMBERS, st.none() | NUMBERS, NUMBERS, NUMBERS)
@example(math.nan, math.nan, None, math.inf, math.inf)
@example(1.0, 2.0, None, 0.01, 1.0)
@example(1.0, 0.999, math.inf, 0.01, 1.0)
@example(1.0, 0.999, math.nan, 0.01, 1.0)
def test_what_holds_is_true_in_exact_arithmetic(
    value: float, bound: float, constant: float | None, tolerance: float, allowed: float
) -> None:
    """NaN and infinities never certify, a bound above the value neither; the rest is checked with fractions."""
    certificate = claim(value, bound, constant, tolerance=tolerance, gain_tolerance=allowed)
    text = certificate.sentence()  # never raises
    assert not math.isnan(certificate.gap)
    assert 0.0 <= certificate.gain_share <= 1.0
    assert certificate.holds != text.startswith("Not certified")
    if not certificate.holds:
        return
    assert all(math.isfinite(number) for number in (value, bound, constant or 0.0))
    exact = [Fraction(number) for number in (value, bound, constant or 0.0)]
    size = max(map(abs, exact))
    noise = Fraction(1, 10**6) * size
    assert exact[0] - exact[1] >= -noise
    if math.isfinite(tolerance):
        assert exact[0] - exact[1] <= Fraction(tolerance) * max(abs(exact[0]), Fraction(1, 10**300)) * (1 + Fraction(1, 10**12))
    if constant is not None and math.isfinite(allowed) and exact[2] - exact[1] > 2 * noise:
        missing = 1 - (exact[2] - exact[0]) / (exact[2] - exact[1])
        assert missing <= Fraction(allowed) + Fraction(1, 10**9)


def test_no_certificate_never_holds() -> None:
    for tolerance in (0.01, 1e9, math.inf):
        certificate = Certificate("none", 1.0, 1.0, tolerance, reason="edited by hand.")
        assert certificate.gap == math.inf
        assert not certificate.holds


def test_a_bound_above_an_answer_is_a_contradiction() -> None:
    assert claim(1.0, 1.0 + 1e-9).holds  # rounding
    assert not claim(1.0, 1.001).holds
    assert claim(1.0, 1.001).gap == math.inf
    assert not claim(1.0, 1.0, 0.9).holds  # the constant model itself is better than the bound
    assert claim(1e-20, 2e-20, 1.0).holds  # a perfect fit: both are nothing beside what was gained


@given(st.floats(1e-9, 9000), st.sampled_from([ROUND_CEILING, ROUND_FLOOR, "ROUND_HALF_EVEN"]))
@example(0.999, "ROUND_HALF_EVEN")
@example(0.9999999999, ROUND_FLOOR)
@example(0.005 + 4e-18, ROUND_CEILING)
@example(0.29, ROUND_FLOOR)
def test_percent_rounds_to_the_side_asked_for(share: float, rounding: str) -> None:
    text = percent(share, rounding)
    assert re.fullmatch(r"\d+(\.\d{1,6})? %", text)
    shown, exact = Fraction(text[:-2]), 100 * Fraction(repr(share))
    digits = len(text.partition(".")[2]) - 2 if "." in text else 0
    last = Fraction(1, 10**digits)
    slack = exact * Fraction(1, 10**8)  # the float's own noise
    if rounding == ROUND_CEILING:
        assert exact - slack <= shown < exact + last
    elif rounding == ROUND_FLOOR:
        assert exact - last < shown <= exact + slack
    else:
        assert abs(shown - exact) <= last
    if share < 1 and rounding != ROUND_CEILING:
        assert text != "100 %"


def test_percent_as_read() -> None:
    shown = {0.008: "0.80 %", 0.12: "12 %", 0.00004: "0.0040 %", 0.0: "0 %", 1.0: "100 %", 0.999: "99.9 %", 0.99999: "99.9 %", 0.5: "50 %"}
    shown |= {
        0.0995: "10 %",
        0.0994: "9.9 %",
        3.214: "321 %",
        1e-12: "0.000000 %",
        math.inf: "an unknown distance",
        1e9: "an unknown distance",
    }
    assert {share: percent(share) for share in shown} == shown
    assert percent(math.nan) == "an unknown distance"
    assert percent(1e-12, ROUND_CEILING) == "0.000001 %"


@given(st.floats(0, 1))
@example(0.999)
@example(0.29)
@example(1 - 2**-53)
@example(1.0)
def test_a_share_of_the_gain_is_never_rounded_up(share: float) -> None:
    shown = int(at_least(share).removesuffix(" %"))
    assert shown <= 100 * share * (1 + 1e-8)
    assert shown > 100 * share * (1 - 1e-8) - 1
    assert (shown == 100) == (share == 1.0)


SCOPES = st.builds(Scope, st.text(), st.text(), st.integers(), st.integers())
KINDS = st.sampled_from(["duality gap", "none"])


@given(st.builds(Certificate, KINDS, NUMBERS, NUMBERS, NUMBERS, SCOPES, st.none() | NUMBERS, NUMBERS, st.text()))
def test_round_trip_through_a_file(certificate: Certificate) -> None:
    data = certificate.to_dict()
    assert same(decode_json(encode_json(data)), data)
    again = Certificate.from_dict(decode_json(encode_json(data)))
    assert same(again.to_dict(), data)
    assert again.sentence() == certificate.sentence()


def test_later_versions_may_add_and_nonsense_is_refused() -> None:
    data = claim(1.0, 0.99, 2.0).to_dict()
    assert Certificate.from_dict(data | {"colour": "blue", "scope": data["scope"] | {"new": 1}}) == claim(1.0, 0.99, 2.0)
    for change in ({"value": "abc"}, {"value": None}, {"scope": None}, {"scope": {}}, {"constant": []}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            Certificate.from_dict(data | change)
    with pytest.raises(KeyError):
        Certificate.from_dict({})


class Doubter:
    """A witness that disagrees with everything."""

    def check(self, certificate: Certificate, *data: Any, **options: Any) -> Recheck:
        return Recheck(certificate.value, certificate.bound - 1, True, f"looked at {data} and {options}.")


def test_recheck_asks_the_witness() -> None:
    certificate = claim(1.0, 0.99)
    with pytest.raises(TamisError, match="carries no witness, so it cannot be rechecked; fit again, or load the model file"):
        certificate.recheck()
    doubted = certificate.with_witness(Doubter())
    assert doubted == certificate
    found = doubted.recheck("X", y="y")
    assert found.refuted
    assert found.sentence() == "Recheck refutes the certificate: looked at ('X',) and {'y': 'y'}."
    assert Recheck(1.0, 0.9, False, "same numbers.").sentence() == "Recheck agrees: same numbers."
    assert "witness" not in doubted.to_dict()


@given(st.floats(0.1, 1e6), st.floats(0, 0.5), st.floats(0.01, 10))
def test_a_smaller_gap_never_reads_worse(value: float, gap: float, gain: float) -> None:
    near, far = claim(value, value * (1 - gap / 2), value + gain), claim(value, value * (1 - gap), value + gain)
    assume(gap > 1e-6)
    assert near.gap <= far.gap
    assert near.gain_share >= far.gain_share or far.nothing_to_gain
    assert near.holds or not far.holds
