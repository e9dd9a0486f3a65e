"""Runs that take turns do so strictly, compute what they would alone, and never wait for a partner that has gone."""

import dataclasses
import os
import signal
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from launch_runner import Silent, machine_here, spec_of

from scalewise.errors import BadRequest
from scalewise.launch import turn_group
from scalewise.launch.campaign import rings, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec, Turns

Ends = Sequence[tuple[str, ...]]


def ring_of(ends: Ends, folder: Path, ranks: int = 1, script: str = "turns.py", **changes: object) -> list[RunSpec]:
    """One run for each end, all of one ring."""
    specs = []
    for index, args in enumerate(ends):
        name = "abcd"[index]
        env = {"LOG": str(folder / "steps.log"), "NAME": name}
        spec = dataclasses.replace(spec_of(script, *args), name=name, ranks=ranks, env=env, axes={"arm": name})
        specs.append(dataclasses.replace(spec, turns=Turns("ring", index, len(ends)), **changes))  # type: ignore[arg-type]
    return specs


def made(specs: Sequence[RunSpec], folder: Path, servers: Servers) -> dict[str, Run]:
    """The runs, read back, when nothing of them is left."""
    run_campaign(specs, SuiteFolder(folder / "suite"), machine_here(), Silent(), servers)
    left = [other for child in psutil.Process().children() for other in child.children(recursive=True)]
    assert left == []
    assert not list((folder / "suite").glob(".turns*"))
    return {run.spec.name: run for run in load(folder / "suite").runs}


def kinds(runs: dict[str, Run]) -> list[str]:
    return [run.outcome.kind if run.outcome else "" for _, run in sorted(runs.items())]


def in_turn(run: Run) -> int:
    return sum(row.turn_ns is not None for row in run.ranks[0].steps)


def order(folder: Path) -> list[str]:
    return (folder / "steps.log").read_text().splitlines()


@pytest.mark.parametrize("size", [2, 3])
def test_arms_make_their_steps_strictly_in_turns_and_compute_what_they_would_alone(
    tmp_path: Path, servers: Servers, size: int
) -> None:
    specs = ring_of([("12", "finish")] * size, tmp_path)
    runs = made(specs, tmp_path, servers)
    assert kinds(runs) == ["finished"] * size
    strict = [f"{spec.name} {step}" for step in range(11) for spec in specs]
    assert order(tmp_path)[: len(strict)] == strict
    assert sorted(order(tmp_path)[len(strict) :]) == [f"{spec.name} 11" for spec in specs]
    assert [in_turn(runs[spec.name]) for spec in specs] == [12, *[11] * (size - 1)]
    alone = dataclasses.replace(specs[0], turns=None)
    alone_run = made([alone], tmp_path / "alone", servers)["a"]
    said = {(run.folder / "rank0.stdout.log").read_text() for run in (*runs.values(), alone_run)}
    assert len(said) == 1
    losses = {tuple(row.loss for row in run.ranks[0].steps) for run in (*runs.values(), alone_run)}
    assert len(losses) == 1


def test_all_ranks_of_one_arm_make_a_step_before_any_of_the_other_begins(tmp_path: Path, servers: Servers) -> None:
    runs = made(ring_of([("8", "finish")] * 2, tmp_path, ranks=2), tmp_path, servers)
    assert kinds(runs) == ["finished"] * 2
    assert order(tmp_path)[:28] == [f"{name} {step}" for step in range(7) for name in "aabb"]
    assert all(len(rank.steps) == 8 for run in runs.values() for rank in run.ranks)


def test_waiting_for_a_turn_is_in_no_time_of_a_step(tmp_path: Path, servers: Servers) -> None:
    """An arm that sleeps 30 ms in its own time makes its partner wait as long, and only wait."""
    (tmp_path / "slow.py").write_text(SLEEPY)
    specs = ring_of([("0",), ("0.03",)], tmp_path)
    specs = [dataclasses.replace(spec, script=str(tmp_path / "slow.py"), mode="python") for spec in specs]
    steps = made(specs, tmp_path, servers)["a"].ranks[0].steps
    for before, row in pairwise(steps):
        assert row.turn_ns is not None and row.turn_ns > 29_000_000
        outside_ns = row.data_ns - row.data_inside_ns
        assert row.at_ns - before.at_ns == before.step_ns + (row.between_ns or 0) + outside_ns + row.turn_ns


