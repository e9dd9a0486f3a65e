"""Homework 1: opposite measurements give opposite answers, and every number of an answer stands in its table."""

from dataclasses import replace
from statistics import mean, pvariance
from typing import Any

import pytest
from witness import strangers

from evidence_factories import arm, make_evidence, make_inspection
from factories import noisy, quiet_sample
from homework1_evidence import WEIGHTS, link, link_in_training, rehearsal, strong
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.gpus import GpuStep
from scalewise.course.homework1 import HOMEWORK, rank_points
from scalewise.course.homework1 import h1_1_reproducibility as h1_1
from scalewise.course.homework1 import h1_2_strong_scaling as h1_2
from scalewise.course.homework1 import h1_3_communication as h1_3
from scalewise.course.homework1 import h1_4_data_parallel as h1_4
from scalewise.course.homework1 import h1_5a_delay as h1_5a
from scalewise.course.homework1 import h1_5b_batch_sizes as h1_5b
from scalewise.course.homework1 import h1_5c_slow_rank as h1_5c
from scalewise.course.homework1.comparable_rows import shaken_rows
from scalewise.course.homework1.h1_4_devices import DeviceTraffic
from scalewise.records.inspection import BusyRow, DeviceMemoryRow, LayerRow, ProfileRow, TransferRow, WorkRow
from scalewise.records.load import Run
from scalewise.records.machine import PeakRates
from scalewise.records.spec import Inspected
from scalewise.report.document import Answer, Figure, Section, Table
from scalewise.report.draw import draw
from scalewise.report.tables import csv_text
from scalewise.report.view import table_view

QUESTIONS = (h1_1, h1_2, h1_3, h1_4, h1_5a, h1_5b, h1_5c)
MIB = 2**20


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def answers(section: Section) -> list[Answer]:
    return [block for block in section.blocks if isinstance(block, Answer)]


def table(section: Section, name: str) -> Table:
    return next(block for block in section.blocks if isinstance(block, Table) and block.id == name)


def steps(seconds: float, count: int = 40) -> list[float]:
    return [seconds * (1 + 0.002 * (index % 5 - 2)) for index in range(count)]


def often(make: Any, *args: Any, repeats: int = 6, **changes: Any) -> list[Run]:
    """The same runs so many times over, as repeats: then the spread between runs is seen and not assumed."""
    return [run for repeat in range(repeats) for run in make(*args, repeat=repeat, **changes)]


def model_sizes(
    exchange: tuple[float, float] = (0.004, 0.004),
    ranks: tuple[int, ...] = (1, 2),
    counted: bool = True,
    repeat: int = 0,
):
    runs: list[Run] = []
    for case, weights, sample, cost in zip(("small", "large"), (1, 4), (1e-4, 4e-4), exchange, strict=True):
        more: dict[str, Any] = {"axes": {"case": case}, "weights": weights * WEIGHTS, "ranks": ranks, "repeat": repeat}
        runs += strong("model-size", exchange=cost, sample=sample, **more)
        if counted and not repeat:
            runs += [inspected_work(case, count, 5e8 * weights / count) for count in ranks]
    return runs


def inspected_work(case: str, ranks: int, flops: float) -> Run:
    peak = PeakRates("cpu", "cpu", 1, 1, "2.13.0", 0.0, {"float32": 1e11}, 1e10)
    run = arm("model-size", [0.01] * 8, ranks, axes={"case": case}, kind=Inspected(), samples_in_all=64,
              machine={"peaks": (peak,)})  # fmt: skip
    work = WorkRow(3, "dispatch", {"float32": round(flops)}, {}, 100, 100, 10)
    profile = ProfileRow(5, "cpu", 10_000_000, 9_000_000, 50, {"matmul": 9_000_000})
    rows = tuple(replace(one, utilisation=(work, profile)) for one in run.ranks)
    return replace(run, ranks=rows, spec=replace(run.spec, name=f"{run.spec.name}-inspect"))


def delayed(
    ranks: tuple[int, ...] = (1, 2), one: float = 0.010, two: float = 0.006, share: float = 1.0, repeat: int = 0
) -> list[Run]:
    runs = []
    for delay in (0, 0.005, 0.01, 0.02, 0.04):
        for count in ranks:
            plain = one if count == 1 else two
            more: dict[str, Any] = {"axes": {"delay": delay}, "scaling": "strong", "repeat": repeat}
            runs.append(arm("delay", steps(plain + share * delay), count, **more))
    return runs


def batched(ranks: tuple[int, ...] = (1, 2), exchange: float = 0.004, sample: float = 1e-4) -> list[Run]:
    runs = []
    for batch in (32, 64, 128, 256):
        more: dict[str, Any] = {"batch": batch, "removed": False, "axes": {"batch": batch}, "ranks": ranks}
        runs += strong("batch-scaling", exchange=exchange, sample=sample, **more)
    return runs


