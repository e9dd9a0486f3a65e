"""Every script runs as if nobody watched, and what was recorded of it is what it did."""

import math
import re

import pytest
from watch_expected import FSDP, FSDP_LAYERS, TABLE, Expected

from scalewise.records.load import RankRows
from scalewise.records.rows import EndRow, ModelRow, RootRow, StartRow, StepRow, TroubleRow

by_label = pytest.mark.parametrize("expected", (*TABLE, FSDP), ids=lambda expected: expected.label)


def run_both(runner, expected: Expected):
    """The same script raw and watched."""
    script = f"{expected.script}.py"
    return (
        runner.raw(script, *expected.args, ranks=expected.ranks),
        runner.watched(script, *expected.args, ranks=expected.ranks),
    )


@by_label
def test_a_watched_script_prints_what_it_prints_alone_and_is_recorded_truly(runner, expected) -> None:
    raw, watched = run_both(runner, expected)

    assert raw.codes == (expected.code,) * max(1, expected.ranks), raw.stderr
    assert watched.codes == raw.codes, watched.stderr
    assert watched.stdout == raw.stdout
    assert tuple(map(_without_places, watched.stderr)) == tuple(map(_without_places, raw.stderr))
    for rank in range(max(1, expected.ranks)):
        if expected.steps:
            _check_rank(expected, watched.rows(rank), rank, watched.stdout[rank])
        else:
            assert not watched.out.rank(rank).exists()


def _without_places(text: str) -> str:
    """Standard error without what differs between any two runs: process numbers, ports and times."""
    text = re.sub(r"\[?[WE]\d{4} [\d:.]+( \d+)?", "", text)
    return re.sub(r"(0x[0-9a-f]+|\bpid[= ]\d+|:\d{4,5}\b|run\d+/)", "...", text)


def _check_rank(expected: Expected, rows: RankRows, rank: int, stdout: str) -> None:
    assert not rows.torn_lines and not rows.bad_lines
    assert not [row for row in rows.rows if isinstance(row, TroubleRow)]
    (start,) = (row for row in rows.rows if isinstance(row, StartRow))
    assert (start.rank, start.world_size) == (rank, max(1, expected.ranks))
    (end,) = (row for row in rows.rows if isinstance(row, EndRow))
    assert (end.steps, end.exception) == (expected.steps, expected.exception)
    steps = [row for row in rows.rows if isinstance(row, StepRow)]
    assert [row.step for row in steps] == list(range(expected.steps))
    for row, following in zip(steps, [*steps[1:], None], strict=True):
        _check_laws(row, following)
        _check_facts(expected, row)
    assert tuple(row.step for row in steps if row.skipped) == expected.skipped
    names = {row.number: row.name for row in rows.rows if isinstance(row, RootRow)}
    if expected.opened_by != "":
        assert names.get(steps[-1].opened_by) == expected.opened_by
    _check_models(expected, [row for row in rows.rows if isinstance(row, ModelRow)], steps)
    if expected.loss_seen:
        _check_losses(steps, stdout)


def _check_laws(row: StepRow, following: StepRow | None) -> None:
    """Phases add up to the step, and steps, waits and gaps add up to the loop."""
    assert None not in (row.forward_ns, row.backward_ns, row.optimizer_ns, row.rest_ns)
    phases = (row.forward_ns, row.backward_ns, row.optimizer_ns, row.rest_ns, row.data_inside_ns)
    assert min(phases) >= 0
    assert sum(phases) == row.step_ns
    assert row.step_ns > 0
    assert row.data_ns >= row.data_inside_ns
    assert (row.between_ns is None) == (row.step == 0)
    if following is not None:
        outside_ns = following.data_ns - following.data_inside_ns
        assert following.between_ns >= 0
        assert following.at_ns == row.at_ns + row.step_ns + following.between_ns + outside_ns


