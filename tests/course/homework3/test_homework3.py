"""Homework 3: every answer follows from what was seen, and every number it says stands in its table."""

from dataclasses import replace

import pytest
from witness import strangers

from course_evidence import course_arm, course_inspection, depth_evidence, devices_evidence, put_together
from evidence_factories import make_evidence
from inspection_factory import make_parts, make_pipeline
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import copies_seconds
from scalewise.course import gpus
from scalewise.course.homework3 import HOMEWORK
from scalewise.course.homework3 import h3_1_two_devices as h3_1
from scalewise.course.homework3 import h3_2_depth as h3_2
from scalewise.course.homework3 import h3_3_placement_rule as h3_3
from scalewise.course.homework3 import h3_4_more_devices as h3_4
from scalewise.course.homework3 import h3_5_copies as h3_5
from scalewise.course.homework3.layer_placement import ALL, DEVICES, SHARES, placed_along
from scalewise.records.inspection import BusyRow, DeviceMemoryRow
from scalewise.report.document import Answer, Figure, Section, Table

QUESTIONS = (h3_1, h3_2, h3_3, h3_4, h3_5)


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def answers(section: Section) -> list[Answer]:
    return [block for block in section.blocks if isinstance(block, Answer)]


def table(section: Section, name: str) -> Table:
    return next(block for block in section.blocks if isinstance(block, Table) and block.id == name)


def whole(micro_seconds: tuple[float, float] = (0.008, 0.005)) -> Evidence:
    one, two = depth_evidence(text="x = x.to(layer_device)"), devices_evidence()
    micro = [
        course_arm("micro-batches", seconds, {"batch": size}, ranks=1)
        for size, seconds in zip((16, 8), micro_seconds, strict=True)
    ]
    runs = (*one.loaded.runs, *two.loaded.runs, *micro)
    return make_evidence(*runs, inspections=(*one.inspections, *two.inspections))


def test_every_number_of_every_answer_stands_in_what_it_rests_on():
    evidence = whole()
    assert strangers([module.build(evidence) for module in QUESTIONS]) == {}


def test_without_any_run_every_question_says_that_it_cannot_be_answered():
    evidence = make_evidence()
    for module in QUESTIONS:
        for answer in answers(module.build(evidence)):
            assert "cannot be answered" in answer.verdict or "No step was looked into" in answer.verdict


def test_layers_of_each_device_are_counted():
    how_many, _ = answers(h3_1.build(depth_evidence()))
    assert how_many.verdict == "Half of them on each: with DEPTH=6, 3 on device 0 and 3 on device 1."


def test_the_line_that_moves_the_data_is_quoted_as_it_was_when_the_run_was_made():
    _, where = answers(h3_1.build(depth_evidence(text="x = x.to(layer_device)  # the hand-over")))
    assert where.verdict == "At `x = x.to(layer_device)`, line 7 of mp.py."
    assert "copies only once in a forward pass: after layer 2" in where.number


def test_a_step_that_grows_with_depth_is_a_no_and_says_by_how_much():
    (answer,) = answers(h3_2.build(depth_evidence(per_layer=0.001)))
    assert answer.verdict.startswith("No: every further layer makes the step longer")
    assert answer.number.endswith("adds 1.00\u00a0ms for each layer.")
    assert "waits until the one before has finished" in answer.why


def test_a_level_step_cannot_be_told():
    (answer,) = answers(h3_2.build(depth_evidence(per_layer=0.0)))
    assert "vary too much to tell" in answer.verdict


def test_a_step_that_shrinks_with_depth_is_told_as_it_was_seen_and_doubted():
    (answer,) = answers(h3_2.build(depth_evidence(per_layer=-0.002)))
    assert "against all expectation" in answer.verdict


def test_devices_that_work_together_are_not_said_to_wait():
    (answer,) = answers(h3_2.build(depth_evidence(together=True)))
    assert "waits until the one before" not in answer.why


def test_even_blocks_have_a_rule_and_an_example_that_does_not_divide():
    section = h3_3.build(devices_evidence())
    (answer,) = answers(section)
    assert "`i * N // depth`" in answer.verdict
    assert "7 layers on 5 GPUs lie as 2, 1, 2, 1, 1" in answer.practice
    assert "2, 1, 2, 1, 1" in " ".join(table(section, h3_3.TABLE).notes)


