"""Tests of the two streams: terminals that cannot show everything, and readers that go away."""

import io
import sys

import pytest
from rich.table import Table

from gone_reader import GoneReader
from scalewise.console.output import Output
from scalewise.errors import ReaderGone


def test_a_terminal_without_a_character_shows_a_question_mark(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    Output().show("1.47 ±0.20")
    sys.stdout.flush()

    assert written.getvalue() == b"1.47 ?0.20\n"


def test_a_reader_that_has_gone_is_told_to_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "stdout", GoneReader())

    with pytest.raises(ReaderGone):
        Output().show("text")
    with pytest.raises(ReaderGone):
        Output().json({})


def test_a_narrow_terminal_cuts_nothing_off_a_table(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    table = Table("name", "value")
    table.add_row("a" * 30, "123,456")
    Output().table(table)

    assert "a" * 30 in (text := capsys.readouterr().out) and "123,456" in text


def test_narration_keeps_a_long_command_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    command = "scalewise show " + "/a/folder" * 10
    Output().say(f"see it again with: {command}")

    assert command in capsys.readouterr().err
