"""Homework 2: every answer follows from what was seen, and every number it says stands in its table."""

from dataclasses import replace

import pytest
from witness import strangers

from course_evidence import accum_evidence, beside_evidence, codes_evidence, course_arm, growing_evidence
from evidence_factories import make_evidence
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.memory_use import PARTS, MemoryParts
from scalewise.course import gpus
from scalewise.course.homework2 import HOMEWORK, memory_answer
from scalewise.course.homework2 import h2_1_same_training as h2_1
from scalewise.course.homework2 import h2_2_time_and_memory as h2_2
from scalewise.course.homework2 import h2_3_causes as h2_3
from scalewise.records.rows import MemoryRow
from scalewise.report.document import Answer, Section, Table

QUESTIONS = (h2_1, h2_2, h2_3)
ONE, TWO, THREE = "practical7_accumulation", "practical7_amp", "practical5_single"


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def answers(section: Section) -> list[Answer]:
    return [block for block in section.blocks if isinstance(block, Answer)]


def table(section: Section, name: str) -> Table:
    return next(block for block in section.blocks if isinstance(block, Table) and block.id == name)


def joined(*parts: Evidence, runs=()) -> Evidence:
    known = {run.spec.name: run for part in reversed(parts) for run in part.loaded.runs}
    seen = {one.run: one for part in reversed(parts) for one in part.inspections}
    return make_evidence(*known.values(), *runs, inspections=tuple(seen.values()))


def whole(**changes) -> Evidence:
    return joined(codes_evidence(**changes), accum_evidence(), runs=growing_evidence())


def test_every_number_of_every_answer_stands_in_what_it_rests_on():
    assert strangers([module.build(whole()) for module in QUESTIONS]) == {}


def test_without_any_run_every_question_says_that_it_cannot_be_answered():
    evidence = make_evidence()
    told = [answer for module in QUESTIONS for answer in answers(module.build(evidence))]
    assert len(told) == 4
    assert all("cannot be answered" in answer.verdict for answer in told)


def test_losses_that_are_equal_bit_for_bit_are_a_yes():
    (same,) = answers(h2_1.build(codes_evidence()))
    assert same.verdict.startswith("Yes")
    assert "equal Code 1's bit for bit" in same.number


def test_losses_that_part_without_amp_are_a_no():
    (same,) = answers(h2_1.build(codes_evidence(plain_loss=1.1)))
    assert same.verdict.startswith("No")
    assert "more than the precision was changed" in same.number


def test_losses_that_part_further_than_rounding_allows_are_a_no():
    (same,) = answers(h2_1.build(codes_evidence(loss=1.1)))
    assert same.verdict.startswith("No")
    assert "that rounding allows" in same.number


def test_the_table_of_the_sheet_has_every_code_with_time_memory_and_stability():
    rows = table(h2_2.build(whole()), h2_2.CODES_TABLE).rows
    assert [row[0].text for row in rows] == ["Code 1: accumulation", "Code 2: AMP", "Code 3: accumulation + AMP"]
    assert all(row[3].number is not None and row[5].number is not None for row in rows)


def test_more_micro_batches_of_one_batch_are_observed_to_cost_time():
    rows = table(h2_2.build(whole()), h2_2.ACCUM_TABLE).rows
    assert "more time than the first" in rows[3][7].text
    notes = table(h2_2.build(whole()), h2_2.ACCUM_TABLE).notes
    assert any(note.startswith("Code 1: a further micro-batch costs 1.00") for note in notes)


def test_a_point_that_was_not_run_for_one_code_is_a_named_hole():
    evidence = accum_evidence()
    gone = [run for run in evidence.loaded.runs if run.spec.axes != {"code": THREE, "accum": 16}]
    found = table(h2_2.build(make_evidence(*gone, inspections=evidence.inspections)), h2_2.ACCUM_TABLE)
    assert any(note.startswith("Code 3, ACCUM_STEPS 16:") and "was not" in note for note in found.notes)


def test_a_batch_that_grows_sends_less_for_each_sample():
    rows = table(h2_2.build(whole()), h2_2.GROWING_TABLE).rows
    sent = [row[5].number for row in rows]
    assert sent[0] == pytest.approx(8 * sent[3])
    assert [row[2].text for row in rows] == ["16", "32", "64", "128"]


