"""H1.3: which case is better, why, and where the two sides balance, all from the numbers put in."""

import pytest

from evidence_factories import make_evidence
from homework1_evidence import link, strong
from scalewise.explain.homework1.balances import balances, cases
from scalewise.explain.homework1.h1_3 import answers

SMALL, LARGE = 2_000_000, 8_000_000


def model(case, exchange, *, weights, sample=1e-4, overhead=1e-3, **changes):
    env = {"DIM": "1024", "DEPTH": "2"} if case == "small" else {"DIM": "2048", "DEPTH": "8"}
    more = {"axes": {"case": case}, "env": env, **changes}
    return strong("model-size", exchange=exchange, weights=weights, sample=sample, overhead=overhead, **more)


def both(small, large, **changes):
    return make_evidence(
        *model("small", small, weights=SMALL, ranks=(1, 2)),
        *model("large", large, weights=LARGE, sample=4e-4, ranks=(1, 2), **changes),
        link(),
    )


def test_the_case_that_pays_less_for_communication_is_more_efficient():
    assert answers(both(0.010, 0.001))[0].text.startswith("The large one")
    assert answers(both(0.0001, 0.030))[0].text.startswith("The small one")


def test_cases_that_cannot_be_told_apart_are_neither():
    evidence = make_evidence(
        *model("small", 0.001, weights=SMALL, ranks=(1, 2)),
        *model("large", 0.004, weights=LARGE, sample=4e-4, overhead=4e-3, ranks=(1, 2)),
    )
    assert answers(evidence)[0].text.startswith("Neither")


def test_where_no_case_is_faster_than_one_rank_it_is_said():
    assert "In no case does DDP pay" in answers(both(0.02, 0.2))[0].text


def test_bytes_per_flop_are_equal_for_both_sizes():
    found = balances(both(0.001, 0.004))
    assert [one.bytes / one.flops for one in found] == pytest.approx([2 / (3 * 32)] * 2)
    assert "equal" in answers(both(0.001, 0.004))[1].text


def test_the_same_ratio_of_times_says_that_size_does_not_help():
    evidence = make_evidence(
        *model("small", 0.002, weights=SMALL, ranks=(1, 2)),
        *model("large", 0.008, weights=LARGE, sample=4e-4, overhead=4e-3, ranks=(1, 2)),
    )
    assert "Size alone does not help DDP" in answers(evidence)[1].text


def test_another_ratio_of_times_is_put_down_to_the_rates():
    assert "Size cannot be the cause" in answers(both(0.02, 0.001))[1].text


def test_the_batch_of_balance_is_where_computing_equals_communication():
    small = balances(both(0.010, 0.001))[0]
    assert small.batch.value == pytest.approx((0.010 - 0.001) / 1e-4, rel=0.05)
    text = answers(both(0.010, 0.001))[2].text
    assert "The small model" in text and "communication is the bottleneck now" in text


def test_a_cheap_exchange_is_a_bottleneck_for_small_batches_only_or_never():
    assert "only below that" in answers(both(0.010, 0.004))[2].text
    assert "no bottleneck at any batch" in answers(both(0.010, 0.0, overhead=0.05))[2].text


def test_a_batch_of_balance_about_the_one_that_was_run_is_left_open():
    assert "cannot be told from the 32 that were run" in answers(both(0.0042, 0.0138))[2].text


def test_a_shrunk_case_keeps_what_was_asked():
    evidence = both(0.01, 0.01, asked={"DIM": "8192"}, shrink_rule="halved until it fits")
    large = next(case for case in cases(evidence) if case.name == "large")
    assert (large.used, large.asked, large.rule) == ("2048 x 8", "8192 x 8", "halved until it fits")


def test_prices_that_cannot_be_told_from_nothing_settle_nothing():
    _, why, when = answers(both(0.0, 0.0))
    assert "too uncertain here" in why.text
    assert "cannot be told from nothing" in when.text


def test_one_real_rank_foretells_the_link_that_it_would_need():
    runs = [run for case, weights in (("small", SMALL), ("large", LARGE)) for run in emulated(case, weights)]
    which, why, when = answers(make_evidence(*runs))
    assert "Not answered" in which.text and "emulated" in which.text
    assert "0.0208 for small and 0.0208 for large, equal" in why.text
    assert "below 1.08 GB/s" in when.text  # 8 MB in 7.4 ms


def emulated(case, weights):
    alone = model(case, 0.0, weights=weights, ranks=(1,))
    return [*alone, *model(case, 0.01, weights=weights, ranks=(2,), emulated=True)]


def test_bytes_per_flop_are_those_of_the_ranks_in_the_table():
    runs = []
    for case, weights in (("small", SMALL), ("large", LARGE)):
        runs += model(case, 0.01, weights=weights, ranks=(1, 2))
        runs += model(case, 0.01, weights=weights, ranks=(4,), oversubscribed=True)
    assert "with b = 32" in answers(make_evidence(*runs))[1].text
