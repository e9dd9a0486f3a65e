"""Makes the runs of a suite: looks at the machine, plans, launches, and keeps the suite's text beside the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.jobs.reporter import Reporter
from scalewise.launch.campaign import Interrupts, disk_trouble_explained, locked, run_campaign
from scalewise.launch.forkserver import Servers
from scalewise.launch.launcher import Launcher
from scalewise.launch.local import TorchrunLauncher
from scalewise.launch.meeting import MetHosts, Planner, attend, meeting_folder
from scalewise.launch.slurm.follow import inside
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.expand import Plan, Refusal, expand, folder_name
from scalewise.plan.experiment import Suite
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Nodes
from scalewise.units import counted


@dataclass(frozen=True)
class Where:
    """The place for runs: a folder in `out`, the same one for the same request unless `again` asks for a new one."""

    out: Path = Path("runs")
    again: bool = False


@dataclass(frozen=True)
class Here:
    """The facts about this machine, and the server processes that start ranks on it."""

    servers: Servers
    facts: MachineFacts
    launcher: Launcher | None = None  # of all runs; None: of each the one that its experiment names
    interrupts: Interrupts | None = None  # None: those of each campaign


def measure(suite: Suite, reporter: Reporter, where: Where, nodes: Nodes | None = None) -> tuple[SuiteFolder, bool]:
    """Makes every run that is not made yet; returns the folder, and whether all runs are made.

    With `nodes`, scalewise was started by hand on several hosts: host 0 plans, and the others take part in its runs.
    """
    if nodes is not None:
        reporter.say("several hosts: scripts work in the folder itself, by which ranks may share files")
    reporter.say("looking at the machine")
    with Servers() as servers:
        here = Here(servers, machine_facts(servers))
        return (
            measure_here(suite, reporter, where, here) if nodes is None else _met(suite, reporter, where, here, nodes)
        )


def _met(suite: Suite, reporter: Reporter, where: Where, here: Here, nodes: Nodes) -> tuple[SuiteFolder, bool]:
    """Makes the runs together with scalewise on other hosts."""
    request = "" if where.again else sha256(suite.source.encode()).hexdigest()
    folder = meeting_folder(where.out, nodes)

    def own(run: RunFolder, node_rank: int) -> Launcher:
        return TorchrunLauncher(here.facts, here.servers, run.spec_on(node_rank))

    if nodes.node_rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        interrupts = Interrupts()
        with locked(folder), Planner(folder, nodes, request) as planner:
            met = MetHosts(planner, here.facts, own, lambda: interrupts.asked)
            here = replace(here, launcher=met, interrupts=interrupts)
            made, complete = measure_here(suite, reporter, where, here, nodes)
            planner.done(made.path, complete)
        return made, complete
    with Interrupts() as interrupts:
        found, complete = attend(folder, nodes, request, here.facts, own, reporter.say, lambda: interrupts.asked)
    if found is None:
        raise BadRequest("Host 0 ended before it made a run.", "It says why; then start the same command on all hosts.")
    return SuiteFolder(found), complete


def measure_here(
    suite: Suite, reporter: Reporter, where: Where, here: Here, nodes: Nodes | None = None
) -> tuple[SuiteFolder, bool]:
    """Does the same as `measure`, on a machine whose facts are known already."""
    if suite.under_slurm and not inside():
        raise BadRequest("Runs under Slurm need an allocation.", "Use scalewise run, which submits a job, or salloc.")
    plan = planned(suite, reporter, here, nodes)
    if any(spec.inspected for spec in plan.runs):
        from scalewise.jobs.machine_probes import with_peaks

        here = with_peaks(here, plan.runs, reporter)
    folder = suite_folder(suite, plan, here.facts, where)
    reporter.say(f"{counted(len(plan.runs), 'run')} into {folder.path}")
    with reporter.runs("measure") as progress:
        outcomes = run_campaign(plan.runs, folder, here.facts, progress, here.servers, here.interrupts, here.launcher)
    return folder, _all_made(reporter, outcomes)


def planned(suite: Suite, reporter: Reporter, here: Here, nodes: Nodes | None = None) -> Plan:
    """Returns the runs of a suite that can be made here; raises a BadRequest if there are none."""
    plan = expand(suite, here.facts, Path.cwd(), nodes=nodes)
    _narrate_refusals(reporter, plan.refusals)
    if not plan.runs:
        raise BadRequest("Nothing of it can run here.", _remedies(plan.refusals))
    return plan


def suite_folder(suite: Suite, plan: Plan, facts: MachineFacts, where: Where) -> SuiteFolder:
    """Returns the folder of the request, where earlier runs of it are continued; `again` takes the next free number."""
    name = folder_name(suite, plan, facts)
    path = where.out / name
    number = 2
    while where.again and path.exists():
        path = where.out / f"{name}-{number}"
        number += 1
    folder = SuiteFolder(path)
    with disk_trouble_explained(path):
        path.mkdir(parents=True, exist_ok=True)
        if not folder.suite.exists():
            folder.suite.write_text(suite.source, encoding="utf-8")
            write_json(folder.machine, facts)
    return folder


def _narrate_refusals(reporter: Reporter, refusals: Sequence[Refusal]) -> None:
    """Reports one line for each experiment and reason, however many arms the reason stops."""
    arms: dict[tuple[str, str, str], list[str]] = {}
    for one in refusals:
        arms.setdefault((one.experiment, one.reason, one.remedy), []).append(one.what)
    for (experiment, reason, remedy), what in arms.items():
        which = what[0] if len(what) == 1 else f"{len(what)} arms, such as {what[0]}"
        reporter.say(f"not run: {experiment}, {which}: {reason}; {remedy}", tone="warning")


def _remedies(refusals: Sequence[Refusal]) -> str:
    return "; ".join(dict.fromkeys(f"{one.reason}: {one.remedy}" for one in refusals)) + "."


def _all_made(reporter: Reporter, outcomes: Sequence[Outcome | None]) -> bool:
    unmade = sum(outcome is None or outcome.kind == "interrupted" for outcome in outcomes)
    if unmade:
        reporter.say(f"interrupted: {unmade} of {len(outcomes)} runs are still to be made; the same command continues")
    return not unmade
