"""Tests of the recorder alone, without torch: what it notes, what it writes when, and when it rests."""

import json
import os
import resource
from pathlib import Path

import pytest

from scalewise.records.events import BACKWARD, BACKWARD_END, FORWARD
from scalewise.records.folder import RunFolder
from scalewise.records.load import read_rows
from scalewise.records.pulse import PID, create_pulses, open_pulse, read_pulses
from scalewise.records.rows import EndRow, StepRow, TroubleRow
from scalewise.records.spec import Change
from scalewise.watch import changes, look_intervals
from scalewise.watch.journal import MOST_TROUBLES, Journal
from scalewise.watch.look_intervals import BRISK_REST_STEPS, FIRST_STEPS, REST_STEPS
from scalewise.watch.recorder import Recorder


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    create_pulses(RunFolder(tmp_path).pulses, 1)
    return RunFolder(tmp_path)


def watching(folder: RunFolder, *made: Change) -> Recorder:
    recorder = Recorder(Journal(folder, 0), open_pulse(folder.pulses, 0), 0, made)
    changes.install(recorder, made)
    return recorder


def step(recorder: Recorder, optimizer: int = 0) -> None:
    """A plain step as the hooks would tell it; while the recorder rests, they only count."""
    if not recorder.awake:
        recorder.rested += 1
        if recorder.rested >= recorder.rest_steps:
            recorder.wake()
        return
    recorder.open_step()
    recorder.stamp(FORWARD)
    recorder.value(8)
    recorder.prepare_backward()
    recorder.stamp(BACKWARD)
    recorder.value(0.5)
    recorder.stamp(BACKWARD_END)
    recorder.optimizer_begin(optimizer)
    recorder.optimizer_end(optimizer)


def steps_in(folder: RunFolder) -> list[StepRow]:
    return [row for row in read_rows(folder.rank(0)).rows if isinstance(row, StepRow)]


def test_a_fast_loop_is_watched_in_full_at_first_and_then_now_and_then(folder):
    recorder = watching(folder)
    for _ in range(FIRST_STEPS + 1 + 3 * (REST_STEPS + 1) + 5):
        step(recorder)
    recorder.finish()

    watched = [row.step for row in steps_in(folder)]
    assert watched == [*range(FIRST_STEPS + 1), *(FIRST_STEPS + k * (REST_STEPS + 1) for k in (1, 2, 3))]
    (end,) = (row for row in read_rows(folder.rank(0)).rows if isinstance(row, EndRow))
    assert end.steps == FIRST_STEPS + 1 + 3 * (REST_STEPS + 1) + 5, "steps that were not watched are counted"


def test_of_a_brisk_loop_every_eighth_step_is_watched(folder, monkeypatch):
    monkeypatch.setattr(look_intervals, "FAST_HOST_NS", 0)
    monkeypatch.setattr(look_intervals, "BRISK_HOST_NS", 10**12)
    recorder = watching(folder)
    for _ in range(FIRST_STEPS + 1 + 2 * (BRISK_REST_STEPS + 1)):
        step(recorder)
    recorder.finish()

    watched = [row.step for row in steps_in(folder)]
    assert watched == [*range(FIRST_STEPS + 1), FIRST_STEPS + 8, FIRST_STEPS + 16]


@pytest.mark.parametrize("reason", ["slow steps", "two optimizers", "change", "collectives"])
def test_every_step_is_watched_where_one_must_not_be_missed(folder, monkeypatch, reason):
    if reason == "slow steps":
        monkeypatch.setattr(look_intervals, "FAST_HOST_NS", 0)
        monkeypatch.setattr(look_intervals, "BRISK_HOST_NS", 0)
    made = [Change("slow_rank", {"seconds": 1e-6, "rank": 0})] if reason == "change" else []
    recorder = watching(folder, *made)
    if reason == "collectives":
        recorder.collective_begin()
        recorder.collective_end("all_reduce", 4)
    for number in range(FIRST_STEPS + 40):
        step(recorder, number % 2 if reason == "two optimizers" else 0)
    recorder.finish()

    assert len(steps_in(folder)) == FIRST_STEPS + 40


def test_signs_of_life_show_the_step_and_what_the_rank_is_doing(folder):
    recorder = watching(folder)
    step(recorder)
    recorder.open_step()
    recorder.stamp(BACKWARD)
    (pulse,) = read_pulses(folder.pulses)

    assert (pulse.steps, pulse.state) == (1, "backward")
    assert pulse.moved_ns > 0


@pytest.mark.processes
def test_what_was_written_survives_the_death_of_the_process(folder):
    child = os.fork()
    if child == 0:
        recorder = watching(folder)
        for _ in range(3):
            step(recorder)
        recorder.journal.flush()
        step(recorder)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)

    assert len(steps_in(folder)) == 3
    assert read_pulses(folder.pulses)[0].steps == 4


def test_a_rank_s_file_belongs_to_the_first_process_that_trains(folder):
    first, second = watching(folder), watching(folder)
    for recorder in (first, second):
        step(recorder)
        recorder.finish()

    assert len(steps_in(folder)) == 1


@pytest.mark.processes
def test_a_disk_that_fills_up_ends_the_records_and_not_the_script(folder):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))  # a write beyond it fails half done
        recorder = watching(folder, Change("slow_rank", {"seconds": 1e-6, "rank": 0}))
        for _ in range(100):
            step(recorder)
            recorder.journal.flush()
        recorder.finish()
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert status == 0
    read = read_rows(folder.rank(0))
    assert 0 < len(steps_in(folder)) < 100 and not read.bad_lines
    assert read_pulses(folder.pulses)[0].steps == 100


def test_a_hook_that_keeps_failing_silences_the_watcher(folder):
    recorder = watching(folder)
    for _ in range(MOST_TROUBLES + 5):
        if recorder.on:
            recorder.broke("forward", ValueError("no"))

    troubles = [row for row in read_rows(folder.rank(0)).rows if isinstance(row, TroubleRow)]
    assert len(troubles) == MOST_TROUBLES and not recorder.on
    assert troubles[0] == TroubleRow("forward", "ValueError: no")


def test_a_forked_child_writes_nothing(folder):
    recorder = watching(folder)
    step(recorder)
    recorder.leave()
    recorder.finish()

    assert not folder.rank(0).exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_change_acts_on_the_rank_that_it_names_only(folder, rank):
    slow = Change("slow_rank", {"seconds": 0.001, "rank": rank})
    recorder = watching(folder, slow)
    step(recorder)

    assert recorder.applied == ({} if rank else {"slow_rank": 1})
    assert recorder.changes == (() if rank else (slow,))


def test_a_process_that_learns_its_rank_later_is_slow_from_then_on(folder):
    recorder = watching(folder, Change("slow_rank", {"seconds": 0.001, "rank": 1}))
    recorder.take_rank(1)
    step(recorder)
    assert recorder.applied == {"slow_rank": 1} and len(recorder.changes) == 1


def test_rows_are_lines_of_json_that_others_can_read(folder):
    recorder = watching(folder)
    step(recorder)
    recorder.finish()
    lines = Path(folder.rank(0)).read_text().splitlines()

    assert [json.loads(line)["kind"] for line in lines] == ["events", "end"]
    assert recorder.pulse[PID] == 0, "nobody described this rank"
