"""The student's expectations before measuring: asked, kept beside the runs, and shown next to the measurements."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.report.cells import empty_cell, number_cell, text_cell
from scalewise.report.document import Cell, Column, Section, Table

FILE = "predictions.json"  # file in the suite's folder
TABLE = "predictions"
ORDER = 900
TRIES = 3  # number of tries before the question is left out, if no number can be read
RIGHT = 0.2  # share of the measured value: a guess this near is called close


Measured = Callable[[Sequence[Section]], Cell | None]


@dataclass(frozen=True)
class Prediction:
    """One number to guess, and how to find it in the finished report."""

    id: str
    question: str
    unit: str
    measured: Measured
    why: str  # one sentence, for after the measurement


def cell_in(table: str, row: str, column: str) -> Measured:
    """The number in one cell of the finished report."""
    return lambda sections: cell_at(sections, table, row, column)


def ratio_in(table: str, column: str, one: str, other: str) -> Measured:
    """The number of the other row over that of the one row."""
    return lambda sections: ratio_at(sections, table, (one, other), column)


def cell_at(sections: Sequence[Section], table: str, row: str, column: str) -> Cell | None:
    """Returns the column's cell in the first row whose first cell is this text; None if missing or without a number."""
    for section in sections:
        for block in section.blocks:
            if not isinstance(block, Table) or block.id != table:
                continue
            titles = [one.title for one in block.columns]
            if column not in titles:
                return None
            at = titles.index(column)
            cell = next((cells[at] for cells in block.rows if cells[0].text == row and len(cells) > at), None)
            return cell if cell is not None and cell.number is not None else None
    return None


def ratio_at(sections: Sequence[Section], table: str, rows: tuple[str, str], column: str) -> Cell | None:
    """Returns the second row's number over the first row's."""
    one, two = (cell_at(sections, table, row, column) for row in rows)
    if one is None or two is None or not one.number or two.number is None:
        return None
    return number_cell(two.number / one.number)


def asked(
    title: str, predictions: Sequence[Prediction], read: Callable[[], str], say: Callable[[str], None]
) -> dict[str, float]:
    """Asks for the guesses and returns them by id; an empty line leaves a question out.

    Raises BadRequest if standard input is closed.
    """
    say(f"{title}: what do you expect? A number for each question; Enter leaves it out.")
    found: dict[str, float] = {}
    for number, one in enumerate(predictions, 1):
        say(f"{number}. {one.question}{f' ({one.unit})' if one.unit else ''}")
        for _ in range(TRIES):
            line = read()
            if not line:
                raise BadRequest("--predict asks questions, and nobody answers: standard input is closed.")
            text = line.strip().rstrip("%").replace(",", ".").strip()
            if not text:
                break
            guess = _number(text)
            if guess is not None:
                found[one.id] = guess
                break
            say(f"{text[:20]!r} is not a number; for example: 1.5")
        else:
            say(f"question {number} is left out")
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def beside(out: Path, suite: str) -> Path:
    """Returns the file that keeps the guesses before the suite has a folder, so that an interruption loses none."""
    return out / f"{suite}-{FILE}"


def keep(file: Path, guesses: Mapping[str, float]) -> None:
    """Writes the guesses; existing ones were made before measuring and stay."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_name(file.name + ".part")
        half.write_text(json.dumps(dict(guesses), indent=1) + "\n", encoding="utf-8")
        half.replace(file)


def kept(file: Path) -> dict[str, float]:
    """Returns the guesses made before; empty if there are none, or if the file cannot be read."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in told.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    }


def section(
    predictions: Sequence[Prediction], guesses: Mapping[str, float], sections: Sequence[Section]
) -> Section | None:
    """Returns a section with guess, measurement and reason; None if nothing was guessed."""
    known = [one for one in predictions if one.id in guesses]
    if not known:
        return None
    table = Table(
        id=TABLE,
        title="What you expected before measuring",
        columns=(
            Column("Question", numeric=False),
            Column("You said"),
            Column("Measured"),
            Column("", numeric=False),
            Column("Why", numeric=False),
        ),
        rows=tuple(_row(one, guesses[one.id], one.measured(sections)) for one in known),
    )
    return Section("predictions", "You said, measured, why", (table,))


def _row(one: Prediction, guess: float, measured: Cell | None) -> tuple[Cell, ...]:
    said_cell = Cell(f"{guess:g}", guess)  # as it was typed, not rounded
    question = f"{one.question}{f' ({one.unit})' if one.unit else ''}"
    if measured is None or measured.number is None:
        missing = empty_cell("this was not measured")
        return text_cell(question), said_cell, missing, text_cell("not measured"), text_cell("")
    return text_cell(question), said_cell, measured, text_cell(verdict(guess, measured)), text_cell(one.why)


def verdict(guess: float, measured: Cell) -> str:
    """Returns `right` inside the interval or if equal; `close` within a fifth; else `too high` or `too low`."""
    value = measured.number or 0.0
    low = measured.low if measured.low is not None else value
    high = measured.high if measured.high is not None else value
    if low <= guess <= high:
        return "right"
    if abs(guess - value) <= RIGHT * abs(value):
        return "close"
    return "too high" if guess > value else "too low"