SLEEPY = """
import sys, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    loss = model(torch.ones(2, 4)).sum()
    time.sleep(float(sys.argv[1]))
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("ends", "outcomes", "steps"),
    [
        ([("4", "sigkill"), ("9", "finish")], ["killed", "finished"], [4, 9]),
        ([("9", "finish"), ("4", "sigkill"), ("9", "finish")], ["finished", "killed", "finished"], [9, 4, 9]),
        ([("3", "finish"), ("9", "finish"), ("6", "finish")], ["finished"] * 3, [3, 9, 6]),
        ([("0", "finish"), ("6", "finish")], ["no_steps", "finished"], [0, 6]),
        ([("3", "spin"), ("9", "finish")], ["hung", "finished"], [3, 9]),
    ],
    ids=["killed", "killed among three", "different counts", "no steps", "hung"],
)
def test_whatever_becomes_of_a_partner_the_others_go_on(
    tmp_path: Path, servers: Servers, ends: Ends, outcomes: list[str], steps: list[int]
) -> None:
    runs = made(ring_of(ends, tmp_path, stall_seconds=5.0), tmp_path, servers)
    assert kinds(runs) == outcomes
    counted = [len(run.ranks[0].steps) if run.ranks else 0 for _, run in sorted(runs.items())]
    for count, expected, kind in zip(counted, steps, outcomes, strict=True):
        assert count == expected or kind in ("killed", "hung"), "only a kill loses the last rows"
    longest = runs["abc"[steps.index(max(steps))]]
    assert in_turn(longest) <= min(steps) + 1


def test_a_ring_that_misses_a_run_is_made_whole_again(tmp_path: Path, servers: Servers) -> None:
    specs = ring_of([("3", "finish")] * 2, tmp_path)
    runs = made(specs, tmp_path, servers)
    (runs["b"].folder / "outcome.json").unlink()
    (tmp_path / "steps.log").unlink()
    assert kinds(made(specs, tmp_path, servers)) == ["finished"] * 2
    assert len(order(tmp_path)) == 6
    assert (tmp_path / "suite" / "a.partial-1").is_dir()
    made(specs, tmp_path, servers)
    assert len(order(tmp_path)) == 6, "a whole ring is not made again"


class Interrupting(Silent):
    """Presses Ctrl-C when it hears the ranks' first signs of life."""

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        if any(pulse.steps for pulse in pulses):
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_all_runs_of_a_ring_as_interrupted(tmp_path: Path, servers: Servers) -> None:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        specs = ring_of([("3", "spin")] * 2, tmp_path)
        found = run_campaign(specs, SuiteFolder(tmp_path / "suite"), machine_here(), Interrupting(), servers)
    except KeyboardInterrupt:  # both threads may have pressed, and the second press does not wait
        found = ()
    finally:
        signal.signal(signal.SIGINT, previous)
    assert all(outcome is not None and outcome.kind == "interrupted" for outcome in found)
    assert not [other for child in psutil.Process().children() for other in child.children(recursive=True)]


class Refusing(Silent):
    """A listener that breaks."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        raise RuntimeError(spec.name)


def test_an_error_in_one_thread_ends_the_others_and_comes_out(tmp_path: Path, servers: Servers) -> None:
    specs = ring_of([("2", "finish"), ("3", "spin")], tmp_path)
    with pytest.raises(RuntimeError):
        run_campaign(specs, SuiteFolder(tmp_path / "suite"), machine_here(), Refusing(), servers)


def test_a_disk_without_pipes_is_a_sentence(tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(turn_group.os, "mkfifo", refuse)
    with pytest.raises(BadRequest, match="takes no named pipes"):
        run_campaign(ring_of([("2", "finish")] * 2, tmp_path), SuiteFolder(tmp_path), machine_here(), Silent(), servers)


def test_runs_next_to_each_other_with_the_same_ring_belong_together() -> None:
    names = ["", "x", "x", "y", "y", "y", "", ""]
    specs = [dataclasses.replace(spec_of("turns.py"), turns=Turns(n, 0, 2) if n else None) for n in names]
    assert list(rings(specs)) == [(0, 1), (1, 3), (3, 6), (6, 7), (7, 8)]
    assert list(rings([])) == []


def test_runs_of_a_ring_that_have_enough_steps_end_together_and_all_that_count_were_made_in_turns(
    tmp_path: Path, servers: Servers
) -> None:
    runs = made(ring_of([("100000", "finish")] * 2, tmp_path, ranks=2, enough_steps=12), tmp_path, servers)
    assert kinds(runs) == ["enough"] * 2
    assert min(in_turn(run) for run in runs.values()) >= 11
