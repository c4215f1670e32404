"""The fixed pieces of an exported Python module, as text."""

from __future__ import annotations

HEAD = '''\
# ruff: noqa (written by a program)
"""A rule model written by tamis: score(row) and predict(row) for a dict from column name to cell.

Needs nothing but Python. None, NaN, NaT and pandas.NA are missing cells.
"""

'''

_CELL = '''
def _cell(row, name):
    """The cell, None when it is missing; a column that is not there is an error and not a missing cell."""
    if name not in row:
        raise KeyError(f"the row has no column {name!r}, so it cannot be scored; give None where the value is unknown")
    value = row[name]
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value if value == value else None  # NaN and NaT are not equal to themselves
'''

#: By what a variable holds; the first is used by the others.
READERS = {
    "cell": _CELL,
    "number": '''
def _number_in(row, name):
    """A cell as a float; missing is NaN, for which no comparison holds."""
    value = _cell(row, name)
    return math.nan if value is None else float(value)
''',
    "level": '''
def _level_in(row, name):
    """A cell as the text of its level, None when missing; 3.0 and 3 are the same level."""
    value = _cell(row, name)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) or type(value).__name__.startswith("float"):
        value = float(value)
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
    return None if value is None else str(value)
''',
    "moment": '''
def _moment_in(row, name):
    """A date, a time or its ISO text as UTC text with microseconds, None when missing."""
    value = _cell(row, name)
    if value is None:
        return None
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    text = (value.isoformat() if hasattr(value, "isoformat") else str(value)).replace("T", " ")
    return (text + "0000-01-01 00:00:00.000000"[len(text):])[:26]
''',
}

SIGMOID = '''
def _sigmoid(value):
    """1 / (1 + exp(-value)) without overflow."""
    value = max(-700.0, min(700.0, value))
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))
'''

_TWO = '''
def probability(row):
    """The probability of each class."""
    value = {score}
    return {{CLASSES[0]: _sigmoid(-value), CLASSES[1]: _sigmoid(value)}}
'''

_SHARES = '''
def probability(row):
    """The probability of each class."""
    shares = [{share} for {each} in {scores}]
    whole = sum(shares)
    return {{label: share / whole for label, share in zip(CLASSES, shares)}}
'''

PROBABILITIES = {
    "logistic one": _TWO.format(score="score(row)"),
    "platt one": _TWO.format(score="PLATT[0][0] * score(row) + PLATT[0][1]"),
    "ovr many": _SHARES.format(share="_sigmoid(value)", each="value", scores="score(row)"),
    "platt many": _SHARES.format(share="_sigmoid(slope * value + shift)", each="(slope, shift), value", scores="zip(PLATT, score(row))"),
    "softmax many": '''
def probability(row):
    """The probability of each class."""
    scores = score(row)
    best = max(scores)
    shares = [math.exp(max(-700.0, value - best)) for value in scores]
    whole = sum(shares)
    return {label: share / whole for label, share in zip(CLASSES, shares)}
''',
}

ENDINGS = {
    "identity": '''
def predict(row):
    """The prediction: the score itself."""
    return score(row)
''',
    "exp": '''
def predict(row):
    """The prediction: exp of the score."""
    return math.exp(max(-700.0, min(700.0, score(row))))
''',
    "one": '''
def predict(row):
    """The class the sign of the score decides."""
    return CLASSES[1] if score(row) > 0 else CLASSES[0]
''',
    "many": '''
def predict(row):
    """The class of the largest score, the first one on ties."""
    scores = score(row)
    return CLASSES[scores.index(max(scores))]
''',
}
