"""Practical 7: every answer follows from what was seen, and every number it says stands in its table."""

from dataclasses import replace

import pytest
from witness import strangers

from course_evidence import accumulation_evidence, course_arm, growing_evidence, precision_evidence, scaler_evidence
from evidence_factories import make_evidence
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.practical7 import p7_1, p7_3, p7_5, summary
from scalewise.report.document import Answer, Figure, Section, Table

QUESTIONS = (p7_1, p7_3, p7_5)


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def answers(section: Section) -> list[Answer]:
    return [block for block in section.blocks if isinstance(block, Answer)]


def table(section: Section, name: str) -> Table:
    return next(block for block in section.blocks if isinstance(block, Table) and block.id == name)


def joined(*parts: Evidence, runs=()) -> Evidence:
    """Several made-up experiments as one suite; of two runs with one name the first counts."""
    known = {run.spec.name: run for part in reversed(parts) for run in part.loaded.runs}
    seen = {one.run: one for part in reversed(parts) for one in part.inspections}
    return make_evidence(*known.values(), *runs, inspections=tuple(seen.values()))


def whole() -> Evidence:
    return joined(accumulation_evidence(), precision_evidence(), scaler_evidence(), runs=growing_evidence())


def test_every_number_of_every_answer_stands_in_what_it_rests_on():
    assert strangers([module.build(whole()) for module in QUESTIONS]) == {}


def test_without_any_run_nothing_is_claimed():
    evidence = make_evidence()
    told = [answer for module in QUESTIONS for answer in answers(module.build(evidence))]
    assert len(told) == 9
    for answer in told:
        assert "cannot be answered" in answer.verdict or "not measured" in answer.verdict or answer.row == "P7.5"
        assert not answer.number


def test_four_micro_batches_without_the_division_give_four_times_the_gradient():
    divide, _, _ = answers(p7_1.build(accumulation_evidence(norms=(0.1, 0.4))))
    assert divide.verdict.endswith("without the division the gradient is 4 times too large.")
    assert "0.400 instead of 0.100" in divide.number


def test_a_gradient_that_grows_otherwise_is_not_explained_away():
    divide, _, _ = answers(p7_1.build(accumulation_evidence(norms=(0.1, 0.3))))
    assert "these runs do not show it" in divide.verdict


def test_a_training_that_diverged_is_told():
    divide, _, _ = answers(p7_1.build(accumulation_evidence(lost=True)))
    assert "losses were no longer finite" in divide.practice


def test_skipping_is_the_same_training_with_a_quarter_of_the_bytes():
    _, skip, _ = answers(p7_1.build(accumulation_evidence()))
    assert "in 2 all-reduces instead of" in skip.number and "in 8" in skip.number
    assert "which is rounding" in skip.number


def test_losses_that_part_at_once_are_not_called_the_same_training():
    _, skip, _ = answers(p7_1.build(accumulation_evidence(drift=1.5)))
    assert "more than rounding explains" in skip.number


@pytest.mark.parametrize(
    ("plain", "verdict"),
    [
        (0.020, "The step gets longer, and the result stays the same."),
        (0.010, "More is sent for the same result; on this machine the step changes too little to be told."),
        (0.005, "In these runs the step did not get longer, although more is sent."),
    ],
)
def test_without_no_sync_the_step_is_told_as_it_was_seen(plain, verdict):
    _, _, without = answers(p7_1.build(accumulation_evidence(synced=0.010, plain=plain)))
    assert without.verdict == verdict


@pytest.mark.parametrize(
    ("half", "word"), [(0.010, "here it is faster"), (0.040, "it is slower"), (0.020, "is not clearly faster here.")]
)
def test_mixed_precision_is_explained_in_general_and_judged_by_what_was_seen_here(half, word):
    mixed = answers(p7_3.build(precision_evidence(half=half, full=0.020)))[0]
    assert word in mixed.verdict
    assert "16-bit numbers halve the bytes" in mixed.why


def test_a_peak_that_grew_is_said_to_have_grown_with_both_numbers():
    mixed = answers(p7_3.build(precision_evidence(peaks=(18_000_000, 20_000_000))))[0]
    assert "needs more memory at its peak" in mixed.number
    less = answers(p7_3.build(precision_evidence(peaks=(20_000_000, 18_000_000))))[0]
    assert "needs less memory at its peak" in less.number


