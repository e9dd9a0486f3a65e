"""Synthetic machines, specs and runs: what the rooms after measuring are tested on, without any process."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scalewise.analysis.estimate import Estimate
from scalewise.records import events as ev
from scalewise.records.codec import encode
from scalewise.records.load import ExperimentText, LoadedSuite, RankRecord, Run
from scalewise.records.machine import GpuFacts, MachineFacts, SampleRow
from scalewise.records.outcome import Outcome, OutcomeKind
from scalewise.records.rows import EndRow, ModelRow, StartRow, StepRow
from scalewise.records.spec import RunSpec


def make_machine(cores: int = 4, gpus: int = 0, **changes: Any) -> MachineFacts:
    """A machine with so many cores and GPUs."""
    facts = MachineFacts(
        host="box",
        system="Linux",
        cpu_model="cpu",
        cores=tuple(range(cores)),
        memory_bytes=2**34,
        governor=None,
        virtual=True,
        isa_advertised=(),
        isa_cap="",
        probes=(),
        gpus=tuple(GpuFacts(index, "H200", 2**37, f"uuid{index}") for index in range(gpus)),
        versions={"torch": "2.13.0"},
    )
    return replace(facts, **changes)


def make_estimate(value: float, low: float, high: float, level: float = 0.95, **changes: Any) -> Estimate:
    """A number with its interval, of 30 steps of one run."""
    return Estimate(value, low, high, **{"steps": 30, "runs": 1, "method": "made up", "level": level, **changes})


def make_spec(ranks: int = 1, repeat: int = 0, **changes: Any) -> RunSpec:
    """A run of a script that is never started."""
    spec = RunSpec(
        name=f"exp-ranks{ranks}-r{repeat}",
        suite="suite",
        experiment="exp",
        script="/scripts/train.py",
        args=("--batch", "64"),
        cwd="/",
        mode="torchrun",
        launcher="fork",
        ranks=ranks,
        device="cpu",
        shares=tuple((rank,) for rank in range(ranks)),
        threads_per_rank=1,
        oversubscribed=False,
        repeat=repeat,
        limit_seconds=60.0,
        stall_seconds=30.0,
    )
    return replace(spec, **changes)


def make_step(step: int, seconds: float, **changes: Any) -> StepRow:
    """One step whose phases add up."""
    total = int(seconds * 1e9)
    row = StepRow(
        step=step,
        optimizer=0,
        at_ns=step * 10**7,
        step_ns=total,
        data_ns=1000,
        data_inside_ns=0,
        forward_ns=total // 4,
        backward_ns=total // 2,
        optimizer_ns=total // 8,
        rest_ns=total - total // 4 - total // 2 - total // 8,
        between_ns=2000 if step else None,
        micro_batches=1,
        samples=32,
        loss=1.0 / (step + 1),
    )
    return replace(row, **changes)


def make_model(**changes: Any) -> ModelRow:
    """A small float32 model under SGD."""
    row = ModelRow(0, 1000, 4000, ("float32",), ("cpu",), "abcd", ("SGD",), "", "host")
    return replace(row, **changes)


def make_start(rank: int, world: int, at: float) -> StartRow:
    """A rank that started at this time."""
    return StartRow(rank, rank, world, 100 + rank, "box", "3.12", "2.13", 1, (rank,), at, (), 10**8)


def make_outcome(kind: OutcomeKind = "finished", sentence: str = "Every rank finished.") -> Outcome:
    """An end of that kind."""
    return Outcome(kind, sentence, "", None, (), 0.2, 1.0, ())


def make_run(
    seconds: Any,
    ranks: int = 1,
    repeat: int = 0,
    *,
    samples_in_all: int | None = 64,
    outcome: Outcome | None = None,
    unfinished: bool = False,
    model: dict[str, Any] | None = None,
    step: dict[str, Any] | None = None,
    samples: tuple[SampleRow, ...] = (),
    machine: dict[str, Any] | None = None,
    at: float | None = None,
    **spec_changes: Any,
) -> Run:
    """A run with these step times, one row per rank or one row for all."""
    table = np.atleast_2d(np.asarray(seconds, dtype=float))
    table = np.repeat(table, ranks, axis=0) if len(table) == 1 else table
    own = {"samples": samples_in_all // ranks if samples_in_all is not None else None, **(step or {})}
    spec = make_spec(ranks, repeat, **spec_changes)
    started = at if at is not None else 1000.0 + 10 * repeat + ranks
    applied = {one.name: 5 for one in spec.changes}
    records = tuple(
        RankRecord(
            rank=rank,
            start=make_start(rank, ranks, started),
            model=make_model(**(model or {})),
            steps=tuple(make_step(index, value, **own) for index, value in enumerate(row)),
            end=EndRow(len(row), None, applied),
        )
        for rank, row in enumerate(table)
    )
    end = None if unfinished else (outcome or make_outcome())
    folder = Path("/runs/suite-00000000") / spec.name
    return Run(folder, spec, end, make_machine(**(machine or {})), records, samples)


def make_suite(*runs: Run) -> LoadedSuite:
    """The runs as a loaded suite."""
    names = dict.fromkeys(run.spec.experiment for run in runs)
    return LoadedSuite(Path("/runs/suite-00000000"), "suite", runs, experiments=tuple(map(ExperimentText, names)))


def noisy(
    count: int, middle: float, seed: int, *, run_cv: float = 0.0, step_cv: float = 0.05, correlation: float = 0.5
) -> np.ndarray:
    """Step times as measured on CPU ranks: runs differ, steps vary, and each resembles the one before."""
    random = np.random.default_rng(seed)
    fresh = random.normal(size=count) * step_cv * np.sqrt(1 - correlation**2)
    log = np.empty(count)
    log[0] = random.normal() * step_cv
    for index in range(1, count):
        log[index] = correlation * log[index - 1] + fresh[index]
    return np.asarray(middle * np.exp(log + random.normal() * run_cv))


def quiet_sample(**changes: Any) -> SampleRow:
    """A sample of a machine that does nothing else."""
    return replace(SampleRow(0.5, 0.5, 0.01, 0.0, 0.02, (0.9, 0.9)), **changes)


def rank_lines(steps: int = 40, rank: int = 0, *, end: bool = True) -> bytes:
    """A rank's file as the watcher writes it: a start row, events of steps of 5 ms, an end row."""
    lines: list[dict[str, Any]] = [{"kind": "start", **encode(make_start(rank, 1, 5.0))}]
    for first in range(0, steps, 8):
        numbers: list[Any] = []
        for step in range(first, min(first + 8, steps)):
            begin = (step + 1) * 6_000_000
            events = [(ev.FORWARD, 0, [32]), (ev.BACKWARD, 2, [0.5]), (ev.BACKWARD_END, 4, [])]
            events += [(ev.OPTIMIZER, 4, [0]), (ev.OPTIMIZER_END, 5, [])]
            for code, millisecond, values in events:
                numbers += [(begin + millisecond * 1_000_000) & ev.TIME_MASK | code, *values]
        lines.append({"kind": "events", "events": numbers})
    if end:
        lines.append({"kind": "end", **encode(EndRow(steps, None, {}))})
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()
