"""Data that the demos make by code, so that they need no network and no files."""

from __future__ import annotations

CELLS = ("top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right")
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
MARKS = ("x", "o", "blank")


def tic_tac_toe() -> tuple[dict[str, list[str]], list[bool]]:
    """All final boards of tic-tac-toe when x moves first, as columns, and whether x has won.

    Returns
    -------
    columns : dict of str to list of str
        One column per cell ("top left" ... "bottom right"), holding "x", "o" or "blank"; 958 rows in a fixed order.
    wins : list of bool
        True on the 626 boards with three x in a line.

    Examples
    --------
    >>> columns, wins = tic_tac_toe()
    >>> len(wins), sum(wins), columns["top left"][:3]
    (958, 626, ['x', 'x', 'x'])
    """
    finals: set[tuple[str, ...]] = set()
    visited: set[tuple[str, ...]] = set()
    open_boards: list[tuple[str, ...]] = [("blank",) * 9]
    while open_boards:
        board = open_boards.pop()
        if board in visited:
            continue
        visited.add(board)
        mover = "x" if board.count("x") == board.count("o") else "o"
        if won(board, "x") or won(board, "o") or "blank" not in board:
            finals.add(board)
        else:
            open_boards += [(*board[:i], mover, *board[i + 1 :]) for i in range(9) if board[i] == "blank"]
    boards = sorted(finals, key=lambda board: [MARKS.index(mark) for mark in board])
    return {cell: [board[i] for board in boards] for i, cell in enumerate(CELLS)}, [won(board, "x") for board in boards]


def won(board: tuple[str, ...], mark: str) -> bool:
    """Whether a player has three in a line."""
    return any(all(board[i] == mark for i in line) for line in LINES)


def halves(labels: list[bool]) -> tuple[list[int], list[int]]:
    """Two halves of the rows with the same share of each label, the same ones on every machine."""
    from random import Random

    shuffled = list(range(len(labels)))
    Random(0).shuffle(shuffled)
    ordered = sorted(shuffled, key=lambda i: labels[i])
    return sorted(ordered[::2]), sorted(ordered[1::2])
