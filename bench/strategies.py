"""What it costs to apply a strategy from outside: its step against that of the same strategy written by hand.

Three runs are alive together and take turns step by step: the strategy by hand, a twin of it, and a script for one
device to which the strategy is applied from outside. All are watched alike, with two ranks of one core each. A round
gives one ratio to the run by hand, the median over its steps; the interval is over rounds, that is, over fresh
processes. The twin shows what chance does.

A step lasts from the end of one optimizer step to the end of the next.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.overhead import judgement
from bench.ratios import Ratio, median_with_interval
from bench.runs import made, run_spec
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.words import parse_changes
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.rows import StepRow
from scalewise.records.spec import RunSpec, Turns

SCRIPTS = Path(__file__).parents[1] / "tests" / "strategies" / "scripts"
GOAL = 1.01
STEP_SECONDS = 5e-3
DIM, BATCH = 256, 64
DEPTHS = (2, 4, 6, 8, 12, 16, 24)
WARMUP = 20
LIMIT_SECONDS = 600.0  # for three runs that take turns, also on a busy machine
ARMS = ("hand", "twin", "outside")
STRATEGIES = {
    "ddp": "with_ddp",
    "ddp-accumulated": "with_ddp:accumulate=2",
    "zero1": "with_zero1",
    "fsdp2": "with_fsdp2",
    "fsdp2-kept": "with_fsdp2:keep=1",
    "tensor-parallel": "with_tensor_parallel",
    "pipeline-gpipe": "with_pipeline:schedule=gpipe,parts=2",
    "pipeline-1f1b": "with_pipeline:schedule=1f1b,parts=2",
}  # by hand, from outside


@dataclass(frozen=True)
class Bench:
    """Where runs are made, and how long they are."""

    machine: MachineFacts
    servers: Servers
    steps: int
    rounds: int


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints one line for each strategy and gives the figures back."""
    with Servers() as servers:
        bench = Bench(machine_facts(servers), servers, *((120, 5) if quick else (300, 20)))
        print(f"\nStrategies from outside over by hand: chain of Linear({DIM}), batch {BATCH}, 2 ranks, Adam")
        print(f"{bench.rounds} rounds of fresh processes, {bench.steps} steps each, taking turns")
        print(
            f"{'strategy':<18}{'step by hand':>13}  {'from outside over it [95 %]':<30}{'its twin over it [95 %]':<30}"
        )
        return {name: _strategy(name, bench) for name in STRATEGIES}


def _strategy(name: str, bench: Bench) -> dict[str, object]:
    depth = _depth(name, bench)
    specs = [spec for number in range(bench.rounds) for spec in _ring(name, depth, number, bench)]
    runs = _made(specs, bench)
    steps = [{arm: _steps(runs[f"{arm}-{number}"]) for arm in ARMS} for number in range(bench.rounds)]
    hand_ms = 1e3 * median(seconds for one in steps for seconds in one["hand"].values())
    outside, twin = (_ratio([(one[arm], one["hand"]) for one in steps]) for arm in ("outside", "twin"))
    judged = judgement(outside, GOAL)
    print(f"{name:<18}{hand_ms:>10.2f} ms  {outside.text():<30}{twin.text():<30} goal {GOAL}: {judged}", flush=True)
    return {"depth": depth, "hand_ms": hand_ms, "outside": outside.plain(), "twin": twin.plain(), "judged": judged}


def _ratio(pairs: Sequence[tuple[dict[int, float], dict[int, float]]]) -> Ratio:
    """Steps of the same number were made one after the other, so what happens on the machine falls on both."""
    return median_with_interval(
        [median(mine[step] / hand[step] for step in mine.keys() & hand.keys()) for mine, hand in pairs]
    )


def _steps(run: Run) -> dict[int, float]:
    """Seconds of each step after warm-up, by its number; a step is over when the slower rank has ended it."""
    ranks = [{row.step: _seconds(row) for row in rank.steps if row.step >= WARMUP} for rank in run.ranks]
    return {step: max(one[step] for one in ranks) for step in set.intersection(*(set(one) for one in ranks))}


def _seconds(row: StepRow) -> float:
    return (row.step_ns + row.data_ns - row.data_inside_ns + (row.between_ns or 0)) * 1e-9


def _ring(name: str, depth: int, number: int, bench: Bench) -> list[RunSpec]:
    """The three runs of a round, in an order that rotates."""
    shift = number % len(ARMS)
    return [
        replace(_spec(name, arm, depth, number, bench), turns=Turns(f"ring-{number}", index, len(ARMS)))
        for index, arm in enumerate(ARMS[shift:] + ARMS[:shift])
    ]


def _spec(name: str, arm: str, depth: int, number: int, bench: Bench) -> RunSpec:
    sizes = ("--batch", str(BATCH), "--steps", str(bench.steps))
    by_hand = ("chain", name, "--width", str(DIM), "--layers", str(depth), *sizes)
    outside = ("--dim", str(DIM), "--depth", str(depth), *sizes)
    script, args = ("large_linear.py", outside) if arm == "outside" else ("by_hand.py", by_hand)
    spec = run_spec(SCRIPTS / script, args, f"{arm}-{number}", bench.machine, ranks=2, repeat=number, axes={"arm": arm})
    changes = parse_changes(STRATEGIES[name]) if arm == "outside" else ()
    return replace(spec, changes=changes, limit_seconds=LIMIT_SECONDS)


def _depth(name: str, bench: Bench) -> int:
    """The depth whose step by hand comes nearest to the wanted length."""
    short, tried = replace(bench, steps=WARMUP + 40), []
    for depth in DEPTHS:
        (found,) = _made([_spec(name, "hand", depth, 0, short)], short).values()
        seconds = median(_steps(found).values())
        tried.append((abs(seconds / STEP_SECONDS - 1), depth))
        if seconds > STEP_SECONDS:
            break
    return min(tried)[1]


def _made(specs: Sequence[RunSpec], bench: Bench) -> dict[str, Run]:
    with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        made(specs, Path(folder), bench.machine, bench.servers)
        return {found.spec.name: found for found in load(Path(folder)).runs}