def uneven(own: float = 0.020, waits: float = 0.020) -> list[Run]:
    """Rank 0 sleeps `own` outside backward; rank 1 waits `waits` in its backward."""
    even, late = (arm("imbalance", steps(0.01), 2, axes={"imbalance": delay}) for delay in (0, 0.02))
    grown = []
    for record, rest, backward in zip(late.ranks, (own, 0.0), (0.0, waits), strict=True):
        rows = tuple(
            replace(
                row,
                step_ns=row.step_ns + round((rest + backward) * 1e9),
                rest_ns=(row.rest_ns or 0) + round(rest * 1e9),
                backward_ns=(row.backward_ns or 0) + round(backward * 1e9),
            )
            for row in record.steps
        )
        grown.append(replace(record, steps=rows))
    return [even, replace(late, ranks=tuple(grown))]


def devices(dp: float = 0.010, ddp: float = 0.010, first: int = 100, held: int = 300):
    names = ("logical:0", "logical:1")
    twin = arm("data-parallel", [0.01] * 10, mode="python", kind=Inspected())
    samples = tuple(quiet_sample(at_seconds=at / 2, rank_busy=(0.9, 0.8), rank_steps=(at, at)) for at in range(1, 9))
    reduced = {"collectives": {"all_reduce": (2, 8 * MIB)}}
    runs = [
        arm("data-parallel", steps(dp), mode="python", emulated=True, samples=samples),
        arm("ddp", steps(ddp), 2, step=reduced, samples=samples),
        replace(twin, spec=replace(twin.spec, name="data-parallel-inspect")),
    ]
    seen = make_inspection(
        "data-parallel-inspect",
        layers=(LayerRow("layer", "Linear", names[0], 4 * MIB),),
        transfers=(
            TransferRow(3, "forward", names[0], names[1], 8 * MIB, "dp.py", 10),
            TransferRow(3, "backward", names[1], names[0], 8 * MIB, "", 0),
        ),
        timeline=tuple(
            BusyRow(3, name, "forward", "layer", 0, end) for name, end in zip(names, (first, 60), strict=True)
        ),
        device_memory=tuple(DeviceMemoryRow(name, size * MIB) for name, size in zip(names, (held, 100), strict=True)),
    )
    return runs, seen


def seeded(fixed: tuple[list[float], list[float]], free: tuple[list[float], list[float]]) -> list[Run]:
    runs = []
    for seed, pair in (("0", fixed), ("none", free)):
        for repeat, losses in enumerate(pair):
            run = arm("seeds", [0.01] * len(losses), 2, repeat=repeat, axes={"seed": seed})
            ranks = tuple(
                replace(one, steps=tuple(replace(row, loss=loss) for row, loss in zip(one.steps, losses, strict=True)))
                for one in run.ranks
            )
            runs.append(replace(run, ranks=ranks))
    return runs


SAME = ([1.0] * 12, [1.0] * 12)
APART = ([1.0] * 12, [1.0] * 3 + [1.25] * 9)


def everything(*more: Run, ranks: tuple[int, ...] = (1, 2), exchange: float = 0.004) -> Evidence:
    dp_runs, seen = devices()
    runs = [*strong(exchange=exchange, ranks=ranks), link(), *model_sizes(ranks=ranks), *delayed(ranks)]
    runs += [*batched(ranks), *uneven(), *dp_runs, *seeded(SAME, APART), *more]
    return make_evidence(*runs, inspections=(seen,))


def predicted() -> list[Run]:
    runs = [link_in_training(), *(rehearsal(ranks, 1e-3 + 64e-4 / ranks) for ranks in (2, 4))]
    for case, sample in (("small", 1e-4), ("large", 4e-4)):
        more = {"experiment": "model-size", "axes": {"case": case}}
        runs += [rehearsal(ranks, 1e-3 + 64 * sample / ranks, **more) for ranks in (2, 4)]
    return runs


def test_every_number_of_every_answer_stands_in_what_it_rests_on():
    for evidence in (everything(), everything(*predicted()), everything(ranks=(1,))):
        assert strangers([module.build(evidence) for module in QUESTIONS]) == {}


def test_every_row_fits_its_columns_and_every_figure_can_be_drawn():
    for module in QUESTIONS:
        for block in module.build(everything(*predicted())).blocks:
            if isinstance(block, Table):
                assert all(len(row) == len(block.columns) for row in block.rows)
            if isinstance(block, Figure):
                assert draw(block).svg


def test_without_any_run_every_question_says_so_and_no_number():
    for module in QUESTIONS:
        for answer in answers(module.build(make_evidence())):
            assert not any(letter.isdigit() for letter in answer.verdict)
            assert answer.verdict
    assert HOMEWORK.summary(make_evidence(), [module.build(make_evidence()) for module in QUESTIONS]).sentences


@pytest.mark.parametrize(
    ("exchange", "sample", "words"),
    [
        (0.0, 1e-2, "Yes, within 10 %."),
        (0.020, 1e-4, "No: 2 ranks are slower than one."),
        (0.001, 1e-4, "No: it grows, but by less than the number of ranks."),
    ],
)
def test_whether_the_speedup_is_linear(exchange, sample, words):
    runs = often(strong, exchange=exchange, sample=sample, ranks=(1, 2))
    assert answers(h1_2.build(make_evidence(*runs)))[0].verdict == words


