"""A watcher that breaks is a caveat, never a failure: the script prints and returns what it would have alone."""

import functools

import pytest
from watch_runner import change

from scalewise.records.rows import EndRow, StepRow, TroubleRow
from scalewise.watch.recorder import Recorder

BROKEN_METHOD = """
from scalewise.watch import recorder

def broken(self, *args, **kwargs):
    with open(request["out"] + "/broke.txt", "a") as file:
        file.write("once more")
    raise ZeroDivisionError("a fault of the watcher")

recorder.Recorder.{method} = broken
"""
# Each method of the recorder with a script that really calls it, and with what of the spec changed.
PLAIN: tuple[str, tuple[str, ...], dict[str, object]] = ("plain.py", (), {})
CALLED_BY = {
    **dict.fromkeys(
        ("open_step", "show_life", "prepare_backward", "optimizer_begin", "optimizer_end", "take_rank", "_start",
         "finish", "_leave_ring"), PLAIN),
    "evaluating": ("evaluation.py", (), {}),
    "drop_step": ("recovers_step.py", (), {}),
    "open_in_transform": ("functional.py", ("grad",), {}),
    "begin_later": ("rollouts.py", ("grad",), {}),
    "end_in_backward": ("steps_in_backward.py", (), {}),
    "note": ("amp_float16_scaler.py", (), {}),
    **dict.fromkeys(("_rest_if_fast", "wake", "_wake"), ("fast.py", (), {})),
    **dict.fromkeys(("collective_begin", "collective_end"), ("manual_all_reduce.py", (), {"ranks": 2})),
    **dict.fromkeys(("sync_expected", "reduces"), ("ddp.py", (), {"ranks": 2})),
    **dict.fromkeys(("intervene", "_sleep"), ("plain.py", (), change("sleep_before_backward", 0.001))),
    "leave": ("loader.py", ("2",), {}),
}  # fmt: skip
# Those by which the watcher notes its own faults are left whole; a clock of its own needs a GPU or a rehearsal.
LEFT_WHOLE = {"broke", "failed", "raised", "use_clock"}
# Broken, these leave no row: they are what writes the last one, or are called in a child that has no file.
WITHOUT_A_ROW = {"finish", "leave", "_leave_ring"}
# The functions that note events are made anew for every recorder.
BROKEN_STAMP = """
from scalewise.watch import recorder
whole = recorder.Recorder.__init__

def broken(*args, **kwargs):
    with open(request["out"] + "/broke.txt", "a") as file:
        file.write("once more")
    raise ZeroDivisionError("a fault of the watcher")

def __init__(self, *args, **kwargs):
    whole(self, *args, **kwargs)
    for name in vars(self):
        if "stamp" in name:
            setattr(self, name, broken)

recorder.Recorder.__init__ = __init__
"""
NO_HOOKS = """
import sys
sys.modules["scalewise.watch.hooks"] = None  # any error while torch is being hooked
"""
# The write that exceeds a limit on the size of files fails as it does on a full disk.
FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))
"""
NO_SPEC = "import os; os.unlink(request['spec'])"
DAMAGED_SPEC = "Path(request['spec']).write_text('{\"schema\": 1, \"name\": 5}')"
NO_FOLDER = "request['out'] += '/gone'"
FOLDER_IS_A_FILE = "request['out'] += '/spec.json'"
NO_PULSES = "(Path(request['out']) / 'pulse.bin').unlink()"
SHORT_PULSES = "(Path(request['out']) / 'pulse.bin').write_bytes(b'1234')"
ROWS_OF_ANOTHER = "(Path(request['out']) / 'rank0.jsonl').write_text('another process was here\\n')"


@pytest.fixture(scope="module")
def alone(runner):
    """What the plain script prints when nobody watches."""
    return runner.raw("plain.py")


@pytest.fixture(scope="module")
def raw_runs(runner):
    """What scripts print when nobody watches, each run once."""
    return functools.cache(runner.raw)


def _assert_unchanged(ran, alone) -> None:
    assert (ran.codes, ran.stdout, ran.stderr) == (alone.codes, alone.stdout, alone.stderr)


def _of(ran, kind):
    return [row for row in ran.rows().rows if isinstance(row, kind)]


def test_every_method_of_the_recorder_is_broken_in_a_script_that_calls_it() -> None:
    methods = {name for name, value in vars(Recorder).items() if callable(value) and not name.startswith("__")}

    assert methods == set(CALLED_BY) | LEFT_WHOLE


@pytest.mark.parametrize("method", sorted(CALLED_BY))
def test_whatever_part_of_the_watcher_raises_the_script_goes_on(runner, raw_runs, method) -> None:
    script, args, changes = CALLED_BY[method]
    ran = runner.watched(script, *args, sabotage=BROKEN_METHOD.format(method=method), **changes)

    _assert_unchanged(ran, raw_runs(script, *args, ranks=changes.get("ranks", 0)))
    assert (ran.out.path / "broke.txt").exists(), "the script does not call it, so nothing was tested"
    if method not in WITHOUT_A_ROW:
        assert any("a fault of the watcher" in row.error for row in _of(ran, TroubleRow))


@pytest.mark.parametrize("script", ["amp_float16_scaler.py", "loader.py", "compiled.py"])
def test_other_parts_of_torch_are_guarded_as_well(runner, script) -> None:
    args = {"loader.py": ("0",), "compiled.py": ("eager",)}.get(script, ())
    raw = runner.raw(script, *args)

    for sabotage in (BROKEN_METHOD.format(method="open_step"), BROKEN_STAMP):
        ran = runner.watched(script, *args, sabotage=sabotage)
        _assert_unchanged(ran, raw)
        assert (ran.out.path / "broke.txt").exists(), "the script does not call it, so nothing was tested"


def test_a_hook_that_raises_on_every_rank_keeps_no_rank_waiting(runner) -> None:
    raw = runner.raw("ddp.py", ranks=2)
    ran = runner.watched("ddp.py", ranks=2, sabotage=BROKEN_METHOD.format(method="optimizer_begin"))

    _assert_unchanged(ran, raw)
    assert _of(ran, TroubleRow)


def test_a_watcher_that_cannot_hook_torch_says_so_in_its_file(runner, alone) -> None:
    ran = runner.watched("plain.py", sabotage=NO_HOOKS)

    _assert_unchanged(ran, alone)
    assert _of(ran, TroubleRow) and not _of(ran, StepRow)


@pytest.mark.parametrize("sabotage", [NO_SPEC, DAMAGED_SPEC], ids=["missing", "damaged"])
def test_a_spec_that_cannot_be_read_costs_the_records_not_the_script(runner, alone, sabotage) -> None:
    ran = runner.watched("plain.py", sabotage=sabotage)

    _assert_unchanged(ran, alone)
    assert any("spec.json" in row.error for row in _of(ran, TroubleRow))


@pytest.mark.parametrize("sabotage", [NO_FOLDER, FOLDER_IS_A_FILE], ids=["missing", "a file"])
def test_a_folder_that_cannot_be_written_costs_the_records_not_the_script(runner, alone, sabotage) -> None:
    ran = runner.watched("plain.py", sabotage=sabotage)

    _assert_unchanged(ran, alone)
    assert not list(ran.out.path.rglob("*.jsonl")), "it could be written, so nothing was tested"


def test_a_disk_that_fills_up_ends_the_records_not_the_script(runner, alone) -> None:
    ran = runner.watched("plain.py", sabotage=FULL_DISK)

    _assert_unchanged(ran, alone)
    assert ran.out.rank(0).stat().st_size <= 900
    assert not _of(ran, EndRow)


@pytest.mark.parametrize("sabotage", [NO_PULSES, SHORT_PULSES], ids=["missing", "too short"])
def test_signs_of_life_that_cannot_be_written_cost_nothing_else(runner, alone, sabotage) -> None:
    ran = runner.watched("plain.py", sabotage=sabotage)

    _assert_unchanged(ran, alone)
    assert len(_of(ran, StepRow)) == 8


def test_rows_that_are_there_already_are_never_written_over(runner, alone) -> None:
    ran = runner.watched("plain.py", sabotage=ROWS_OF_ANOTHER)

    _assert_unchanged(ran, alone)
    assert ran.out.rank(0).read_text() == "another process was here\n"


def test_rows_written_before_a_kill_are_kept(runner) -> None:
    ran = runner.watched("killed.py")

    assert ran.codes == (-9,)
    read = ran.rows()
    steps = [row.step for row in read.rows if isinstance(row, StepRow)]
    printed = ran.stdout[0].count("step ")
    assert not read.bad_lines and not _of(ran, EndRow)
    # The steps of the last instants were not acknowledged yet; with 6 ms and more to a step they are few.
    assert steps == list(range(len(steps)))
    assert printed // 2 < len(steps) <= printed
