"""Learns from points what errors predictions have, and writes them into a file: one sitting after another.

A sitting is a set of models that were rehearsed and run in one go. Its mean error is in part its own (a machine is
slower for minutes), so the spread between sittings is a part of what is expected. Sittings whose runs are gone stay as
they were written; one that is learnt again replaces what was written of it.
"""

import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import hypot, log
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import tomli_w

from bench.scripts.unseen_sets import SETS
from bench.unseen_judge import Point, points_in, seen
from scalewise.predict.seen_errors import FILE

SHARES = (0.0, 0.25)  # of communication, from which on points belong together
LEARNT = tuple(name for name, one in SETS.items() if one.learnt)
NO_SHIFT = 4  # the weight of sittings without a shift: one sitting's mean is in part its own, as earlier ones show
WORTH_POINTS = 3  # the weight of all points together beside those of a cell
WORTH_RANKS = 2  # the weight of all numbers of ranks together beside one, in what sittings differ by
LEAST_SPREAD = 0.05


@dataclass(frozen=True)
class Cell:
    """The points of one sitting with as many ranks and at least this share of communication."""

    ranks: int
    communication: float
    points: int
    mean: float  # logarithm of predicted over measured, of all points of the sitting with as many ranks
    spread: float  # around it, without what the interval holds beside learnt errors


@dataclass(frozen=True)
class Sitting:
    """The points of one sitting, counted."""

    name: str
    where: str
    models: int
    cells: tuple[Cell, ...]

    def mean(self, ranks: int) -> float | None:
        """What its points with as many ranks were off by; None if it has none."""
        return next((one.mean for one in self.cells if one.ranks == ranks), None)


def learned(folders: Sequence[Path]) -> dict[str, object]:
    """Writes the shift and the spread of each number of ranks and share of communication, over all sittings."""
    new = [_sitting(folder / which) for folder in folders for which in LEARNT if (folder / which).is_dir()]
    kept = [one for one in _written() if one.name not in {other.name for other in new}]
    sittings = sorted([*kept, *new], key=lambda one: one.name)
    cells, between = expected(sittings)
    points = sum(cell.points for one in sittings for cell in one.cells)
    apart = ", ".join(f"{spread:.3f} among {ranks} ranks" for ranks, spread in between.items())
    text = (
        f"# {points} points in {len(sittings)} sittings, by {time.strftime('%Y-%m-%d')}: {sittings[-1].where}\n"
        "# Written by `python -m bench unseen --learn FOLDER`. Each spread holds that between sittings:\n"
        f"# {apart}.\n"
    )
    plain = [{**asdict(one), "cells": [asdict(cell) for cell in one.cells]} for one in sittings]
    FILE.write_text(text + tomli_w.dumps({"gloo": cells, "sitting": plain}), encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
    return {"cells": cells, "between": between}


def expected(sittings: Sequence[Sitting]) -> tuple[list[dict[str, float]], dict[int, float]]:
    """What is expected of the next sitting, and the spread between sittings by number of ranks."""
    between = between_sittings(sittings)
    every = [cell for one in sittings for cell in one.cells]
    whole = _mean_square(every)
    found = []
    for ranks in sorted({cell.ranks for cell in every}):
        means = [mean for one in sittings if (mean := one.mean(ranks)) is not None]
        shift = sum(means) / (len(means) + NO_SHIFT)
        for least in SHARES:
            own = [cell for cell in every if (cell.ranks, cell.communication) == (ranks, least)]
            points = sum(cell.points for cell in own)
            square = (points * _mean_square(own) + WORTH_POINTS * whole) / (points + WORTH_POINTS)
            spread = hypot(square**0.5, between[ranks])
            found.append({"ranks": ranks, "communication": least, "shift": round(shift, 4),
                          "spread": round(spread, 4), "points": points})  # fmt: skip
    return found, between


def between_sittings(sittings: Sequence[Sitting]) -> dict[int, float]:
    """The standard deviation, by number of ranks, of what a further sitting is off by around the mean of these.

    What the few models of a sitting explain is taken out. There are few sittings, so each number of ranks leans on all.
    """
    counts = sorted({cell.ranks for one in sittings for cell in one.cells})
    squares = {ranks: found for ranks in counts if (found := _square_between(sittings, ranks)) is not None}
    whole = max(0.0, fmean(squares.values())) if squares else 0.0
    further = 1 + 1 / len(sittings)
    return {
        ranks: (further * (max(0.0, squares.get(ranks, whole)) + WORTH_RANKS * whole) / (1 + WORTH_RANKS)) ** 0.5
        for ranks in counts
    }


def _square_between(sittings: Sequence[Sitting], ranks: int) -> float | None:
    having = [[cell for cell in one.cells if cell.ranks == ranks] for one in sittings]
    having = [cells for cells in having if cells]
    if len(having) < 2:
        return None
    by_chance = fmean(_mean_square(cells) / sum(cell.points for cell in cells) for cells in having)
    return variance(cells[0].mean for cells in having) - by_chance


def cells_of(points: Sequence[Point]) -> tuple[Cell, ...]:
    """The points of one sitting, counted by ranks and share of communication."""
    found = []
    for ranks in sorted({point.ranks for point in points}):
        of_ranks = [point for point in points if point.ranks == ranks]
        mean = fmean(_off(point) for point in of_ranks)
        for least, most in zip(SHARES, (*SHARES[1:], 2.0), strict=True):
            own = [one for one in of_ranks if least <= one.communication < most]
            if own:
                square = fmean((_off(one) - mean) ** 2 - one.apart**2 for one in own)
                spread = max(LEAST_SPREAD**2, square) ** 0.5
                found.append(Cell(ranks, least, len(own), round(mean, 4), round(spread, 4)))
    return tuple(found)


def _sitting(place: Path) -> Sitting:
    points = points_in(place)
    runs = [run for one in seen(place) for run in one.runs.values()]
    began = min(run.started_unix_seconds or time.time() for run in runs)
    where = sorted({f"{run.machine.cpu_model}, {len(run.machine.cores)} cores" for run in runs if run.machine})
    name = f"{time.strftime('%Y-%m-%d', time.localtime(began))} {place.name}"
    return Sitting(name, "; ".join(where), len({point.model for point in points}), cells_of(points))


def _written() -> list[Sitting]:
    told: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        Sitting(**{**one, "cells": tuple(Cell(**cell) for cell in one["cells"])}) for one in told.get("sitting", ())
    ]


def _mean_square(cells: Sequence[Cell]) -> float:
    points = sum(cell.points for cell in cells)
    return sum(cell.points * cell.spread**2 for cell in cells) / points if points else 0.0


def _off(point: Point) -> float:
    """How far the step was off, as a logarithm, before any error was expected."""
    return log(point.unshifted / point.measured.value)
