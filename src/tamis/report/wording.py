"""Numbers and names as people read them, the same in the page, the terminal and the picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_CEILING

from tamis.core.certificate import percent
from tamis.report.content import Value

NOTHING = "–"
MINUS = "\u2212"
SPACE = "\u00a0"
THIN = "\u202f"
LONGEST_NAME = 320


def finite(value: Value) -> float | None:
    """The value as a float where it is a number, else None: NaN and infinity are never drawn."""
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return float(value)


def decimals_for(values: Iterable[float]) -> int:
    """Decimals for a column of weights: two, fewer for large ones, and two digits for those below a tenth."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0 or 0.095 <= largest < 100:
        return 2
    return min(8, max(0, 1 - math.floor(math.log10(largest)))) if largest < 0.095 else 1 if largest < 1000 else 0


def signed(value: float, decimals: int) -> str:
    """A weight: `+1.32`, with a real minus sign; zero carries no sign."""
    text = f"{abs(value):.{decimals}f}"
    if not float(text):
        return text
    return (MINUS if value < 0 else "+") + text


def share(value: float) -> str:
    """A share in percent: 18 %, 4.2 %, 0.31 %."""
    percent = 100 * value
    digits = 0 if percent == 0 or abs(percent) >= 9.95 else 1 if abs(percent) >= 0.95 else 2
    return f"{percent:.{digits}f}{SPACE}%".replace("-", MINUS)


def count(value: float) -> str:
    """A count with thin spaces between thousands; a weighted count keeps one decimal."""
    return f"{value:,.{0 if float(value).is_integer() else 1}f}".replace(",", THIN).replace("-", MINUS)


def number(value: float) -> str:
    """Any number, four significant digits at most, without an exponent where that stays short."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        text = f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}" if value else "0"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return text.replace("-", MINUS)


def fraction(value: float) -> str:
    """A number between 0 and 1 with two decimals, so that a column lines up."""
    return f"{value:.2f}".replace("-", MINUS)


def times(value: float) -> str:
    """A factor: 2.7×, 12×."""
    return f"{value:.{0 if abs(value) >= 9.95 else 1}f}×".replace("-", MINUS)


def gap(value: float) -> str:
    """A relative gap as the certificate's own sentence says it: rounded up."""
    return percent(value, ROUND_CEILING).replace(" ", SPACE)


def residual(value: float) -> str:
    """A violation of equations: 1.5e−13, as the certificate's own sentence says it."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}".replace("-", MINUS) if value else "0"


def distance(value: float, is_residual: bool) -> str:
    """How far a claim is from what it claims: a share of an objective, or a violation of equations."""
    return residual(value) if is_residual else gap(value)


def knob_text(value: float) -> str:
    """A knob's value with three significant digits."""
    return number(float(f"{value:.3g}"))


def in_form(value: Value, form: str) -> str:
    """A measured value in the form its column asks for; a dash where there is none."""
    if isinstance(value, str):
        return visible(value)
    known = finite(value)
    if known is None:
        return NOTHING
    return {"share": share, "count": count, "fraction": fraction, "times": times}.get(form, number)(known)


def with_error(mean: float | None, error: float | None) -> str:
    """A score with its standard error: `0.412 ± 0.009`; the error decides the digits."""
    known, spread = finite(mean), finite(error)
    if known is None:
        return NOTHING
    if not spread:
        return number(known)
    power = math.floor(math.log10(spread))
    decimals = min(8, max(0, (0 if spread >= 2.95 * 10.0**power else 1) - power))
    return f"{known:.{decimals}f} ± {spread:.{decimals}f}".replace("-", MINUS)


def visible(text: str, longest: int = LONGEST_NAME) -> str:
    """A user's text with nothing hidden: control and direction marks become symbols, lone surrogates a replacement.

    Two names that differ only in invisible characters must look different, and no name may turn the text
    around it. Very long names keep their beginning and end.
    """
    shown = "".join(map(_shown, text)) if not text.isprintable() else text
    if len(shown) > longest:
        shown = f"{shown[: longest * 2 // 3]} … {shown[-longest // 3 :]}"
    return shown


def _shown(character: str) -> str:
    """One character, or a symbol that stands for it."""
    category = unicodedata.category(character)
    if character == "\n":
        return "↵"
    if character == "\t":
        return "⇥"
    if category in ("Cc", "Cs", "Cn", "Co", "Zl", "Zp") or (category == "Cf" and character not in "\u200c\u200d"):
        return "\ufffd"
    return character
