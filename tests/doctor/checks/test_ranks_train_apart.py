"""Tests of the check for ranks that never exchange anything."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_sums

from factories import make_model, make_outcome
from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.checks import ranks_train_apart
from scalewise.doctor.checks.ranks_train_apart import examine
from scalewise.records.notes import NOWHERE, GroupNote
from scalewise.records.outcome import OutcomeKind
from scalewise.records.traffic import StepTraffic, Traffic

STEPS = 6


def sheet(weight: float = 1.0, *, digest: str = "", group: bool = True) -> Sheet:
    """A loop without a wrapper, whose only parameter has this value at the end."""
    made = Sheet().add(GroupNote) if group else Sheet()
    for step in range(STEPS):
        fed = {"digest": f"{digest}{step}"} if digest else {}
        made.forward(wrapper=NOWHERE, **fed).backward().step().zero()
    return made.row(make_sums(4, wrapper=NOWHERE, weight=weight))


def apart(
    *sheets: Sheet, step: StepTraffic | None = None, wrapped: bool = False, end: OutcomeKind = "finished"
) -> Case:
    """Ranks with these notes that exchanged in each step what `step` says, or nothing."""
    case = make_case(*sheets, wrapped=wrapped, outcome=make_outcome(end))
    traffic = Traffic({step or StepTraffic(): STEPS})
    records = {rank.rank: replace(rank.record, traffic=traffic) for rank in case.ranks}
    run = replace(case.run, ranks=tuple(records.values()))
    return Case(run, tuple(replace(rank, record=records[rank.rank]) for rank in case.ranks))


def test_ranks_that_exchange_nothing_are_found():
    (finding,) = examine(apart(sheet(1.0, digest="a"), sheet(2.0, digest="b")))

    assert finding.severity == "wrong" and finding.counts
    assert "2 ranks train apart" in finding.sentence and "in any of 6 steps" in finding.sentence
    assert "a model of its own" in finding.sentence
    assert any("1 of 1 parameter tensors differ" in text for text in finding.evidence)
    assert any("process group of 2 ranks was made" in text for text in finding.evidence)
    assert "DistributedDataParallel(model)" in finding.fix and "init_process_group" not in finding.fix
    assert finding.where is not None and finding.where.text == "optimizer.step()"


def test_a_script_that_never_made_a_group_is_told_to_make_one():
    (finding,) = examine(apart(sheet(1.0, digest="a", group=False), sheet(1.0, digest="a", group=False)))

    assert "makes the same training" in finding.sentence
    assert any("no process group was made" in text for text in finding.evidence)
    assert "init_process_group" in finding.fix


@pytest.mark.parametrize("end", ["timed_out", "enough", "hung"])
def test_a_run_that_was_ended_early_may_have_missed_the_averaging(end: OutcomeKind):
    (finding,) = examine(apart(sheet(1.0, digest="a"), sheet(2.0, digest="b"), end=end))

    assert finding.proof == "suspected" and not finding.counts
    assert "seem to train apart" in finding.sentence and "in the 6 steps that were seen" in finding.sentence
    assert any("local SGD" in text and "--limit" in text for text in finding.evidence)


def test_ranks_without_a_group_can_average_nothing_later():
    alone = sheet(1.0, digest="a", group=False)
    (finding,) = examine(apart(alone, alone, end="timed_out"))

    assert finding.counts and "in any of 6 steps" in finding.sentence


def test_after_many_steps_nobody_averages_any_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranks_train_apart, "SURE_STEPS", STEPS)
    (finding,) = examine(apart(sheet(1.0, digest="a"), sheet(2.0, digest="b"), end="timed_out"))

    assert finding.counts


@pytest.mark.parametrize("step", [StepTraffic(update=4000), StepTraffic(between=4000), StepTraffic(reduced=4000)])
def test_ranks_that_exchange_are_right(step):
    assert examine(apart(sheet(1.0), sheet(1.0), step=step)) == ()


def test_parameters_that_stay_equal_on_different_data_are_exchanged_unseen():
    with pytest.raises(Abstain, match="stay equal"):
        examine(apart(sheet(1.0, digest="a"), sheet(1.0, digest="b")))


def test_models_of_different_shapes_are_trainings_of_their_own():
    case = apart(sheet(1.0), sheet(2.0))
    second = replace(case.ranks[1], record=replace(case.ranks[1].record, model=make_model(shapes_digest="wide")))
    assert examine(replace(case, ranks=(case.ranks[0], second))) == ()


def test_a_wrapper_that_is_not_used_is_the_matter_of_its_own_checks():
    with pytest.raises(Abstain, match="never-synchronised"):
        examine(apart(sheet(1.0), sheet(2.0), wrapped=True))


def test_one_rank_has_nobody_to_talk_to():
    with pytest.raises(Abstain, match="one rank"):
        examine(apart(sheet()))


def test_what_was_not_seen_is_not_judged():
    with pytest.raises(Abstain, match="not read"):
        examine(make_case(sheet(1.0), sheet(2.0), wrapped=False))