def slower() -> dict[str, tuple[float, float]]:
    return {ONE: (0.020, 0.010), TWO: (0.030, 0.020), THREE: (0.035, 0.025)}


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        (slower(), "From precision, but against the sheet: in float16 the layers take longer here"),
        (
            {ONE: (0.035, 0.025), TWO: (0.020, 0.010), THREE: (0.020, 0.010)},
            "From precision: 16-bit products save more",
        ),
        ({ONE: (0.020, 0.010), TWO: (0.020, 0.010), THREE: (0.020, 0.010)}, "From neither, as far as these runs show."),
        ({ONE: (0.020, 0.010), TWO: (0.012, 0.005), THREE: (0.020, 0.010)}, "From the number of micro-batches"),
    ],
)
def test_the_cause_of_the_time_is_what_was_measured(steps, verdict):
    time, _, _ = answers(h2_3.build(whole(steps=steps)))
    assert time.verdict.startswith(verdict)


def test_one_rank_has_no_other_to_synchronise_with():
    time, _, _ = answers(h2_3.build(codes_evidence(ranks=1)))
    assert "One rank has no other to synchronise with" in time.why


def test_equal_bytes_are_said_not_to_tell_the_codes_apart():
    time, _, _ = answers(h2_3.build(whole()))
    assert "Synchronisation does not tell them apart" in time.why


def test_the_sign_of_the_memory_in_the_answer_is_that_of_the_table():
    for half_copy in (0, 9000):
        section = h2_3.build(whole(half_copy=half_copy))
        rows = {row[0].text: row[1].number for row in table(section, memory_answer.MEMORY_TABLE).rows}
        memory = answers(section)[1]
        if None not in rows.values():
            assert f"from {table(section, memory_answer.MEMORY_TABLE).rows[0][1].text}" in memory.number


def test_the_effective_batch_is_the_product_that_was_counted():
    section = h2_3.build(whole())
    _, _, batch = answers(section)
    assert batch.verdict == "It multiplies it: the effective batch is micro-batch × ACCUM_STEPS × ranks."
    for row in table(section, h2_3.BATCH_TABLE).rows:
        accum, micro, ranks, effective = (cell.number for cell in row[1:5])
        assert accum * micro * ranks == effective


def test_gradients_that_grow_with_accum_steps_are_said_to_miss_the_division():
    found = joined(codes_evidence(), accum_evidence(norm_grows=True))
    _, _, batch = answers(h2_3.build(found))
    assert "the division is missing" in batch.why


def test_the_summary_says_the_verdicts_a_reader_wants():
    evidence = whole()
    found = HOMEWORK.summary(evidence, [module.build(evidence) for module in QUESTIONS])
    assert [sentence.split(",")[0] for sentence in found.sentences] == ["H2.1", "H2.3", "H2.3", "H2.3"]


