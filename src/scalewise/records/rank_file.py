"""Reads `rank{N}.jsonl`: whole lines are rows or events; a torn last line is counted, a damaged one is reported."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalewise.records.codec import BadRecord, decode
from scalewise.records.note_lists import read_note
from scalewise.records.notes import Note
from scalewise.records.rows import ROW_KINDS, Row
from scalewise.records.steps import StepMachine
from scalewise.records.traffic import Traffic, TrafficReader


@dataclass(frozen=True)
class RankRows:
    """The contents of one rank's file, and what could not be read of it."""

    rows: tuple[Row, ...]  # the lines that are rows, in order, then the steps
    torn_lines: int  # the last line, cut off by a kill
    notes: tuple[Note, ...]  # of an examined run, in the order they were made
    bad_lines: tuple[str, ...]  # any other line that cannot be read, with its number and reason
    traffic: Traffic = field(default_factory=Traffic)  # what was exchanged with other ranks, by moments of a step


def read_rows(path: Path) -> RankRows:
    """Reads all that can be read; neither a torn nor a damaged line stops the reading."""
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise BadRecord(f"{path}: {error}") from error
    lines = text.split("\n")
    torn = 1 if lines.pop() else 0
    rows: list[Row] = []
    bad: list[str] = []
    notes: list[Note] = []
    machine, traffic = StepMachine(), TrafficReader()
    for number, line in enumerate(lines, start=1):
        try:
            _read_line(line, rows, notes, machine, traffic)
        except (ValueError, TypeError, RecursionError) as error:
            machine.gap()
            bad.append(f"{path.name}:{number}: {error}")
    return RankRows((*rows, *machine.steps()), torn, tuple(notes), tuple(bad), traffic.traffic())


def _read_line(line: str, rows: list[Row], notes: list[Note], machine: StepMachine, traffic: TrafficReader) -> None:
    data: Any = json.loads(line)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "events":
        if not isinstance(data.get("events"), list):
            raise BadRecord("a line of events without events")
        machine.feed(data["events"])
        traffic.feed(data["events"])
    elif kind == "notes":
        if not isinstance(data.get("notes"), list):
            raise BadRecord("a line of notes without notes")
        notes += map(read_note, data["notes"])
    elif kind in ROW_KINDS:
        rows.append(decode(ROW_KINDS[kind], data))
    else:
        raise BadRecord(f"not a row: {line[:60]!r}")
