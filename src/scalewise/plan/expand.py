"""Expands a suite for a machine into runs, in running order, and refusals with reasons; starts nothing."""

import dataclasses
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scalewise.plan.experiment import BUILT_IN, CASE, COURSE, Arm, Experiment, Suite, shrunk, subject_folder
from scalewise.plan.find import script_path, script_problem
from scalewise.plan.python_file import script_digest
from scalewise.plan.seating import Seats, seats
from scalewise.plan.words import changes_text, filled, placeholders, value_text
from scalewise.records.changes import declared
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import (
    AxisValue,
    Device,
    Examined,
    FolderUse,
    Inspected,
    Nodes,
    Rehearsed,
    RunSpec,
    Timed,
    Turns,
)
from scalewise.units import counted


def turns_problem(experiment: Experiment, nodes: Nodes | None) -> tuple[str, str] | None:
    """The reason why the arms of this experiment cannot take turns and what would help, or None if they can."""
    if nodes is not None or experiment.nodes not in ((), (1,)):
        return "turns are taken on one host", "run it on one host, or leave turns out"
    if experiment.launcher != "fork":
        return f"launcher {experiment.launcher} starts one run at a time", "take turns with the fork launcher"
    if len(experiment.arms()) == len(set(experiment.ranks)):
        remedy = "add an axis, a case or a change (--change) to compare with, or leave turns out"
        return "there is only one arm for each number of ranks, so it has none to take turns with", remedy
    return None


