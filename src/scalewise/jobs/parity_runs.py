"""The runs of one comparison: what was asked for, where they are made, and how one is made and read."""

from dataclasses import dataclass, replace
from pathlib import Path

from scalewise.agreement.compared_run import ComparedRun, compared_run
from scalewise.errors import BadRequest
from scalewise.jobs.diagnose import examined_run
from scalewise.jobs.measure import Here, Where, planned, suite_folder
from scalewise.jobs.reporter import Reporter
from scalewise.jobs.requests import ScriptRequest
from scalewise.plan.experiment import Examination
from scalewise.records.examination import LauncherRow
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.load import Run
from scalewise.records.spec import Change, RunSpec
from scalewise.units import counted, without_stop

STEPS = 6
MOST_STEPS = 1000
MOST_LETTERS = 200  # of what a script printed last


@dataclass(frozen=True)
class ParityRequest(ScriptRequest):
    """The script whose ranks are compared with one rank, and the options for it."""

    ranks: int = 2
    steps: int = STEPS
    on_cpu: bool = False
    changes: tuple[Change, ...] = ()
    causes: bool = True
    against: Path | None = None  # another script, instead of one rank
    resume: bool = False  # the script stopped and started again, instead of one rank
    resume_args: tuple[str, ...] = ()  # in place of `args` when it is started again; empty: the same


class Untold(Exception):
    """Raised when it cannot be told whether two runs compute the same; the reason is the verdict."""


@dataclass(frozen=True)
class ParityRuns:
    """Makes the runs of one comparison in a folder of their own; those of one rank and of several are planned."""

    request: ParityRequest
    reporter: Reporter
    here: Here
    folder: SuiteFolder
    alone: RunSpec
    together: RunSpec

    def make(self, spec: RunSpec) -> Run:
        """Makes one run and reads it."""
        self.reporter.say(f"running {spec.name}, {counted(spec.ranks, 'rank')}, {spec.enough_steps - 1} steps")
        run = examined_run(spec, self.folder, self.here, self.reporter, "compare")
        if any(isinstance(row, LauncherRow) for rank in run.ranks for row in rank.examination):
            raise BadRequest(
                f"{self.request.script.name} starts its ranks itself: it cannot be run on another number of ranks.",
                "Give it arguments with which torchrun starts its ranks, if it has such.",
            )
        return run

    def make_compared(self, spec: RunSpec, what: str) -> ComparedRun:
        """Makes one run whose rows are needed; Untold if it has none."""
        run = compared_run(self.make(spec))
        if run.steps and not run.names(0) and not any(row.calls for row in run.given.get(0, {}).values()):
            raise Untold("the optimizer goes forward and backward inside its own steps (a closure), unseen by others")
        if run.steps:
            return run
        outcome = run.run.outcome
        ended = outcome.sentence if outcome else "it has not ended"
        if outcome is not None and outcome.kind == "no_steps":
            raise Untold(f"{what} made no optimizer step{_last_words(run.run)}")
        raise Untold(f"{what} did not get through the first steps: {without_stop(ended)}")


def parity_runs(request: ParityRequest, reporter: Reporter, here: Here) -> ParityRuns:
    """Plans the runs of one rank and of several, in a folder of their own."""
    examination = Examination(on_cpu=request.on_cpu)
    suite = request.suite((1, request.ranks), examination=examination, changes=(request.changes,))
    suite = replace(suite, name=f"{suite.experiments[0].name}-parity")
    plan = planned(suite, reporter, here)
    found = {spec.ranks: spec for spec in plan.runs}
    if set(found) != {1, request.ranks}:
        raise BadRequest(f"{request.ranks} ranks cannot run here.", "Use --device cpu, or fewer ranks.")
    folder = suite_folder(suite, plan, here.facts, Where(request.out, again=True))
    threads = max(1, len(here.facts.cores) // request.ranks)
    alone, together = (replace(found[ranks], threads_per_rank=threads) for ranks in (1, request.ranks))
    if request.on_cpu:
        alone = replace(alone, devices=request.ranks)  # some scripts refuse to work with fewer GPUs than they want
    return ParityRuns(request, reporter, here, folder, alone, together)


def _last_words(run: Run) -> str:
    """The last line that rank 0 printed, where it may say why it did not train."""
    path = RunFolder(run.folder).stdout(0)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last line was: {last[:MOST_LETTERS]}" if last else ""
