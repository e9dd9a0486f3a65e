"""H1.2: answers follow the speedups, the model finds what was put in, and 4 ranks on 2 cores never count."""

from dataclasses import replace

import pytest

from evidence_factories import make_evidence
from homework1_evidence import WEIGHTS, link, strong
from scalewise.explain.homework1.h1_2 import answers, link_words, strong_scaling
from scalewise.results.run import ExperimentText


def texts(*runs):
    return [answer.text for answer in answers(make_evidence(*runs))]


def test_no_overhead_and_no_exchange_is_linear_and_drops_nowhere():
    linear, drop, _ = texts(*strong(overhead=0.0))
    assert linear.startswith("Yes")
    assert drop.startswith("Nowhere")


def test_a_long_exchange_makes_more_ranks_slower():
    linear, drop, why = texts(*strong(exchange=0.020), link(rate=4e8), link(rate=4e8, ranks=4))
    assert linear.startswith("No: it is below 1")
    assert "above 1" in linear
    assert drop.startswith("Between one rank and 2 ranks")
    assert why.startswith("Communication is the larger loss")


def test_overhead_alone_is_a_fixed_serial_part():
    found = strong_scaling(make_evidence(*strong(overhead=3e-3)))
    share = 3e-3 / (3e-3 + 64e-4)
    assert found.amdahl.serial_fraction.value == pytest.approx(share, rel=0.02)
    linear, drop, _ = texts(*strong(overhead=3e-3), link(rate=1e11), link(rate=1e11, ranks=4))
    assert linear.startswith("No: it grows")
    assert "as a fixed serial part would give" in drop


def test_exchange_makes_karp_and_flatts_fraction_grow():
    runs = [*strong(ranks=(1, 2), exchange=1e-3), *strong(ranks=(4,), exchange=4e-3)]
    _, drop, _ = texts(*runs)
    assert "it grows, so the loss is work that ranks add" in drop


def test_the_model_finds_the_parts_that_were_put_in():
    exchange = 2 * 1e-4 + 4 * WEIGHTS / 1e9
    found = strong_scaling(make_evidence(*strong(exchange=exchange), link(), link(ranks=4)))
    two = next(part for part in found.parts if part.ranks == 2)
    assert two.overhead_seconds == pytest.approx(1e-3, rel=0.05)
    assert two.compute_seconds == pytest.approx(32e-4, rel=0.02)
    assert two.communication_seconds == pytest.approx(exchange, rel=0.01)
    assert abs(two.relative_residual) < 0.01
    assert two.communication_measured.value == pytest.approx(exchange, rel=0.02)
    assert "within the interval" in answers(make_evidence(*strong(exchange=exchange), link(), link(ranks=4)))[2].text


def test_the_sign_of_the_residual_picks_its_reading():
    links = (link(), link(ranks=4))
    assert "higher price than the link alone" in texts(*strong(exchange=0.03), *links)[2]
    assert "runs behind backward" in texts(*strong(exchange=0.001), *links)[2]


def test_oversubscribed_ranks_are_in_no_fit_and_no_model():
    runs = [*strong(ranks=(1, 2)), *strong(ranks=(4,), oversubscribed=True), link(), link(ranks=4, oversubscribed=True)]
    found = strong_scaling(make_evidence(*runs))
    assert [one.ranks for one in found.speedups] == [2]
    assert [part.ranks for part in found.parts] == [1, 2]
    assert "4 ranks (oversubscribed) cannot show scaling" in texts(*runs)[1]


def test_only_oversubscribed_ranks_leave_the_question_open():
    runs = [*strong(ranks=(1,)), *strong(ranks=(2, 4), oversubscribed=True)]
    assert all("Not answered" in text and "oversubscribed" in text for text in texts(*runs))


def test_where_nothing_was_measured_all_questions_have_one_answer():
    assert len(texts(*strong(ranks=(1,)))) == 1


def test_a_machine_with_too_few_gpus_is_told_what_to_do():
    evidence = make_evidence(*strong(ranks=(1,), removed=False, device="cuda"), gpus=1)
    asked = (ExperimentText("strong-scaling", ranks=(1, 2, 4)),)
    (answer,) = answers(replace(evidence, loaded=replace(evidence.loaded, name="homework1", experiments=asked)))
    assert "asks for 2 and 4 ranks beside one; N ranks need N GPUs, and this machine has 1 GPU" in answer.text
    assert "`scalewise run homework1 --device cpu`" in answer.text


def test_losses_that_cannot_be_told_apart_are_not_ranked():
    _, _, why = texts(*strong(overhead=4.0e-3, exchange=2.0e-3, ranks=(1, 2)), link(rate=4e9))
    assert "which of the two is larger cannot be told" in why
    _, _, why = texts(*strong(overhead=40e-3, exchange=1.0e-3, ranks=(1, 2)), link(rate=8e9))
    assert why.startswith("The fixed overhead is the larger loss")


def test_a_link_that_was_not_measured_is_named():
    assert "the link was not fitted" in texts(*strong(exchange=0.01))[2]
    assert link_words(make_evidence()) == "not measured"
    assert "1.00 GB/s" in link_words(make_evidence(link()))


def test_one_rank_with_several_batches_foretells_a_bound():
    runs = strong(ranks=(1,), overhead=6.4e-3, removed=False)
    for batch in (32, 128, 256):
        more = {"ranks": (1,), "overhead": 6.4e-3, "removed": False, "axes": {"batch": batch}}
        runs += strong("batch-scaling", batch=batch, **more)
    text = texts(*runs)[0]
    assert text.startswith("Not measured: strong-scaling was run on one rank only")
    assert "at most 1.33 [" in text