@pytest.mark.parametrize(
    ("overhead", "exchange", "words"),
    [(1e-3, 0.009, "Communication: it costs more than the fixed part"), (2e-2, 0.001, "The fixed part of a step")],
)
def test_the_larger_of_both_losses_is_named(overhead, exchange, words):
    runs = strong(overhead=overhead, exchange=exchange, ranks=(1, 2))
    for batch in (32, 64, 128, 256):
        runs += strong(
            "batch-scaling", overhead=overhead, batch=batch, removed=False, axes={"batch": batch}, ranks=(1,)
        )
    assert answers(h1_2.build(make_evidence(*runs)))[2].verdict.startswith(words)


def test_the_model_is_fitted_on_four_batches_of_one_rank_and_shows_its_interval():
    section = h1_2.build(everything())
    rows = table(section, "h1-2-model").rows
    fixed, computed = rows[0][3], rows[0][4]
    assert fixed.number == pytest.approx(1.0, rel=0.02) and fixed.interval
    assert computed.number == pytest.approx(6.4, rel=0.02) and computed.interval
    bare = make_evidence(*strong(exchange=0.004, ranks=(1, 2)))
    assert not [one for one in h1_2.build(bare).blocks if isinstance(one, Table) and one.id == "h1-2-model"]


def test_ranks_that_share_cores_are_a_note_and_no_row():
    runs = [*strong(ranks=(1, 2)), *strong(ranks=(4,), overhead=0.02, oversubscribed=True)]
    shown = table(h1_2.build(make_evidence(*runs)), "h1-2-strong-scaling")
    assert [(row[0].text, row[0].mark) for row in shown.rows] == [
        ("1", "measured"),
        ("2", "measured"),
        ("4", "missing"),
    ]
    assert "times the step of 2 ranks" in shown.notes[0] and "nothing about scaling" in shown.notes[0]


def test_each_number_of_gpus_asked_is_one_row_and_predicted_ones_say_so():
    rows = table(h1_2.build(everything(*predicted())), "h1-2-strong-scaling").rows
    assert [(row[0].text, row[0].mark) for row in rows] == [("1", "measured"), ("2", "measured"), ("4", "predicted")]


def test_rows_of_gpus_that_are_not_here_stand_in_a_group_of_their_own(monkeypatch):
    step = Estimate(0.001, 0.0009, 0.0011, 100, 3, "m", 0.95)
    speed = Estimate(1.5, 1.4, 1.6, 100, 3, "m", 0.95)
    made = [
        GpuStep(ranks, step, "measured" if ranks == 1 else "predicted", speed, 1, 0.3, {"DIM": "1024"}, "there")
        for ranks in (1, 2, 4)
    ]
    monkeypatch.setattr(rank_points, "gpu_steps", lambda *_, **__: tuple(made))
    shown = table(h1_2.build(everything()), "h1-2-strong-scaling")
    assert [heading for _, heading in shown.groups] == ["On this machine", "On GPUs, not on this machine"]
    first = shown.groups[1][0]
    assert [row[0].mark for row in shown.rows[first:]] == ["measured", "predicted", "predicted"]
    assert (
        "By prediction 4 GPUs of the kind in the table would reach 1.5" in answers(h1_2.build(everything()))[0].practice
    )


def test_one_gpu_is_told_from_a_machine_that_was_not_asked():
    runs = strong(ranks=(1,), device="cuda", shares=())
    answer = answers(h1_2.build(make_evidence(*runs, gpus=1)))[0]
    assert "This machine has 1 GPU, and every rank needs a GPU of its own." in answer.number


def one_gpu(sample: float) -> Evidence:
    """One H200: one rank is measured, more are rehearsed by it and predicted over its link."""
    cuda: dict[str, Any] = {"device": "cuda", "shares": (), "ranks": (1,), "sample": sample}
    more = {"device": "cuda", "company": 1}
    runs = [*strong(**cuda), *(rehearsal(ranks, 1e-3 + 64 * sample / ranks, **more) for ranks in (2, 4))]
    for case, times in (("small", 1), ("large", 4)):
        axes = {"axes": {"case": case}}
        runs += strong("model-size", **{**cuda, "sample": times * sample}, **axes)
        runs += [
            rehearsal(ranks, 1e-3 + 64 * times * sample / ranks, experiment="model-size", **axes, **more)
            for ranks in (2, 4)
        ]
    for batch in (32, 64, 128, 256):
        axes = {"axes": {"batch": batch}}
        runs += strong("batch-scaling", batch=batch, removed=False, **cuda, **axes)
        runs.append(rehearsal(4, 1e-3 + batch * sample / 4, experiment="batch-scaling", **axes, **more))
    runs += [
        arm("delay", steps(0.002 + delay), axes={"delay": delay}, scaling="strong", device="cuda", shares=())
        for delay in (0, 0.005, 0.01, 0.02, 0.04)
    ]
    return make_evidence(*runs, gpus=1)