def test_layers_dealt_out_one_by_one_have_none_of_the_rules():
    (answer,) = answers(h3_3.build(devices_evidence(alternate=True)))
    assert answer.verdict.startswith("No single rule")
    assert "do not follow one another" in answer.why


@pytest.mark.parametrize(("depth", "devices"), [(20, 2), (20, 5), (7, 5), (24, 2), (3, 8)])
def test_the_rule_places_every_layer_and_its_blocks_differ_by_one_at_most(depth, devices):
    shares = h3_3.shares_by_rule(depth, devices)
    assert sum(shares) == depth
    assert max(shares) - min(shares) <= 1


def test_devices_that_take_turns_are_used_one_at_a_time():
    used, _ = answers(h3_4.build(devices_evidence()))
    assert used.verdict == "All 5 are used, but only one at a time."
    assert "Each device computes for 20 % of forward and backward" in used.number


def test_devices_that_overlap_are_said_to_overlap():
    used, _ = answers(h3_4.build(devices_evidence(together=True)))
    assert "more than one at once" in used.verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ((0.02, 0.021, 0.03), "No: 5 devices are slower than 2."),
        ((0.02, 0.021, 0.021), "No: no gain from 2 to 5 devices was seen."),
        (
            (0.03, 0.021, 0.01),
            "In these runs 5 devices were faster than 2, although nothing in the script explains it.",
        ),
    ],
)
def test_two_devices_are_compared_with_five(seconds, verdict):
    _, faster = answers(h3_4.build(devices_evidence(seconds)))
    assert faster.verdict == verdict


def test_a_pipeline_is_predicted_from_the_measured_cost_of_its_micro_batches():
    section = h3_4.build(whole())
    rows = table(section, h3_4.PIPELINE).rows
    assert [row[0].number for row in rows] == [1, 4, 8]
    work = rows[2][2].number
    optimizer = 20 - rows[0][2].number
    assert rows[2][3].number == pytest.approx((8 + 5 - 1) * work / 5 + optimizer / 5)
    assert all(row[3].mark == "predicted" for row in rows)
    assert rows[2][4].number == pytest.approx(100 * 4 / 12)


def test_micro_batches_that_cost_as_much_as_the_whole_batch_make_no_pipeline_pay():
    _, faster = answers(h3_4.build(whole(micro_seconds=(0.02, 0.02))))
    assert "No clear gain is predicted from a pipeline at this size" in faster.practice


def test_without_micro_batches_no_pipeline_is_drawn():
    section = h3_4.build(devices_evidence())
    assert not [block for block in section.blocks if isinstance(block, Table) and block.id == h3_4.PIPELINE]


def test_a_real_device_beside_logical_ones_counts_tensors_as_they_do():
    evidence = devices_evidence()
    layers = tuple(replace(layer, device="cuda:0") for layer in evidence.inspections[0].layers)
    busy = tuple(replace(row, device="cuda:0") for row in evidence.inspections[0].timeline)
    alone = replace(
        evidence.inspections[0],
        layers=layers,
        timeline=busy,
        transfers=(),
        device_memory=(DeviceMemoryRow("cuda:0", 90000),),
        memory=replace(make_parts(), peak_bytes=5000, at_peak={"weights": 5000}),
    )
    changed = replace(evidence, inspections=(alone, *evidence.inspections[1:]))
    first = placed_along(changed, ALL, "devices", DEVICES)[0]
    assert first.seen is not None and first.seen.devices[0].peak_bytes == 5000


def test_blocks_hand_over_one_time_less_than_there_are_devices():
    how_often, relation = answers(h3_5.build(devices_evidence()))
    assert how_often.verdict == "There are 1 with 2 devices and 4 with 5 devices."
    assert "called 20 times in a pass" in how_often.number
    assert relation.verdict.startswith("It grows linearly: N devices make N − 1 copies in forward, and as many in back")


def test_layers_dealt_out_one_by_one_move_data_more_often():
    _, relation = answers(h3_5.build(devices_evidence(alternate=True)))
    assert relation.verdict.startswith("It is more than N − 1 copies")


