"""Every call that torch allows goes through the watcher: each spelling gives what it gives without it."""

import re

import pytest
import torch
from test_wrapped import RUNS, listed

# Wrapped, but not called here: they end the process, are private to torch, or are torch's own hooks.
NOT_CALLED = {
    "sys.excepthook", "sys.exit", "os._exit", "warnings._showwarnmsg", "torch._dynamo.eval_frame.set_eval_frame",
    "torch.nn.parallel.DistributedDataParallel._sync_buffers", "torch.nn.Module.__call__ (before)",
    "torch.nn.Module.__call__ (after)", "torch.optim.Optimizer.step (before)", "torch.optim.Optimizer.step (after)",
    # Of devices that are not here.
    "torch.accelerator.synchronize", "torch.cuda.synchronize", "torch.cuda.Event.record",
    "torch.cuda.Event.synchronize", "torch.cuda.Stream.synchronize", "torch.Tensor.cuda",
    # The allocator of CUDA, which torch's own functions ask with one index, in one spelling.
    "torch._C._cuda_memoryStats", "torch._C._cuda_resetPeakMemoryStats", "torch._C._accelerator_getDeviceStats",
    "torch._C._accelerator_resetPeakStats",
    # Of torch.func, which calls them itself.
    "torch._functorch.eager_transforms._grad_increment_nesting", "torch._functorch.vmap._vmap_increment_nesting",
    # Of dynamo, which calls them itself.
    "torch._dynamo.convert_frame._compile",
    "torch._dynamo.convert_frame.get_and_maybe_log_recompilation_reasons",
}  # fmt: skip
KINDS = ("timed", "inspected", "examined")


@pytest.fixture(scope="module")
def raw(runner):
    return {
        "plain": runner.raw("spell_calls.py", "plain"),
        **{how: runner.raw("spell_calls.py", how, ranks=2) for how in ("place", "name")},
    }


def changes_of(kind: str) -> dict[str, object]:
    return {name: value for name, value in RUNS[kind].items() if name != "ranks"}


def lines(ran, rank: int = 0) -> list[str]:
    assert ran.codes[rank] == 0, ran.stderr[rank]
    return ran.stdout[rank].splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_one_process_give_what_they_give_unwatched(runner, raw, kind) -> None:
    ran = runner.watched("spell_calls.py", "plain", **changes_of(kind))

    assert lines(ran) == lines(raw["plain"])


@pytest.mark.parametrize(("kind", "how"), [("timed", "place"), ("inspected", "name"), ("examined", "name")])
def test_calls_between_ranks_give_what_they_give_unwatched(runner, raw, kind, how) -> None:
    ran = runner.watched("spell_calls.py", how, ranks=2, **changes_of(kind))

    for rank in range(2):
        assert lines(ran, rank) == lines(raw[how], rank)


@pytest.mark.parametrize("kind", ["rehearsed", "redirected", "emulated"])
@pytest.mark.parametrize("how", ["place", "mixed"])
def test_no_spelling_is_refused_where_others_stand_in(runner, raw, kind, how) -> None:
    """What they give is another matter; what is legal stays legal."""
    ran = runner.watched("spell_calls.py", how, ranks=2, **changes_of(kind))

    legal = {line.partition(" -> ")[0] for line in lines(raw["place"]) if "Error: " not in line}
    refused = [line for line in lines(ran) if "TypeError: " in line and line.partition(" -> ")[0] in legal]
    assert refused == []


@pytest.mark.parametrize("of_cuda", [False, True])
def test_every_function_that_is_wrapped_is_called(raw, of_cuda, monkeypatch) -> None:
    """Also what is wrapped only where torch was built for CUDA, as the list says of such a machine."""
    if of_cuda:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    told = [line for ran in raw.values() for rank in range(len(ran.codes)) for line in lines(ran, rank)]
    called = {re.split(r"\(| -> ", line)[0] for line in told if not line.startswith("#")}
    wrapped = {name for kind in KINDS for _, name in listed(kind)}

    assert wrapped - called - NOT_CALLED == set()


def test_most_calls_succeed_and_there_are_many(raw) -> None:
    """A test of failures alone would be one of nothing."""
    told = [line for ran in raw.values() for line in lines(ran) if " -> " in line]

    failed = [line for line in told if "Error: " in line]
    assert len(told) > 300
    assert len(failed) < 0.1 * len(told), "\n".join(failed)
