"""Learns from the points of the development set what errors predictions have, and writes them into a file."""

import time
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import fmean

import tomli_w

from bench.unseen_judge import Point, points_in, seen
from scalewise.predict.seen_errors import FILE

SHARES = (0.0, 0.25)  # of communication, from which on points belong together
NO_SHIFT = 4  # the weight of sessions without a shift: one session's mean is in part its own, as earlier ones show
WORTH_POINTS = 3  # the weight of all points together beside those of a cell


def learned(folders: Sequence[Path]) -> dict[str, object]:
    """Writes the shift and the spread of each number of ranks and share of communication; each folder is a session."""
    sessions = [points_in(folder / "development") for folder in folders]
    cells = list(_cells(sessions))
    made_by = "# Written by `python -m bench unseen --learn FOLDER`.\n"
    FILE.write_text(f"# {_where(folders, sessions)}\n{made_by}{tomli_w.dumps({'gloo': cells})}", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))
    return {"cells": cells}


def _where(folders: Sequence[Path], sessions: Sequence[Sequence[Point]]) -> str:
    found = set()
    for folder in folders:
        machines = [run.machine for one in seen(folder / "development") for run in one.runs.values()]
        found |= {f"{one.cpu_model}, {len(one.cores)} cores" for one in machines if one is not None}
    models = {point.model for points in sessions for point in points}
    count = sum(len(points) for points in sessions)
    text = f"{count} points of {len(models)} models, {len(sessions)} session(s), {time.strftime('%Y-%m-%d')}"
    return f"{text}: {'; '.join(sorted(found))}"


def _cells(sessions: Sequence[Sequence[Point]]) -> list[dict[str, float]]:
    every = [point for points in sessions for point in points]
    shifts = {ranks: _shift(sessions, ranks) for ranks in sorted({point.ranks for point in every})}
    whole = fmean((_off(point) - shifts[point.ranks]) ** 2 for point in every)
    found = []
    for ranks, shift in shifts.items():
        for least, most in zip(SHARES, (*SHARES[1:], 2.0), strict=True):
            cell = [one for one in every if one.ranks == ranks and least <= one.communication < most]
            squares = sum((_off(one) - shift) ** 2 for one in cell)
            spread = ((squares + WORTH_POINTS * whole) / (len(cell) + WORTH_POINTS)) ** 0.5
            found.append({"ranks": ranks, "communication": least, "shift": round(shift, 4),
                          "spread": round(spread, 4), "points": len(cell)})  # fmt: skip
    return found


def _shift(sessions: Sequence[Sequence[Point]], ranks: int) -> float:
    """The mean of the sessions' means, with some sessions of no shift among them."""
    means = [fmean(own) for points in sessions if (own := [_off(one) for one in points if one.ranks == ranks])]
    return sum(means) / (len(means) + NO_SHIFT)


def _off(point: Point) -> float:
    """How far the step was off, as a logarithm, before any error was expected."""
    return log(point.unshifted / point.measured.value)
