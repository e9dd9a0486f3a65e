"""The use of the device in inspected runs: counts by hand, compiled models by their profile, honest gaps, one trace."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest

from scalewise.analysis.trace import trace_of, traced_run
from scalewise.errors import BadRequest
from scalewise.records.inspection import HOST, CpuTimeRow, ProfileRow, WorkRow
from scalewise.records.load import load
from scalewise.records.spec import Inspected
from scalewise.records.steps import read_step_spans

# Of inspect_ddp.py.
DIM, DEPTH, BATCH, MICRO_BATCHES, STEPS = 64, 3, 8, 2, 6
LINEAR = 2 * BATCH * DIM * DIM
FLOPS = MICRO_BATCHES * (3 * DEPTH - 1) * LINEAR  # the first layer needs no gradient of its input


def _of(ran, kind, rank=0):
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


@pytest.mark.parametrize(("precision", "ranks"), [("float32", 0), ("float32", 2), ("bfloat16", 0)])
def test_the_work_of_a_step_is_what_can_be_worked_out_by_hand(runner, precision, ranks) -> None:
    ran = runner.watched("inspect_ddp.py", precision, "1", "0", ranks=ranks, kind=Inspected())

    for rank in range(max(1, ranks)):
        by_dispatch, by_profile = _of(ran, WorkRow, rank)
        assert (by_dispatch.method, by_profile.method) == ("dispatch", "profile")
        assert by_dispatch.flops == by_profile.flops == {precision: FLOPS}
        assert not by_dispatch.recomputed and not by_dispatch.missing and not by_profile.missing
        assert by_dispatch.operand_bytes > 0


def test_the_profile_of_a_step_adds_up_and_says_nothing_on_stderr(runner) -> None:
    raw = runner.raw("inspect_ddp.py", "float32", "1", "0", ranks=2)
    ran = runner.watched("inspect_ddp.py", "float32", "1", "0", ranks=2, kind=Inspected())

    assert (ran.stdout, ran.stderr) == (raw.stdout, raw.stderr)
    for rank in range(2):
        (row,) = _of(ran, ProfileRow, rank)
        assert row.step == 5 and row.device == "cpu" and not row.missing
        assert sum(row.families.values()) == row.wall_ns >= row.busy_ns > 0
        assert {"matmul", "communication", HOST} <= set(row.families) and not row.uncounted


def test_a_compiled_model_is_counted_from_its_profile(runner) -> None:
    ran = runner.watched("compiled.py", "aot_eager", kind=Inspected())

    works = {row.method: row for row in _of(ran, WorkRow)}
    assert "torch.compile" in works["dispatch"].missing
    assert sum(works["profile"].flops.values()) > 0 and not works["profile"].missing


def test_a_script_of_few_steps_is_told_so(runner) -> None:
    ran = runner.watched("few_steps.py", kind=Inspected())

    missing = [row.missing for row in (*_of(ran, WorkRow), *_of(ran, ProfileRow))]
    assert len(missing) == 2 and all("the script made 2 steps" in text for text in missing)


def test_a_profiler_of_the_script_is_left_alone(runner) -> None:
    ran = runner.watched("own_profiler.py", kind=Inspected())

    (row,) = _of(ran, ProfileRow)
    assert "profiler of its own" in row.missing
    assert sum(_of(ran, WorkRow)[0].flops.values()) == 4 * 8 * 16 * 16


def test_cpu_time_is_read_in_plain_steps(runner) -> None:
    (row,) = _of(runner.watched("fast.py", kind=Inspected()), CpuTimeRow)

    assert row.steps == 32 and row.cpu_ns > 0 and row.wall_ns > 0 and row.threads == 1


@pytest.fixture(scope="module")
def traced(runner):
    """An inspected DDP run of two ranks, and its trace."""
    ran = runner.watched("ddp_accumulate.py", "no_sync", ranks=2, kind=Inspected())
    (run,) = load(ran.out.path).runs
    return run, trace_of(run)


def _slices(trace, name):
    """Slices of the tracks of that name: rank -> begin and end as a viewer adds them up, and name."""
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and tracks[event["pid"], event["tid"]].startswith(name):
            found[event["pid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    return found


def test_a_trace_is_whole_json_of_the_format(traced) -> None:
    _, trace = traced

    assert json.loads(json.dumps(trace)) == trace
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0
        else:
            assert event["args"]


def test_phases_tile_the_step(traced) -> None:
    _, trace = traced

    for slices in _slices(trace, "phases").values():
        steps = [one for one in slices if one[2].startswith("step ")]
        assert steps[0][2] == "step 5 (profiled)"
        for begin, end, _ in steps:
            inside = sorted(one for one in slices if begin <= one[0] < end and not one[2].startswith("step "))
            assert inside[0][0] == begin and inside[-1][1] == end
            assert all(a[1] == b[0] for a, b in pairwise(inside))
            assert {"forward", "backward", "optimizer"} <= {name for _, _, name in inside}


def test_slices_of_a_track_are_nested_or_apart(traced) -> None:
    _, trace = traced
    tracks = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], -(event["ts"] + event["dur"])))
    for slices in tracks.values():
        open_ends = []
        for begin, negative_end in sorted(slices):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or -negative_end <= open_ends[-1]
            open_ends.append(-negative_end)


def test_buckets_and_micro_batches_lie_in_their_steps(traced) -> None:
    run, trace = traced

    assert set(_slices(trace, "phases")) == {0, 1}
    for rank, slices in _slices(trace, "collectives").items():
        buckets = [one for one in slices if one[2].startswith("bucket 1: gloo:all_reduce")]
        passes = [one for one in _slices(trace, "phases")[rank] if one[2] == "backward"]
        assert buckets and any(begin <= buckets[0][0] <= end for begin, end, _ in passes)
    micro = _slices(trace, "micro-batches")[0]
    steps = [row for row in run.ranks[0].steps if row.step >= 5][:3]
    assert len(micro) == sum(row.micro_batches for row in steps)


def test_spans_are_what_the_steps_say(traced) -> None:
    run, _ = traced
    for rank in run.ranks:
        spans = {one.step: one for one in read_step_spans(run.folder / f"rank{rank.rank}.jsonl")}
        assert list(spans) == [row.step for row in rank.steps]
        for row in rank.steps:
            lengths = defaultdict(int)
            for span in spans[row.step].phases:
                lengths[span.name] += span.end_ns - span.begin_ns
            assert sum(lengths.values()) == row.step_ns
            assert (lengths["forward"], lengths["backward"]) == (row.forward_ns, row.backward_ns)


def test_damage_leaves_phases_without_kernels(traced) -> None:
    run, _ = traced
    for path in run.folder.glob("rank*.calls.json"):
        path.write_text('{"step": 5')

    assert _slices(trace_of(run), "phases") and not _slices(trace_of(run), "operators")


def test_without_an_inspected_run_there_is_nothing_to_trace(traced) -> None:
    run, _ = traced
    with pytest.raises(BadRequest, match="no inspected run"):
        traced_run(load(run.folder))  # it has no outcome, so it did not end well