@pytest.mark.parametrize("sample", [1e-4, 1e-12])
def test_on_one_gpu_rows_and_answers_are_predicted_and_say_so(sample):
    evidence = one_gpu(sample)
    sections = [module.build(evidence) for module in (h1_2, h1_3, h1_5a, h1_5b)]
    assert strangers(sections) == {}
    rows = table(sections[0], "h1-2-strong-scaling").rows
    assert [(row[0].text, row[0].mark) for row in rows] == [("1", "measured"), ("2", "predicted"), ("4", "predicted")]
    assert all("This machine has 1 GPU" in answers(section)[0].number for section in sections)
    told = [one for section in sections for one in answers(section)]
    assert [one.question for one in told if "cannot be answered" in one.verdict] == []


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        ((0.006, 0.001), "In the large one."),
        ((0.0001, 0.030), "In the small one."),
        ((0.0, 0.0), "In neither: they are equal within 10 %."),
    ],
)
def test_the_case_with_the_better_efficiency_is_named_by_the_interval_of_the_ratio(exchange, words):
    answer = answers(h1_3.build(make_evidence(*often(model_sizes, exchange))))[0]
    assert answer.verdict == words


def test_operations_are_counted_and_not_worked_out():
    works = table(h1_3.build(make_evidence(*model_sizes())), "h1-3-work").rows
    flops = next(row for row in works if row[0].text == "operations (GFLOP)")
    assert [cell.text for cell in flops[1:]] == ["0.250", "1.00"]
    bare = h1_3.build(make_evidence(*model_sizes(counted=False)))
    assert "counted the operations" in answers(bare)[1].number


@pytest.mark.parametrize(
    ("exchange", "words"), [((0.02, 0.08), "Here already"), ((0.0004, 0.0004), "With fewer samples per rank than here")]
)
def test_when_communication_is_the_bottleneck(exchange, words):
    assert answers(h1_3.build(make_evidence(*model_sizes(exchange))))[2].verdict.startswith(words)


def test_a_script_that_reads_no_size_has_its_rows_refused():
    runs = []
    for case, dim in (("small", "64"), ("large", "512")):
        env = {"DIM": dim, "DEPTH": "2"}
        runs += strong("model-size", ranks=(1, 2), weights=2 * 64 * 65, axes={"case": case}, env=env)
    section = h1_3.build(make_evidence(*runs))
    shown = table(section, "h1-3-model-size")
    assert any("does not read DIM or DEPTH: it was to train 512 x 2" in note for note in shown.notes)
    assert {row[0].text for row in shown.rows} == {"small"}
    assert "cannot be answered" in answers(section)[0].verdict


def test_a_first_device_that_does_and_holds_more_binds():
    runs, seen = devices()
    bound = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[0]
    assert "more work in its layers than any other" in bound.verdict
    assert "more memory than any other" in bound.verdict
    runs, seen = devices(first=60, held=100)
    bound = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[0]
    assert "does not show here" in bound.verdict


def test_data_parallel_that_is_faster_is_explained_in_the_first_sentence():
    for dp, ddp, words in (
        (0.010, 0.020, "Here DataParallel is faster"),
        (0.020, 0.010, "No device is special in DDP"),
    ):
        runs, seen = devices(dp, ddp)
        design = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[2]
        assert design.verdict.startswith(words)


def test_bytes_through_one_device_grow_with_devices_for_data_parallel_only():
    runs, seen = devices()
    shown = table(h1_4.build(make_evidence(*runs, inspections=(seen,))), "h1-4-bytes")
    copies, nccl, ddp = ([row[column].number for row in shown.rows] for column in (1, 2, 3))
    assert copies == pytest.approx([16 * MIB / 1e6 * (n - 1) for n in (2, 4, 8)])
    assert nccl == pytest.approx([16 * MIB / 1e6] * 3)
    assert ddp == pytest.approx([4 * (n - 1) / n * 8 * MIB / 1e6 for n in (2, 4, 8)])
    assert [row[1].mark for row in shown.rows] == ["emulated", "predicted", "predicted"]
    assert [line.split(",")[-2] for line in csv_text(shown).splitlines()[2:]] == ["predicted", "predicted"]


def test_the_part_of_the_batch_that_travels_does_not_grow_with_the_devices():
    batch = DeviceTraffic(through_first=16.4, reduced=8.0, mark="measured")
    assert [batch.by_copies(n) - 16 * (n - 1) for n in (2, 4, 8)] == pytest.approx([0.4, 0.6, 0.7])


def test_what_is_told_of_many_devices_is_called_predicted_and_names_nccl():
    runs, seen = devices(0.020, 0.010)
    design = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[2]
    assert design.number.startswith("By prediction") and "NCCL" in design.number
    assert "sends less than twice their size and receives as much" in design.why


def test_the_steadier_method_is_named():
    runs, seen = devices()
    rough = arm("ddp", noisy(40, 0.01, 1, step_cv=0.4), 2, step={"collectives": {"all_reduce": (2, 8 * MIB)}})
    compared = answers(h1_4.build(make_evidence(runs[0], rough, runs[2], inspections=(seen,))))[1]
    assert compared.verdict == "DataParallel has the steadier steps."


def test_a_few_long_steps_make_nobody_the_steadier_one():
    runs, seen = devices()
    plain = noisy(40, 0.01, 1, step_cv=0.1)
    outlier = [*noisy(40, 0.01, 2, step_cv=0.1)[:-1], 0.03]
    more = {"step": {"collectives": {"all_reduce": (2, 8 * MIB)}}}
    made = [arm("data-parallel", outlier * 5, mode="python", emulated=True), arm("ddp", plain * 5, 2, **more), runs[2]]
    compared = answers(h1_4.build(make_evidence(*made, inspections=(seen,))))[1]
    assert compared.verdict == "DDP has the steadier steps."  # in every block: that is no chance
    outlier = [*noisy(199, 0.01, 2, step_cv=0.1), 0.03]
    made[0] = arm("data-parallel", outlier, mode="python", emulated=True)
    compared = answers(h1_4.build(make_evidence(*made, inspections=(seen,))))[1]
    assert compared.verdict == "Which of them has the steadier steps cannot be told from these runs."
    assert "(emulated)" in compared.number


