"""The notebook: whole lines in time, whatever the threads do; a lost disk ends the notes and not the script."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalewise.records.examination import LoaderRow, PlaceRow
from scalewise.records.folder import RunFolder
from scalewise.records.load import read_rows
from scalewise.records.notes import NOWHERE, ClockNote
from scalewise.watch.examination import notebook as notebooks
from scalewise.watch.examination.notebook import Notebook

LOADER = LoaderRow(0, 0, 0, False, 4, False, "RandomSampler", False, 8, 8, False)


def make(folder: Path, rank: int = 0) -> tuple[Notebook, Any]:
    """A notebook that is written when it is asked to, and what stands for its recorder."""
    troubles: list[str] = []
    recorder: Any = SimpleNamespace(
        rank=rank, on=True, broke=lambda where, error: troubles.append(where), troubles=troubles
    )
    return Notebook(recorder, RunFolder(folder)), recorder


def test_notes_and_rows_come_back_as_they_were_made(tmp_path: Path) -> None:
    notebook, _ = make(tmp_path)
    notebook.note("clock", "time.time")
    notebook.row(LOADER)
    notebook.write()
    notebook.note("clock", "time.monotonic", place=NOWHERE)
    notebook.write()
    found = read_rows(RunFolder(tmp_path).examination(0))
    assert [type(row) for row in found.rows] == [PlaceRow, LoaderRow]
    assert isinstance(found.notes[0], ClockNote) and found.notes[0].place == 0
    assert [note.place for note in found.notes] == [0, NOWHERE]


def test_a_note_is_never_on_disk_before_the_line_it_speaks_of(tmp_path: Path) -> None:
    notebook, _ = make(tmp_path)
    notebook.note("clock", "time.time")
    notebook.write()
    kinds = [json.loads(line)["kind"] for line in RunFolder(tmp_path).examination(0).read_text().splitlines()]
    assert kinds == ["place", "notes"]


def test_two_threads_that_write_lose_and_repeat_nothing(tmp_path: Path) -> None:
    notebook, _ = make(tmp_path)
    over = threading.Event()

    def keep_writing() -> None:
        while not over.is_set():
            notebook.write()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    for number in range(3000):
        notebook.note("loader", number, place=NOWHERE)
        if number % 10 == 0:
            notebook.row(LOADER)
        if number % 100 == 0:
            notebook.write()
    over.set()
    writer.join()
    notebook.write()
    found = read_rows(RunFolder(tmp_path).examination(0))
    assert [note.loader for note in found.notes] == list(range(3000))
    assert len(found.rows) == 300 and not found.bad_lines


def test_a_rank_that_learns_its_number_late_writes_to_its_own_file(tmp_path: Path) -> None:
    notebook, recorder = make(tmp_path)
    notebook.row(LOADER)
    notebook.write()
    recorder.rank = 3
    notebook.note("clock", "time.time", place=NOWHERE)
    notebook.write()
    assert len(read_rows(RunFolder(tmp_path).examination(3)).notes) == 1


def test_a_folder_that_is_gone_ends_the_notes_quietly(tmp_path: Path) -> None:
    notebook, _ = make(tmp_path / "gone")
    notebook.note("clock", "time.time")
    assert notebook.on
    notebook.write()
    assert not notebook.on
    notebook.note("clock", "time.time")
    notebook.write()


def test_there_is_an_end_to_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MOST_NOTES", 5)
    notebook, _ = make(tmp_path)
    for _ in range(9):
        notebook.note("clock", "time.time", place=NOWHERE)
    notebook.write()
    assert len(read_rows(RunFolder(tmp_path).examination(0)).notes) == 5 and not notebook.on


def test_a_write_that_was_made_a_moment_ago_is_not_made_again(tmp_path: Path) -> None:
    notebook, _ = make(tmp_path)
    notebook.write()
    notebook._written_ns += 10**12
    notebook.note("clock", "time.time", place=NOWHERE)
    notebook.write_if_due()
    assert not RunFolder(tmp_path).examination(0).exists()
    notebook._written_ns = 0
    notebook.write_if_due()
    assert RunFolder(tmp_path).examination(0).exists()


def test_a_broken_hook_is_told_to_the_recorder(tmp_path: Path) -> None:
    notebook, recorder = make(tmp_path)
    notebook.broke("clock", ValueError("x"))
    assert recorder.troubles == ["examination: clock"]
