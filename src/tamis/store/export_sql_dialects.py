"""How each database spells the same few things: names, texts, doubles, infinities, times and equality of texts.

Facts, not style: in DuckDB, PostgreSQL, Snowflake and Spark a NaN sorts above every number; `0.1` is a decimal
and not a double in most dialects; MySQL and SQL Server compare texts without case and without trailing blanks;
MySQL, BigQuery, Snowflake and Spark read backslashes in texts. Each fact is one field or one small function here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tamis.core.errors import TamisError
from tamis.store.export_card import decimal_text

#: Integers up to here are doubles without loss, in every dialect.
EXACT_INTEGER = 2**53
_STEP = 2**62


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database's spelling; every `str` field with `{}` is a form to fill in.

    Attributes
    ----------
    name : str
    identifier, string, number : callable
        A quoted name, a text literal, a literal of type double that is exact to the last bit.
    double : str
        A value as a 64-bit float, so that integers, decimals and float32 compare as the model saw them.
    text : str
        A value as a text that compares byte by byte.
    time, time_literal : str
        A date or a time as a timestamp, and a timestamp literal.
    is_true, is_false : str
        Tests of a boolean, or of a 0/1 number.
    infinity, not_a_number, no_nan : str
        The double infinity, the test for NaN, and a double with NULL for NaN; empty where the database holds none.
    nan_is_largest : bool
        Whether NaN sorts above every number, so that `x > a` needs an upper end.
    text_end : str
        What texts compared with `text` must end with (a sentinel that protects trailing blanks).
    fence : str
        What keeps a database from merging a subquery into its reader and so computing every score many times.
    cut : callable or None
        A number to compare with, where `number` may be read one unit off.
    largest, separator : str
        The greatest of several doubles, and what stands between them.
    booleans : (str, str)
        FALSE and TRUE as values of a result column.
    """

    name: str
    identifier: Callable[[str], str]
    string: Callable[[str], str]
    number: Callable[[float], str]
    double: str
    text: str
    time: str
    time_literal: str
    is_true: str
    is_false: str
    infinity: str = ""
    not_a_number: str = ""
    no_nan: str = ""
    nan_is_largest: bool = False
    text_end: str = ""
    fence: str = ""
    cut: Callable[[float], str] | None = None
    largest: str = "GREATEST({})"
    separator: str = ", "
    booleans: tuple[str, str] = ("FALSE", "TRUE")

    def compared(self, number: float) -> str:
        """A finite number to compare a double with: integers stay short, the rest is exact."""
        if float(number).is_integer() and abs(number) <= EXACT_INTEGER:
            return str(int(number))
        return (self.cut or self.number)(float(number))

    def text_literal(self, text: str) -> str:
        """A text to compare `text` with."""
        return self.string(text + self.text_end)


def _no_nul(text: str) -> str:
    """Most databases end a text at its first NUL character; such a text cannot be compared there."""
    if "\0" in text:
        raise TamisError(
            f"{text!r} contains a NUL character, which SQL texts cannot hold, so no SQL was written; clean that column and fit again."
        )
    return text


def _doubled(opening: str, closing: str) -> Callable[[str], str]:
    """Quotes that are escaped by doubling."""

    def quoted(text: str) -> str:
        return opening + _no_nul(text).replace(closing, closing * 2) + closing

    return quoted


def _backslashed(quote: str) -> Callable[[str], str]:
    """Quotes of the dialects that read backslash escapes (BigQuery, Spark): line ends are escaped too."""

    def quoted(text: str) -> str:
        text = _no_nul(text).replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + text.replace("\n", "\\n").replace("\r", "\\r") + quote

    return quoted


def _backslash_and_doubled(text: str) -> str:
    """Texts of MySQL and Snowflake: the backslash escapes and the quote is doubled."""
    return "'" + _no_nul(text).replace("\\", "\\\\").replace("'", "''") + "'"


def _postgres_string(text: str) -> str:
    """A text that means the same whatever `standard_conforming_strings` says."""
    quoted = _no_nul(text).replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in quoted else f"'{quoted}'"


