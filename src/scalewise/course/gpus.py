"""Steps on GPUs of another machine: recorded on one H200, and predicted for several over a named link.

The records in `h200.json` were made by scalewise on that machine, from the same suites that run here:

    python -m scalewise.course.gpus runs/homework1-* runs/practical7-* ... > src/scalewise/course/h200.json

A record holds what one arm measured there on one GPU, and, if its ranks were rehearsed, the step as rank 0 of N
made it: what it computed, and when it issued which messages. The link adds the messages' time.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from math import exp, hypot, log, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from scalewise.analysis.estimate import (
    CONFIDENCE,
    LEAST_DEGREES,
    QUIET_RUN_CV,
    Estimate,
    RunMedian,
    estimate,
    t_quantile,
)
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import ArmRow
from scalewise.predict.answer import Checked
from scalewise.predict.catalogue import catalogue, named_link
from scalewise.predict.compute_noise import compute_spread
from scalewise.predict.prediction import Predicted, Spread, predict
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank, rehearsed
from scalewise.predict.seen_errors import UNCHECKED, ModelError
from scalewise.predict.self_check import model_error
from scalewise.predict.tape import Compute, Entry, Issue, Tape, Wait
from scalewise.records.spec import AxisValue
from scalewise.units import seconds_text

FILE = Path(__file__).with_name("h200.json")
# Part of a GPU's name -> its link. Cards joined in pairs (NVL) are left out; for other GPUs no link is assumed.
LINKS = (("A100-SXM", "nvlink3"), ("H100 80GB HBM3", "nvlink4"), ("H200", "nvlink4"), ("B200", "nvlink5"))
MOST_OF_A_NODE = 8
SCHEMA = 1
NANO_DIGITS = 9
CHANGE_NO_STEP = ("STEPS", "WARMUP", "SEED", "DEVICE", "LR")
# What the course's scripts do where a variable is not set.
UNSET = {
    "course:practical7_accumulation.py": {"ACCUM_STEPS": "4"},
    "course:practical7_amp.py": {"PRECISION": "float16"},
    "course:practical5_single.py": {"ACCUM_STEPS": "4", "PRECISION": "float16"},
}
NOTHING_AT_ZERO = ("DELAY", "IMBALANCE")


@dataclass(frozen=True)
class Record:
    """One arm of a suite as measured on one GPU, or rehearsed as rank 0 of several."""

    suite: str
    experiment: str
    axes: dict[str, str]
    ranks: int
    env: dict[str, str]  # DIM, DEPTH, BATCH, STEPS, ... as they were set for the script
    step: Estimate | None  # measured, in seconds
    peak_bytes: int | None
    rehearsal: RehearsedRank | None
    spread: float  # variation of the computing time between runs, as the standard deviation of its logarithm

    @property
    def work(self) -> tuple[object, ...]:
        """The same in all recordings of one configuration."""
        return work_key(self.suite, self.experiment, self.axes, self.env)


@dataclass(frozen=True)
class Records:
    """Everything that was recorded on one kind of GPU."""

    device: str  # NVIDIA H200
    date: str  # date of the runs: 2026-11-18
    versions: dict[str, str]
    records: tuple[Record, ...]

    @property
    def link(self) -> str:
        """The name of the link between these GPUs in one node; empty if it is not known."""
        return next((link for part, link in LINKS if part in self.device and "NVL" not in self.device), "")

    def of(self, suite: str, experiment: str, ranks: int, axes: Mapping[str, AxisValue]) -> Record | None:
        """Returns the arm with these axis values and ranks, measured if there is such a record."""
        wanted = {key: str(value) for key, value in axes.items()}
        found = [
            one
            for one in self.records
            if (one.suite, one.experiment, one.ranks) == (suite, experiment, ranks)
            and all(one.axes.get(key) == value for key, value in wanted.items())
        ]
        return next((one for one in found if one.step is not None), next(iter(found), None))

    def alike(self, found: Record, ranks: int) -> tuple[Record, ...]:
        """All recordings of the same work on so many ranks, in whichever experiment they were made."""
        return tuple(one for one in self.records if one.ranks == ranks and one.work == found.work)

    def measured(self, found: Record) -> Estimate | None:
        """The step of the configuration: the mean of its recordings; None where none was measured."""
        steps = [one.step for one in self.alike(found, found.ranks) if one.step is not None]
        return mean_of_measured(steps) if steps else None


@dataclass(frozen=True)
class GpuStep:
    """The step of one arm on N of those GPUs."""

    ranks: int
    step: Estimate
    mark: Literal["measured", "predicted"]
    speedup: Estimate | None  # over one GPU
    peak_bytes: int | None
    communication_share: float  # share of a predicted step that communication takes, as computing does not hide it
    env: dict[str, str]
    source: str  # one sentence for a caption or a tooltip
    micro_batches: int | None = None  # micro-batches of a rehearsed step

    @property
    def efficiency(self) -> Estimate | None:
        """The speedup over the number of GPUs."""
        if self.speedup is None:
            return None
        return self.speedup.times(1 / self.ranks)


def gpu_steps(evidence: Evidence, experiment: str, ranks: Sequence[int], **axes: AxisValue) -> tuple[GpuStep, ...]:
    """Returns the arm on each of these numbers of GPUs; numbers of which nothing is known are left out.

    What another machine of the report measured comes first, then the GPU of this machine, then the records that the
    package
    includes.
    """
    known = known_of(evidence)
    if known is None:
        return ()
    suite = evidence.loaded.name
    base = known.of(suite, experiment, 1, axes)
    found = [_gpu_step(known, known.of(suite, experiment, count, axes), base) for count in ranks]
    return tuple(one for one in found if one is not None)


def known_of(evidence: Evidence) -> Records | None:
    """Returns the records from which this report takes steps on GPUs."""
    with_gpus = [one for one in (*evidence.elsewhere, evidence) if one.machine is not None and one.machine.gpus]
    for one in with_gpus:
        found = _read(recorded([one]))
        if found.records:
            return found
    return shipped()


def hand_over_seconds(link: str, size_bytes: float) -> float:
    """The seconds that one copy of so many bytes from one GPU to its neighbour takes over the link."""
    return sum(hand_over_parts(link, size_bytes))


def hand_over_parts(link: str, size_bytes: float) -> tuple[float, float]:
    """The same in two parts: the latency of a hop, which no data sheet gives, and the bytes over the bandwidth."""
    wire = catalogue().entries[link].wire
    return wire.hop_seconds, size_bytes / wire.bytes_per_second


def told_source(evidence: Evidence, *, predicted: bool = True) -> str:
    """Returns where rows of GPUs come from, as a note for a table; empty if nothing is known of GPUs."""
    known = known_of(evidence)
    if known is None:
        return ""
    torch = f" (torch {known.versions['torch']})" if "torch" in known.versions else ""
    told = f"Measured on {known.device} on {known.date}{torch}."
    link = catalogue().entries.get(known.link)
    if link is None or not predicted:
        return told
    return (
        f"{told} Predicted: from what one of these GPUs computed as one of several, and the data sheet of their link "
        f"({link.what})."
    )


def told_recordings(evidence: Evidence, experiment: str, **axes: AxisValue) -> str:
    """A note for the first table with a configuration recorded several times: how far the recordings differ."""
    known = known_of(evidence)
    base = known.of(evidence.loaded.name, experiment, 1, axes) if known else None
    steps = [one.step for one in known.alike(base, 1) if one.step is not None] if known and base else []
    if len(steps) < 2:
        return ""
    least, most = (seconds_text(pick(one.value for one in steps)) for pick in (min, max))
    return (
        f"The step of 1 GPU was recorded {len(steps)} times, from {least} to {most}: every table shows the mean of all "
        "recordings of a configuration."
    )


@cache
def shipped() -> Records | None:
    """Returns the records that the package includes; None if the file is missing."""
    if not FILE.is_file():
        return None
    return _read(json.loads(FILE.read_text(encoding="utf-8")))


def _gpu_step(known: Records, found: Record | None, base: Record | None) -> GpuStep | None:
    if found is None:
        return None
    measured_there = f"measured on {known.device} on {known.date}"
    one = known.measured(base) if base is not None else None
    measured = known.measured(found)
    if measured is not None:
        speedup = ratio_of(one, measured) if one is not None and found.ranks > 1 else None
        return GpuStep(found.ranks, measured, "measured", speedup, found.peak_bytes, 0.0, found.env, measured_there)
    if found.rehearsal is None or not known.link or found.ranks > MOST_OF_A_NODE:
        return None
    source = f"predicted from computing {measured_there}, over {known.link}"
    every = [_predicted(known, again, _error(known, base)) for again in known.alike(found, found.ranks)]
    predicted = [each for each in every if each is not None]
    step = mean_of_predicted([replace(each.step.at(CONFIDENCE), method=source) for each in predicted])
    lines = [each.timeline for each in predicted]
    share = mean(1 - line.compute_seconds / line.step_seconds if line.step_seconds else 0.0 for line in lines)
    speedup = ratio_of(one, step, source) if one is not None else None
    pieces = found.rehearsal.tapes[0].micro_batches
    return GpuStep(found.ranks, step, "predicted", speedup, found.peak_bytes, share, found.env, source, pieces)


def _predicted(known: Records, found: Record, error: ModelError | None) -> Predicted | None:
    """One rehearsal laid over the link."""
    if found.rehearsal is None:
        return None
    link = named_link(known.link, most_ranks=found.ranks)
    spread = Spread(found.spread, link.spread, UNCHECKED)
    if error is not None:
        spread = replace(spread, model=error.spread, shift=error.shift)
    return predict(found.rehearsal, link, spread=spread)


def _error(known: Records, base: Record | None) -> ModelError | None:
    """The error of one rehearsed rank against the measured one, recording by recording; None without such a pair."""
    measured = known.measured(base) if base is not None else None
    if base is None or measured is None:
        return None
    nobody = named_link(known.link, most_ranks=1)
    alone = [one for one in known.alike(base, 1) if one.rehearsal is not None]
    checks = [
        Checked(1, predict(one.rehearsal, nobody, spread=Spread(one.spread, 0.0)).step, measured)
        for one in alone
        if one.rehearsal is not None
    ]
    return model_error(checks) if checks else None


# The content of the file, written and read.


def recorded(evidences: Sequence[Evidence]) -> dict[str, Any]:
    """Returns the content of the file, from the suites' folders of the machine with the GPU."""
    machine = next((one.machine for one in evidences if one.machine is not None and one.machine.gpus), None)
    if machine is None:
        raise ValueError("these runs were not made on a GPU")
    times = [at for one in evidences for run in one.loaded.runs if (at := run.started_unix_seconds) is not None]
    return {
        "schema": SCHEMA,
        "device": machine.gpus[0].name,
        "date": datetime.fromtimestamp(max(times), UTC).strftime("%Y-%m-%d"),
        "versions": {name: machine.versions[name] for name in ("torch", "cuda", "nccl") if name in machine.versions},
        "records": [record for one in evidences for record in _suite_records(one)],
    }


