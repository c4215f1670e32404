"""A score card as one SELECT statement that gives the model's own scores in the database.

Every sum runs in the order of the card, in doubles; NULL always ends in ELSE, because no condition is ever
negated as a whole. That is what makes the database and Python agree to the last digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tamis.core.errors import TamisError
from tamis.core.scorecard import Rule, ScoreCard
from tamis.store.export_card import CLIP, REGRESSION_LINKS, by_sign, cells_of, check_card, check_finite, plain
from tamis.store.export_sql_conditions import conditions_sql
from tamis.store.export_sql_dialects import Dialect, dialect_named

#: Terms per parenthesis: databases refuse expressions nested about 1000 deep, and `a + b + c` nests once per sign.
BLOCK = 200
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_]{1,40}")

#: Stands for a line break of ours until the layout is known; users' texts cannot contain it.
_LINE = "\0"

Field = tuple[str, str]  # an expression and the name it gets


def to_sql(
    card: ScoreCard,
    dialect: str = "duckdb",
    table: str | Sequence[str] = "data",
    key: str | Sequence[str] | None = None,
    probability: bool = True,
) -> str:
    """Write a score card as one SELECT statement.

    Parameters
    ----------
    card : ScoreCard
    dialect : str, default="duckdb"
        `duckdb`, `postgres`, `sqlite`, `mysql` (8), `bigquery`, `snowflake`, `tsql` (SQL Server) or `spark`.
    table : str or sequence of str, default="data"
        The table to score; `("sales", "customers")` for a table in a schema.
    key : str, sequence of str or None
        Columns to carry along, so that scores can be joined back.
    probability : bool, default=True
        Whether to add probabilities. Without them the statement needs no EXP, which some SQLite builds lack.

    Returns
    -------
    str
        Without a final semicolon, so that it can stand in a view or in `FROM (...) AS scored`. Its columns are
        the key, then `score`, `probability` (of the second class) and `label` for two classes;
        `score_<class>`, `probability_<class>` and `label` for more (numbers replace class names that are not
        plain words); `score` and `prediction` for regression.

    Examples
    --------
    >>> from tamis.core.literal import Literal
    >>> from tamis.core.scorecard import Rule, ScoreCard
    >>> from tamis.store.export_sql import to_sql
    >>> rule = Rule((Literal("tenure", "<=", 11.0, "integer"),), (1.5,))
    >>> print(to_sql(ScoreCard((rule,), (-0.25,), "identity"), key="id"))
    SELECT
      "id",
      "score",
      "score" AS "prediction"
    FROM (
      SELECT
        "id",
        -0.25e0
          + CASE WHEN CAST("tenure" AS DOUBLE) <= 11 THEN 1.5e0 ELSE 0 END AS "score"
      FROM "data"
    ) AS scored1
    """
    spelling = dialect_named(dialect)
    check_card(card, "SQL")
    check_finite(card, "SQL")
    parts = [table] if isinstance(table, str) else list(table)
    keys = [key] if isinstance(key, str) else list(key or [])
    layers = _layers(card, spelling, probability)
    _check_keys(keys, layers)
    source = ".".join(spelling.identifier(part) for part in parts)
    return _nested(layers, [(spelling.identifier(name), name) for name in keys], source, spelling)


def _layers(card: ScoreCard, dialect: Dialect, probability: bool) -> list[list[Field]]:
    """The fields of each SELECT, innermost first; every layer reads only the one below it."""
    suffixes = _suffixes(card)
    names = [f"score{suffix}" for suffix in suffixes]
    kinds = cells_of(card)
    scores = [(_sum(card, column, dialect, kinds), name) for column, name in enumerate(names)]
    kept = [(dialect.identifier(name), name) for name in names]
    if card.link in REGRESSION_LINKS:
        value = kept[0][0] if card.link == "identity" else _exp(kept[0][0])
        return [scores, [*kept, (value, "prediction")]]
    wanted = probability and card.link != "none"
    if by_sign(card):
        chance = [(_sigmoid(_calibrated(card, 0, kept[0][0], dialect), dialect), "probability")] if wanted else []
        label = f"CASE WHEN {kept[0][0]} > 0 THEN {_label(card.classes[1], dialect)} ELSE {_label(card.classes[0], dialect)} END"
        return [scores, [*kept, *chance, (label, "label")]]
    top = (dialect.largest.format(dialect.separator.join(name for name, _ in kept)), "top_score")
    return [scores, *_many_classes(card, dialect, kept, top, suffixes, wanted)]


def _many_classes(card: ScoreCard, dialect: Dialect, kept: list[Field], top: Field, suffixes: list[str], wanted: bool) -> list[list[Field]]:
    """The layers above the scores of three or more classes: shares, then probabilities and the first maximum."""
    best = dialect.identifier("top_score")
    choices = [f"WHEN {score} = {best} THEN {_label(label, dialect)}" for (score, _), label in zip(kept[:-1], card.classes, strict=False)]
    label = (f"CASE {' '.join(choices)} ELSE {_label(card.classes[-1], dialect)} END", "label")
    if not wanted:
        return [[*kept, top], [*kept, label]]
    shares = [f"share{suffix}" for suffix in suffixes]
    if card.link == "softmax":
        parts = [(_exp_below(score, best), share) for (score, _), share in zip(kept, shares, strict=True)]
        below = [[*kept, top], [*kept, (best, "top_score"), *parts]]
    else:
        parts = [(_sigmoid(_calibrated(card, column, score, dialect), dialect), shares[column]) for column, (score, _) in enumerate(kept)]
        below = [[*kept, top, *parts]]
    total = _blocks([dialect.identifier(share) for share in shares], " + ")
    chances = [(f"{dialect.identifier(share)} / ({total})", f"probability{suffix}") for share, suffix in zip(shares, suffixes, strict=True)]
    return [*below, [*kept, *chances, label]]


def _nested(layers: list[list[Field]], keys: list[Field], source: str, dialect: Dialect) -> str:
    """Each layer selects from the one below; the fence keeps a database from computing the scores again per use."""
    opening: list[str] = []
    closing: list[str] = []
    for depth, fields in enumerate(reversed(layers)):
        pad = "  " * depth
        listed = [f"{pad}  {_named(expression, name, dialect)}" for expression, name in [*keys, *fields]]
        opening += [f"{pad}SELECT", ",\n".join(listed).replace(_LINE, f"\n{pad}    "), f"{pad}FROM ("]
        closing[:0] = [f"{pad}  {dialect.fence}"] * bool(dialect.fence) + [f"{pad}) AS scored{len(layers) - 1 - depth}"]
    opening[-1] = f"{'  ' * (len(layers) - 1)}FROM {source}"
    return "\n".join([*opening, *closing[1 + bool(dialect.fence) :]])


def _named(expression: str, name: str, dialect: Dialect) -> str:
    """`expression AS name`, or the name alone."""
    quoted = dialect.identifier(name)
    return expression if expression == quoted else f"{expression} AS {quoted}"


def _suffixes(card: ScoreCard) -> list[str]:
    """What tells the score columns apart: nothing for one, class names if they are plain and distinct words, else numbers."""
    if len(card.constant) == 1:
        return [""]
    words = [str(plain(label)) for label in card.classes]
    plain_words = all(_SIMPLE_NAME.fullmatch(word) for word in words) and len({word.casefold() for word in words}) == len(words)
    return [f"_{word}" for word in words] if plain_words else [f"_{number}" for number in range(1, len(words) + 1)]


def _check_keys(keys: list[str], layers: list[list[Field]]) -> None:
    """A key that is called like an output would make two columns of one name."""
    taken = {name.casefold() for fields in layers for _, name in fields}
    seen: set[str] = set()
    for key in keys:
        if key.casefold() in taken or key.casefold() in seen:
            raise TamisError(
                f"The key column {key!r} has the name of another column of the result, "
                "so no SQL was written; rename it in a view and export from there."
            )
        seen.add(key.casefold())


def _sum(card: ScoreCard, column: int, dialect: Dialect, kinds: Mapping[str, str]) -> str:
    """One score: the constant and one CASE per rule that has a say, in the order of the card."""
    terms = [dialect.number(card.constant[column])]
    terms += [_case(rule, column, dialect, kinds) for rule in card.rules if rule.weights[column] != 0]
    return _blocks(terms, f"{_LINE}+ ")


def _case(rule: Rule, column: int, dialect: Dialect, kinds: Mapping[str, str]) -> str:
    """The weight when every condition holds, else 0."""
    return f"CASE WHEN {conditions_sql(rule.conditions, dialect, kinds)} THEN {dialect.number(rule.weights[column])} ELSE 0 END"


def _blocks(terms: list[str], plus: str) -> str:
    """`a + b + (c + d) + (e + f)`: left to right as Python sums, in parentheses of BLOCK terms."""
    blocks = [plus.join(terms[start : start + BLOCK]) for start in range(0, len(terms), BLOCK)]
    return plus.join([blocks[0], *(f"({block})" for block in blocks[1:])])


def _calibrated(card: ScoreCard, column: int, score: str, dialect: Dialect) -> str:
    """The score on the scale of the sigmoid: itself, or Platt's line."""
    if card.link != "platt":
        return score
    slope, shift = card.platt[column]
    return f"({dialect.number(slope)} * {score} + {dialect.number(shift)})"


