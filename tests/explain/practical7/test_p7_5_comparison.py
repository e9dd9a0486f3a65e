"""P7.5: the winner changes with the numbers, and there may be none."""

from course_evidence import course_arm, precision_evidence, put_together
from scalewise.explain.practical7.p7_5_comparison import answers, effects


def test_the_one_with_the_lower_peak_saves_more():
    memory = answers(precision_evidence(peaks=(20000, 18000)))[0]
    assert memory.text.startswith("Mixed precision saves more.")
    memory = answers(precision_evidence(peaks=(20000, 21000)))[0]
    assert memory.text.startswith("Accumulation saves more.")


def test_neither_may_save_memory():
    evidence = precision_evidence(peaks=(20000, 21000))
    raised = tuple(
        type(one)(**{**vars(one), "peak_bytes": 22000}) if one.run.startswith("no-sync") else one
        for one in evidence.inspections
    )
    memory = answers(type(evidence)(**{**vars(evidence), "inspections": raised}))[0]
    assert memory.text.startswith("Neither saves memory here.")


def test_the_one_with_the_shorter_step_is_faster():
    assert answers(precision_evidence(half=0.010))[1].text.startswith("Mixed precision is faster.")
    assert answers(precision_evidence(half=0.040))[1].text.startswith("Accumulation is faster.")
    assert "Neither can be called faster" in answers(precision_evidence(half=0.015))[1].text


def test_a_winner_that_loses_to_plain_ddp_is_said_to():
    text = answers(precision_evidence(half=0.040, full=0.010))[1].text
    assert "plain float32 DDP is faster still" in text


def test_the_combination_is_a_prediction_and_says_so():
    text = answers(precision_evidence(half=0.010, full=0.020))[2].text
    assert "7.50 ms [" in text and "(predicted), less than the 20.0 ms of plain DDP" in text
    assert "both change activations" in text


def test_the_table_tells_collectives_of_a_step():
    accumulation, mixed = effects(precision_evidence())
    assert "once for 4 micro-batches" in accumulation.communication_text
    assert mixed.communication_text == "2 all-reduces of 7.81 KiB in all"


def test_where_ranks_differ_code_1_is_taken_from_an_experiment_on_as_many():
    runs = [course_arm("amp", 0.02, {"precision": name}, ranks=1) for name in ("float32", "float16")]
    runs.append(course_arm("no-sync", 0.05, {"no_sync": 1}, micro_batches=4))
    runs.append(course_arm("division", 0.04, {"divide": 1}, ranks=1, micro_batches=4))
    accumulation, _ = effects(put_together(runs, []))
    assert accumulation.row is not None and accumulation.row.ranks == 1
    assert accumulation.speed_text.startswith("100 %")