def test_a_peak_that_hardly_changes_is_observed_to_be_as_much_memory():
    evidence = accum_evidence()
    alike = [replace(one, peak_bytes=1_000_000 + (one.peak_bytes or 0) // 1000) for one in evidence.inspections]
    rows = table(h2_2.build(replace(evidence, inspections=tuple(alike))), h2_2.ACCUM_TABLE).rows
    assert all(row[7].text.endswith("as much memory") for row in rows[1:4])
    assert rows[1][7].text != rows[0][7].text
    other = table(h2_2.build(accum_evidence()), h2_2.ACCUM_TABLE).rows
    assert other[3][7].text.endswith("less memory")


def test_the_precision_of_the_products_stands_beside_each_code():
    rows = table(h2_2.build(whole()), h2_2.CODES_TABLE).rows
    assert [row[1].text for row in rows] == ["float32", "float16", "float16"]


def test_the_heap_under_a_growing_batch_is_not_passed_off_as_the_peak_of_tensors():
    runs = [with_heap(run) for run in growing_evidence()]
    (note,) = table(h2_2.build(make_evidence(*runs)), h2_2.GROWING_TABLE).notes
    assert note.startswith("Memory: C heap in use") and "not to be compared with other tables" in note


def with_heap(run):
    row = MemoryRow(10, 9000, 0, 4000, 4000, 0, 7000, None, None, None)
    return replace(run, ranks=tuple(replace(rank, memory=(row,)) for rank in run.ranks))


def three(code3: float, bfloat: float) -> Evidence:
    """Code 1 takes 10 ms without communication, Code 3 as long as is said, in float16 and in bfloat16."""
    steps = {ONE: (0.020, 0.010), TWO: (code3 + 0.009, code3 - 0.001), THREE: (code3 + 0.010, code3)}
    return joined(codes_evidence(steps=steps), accum_evidence(), beside_evidence(bfloat=bfloat))


def test_where_bfloat16_is_as_fast_as_float32_the_products_of_float16_are_the_cause_and_not_the_casts():
    time, _memory, _ = answers(h2_3.build(three(code3=0.060, bfloat=0.010)))
    assert time.verdict == "From precision, but against the sheet: float16 products are slow on this CPU."
    assert (
        time.why.count("It is not the casts: Code 3 in bfloat16 makes the same ones and does not differ clearly") == 1
    )
    assert strangers([module.build(three(code3=0.060, bfloat=0.010)) for module in QUESTIONS]) == {}


def test_where_bfloat16_is_as_slow_the_products_of_float16_are_not_blamed():
    time, _, _ = answers(h2_3.build(three(code3=0.060, bfloat=0.060)))
    assert "float16 products are slow" not in time.verdict
    assert "It is not float16 alone: Code 3 in bfloat16 makes the same casts and takes" in time.why


def test_without_bfloat16_no_single_cause_is_claimed():
    time, _, _ = answers(h2_3.build(whole()))
    assert "on casts and on products" in time.why and "not the casts" not in time.why


def test_steps_that_cannot_be_told_apart_are_not_explained_by_slow_precision():
    steps = dict.fromkeys((ONE, TWO, THREE), (0.02, 0.01))
    time, _, _ = answers(h2_3.build(whole(steps=steps)))
    assert "differs less from Code 1 (float32) than their steps vary" in time.why
    assert "slow" not in time.why and "convert" not in time.why


def test_both_techniques_are_compared_with_plain_float32_where_it_was_measured():
    evidence = joined(codes_evidence(), accum_evidence(), beside_evidence(held=9000))
    section = h2_3.build(evidence)
    rows = table(section, memory_answer.MEMORY_TABLE).rows
    assert [row[0].text for row in rows] == ["float32 DDP", "Code 1", "Code 2", "Code 3"]
    memory = answers(section)[1]
    assert "Accumulation (float32 DDP to Code 1)" in memory.number and "AMP (float32 DDP to Code 2)" in memory.number
    assert strangers([module.build(evidence) for module in QUESTIONS]) == {}


def parts(peak: int, progress: int) -> MemoryParts:
    found = {"weights": 2 * 512**2 * 4, "activations": 30_000, "work in progress": progress}
    every = {name: found.get(name, 0) for name in PARTS}
    return MemoryParts(every, every, peak, 0, True)


def test_what_amp_and_accumulation_add_is_named_by_the_size_of_one_layer():
    env = {"DIM": "512", "DEPTH": "2"}
    evidence = make_evidence(course_arm("codes", 0.01, {"code": ONE}, env=env))
    plain = parts(6_700_000, 0)
    amp = memory_answer.Effect("AMP", "", plain, parts(7_120_000, 512**2 * 2))
    accumulation = memory_answer.Effect("accumulation", "", plain, parts(7_680_000, 512**2 * 4 + 30_000))
    assert memory_answer._added(evidence, amp).endswith(
        "one layer's gradient in 16 bits, while it is copied to float32."
    )
    assert memory_answer._added(evidence, accumulation).endswith("one layer's gradient, before it is added to the sum.")
    other = memory_answer.Effect("AMP", "", plain, parts(9_000_000, 2_300_000))
    assert "one layer" not in memory_answer._added(evidence, other)


def test_the_heading_over_rows_of_gpus_has_their_own_dim(monkeypatch):
    record = {
        "suite": "homework2",
        "experiment": "codes",
        "axes": {"code": ONE},
        "ranks": 2,
        "env": {"DIM": "1024"},
        "peak_bytes": 1000,
        "step": {"seconds": [0.004, 0.0039, 0.0041], "steps": 90, "runs": 3},
    }
    known = gpus.Records("NVIDIA H200", "2026-11-18", {}, (gpus._record(record),))
    monkeypatch.setattr(gpus, "shipped", lambda: known)
    evidence = whole()
    evidence = replace(evidence, loaded=replace(evidence.loaded, name="homework2"))
    assert table(h2_2.build(evidence), h2_2.CODES_TABLE).groups[1] == (3, "On two NVIDIA H200, DIM 1024")
