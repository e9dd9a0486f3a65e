"""Tests of the check for samplers that are never told the epoch."""

import pytest
from case_factory import Sheet, make_case
from data_sheets import batches_of, feed, loader_of, rows, sampled

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.epoch_never_set import examine
from scalewise.records.notes import SetEpochNote

EPOCH = batches_of(list(range(16)))


def passes(*epochs, told=(), orders=None, sampler="DistributedSampler", **values):
    sheet = loader_of(Sheet(), sampler=sampler, knows_ranks=True)
    for number, epoch in enumerate(epochs):
        if number < len(told):
            sheet.add(SetEpochNote, epoch=told[number])
        sampled(sheet, epoch=epoch, **values)
        feed(sheet, orders[number] if orders else EPOCH)
    return make_case(sheet, ranks=2)


def test_epochs_under_one_number_have_one_order():
    (finding,) = examine(passes(0, 0, 0))
    assert finding.severity == "wrong" and finding.proof == "observed"
    assert "All 3 epochs" in finding.sentence and "never called" in finding.sentence
    assert "16 rows of the second epoch" in finding.evidence[1]
    assert finding.where.text == "for x, y in loader:"


def test_an_epoch_that_is_told_is_right():
    assert examine(passes(0, 1, 2, told=(0, 1, 2))) == ()


def test_the_same_number_told_again_and_again_has_no_effect():
    (finding,) = examine(passes(0, 0, 0, told=(0, 0, 0)))
    assert "3 times, always with 0" in finding.sentence


def test_two_passes_of_one_epoch_are_no_fault():
    assert examine(passes(4, 4, told=(4, 5))) == ()


def test_a_sampler_that_does_not_shuffle_needs_no_epoch():
    with pytest.raises(Abstain):
        examine(passes(0, 0, shuffle=False))


def test_one_pass_says_nothing():
    with pytest.raises(Abstain, match="twice"):
        examine(passes(0))


def test_a_look_at_the_first_batch_is_no_epoch():
    sheet = loader_of(Sheet(), sampler="DistributedSampler", knows_ranks=True)
    sampled(sheet.epoch()).batch()
    sampled(sheet)
    feed(sheet, EPOCH)
    with pytest.raises(Abstain):
        examine(make_case(sheet, ranks=2))


def test_a_sampler_of_evaluation_needs_no_epoch():
    sheet = loader_of(Sheet(), knows_ranks=True)
    for epoch in range(3):
        sampled(sheet, epoch=epoch)
        feed(sheet, EPOCH)
        sampled(sheet, sampler=1).epoch(loader=1)
        for _ in range(3):
            sheet.batch(loader=1).forward(trains=False)
        sheet.exhausted(loader=1)
    assert examine(make_case(sheet, ranks=2)) == ()


def test_rows_in_another_order_refute_it():
    other = batches_of(list(reversed(range(16))))
    assert examine(passes(0, 0, orders=[EPOCH, other], sampler="MySampler")) == ()


def test_rows_that_never_come_again_leave_a_suspicion_of_a_sampler_of_the_users():
    fresh = batches_of(list(range(50, 66)))
    (finding,) = examine(passes(0, 0, orders=[EPOCH, fresh], sampler="MySampler"))
    assert finding.proof == "suspected" and not finding.counts
    (finding,) = examine(passes(0, 0, orders=[EPOCH, fresh]))
    assert finding.proof == "observed"


def test_an_epoch_that_cannot_be_read_says_nothing():
    assert examine(passes(-1, -1)) == ()


def test_a_seed_that_changes_is_an_order_that_changes():
    sheet = loader_of(Sheet(), knows_ranks=True)
    for seed in range(2):
        sampled(sheet, seed=seed)
        feed(sheet, EPOCH)
    assert examine(make_case(sheet, ranks=2)) == ()


def test_a_sampler_made_anew_for_every_epoch_begins_at_epoch_zero():
    def remade(*orders):
        sheet = Sheet()
        for number, order in enumerate(orders):
            loader_of(sheet, index=number, sampler="DistributedSampler", knows_ranks=True)
            sampled(sheet, sampler=number).epoch(loader=number)
            for batch in order:
                sheet.batch(loader=number).forward(row_digests=rows(*batch)).backward().step()
            sheet.exhausted(loader=number)
        return make_case(sheet, ranks=2)

    (finding,) = examine(remade(EPOCH, EPOCH))
    assert finding.proof == "observed"
    with pytest.raises(Abstain):
        examine(remade(EPOCH, batches_of(list(range(50, 66)))))
