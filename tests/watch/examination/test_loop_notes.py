"""What an examined rank notes of its training loop, for the ways in which people write one; nothing is changed."""

from typing import TypeVar

import pytest
from watch_runner import Ran, Runner

from scalewise.records.examination import OptimizerRow, ParameterSumsRow, WrapperRow, WrapperUseRow
from scalewise.records.load import read_rows
from scalewise.records.notes import (
    NOWHERE,
    AutocastNote,
    BackwardNote,
    ClipNote,
    ForwardNote,
    KeptNote,
    NoSyncNote,
    Note,
    ScalerNote,
    ScheduleNote,
    StepNote,
    ZeroNote,
)
from scalewise.records.rows import TroubleRow
from scalewise.records.spec import Examined

SomeNote = TypeVar("SomeNote", bound=Note)
SomeRow = TypeVar("SomeRow")
NAMES = {ForwardNote: "F", BackwardNote: "B", ZeroNote: "Z", StepNote: "S", ClipNote: "C", ScheduleNote: "L"}


def examined(runner: Runner, script: str, *args: str, ranks: int = 0) -> Ran:
    """The script examined, after it was seen to print and return what it does alone."""
    raw, ran = runner.raw(script, *args, ranks=ranks), runner.watched(script, *args, ranks=ranks, kind=Examined())
    assert ran.stdout == raw.stdout
    assert (ran.codes, ran.stderr) == (raw.codes, raw.stderr)
    assert not [row for row in ran.rows().rows if isinstance(row, TroubleRow)]
    return ran


def notes(ran: Ran, kind: type[SomeNote], rank: int = 0) -> list[SomeNote]:
    return [note for note in read_rows(ran.out.examination(rank)).notes if isinstance(note, kind)]


def rows(ran: Ran, kind: type[SomeRow], rank: int = 0) -> list[SomeRow]:
    return [row for row in read_rows(ran.out.examination(rank)).rows if isinstance(row, kind)]


def order(ran: Ran) -> str:
    """The calls of the loop as letters."""
    return "".join(NAMES[type(note)] for note in notes(ran, Note) if type(note) in NAMES)


def test_a_divided_loss_is_seen_as_it_acts_and_clipping_is_not_taken_for_division(runner):
    ran = examined(runner, "loop_alone.py", "divided")
    assert order(ran) == "FBFBCSLZZ" * 3
    backwards = notes(ran, BackwardNote)
    assert {(note.factor, note.reduction, note.elements) for note in backwards} == {(0.5, "mean", 6)}
    assert [note.had_gradient for note in backwards] == [False, True] * 3
    assert all(note.gained for note in backwards)
    assert [note.ratio for note in notes(ran, StepNote)] == pytest.approx([1.0] * 3)
    assert all(note.ratio == 1.0 and note.norm > note.limit == 0.01 for note in notes(ran, ClipNote))
    assert [note.had_gradients for note in notes(ran, ZeroNote)] == [True, False] * 3
    assert [note.rate for note in notes(ran, ScheduleNote)] == [0.025, 0.0125, 0.00625]
    (optimizer,) = rows(ran, OptimizerRow)
    assert (optimizer.optimizer, optimizer.parameters, optimizer.owned) == ("SGD", 4, True)


def test_gradients_divided_and_thrown_away_by_hand_are_seen(runner):
    ran = examined(runner, "loop_alone.py", "by_hand")
    assert [note.ratio for note in notes(ran, StepNote)] == pytest.approx([0.5] * 3)
    assert [note.ratio for note in notes(ran, ClipNote)] == pytest.approx([0.5] * 3)
    assert [(note.optimizer, note.place) for note in notes(ran, ZeroNote)] == [(NOWHERE, NOWHERE)] * 2
    # Label smoothing splits a mean over two reductions: together they are one again.
    assert [note.factor for note in notes(ran, BackwardNote)] == pytest.approx([1.0] * 6)


def test_a_sum_over_tokens_counts_those_that_are_not_ignored(runner):
    ran = examined(runner, "loop_alone.py", "tokens")
    backwards = notes(ran, BackwardNote)
    assert [(note.reduction, note.elements) for note in backwards] == [("sum", 3), ("sum", 6)] * 3
    assert [note.factor for note in backwards] == pytest.approx([1 / 9] * 6)
    # The module's own call leaves zeros, and there is nothing left for the optimizer's to throw away.
    assert [(note.optimizer, note.had_gradients) for note in notes(ran, ZeroNote)] == [(NOWHERE, True), (0, False)] * 3


def test_of_several_reductions_the_one_with_the_largest_gradient_is_the_loss(runner):
    ran = examined(runner, "loop_alone.py", "masked")
    assert [(note.reduction, note.factor) for note in notes(ran, BackwardNote)] == [("sum", 0.25)] * 3
    assert len(notes(ran, ForwardNote)) == 3  # a loss without parameters is no model


