"""What changes declare is read without importing them, and one more is one more file."""

import ast
import importlib
import inspect
import json

import pytest

from factories import make_spec
from scalewise.plan.words import changes_text, parse_changes, short_text
from scalewise.records import changes as declarations
from scalewise.records.changes import FOLDER, UNKNOWN, declared, known_changes
from scalewise.records.codec import BadRecord, decode, encode
from scalewise.records.examination import AppliedRow
from scalewise.records.folder import RunFolder
from scalewise.records.pulse import create_pulses, open_pulse
from scalewise.records.rows import ROW_KINDS
from scalewise.records.spec import Change, RunSpec

WAIT = '''"""Every rank waits."""

from collections.abc import Mapping

from scalewise.records.changes import Declared
from scalewise.records.spec import AxisValue
from scalewise.watch.recorder import Recorder

NAME = "wait_a_while"
CHANGE = Declared(settings={"seconds": "seconds"}, label="waits {seconds}", short="wait", least_ranks=2)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    recorder.delay_seconds = float(settings["seconds"])
    recorder.intervene(NAME)
'''


@pytest.mark.parametrize("name", known_changes())
def test_every_file_declares_its_change_in_literals(name):
    body = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body
    assigned = [
        one.targets[0].id for one in body if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    ]
    assert assigned.count("CHANGE") == 1
    module = importlib.import_module(f"scalewise.watch.changes.{name}")
    assert declared(name) == module.CHANGE
    assert name == module.NAME
    assert list(inspect.signature(module.install).parameters) == ["recorder", "settings"]
    assert set(declared(name).optional) <= set(declared(name).settings)


@pytest.mark.parametrize("name", known_changes())
def test_every_change_can_be_asked_for_as_its_example_says(name):
    (change,) = parse_changes(declared(name).example or name)
    assert change.name == name and set(change.settings) - set(declared(name).settings) <= {"bucket_cap_mb"}
    assert "{" not in change.label()
    assert parse_changes(changes_text([change])) == (change,)


def test_one_more_change_is_one_more_file(tmp_path, monkeypatch):
    from scalewise.watch import changes
    from scalewise.watch.journal import Journal
    from scalewise.watch.recorder import Recorder

    (tmp_path / "wait_a_while.py").write_text(WAIT)
    monkeypatch.setattr(declarations, "FOLDER", tmp_path)
    monkeypatch.setattr(changes, "__path__", [*changes.__path__, str(tmp_path)])
    declared.cache_clear()
    made = parse_changes("wait_a_while:0.25")
    assert made == (Change("wait_a_while", {"seconds": 0.25}),)
    assert made[0].label() == "waits 250 ms" and short_text(changes_text(made)) == "wait:0.25"
    create_pulses(RunFolder(tmp_path).pulses, 1)
    recorder = Recorder(Journal(RunFolder(tmp_path), 0), open_pulse(RunFolder(tmp_path).pulses, 0), 0, made)
    changes.install(recorder, made)
    assert recorder.delay_seconds == 0.25 and recorder.applied == {"wait_a_while": 1}
    declared.cache_clear()


def test_a_change_of_another_version_still_has_a_name():
    assert declared("of_another_version") == declared("../spec") == UNKNOWN
    assert Change("of_another_version", {"b": 2, "a": 1}).label() == "of_another_version a=1 b=2"


def test_rows_and_bases_under_their_older_names_are_read():
    started = {"rank": 0, "local_rank": 0, "world_size": 1, "pid": 1, "host": "h", "python": "3", "torch": "2"}
    started |= {"threads": 1, "affinity": [0], "started_unix_seconds": 0.0, "rss_bytes": 1}
    assert decode(ROW_KINDS["start"], {**started, "interventions": ["slow rank"]}).changes == ("slow rank",)
    ended = {"steps": 3, "exception": None, "interventions_applied": {"slow_rank": 3}}
    assert decode(ROW_KINDS["end"], ended).changes_applied == {"slow_rank": 3}
    assert decode(ROW_KINDS["remedy"], {"remedy": "no_sync", "applied": 4}) == AppliedRow("no_sync", 4)
    assert decode(ROW_KINDS["measured"], {"remedy": "eval_mode", "what": "output", "value": 1.0}).change == "eval_mode"
    with pytest.raises(BadRecord, match=r"StartRow.interventions\[0\]"):
        decode(ROW_KINDS["start"], {**started, "interventions": [1]})
    base = {"intervention": "none", "ranks": 1}
    assert decode(RunSpec, json.loads(json.dumps({**encode(make_spec()), "base": base}))).base == {
        "change": "none",
        "ranks": 1,
    }


def test_interventions_and_remedies_of_schema_1_are_changes():
    numbers = {"seconds": 0.0, "rank": None, "bytes_per_second": 0.0, "count": 0}
    data = encode(make_spec()) | {
        "schema": 1,
        "interventions": [
            {**numbers, "kind": "remove_communication"},
            {**numbers, "kind": "slow_rank", "seconds": 0.02, "rank": 1},
            {**numbers, "kind": "sleep_before_backward", "seconds": 0.01},
            {**numbers, "kind": "emulate_link", "seconds": 0.001, "bytes_per_second": 1e9},
            {**numbers, "kind": "workers", "count": 0},
        ],
        "remedies": [{"name": "no_sync", "settings": {"window": 4}}],
    }
    del data["changes"]
    assert decode(RunSpec, json.loads(json.dumps(data))).changes == (
        Change("remove_communication"),
        Change("slow_rank", {"seconds": 0.02, "rank": 1}),
        Change("sleep_before_backward", {"seconds": 0.01}),
        Change("emulate_link", {"seconds": 0.001, "bytes_per_second": 1e9}),
        Change("workers", {"count": 0}),
        Change("no_sync", {"window": 4}),
    )
