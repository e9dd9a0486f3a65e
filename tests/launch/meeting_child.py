"""One of two hosts that make three runs together; started, killed and started again by tests.

Its ranks are numbers that get older: those of one host wait for those of the other as at a rendezvous.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

from launch_runner import Silent, machine_here, spec_of

from factories import rank_lines
from scalewise.launch import host_part, hosts, meeting
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.launch.verdict import Exit, RankView
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Nodes, RunSpec

for module in (host_part, hosts, meeting):
    vars(module).update(LOST_SECONDS=1.2, REPORT_SECONDS=0.1)
meeting.WAIT_SECONDS = 15.0
RUN_SECONDS = 0.3


class OldeningRanks:
    """One rank, which ends a while after the one of the other host has come."""

    def __init__(self, spec: RunSpec, folder: RunFolder) -> None:
        assert spec.nodes is not None
        self.spec, self.folder, self.rank = spec, folder, spec.nodes.node_rank
        self.began, self.met = time.monotonic(), 0.0
        self.exits: dict[int, Exit] = {}
        self.memory_kills, self.all_started, self.hosts = 0, True, ()
        self._place(self.rank).write_text("here")

    def _place(self, rank: int) -> Path:
        assert self.spec.nodes is not None
        return self.folder.path / f"meets-{self.spec.nodes.master_port}.{rank}"

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        return bool(self.exits)

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))
        if not self.met and self._place(1 - self.rank).exists():
            self.met = self.seconds
        if self.met and self.seconds > self.met + RUN_SECONDS and not self.exits:
            self.folder.rank(self.rank).write_bytes(rank_lines(steps=20))
            self.exits[self.rank] = Exit(0, None, self.seconds)

    def views(self) -> tuple[RankView, ...]:
        return (RankView(self.rank, self.exits.get(self.rank), self.seconds, "forward", 20, 20),)

    def stacks(self, ranks: object) -> dict[int, tuple[str, ...]]:
        return {}

    def start_problem(self) -> tuple[str, str]:
        return "", ""

    def sample(self) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


class Oldening:
    def start(self, spec: RunSpec, folder: RunFolder) -> OldeningRanks:
        with open(folder.path.parent / "starts.log", "a") as log:
            log.write(f"{spec.name} {spec.nodes and spec.nodes.node_rank}\n")
        return OldeningRanks(spec, folder)


class Announcing(Silent):
    def started(self, index: int, total: int, spec: RunSpec) -> None:
        print("started", spec.name, flush=True)

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        print("ended", spec.name, outcome.kind, flush=True)


def main() -> None:
    out, node_rank = Path(sys.argv[1]), int(sys.argv[2])
    nodes = Nodes(2, node_rank, "host", 0)
    folder = meeting.meeting_folder(out, nodes)
    print("here", os.getpid(), flush=True)
    if node_rank:
        with Interrupts() as interrupts:
            found = meeting.attend(
                folder, nodes, "request", machine_here(), lambda *_: Oldening(), lambda text: print(text, flush=True),
                lambda: interrupts.asked,
            )  # fmt: skip
        print("attended", found[1], flush=True)
        return
    specs = [
        dataclasses.replace(spec_of("train_ddp.py"), name=name, ranks=1, launcher="torchrun", nodes=nodes)
        for name in ("one", "two", "three")
    ]
    with meeting.Planner(folder, nodes, "request") as planner:
        interrupts = Interrupts()
        met = meeting.MetHosts(planner, machine_here(), lambda *_: Oldening(), lambda: interrupts.asked)
        place, said = SuiteFolder(out / "suite"), Announcing()
        outcomes = run_campaign(specs, place, machine_here(), said, interrupts=interrupts, launcher=met)
        kinds = [outcome and outcome.kind for outcome in outcomes]
        planner.done(out / "suite", kinds == ["finished"] * 3)
    print("outcomes", kinds, flush=True)


main()