def test_a_scaler_shows_its_calls_its_scale_and_the_step_it_skips(runner):
    ran = examined(runner, "loop_alone.py", "scaled")
    calls = [note.call for note in notes(ran, ScalerNote)]
    assert calls == ["scale", "unscale_", "step", "update"] * 4
    steps = notes(ran, StepNote)
    assert [note.skipped for note in steps] == [False, False, True, False]
    assert all(note.scaled for note in steps)
    assert steps[0].ratio == pytest.approx(1 / 1024)
    assert [note.factor for note in notes(ran, BackwardNote)] == [1024.0, 1024.0, 1024.0, 512.0]
    assert notes(ran, ClipNote)[0].ratio == pytest.approx(1 / 1024)
    assert {(note.device, note.dtype) for note in notes(ran, AutocastNote)} == {("cpu", "float16")}
    assert {note.autocast for note in notes(ran, ForwardNote)} == {"float16"}
    assert {note.autocast for note in notes(ran, BackwardNote)} == {None}


@pytest.mark.parametrize(("how", "graphs"), [("keeps_sum", 8), ("keeps_list", 8), ("keeps_values", 1)])
def test_graphs_that_the_script_still_holds_are_counted(runner, how, graphs):
    ran = examined(runner, "loop_alone.py", how)
    kept = notes(ran, KeptNote)
    assert [note.step for note in kept] == [1, 2, 4, 8, 9]
    assert (kept[3].graphs, kept[3].seen, kept[3].alive) == (graphs, 8, 0)
    assert kept[-1].graphs == min(9, graphs + graphs // 8)  # the most since the last look


def test_evaluation_between_steps_does_not_train(runner):
    ran = examined(runner, "loop_alone.py", "evaluates")
    forwards = notes(ran, ForwardNote)
    assert [note.trains for note in forwards] == [True, False] * 3
    assert all((note.digest is not None) == note.trains for note in forwards)
    assert all(len(note.row_digests) == note.rows == 6 for note in forwards if note.trains)
    assert forwards[0].digest != forwards[2].digest


def test_two_passes_on_one_batch_have_one_digest(runner):
    ran = examined(runner, "loop_alone.py", "sam")
    assert order(ran) == "FBZFBSZ" * 3
    digests = [note.digest for note in notes(ran, ForwardNote)]
    assert digests[::2] == digests[1::2]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("how", "sync"), [("every", [True, True]), ("no_sync", [False, True]), ("flag", [False, True])]
)
def test_each_way_to_switch_synchronisation_off_is_seen(runner, how, sync):
    ran = examined(runner, "loop_ddp.py", how, ranks=2)
    forwards = notes(ran, ForwardNote, rank=1)
    assert [note.sync for note in forwards] == sync * 4
    assert {(note.wrapper, note.bypassed) for note in forwards} == {(0, NOWHERE)}
    assert len(notes(ran, NoSyncNote)) == (4 if how == "no_sync" else 0)
    digests = [{one.digest for one in notes(ran, ForwardNote, rank)} for rank in (0, 1)]
    assert not digests[0] & digests[1]


def test_a_wrapper_is_described_and_its_parameters_summed_alike_on_both_ranks(runner):
    ran = examined(runner, "loop_ddp.py", "every", ranks=2)
    (wrapper,) = rows(ran, WrapperRow)
    assert (wrapper.wrapper, wrapper.ranks, wrapper.parameter_bytes) == ("DistributedDataParallel", (0, 1), 360)
    assert (wrapper.options["find_unused_parameters"], wrapper.buffer_bytes) == (True, 16)
    sums = [[(row.step, row.wrapper, row.sums) for row in rows(ran, ParameterSumsRow, rank)] for rank in (0, 1)]
    assert sums[0] == sums[1]
    assert [step for step, _, _ in sums[0]] == [1, 2, 4]
    use = rows(ran, WrapperUseRow)[-1]
    assert sum(use.bucket_bytes) == 360
    assert use.without_gradient == {"heads.1.weight": 4, "heads.1.bias": 4}
    assert (use.steps_looked_at, use.buffers_changed, use.buffer_checks) == (4, 0, 7)


def test_a_parameter_that_only_the_other_rank_uses_has_no_gradient_here(runner):
    ran = examined(runner, "loop_ddp.py", "heads", ranks=2)
    for rank in (0, 1):
        unused = rows(ran, WrapperUseRow, rank)[-1].without_gradient
        assert set(unused) == {f"heads.{1 - rank}.weight", f"heads.{1 - rank}.bias"}