def test_rows_of_gpus_stand_apart_and_are_predicted(monkeypatch):
    known = gpus.Records("NVIDIA H200", "2026-11-18", {"torch": "2.11"}, (gpus._record(_on_one_gpu()),))
    monkeypatch.setattr(gpus, "shipped", lambda: known)
    evidence = devices_evidence()
    evidence = replace(evidence, loaded=replace(evidence.loaded, name="homework3"))
    found = table(h3_4.build(evidence), h3_4.TABLE)
    assert found.groups == ((0, "On this machine"), (3, "On NVIDIA H200"))
    assert [row[1].mark for row in found.rows[3:]] == ["measured", "predicted", "predicted"]
    one, two, five = (row[1].number for row in found.rows[3:])
    assert one < two < five


def _on_one_gpu():
    return {
        "suite": "homework3",
        "experiment": ALL,
        "axes": {"devices": "1"},
        "ranks": 1,
        "env": {"DEPTH": "20"},
        "peak_bytes": 1000,
        "step": {"seconds": [0.004, 0.0039, 0.0041], "steps": 90, "runs": 3},
    }


def test_the_summary_says_the_verdicts_a_reader_wants():
    evidence = whole()
    found = HOMEWORK.summary(evidence, [module.build(evidence) for module in QUESTIONS])
    assert len(found.sentences) == 4
    assert found.sentences[0].startswith("H3.2, more layers: every further layer")


def test_one_depth_alone_leaves_the_question_open():
    evidence = put_together([course_arm("two-devices", 0.1, {"depth": 6}, ranks=1)], [])
    (answer,) = answers(h3_2.build(evidence))
    assert "fewer than two depths" in answer.verdict


def test_a_script_that_leaves_devices_out_has_its_row_refused():
    two = make_pipeline(2, 20)
    arms = [course_inspection(ALL, {"devices": count}, ranks=1, shown=two) for count in (2, 5)]
    evidence = put_together([course_arm(ALL, 0.02, {"devices": count}, ranks=1) for count in (2, 5)], arms)
    few, many = placed_along(evidence, ALL, "devices", DEVICES)
    assert few.seen is not None and few.missing == ""
    assert many.row is None and many.seen is None
    assert many.missing.startswith("refused: your script was given 5 devices, and its layers lay on 2")
    assert "cannot be answered: refused" in answers(h3_4.build(evidence))[1].verdict


def test_a_script_that_reads_no_depth_has_its_rows_refused():
    env = {"DIM": "64", "DEPTH": "24"}
    run = course_arm("two-devices", 0.1, {"depth": 24}, ranks=1, env=env, model={"parameters": 6 * 64 * 65})
    evidence = put_together([run], [])
    (point,) = placed_along(evidence, "two-devices", "depth", (6, 12, 24))
    assert point.row is None and "does not read DIM or DEPTH" in point.missing


def test_busy_shares_are_of_forward_and_backward_on_one_device_as_on_several():
    one = devices_evidence().inspections[0]
    end = max(row.end_ns for row in one.timeline)
    with_optimizer = replace(one, timeline=(*one.timeline, BusyRow(3, "logical:0", "optimizer", "", end, 3 * end)))
    evidence = devices_evidence()
    changed = replace(evidence, inspections=(with_optimizer, *evidence.inspections[1:]))
    (first, *_) = placed_along(changed, ALL, "devices", DEVICES)
    (before, *_) = placed_along(evidence, ALL, "devices", DEVICES)
    assert first.seen is not None and before.seen is not None
    assert first.seen.devices[0].busy_share == before.seen.devices[0].busy_share == 1.0
    assert first.seen.layers_seconds == before.seen.layers_seconds
    for module, name in ((h3_2, h3_2.TABLE), (h3_4, h3_4.TABLE)):
        units = [column.unit for column in table(module.build(whole()), name).columns if "usy" in column.title]
        assert units == [SHARES, SHARES]


