"""What an examined rank notes around its training loop: the right things, from the right lines, and nothing changed."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
from watch_runner import Ran, Runner

from scalewise.records.examination import FailureRow, LoaderRow, PlaceRow, WorkerSeedRow
from scalewise.records.load import read_rows
from scalewise.records.notes import (
    INDIRECT,
    NOWHERE,
    BatchNote,
    ClockNote,
    CollectiveDoneNote,
    CollectiveNote,
    DeviceSyncNote,
    ExhaustedNote,
    GroupNote,
    HostReadNote,
    LoaderNote,
    Note,
    SamplerNote,
    SaveNote,
    SetEpochNote,
    WarningNote,
)
from scalewise.records.spec import Examined

SomeNote = TypeVar("SomeNote", bound=Note)
SomeRow = TypeVar("SomeRow")


def notes(ran: Ran, kind: type[SomeNote], rank: int = 0) -> list[SomeNote]:
    """The notes of one kind."""
    return [note for note in read_rows(ran.out.examination(rank)).notes if isinstance(note, kind)]


def rows(ran: Ran, kind: type[SomeRow], rank: int = 0) -> list[SomeRow]:
    """The rows of one kind."""
    found = read_rows(ran.out.examination(rank))
    assert not found.bad_lines and not found.torn_lines
    return [row for row in found.rows if isinstance(row, kind)]


def line(ran: Ran, note: Note | FailureRow, rank: int = 0) -> str:
    """The text of the script's line of a note."""
    return {row.index: row.text for row in rows(ran, PlaceRow, rank)}[note.place]


@pytest.fixture(scope="module")
def pair(runner: Runner) -> tuple[Ran, Ran]:
    """The script with everything in it, alone and examined."""
    return runner.raw("around.py", ranks=2), runner.watched("around.py", ranks=2, kind=Examined())


@pytest.fixture
def ran(pair: tuple[Ran, Ran]) -> Ran:
    """The examined one."""
    return pair[1]


def test_a_script_prints_warns_and_ends_as_it_does_alone(pair: tuple[Ran, Ran]) -> None:
    raw, examined = pair
    assert examined.codes == raw.codes == (0, 0)
    assert examined.stdout == raw.stdout
    assert examined.stderr == raw.stderr


def test_a_collective_is_noted_before_and_after_with_size_group_and_other_end(ran: Ran) -> None:
    made = notes(ran, CollectiveNote)
    assert [(note.operation, note.size_bytes, note.peer, note.waits) for note in made] == [
        ("all_reduce", 16, NOWHERE, True),
        ("all_reduce", 16, NOWHERE, False),
        ("wait", 0, NOWHERE, True),
        ("all_gather", 0, NOWHERE, True),
        ("send", 16, 1, True),
        ("barrier", 0, NOWHERE, True),
    ]
    assert [note.operation for note in notes(ran, CollectiveDoneNote)] == [note.operation for note in made]
    other = {note.operation: note for note in notes(ran, CollectiveNote, rank=1)}
    assert other["recv"].peer == 0 and other["broadcast"].ranks == [1]
    assert line(ran, other["recv"], rank=1) == "dist.recv(total, 0)"


def test_loaders_batches_and_their_end_are_told_apart(ran: Ran) -> None:
    first, own = rows(ran, LoaderRow)
    assert (first.sampler, first.knows_ranks, first.samples, first.drawn) == ("DistributedSampler", True, 32, 16)
    assert (own.sampler, own.knows_ranks, own.batch_size, own.seed) == ("Halves", True, 8, None)
    assert [note.loader for note in notes(ran, LoaderNote)] == [0, 0, 1]
    assert Counter(note.loader for note in notes(ran, BatchNote)) == {0: 8, 1: 2}
    assert [note.loader for note in notes(ran, ExhaustedNote)] == [0, 0, 1]


def test_samplers_of_torch_and_of_the_script_tell_their_epoch_and_rank(ran: Ran) -> None:
    seen = [(note.sampler, note.epoch, note.shuffle, note.rank, note.replicas) for note in notes(ran, SamplerNote)]
    assert seen == [(0, 0, True, 0, 2), (0, 1, True, 0, 2), (1, 0, False, 0, 2)]
    assert [(note.sampler, note.epoch) for note in notes(ran, SetEpochNote)] == [(0, 0), (0, 1)]


def test_clocks_are_noted_where_the_script_reads_them_also_one_kept_in_a_class(ran: Ran) -> None:
    read = [(note.function, line(ran, note)) for note in notes(ran, ClockNote)]
    assert read == [
        ("time.perf_counter", "began, watch = perf_counter(), Watch()"),
        ("time.perf_counter", "return self.clock()"),
        ("time.time", "assert watch.read() - began > 0 and time.time() > 0"),
    ]