def _suite_records(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for experiment in evidence.analysis.experiments:
        for row in experiment.rows:
            if row.change == "none" and row.mark == "measured" and row.step_seconds and row.device == "cuda":
                yield _measured_record(evidence, experiment.name, row)
    for run in evidence.loaded.runs:
        found = rehearsed(run) if run.spec.rehearsed is not None and run.spec.device == "cuda" else None
        if found is None or isinstance(found, NotRehearsed):
            continue
        yield {
            "suite": evidence.loaded.name,
            "experiment": run.spec.experiment,
            "axes": {key: str(value) for key, value in run.spec.axes.items()},
            "ranks": found.ranks,
            "env": run.spec.env,
            "peak_bytes": found.peak_bytes,
            "spread": round(max(QUIET_RUN_CV, compute_spread((found,))), 4),
            "tape": _written(found.typical),
        }


def _measured_record(evidence: Evidence, experiment: str, row: ArmRow) -> dict[str, Any]:
    step = row.step_seconds
    assert step is not None, "only rows with a step are recorded"
    run = evidence.run(row.run_names[0])
    return {
        "suite": evidence.loaded.name,
        "experiment": experiment,
        "axes": {key: str(value) for key, value in row.axes.items()},
        "ranks": row.ranks,
        "env": run.spec.env if run is not None else {},
        "peak_bytes": row.memory.cuda_peak_allocated_bytes,
        "step": {
            "seconds": [round(one, NANO_DIGITS) for one in (step.value, step.low, step.high)],
            "steps": step.steps,
            "runs": step.runs,
        },
    }


def _written(tape: Tape) -> dict[str, Any]:
    """Returns entries as short lists: [phase, seconds], [kind, number, bytes, ranks, nodes], [number]."""
    entries: list[list[Any]] = []
    for one in tape.entries:
        if isinstance(one, Compute):
            entries.append([one.phase, round(one.seconds, NANO_DIGITS)])
        elif isinstance(one, Issue):
            entries.append([one.kind, one.number, one.size_bytes, one.ranks, one.nodes])
        else:
            entries.append([one.number])
    return {"samples": tape.samples, "micro_batches": tape.micro_batches, "entries": entries}


def _read(data: Mapping[str, Any]) -> Records:
    if data["schema"] != SCHEMA:
        raise ValueError(f"{FILE.name} has schema {data['schema']}, and this version of scalewise reads {SCHEMA}")
    return Records(data["device"], data["date"], dict(data["versions"]), tuple(_record(one) for one in data["records"]))


def _record(one: Mapping[str, Any]) -> Record:
    step = one.get("step")
    tape = one.get("tape")
    ranks = int(one["ranks"])
    return Record(
        suite=one["suite"],
        experiment=one["experiment"],
        axes=dict(one["axes"]),
        ranks=ranks,
        env=dict(one["env"]),
        step=_step(step) if step else None,
        peak_bytes=one["peak_bytes"],
        rehearsal=_rehearsed(tape, ranks, one["peak_bytes"]) if tape else None,
        spread=float(one.get("spread", QUIET_RUN_CV)),
    )


def _step(told: Mapping[str, Any]) -> Estimate:
    value, low, high = told["seconds"]
    return Estimate(value, low, high, told["steps"], told["runs"], "recorded", CONFIDENCE, positive=True)


def _rehearsed(tape: Mapping[str, Any], ranks: int, peak_bytes: int | None) -> RehearsedRank:
    entries = tuple(_entry(one) for one in tape["entries"])
    return RehearsedRank(
        ranks=ranks,
        rank=0,
        company=1,
        device="cuda",
        tapes=(Tape(entries, ranks, 0, tape["samples"], tape["micro_batches"]),),
        between_seconds=0.0,
        peak_bytes=peak_bytes,
    )


def _entry(one: Sequence[Any]) -> Entry:
    if len(one) == 1:
        return Wait(int(one[0]))
    if len(one) == 2:
        return Compute(float(one[1]), one[0])
    kind, number, size_bytes, ranks, nodes = one
    return Issue(int(number), str(kind), float(size_bytes), int(ranks), int(nodes))


def main(folders: Sequence[str]) -> None:
    """Prints the file's content, one record per line."""
    from scalewise.report.build_document import evidence_of

    told = recorded([evidence_of(Path(folder)) for folder in folders])
    lines = [json.dumps(one) for one in told.pop("records")]
    head = json.dumps(told)[:-1]
    print(f'{head}, "records": [\n' + ",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main(sys.argv[1:])


def work_key(suite: str, experiment: str, axes: Mapping[str, str], env: Mapping[str, str]) -> tuple[object, ...]:
    """Returns what all recordings of the same work have in common: the script, and the variables that change a step."""
    script = _script(suite, experiment, axes)
    told = {
        name: value
        for name, value in {**UNSET.get(script, {}), **env}.items()
        if name not in CHANGE_NO_STEP and not (name in NOTHING_AT_ZERO and _zero(value))
    }
    return script, tuple(sorted(told.items()))


def mean_of_measured(found: Sequence[Estimate]) -> Estimate:
    """The geometric mean, with an interval that holds the spread between the recordings."""
    if len(found) == 1:
        return found[0]
    pooled = estimate([RunMedian(one.value, one.low, one.high, one.steps, one.level) for one in found])
    runs = sum(one.runs for one in found)
    return replace(pooled, runs=runs, method=f"mean of {len(found)} recordings of this configuration")


def mean_of_predicted(found: Sequence[Estimate]) -> Estimate:
    """The geometric mean; what the predictions may be off by is common to them, and does not shrink with their number.

    So their own intervals stay as wide as they are on average, and the spread between them is added.
    """
    if len(found) == 1:
        return found[0]
    middle = exp(mean(log(one.value) for one in found))
    spread = stdev(log(one.value) for one in found) / sqrt(len(found))
    more = t_quantile(found[0].level, max(LEAST_DEGREES, len(found) - 1)) * spread
    down = hypot(sqrt(mean(log(one.value / one.low) ** 2 for one in found)), more)
    up = hypot(sqrt(mean(log(one.high / one.value) ** 2 for one in found)), more)
    return replace(found[0], value=middle, low=middle * exp(-down), high=middle * exp(up))


@cache
def _scripts(suite: str) -> Mapping[str, str]:
    """The script of each experiment, as the suite names it."""
    file = Path(__file__).with_name(suite) / "suite.toml"
    if not file.is_file():
        return {}
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    return {one["name"]: str(one.get("script", "")) for one in told.get("experiment", ())}


def _script(suite: str, experiment: str, axes: Mapping[str, str]) -> str:
    """The experiment's script with the axes' values; an experiment that is in no suite is not the same as any other."""
    script = _scripts(suite).get(experiment, f"{suite}/{experiment}")
    for name, value in axes.items():
        script = script.replace(f"{{{name}}}", value)
    return script


def _zero(value: str) -> bool:
    try:
        return float(value) == 0
    except ValueError:
        return False
