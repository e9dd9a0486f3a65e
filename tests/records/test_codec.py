"""Every record goes to JSON and back; every wrong file is one sentence that names it."""

import dataclasses
import json
import types
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.records import orders
from scalewise.records.codec import SCHEMA_VERSION, BadRecord, decode, encode, read_json, write_json
from scalewise.records.machine import MachineFacts, SampleRow
from scalewise.records.outcome import Outcome
from scalewise.records.rows import ROW_KINDS, StepRow
from scalewise.records.spec import RunSpec

RECORDS = [
    RunSpec,
    Outcome,
    MachineFacts,
    SampleRow,
    StepRow,
    orders.RankOrder,
    orders.ExecOrder,
    orders.ProbeOrder,
    *ROW_KINDS.values(),
]


def values_of(hint):
    """A strategy for every value that a field of this type may hold."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(choice) for choice in arguments])
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), values_of(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if dataclasses.is_dataclass(hint):
        return records_of(hint)
    return {
        int: st.integers(-(2**60), 2**60),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(max_size=10),
        bool: st.booleans(),
        type(None): st.none(),
    }[hint]


def records_of(kind):
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_written_and_read_is_the_same(kind):
    @given(records_of(kind))
    def law(record):
        assert decode(kind, json.loads(json.dumps(encode(record)))) == record

    law()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def check_read(kind, data):
    try:
        assert isinstance(decode(kind, data), kind)
    except BadRecord as problem:
        assert "\n" not in str(problem)


@settings(max_examples=300)
@given(JSON, st.dictionaries(st.integers(0, 30), JSON, max_size=30))
def test_any_json_is_either_the_record_or_a_bad_record(data, values):
    """Each is tried on every kind of record: as it is, and as some of its fields."""
    for kind in RECORDS:
        fields = [field.name for field in dataclasses.fields(kind)] + ["schema"]
        check_read(kind, data)
        check_read(kind, {fields[number % len(fields)]: value for number, value in values.items()})


def plain(record):
    return json.loads(json.dumps(encode(record)))


def small() -> orders.ProbeOrder:
    return orders.ProbeOrder("label", "float32", "")


def test_another_schema_version_is_refused_with_what_to_do():
    data = {**encode(small()), "schema": SCHEMA_VERSION + 1}
    with pytest.raises(BadRecord, match=f"schema {SCHEMA_VERSION + 1} is not {SCHEMA_VERSION}.*or measure again"):
        decode(orders.ProbeOrder, data, "run/spec.json")


def test_a_wrong_or_missing_field_is_named_with_its_place():
    data = encode(small())
    with pytest.raises(BadRecord, match=r"f\.json\.precision: expected str, found '3'"):
        decode(orders.ProbeOrder, {**data, "precision": 3}, "f.json")
    del data["label"]
    with pytest.raises(BadRecord, match=r"f\.json: 'label' is missing"):
        decode(orders.ProbeOrder, data, "f.json")


def test_fields_of_a_newer_version_are_passed_over():
    assert decode(orders.ProbeOrder, {**encode(small()), "newer": [1]}) == small()


def test_a_whole_number_may_stand_for_a_float_but_not_beyond_its_range():
    row = plain(SampleRow(1.0, 0.5, 0.0, None, None, ()))
    assert decode(SampleRow, {**row, "at_seconds": 3}).at_seconds == 3.0
    with pytest.raises(BadRecord, match="at_seconds"):
        decode(SampleRow, {**row, "at_seconds": 10**400})


def test_true_is_not_a_number():
    with pytest.raises(BadRecord, match=r"SampleRow\.busy"):
        decode(SampleRow, {**plain(SampleRow(1.0, 0.5, 0.0, None, None, ())), "busy": True})


def test_only_records_are_encoded():
    for value in ({"a": 1}, RunSpec):
        with pytest.raises(TypeError, match="not a record"):
            encode(value)


def test_a_file_is_written_and_read(tmp_path):
    write_json(tmp_path / "a.json", small())
    assert read_json(tmp_path / "a.json", orders.ProbeOrder) == small()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, small())
    before = path.read_bytes()
    seen = []

    def full(descriptor):
        seen.append(path.read_bytes())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, orders.ProbeOrder("other", "float16", "x"))
    assert seen == [before]
    assert path.read_bytes() == before
    assert [left.name for left in tmp_path.iterdir()] == ["a.json"], "nothing stays behind"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 200_000])
def test_a_file_that_holds_something_else_is_a_bad_record_that_names_it(tmp_path, content):
    path = tmp_path / "spec.json"
    path.write_bytes(content)
    with pytest.raises(BadRecord, match=r"spec\.json"):
        read_json(path, RunSpec)
    with pytest.raises(BadRecord, match=r"gone\.json"):
        read_json(tmp_path / "gone.json", RunSpec)
