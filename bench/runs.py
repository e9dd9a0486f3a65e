"""Real runs for benchmarks: specs by hand, made by the campaign that `scalewise run` uses."""

from collections.abc import Sequence
from pathlib import Path

from scalewise.launch.campaign import run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.plan.seating import seats
from scalewise.records.folder import SuiteFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import AxisValue, FolderUse, LauncherName, RunSpec


class Silent:
    """Hears the campaign and says nothing, but for a run that failed."""

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        """Nothing to say."""

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
        """Nothing to say."""

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """A benchmark over failed runs would be one of nothing."""
        if not outcome.measured:
            raise RuntimeError(f"{spec.name}: {outcome.sentence}")

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        """Nothing to say."""


def run_spec(
    script: Path,
    args: Sequence[str],
    name: str,
    machine: MachineFacts,
    *,
    ranks: int = 1,
    repeat: int = 0,
    launcher: LauncherName = "fork",
    axes: dict[str, AxisValue] | None = None,
    folder_use: FolderUse = "plain",
) -> RunSpec:
    """One run on CPU ranks of one core each."""
    seated = seats(machine.cores, ranks, [len(machine.cores)])
    return RunSpec(
        name=name,
        suite="bench",
        experiment="bench",
        script=str(script),
        args=tuple(args),
        cwd=str(script.parent),
        mode="torchrun",
        launcher=launcher,
        ranks=ranks,
        device="cpu",
        shares=seated.shares,
        threads_per_rank=1,
        oversubscribed=seated.oversubscribed,
        repeat=repeat,
        limit_seconds=120.0,
        stall_seconds=60.0,
        axes=axes or {},
        folder_use=folder_use,
    )


def made(specs: Sequence[RunSpec], folder: Path, machine: MachineFacts, servers: Servers) -> list[Outcome]:
    """Makes the runs in this order, each watched as `scalewise run` would watch it."""
    outcomes = run_campaign(specs, SuiteFolder(folder), machine, Silent(), servers)
    return [outcome for outcome in outcomes if outcome is not None]
