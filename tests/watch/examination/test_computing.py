"""What an examined rank notes of its own computing in backward, and of fetches that seed their generators."""

import pytest
from watch_runner import Ran, Runner

from scalewise.records.examination import WorkerSeedRow
from scalewise.records.load import read_rows
from scalewise.records.notes import BackwardNote, ComputedNote, Note
from scalewise.records.spec import Examined

PASSES = 4
LINGERS_NS = 50_000_000


@pytest.fixture(scope="module")
def ran(runner: Runner) -> Ran:
    return runner.watched("reseeds.py", ranks=2, kind=Examined())


def notes(ran: Ran, rank: int) -> list[Note]:
    return list(read_rows(ran.out.examination(rank)).notes)


def test_every_pass_notes_when_it_had_computed_before_it_ends(ran):
    for rank in range(2):
        kinds = [type(note) for note in notes(ran, rank) if isinstance(note, ComputedNote | BackwardNote)]
        assert kinds == [ComputedNote, BackwardNote] * PASSES


def test_a_rank_that_waits_has_computed_long_before_and_one_that_lingers_has_not(ran):
    for rank in range(2):
        found = notes(ran, rank)
        computed = [note.duration_ns for note in found if isinstance(note, ComputedNote)]
        whole = [note.duration_ns for note in found if isinstance(note, BackwardNote)]
        assert all(part > 0 for part in computed)
        if rank == 1:
            assert all(part >= LINGERS_NS for part in computed)
        else:
            # It computes nothing worth mentioning, and cannot be through before the other has lingered.
            assert min(computed) < LINGERS_NS <= max(whole)


def test_a_generator_that_a_fetch_seeds_itself_is_not_drawn_from(ran):
    (row,) = [row for row in read_rows(ran.out.examination(0)).rows if isinstance(row, WorkerSeedRow)]
    assert row.used["numpy"] and not row.used["torch"] and not row.used["random"]


def test_functions_that_seed_are_the_scripts_own_again_afterwards(ran):
    assert ran.stdout == ("same function\n", "same function\n")
