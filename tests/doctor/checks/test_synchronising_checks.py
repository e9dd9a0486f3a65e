"""Tests of the checks that count reductions of gradients: too many, in vain, too few."""

import pytest
from case_factory import Sheet, make_case, make_sums, make_wrapper

from factories import make_estimate
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import never_synchronised, no_sync_around_backward_only, sync_every_micro_batch
from scalewise.doctor.finding import Replayed, TimeSaved
from scalewise.records.spec import Change

LAST = [False, False, False, True]


def trained(sync, no_sync=False, windows=4):
    sheet = Sheet()
    for _ in range(windows):
        for index in range(4):
            sheet.batch().forward(sync=sync[index] if isinstance(sync, list) else sync)
            if no_sync:
                sheet.no_sync()
            sheet.backward(factor=0.25)
        sheet.step().zero()
    return sheet


def both(case):
    return sync_every_micro_batch.examine(case), no_sync_around_backward_only.examine(case)


def test_every_micro_batch_reduces():
    case = make_case(trained(True), ranks=2, collectives={"all_reduce": (8, 40_000)})
    (finding,), other = both(case)
    assert other == () and finding.proof == "observed" and finding.severity == "slow"
    assert "4 times per optimizer step" in finding.sentence and finding.where.text == "loss.backward()"
    assert any("8 all-reduces, 39.1 KiB" in line for line in finding.evidence)
    assert (finding.price.value, finding.price.unit) == (30_000, "bytes")
    assert finding.change == Change("no_sync", {"window": 4}) and "model.no_sync()" in finding.fix


def test_no_sync_around_backward_only_has_no_effect():
    case = make_case(trained(True, no_sync=True), ranks=2)
    other, (finding,) = both(case)
    assert other == () and finding.where.text == "with model.no_sync():" and finding.price is None
    assert finding.fix.splitlines()[1] == "    loss = criterion(model(x), y)"


@pytest.mark.parametrize(
    "sheet",
    [
        trained(LAST),
        trained(LAST, no_sync=True),
        Sheet().windows(4),
        Sheet().windows(4, 4, zero="each"),
    ],
    ids=["last only", "no_sync as it should be", "no accumulation", "zeroed in between"],
)
def test_one_reduction_per_step_is_right(sheet):
    assert both(make_case(sheet, ranks=2)) == ((), ())


def test_one_rank_and_no_wrapper_abstain():
    for case in (make_case(trained(True)), make_case(trained(True), ranks=2, wrapped=False)):
        with pytest.raises(Abstain):
            sync_every_micro_batch.examine(case)


def replayed(case, change, saved, trouble="", fixed=None):
    return Replayed(change, case, fixed or case, 12, saved, trouble)


def test_a_replay_prices_it_in_milliseconds():
    case = make_case(trained(True), ranks=2, collectives={"all_reduce": (4, 16_000)})
    (finding,) = sync_every_micro_batch.examine(case)
    fixed = make_case(trained(LAST), ranks=2, collectives={"all_reduce": (1, 4_000)})
    saved = TimeSaved(make_estimate(3.0, 2.5, 3.5), 10.0, "in turns")
    settled = sync_every_micro_batch.settle(case, finding, replayed(case, finding.change, saved, fixed=fixed))
    assert settled.proof == "replayed" and (settled.price.value, settled.price.unit) == (3.0, "ms per step")
    assert (settled.price.interval.low, settled.price.interval.high) == (2.5, 3.5)
    assert any("with the fix: 1 all-reduce" in line for line in settled.evidence)


def test_a_replay_that_shows_no_gain_keeps_the_bytes():
    case = make_case(trained(True), ranks=2, collectives={"all_reduce": (4, 16_000)})
    (finding,) = sync_every_micro_batch.examine(case)
    nothing = TimeSaved(make_estimate(0.1, -0.3, 0.5), 10.0, "in turns")
    settled = sync_every_micro_batch.settle(case, finding, replayed(case, finding.change, nothing))
    assert settled.price == finding.price and settled.proof == "replayed"
    failed = replayed(case, finding.change, None, trouble="it crashed")
    assert sync_every_micro_batch.settle(case, finding, failed) == finding


def apart(sheet_of, *, equal=False, collectives=0):
    """Two ranks whose parameters drift apart, or do not."""
    sheets = []
    for rank in range(2):
        sheet = sheet_of()
        for step in (1, 2, 4):
            sheet.row(make_sums(step, weight=1.0 if equal else 1.0 + 0.1 * rank * step))
        sheet.row(make_wrapper())
        sheets.append(sheet)
    return make_case(*sheets)


@pytest.mark.parametrize(("sync", "reason"), [(False, "no micro-batch"), ([True, False, False, False], "an earlier")])
def test_the_last_micro_batch_does_not_reduce(sync, reason):
    case = apart(lambda: trained(sync))
    (finding,) = never_synchronised.examine(case)
    assert reason in finding.sentence and finding.proof == "observed"
    assert finding.price.unit == "share" and finding.price.value == pytest.approx(0.4 / 1.4)
    assert finding.change == Change("sync_last", {"window": 4}) and "require_backward_grad_sync" in finding.fix
    assert any("from step 1 on" in line for line in finding.evidence)


def test_without_sums_the_notes_alone_say_it():
    (finding,) = never_synchronised.examine(make_case(trained(False), ranks=2))
    assert finding.price.unit == "steps" and finding.price.value == 4


def test_a_single_step_alone_counts_where_parameters_drift():
    def sheet():
        return trained(LAST, windows=3).window(2, sync=False)

    (finding,) = never_synchronised.examine(apart_after(sheet))
    assert "1 of 4" in finding.sentence and finding.change is None
    assert never_synchronised.examine(make_case(sheet(), ranks=2)) == ()


def apart_after(sheet_of):
    sheets = [sheet_of().row(make_wrapper()).row(make_sums(1)).row(make_sums(4, weight=1.0 + rank)) for rank in (0, 1)]
    return make_case(*sheets)


def by_hand():
    sheet = Sheet()
    for _ in range(4):
        sheet.batch().forward(sync=False).backward().collective(size_bytes=4000).step().zero()
    return sheet


def local_sgd():
    sheet = Sheet()
    for index in range(8):
        sheet.window(sync=False)
        if index % 4 == 3:
            sheet.collective(size_bytes=4000)
    return sheet.window(sync=False)


@pytest.mark.parametrize(
    "case",
    [
        apart(lambda: trained(LAST)),
        apart(lambda: trained(False), equal=True),
        make_case(by_hand(), ranks=2),
        make_case(local_sgd(), ranks=2),
    ],
    ids=["last reduces", "equal all the same", "reduced by hand", "averaged now and then"],
)
def test_ranks_that_come_together_are_right(case):
    assert never_synchronised.examine(case) == ()


def test_a_replay_shows_that_the_ranks_agree_with_the_fix():
    case = apart(lambda: trained(False))
    (finding,) = never_synchronised.examine(case)
    good = replayed(case, finding.change, None, fixed=apart(lambda: trained(LAST), equal=True))
    assert never_synchronised.settle(case, finding, good).proof == "replayed"
    bad = replayed(case, finding.change, None, fixed=case)
    assert never_synchronised.settle(case, finding, bad) == finding
