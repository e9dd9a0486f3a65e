"""Inspected scripts compute and print what they do alone, and what was seen of them can be worked out by hand."""

import itertools
from pathlib import Path

import pytest

from scalewise.records.inspection import (
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    LayerRow,
    MemoryByLineRow,
    MemoryPartsRow,
    TransferRow,
)
from scalewise.records.rows import LevelRow, StepRow, TroubleRow
from scalewise.records.spec import Inspected
from scalewise.watch.inspection.device_use import QUIET_STEPS

FLOAT, HALF = 4, 2
# Of inspect_ddp.py.
DIM, DEPTH, BATCH, MICRO_BATCHES = 64, 3, 8, 2
WEIGHTS = DEPTH * (DIM * DIM + DIM)
OUTPUT = BATCH * DIM

UNCHANGED = [
    ("plain.py", (), 0),
    ("amp_float16_scaler.py", (), 0),
    ("ddp_accumulate.py", ("no_sync",), 2),
    ("ddp_accumulate_amp_scaler.py", (), 2),
    ("comm_hook.py", (), 2),
    ("gan.py", (), 0),
    ("random_streams.py", (), 0),
    ("loader.py", ("2",), 0),
    ("checkpointing.py", (), 0),
    ("recovers.py", (), 0),
    ("exits.py", (), 0),
    ("child_processes.py", (), 0),
    ("own_profiler.py", (), 0),
]
ABSTAINING = [
    ("compiled.py", ("aot_eager",), 0, "torch.compile"),
    ("fsdp.py", (), 2, "sharded tensors"),
    ("lbfgs.py", (), 0, "closure"),
    ("inspect_own_hooks.py", (), 0, "hooks of the script's own"),
]


def _both(runner, script, args, ranks):
    raw = runner.raw(script, *args, ranks=ranks)
    inspected = runner.watched(script, *args, ranks=ranks, kind=Inspected())
    assert (inspected.codes, inspected.stdout) == (raw.codes, raw.stdout), inspected.stderr
    return inspected


def _of(ran, kind, rank=0):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def _steps_with_gradients(ran, rank=0):
    """Steps in which gradients are read: not those that are profiled or shown in a trace."""
    return [row.step for row in _of(ran, StepRow, rank) if row.step not in QUIET_STEPS]


@pytest.mark.parametrize(("script", "args", "ranks"), UNCHANGED, ids=lambda value: str(value))
def test_an_inspected_script_prints_what_it_prints_alone(runner, script, args, ranks) -> None:
    ran = _both(runner, script, args, ranks)

    for rank in range(max(1, ranks)):
        assert not ran.rows(rank).bad_lines and not _of(ran, TroubleRow, rank)
        assert _of(ran, LayerRow, rank) and _of(ran, BusyRow, rank) and _of(ran, MemoryPartsRow, rank)
        assert len(_of(ran, GradientRow, rank)) >= len(_steps_with_gradients(ran, rank)) > 0


@pytest.mark.parametrize(("script", "args", "ranks", "why"), ABSTAINING, ids=lambda value: str(value))
def test_what_cannot_be_seen_without_changing_it_is_left_out_and_said(runner, script, args, ranks, why) -> None:
    ran = _both(runner, script, args, ranks)

    (trouble,) = _of(ran, TroubleRow)
    assert trouble.where.startswith("inspection of") and why in trouble.error
    assert len(_of(ran, StepRow)) >= 6


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_the_parts_of_memory_are_what_they_must_be(runner, precision) -> None:
    half = precision == "float16"
    ran = _both(runner, "inspect_ddp.py", (precision, "1", "256" if half else "0"), 2)

    layer_outputs = DEPTH * OUTPUT * (HALF if half else FLOAT)
    kept = layer_outputs + OUTPUT * (HALF if half else FLOAT) + OUTPUT * FLOAT  # with the input and the target
    # The loss is taken in full precision, of a full copy of the output; the scaled loss keeps its factor.
    kept += OUTPUT * FLOAT + FLOAT if half else 0
    for row in _of(ran, MemoryPartsRow):
        assert row.weight_bytes == row.gradient_bytes == row.optimizer_bytes == row.bucket_bytes == WEIGHTS * FLOAT
        assert row.half_copy_bytes == (WEIGHTS * HALF if half else 0)
        assert row.activation_bytes == kept
        assert sum(row.at_peak.values()) == row.peak_bytes
    last = _of(ran, MemoryPartsRow)[-1]
    assert last.at_peak["weights"] == last.at_peak["buckets"] == last.at_peak["optimizer"] == WEIGHTS * FLOAT
    # DDP may hold its old buckets a moment longer where it makes new ones, so an earlier step can hold the most.
    highest = max(row.peak_bytes for row in _of(ran, MemoryPartsRow))
    assert max(row.peak_bytes for row in _of(ran, DeviceMemoryRow)) == highest