def test_the_variance_is_the_mean_of_the_runs_variances_around_their_own_mean():
    runs, seen = devices()
    one, two = noisy(60, 0.010, 3, step_cv=0.2), noisy(60, 0.020, 4, step_cv=0.2)
    more = {"step": {"collectives": {"all_reduce": (2, 8 * MIB)}}}
    made = [runs[0], runs[2], *(arm("ddp", own, 2, repeat=at, **more) for at, own in enumerate((one, two)))]
    evidence = make_evidence(*made, inspections=(seen,))
    kept = [run.step_seconds[run.warmup_steps :] for run in evidence.experiment("ddp").runs]
    row = table(h1_4.build(evidence), "h1-4-dp-ddp").rows[2]
    assert row[8].number == pytest.approx(1e6 * mean(pvariance(steps) for steps in kept))
    assert row[7].number == pytest.approx(row[8].number ** 0.5)


def layered(*parts: tuple[int, int], optimizer: int = 0) -> Any:
    """Inspected steps in which the layers of both devices take these times."""
    _, seen = devices()
    names = ("logical:0", "logical:1")
    rows = [
        BusyRow(step, name, "forward", "layer", 0, end)
        for step, ends in enumerate(parts)
        for name, end in zip(names, ends, strict=True)
    ]
    rows += [
        BusyRow(step, names[0], "optimizer", "", 200, 200 + optimizer) for step in range(len(parts) if optimizer else 0)
    ]
    return replace(
        seen, timeline=tuple(rows), device_memory=tuple(replace(one, peak_bytes=MIB) for one in seen.device_memory)
    )


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (layered((50, 50), (50, 50), (70, 30)), "does not show here"),
        (layered((70, 30), (70, 30)), "more work in its layers than"),
        (layered((50, 50), (50, 50), optimizer=40), "has the optimizer to itself, and all traffic"),
    ],
)
def test_one_step_in_which_the_first_device_was_slow_is_no_more_work(seen, words):
    runs, _ = devices()
    bound = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[0]
    assert words in bound.verdict


def test_the_layers_share_is_of_all_inspected_steps_and_the_optimizer_is_none_of_it():
    runs, _ = devices()
    section = h1_4.build(make_evidence(*runs, inspections=(layered((40, 60), (60, 40), optimizer=10**6),)))
    first = table(section, "h1-4-dp-ddp").rows[0]
    assert first[2].number == pytest.approx(50) and first[2].interval == ""
    assert "from 40.0 to 60.0 % step by step" in " ".join(table(section, "h1-4-dp-ddp").notes)
    assert first[3].text == "1.00"


def test_utilisation_is_drawn_over_time_for_both_methods():
    runs, seen = devices()
    section = h1_4.build(make_evidence(*runs, inspections=(seen,)))
    figure = next(one for one in section.blocks if isinstance(one, Figure) and one.id == "h1-4-utilisation")
    assert [series.name for series in figure.plot.series] == [
        "DP, rank 0",
        "DP, rank 1",
        "DDP, rank 0",
        "DDP, rank 1",
    ] or [series.name for series in figure.plot.series] == ["DP, both devices", "DDP, rank 0", "DDP, rank 1"]


@pytest.mark.parametrize(
    ("two", "words"),
    [(0.006, "It makes scaling worse: the speedup falls towards 1."), (0.020, "The speedup rises towards 1")],
)
def test_a_delay_draws_the_speedup_towards_one_from_either_side(two, words):
    assert answers(h1_5a.build(make_evidence(*often(delayed, two=two))))[0].verdict.startswith(words)


def test_each_millisecond_of_delay_adds_one_and_the_law_is_met_at_every_delay():
    _, linear, amdahl = answers(h1_5a.build(make_evidence(*often(delayed))))
    assert linear.verdict == "Linear in the step time, non-linear in the speedup."
    assert amdahl.verdict == "The delay is a serial part, which bounds the speedup of any number of ranks."
    assert "within 10 % at all 4 delays" in amdahl.why
    assert "serial share" in amdahl.practice


def test_no_number_of_ranks_exceeds_one_over_the_delays_share():
    section = h1_5a.build(make_evidence(*delayed()))
    last = table(section, "h1-5a-delay").rows[-1]
    assert last[5].number == pytest.approx(80, rel=0.01) and last[6].number == pytest.approx(1.25, rel=0.01)
    amdahl = answers(section)[2]
    assert f"{last[5].text}\u00a0% of one rank's step" in amdahl.number and f"more than {last[6].text}" in amdahl.number


def test_a_delay_that_is_half_hidden_is_neither_one_for_one_nor_by_the_law():
    runs = often(delayed, ranks=(1,)) + often(delayed, ranks=(2,), share=0.4)
    _, linear, amdahl = answers(h1_5a.build(make_evidence(*runs)))
    assert "does not add exactly one" in linear.verdict
    assert "the measured speedup differs from that of a delay that only adds" in amdahl.why


