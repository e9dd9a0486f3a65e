"""One replay from end to end, with real ranks: a loop that reduces every micro-batch and does not divide its loss."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from factories import make_machine, make_spec
from scalewise.doctor.case import case_of
from scalewise.doctor.finding import Diagnosis, Finding
from scalewise.doctor.replay import replay_findings
from scalewise.doctor.run_checks import diagnosis_of
from scalewise.jobs.diagnose import maker
from scalewise.jobs.measure import Here
from scalewise.launch.forkserver import Servers
from scalewise.plan.replays import LEAST_STEPS
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import Change, Examined, RunSpec

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    for step in range(1000):
        optimizer.zero_grad()
        for _ in range(4):
            x = torch.randn(16, 64)
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
"""


# Every all-reduce takes 10 ms, so that three fewer in a step are a gain on a machine of any load.
SLOW_LINK = Change("emulate_link", {"seconds": 0.01, "bytes_per_second": 1e9})


class Quiet:
    """Listens and says nothing."""

    def started(self, index: int, total: int, spec: RunSpec) -> None: ...

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None: ...

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None: ...

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None: ...


Replayed = tuple[Diagnosis, Diagnosis, list[Run]]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Replayed:
    """What observation says, what the replays make of it, and their runs."""
    home = tmp_path_factory.mktemp("replay")
    script = home / "train.py"
    script.write_text(SCRIPT)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    machine: MachineFacts = make_machine(cores=len(cores))
    make = maker(SuiteFolder(home / "runs"), Here(servers, machine), Quiet())
    spec = replace(make_spec(2), script=str(script), args=(), cwd=str(home), shares=(), kind=Examined())
    spec = replace(spec, changes=(SLOW_LINK,))
    (run,) = make([replace(spec, name="observed", enough_steps=12)])
    runs: list[Run] = []

    def make_and_keep(specs: list[RunSpec]) -> list[Run]:
        # How long a replay may take is planned from values, and tested so; here a busy machine may take longer.
        made = list(make([replace(spec, limit_seconds=240.0) for spec in specs]))
        runs.extend(made)
        return made

    case = case_of(run)
    observed = diagnosis_of(case)
    return observed, replay_findings(case, observed, make_and_keep), runs  # type: ignore[arg-type]


def _finding(diagnosis: Diagnosis, check: str) -> Finding:
    return next(one for one in diagnosis.findings if one.check == check)


def test_both_mistakes_are_observed_and_carry_their_changes(replayed) -> None:
    observed, _, runs = replayed
    found = {one.check: one.change.label() for one in observed.findings if one.change}
    assert found == {"loss-not-divided": "divide_loss by=4", "sync-every-micro-batch": "no_sync window=4"}
    assert {run.outcome.kind for run in runs} == {"enough"}
    assert len(runs) == 6  # the one that costs time is run once more, to be timed


def test_the_divided_loss_is_proved_by_the_gradient(replayed) -> None:
    finding = _finding(replayed[1], "loss-not-divided")
    assert finding.proof == "replayed", finding.evidence
    assert finding.price and finding.price.value == pytest.approx(4.0, rel=1e-4)


def test_no_sync_is_measured_in_turns_step_by_step(replayed) -> None:
    finding = _finding(replayed[1], "sync-every-micro-batch")
    assert finding.proof == "replayed", finding.evidence
    assert any("with the fix a step takes" in fact for fact in finding.evidence), finding.evidence
    by_name = {run.spec.name: run for run in replayed[2]}
    for name in ("plain", "mended"):
        run = by_name[f"replay-no-sync-window-4-r1-{name}"]
        assert sum(row.turn_ns is not None for row in run.ranks[0].steps) >= run.spec.enough_steps >= LEAST_STEPS


def test_the_mended_run_reduces_a_quarter_of_the_bytes(replayed) -> None:
    def bytes_a_step(run: Run) -> set[int]:
        return {row.collectives["all_reduce"][1] for row in run.ranks[0].steps}

    by_name = {Path(run.folder).name: run for run in replayed[2]}
    (plain,) = bytes_a_step(by_name["replay-no-sync-window-4-r0-plain"])
    (fixed,) = bytes_a_step(by_name["replay-no-sync-window-4-r0-mended"])
    assert plain == 4 * fixed > 0
