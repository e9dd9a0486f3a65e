"""The notes that hosts leave for each other, as the other side reads them."""

from dataclasses import replace
from pathlib import Path

from scalewise.records.host_notes import HostOrder, HostReport, NoteFile, leave

REPORT = HostReport("abc", 1, 0, "n1", "starting")


def test_a_note_is_read_anew_once_it_was_replaced_and_else_kept(tmp_path: Path) -> None:
    path = tmp_path / "host0.json"
    note = NoteFile(path, HostReport)
    assert note.read() is None
    leave(path, REPORT)
    first = note.read()
    assert first == REPORT and note.read() is first
    leave(path, replace(REPORT, number=2, stage="running"))
    assert note.read() == replace(REPORT, number=2, stage="running")


def test_a_note_that_is_torn_foreign_or_gone_is_none_until_it_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    note = NoteFile(path, HostOrder)
    leave(path, HostOrder("abc", 1))
    whole = path.read_text()
    for damage in (whole[:-5], "[]", '{"attempt": 3}', "\x00"):
        path.write_text(damage)
        assert note.read() is None
        path.write_text(whole)
        assert note.read() == HostOrder("abc", 1)
    path.unlink()
    assert note.read() is None