def test_ranks_that_are_slower_than_one_have_no_serial_share():
    section = h1_5a.build(make_evidence(*delayed(two=0.020)))
    shown = table(section, "h1-5a-delay")
    assert all("Serial share" not in column.title for column in shown.columns)
    assert {len(row) for row in shown.rows} == {len(shown.columns)}
    assert "the law has no term" in answers(section)[2].why


@pytest.mark.parametrize(("exchange", "words"), [(0.010, "Yes."), (0.0, "No: efficiency stays the same within 10 %.")])
def test_a_larger_batch_scales_better_where_communication_is_paid(exchange, words):
    overhead = 1e-3 if exchange else 1e-9
    runs: list[Run] = []
    for batch in (32, 64, 128, 256):
        more: dict[str, Any] = {"batch": batch, "removed": False, "axes": {"batch": batch}, "ranks": (1, 2)}
        runs += often(strong, "batch-scaling", exchange=exchange, overhead=overhead, **more)
    assert answers(h1_5b.build(make_evidence(*runs)))[0].verdict == words


def test_the_batch_from_which_two_ranks_pay_is_named():
    practice = answers(h1_5b.build(make_evidence(*batched(exchange=0.0045))))[0].practice
    assert "2 ranks pay from a batch of 128 on" in practice
    never = answers(h1_5b.build(make_evidence(*batched(exchange=0.05))))[0].practice
    assert "do not pay at any of these batches" in never


def test_saturation_within_beyond_and_not_in_sight():
    near = answers(h1_5b.build(make_evidence(*batched(exchange=0.0, sample=1e-3))))[1]
    assert near.verdict == "Within these batches on 2 ranks."
    far = answers(h1_5b.build(make_evidence(*batched(exchange=0.02))))[1]
    assert far.verdict == "Not within these batches on 2 ranks, but beyond 256."
    flat = answers(h1_5b.build(make_evidence(*batched(exchange=0.0, sample=1e-9))))[1]
    assert "hardly grows" in flat.verdict


def test_a_throughput_that_more_than_doubles_is_called_noise():
    runs = []
    for batch, seconds in ((32, 0.0100), (64, 0.0100), (128, 0.0100), (256, 0.0093)):
        more: dict[str, Any] = {"axes": {"batch": batch}, "scaling": "strong", "samples_in_all": batch}
        runs += [arm("batch-scaling", steps(seconds), count, **more) for count in (1, 2)]
    assert "can only be noise" in answers(h1_5b.build(make_evidence(*runs)))[1].number


@pytest.mark.parametrize(
    ("waits", "whole", "shows"),
    [(0.020, "It runs at the pace of its slowest rank.", "Every step is a barrier"), (0.0, "", "hardly wait for it")],
)
def test_the_others_wait_for_a_slow_rank_or_they_do_not(waits, whole, shows):
    first, second = answers(h1_5c.build(make_evidence(*uneven(waits=waits))))
    assert shows in second.verdict
    assert not whole or first.verdict == whole


def test_a_mean_is_only_called_too_high_where_the_error_of_the_mean_says_so():
    def answer(first: float, later: list[float]) -> Answer:
        runs = []
        for repeat in range(3):
            own = noisy(60, 0.010, repeat, step_cv=0.01)
            own[0] = first
            own[30 : 30 + len(later)] = later
            runs.append(arm("strong-scaling", own, 2, repeat=repeat))
        return answers(h1_1.build(make_evidence(*runs)))[0]

    assert "a mean that includes them is too high" in answer(0.1, []).verdict
    held_up = answer(0.020, [0.030] * 4)
    assert held_up.verdict == "The first step takes longer, because it pays for set-up that later ones do not pay."
    assert "do not change the mean clearly" in held_up.practice
    assert "4 later steps of the drawn run took longer than its first" in held_up.practice
    assert "1 later step of the drawn run took" in answer(0.020, [0.030]).practice


def test_that_ranks_start_alike_is_the_work_of_ddp_and_not_of_the_seed():
    why = answers(h1_1.build(make_evidence(*seeded(SAME, APART))))[1].why
    assert "DDP sends rank 0's weights to all ranks when it is constructed" in why and "with any seed" in why


def test_the_parts_of_a_step_that_are_said_add_up_to_it():
    runs = [*strong(overhead=1e-3, exchange=0.004, ranks=(1, 2)), link()]
    runs += [
        arm("batch-scaling", steps(1e-3 + 1e-4 * b), axes={"batch": b}, samples_in_all=b) for b in (32, 64, 128, 256)
    ]
    section = h1_2.build(make_evidence(*runs))
    row = table(section, "h1-2-model").rows[1]
    assert row[2].number == pytest.approx(sum(row[at].number for at in (3, 4, 6, 7)))
    assert all(row[at].text in answers(section)[2].number for at in (2, 3, 4, 6, 7))