def test_the_step_that_is_drawn_is_put_beside_that_of_the_table_without_saying_which_is_longer():
    section = h3_4.build(devices_evidence((0.02, 0.021, 0.5)))
    figure = next(block for block in section.blocks if isinstance(block, Figure) and block.id == h3_4.TIMELINE)
    assert "takes longer" not in figure.caption
    assert "40.0 ms (the step of the table, with its optimizer: 500\u00a0ms)" in figure.caption


def test_devices_that_overlap_are_not_captioned_as_working_one_at_a_time():
    section = h3_4.build(devices_evidence(together=True))
    figure = next(block for block in section.blocks if isinstance(block, Figure) and block.id == h3_4.TIMELINE)
    assert "no two layers work at once" not in figure.caption
    assert "What these shares leave over" not in answers(section)[0].why


def test_a_number_of_micro_batches_that_gains_nothing_is_told_beside_one_that_does():
    section = h3_4.build(whole(micro_seconds=(0.005, 0.0125)))
    _, faster = answers(section)
    assert faster.practice.startswith("A pipeline would help: with 4 micro-batches")
    assert "With 8 it is" in faster.practice and "no gain" in faster.practice
    assert strangers(section) == {}


def test_a_small_gain_within_the_intervals_is_not_promised():
    _, faster = answers(h3_4.build(whole(micro_seconds=(0.0126, 0.02))))
    assert faster.practice.startswith("No clear gain is predicted from a pipeline at this size")


def test_the_prediction_without_micro_batches_is_checked_against_the_measured_step():
    notes = table(h3_4.build(whole()), h3_4.PIPELINE).notes
    assert any(note.startswith("m = 1 is the script as it is, so it can be checked: 30") for note in notes)


def test_the_slope_is_told_as_that_of_the_line_and_not_of_two_depths():
    (answer,) = answers(h3_2.build(depth_evidence(per_layer=0.001)))
    assert "The line through all depths adds 1.00" in answer.number


def test_copies_of_one_size_that_differ_are_told_with_their_range():
    evidence = devices_evidence()
    slow = evidence.inspections[1]
    later = tuple(
        replace(row, begin_ns=row.begin_ns + 10**6 * (row.device == "logical:1") * (row.phase == "forward"))
        for row in slow.timeline
    )
    later = tuple(replace(row, end_ns=max(row.end_ns, row.begin_ns + 1)) for row in later)
    assert copies_seconds(replace(slow, timeline=later))[0] == pytest.approx(1e-3)
    found = [
        h3_5.Transfers(placed, 20, 1, 1, 256.0, copies, 0.01)
        for placed, copies in zip(placed_along(evidence, ALL, "devices", DEVICES)[1:], SLOW_AND_FAST, strict=True)
    ]
    (note,) = h3_5._apart(tuple(found))
    assert note.startswith("So few copies (2 and 4) differ though their size is the same")
    assert h3_5._ends(found[0].copies) == "150 to 170"
    assert h3_5._apart(tuple(found[:1])) == []


SLOW_AND_FAST = ((150e-6, 170e-6), (90e-6, 95e-6, 96e-6, 99e-6))


def test_a_copy_between_gpus_has_its_latency_told_as_assumed(monkeypatch):
    known = gpus.Records("NVIDIA H200", "2026-11-18", {}, (gpus._record(_on_one_gpu()),))
    monkeypatch.setattr(gpus, "shipped", lambda: known)
    notes = " ".join(table(h3_5.build(devices_evidence()), h3_5.TABLE).notes)
    assert "by the data sheet's bandwidth, and a latency of 3.40" in notes and "which is assumed" in notes
    evidence = devices_evidence()
    evidence = replace(evidence, loaded=replace(evidence.loaded, name="homework3"))
    (told,) = [note for note in table(h3_4.build(evidence), h3_4.TABLE).notes if "Measured on" in note]
    assert "as one of several" not in told and "N − 1 copies each way" in told


def test_the_summary_says_what_each_verdict_is_about():
    evidence = whole()
    found = HOMEWORK.summary(evidence, [module.build(evidence) for module in QUESTIONS])
    assert found.sentences[2].startswith("H3.4, 5 devices against 2: 5 devices are slower than 2.")
    assert not any(": No: " in sentence or ": Yes: " in sentence for sentence in found.sentences)