def _tsql_string(text: str) -> str:
    """A Unicode text of SQL Server, which would drop a backslash that ends a line: such a text is put together."""
    quoted = _no_nul(text).replace("'", "''")
    for line_end in ("\r\n", "\n"):
        quoted = quoted.replace("\\" + line_end, "\\' + N'" + line_end)
    return f"(N'{quoted}')" if "\\' + N'" in quoted else f"N'{quoted}'"


def _exponent(number: float) -> str:
    """A literal that is a double because it has an exponent; without one it would be a decimal."""
    text = decimal_text(number)
    return text if "e" in text else text.removesuffix(".0") + "e0"


def _sqlite_cut(number: float) -> str:
    """A number SQLite reads exactly on every build: a short decimal, else an integer times a power of two.

    SQLite's own text-to-double conversion is one unit off now and then. One division of two exact doubles is
    not, which is what its parser does for up to 15 digits and small exponents; a ratio spells out the rest.
    """
    text = decimal_text(number)
    mantissa, _, exponent = text.partition("e")
    digits = mantissa.lstrip("-").replace(".", "")
    shift = int(exponent or 0) - len(mantissa.partition(".")[2])
    if int(digits) < EXACT_INTEGER and abs(shift) <= 22 and Fraction(text) != 0:
        return text
    ratio = Fraction(number)
    pieces = [f"CAST({ratio.numerator} AS REAL)" if abs(ratio.numerator) <= EXACT_INTEGER else ""]
    if not pieces[0]:
        power = (ratio.numerator & -ratio.numerator).bit_length() - 1
        pieces = [f"CAST({ratio.numerator >> power} AS REAL)", *_powers("*", 1 << power)]
    return "(" + " ".join([*pieces, *_powers("/", ratio.denominator)]) + ")"


def _powers(sign: str, power: int) -> list[str]:
    """`/ 4611686018427387904 / 8` for a division by 2 ** 65: steps that are exact integers."""
    steps = []
    while power > 1:
        step = min(power, _STEP)
        steps.append(f"{sign} {step}")
        power //= step
    return steps


_NAMES, _TEXTS, _TICKS = _doubled('"', '"'), _doubled("'", "'"), _doubled("`", "`")
#: A stored text such as `2024-01-31`, `2024-01-31T12:30Z` or `2024-01-31 12:30:00.5`, filled up to microseconds.
_SQLITE_TIME = "substr(replace(rtrim({0}, 'Z'), 'T', ' ') || substr('0000-01-01 00:00:00.000000', length(rtrim({0}, 'Z')) + 1), 1, 26)"