@pytest.mark.parametrize(
    ("exchange", "spread", "words"),
    [
        (0.0082, 0.0, "which agrees within 10 %"),
        (0.0400, 0.0, "In training the exchange costs"),
        (0.0010, 0.0, "part of the exchange overlaps with backward"),
        (0.0110, 0.3, "seems to cost, though these runs do not settle it"),
    ],
)
def test_the_bare_link_agrees_only_where_the_whole_interval_of_the_ratio_does(exchange, spread, words):
    runs: list[Run] = [link()]
    for repeat in range(4):
        apart = exchange * (1 + spread * (repeat - 1.5))
        runs += strong(overhead=1e-3, exchange=apart, ranks=(1, 2), repeat=repeat)
    runs += [
        arm("batch-scaling", steps(1e-3 + 1e-4 * b), axes={"batch": b}, samples_in_all=b) for b in (32, 64, 128, 256)
    ]
    assert words in answers(h1_2.build(make_evidence(*runs)))[2].why


def test_what_does_not_show_is_not_explained():
    runs = model_sizes((0.004, 0.0145))  # one run each: the ratio of the efficiencies cannot be told from 1
    runs = [replace(run, spec=run.spec) for run in runs if not run.spec.inspected]
    runs += [inspected_work(case, 2, work) for case, work in zip(("small", "large"), (2e8, 1e9), strict=True)]
    which, why, _ = answers(h1_3.build(make_evidence(*runs)))
    assert which.verdict == "It cannot be told from these runs; the counts lead one to expect the large one."
    assert why.verdict == (
        "The small model exchanges more bytes for each operation, but not by so much that it shows in these runs."
    )


@pytest.mark.parametrize(
    ("large", "words"),
    [
        (1.02, "does not tell which is more efficient there"),
        (0.4, "against what the sheet expects"),
        (2.5, ", as the sheet"),
    ],
)
def test_gpus_are_compared_by_the_interval_of_their_ratio(monkeypatch, large, words):
    def made(_: Evidence, __: str, ___: Any, case: str) -> tuple[GpuStep, ...]:
        step = Estimate(0.001, 0.0009, 0.0011, 100, 3, "m", 0.95)
        speed = step.times(1000 * (large if case == "large" else 1.0))
        return tuple(GpuStep(n, step, "predicted", speed if n > 1 else None, 1, 0.3, {}, "there") for n in (1, 4))

    monkeypatch.setattr(rank_points, "gpu_steps", made)
    section = h1_3.build(make_evidence(*model_sizes()))
    assert words in answers(section)[0].practice
    assert strangers(section) == {}


def test_the_answer_about_batches_names_what_predicted_rows_say(monkeypatch):
    def made(_: Evidence, __: str, ___: Any, batch: int) -> tuple[GpuStep, ...]:
        step = Estimate(0.001, 0.0008, 0.0012, 100, 3, "m", 0.95)
        several = GpuStep(4, step, "predicted", step.times(900 + batch / 10), 1, 0.3, {}, "there")
        return GpuStep(1, step, "measured", None, 1, 0.3, {}, "there"), several

    monkeypatch.setattr(
        h1_5b, "gpu_points", lambda *args, **axes: tuple(map(rank_points.gpu_point, made(*args, **axes)))
    )
    section = h1_5b.build(make_evidence(*batched(exchange=0.010)))
    better, when = answers(section)
    assert better.verdict == "Yes, where it was measured."
    assert "By prediction 4 GPUs" in better.practice and "which their intervals do not tell apart" in better.practice
    assert "one GPU takes no longer for 256 samples" in better.practice
    assert "One rank, which exchanges nothing, reaches 90 %" in when.practice
    assert strangers(section) == {}
    row = table_view(table(section, "h1-5b-batch")).rows[-1]
    assert (row.mark, row.cells[1].mark, row.cells[2].mark) == ("predicted", "measured", "")


def test_a_slow_first_step_makes_warm_up_needed_and_names_the_reasons_of_a_gpu():
    for first, words in ((0.050, "take longer than the others"), (0.010, "pay for set-up")):
        runs = []
        for repeat in range(3):
            own = noisy(40, 0.010, repeat, step_cv=0.01)
            own[0] = first
            runs.append(arm("strong-scaling", own, 2, repeat=repeat))
        answer = answers(h1_1.build(make_evidence(*runs)))[0]
        assert words in answer.verdict
        assert all(
            word in answer.why for word in ("CUDA context", "cuBLAS", "caching allocator", "NCCL", "asynchronous")
        )


@pytest.mark.parametrize(
    ("fixed", "free", "words"),
    [
        (SAME, APART, "differ only in what was changed"),
        (APART, APART, "does not make them equal"),
        (SAME, SAME, "the seed changes nothing"),
    ],
)
def test_what_a_seed_fixes(fixed, free, words):
    assert words in answers(h1_1.build(make_evidence(*seeded(fixed, free))))[1].verdict


def test_the_same_configuration_is_shown_with_its_spread_and_widens_steps():
    runs = [*strong(ranks=(1, 2), removed=False), *strong("delay", ranks=(1, 2), axes={"delay": 0}, removed=False)]
    runs += strong("batch-scaling", overhead=0.006, ranks=(1, 2), axes={"batch": 64}, removed=False)
    row = table(h1_1.build(make_evidence(*runs)), "h1-1-again").rows[0]
    assert [cell.text for cell in row[:2]] == [row[0].text, row[0].text]
    assert row[3].number == pytest.approx(100 * (9.2 / 4.2 - 1), rel=0.02)
    assert row[4].number is not None and row[4].number > 20
    wide, narrow = (
        table(h1_2.build(make_evidence(*chosen)), "h1-2-strong-scaling").rows[0][1] for chosen in (runs, runs[:2])
    )
    assert (wide.high or 0) - (wide.low or 0) > 2 * ((narrow.high or 0) - (narrow.low or 0))