def _check_facts(expected: Expected, row: StepRow) -> None:
    assert row.micro_batches == expected.micro_batches
    samples = expected.samples if isinstance(expected.samples, tuple) else (expected.samples,)
    assert row.samples == samples[row.step % len(samples)]
    assert row.autocast == expected.autocast
    assert (row.scale is not None) == expected.scaled
    if expected is not FSDP:
        assert row.collectives == expected.collectives
    assert expected.samples_unknown in (row.samples_unknown, "")
    if row.micro_batches and row.autocast is None:
        assert (row.forward_ns > 0 or row.opened_by is None) and row.backward_ns > 0 and row.optimizer_ns > 0


def _check_models(expected: Expected, models: list[ModelRow], steps: list[StepRow]) -> None:
    assert models and models[-1].clock == "host"
    assert len(models[-1].optimizers) == expected.optimizers
    assert models[-1].wrapper == expected.wrapper
    held_by = expected.ranks if expected is FSDP else 1
    assert models[-1].parameters > 0 and models[-1].parameter_bytes * held_by == 4 * models[-1].parameters
    if expected.script == "gan":
        assert [row.optimizer for row in steps] == [0, 1] * (len(steps) // 2)


def _check_losses(steps: list[StepRow], stdout: str) -> None:
    """The recorded loss is the one the script printed, where it prints one per step."""
    printed = {int(step): float.fromhex(text) for step, text in re.findall(r"^step (\d+) (\S+)", stdout, re.M)}
    for row in steps:
        if row.step in printed and math.isfinite(printed[row.step]):
            assert row.loss == pytest.approx(printed[row.step], rel=1e-6)
            assert not row.non_finite
        elif row.step in printed:
            assert row.loss is None and row.non_finite


def test_the_scale_of_every_step_is_the_one_before_its_update(runner) -> None:
    watched = runner.watched("amp_float16_scaler.py")
    printed = [float(text) for text in re.findall(r"scale (\S+)", watched.stdout[0])]

    assert [row.scale for row in _steps(watched)] == printed
    assert printed[2] == 2 * printed[4]


def test_fsdp_gathers_and_scatters_every_layer(runner) -> None:
    for row in _steps(runner.watched("fsdp.py", ranks=2)):
        gathers = sum(count for kind, (count, _) in row.collectives.items() if kind.startswith("all_gather"))
        scatters = sum(count for kind, (count, _) in row.collectives.items() if kind.startswith("reduce_scatter"))
        assert scatters == FSDP_LAYERS
        assert gathers == 2 * FSDP_LAYERS  # once in forward and once more in backward
        assert row.collective_ns > 0


def test_waiting_for_data_inside_a_step_is_told_apart_from_waiting_between_steps(runner) -> None:
    outside = _steps(runner.watched("loader.py", "0"))
    inside = _steps(runner.watched("infinite_loader.py"))

    assert all(row.data_ns > 0 and row.data_inside_ns == 0 for row in outside)
    assert all(row.data_ns > row.data_inside_ns > 0 for row in inside)


def test_what_a_watched_script_saved_loads_where_scalewise_is_not_installed(runner) -> None:
    raw, watched = runner.raw("saves_model.py"), runner.watched("saves_model.py")
    loaded = runner.in_folder(raw.cwd, "loads_model.py"), runner.in_folder(watched.cwd, "loads_model.py")

    assert loaded[0].codes == loaded[1].codes == (0,), loaded[1].stderr
    assert loaded[0].stdout == loaded[1].stdout
    assert b"scalewise" not in (watched.cwd / "model.pt").read_bytes()
    assert b"scalewise" not in (watched.cwd / "checkpoint.pt").read_bytes()


def test_a_rank_is_pinned_to_its_share_of_cores_and_says_so(runner) -> None:
    import os

    core = sorted(os.sched_getaffinity(0))[-1]
    watched = runner.watched("ddp.py", ranks=2, shares=((core,), (core,)))

    starts = [next(row for row in watched.rows(rank).rows if isinstance(row, StartRow)) for rank in (0, 1)]
    assert [row.affinity for row in starts] == [(core,), (core,)]
    assert [row.threads for row in starts] == [1, 1]


def _steps(ran) -> list[StepRow]:
    return [row for row in ran.rows().rows if isinstance(row, StepRow)]