def test_gradients_that_vanish_are_the_reason_for_the_scaler():
    _, scaler, without = answers(p7_3.build(scaler_evidence(zeros=(5, 1000), losses=(1.0, 1.6))))
    assert scaler.verdict == "Because small gradients become 0 in float16, and the scaler keeps them."
    assert "learns little or nothing" in without.verdict


def test_gradients_that_do_not_vanish_are_no_reason():
    _, scaler, without = answers(p7_3.build(scaler_evidence(zeros=(5, 6), losses=(1.001, 1.001))))
    assert "large enough without it" in scaler.verdict
    assert "no difference that shows" in without.verdict


def test_where_both_are_slower_plain_ddp_is_said_first():
    found = joined(accumulation_evidence(synced=0.020), precision_evidence(half=0.030, full=0.010))
    speed = answers(p7_5.build(found))[1]
    assert speed.verdict == "Neither: plain float32 DDP is not slower than either of them here."


def test_the_faster_one_is_named():
    found = joined(accumulation_evidence(synced=0.020), precision_evidence(half=0.010, full=0.020))
    speed = answers(p7_5.build(found))[1]
    assert speed.verdict.startswith("Mixed precision: only this one is faster")


def test_a_batch_that_grows_sends_less_for_each_sample():
    section = p7_5.build(whole())
    sent = [row[5].number for row in table(section, p7_5.GROWING).rows]
    assert sent[0] == pytest.approx(4 * sent[1])
    assert "a sample sends" in answers(section)[1].practice


def test_both_together_are_predicted_by_their_product(tmp_path):
    section = p7_5.build(whole())
    (row,) = table(section, p7_5.TOGETHER).rows
    plain, one, two = 20.0, 10.0, 10.0
    assert row[0].number == pytest.approx(one * two / plain)
    assert row[0].mark == "predicted"
    assert row[1].note == "homework 2 was not measured beside this suite"


def test_a_single_rank_beside_two_is_not_compared():
    base = precision_evidence()
    alone = [replace(run, spec=replace(run.spec, ranks=1)) for run in base.loaded.runs]
    evidence = make_evidence(*alone, *accumulation_evidence().loaded.runs, inspections=base.inspections)
    speed = answers(p7_5.build(evidence))[1]
    assert "cannot be answered" in speed.verdict or "Neither" in speed.verdict


def test_the_summary_says_the_verdicts_a_reader_wants():
    evidence = whole()
    found = summary(evidence, [module.build(evidence) for module in QUESTIONS])
    assert [sentence.split(":")[0] for sentence in found.sentences] == ["P7.1", "P7.3", "P7.5", "P7.5"]


def test_the_bar_of_a_step_ends_at_the_number_of_the_table():
    section = p7_1.build(accumulation_evidence())
    rows = table(section, p7_1.TABLE).rows
    (figure,) = [one for one in section.blocks if isinstance(one, Figure) and one.id == "p7-1-anatomy"]
    ends = [sum(part.values[bar] for part in figure.plot.parts) for bar in range(2)]
    assert ends == pytest.approx([row[3].number for row in rows[:2]])


def test_a_precision_that_is_faster_with_larger_products_is_said_to_be():
    sizes = [
        course_arm("amp-size", seconds, {"case": "1024x2", "precision": name}, ranks=1, **more)
        for name, seconds, more in (("float32", 0.010, {}), ("bfloat16", 0.004, {"autocast": "bfloat16"}))
    ]
    mixed = answers(p7_3.build(joined(precision_evidence(half=0.020, full=0.020), runs=sizes)))[0]
    assert mixed.verdict.endswith("bfloat16 is not clearly faster here, though it is with larger products.")
    assert "loses" not in mixed.why


@pytest.mark.parametrize(("code3", "words"), [(0.6, "add up and do not multiply"), (1.0, ""), (1.7, "paid again")])
def test_a_measured_code_3_off_the_product_is_explained(code3, words):
    found = p7_5.compared(whole())
    assert found.product is not None
    told = p7_5._product_words(replace(found, code3=found.product.times(code3)))
    assert words in told and bool(told) == bool(words)
