"""Tests of notes: what was written is read again, and what is damaged is reported, never raised."""

import dataclasses
import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.records.load import read_rows
from scalewise.records.notes import NOTE_KINDS, BackwardNote, ForwardNote, NoteError, read_note

KINDS = sorted(NOTE_KINDS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def notes(draw):
    name = draw(st.sampled_from(KINDS))
    hints = typing.get_type_hints(NOTE_KINDS[name])
    return name, draw(st.builds(NOTE_KINDS[name], **{field: st.from_type(hint) for field, hint in hints.items()}))


def as_list(name, note):
    return json.loads(json.dumps([name, *(getattr(note, field.name) for field in dataclasses.fields(note))]))


def same(one, other):
    return type(one) is type(other) and repr(one) == repr(other)  # not a number is like itself here


@given(notes())
def test_what_was_written_is_read_again(pair):
    name, note = pair
    assert same(read_note(as_list(name, note)), note)


@given(JSON)
def test_whatever_is_no_note_is_refused_with_a_reason(value):
    try:
        read_note(value)
    except NoteError as error:
        assert "note" in str(error) and len(str(error)) < 200


@given(st.sampled_from(KINDS), st.lists(JSON, max_size=14))
def test_values_that_do_not_fit_are_refused(name, values):
    try:
        note = read_note([name, *values])
    except NoteError:
        return
    for field, value in zip(dataclasses.fields(note), values, strict=False):
        assert getattr(note, field.name) == value


@given(notes(), st.data())
def test_one_damaged_value_never_passes_for_another_type(pair, data):
    name, note = pair
    values = as_list(name, note)
    values[data.draw(st.integers(1, len(values) - 1))] = {"not": "of any field"}
    with pytest.raises(NoteError):
        read_note(values)


def test_what_is_taken_only_in_the_first_windows_may_be_left_out():
    forward = read_note(["forward", 5, 0, "Net", -1, -1, False, True, None, None, 7])
    assert isinstance(forward, ForwardNote) and forward.digest is None and forward.row_digests == []
    backward = read_note(["backward", 5, 0, 7, None, None, None, None, "unknown", None, False])
    assert isinstance(backward, BackwardNote) and backward.gained is None


def test_a_damaged_line_of_notes_is_reported_and_the_others_are_read(tmp_path):
    path = tmp_path / "rank0.notes.jsonl"
    good = {"kind": "notes", "notes": [["batch", 1, 0, 0, 5], ["exhausted", 2, 0, 0]]}
    bad = [{"kind": "notes", "notes": [["batch", "soon", 0, 0, 5]]}, {"kind": "notes", "notes": 3}, {"kind": "notes"}]
    lines = [json.dumps(line) for line in (good, *bad, good)]
    path.write_text("\n".join(lines) + "\n" + lines[0][:20])
    read = read_rows(path)
    assert len(read.notes) == 4 and read.torn_lines == 1
    assert [line.split(":")[1] for line in read.bad_lines] == ["2", "3", "4"]
    assert "a note 'batch' has the values" in read.bad_lines[0] and "without notes" in read.bad_lines[1]


def test_every_kind_begins_with_a_moment_and_a_place():
    for kind in NOTE_KINDS.values():
        assert [field.name for field in dataclasses.fields(kind)][:2] == ["at_ns", "place"]
    assert len(set(NOTE_KINDS.values())) == len(NOTE_KINDS)