def _sigmoid(score: str, dialect: Dialect) -> str:
    """1 / (1 + exp(-score)) without overflow: EXP never sees a positive number, nor one below -CLIP."""
    low, high = dialect.number(-CLIP), dialect.number(CLIP)
    return (
        f"CASE WHEN {score} >= {high} THEN {dialect.number(1.0)} WHEN {score} >= 0 THEN 1 / (1 + EXP(-{score})) "
        f"WHEN {score} >= {low} THEN EXP({score}) / (1 + EXP({score})) ELSE EXP({low}) END"
    )


def _exp(score: str) -> str:
    """exp of a score, clipped to +-CLIP."""
    return f"EXP(CASE WHEN {score} > {CLIP:.0f} THEN {CLIP:.0f} WHEN {score} < -{CLIP:.0f} THEN -{CLIP:.0f} ELSE {score} END)"


def _exp_below(score: str, best: str) -> str:
    """exp of how far a score is below the best one: at most 1, and never so small that EXP fails."""
    return f"EXP(CASE WHEN {score} - {best} < -{CLIP:.0f} THEN -{CLIP:.0f} ELSE {score} - {best} END)"


def _label(value: object, dialect: Dialect) -> str:
    """A class label as a value of the result."""
    value = plain(value)
    if isinstance(value, bool):
        return dialect.booleans[int(value)]
    if isinstance(value, int):
        return str(value)
    return dialect.number(value) if isinstance(value, float) else dialect.string(str(value))
