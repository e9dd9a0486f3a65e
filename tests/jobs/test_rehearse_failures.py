"""Tests of why a rehearsal gives no prediction: each end of a run as a sentence, without any process."""

from dataclasses import replace

import pytest

from factories import make_outcome, make_run, quiet_sample
from scalewise.jobs.failure_messages import loaded, made_up, refused, warnings_of, why_unmeasured
from scalewise.predict.rehearsed import NotRehearsed
from scalewise.records.load import Run
from scalewise.records.outcome import OutcomeKind, RankEnd
from scalewise.records.rehearsal import SteeredRow, TapeRow, UnrehearsedRow
from scalewise.records.spec import Rehearsed
from taped_steps import ddp_tape, rehearsal

FEW = NotRehearsed("fewer than four steps were made")
STOOD = RankEnd(0, None, None, 20.0, "waiting", (), ("train.py:7 in main: store.wait(['key'])",))


def ended(kind: OutcomeKind, end: RankEnd | None = None, **spec: object) -> Run:
    outcome = replace(make_outcome(kind), ranks=(end,) if end else (), first_failed_rank=0 if end else None)
    return make_run([0.01] * 3, outcome=outcome, kind=Rehearsed(8, 0, 8), **spec)


@pytest.mark.parametrize(
    ("run", "said", "hint"),
    [
        (ended("hung", STOOD), "train.py as one of 8 ranks stood still for 30 s at train.py:7", "only another rank"),
        (ended("timed_out", enough_steps=40), "took longer than 60 s for its first 40 steps", "--limit"),
        (ended("no_steps"), "made no optimizer step", "two dashes: scalewise rehearse"),
        (
            ended("raised", RankEnd(0, 1, None, 1.0, "", ("Traceback (most recent call last):", "ValueError: 7"), ())),
            "train.py itself ended as one of 8 ranks: ValueError: 7.",
            "with which the script itself goes on",
        ),
        (
            ended("raised", RankEnd(0, 1, None, 1.0, "", (), (), "ModuleNotFoundError: No module named 'tqdm'")),
            "train.py needs the package tqdm",
            "pip install tqdm",
        ),
        (
            ended("raised", RankEnd(0, 1, None, 1.0, "", ("RuntimeError: No CUDA GPUs are available",), ())),
            "train.py wants a GPU that is not there",
            "Rehearse it where there is one",
        ),
        (
            ended("raised", RankEnd(0, 2, None, 1.0, "", ("usage: train.py [-h]", "train.py: error: no --data"), ())),
            "train.py does not accept its arguments",
            "scalewise rehearse train.py -- ARGS",
        ),
        (ended("raised", RankEnd(0, 3, None, 1.0, "", (), ())), "itself ended as one of 8 ranks: exit code 3.", ""),
    ],
)
def test_an_end_is_a_sentence_with_what_to_do(run, said, hint):
    found = refused(run, FEW)
    assert found is not None
    assert said in found.reason
    assert hint in found.hint
    assert found.ranks == 8


def with_tape(*messages: tuple[str, int, int], outside: tuple[tuple[str, int, int], ...] = ()) -> Run:
    run = ended("finished")
    rows = (TapeRow(0, (), messages, outside=outside),)
    return replace(run, ranks=tuple(replace(rank, rehearsal=rows) for rank in run.ranks))


def test_ranks_that_send_nothing_would_each_train_alone():
    found = refused(with_tape(), rehearsal(ddp_tape(8, buckets=1)))
    assert found is not None
    assert "sends anything to another rank by torch.distributed" in found.reason
    assert "init_process_group()" in found.hint


def test_messages_between_steps_are_messages():
    assert refused(with_tape(outside=(("all_reduce", 4, 8),)), rehearsal(ddp_tape(8))) is None


def test_too_few_steps_are_told():
    found = refused(with_tape(("all_reduce", 4, 8)), FEW)
    assert found is not None
    assert found.reason == "train.py as one of 8 ranks: fewer than four steps were made."


def test_a_run_without_an_end_is_told():
    run = replace(ended("finished"), outcome=None)
    found = refused(run, FEW)
    assert found is not None
    assert "did not end" in found.reason


