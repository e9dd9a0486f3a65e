"""Sets the names of lines and parts in rows above a figure, as many in a row as there is room for."""

import textwrap
from collections.abc import Sequence
from typing import Any

LETTER_POINTS = 3.5  # average width of a letter of 7.5 points
HANDLE_POINTS = 20.5  # the symbol before a name and the gap after it
ROW_POINTS = 11.5
LONGEST_NAME = 44
LONGEST_LABEL = 60
BAR_NAME_LETTERS = 22


def legend_columns(names: Sequence[str], width_points: float) -> int:
    """Returns how many columns fit, each as wide as its longest name."""
    widths = [len(elided(name)) * LETTER_POINTS + HANDLE_POINTS for name in names]
    for columns in range(len(names), 1, -1):
        if sum(max(widths[column::columns]) for column in range(columns)) <= width_points:
            return columns
    return 1


def legend_points(names: Sequence[str], width_points: float) -> float:
    """Returns the height of the legend."""
    return -(-len(names) // legend_columns(names, width_points)) * ROW_POINTS + 2


def paint_legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Draws the legend row by row, the first name first."""
    columns = legend_columns(names, float(figure.bbox.width))
    # matplotlib fills columns first, but people read rows first.
    order = [index for column in range(columns) for index in range(column, len(names), columns)]
    figure.legend([handles[index] for index in order], [elided(names[index]) for index in order],
                  loc="outside upper left", ncols=columns)  # fmt: skip


def elided(text: str, most: int = LONGEST_NAME) -> str:
    """Returns the text shortened for a figure; the tables show it in full."""
    single = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    return single if len(single) <= most else f"{single[: most - 1]}…"


def bar_name(text: str) -> str:
    """Returns the name on two lines at most."""
    lines = textwrap.wrap(elided(text), BAR_NAME_LETTERS)
    return "\n".join([lines[0], elided(" ".join(lines[1:]), BAR_NAME_LETTERS)]) if len(lines) > 1 else elided(text)