_KNOWN = (
    Dialect(
        name="duckdb",
        identifier=_NAMES,
        string=_TEXTS,
        number=_exponent,
        double="CAST({} AS DOUBLE)",
        text="CAST({} AS VARCHAR)",
        time="CAST({} AS TIMESTAMP)",
        time_literal="TIMESTAMP {}",
        is_true="CAST({} AS DOUBLE) = 1",
        is_false="CAST({} AS DOUBLE) = 0",
        infinity="'Infinity'::DOUBLE",
        not_a_number="isnan({})",
        no_nan="NULLIF({}, 'NaN'::DOUBLE)",
        nan_is_largest=True,
    ),
    Dialect(
        name="postgres",
        identifier=_NAMES,
        string=_postgres_string,
        number=lambda number: decimal_text(number) + "::float8",
        double="CAST({} AS DOUBLE PRECISION)",
        text="CAST({} AS TEXT)",
        time="CAST({} AS TIMESTAMP)",
        time_literal="TIMESTAMP {}",
        is_true="CAST({} AS TEXT) IN ('true', '1')",
        is_false="CAST({} AS TEXT) IN ('false', '0')",
        infinity="'Infinity'::float8",
        not_a_number="{} = 'NaN'::float8",
        no_nan="NULLIF({}, 'NaN'::float8)",
        fence="OFFSET 0",
        nan_is_largest=True,
    ),
    Dialect(
        name="sqlite",
        identifier=_NAMES,
        string=_TEXTS,
        number=decimal_text,
        double="CAST({} AS REAL)",
        text="CAST({} AS TEXT) COLLATE BINARY",
        time=_SQLITE_TIME,
        time_literal="{}",
        is_true="CAST({} AS REAL) = 1",
        is_false="CAST({} AS REAL) = 0",
        infinity="9e999",
        cut=_sqlite_cut,
        fence="LIMIT -1 OFFSET 0",
        largest="MAX({})",
        booleans=("0", "1"),
    ),
    Dialect(
        name="mysql",
        identifier=_TICKS,
        string=_backslash_and_doubled,
        number=_exponent,
        double="CAST({} AS DOUBLE)",
        text="CONCAT(CONVERT({} USING utf8mb4), '|') COLLATE utf8mb4_bin",
        text_end="|",
        fence="LIMIT 9223372036854775807",
        time="CAST({} AS DATETIME(6))",
        time_literal="TIMESTAMP {}",
        is_true="CAST({} AS DOUBLE) = 1",
        is_false="CAST({} AS DOUBLE) = 0",
    ),
    Dialect(
        name="bigquery",
        identifier=_backslashed("`"),
        string=_backslashed("'"),
        number=decimal_text,
        double="CAST({} AS FLOAT64)",
        text="CAST({} AS STRING)",
        time="CAST({} AS DATETIME)",
        time_literal="DATETIME {}",
        is_true="SAFE_CAST({} AS INT64) = 1",
        is_false="SAFE_CAST({} AS INT64) = 0",
        infinity="CAST('inf' AS FLOAT64)",
        not_a_number="IS_NAN({0})",
        no_nan="IF(IS_NAN({0}), NULL, {0})",
    ),
    Dialect(
        name="snowflake",
        identifier=_NAMES,
        string=_backslash_and_doubled,
        number=lambda number: f"'{decimal_text(number)}'::FLOAT",
        double="CAST({} AS FLOAT)",
        text="CAST({} AS VARCHAR)",
        time="CAST({} AS TIMESTAMP_NTZ)",
        time_literal="CAST({} AS TIMESTAMP_NTZ)",
        is_true="CAST({} AS VARCHAR) IN ('true', '1')",
        is_false="CAST({} AS VARCHAR) IN ('false', '0')",
        infinity="'inf'::FLOAT",
        not_a_number="{} = 'NaN'::FLOAT",
        no_nan="NULLIF({}, 'NaN'::FLOAT)",
        nan_is_largest=True,
    ),
    Dialect(
        name="tsql",
        identifier=_doubled("[", "]"),
        string=_tsql_string,
        number=_exponent,
        double="CAST({} AS DOUBLE PRECISION)",
        text="(CAST({} AS NVARCHAR(MAX)) + N'|') COLLATE Latin1_General_100_BIN2",
        text_end="|",
        time="CAST({} AS DATETIME2)",
        time_literal="CAST({} AS DATETIME2)",
        is_true="CAST({} AS DOUBLE PRECISION) = 1",
        is_false="CAST({} AS DOUBLE PRECISION) = 0",
        largest="(SELECT MAX(each.value) FROM (VALUES ({})) AS each(value))",
        separator="), (",
        booleans=("CAST(0 AS BIT)", "CAST(1 AS BIT)"),
    ),
    Dialect(
        name="spark",
        identifier=_TICKS,
        string=_backslashed("'"),
        number=lambda number: decimal_text(number) + "D",
        double="CAST({} AS DOUBLE)",
        text="CAST({} AS STRING)",
        time="CAST({} AS TIMESTAMP)",
        time_literal="TIMESTAMP {}",
        is_true="CAST({} AS DOUBLE) = 1",
        is_false="CAST({} AS DOUBLE) = 0",
        infinity="CAST('Infinity' AS DOUBLE)",
        not_a_number="isnan({})",
        no_nan="NULLIF({}, CAST('NaN' AS DOUBLE))",
        nan_is_largest=True,
    ),
)
#: Every dialect `to_sql` writes, by name.
DIALECTS = {dialect.name: dialect for dialect in _KNOWN}


def dialect_named(name: str) -> Dialect:
    """The dialect, or one sentence that lists the known ones."""
    if name not in DIALECTS:
        raise TamisError(f"The SQL dialect {name!r} is not known, so no SQL was written; use one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]
