"""Practical 7: every answer follows from what was seen, and every number it says stands in its table."""

from dataclasses import replace

import pytest
from witness import strangers

from course_evidence import (
    accumulation_evidence,
    course_arm,
    growing_evidence,
    overflow_evidence,
    precision_evidence,
    scaler_evidence,
)
from evidence_factories import make_evidence
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.measured_arms import StepChange
from scalewise.course.practical7 import HOMEWORK, precision_sizes
from scalewise.course.practical7 import p7_1_no_sync as p7_1
from scalewise.course.practical7 import p7_3_mixed_precision as p7_3
from scalewise.course.practical7 import p7_5_side_by_side as p7_5
from scalewise.report.cells import number_cell
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
    assert speed.verdict == "Neither: both are slower than plain float32 DDP here."


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
    product, total = table(section, p7_5.TOGETHER).rows
    plain, one, two = 20.0, 10.0, 10.0
    assert product[1].number == pytest.approx(one * two / plain)
    assert total[1].number == pytest.approx(one + two - plain, abs=1e-9)
    assert product[1].mark == total[1].mark == "predicted"
    assert product[2].note == "homework 2 was not measured beside this suite"


def test_a_single_rank_beside_two_is_not_compared():
    base = precision_evidence()
    alone = [replace(run, spec=replace(run.spec, ranks=1)) for run in base.loaded.runs]
    evidence = make_evidence(*alone, *accumulation_evidence().loaded.runs, inspections=base.inspections)
    speed = answers(p7_5.build(evidence))[1]
    assert "cannot be answered" in speed.verdict or "Neither" in speed.verdict


def test_the_summary_says_the_verdicts_a_reader_wants():
    evidence = whole()
    found = HOMEWORK.summary(evidence, [module.build(evidence) for module in QUESTIONS])
    assert [sentence.split(",")[0] for sentence in found.sentences] == ["P7.1", "P7.3", "P7.5", "P7.5"]


def test_the_bar_of_a_step_ends_at_the_number_of_the_table():
    section = p7_1.build(accumulation_evidence())
    rows = table(section, p7_1.TABLE).rows
    (figure,) = [one for one in section.blocks if isinstance(one, Figure) and one.id == "p7-1-anatomy"]
    ends = [sum(part.values[bar] for part in figure.plot.parts) for bar in range(2)]
    assert ends == pytest.approx([row[3].number for row in rows[:2]])


def sized(**seconds: tuple[float, float]):
    """One rank of this CPU, by case: float32 and bfloat16."""
    return [
        course_arm("amp-size", time, {"case": case, "precision": name}, ranks=1, **more)
        for case, times in seconds.items()
        for (name, more), time in zip((("float32", {}), ("bfloat16", {"autocast": "bfloat16"})), times, strict=True)
    ]


def with_model(evidence: Evidence, dim: int = 512) -> Evidence:
    """The runs of the three precisions with DIM and DEPTH written down, as a suite does."""
    told = {"DIM": f"{dim}", "DEPTH": "2"}
    runs = [
        replace(run, spec=replace(run.spec, env={**run.spec.env, **told})) if run.spec.experiment == "amp" else run
        for run in evidence.loaded.runs
    ]
    unsized = [replace(run, ranks=tuple(replace(rank, model=None) for rank in run.ranks)) for run in runs]
    return make_evidence(*unsized, inspections=evidence.inspections)


def test_a_gain_that_shows_on_one_rank_is_not_denied_for_the_size():
    evidence = with_model(joined(precision_evidence(half=0.020, full=0.020), runs=sized(**{"512x2": (0.010, 0.007)})))
    mixed = answers(p7_3.build(evidence))[0]
    assert mixed.verdict.endswith("on 2 ranks bfloat16 is not clearly faster here, on one rank it is.")
    assert "small" not in mixed.verdict
    assert "One rank with the same model takes 0.700" in mixed.why and "all-reduce" in mixed.why
    assert strangers(p7_3.build(evidence)) == {}


def test_a_model_too_small_on_one_rank_as_well_is_said_to_be_too_small():
    sizes = sized(**{"512x2": (0.010, 0.010), "1024x2": (0.010, 0.004)})
    evidence = with_model(joined(precision_evidence(half=0.020, full=0.020), runs=sizes))
    mixed = answers(p7_3.build(evidence))[0]
    assert mixed.verdict.endswith(
        "with so small a model bfloat16 is not clearly faster here, though it is with larger products."
    )
    assert "loses" not in mixed.why and "all-reduce" not in mixed.why


def test_without_another_size_nothing_is_said_of_the_size():
    mixed = answers(p7_3.build(precision_evidence(half=0.020, full=0.020)))[0]
    assert mixed.verdict.endswith("; bfloat16 is not clearly faster here.")


@pytest.mark.parametrize("half", [0.010, 0.020, 0.040])
def test_no_sentence_shows_the_braces_of_its_own_template(half):
    for module in QUESTIONS:
        for answer in answers(module.build(joined(precision_evidence(half=half, full=0.020), scaler_evidence()))):
            text = " ".join((answer.verdict, answer.number, answer.why, answer.practice, answer.decided))
            assert "{" not in text and "}" not in text


def test_a_slower_bfloat16_is_told_with_its_number():
    mixed = answers(p7_3.build(precision_evidence(half=0.040, full=0.020)))[0]
    assert "it is slower: bfloat16 takes 100\u00a0% more time than float32." in mixed.verdict


def three_precisions(bfloat: float, half: float) -> Evidence:
    one = precision_evidence(half=half, full=0.020)
    rows = [run for run in one.loaded.runs if run.spec.axes.get("precision") != "bfloat16"]
    other = course_arm("amp", bfloat, {"precision": "bfloat16"}, autocast="bfloat16")
    return make_evidence(*rows, other, inspections=one.inspections)