def in_rings(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs, those of each ring next to each other; one whose partners were all refused is made alone.

    The clock of a run goes on while it waits for its turn, so its time limit grows with the number of runs in the ring.
    """
    groups: dict[tuple[object, ...], list[RunSpec]] = {}
    for spec in runs:
        groups.setdefault((spec.repeat, spec.ranks, spec.device, spec.shares), []).append(spec)
    made = []
    for group in groups.values():
        size, first = len(group), group[0]
        ring = f"{first.experiment}-ranks{first.ranks}-r{first.repeat}"
        for index, spec in enumerate(group):
            turns = Turns(ring, index, size) if size > 1 else None
            made.append(replace(spec, turns=turns, limit_seconds=spec.limit_seconds * size))
    return made


GPUS_PER_NODE = 8  # as the script is told; CPU ranks are all on one node


def rehearsals(
    experiment: Experiment, machine: MachineFacts, spec_of: Callable[[Arm], RunSpec]
) -> Iterator[tuple[Arm, RunSpec]]:
    """Yields a rehearsal without changes for every number of ranks asked for that cannot be measured here.

    If there is any, the largest number that can be measured is rehearsed as well: as it is measured too, it shows the
    error of a prediction. A machine with too few GPUs for any of them rehearses as many ranks as it has GPUs.
    """
    absent = [count for count in experiment.rehearse if not _here(spec_of(_any_arm(experiment, count)), machine)]
    if not absent:
        return
    known = [count for count in experiment.rehearse if count not in absent and count in experiment.ranks]
    gpus = len(machine.gpus)
    if not known and (gpus in experiment.ranks or experiment.few_gpus == "reduce"):
        known = [gpus] if spec_of(_any_arm(experiment, min(absent))).device == "cuda" else []
    for arm in replace(experiment, ranks=(*sorted(known)[-1:], *sorted(absent)), changes=((),)).arms():
        yield arm, _as_rehearsal(spec_of(arm), machine)


def rehearsal_names(names: Sequence[str], arms: Sequence[Arm]) -> list[str]:
    """The names of rehearsed runs: `strong-scaling-ranks8` becomes `strong-scaling-rehearse8`."""
    ends = [f"ranks{arm.ranks}" for arm in arms]
    return [
        f"{name.removesuffix(end)}rehearse{arm.ranks}" if name.endswith(end) else f"{name}-rehearse{arm.ranks}"
        for name, end, arm in zip(names, ends, arms, strict=True)
    ]


def _any_arm(experiment: Experiment, ranks: int) -> Arm:
    return replace(experiment, ranks=(ranks,)).arms()[0]


def _here(spec: RunSpec, machine: MachineFacts) -> bool:
    return spec.ranks <= len(machine.gpus) if spec.device == "cuda" else not spec.oversubscribed


def _as_rehearsal(spec: RunSpec, machine: MachineFacts) -> RunSpec:
    """The run as a rehearsal, with a process for each rank, from rank 0 on, that can have cores or a GPU of its own."""
    places = len(machine.gpus) if spec.device == "cuda" else len(dict.fromkeys(spec.shares))
    company = max(1, min(spec.ranks, places))
    per_node = min(spec.ranks, GPUS_PER_NODE) if spec.device == "cuda" else spec.ranks
    return replace(
        spec,
        launcher="fork",
        ranks=company,
        shares=spec.shares[:company],
        oversubscribed=False,
        emulated=False,
        kind=Rehearsed(spec.ranks, 0, per_node),
    )


LONGEST_NAME = 120  # of a run's folder; the names of the files in it still fit into 255 bytes


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A part of the suite that cannot be run here, the reason, and what would help."""

    experiment: str
    what: str
    reason: str
    remedy: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs to be made, in order, and the refusals."""

    runs: tuple[RunSpec, ...]
    refusals: tuple[Refusal, ...]


def expand(suite: Suite, machine: MachineFacts, cwd: Path, *, python: str = "", nodes: Nodes | None = None) -> Plan:
    """Expands a suite into the runs for this machine; `cwd` is the folder in which scripts start, as with torchrun.

    `nodes` are the hosts on which scalewise was started by hand.
    """
    runs: list[RunSpec] = []
    refusals: list[Refusal] = []
    common = {"suite": suite.name, "cwd": str(cwd), "python": python, "nodes": nodes}
    for asked in suite.experiments:
        experiment = _within_gpus(asked, machine)
        unable = _unable(experiment, machine, nodes, cwd)
        if unable:
            refusals.append(unable)
            continue
        arms = []
        for arm in experiment.arms():
            refusal = _refused(experiment, arm, machine, nodes, cwd)
            if refusal:
                refusals.append(refusal)
            else:
                arms.append(arm)
        names = _arm_names(experiment, arms)
        specs = [_spec(experiment, arm, machine, common) for arm in arms]
        if experiment.ranks != asked.ranks:
            ranks = {"ranks": ", ".join(map(str, asked.ranks))}
            specs = [dataclasses.replace(spec, asked=spec.asked | ranks) for spec in specs]
        timed = [
            dataclasses.replace(specs[index], name=f"{names[index]}-r{repeat}", repeat=repeat)
            for index, repeat in _order(experiment, len(arms), suite.name)
        ]
        runs += in_rings(timed) if experiment.turns else timed
        if experiment.inspect:
            runs += _inspected(experiment, specs, names)
        if experiment.rehearse and nodes is None and experiment.launcher != "slurm":
            runs += _rehearsed(experiment, machine, common)
    return Plan(tuple(runs), tuple(refusals))


def _inspected(experiment: Experiment, specs: Sequence[RunSpec], names: Sequence[str]) -> Iterator[RunSpec]:
    """Yields one inspected run of every arm without changes, after the timed runs so as not to disturb them."""
    for spec, name in zip(specs, names, strict=True):
        if not spec.changes:
            values = {"device": spec.device, **spec.axes, "ranks": spec.ranks}
            more = {key: filled(text, values) for key, text in experiment.inspect_env.items()}
            yield dataclasses.replace(spec, name=f"{name}-inspect", kind=Inspected(), env=spec.env | more)


def _rehearsed(experiment: Experiment, machine: MachineFacts, common: Mapping[str, object]) -> Iterator[RunSpec]:
    """Yields the rehearsals of an experiment; they come last, after the inspected runs."""
    found = [
        (arm, spec)
        for arm, spec in rehearsals(experiment, machine, lambda arm: _spec(experiment, arm, machine, common))
        if not script_problem(experiment.script, Path(spec.script), Path(str(common["cwd"])))
    ]
    arms = [arm for arm, _ in found]
    for (_, spec), name in zip(found, rehearsal_names(_arm_names(experiment, arms), arms), strict=True):
        yield dataclasses.replace(spec, name=name)


def suite_id(plan: Plan, machine: MachineFacts) -> str:
    """Returns eight hex digits that change with the specs of the runs, the text of their scripts, and the machine.

    Under Slurm they leave the machine out, so that a later job, on whatever hosts, continues what an earlier one began.
    """
    specs = [dataclasses.asdict(spec) for spec in plan.runs]
    where: list[object] = [
        machine.host,
        machine.cpu_model,
        machine.isa_cap,
        machine.versions,
        [gpu.name for gpu in machine.gpus],
    ]
    if any(spec.launcher == "slurm" for spec in plan.runs):
        specs, where = [spec | _OF_NO_HOST for spec in specs], []
    scripts = {spec.script: script_digest(Path(spec.script)) for spec in plan.runs}
    return _digits([specs, scripts, where])


# The fields of a spec that follow from the host, as they are on none.
_OF_NO_HOST: dict[str, object] = {"shares": (), "oversubscribed": False, "emulated": False, "threads_per_rank": None}


def _digits(decides: object) -> str:
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:8]


def folder_name(suite: Suite, plan: Plan, machine: MachineFacts) -> str:
    """The name of the suite's folder under `runs/`: the same for the same request, another for an edited script."""
    return f"{suite.name}-{suite_id(plan, machine)}"


def _device(experiment: Experiment, machine: MachineFacts) -> Device:
    if experiment.device == "auto":
        return "cuda" if machine.gpus else "cpu"
    return experiment.device


def _within_gpus(experiment: Experiment, machine: MachineFacts) -> Experiment:
    """The experiment with at most as many ranks as GPUs, if it says that fewer will do."""
    if experiment.few_gpus != "reduce" or _device(experiment, machine) != "cuda":
        return experiment
    most = max(1, len(machine.gpus))
    ranks = tuple(dict.fromkeys(min(ranks, most) for ranks in experiment.ranks))
    return dataclasses.replace(experiment, ranks=ranks)


def _unable(experiment: Experiment, machine: MachineFacts, nodes: Nodes | None, cwd: Path) -> Refusal | None:
    """A refusal of the whole experiment, or None if some arm may run."""
    problem = None if placeholders(experiment.script) else _script_problem(experiment, {}, cwd)
    if problem:
        return Refusal(experiment.name, "all runs", *problem)
    if experiment.device == "cuda" and not machine.gpus:
        remedy = "use device cpu, or a machine with a GPU that torch can see"
        return Refusal(experiment.name, "all runs", "device cuda was asked for and no GPU is visible", remedy)
    if experiment.launcher == "fork" and (nodes or any(count > 1 for count in experiment.nodes)):
        remedy = "use launcher slurm, or torchrun started by hand on each (--node-rank, --master)"
        return Refusal(experiment.name, "all runs", "the fork launcher serves one host", remedy)
    problem = turns_problem(experiment, nodes) if experiment.turns else None
    return Refusal(experiment.name, "all runs", *problem) if problem else None


def _script_problem(experiment: Experiment, values: Mapping[str, AxisValue], cwd: Path) -> tuple[str, str] | None:
    return script_problem(experiment.script, script_path(experiment.script, values, cwd), cwd)


def _refused(experiment: Experiment, arm: Arm, machine: MachineFacts, nodes: Nodes | None, cwd: Path) -> Refusal | None:
    """A refusal of this arm, or None if it can run."""
    what = arm_text(arm)
    values = {"device": _device(experiment, machine), **arm.axes, "ranks": arm.ranks}
    problem = _script_problem(experiment, values, cwd) or _hosts_problem(experiment, arm, nodes)
    if problem:
        return Refusal(experiment.name, what, *problem)
    ranks = arm.ranks // arm.nodes
    if _device(experiment, machine) == "cuda" and ranks > len(machine.gpus) and experiment.few_gpus != "share":
        return Refusal(
            experiment.name,
            what,
            f"{ranks} ranks need {ranks} GPUs and {len(machine.gpus)} is visible"
            if len(machine.gpus) == 1
            else f"{ranks} ranks need {ranks} GPUs and {len(machine.gpus)} are visible",
            "use device cpu, where ranks are logical devices, or fewer ranks",
        )
    cores = len(machine.cores)
    if _device(experiment, machine) == "cpu" and ranks > cores and experiment.few_cores == "refuse":
        return Refusal(
            experiment.name,
            what,
            f"{ranks} ranks need {ranks} cores and {cores} {'is' if cores == 1 else 'are'} here",
            "use a machine with more cores, or fewer ranks",
        )
    reasons = [one for change in arm.changes if (one := declared(change.name).cpu_only)]
    if _device(experiment, machine) == "cuda" and reasons:
        return Refusal(experiment.name, what, reasons[0], "use device cpu")
    for change in arm.changes:
        if change.rank is not None and change.rank >= arm.ranks:
            reason = f"there is no rank {change.rank} among {arm.ranks}"
            return Refusal(experiment.name, what, reason, f"use more than {change.rank} ranks, or slow another rank")
    return None


def _hosts_problem(experiment: Experiment, arm: Arm, nodes: Nodes | None) -> tuple[str, str] | None:
    """The reason why the ranks of this arm cannot lie on its hosts and what would help, or None if they can."""
    if arm.ranks % arm.nodes:
        reason = f"{arm.ranks} rank{'s' if arm.ranks > 1 else ''} cannot be spread evenly over {arm.nodes} hosts"
        return reason, "give a number of ranks that is a multiple of the number of hosts"
    hosts = nodes.count if nodes else 1
    if experiment.launcher == "torchrun" and arm.nodes > hosts:
        reason = f"{arm.nodes} hosts were asked for and scalewise runs on {hosts}"
        return (
            reason,
            f"start the same command on each with --nodes {arm.nodes}, --node-rank and --master, or use Slurm",
        )
    return None


def arm_text(arm: Arm) -> str:
    """An arm as text for people: `dim 1024, slow rank 20 ms on rank 0, 2 ranks`."""
    parts = [f"{name} {value_text(value)}" for name, value in arm.axes.items()]
    parts += [one.label() for one in arm.changes]
    return ", ".join([*parts, counted(arm.ranks, "rank")])


def _order(experiment: Experiment, arms: int, suite: str) -> list[tuple[int, int]]:
    """Pairs of arm and repeat in running order; interleaved, so that a drift of the machine affects all arms alike.

    Repeats come in mirrored pairs (A B C, C B A), which cancels a linear drift; later pairs are shuffled.
    """
    if not experiment.interleave:
        return [(arm, repeat) for arm in range(arms) for repeat in range(experiment.repeat)]
    order = []
    for repeat in range(experiment.repeat):
        sequence = list(range(arms))
        if repeat >= 2:
            random.Random(f"{suite}/{experiment.name}/{repeat // 2}").shuffle(sequence)
        order += [(arm, repeat) for arm in (reversed(sequence) if repeat % 2 else sequence)]
    return order


def _spec(experiment: Experiment, arm: Arm, machine: MachineFacts, common: Mapping[str, object]) -> RunSpec:
    device = _device(experiment, machine)
    # On GPUs the cores are left alone: the device is the share, and data loaders need the rest.
    ranks = arm.ranks // arm.nodes
    on_host = [one.ranks // one.nodes for one in experiment.arms() if one.ranks % one.nodes == 0]
    seated = seats(machine.cores, ranks, on_host) if device == "cpu" else Seats((), False)
    values = {"device": device, **arm.axes, "ranks": arm.ranks}
    stand_ins = _stood_in(experiment, values, len(machine.gpus) if device == "cuda" else 0)
    if stand_ins:
        values["device"] = "cuda"  # the device that the script is shown
    texts = experiment.env | experiment.cases.get(str(arm.axes.get(CASE)), {})
    texts = texts | experiment.gpu_env if device == "cuda" else texts
    env = {name: filled(text, values) for name, text in texts.items()}
    asked: dict[str, str] = {}
    if experiment.shrink:
        env, asked = shrunk(env, experiment.shrink, machine, device, max(experiment.ranks))
    return RunSpec(
        name="",
        experiment=experiment.name,
        script=str(script_path(experiment.script, values, Path(str(common["cwd"])))),
        args=tuple(filled(word, values) for word in experiment.args),
        mode=experiment.mode,
        launcher=experiment.launcher,
        ranks=ranks,
        device=device,
        shares=seated.shares,
        # An examined script chooses its own threads, for their number may be its mistake.
        threads_per_rank=len(seated.shares[0]) if seated.shares and not experiment.examination else None,
        oversubscribed=seated.oversubscribed,
        repeat=0,
        limit_seconds=experiment.limit_seconds,
        stall_seconds=experiment.stall_seconds,
        env=env,
        changes=arm.changes,
        axes=arm.axes,
        scaling=experiment.scaling,
        base=experiment.base,
        emulated=_emulated(experiment, values, machine) or (device == "cuda" and ranks > len(machine.gpus)),
        devices=_device_count(experiment, values),
        stand_ins=stand_ins,
        asked=asked,
        shrink_rule=experiment.shrink.rule() if experiment.shrink and asked else "",
        kind=Examined() if experiment.examination else Timed(),
        on_cpu=experiment.examination is not None and experiment.examination.on_cpu,
        enough_steps=experiment.examination.enough_steps if experiment.examination else experiment.steps,
        folder_use=_folder_use(experiment, common["nodes"] is not None or experiment.launcher == "slurm"),
        **{**common, "nodes": _nodes(experiment, arm, common["nodes"])},  # type: ignore[arg-type]
    )


def _nodes(experiment: Experiment, arm: Arm, by_hand: object) -> Nodes | None:
    """The hosts of an arm: the first ones of those that there are; under Slurm they are known when the run starts."""
    if experiment.launcher == "slurm":
        return Nodes(arm.nodes, 0, "", 0)
    return dataclasses.replace(by_hand, count=arm.nodes) if isinstance(by_hand, Nodes) else None


def _folder_use(experiment: Experiment, several_hosts: bool) -> FolderUse:
    """The use of the working folder: plain for scripts of ours, which write nothing; in_place for several hosts too."""
    if experiment.script.startswith((BUILT_IN, COURSE)) or Path(experiment.script).parent == subject_folder():
        return "plain"
    return "in_place" if experiment.in_place or several_hosts else "private"


def _device_count(experiment: Experiment, values: Mapping[str, AxisValue]) -> int:
    """The number of GPUs that one process is to see; 0 if the experiment does not say."""
    devices = filled(experiment.devices, values)
    return int(devices) if devices.isdecimal() else 0


def _stood_in(experiment: Experiment, values: Mapping[str, AxisValue], gpus: int) -> bool:
    """Tells whether the GPUs are stand-ins: in all arms or in none, because standing in costs time in every step."""
    points = [{**values, **arm.axes, "ranks": arm.ranks} for arm in experiment.arms()]
    return bool(_device_count(experiment, values)) and any(_device_count(experiment, one) > gpus for one in points)


def _emulated(experiment: Experiment, values: Mapping[str, AxisValue], machine: MachineFacts) -> bool:
    """Tells whether one process uses more devices than there are GPUs; a single one may be the CPU itself."""
    return _device_count(experiment, values) > max(1, len(machine.gpus))


def _arm_names(experiment: Experiment, arms: Sequence[Arm]) -> list[str]:
    """Readable names of the arms: safe in every file system, and distinct even if values look alike once made safe."""
    names: list[str] = []
    taken: set[str] = set()
    for arm in arms:
        parts = [f"{name}{_safe(value_text(value))}" for name, value in arm.axes.items()]
        if arm.changes:
            parts.append(_safe(changes_text(arm.changes)))
        name = "-".join([experiment.name, *parts, f"ranks{arm.ranks}"])
        if name.casefold() in taken or len(name) > LONGEST_NAME:
            digest = hashlib.sha256(repr(arm).encode()).hexdigest()[:8]
            name = f"{name[: LONGEST_NAME - 9]}-{digest}"
        taken.add(name.casefold())
        names.append(name)
    return names


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", text)