def test_half_copies_raise_the_peak_where_they_outweigh_the_activations(runner) -> None:
    peaks = {}
    for precision in ("float32", "float16"):
        ran = runner.watched("inspect_ddp.py", precision, "1", "0", kind=Inspected())
        peaks[precision] = _of(ran, MemoryPartsRow)[-1]

    assert peaks["float16"].peak_bytes > peaks["float32"].peak_bytes
    assert peaks["float16"].activation_bytes < peaks["float32"].activation_bytes


def test_gradients_that_underflow_are_counted_and_a_scale_is_divided_out(runner) -> None:
    lost = _of(_both(runner, "inspect_ddp.py", ("float16", "1e-7", "0"), 0), GradientRow)
    kept = _of(_both(runner, "inspect_ddp.py", ("float16", "1e-7", "1e7"), 0), GradientRow)
    exact = _of(_both(runner, "inspect_ddp.py", ("float32", "1e-7", "0"), 0), GradientRow)

    assert [row.step for row in lost] == list(range(5))
    assert all(row.elements == row.zeros == WEIGHTS and row.norm == row.projection == 0.0 for row in lost)
    for found, true in zip(kept, exact, strict=True):
        assert found.zeros < WEIGHTS / 2
        assert found.norm == pytest.approx(true.norm, rel=0.01)
        assert found.projection == pytest.approx(true.projection, abs=0.02 * true.norm)


def test_a_step_that_the_scaler_skips_still_shows_its_gradients(runner) -> None:
    ran = runner.watched("amp_float16_scaler.py", kind=Inspected())

    skipped = [row.step for row in _of(ran, StepRow) if row.skipped]
    assert skipped == [3]
    assert [row.step for row in _of(ran, GradientRow) if row.non_finite] == skipped
    assert len(_of(ran, GradientRow)) == len(_steps_with_gradients(ran))


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_data_moves_twice_over_every_border_of_stand_in_devices(runner, devices) -> None:
    timed = runner.watched("inspect_logical.py", devices=devices, stand_ins=True)
    ran = runner.watched("inspect_logical.py", devices=devices, stand_ins=True, kind=Inspected())
    assert (ran.codes, ran.stdout) == (timed.codes, timed.stdout) and ran.codes == (0,), ran.stderr

    moves = [row for row in _of(ran, TransferRow) if row.step == 2]
    assert [row.direction for row in moves] == ["forward"] * (devices - 1) + ["backward"] * (devices - 1)
    script = (Path(__file__).parent / "scripts" / "inspect_logical.py").read_text().splitlines()
    (line,) = (number for number, text in enumerate(script, 1) if "# the hand-over" in text)
    lines = {(row.file.rpartition("/")[2], row.line) for row in moves if row.direction == "forward"}
    assert lines == ({("inspect_logical.py", line)} if devices > 1 else set())
    assert all(row.text == script[line - 1].strip() for row in moves if row.direction == "forward")
    assert all(row.bytes == 8 * 16 * FLOAT for row in moves)
    assert all((row.file, row.line) == ("", 0) for row in moves if row.direction == "backward")
    names = [f"logical:{index}" for index in range(devices)]
    assert sorted({row.device for row in _of(ran, LayerRow)}) == names
    peaks = {row.device: row.peak_bytes for row in _of(ran, DeviceMemoryRow)}
    assert sorted(peaks) == names
    if devices == 4:  # one layer each, its gradient, what comes in, what it makes of it before and after relu
        least = 2 * (16 * 16 + 16) * FLOAT + 2 * 8 * 16 * FLOAT
        assert all(least <= peak <= least + 4 * 8 * 16 * FLOAT for peak in peaks.values()), peaks