def test_files_groups_and_warnings_are_noted(ran: Ran) -> None:
    (save,) = notes(ran, SaveNote)
    assert (
        Path(save.path) == (ran.cwd / "model.pt").resolve() and save.size_bytes == (ran.cwd / "model.pt").stat().st_size
    )
    assert not notes(ran, SaveNote, rank=1)
    assert [(note.event, note.backend, note.world_size) for note in notes(ran, GroupNote)] == [
        ("init", "gloo", 2),
        ("destroy", "gloo", 2),
    ]
    (warning,) = notes(ran, WarningNote)
    assert (warning.category, warning.text) == ("UserWarning", "mind the step")


def test_notes_are_in_the_order_they_were_made(ran: Ran) -> None:
    made = read_rows(ran.out.examination(0)).notes
    assert all(before.at_ns <= after.at_ns for before, after in pairwise(made))


@pytest.mark.parametrize("generator", ["numpy", "random", "torch"])
def test_fetching_in_the_rank_tells_which_generator_it_drew_from(runner: Runner, generator: str) -> None:
    ran = runner.watched("note_seeds.py", generator, "0", kind=Examined())
    assert ran.stdout == runner.raw("note_seeds.py", generator, "0").stdout
    first, second = rows(ran, WorkerSeedRow)
    assert first.worker == NOWHERE and first.base_seed is not None
    assert first.used == {name: name == generator for name in ("torch", "numpy", "random")}
    assert first.states[generator] != second.states[generator]


def test_forked_workers_tell_their_own_seeds_and_what_they_drew_from(runner: Runner) -> None:
    ran = runner.watched("note_seeds.py", "numpy", "2", kind=Examined())
    assert ran.stdout == runner.raw("note_seeds.py", "numpy", "2").stdout
    found = rows(ran, WorkerSeedRow)
    assert Counter(row.worker for row in found) == {NOWHERE: 2, 0: 2, 1: 2}
    workers = [row for row in found if row.worker != NOWHERE]
    assert all(row.used == {"torch": False, "numpy": True, "random": False} for row in workers)
    assert len({row.states["numpy"] for row in workers}) == 4
    assert {row.base_seed for row in workers} == {row.base_seed for row in found if row.worker == NOWHERE}


def test_the_exception_that_ends_a_script_is_told_with_its_lines(runner: Runner) -> None:
    ran = runner.watched("note_ends.py", "raise", kind=Examined())
    assert ran.codes == (1,) and ran.stderr == runner.raw("note_ends.py", "raise").stderr
    (failure,) = rows(ran, FailureRow)
    assert (failure.error, failure.message) == ("ValueError", "no luck")
    assert line(ran, failure) == 'raise ValueError("no luck")' and len(failure.places) >= 2


@pytest.mark.parametrize(("how", "code", "message"), [("exit", 1, "cannot go on"), ("code", 3, "3")])
def test_an_exit_with_a_code_is_a_failure_too(runner: Runner, how: str, code: int, message: str) -> None:
    ran = runner.watched("note_ends.py", how, kind=Examined())
    assert ran.codes == (code,)
    (failure,) = rows(ran, FailureRow)
    assert (failure.error, failure.message) == ("SystemExit", message)


@pytest.mark.parametrize(("how", "code"), [("os_exit", 5), ("kill", -9), ("fork", 0)])
def test_notes_survive_however_the_rank_ends(runner: Runner, how: str, code: int) -> None:
    ran = runner.watched("note_ends.py", how, kind=Examined())
    raw = runner.raw("note_ends.py", how)
    assert (ran.codes, ran.stdout, ran.stderr) == (raw.codes, raw.stdout, raw.stderr) and raw.codes == (code,)
    expected = ["time.monotonic"] + ["time.process_time"] * (how == "fork")
    assert [note.function for note in notes(ran, ClockNote)] == expected


def test_reads_of_a_gpu_and_waits_for_it_are_seen_where_one_is_stood_in_for(runner: Runner) -> None:
    ran = runner.watched("note_reads.py", kind=Examined(), on_cpu=True)
    assert ran.codes == (0,) and ran.stdout[0].startswith("4.0 4.0 1.0 True [1.0, 1.0, 1.0, 1.0]")
    direct = [note.call for note in notes(ran, HostReadNote) if not note.call.endswith(INDIRECT)]
    assert direct == ["item", "format", "bool", "cpu", "repr"]
    assert any(line(ran, note) == "print(x)" for note in notes(ran, HostReadNote))
    assert [note.function for note in notes(ran, ClockNote)] == ["Event.record", "time.time"]
    assert [note.call for note in notes(ran, DeviceSyncNote)] == [
        "Event.synchronize",
        "cuda.synchronize",
        "Stream.synchronize",
    ]
