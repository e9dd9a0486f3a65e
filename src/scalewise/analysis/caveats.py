"""Reasons to doubt a number: each caveat is one function, with its evidence in numbers and what to do about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalewise.analysis.arms import ArmRuns, Measured
from scalewise.analysis.estimate import Floats, estimate, t_quantile
from scalewise.analysis.machine_state import machine_state, throttle_text
from scalewise.analysis.series import step_modules
from scalewise.records.changes import declared
from scalewise.records.load import Run
from scalewise.records.spec import Change, RunSpec
from scalewise.records.wrapped import CONCERNS, not_observed
from scalewise.units import counted, seconds_text

FEWEST_STEPS = 20  # over all runs: with fewer, the correlation of neighbouring steps cannot be estimated
LEAST_STEPS = 30  # the course asks for 30; with fewer, an interval of a median is wider than most effects
WIDEST_REACH = 0.10  # half the interval over the median: a wider one cannot tell 1.6 times as fast from twice
LARGEST_DRIFT = 0.03  # over the run: above the spread between fresh processes, it would decide comparisons
DRIFT_BLOCKS = 10  # medians of tenths are nearly independent even if neighbouring steps are correlated
DRIFT_CONFIDENCE = 0.99  # every arm of every suite is tested, so at 95 % there would be false alarms daily

LEAST_UNLIKE = 3  # different amounts of bytes: accumulation has two (steps with and without), a sweep many
LAST_STEPS_OUT_OF_TURN = 2  # a ring ends when its first run does: the last steps of the others are out of turn
WATCHING_SECONDS = 55e-6  # what watching added to each step of DDP's tutorial (2 CPU cores, 2026-11-19, docs/log.md)
MOST_WATCHING = 0.05  # share of the step above which it is reported
OUT_OF_TURN_SHARE = 0.05  # so few could not move a median, even if they counted


@dataclass(frozen=True)
class Caveat:
    """A reason to doubt a number. A `doubt` makes it untrustworthy, a `note` helps to read it.

    A doubt that only says how far the number may be off is `imprecise`: more steps cure it. Any other is a reason not
    to believe the number at all.
    """

    name: str
    severity: Literal["note", "doubt"]
    evidence: str
    remedy: str
    imprecise: bool = False

    @property
    def sign(self) -> str:
        """The word that is shown in front of the caveat."""
        if self.severity == "note":
            return "note"
        return "IMPRECISE" if self.imprecise else "DOUBT"


def caveats_of(arm: ArmRuns) -> tuple[Caveat, ...]:
    """Every caveat that applies to the arm."""
    found = (check(arm) for check in CHECKS)
    return tuple(caveat for caveat in found if caveat is not None)


def failed(arm: ArmRuns) -> Caveat | None:
    """A caveat about runs that failed or have not finished."""
    bad = [run for run in arm.runs if not run.measured]
    if not bad:
        return None
    first = bad[0].outcome.sentence if bad[0].outcome else "not finished yet"
    return Caveat(
        "failed runs",
        "doubt",
        f"{len(bad)} of {len(arm.runs)} runs: {first}",
        f"see {bad[0].folder.name}/ for its logs; the same command makes what is unfinished, with --again everything",
    )


def oversubscribed(arm: ArmRuns) -> Caveat | None:
    """A caveat about more ranks than shares of cores."""
    if not arm.spec.oversubscribed:
        return None
    shares = len(set(arm.spec.shares))
    return Caveat(
        "oversubscribed",
        "note",
        f"{arm.spec.ranks} ranks share {counted(shares, 'share')} of cores",
        "read it as a test that it runs, not as scaling; use a machine with more cores",
    )


def emulated(arm: ArmRuns) -> Caveat | None:
    """A caveat about devices that this machine does not have."""
    if not arm.spec.emulated:
        return None
    machine = arm.runs[0].machine
    gpus = len(machine.gpus) if machine else 0
    return Caveat(
        "emulated",
        "note",
        f"more devices than the machine has GPUs ({gpus}): logical devices or ranks that share a GPU stand in for them",
        "copies, memory and order are real; read no scaling from the times, and repeat it on more GPUs",
    )


def other_hosts(arm: ArmRuns, arms: Sequence[ArmRuns]) -> Caveat | None:
    """A caveat about hosts: arms are compared as if they had run on the same ones, of which some use fewer."""
    of_runs = list(dict.fromkeys(one.run.hosts for one in arm.measured))
    if len(of_runs) > 1 and any(run.spec.nodes for run in arm.runs):
        evidence = f"its runs lay on different hosts: {'; '.join(map(_listed, of_runs))}"
        return Caveat("other hosts", "doubt", evidence, _SAME_HOSTS)
    first = next((other for other in arms if other.measured and other.spec.nodes), None)
    if not of_runs or first is None or first is arm:
        return None
    here, there = set(of_runs[0]), set(first.measured[0].run.hosts)
    if here <= there or there <= here:
        return None
    evidence = f"{_listed(of_runs[0])}, and {first.label} on {_listed(first.measured[0].run.hosts)}"
    return Caveat("other hosts", "doubt", evidence, _SAME_HOSTS)


def unlike_hosts(arm: ArmRuns) -> Caveat | None:
    """A caveat about hosts that differ: the slowest decides every step."""
    for one in arm.measured:
        kinds = {(facts.cpu_model, len(facts.cores), *(gpu.name for gpu in facts.gpus)) for facts in one.run.machines}
        if len(kinds) > 1:
            named = "; ".join(" ".join(map(str, (kind[0], f"{kind[1]} cores", *kind[2:]))) for kind in sorted(kinds))
            remedy = "ask for hosts of one kind (--slurm constraint=...)"
            return Caveat("unlike hosts", "doubt", f"{one.run.spec.name}: {named}", remedy)
    return None


def _listed(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:4])
    return f"{shown} and {len(hosts) - 4} more" if len(hosts) > 4 else shown


_SAME_HOSTS = "measure all arms in one job, or on named hosts (--slurm nodelist=...)"


def loaded_machine(arm: ArmRuns) -> Caveat | None:
    """A caveat about other load on the cores while the run was measured."""
    evidence = load_beside([one.run for one in arm.measured])
    if not evidence:
        return None
    remedy = "end other work on the machine, or repeat more often with arms interleaved"
    return Caveat("loaded machine", "doubt", evidence, remedy)


def load_beside(runs: Sequence[Run]) -> str:
    """A text about how many of these runs had other load on their cores, and the worst of it; empty if none had."""
    states = [(machine_state(run), run.spec.name) for run in runs]
    loaded = [(state, name) for state, name in states if state.loaded]
    if not loaded:
        return ""
    worst, name = max(loaded, key=lambda item: item[0].foreign or 0.0)
    return f"{len(loaded)} of {len(states)} runs, worst {name}: {worst.text()}"


def too_few_steps(arm: ArmRuns) -> Caveat | None:
    """A caveat about a median that the steps of all runs do not determine well; other load has a caveat of its own."""
    if not arm.measured or unlike_steps(arm):
        return None
    medians = [one.median for one in arm.measured]
    steps, reach = sum(one.steps for one in medians), estimate(medians).half_width
    if steps >= FEWEST_STEPS and reach <= WIDEST_REACH:
        return None
    few = steps < FEWEST_STEPS
    return Caveat(
        "too few steps",
        "doubt",
        f"{steps} steps after warm-up fix the median to ±{reach * 100:.0f} %",
        f"let the script make at least {LEAST_STEPS}, or repeat it (--repeat)"
        if few
        else f"they vary much: repeat more often (--repeat {_repeats_for(reach, len(medians))})",
        imprecise=True,
    )


def _repeats_for(reach: float, runs: int) -> int:
    """The number of runs after which the interval is narrow enough; it shrinks with the root of their number."""
    return max(runs + 1, math.ceil(runs * (reach / WIDEST_REACH) ** 2)) if math.isfinite(reach) else runs + 1


def unlike_steps(arm: ArmRuns) -> bool:
    """Tells whether steps differ by design, as in a sweep over message sizes, so that their median means nothing.

    DDP has other buckets in its first steps, but the same bytes in all, so only bytes are compared.
    """
    steps = [step for one in arm.measured for rank in one.run.ranks for step in rank.steps]
    sizes = {sum(size for _, size in step.collectives.values()) for step in steps}
    return len(sizes) > LEAST_UNLIKE


def warmup_not_over(arm: ArmRuns) -> Caveat | None:
    """A caveat about runs that had not settled after a third of their steps."""
    still = [] if unlike_steps(arm) else [one for one in arm.measured if not one.series.warmup.over]
    if not still:
        return None
    return Caveat(
        "warm-up not over",
        "doubt",
        f"{len(still)} of {len(arm.measured)} runs had not settled after {still[0].series.warmup.steps} steps",
        "let the script make more steps",
        imprecise=True,
    )


def drift(arm: ArmRuns) -> Caveat | None:
    """A caveat about steps that grew or shrank over the run, beyond chance and by a relevant amount."""
    if unlike_steps(arm):
        return None
    changes = [(relative_drift(one.series.slowest_seconds[one.series.settled]), one) for one in arm.measured]
    worst, one = max(changes, key=lambda item: abs(item[0]), default=(0.0, None))
    if one is None or abs(worst) <= LARGEST_DRIFT:
        return None
    return Caveat(
        "drift",
        "doubt",
        f"steps became {abs(worst) * 100:.0f} % {'slower' if worst > 0 else 'faster'} over {one.run.spec.name}",
        "look for growing memory, heating or other load; make more steps and look at the curve",
    )


def relative_drift(seconds: Floats) -> float:
    """The relative change over the run, from a line through block medians; zero if it may be chance."""
    if len(seconds) < LEAST_STEPS:
        return 0.0
    blocks = np.array([np.median(block) for block in np.array_split(seconds, DRIFT_BLOCKS)])
    place = np.linspace(-0.5, 0.5, DRIFT_BLOCKS)
    slope = float(place @ blocks / (place @ place))
    residual = blocks - blocks.mean() - slope * place
    degrees = DRIFT_BLOCKS - 2
    error = float(np.sqrt(residual @ residual / degrees / (place @ place)))
    if abs(slope) <= t_quantile(DRIFT_CONFIDENCE, degrees) * error:
        return 0.0
    return slope / float(np.median(blocks))


def turns_broken(arm: ArmRuns) -> Caveat | None:
    """A caveat about partners that left the ring early, so that the other steps were made out of turn."""
    for one in arm.measured:
        taken, made = one.series.in_turn, one.series.step_seconds.shape[1]
        if taken is not None and made - taken > max(LAST_STEPS_OUT_OF_TURN, OUT_OF_TURN_SHARE * made):
            rest = "the others do not count" if one.series.counted is not None else "all count, beside others or not"
            return Caveat(
                "turns broken",
                "note" if one.series.counted is not None else "doubt",
                f"{taken} of {made} steps of {one.run.spec.name} were taken in turn; {rest}",
                "see how its partners ended; all arms that take turns should make as many steps",
            )
    return None


def throttled(arm: ArmRuns) -> Caveat | None:
    """A caveat about a GPU that was slowed by power, heat or its clocks."""
    texts = [(throttle_text(one.run), one.run.spec.name) for one in arm.measured]
    held = [f"{name}: {text}" for text, name in texts if text]
    if not held:
        return None
    remedy = "lock the clocks (nvidia-smi -lgc) or compare only runs made under the same cap"
    return Caveat("throttled", "doubt", held[0], remedy)


def restricted_isa(arm: ArmRuns) -> Caveat | None:
    """A caveat about a narrower instruction set, used because advertised instructions kill a training step."""
    caps = {one.run.machine.isa_cap for one in arm.measured if one.run.machine and one.run.machine.isa_cap}
    if not caps or arm.spec.device != "cpu":
        return None
    return Caveat(
        "restricted ISA",
        "note",
        f"oneDNN is capped at {', '.join(sorted(caps))}, because wider instructions failed on this CPU",
        "low precision may be slower here than on a CPU that keeps its promises; compare within this machine",
    )


def watcher_incomplete(arm: ArmRuns) -> Caveat | None:
    """A caveat about missing records."""
    gaps = [gap for one in arm.measured for gap in _gaps(one)]
    if not gaps:
        return None
    more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    return Caveat(
        "watcher incomplete",
        "doubt",
        f"{gaps[0]}{more}",
        "the script was not disturbed, but what is named is missing or cannot be relied on",
    )


def hooks_left_out(arm: ArmRuns) -> Caveat | None:
    """A caveat about a part of the watcher that failed in this script, so that the run was made again without it."""
    without = {name: why for run in arm.runs for name, why in run.spec.without_hooks.items()}
    if not without:
        return None
    essential = any(name in CONCERNS and CONCERNS[name].essential for name in without)
    return Caveat(
        "not observed",
        "doubt" if essential else "note",
        "; ".join(not_observed(without)),
        "the script is not to blame; please report it with the run's folder",
    )


def _gaps(one: Measured) -> list[str]:
    run, spec = one.run, one.run.spec
    gaps = [*_not_applied(one), *run.notes]
    if len(run.ranks) < spec.ranks:
        gaps.append(f"{spec.ranks - len(run.ranks)} of {spec.ranks} ranks left no records in {spec.name}")
    counts = {len(rank.steps) for rank in run.ranks}
    if len(counts) > 1:
        gaps.append(f"ranks recorded between {min(counts)} and {max(counts)} steps in {spec.name}")
    for rank in run.ranks:
        if rank.trouble:
            gaps.append(f"rank {rank.rank}: {rank.trouble[0].where}: {rank.trouble[0].error}")
        if rank.torn_lines or rank.bad_lines:
            lines = rank.torn_lines + len(rank.bad_lines)
            gaps.append(f"rank {rank.rank}: {counted(lines, 'line')} torn or damaged")
        if rank.end is None and run.outcome and run.outcome.kind == "finished":
            gaps.append(f"rank {rank.rank}: no end row, later rows may be missing")
    return gaps


def _not_applied(one: Measured) -> list[str]:
    spec = one.run.spec
    return [
        f"{change.label()} was applied 0 times in {spec.name}"
        for change in spec.changes
        if not one.run.applied(change.name) and not _nothing_to_change(change, spec)
    ]


def _nothing_to_change(change: Change, spec: RunSpec) -> bool:
    """Tells whether there is nothing to change: one rank has no messages, and removed messages have no delay."""
    known = declared(change.name)
    return spec.world_size < known.least_ranks or any(one.name in known.void_beside for one in spec.changes)


def ranks_apart(arm: ArmRuns) -> Caveat | None:
    """A caveat about ranks that never exchange anything, so that they are separate trainings."""
    relation = arm.measured[0].series.relation if arm.measured else None
    if relation is None or relation.kind != "apart":
        return None
    evidence = f"{relation.evidence}; this is {relation.ranks} trainings, not a speedup"
    remedy = "wrap the model in DistributedDataParallel, or average the gradients; scalewise doctor says where"
    return Caveat("ranks train apart", "doubt", evidence, remedy)


def resumed(arm: ArmRuns) -> Caveat | None:
    """A caveat about a run that read a checkpoint: an earlier run's makes repeats unlike, the user's may be meant."""
    worlds = [(run.spec.name, run.outcome.world) for run in arm.runs if run.outcome and run.outcome.world]
    reads = [(name, file) for name, world in worlds for file in world.read]
    earlier = [(name, file) for name, file in reads if file.written_by]
    if earlier:
        return Caveat(
            "read an earlier run's file",
            "doubt",
            f"{len({name for name, _ in earlier})} of {len(arm.runs)} runs; "
            f"{earlier[0][0]} read {earlier[0][1].text()}",
            "a run that resumes from another is no repeat: leave --in-place out, so that all start from the same state",
        )
    if not reads:
        return None
    return Caveat(
        "read a checkpoint",
        "note",
        f"{len({name for name, _ in reads})} of {len(arm.runs)} runs read {reads[0][1].text()}",
        "if the script resumed from it, these are steps of a training that goes on; move it away to measure a new one",
    )


def samples_unknown(arm: ArmRuns) -> Caveat | None:
    """A caveat about samples of a step that could not be counted."""
    reasons = (step_modules(one.run, one.series).samples_unknown for one in arm.measured)
    reason = next(filter(None, reasons), "")
    if not reason:
        return None
    return Caveat(
        "samples unknown",
        "note",
        f"samples/s is not given: {reason}",
        "step times are not touched; to compare numbers of ranks, let a suite declare its scaling",
    )


def short_steps(arm: ArmRuns) -> Caveat | None:
    """A caveat about steps so short that watching them is a noticeable part of each."""
    if not arm.measured:
        return None
    seconds = min(float(np.median(one.series.slowest_seconds[one.series.settled])) for one in arm.measured)
    if not 0 < seconds * MOST_WATCHING < WATCHING_SECONDS:
        return None
    return Caveat(
        "short steps",
        "note",
        f"a step takes {seconds_text(seconds)}; watching one took {seconds_text(WATCHING_SECONDS)} where that was "
        "measured (DDP, two CPU cores)",
        "compare such steps with one another, not with a time from elsewhere; a larger batch makes the share small",
    )


CHECKS: tuple[Callable[[ArmRuns], Caveat | None], ...] = (
    failed,
    oversubscribed,
    emulated,
    loaded_machine,
    unlike_hosts,
    too_few_steps,
    warmup_not_over,
    drift,
    turns_broken,
    throttled,
    restricted_isa,
    watcher_incomplete,
    hooks_left_out,
    ranks_apart,
    resumed,
    samples_unknown,
    short_steps,
)