def test_real_ranks_without_a_step_say_how_they_ended():
    died = replace(make_outcome("killed"), sentence="rank 1 of 2 died of SIGKILL (forward)")
    assert why_unmeasured(make_run([0.01] * 3, outcome=died)) == "rank 1 of 2 died of SIGKILL (forward)"
    assert why_unmeasured(replace(make_run([0.01] * 3), outcome=None)) == "the run did not end"
    assert "let the script make more" in why_unmeasured(make_run([0.01]))


def test_other_load_is_told_by_the_judgement_that_measurements_have():
    busy = make_run([0.01] * 3, samples=(quiet_sample(foreign=0.76),))
    quiet = make_run([0.01] * 3, samples=(quiet_sample(foreign=0.01),))
    (said,) = loaded([busy, quiet])
    assert said.startswith("loaded machine: 1 of 2 runs, worst exp-ranks1-r0: foreign load 76 %")
    assert "end other work" in said
    assert loaded([quiet]) == ()


def test_what_may_not_hold_is_told_once():
    steered = SteeredRow("item", "all_reduce", "/home/me/train.py", 12, "if total.item() > 3:")
    odd = rehearsal(ddp_tape(2), steered=(steered,), unrehearsed=(UnrehearsedRow("the backend mpi", "taken as gloo"),))
    first, second = warnings_of([odd, odd])
    assert first.startswith("the result of all_reduce is looked at in train.py:12 (item)")
    assert first.endswith("if total.item() > 3:")
    assert second == "the backend mpi cannot be rehearsed: taken as gloo"


RAISED = RankEnd(0, 1, None, 1.0, "", ("Traceback:", "AssertionError: [1, 1]"), ())
LOOKED = SteeredRow("int", "all_gather", "/home/me/train.py", 7, "assert [int(c) for c in cnt] == [0, 1]")
GATHERED = UnrehearsedRow("objects gathered (all_gather_object)", "this rank's own stands for all", "own")
BROADCAST = UnrehearsedRow("objects broadcast (broadcast_object_list)", "the list stays as it was", "missing")


def after(run: Run, *rows: object) -> Run:
    return replace(run, ranks=tuple(replace(rank, rehearsal=rows) for rank in run.ranks))


@pytest.mark.parametrize("run", [ended("raised", RAISED), ended("no_steps"), ended("hung", STOOD)])
def test_a_script_that_ends_after_a_look_at_what_was_made_up_is_not_blamed(run):
    found = refused(after(run, LOOKED), FEW)
    assert found is not None
    assert "itself" not in found.reason
    assert "is made up in a rehearsal, which may be why: train.py:7 looks at the result of all_gather" in found.hint
    assert "scalewise run train.py --ranks 2" in found.hint


def test_objects_of_its_own_in_the_place_of_all_may_be_why_a_script_ends():
    found = refused(after(ended("raised", RAISED), GATHERED), FEW)
    assert found is not None
    assert "which may be why: it goes on with objects gathered (all_gather_object)" in found.hint


def test_the_call_that_brought_nothing_is_named_not_one_of_another_rank():
    failed = ended("raised", replace(RAISED, rank=1))
    ranks = (
        replace(failed.ranks[0], rank=0, rehearsal=(GATHERED,)),
        replace(failed.ranks[0], rank=1, rehearsal=(BROADCAST, GATHERED)),
    )
    outcome = replace(failed.outcome, first_failed_rank=1)
    found = refused(replace(failed, ranks=ranks, outcome=outcome), FEW)
    assert found is not None
    assert "without objects broadcast (broadcast_object_list): AssertionError" in found.reason


def test_a_backend_that_is_taken_for_another_makes_nothing_up():
    run = after(ended("raised", RAISED), UnrehearsedRow("the backend mpi", "taken as gloo"))
    assert made_up(run) == ""
    found = refused(run, FEW)
    assert found is not None
    assert found.reason.startswith("train.py itself ended as one of 8 ranks: AssertionError")


def test_a_script_that_fails_for_want_of_objects_is_told_so():
    run = ended("raised", RankEnd(0, 1, None, 1.0, "", ("Traceback:", "TypeError: got NoneType."), ()))
    row = UnrehearsedRow("objects received from another rank", "what the script had stays", "missing")
    missing = replace(run, ranks=tuple(replace(rank, rehearsal=(row,)) for rank in run.ranks))
    found = refused(missing, FEW)
    assert found is not None
    said = (
        "train.py as one of 8 ranks did not get on without objects received from another rank: TypeError: got NoneType."
    )
    assert found.reason == said
    assert "scalewise run train.py" in found.hint
