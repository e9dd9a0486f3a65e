"""Makes the runs of one request for a rehearsal, each as rank r of N or with all its ranks."""

from dataclasses import replace
from pathlib import Path

from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import Reporter
from scalewise.launch.campaign import run_campaign
from scalewise.launch.interrupts import Interrupts
from scalewise.plan.adhoc import script_suite
from scalewise.plan.seating import Seating, seating
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Change, Device, Rehearsed, RunSpec

ENOUGH_STEPS = 40  # enough of them are settled to determine the median step well


class RehearsalStage:
    """The runs of one request's script on this machine."""

    def __init__(self, request: RehearseRequest, reporter: Reporter, here: Here) -> None:
        self.request, self.reporter, self.here = request, reporter, here
        self.device: Device = _device(request, here.facts)
        self.seats: Seating = seating(here.facts, self.device, request.ranks)
        numbers = {1, *self.seats.counts, *(self.company(count) for count in request.ranks)}
        suite = script_suite(
            request.script,
            request.args,
            ranks=tuple(sorted(numbers)),
            device=request.device,
            limit_seconds=request.limit_seconds,
            stall_seconds=request.stall_seconds,
            in_place=request.in_place,
        )
        suite = replace(suite, name=f"{suite.name}-rehearse")
        plan = planned(suite, reporter, here)
        self._specs = {spec.ranks: spec for spec in plan.runs}
        self.runs: list[Run] = []  # all that were made
        self._left_out: dict[str, str] = {}  # parts of the watcher that have failed in this script
        self.folder: SuiteFolder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))

    def company(self, ranks: int) -> int:
        """Returns how many of these ranks are rehearsed at once: as many as fit."""
        return max(1, min(ranks, self.seats.slots))

    def rehearse(
        self,
        ranks: int,
        *,
        first: int = 0,
        company: int | None = None,
        name: str = "",
        args: tuple[str, ...] = (),
        changes: tuple[Change, ...] = (),
        inspect: bool = False,
    ) -> Run:
        """Rehearses `company` of that many ranks, from rank `first` on; without `company`, as many as fit."""
        spec = self._specs[company or self.company(ranks)]
        told = self.request.per_node or (self.request.link.ranks_per_node if self.request.link else 0)
        per_node = told or min(ranks, 8 if self.device == "cuda" else ranks)
        return self._made(
            replace(
                spec,
                name=f"rehearse{ranks}{name}",
                args=spec.args + args,
                kind=Rehearsed(ranks, first, per_node, inspected=inspect),
                changes=changes,
            )
        )

    def measure(
        self, ranks: int, *, name: str = "", args: tuple[str, ...] = (), changes: tuple[Change, ...] = ()
    ) -> Run:
        """Makes a run with that many real ranks."""
        spec = self._specs[ranks]
        return self._made(replace(spec, name=f"measure{ranks}{name}", args=spec.args + args, changes=changes))

    def _made(self, spec: RunSpec) -> Run:
        spec = replace(spec, enough_steps=ENOUGH_STEPS, without_hooks={**self._left_out, **spec.without_hooks})
        interrupts = Interrupts()
        with self.reporter.runs("rehearse") as progress:
            run_campaign([spec], self.folder, self.here.facts, progress, self.here.servers, interrupts)
        if interrupts.asked:
            raise KeyboardInterrupt
        run = load(self.folder.run(spec.name).path).runs[0]
        self.runs.append(run)
        if run.measured:
            self._left_out = run.spec.without_hooks
        return run

    @property
    def prediction_file(self) -> Path:
        """The file of predictions, which is written before anything is measured."""
        return self.folder.path / "prediction.json"


def _device(request: RehearseRequest, facts: MachineFacts) -> Device:
    if request.device == "auto":
        return "cuda" if facts.gpus else "cpu"
    return request.device
