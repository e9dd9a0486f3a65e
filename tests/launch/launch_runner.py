"""What the tests of the launchers share: where their scripts are, and a run that is over."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Launched:
    """A run that is over."""

    outcome: Outcome
    folder: RunFolder

    def stdout(self, rank: int = 0) -> str:
        return self.folder.stdout(rank).read_text()

    def stderr(self, rank: int = 0) -> str:
        return self.folder.stderr(rank).read_text()


Launch = Callable[..., Launched]


class Silent:
    """A listener that does nothing."""

    def started(self, index: int, total: int, spec: RunSpec) -> None: ...

    def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None: ...

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None: ...

    def skipped(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None: ...


def machine_here() -> MachineFacts:
    """This machine's cores; the rest is made up."""
    return MachineFacts(
        host="here",
        system="Linux",
        cpu_model="some",
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=1 << 30,
        governor=None,
        virtual=False,
        isa_advertised=(),
        isa_cap="",
        probes=(),
        gpus=(),
    )


def spec_of(script: str, *args: str) -> RunSpec:
    """Two ranks of one of the tests' scripts, from the fork server."""
    return RunSpec(
        name="run",
        suite="suite",
        experiment="experiment",
        script=str(SCRIPTS / script),
        args=args,
        cwd=str(SCRIPTS),
        mode="torchrun",
        launcher="fork",
        ranks=2,
        device="cpu",
        shares=(),
        threads_per_rank=1,
        oversubscribed=False,
        repeat=0,
        limit_seconds=240.0,
        stall_seconds=60.0,
    )
