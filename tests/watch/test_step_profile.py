"""A profiled step adds up: families and host make the step, flops are those by dispatch."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from scalewise.records.inspection import HOST
from scalewise.watch.operation_counts import StepCounts, WorkMode
from scalewise.watch.step_profile import StepProfiler, covered_ns, merged, overlap_ns


def _profiled(act) -> tuple[StepProfiler, object]:
    profiler = StepProfiler()
    profiler.prepare()
    profiler.begin()
    act()
    profiler.step_ended()
    profiler.end()
    return profiler, profiler.read()


def _step(model, optimizer, x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def _training():
    model = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.Flatten(), nn.Linear(4 * 32, 16))
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(8, 1, 32)


def test_families_and_the_host_add_up_to_the_step():
    model, optimizer, x = _training()
    _, found = _profiled(lambda: _step(model, optimizer, x))

    assert found.device == "cpu" and found.launches > 10
    assert {"matmul", "convolution", HOST} <= set(found.families)
    assert sum(found.families.values()) == found.wall_ns
    assert 0 < found.busy_ns <= found.wall_ns
    assert not found.uncounted and not found.shapeless


def test_flops_from_the_profile_are_those_by_dispatch():
    model, optimizer, x = _training()
    work = StepCounts(lambda: True, lambda: False)
    with WorkMode(work):
        _step(model, optimizer, x)
    _, found = _profiled(lambda: _step(model, optimizer, x))

    assert found.flops == dict(work.flops)


def test_calls_lie_on_the_clock_of_the_script():
    _, found = _profiled(lambda: torch.ones(4) + 1)

    assert found.calls
    # The profiler has a clock of its own, which is read against the script's at moments that are known to some us.
    slack_ns = 50_000
    assert all(found.begin_ns <= one.begin_ns <= one.end_ns <= found.end_ns + slack_ns for one in found.calls)


def test_a_sharded_product_counts_as_what_this_rank_computes():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local(torch.randn(8, 32), mesh, [Replicate()])
        w = DTensor.from_local(torch.randn(32, 16), mesh, [Shard(1)])  # half of 32 columns
        x @ w  # the first time, DTensor also tries the product on tensors without data
        _, found = _profiled(lambda: x @ w)
    finally:
        dist.destroy_process_group()

    assert found.flops == {"float32": 2 * 8 * 32 * 16}


def test_an_operator_that_no_formula_knows_is_named():
    def act():
        torch.linalg.svd(torch.randn(64, 64))

    _, found = _profiled(act)
    assert any("svd" in name for name in found.uncounted)


def test_the_profiler_prints_nothing(capfd):
    _profiled(lambda: torch.ones(4) + 1)

    said = capfd.readouterr()
    assert said.out == "" and said.err == ""


def test_a_profiler_of_the_script_comes_first():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        try:
            StepProfiler().prepare()
        except RuntimeError as error:
            assert "profiler of its own" in str(error)
        else:
            raise AssertionError("two profilers at once")


def test_spans_are_merged_and_measured():
    assert merged([(5, 7), (0, 2), (1, 4)]) == [(0, 4), (5, 7)]
    assert covered_ns([(0, 2), (1, 4), (5, 7)]) == 6
    assert overlap_ns([(0, 4)], [(2, 6)]) == 2
    assert overlap_ns([(0, 1)], [(2, 6)]) == 0