def test_buffers_that_really_change_are_told_from_those_that_do_not(runner):
    use = rows(examined(runner, "loop_ddp.py", "counts", ranks=2), WrapperUseRow)[-1]
    assert use.buffers_changed == use.buffer_checks == 7


@pytest.mark.parametrize(("how", "modules"), [("bypass", ["Net"]), ("part", ["Linear", "Linear"])])
def test_a_call_past_the_wrapper_is_seen_whole_or_in_parts(runner, how, modules):
    forwards = notes(examined(runner, "loop_ddp.py", how, ranks=2), ForwardNote)
    assert [note.module for note in forwards] == modules * 8
    assert {(note.wrapper, note.bypassed, note.sync) for note in forwards} == {(NOWHERE, 0, False)}


def test_a_wrapper_inside_a_module_of_the_users_is_the_one_that_was_called(runner):
    forwards = notes(examined(runner, "loop_ddp.py", "inside", ranks=2), ForwardNote)
    assert {(note.module, note.wrapper, note.bypassed, note.sync) for note in forwards} == {
        ("Trainer", 0, NOWHERE, True)
    }


def test_a_closure_is_part_of_its_step(runner):
    ran = examined(runner, "lbfgs.py")
    assert all(note.closure for note in notes(ran, BackwardNote))
    assert {note.ratio for note in notes(ran, StepNote)} == {None}


def test_two_optimizers_have_numbers_and_gradients_of_their_own(runner):
    ran = examined(runner, "gan.py")
    assert {note.optimizer for note in notes(ran, StepNote)} == {0, 1}
    assert len(rows(ran, OptimizerRow)) == 2
    assert {note.ratio for note in notes(ran, StepNote)} == {1.0}


def test_sharded_parameters_are_read_by_their_local_part_and_not_summed(runner):
    ran = examined(runner, "fsdp.py", ranks=2)
    assert {row.wrapper for row in rows(ran, WrapperRow)} == {"FSDP"}
    assert {note.wrapper for note in notes(ran, ForwardNote)} == {0}
    assert {note.had_gradient for note in notes(ran, BackwardNote)} == {False}  # zeroed after every step
    assert not rows(ran, ParameterSumsRow)


def test_parameters_are_summed_where_ranks_reduce_by_hand(runner):
    ran = examined(runner, "manual_all_reduce.py", ranks=2)
    sums = [[row.sums for row in rows(ran, ParameterSumsRow, rank)] for rank in (0, 1)]
    assert sums[0] and sums[0] == sums[1]
    assert {row.wrapper for row in rows(ran, ParameterSumsRow)} == {NOWHERE}


@pytest.mark.parametrize("how", ["eager", "aot_eager", "method", "function"])
def test_a_compiled_model_is_examined_like_any_other(runner, how):
    ran = examined(runner, "compiled.py", how)
    assert len(notes(ran, StepNote)) == len(notes(ran, BackwardNote)) == 8
    if how != "function":
        assert [note.trains for note in notes(ran, ForwardNote)] == [True] * 8


@pytest.mark.parametrize(
    "script",
    ["checkpointing.py", "data_parallel.py", "loop_odd.py", "random_streams.py", "saves_model.py", "two_optimizers.py"],
)
def test_other_loops_print_what_they_do_alone(runner, script):
    ran = examined(runner, script)
    assert notes(ran, ForwardNote)


@pytest.fixture(scope="module")
def alone(runner):
    """What the script does when nobody watches."""
    return runner.raw("ddp_accumulate_amp_scaler.py", ranks=2)


BROKEN = """
import importlib

def broken(*args, **kwargs):
    raise ZeroDivisionError("a fault of the examination")

module = importlib.import_module("scalewise.watch.examination.{module}")
owner = getattr(module, "{owner}") if "{owner}" else module
setattr(owner, "{name}", broken)
"""


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [
        ("backward", "", "reductions"),
        ("probes", "GradientProbe", "before"),
        ("optimizer", "", "gradient_counts"),
        ("after_steps", "", "reduction_node"),
        ("wrappers", "Wrappers", "index_of"),
        ("after_steps", "", "ordinary"),
        ("loop", "Loop", "optimizer"),
        ("forward", "", "install"),
    ],
)
def test_an_examination_that_breaks_leaves_the_script_alone(runner, alone, module, owner, name):
    sabotage = BROKEN.format(module=module, owner=owner, name=name)
    ran = runner.watched("ddp_accumulate_amp_scaler.py", ranks=2, kind=Examined(), sabotage=sabotage)
    assert (ran.stdout, ran.codes, ran.stderr) == (alone.stdout, alone.codes, alone.stderr)
    assert [row for row in ran.rows().rows if isinstance(row, TroubleRow)]
