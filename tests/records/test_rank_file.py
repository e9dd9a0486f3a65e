"""Tests of reading a rank's file: whole lines are read, torn and damaged ones counted, nothing raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_start, rank_lines
from scalewise.records import events as ev
from scalewise.records.codec import BadRecord, encode
from scalewise.records.load import read_rows
from scalewise.records.rows import EndRow, StartRow, StepRow, TroubleRow


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("rank") / "rank0.jsonl"


def test_rows_and_steps_are_read(file):
    file.write_bytes(rank_lines(steps=5))
    read = read_rows(file)
    assert (read.torn_lines, read.bad_lines) == (0, ())
    assert [type(row) for row in read.rows if not isinstance(row, StepRow)] == [StartRow, EndRow]
    steps = [row for row in read.rows if isinstance(row, StepRow)]
    assert [row.step for row in steps] == [0, 1, 2, 3, 4]
    assert {row.samples for row in steps} == {32}
    assert steps[1].step_ns == pytest.approx(5_000_000, abs=64)


def test_every_phase_of_a_step_adds_up(file):
    file.write_bytes(rank_lines(steps=5))
    for row in read_rows(file).rows:
        if isinstance(row, StepRow):
            parts = (row.forward_ns, row.backward_ns, row.optimizer_ns, row.data_inside_ns, row.rest_ns)
            assert sum(parts) == row.step_ns


def test_a_torn_last_line_is_counted_and_the_rest_is_read(file):
    whole = rank_lines(steps=5, end=False)
    file.write_bytes(whole + b'{"kind": "trouble", "wh')
    read = read_rows(file)
    assert (read.torn_lines, read.bad_lines) == (1, ())
    assert sum(isinstance(row, StepRow) for row in read.rows) == 5


def test_a_damaged_line_is_reported_with_its_number_and_the_rest_is_read(file):
    trouble = json.dumps({"kind": "trouble", **encode(TroubleRow("here", "why"))})
    file.write_text(f"nonsense\n{trouble}\n")
    read = read_rows(file)
    assert read.rows == (TroubleRow("here", "why"),)
    assert read.bad_lines[0].startswith("rank0.jsonl:1: ")


def test_a_file_that_is_not_there_is_a_bad_record(tmp_path):
    with pytest.raises(BadRecord, match=r"rank0\.jsonl"):
        read_rows(tmp_path / "rank0.jsonl")


@given(st.integers(0, 5000))
def test_a_file_cut_anywhere_keeps_every_line_before_the_cut(file, cut):
    whole = rank_lines(steps=20)
    file.write_bytes(whole[:cut])
    read = read_rows(file)
    rest = whole[:cut].rpartition(b"\n")[2]
    assert (read.torn_lines, read.bad_lines) == (bool(rest), ())


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(file, content):
    file.write_bytes(content)
    read = read_rows(file)
    lines = content.decode("utf-8", errors="replace").count("\n")
    assert len(read.bad_lines) + sum(not isinstance(row, StepRow) for row in read.rows) <= lines


JUNK = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.integers() | st.lists(st.none(), max_size=6)
OFTEN = [ev.FORWARD, ev.BACKWARD, ev.BACKWARD_END, ev.OPTIMIZER, ev.OPTIMIZER_END]
TYPED = {
    int: st.integers(),
    float: st.floats(),
    str: st.text(max_size=3),
    bool: st.booleans(),
    list: st.lists(JUNK, max_size=6),
    type(None): st.none(),
}


@st.composite
def event_lists(draw):
    """Events in any order with values of the right types and any content, and now and then of any type."""
    numbers, time = [], 0
    for code in draw(st.lists(st.sampled_from([*range(20), *OFTEN * 4]), max_size=40)):
        time += draw(st.integers(-5, 50)) * 100_000
        numbers.append(max(0, time) & ev.TIME_MASK | code)
        for types in ev.VALUES.get(code, ()):
            right = st.one_of([TYPED[kind] for kind in types])
            numbers.append(draw(JUNK if draw(st.integers(0, 30)) == 0 else right))
    return numbers


@given(st.lists(event_lists() | st.lists(JUNK, max_size=5), max_size=3))
def test_any_numbers_as_events_are_read_without_an_exception(file, lists):
    lines = [json.dumps({"kind": "events", "events": numbers}) for numbers in lists]
    file.write_text("".join(f"{line}\n" for line in lines))
    assert all(isinstance(row, StepRow) for row in read_rows(file).rows)


@given(st.data())
def test_real_lines_with_a_damaged_byte_are_read_without_an_exception(file, data):
    whole = bytearray(rank_lines(steps=6))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(whole))
    assert read_rows(file).rows is not None


def test_kinds_that_cannot_be_kinds_are_damaged_lines(file):
    file.write_text('{"kind": []}\n{"kind": {"a": 1}}\n[]\n3\n{"kind": "start"}\n')
    assert len(read_rows(file).bad_lines) == 5


def test_a_start_row_is_read_back_as_it_was(file):
    row = make_start(0, 1, 5.0)
    file.write_text(json.dumps({"kind": "start", **encode(row)}) + "\n")
    assert read_rows(file).rows == (row,)