def test_only_stand_ins_are_called_emulated():
    runs, seen = devices()
    rows = table(h1_4.build(make_evidence(*runs, inspections=(seen,))), "h1-4-dp-ddp").rows
    assert [row[0].mark for row in rows] == ["emulated", "emulated", "measured", "measured"]


def test_two_methods_whose_steps_vary_alike_are_not_ranked():
    runs, seen = devices()
    compared = answers(h1_4.build(make_evidence(*runs, inspections=(seen,))))[1]
    assert compared.verdict == "Both have equally steady steps."


def test_the_number_at_the_bar_of_a_step_is_the_one_of_the_table():
    runs = [*strong(overhead=1e-3, exchange=0.004, ranks=(1, 2)), link()]
    for batch, scale in ((32, 1.0), (64, 1.0), (128, 0.7), (256, 0.6)):  # a line that lies above the step of 64
        runs += [
            arm("batch-scaling", steps(scale * (1e-3 + 1e-4 * batch)), axes={"batch": batch}, samples_in_all=batch)
        ]
    section = h1_2.build(make_evidence(*runs))
    shown = [row[2].number for row in table(section, "h1-2-model").rows]
    (figure,) = [one for one in section.blocks if isinstance(one, Figure) and one.id == "h1-2-anatomy"]
    assert list(figure.plot.totals) == shown


def test_a_refused_script_says_nothing_of_seeds():
    runs = seeded(SAME, APART)
    told = [replace(run, spec=replace(run.spec, env={"DIM": "512", "DEPTH": "2"})) for run in runs]
    assert len(h1_1.seed_pairs(make_evidence(*runs))) == 2
    assert h1_1.seed_pairs(make_evidence(*told)) == ()


def test_one_reason_that_shakes_several_answers_is_said_once():
    busy = "Other programs used the machine: repeat it on a quiet one."
    one = Answer("H1.2", "Q?", "V.", shaken_by=(busy,))
    told = {"H1.2": [one, one], "H1.4": [replace(one, row="H1.4")]}
    assert shaken_rows(told) == ("H1.2 and H1.4: other programs used the machine: repeat it on a quiet one",)


@pytest.mark.parametrize(
    ("sample", "flops", "words"),
    [(8e-4, (2e8, 1e9), "it computes them at a higher rate"), (4e-4, (1e8, 1.8e9), "compute at a lower rate")],
)
def test_why_the_sizes_differ_follows_the_rates_of_the_table(sample, flops, words):
    runs = often(model_sizes, counted=False)
    runs = [run for run in runs if run.spec.axes["case"] == "small"]
    large: dict[str, Any] = {"axes": {"case": "large"}, "weights": 4 * WEIGHTS, "ranks": (1, 2), "sample": sample}
    runs += often(strong, "model-size", **large)
    runs += [inspected_work(case, 2, work) for case, work in zip(("small", "large"), flops, strict=True)]
    assert words in answers(h1_3.build(make_evidence(*runs)))[1].verdict


def test_a_limit_at_the_bound_of_arithmetic_is_not_blamed_on_memory():
    quick = make_evidence(*batched(sample=1e-5), *model_sizes())
    slow = make_evidence(*batched(sample=2e-3), *model_sizes())
    assert "less than where the line tends: so arithmetic is the limit" in answers(h1_5b.build(quick))[1].practice
    assert "the rest is memory traffic" in answers(h1_5b.build(slow))[1].practice


@pytest.mark.parametrize(
    ("limit", "words"),
    [((9.0, 8.0, 10.0), "memory traffic"), ((18.0, 15.0, 30.0), "limited by"), ((32.0, 18.0, 90.0), "less than where")],
)
def test_a_line_that_tends_above_what_arithmetic_allows_is_not_believed(limit, words):
    assert words in h1_5b._bounded_words(Estimate(*limit, 10, 1, "m", 0.95), 23.0)


def test_one_rank_alone_is_not_shown_as_several():
    shown = table(h1_5a.build(make_evidence(*delayed(ranks=(1,)))), "h1-5a-delay")
    assert all(row[1].number is not None and row[2].number is None for row in shown.rows)


def test_a_wait_shorter_than_the_clock_tells_is_none():
    short = Estimate(1e-8, 1e-9, 1e-6, 30, 1, "made up", 0.95)
    assert (h1_5c._waiting_cell(short, "measured").text, h1_5c._waiting_cell(short, "measured").interval) == ("0", "")


def test_the_step_of_ranks_that_are_not_here_is_the_predicted_one_and_never_that_of_one_rank():
    runs = [*strong(ranks=(1,)), *delayed(ranks=(1,)), *predicted()]
    rows = table(h1_5a.build(make_evidence(*runs)), "h1-5a-delay").rows
    assert rows[0][2].mark == "predicted" and rows[0][2].number not in (None, rows[0][1].number)
    assert all(row[2].number is None for row in rows[1:])