def test_one_device_works_at_a_time_in_a_sequential_model(runner) -> None:
    rows = _of(runner.watched("inspect_logical.py", devices=4, stand_ins=True, kind=Inspected()), BusyRow)

    step = [row for row in rows if row.step == 4]
    assert [(row.phase, row.layer) for row in step] == [
        *(("forward", f"layers.{index}") for index in range(4)),
        *(("backward", f"layers.{index}") for index in reversed(range(4))),
    ]
    for row, following in itertools.pairwise(step):
        assert 0 <= row.begin_ns < row.end_ns <= following.begin_ns


def test_replicas_of_data_parallel_are_the_same_layers_on_other_devices(runner) -> None:
    timed = runner.watched("inspect_threads.py", devices=2, stand_ins=True)
    ran = runner.watched("inspect_threads.py", devices=2, stand_ins=True, kind=Inspected())
    assert (ran.codes, ran.stdout) == (timed.codes, timed.stdout) and ran.codes == (0,), ran.stderr

    layers = [(row.name, row.device) for row in _of(ran, LayerRow)]
    assert layers == [("0", "logical:0"), ("2", "logical:0"), ("0", "logical:1"), ("2", "logical:1")]
    step = [row for row in _of(ran, BusyRow) if row.step == 4 and row.phase != "optimizer"]
    assert sorted((row.device, row.phase) for row in step) == sorted(
        (f"logical:{index}", phase) for index in range(2) for phase in ("forward", "backward") for _ in range(2)
    )


@pytest.fixture(scope="module")
def alone(runner):
    """What the script with everything in it prints when nobody watches."""
    return runner.raw("ddp_accumulate_amp_scaler.py", ranks=2)


BROKEN = """
import scalewise.watch.inspection.{module} as module

def broken(*args, **kwargs):
    raise ZeroDivisionError("a fault of the watcher")

setattr(getattr(module, "{owner}", module), "{name}", broken)
"""


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [
        ("ledger", "Ledger", "own"),
        ("ledger", "Ledger", "begin_step"),
        ("ledger", "", "_move"),
        ("close_look", "SavedTensors", "_keep"),
        ("close_look", "SavedTensors", "pop"),
        ("layer_times", "LayerTimes", "before"),
        ("layer_times", "LayerTimes", "after"),
        ("layer_times", "", "synchronize"),
        ("close_look", "", "storage_bytes"),
        ("inspector", "", "gradient_row"),
        ("inspector", "Inspector", "_open_step"),
        ("inspector", "Inspector", "install"),
    ],
)
def test_whatever_part_of_an_inspection_raises_the_script_goes_on(runner, alone, module, owner, name) -> None:
    sabotage = BROKEN.format(module=module, owner=owner, name=name)
    ran = runner.watched("ddp_accumulate_amp_scaler.py", ranks=2, sabotage=sabotage, kind=Inspected())

    assert (ran.codes, ran.stdout, ran.stderr) == (alone.codes, alone.stdout, alone.stderr)
    assert any("a fault of the watcher" in row.error for row in _of(ran, TroubleRow))
    assert len(_of(ran, StepRow)) == 6


def test_the_peak_is_told_by_the_lines_that_made_it(runner) -> None:
    ran = _both(runner, "memory_lines.py", (), 0)
    rows = _of(ran, MemoryByLineRow)
    parts = {row.step: row for row in _of(ran, MemoryPartsRow)}

    for step, row in parts.items():
        by_purpose: dict[str, int] = {}
        for line in rows:
            if line.step == step:
                by_purpose[line.purpose] = by_purpose.get(line.purpose, 0) + line.bytes
        assert by_purpose == row.at_peak, "the lines of a purpose add up to it"
    large = max((row for row in rows if row.purpose == "activations"), key=lambda row: row.bytes)
    assert large.text.startswith("wide = self.layer(inputs)") and large.bytes >= 8 * 16 * 4096 * FLOAT


def test_memory_in_use_is_read_now_and_then_and_shows_what_a_step_keeps(runner) -> None:
    ran = runner.watched("memory_lines.py")
    levels = _of(ran, LevelRow)

    assert len(levels) >= 3 and all(row.rss_bytes > 0 and row.cuda_allocated_bytes is None for row in levels)
    first, last = levels[1], levels[-1]  # the first step allocates what stays
    if first.heap_bytes is not None and last.heap_bytes is not None:
        kept = (last.heap_bytes - first.heap_bytes) / (last.step - first.step)
        assert kept == pytest.approx(2**20 * FLOAT, rel=0.05)
