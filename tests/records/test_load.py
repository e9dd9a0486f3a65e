"""Tests of reading run folders back: what is whole is read, what is damaged becomes a note."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import make_machine, make_outcome, make_spec, quiet_sample, rank_lines
from scalewise.analysis.summary import summarise
from scalewise.errors import BadRequest
from scalewise.records.codec import encode, json_value, write_json
from scalewise.records.folder import RunFolder, SuiteFolder, keep_made
from scalewise.records.load import load

SUITE = """
name = "tour"
title = "A tour"
about = "Small."
[[experiment]]
name = "later"
title = "Not run yet"
[[experiment]]
name = "exp"
title = "Strong"
question = "Does it scale?"
ranks = [4, 1, "two", 2]
"""


def write_run(folder, ranks=2, repeat=0, finished=True, **changes):
    run = RunFolder(folder / f"exp-ranks{ranks}-r{repeat}")
    run.path.mkdir(parents=True)
    write_json(run.spec, make_spec(ranks, repeat, name=run.path.name, **changes))
    write_json(run.machine, make_machine())
    for rank in range(ranks):
        run.rank(rank).write_bytes(rank_lines(steps=40, rank=rank))
    run.samples.write_text(f"{json.dumps(encode(quiet_sample()))}\n" * 3)
    if finished:
        write_json(run.outcome, make_outcome())
    return run


@pytest.fixture
def suite(tmp_path):
    folder = tmp_path / "runs" / "tour-1c9e04ab"
    write_run(folder, ranks=1)
    write_run(folder, ranks=2)
    (folder / "suite.toml").write_text(SUITE)
    return folder


def test_a_suite_is_read_whole(suite):
    loaded = load(suite)
    assert (loaded.name, loaded.title, loaded.about, loaded.notes) == ("tour", "A tour", "Small.", ())
    assert [(one.name, one.question) for one in loaded.experiments] == [("later", ""), ("exp", "Does it scale?")]
    assert [one.ranks for one in loaded.experiments] == [(), (1, 2, 4)], "as asked, what is no number left out"
    one, two = loaded.runs
    assert (one.spec.ranks, two.spec.ranks) == (1, 2)
    assert two.measured and len(two.ranks) == 2 and len(two.samples) == 3 and two.notes == ()
    rank = two.ranks[1]
    assert len(rank.steps) == 40 and rank.start.rank == 1 and rank.end.steps == 40


def test_one_run_is_read_alone(suite):
    loaded = load(suite / "exp-ranks2-r0")
    assert [run.spec.name for run in loaded.runs] == ["exp-ranks2-r0"]
    assert [one.name for one in loaded.experiments] == ["exp"]


def test_a_run_without_an_outcome_is_not_finished_and_not_measured(tmp_path):
    write_run(tmp_path, finished=False)
    (run,) = load(tmp_path).runs
    assert run.outcome is None and not run.measured


@pytest.mark.parametrize("make", ["missing", "file", "empty"])
def test_what_is_not_a_run_is_refused_with_runs_that_are_near(suite, make):
    path = suite.parent / "tour-1c9e04ba"
    if make == "file":
        path.write_text("")
    elif make == "empty":
        path.mkdir()
    with pytest.raises(BadRequest) as caught:
        load(path)
    assert {"missing": "does not exist", "file": "is a file", "empty": "is not a run"}[make] in caught.value.sentence
    assert "Did you mean 'tour-1c9e04ab'?" in caught.value.hint
    assert str(suite) in caught.value.hint


def test_where_there_are_no_runs_the_hint_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequest) as caught:
        load(tmp_path / "a" / "b")
    assert caught.value.hint == "Measure first: scalewise run tour."


def test_a_run_with_an_unreadable_spec_is_a_note_on_the_suite_and_an_error_alone(suite):
    spec = suite / "exp-ranks1-r0" / "spec.json"
    spec.write_text('{"schema": 99}')
    loaded = load(suite)
    assert [run.spec.ranks for run in loaded.runs] == [2]
    assert "schema 99 is not 2" in loaded.notes[0]
    with pytest.raises(BadRequest, match="cannot be read"):
        load(spec.parent)


@pytest.mark.parametrize("name", ["outcome.json", "machine.json", "rank0.jsonl", "samples.jsonl"])
def test_a_file_that_cannot_be_read_is_a_note_on_the_run(suite, name):
    path = suite / "exp-ranks2-r0" / name
    path.unlink()
    path.mkdir()
    run = load(suite / "exp-ranks2-r0").runs[0]
    assert any(name in note for note in run.notes)


def test_a_damaged_suite_file_is_a_note(suite):
    (suite / "suite.toml").write_text("name = ")
    loaded = load(suite)
    assert loaded.name == "suite" and "suite.toml" in loaded.notes[0]
    (suite / "suite.toml").write_text("name = 3\nexperiment = [1, {name = 2}]")
    assert load(suite).notes == ()


def test_impossible_steps_are_left_out_and_counted(suite):
    path = suite / "exp-ranks1-r0" / "rank0.jsonl"
    lines = path.read_text().splitlines()
    events = json.loads(lines[1])
    events["events"][0] = 0  # the first forward long before the rest: a step of hours
    far = json.loads(json.dumps(events))
    far["events"] = [
        stamp if not isinstance(stamp, int) or stamp < 10_000 else stamp + 10**18 for stamp in far["events"]
    ]
    path.write_text("\n".join([lines[0], json.dumps(events), json.dumps(far), ""]))
    rank = load(suite / "exp-ranks1-r0").runs[0].ranks[0]
    assert all(0 < row.step_ns < 10**17 for row in rank.steps)
    assert any("impossible" in line for line in rank.bad_lines)


FILES = ["spec.json", "outcome.json", "machine.json", "rank0.jsonl", "rank1.jsonl", "samples.jsonl"]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    write_run(folder, ranks=1)
    write_run(folder, ranks=2)
    return folder


def check_survives(pristine, tmp, name, content):
    """Loads and analyses a copy of the run with one file replaced."""
    shutil.rmtree(tmp, ignore_errors=True)
    shutil.copytree(pristine, tmp)
    (tmp / "exp-ranks2-r0" / name).write_bytes(content)
    loaded = load(tmp)
    json.dumps(json_value(summarise(loaded)), allow_nan=False)
    return loaded


FUZZ = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(st.sampled_from(FILES), st.binary(max_size=200))
def test_any_bytes_in_any_file_are_loaded_and_analysed(pristine, tmp_path, name, content):
    check_survives(pristine, tmp_path / "copy", name, content)


@FUZZ
@given(st.sampled_from(FILES), st.floats(0, 1))
def test_a_real_file_cut_anywhere_is_loaded_and_analysed(pristine, tmp_path, name, part):
    whole = (pristine / "exp-ranks2-r0" / name).read_bytes()
    check_survives(pristine, tmp_path / "copy", name, whole[: int(part * len(whole))])


@FUZZ
@given(st.sampled_from(FILES), st.data())
def test_a_real_file_with_changed_digits_is_loaded_and_analysed(pristine, tmp_path, name, data):
    whole = bytearray((pristine / "exp-ranks2-r0" / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.sampled_from(b'0123456789-e.[]{},"n'))
    check_survives(pristine, tmp_path / "copy", name, bytes(whole))


ODD = [0, -1, 10**30, -(10**30), 1.5, float("nan"), float("inf"), "x", None, True, [], {}]


def changed(value, draw):
    """The JSON value with one part of it, at any depth, replaced by something odd."""
    if isinstance(value, dict) and value and draw(st.integers(0, 6)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: changed(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 6)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], changed(value[index], draw), *value[index + 1 :]]
    return draw(st.sampled_from(ODD))


@FUZZ
@given(st.sampled_from(FILES), st.data())
def test_a_real_file_with_an_odd_value_is_loaded_and_analysed(pristine, tmp_path, name, data):
    text = (pristine / "exp-ranks2-r0" / name).read_text()
    values = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else [json.loads(text)]
    index = data.draw(st.integers(0, len(values) - 1))
    values[index] = changed(values[index], data.draw)
    content = "".join(f"{json.dumps(value)}\n" for value in values)
    check_survives(pristine, tmp_path / "copy", name, content.encode())


def test_a_spec_with_an_impossible_number_of_ranks_is_not_a_run(suite):
    spec = suite / "exp-ranks1-r0" / "spec.json"
    spec.write_text(spec.read_text().replace('"ranks": 1', '"ranks": 0'))
    assert "0 ranks" in load(suite).notes[0]


def test_a_run_that_was_made_and_removed_is_missed(suite):
    names = [run.spec.name for run in load(suite).runs]
    keep_made(SuiteFolder(suite), (*names, "exp-ranks4-r0"))
    (note,) = load(suite).notes
    assert note.startswith("1 of 3 runs that were made here is gone") and note.count("exp-ranks4-r0") == 1
    assert summarise(load(suite)).notes == (note,)