def test_where_bfloat16_is_as_fast_the_products_of_float16_are_to_blame_and_not_its_casts():
    section = p7_3.build(three_precisions(bfloat=0.020, half=0.080))
    mixed = answers(section)[0]
    assert "Here float16 loses by its products, not by its casts, which bfloat16 makes as well" in mixed.why
    assert strangers(section) == {}
    both = answers(p7_3.build(three_precisions(bfloat=0.080, half=0.080)))[0]
    assert "Here bfloat16 and float16 lose: casts, and products for which this CPU has no fast units" in both.why


def size(label: str, precision: str, full: float, ratio: float, on_gpu: bool) -> precision_sizes.Size:
    cells = number_cell(full), number_cell(full * ratio)
    found = Estimate(ratio, 0.95 * ratio, 1.05 * ratio, 60, 2, "", 0.95, positive=True)
    return precision_sizes.Size(label, precision, *cells, found, on_gpu, "measured")


def test_from_which_size_on_it_pays_is_told_device_by_device():
    known = [
        size("256x2", "bfloat16", 1.13, 1.0, False),
        size("512x2", "bfloat16", 1.85, 0.7, False),
        size("1024x2", "bfloat16", 6.01, 0.43, False),
        *(size("1024x2", name, 1.35, 1.2, True) for name in precision_sizes.HALVES),
        *(size("4096x4", name, 1.94, 1.5, True) for name in precision_sizes.HALVES),
        *(size("8192x8", name, 10.3, 0.8, True) for name in precision_sizes.HALVES),
    ]
    told = precision_sizes.crossover_words(known, "NVIDIA H200")
    assert "On this CPU bfloat16 pays from 512 × 2 on (0.70" in told
    assert "On NVIDIA H200 both pay only with 8192 × 8 (bfloat16 0.80" in told
    assert "from 2.10 to 67.1 million weights" in told and "1.35\u00a0ms to 1.94\u00a0ms" in told
    assert "1.5" not in told.replace("1.35", "").replace("1.94", "")  # the larger, slower product is no proof of it


def test_a_size_that_pays_once_and_then_no_longer_is_no_size_from_which_on_it_pays():
    known = [size("256x2", "bfloat16", 1.0, 0.5, False), size("1024x2", "bfloat16", 6.0, 1.3, False)]
    told = precision_sizes.crossover_words(known, "")
    assert "does not clearly pay at the largest size" in told and "1.3" in told


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        ("slower", "slower", "Neither: both are slower than plain float32 DDP here."),
        (
            "slower",
            "cannot tell",
            "Neither: accumulation is slower than plain float32 DDP here, the other not clearly faster or slower.",
        ),
        ("cannot tell", "cannot tell", "Neither shows a gain: both cannot be told from plain float32 DDP here."),
        ("cannot tell", "faster", "Mixed precision: only this one is faster than plain float32 DDP here."),
    ],
)
def test_the_verdict_on_speed_says_slower_where_the_intervals_do(one, two, verdict):
    changes = [StepChange(each, number_cell(0.0)) for each in (one, two)]
    assert p7_5._speed_verdict(*changes, None) == verdict


def test_a_faster_accumulation_is_not_told_to_be_impossible():
    found = joined(accumulation_evidence(synced=0.010), precision_evidence(half=0.020, full=0.020))
    speed = answers(p7_5.build(found))[1]
    assert "Accumulation: only this one is faster" in speed.verdict
    assert "so nothing of it can make a step shorter" not in speed.why


def exact(seconds: float) -> Estimate:
    return Estimate(seconds, 0.97 * seconds, 1.03 * seconds, 60, 3, "", 0.95, positive=True)


@pytest.mark.parametrize(
    ("code3", "words"),
    [
        (0.030, "The product agrees"),
        (0.018, "The sum agrees: what each adds to a step is paid once"),
        (0.060, "Neither agrees"),
    ],
)
def test_a_measured_code_3_is_compared_with_both_predictions(code3, words):
    found = replace(p7_5.compared(whole()), product=exact(0.030), total=exact(0.018), code3=exact(code3))
    assert words in p7_5._together_words(found)
    assert p7_5._together_words(replace(found, code3=None)) == ""
    answer = p7_5._combined(found)
    shown = p7_5._together_table(found)[0].rows
    assert all(row[1].text in answer.number for row in shown)


def test_with_two_predictions_alike_neither_is_preferred():
    found = replace(p7_5.compared(whole()), product=exact(0.018), total=exact(0.018), code3=exact(0.018))
    assert "do not tell them apart" in p7_5._together_words(found)


def test_a_scale_that_was_halved_is_the_reason_for_a_dynamic_one():
    evidence = joined(scaler_evidence(), runs=overflow_evidence())
    section = p7_3.build(evidence)
    assert [row[0].text for row in table(section, p7_3.SCALER).rows][-1] == p7_3.LARGE
    without = answers(section)[2]
    assert "gradients overflow at 65536; the scaler skipped 2 of 40 steps and halved its scale each time, to 16384" in (
        without.practice
    )
    assert strangers(section) == {}
    assert "skipped" not in answers(p7_3.build(scaler_evidence()))[2].practice


def test_a_loss_that_only_drifts_is_not_said_to_learn_nothing():
    without = answers(p7_3.build(scaler_evidence(zeros=(5, 300), losses=(1.0, 1.05))))[2]
    assert without.verdict.startswith("The training drifts")


def test_a_larger_lr_is_said_of_sgd_only():
    divide = answers(p7_1.build(accumulation_evidence()))[0]
    assert divide.practice.startswith("SGD then steps as if LR were 4 times as large")
    assert "Adam" in divide.practice
