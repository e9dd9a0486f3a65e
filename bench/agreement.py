"""How often a comparison is right: A/A pairs that must not be called different, and a 2 % slowdown that must be found.

All runs are real and watched: A, its twin A', and B, whose step is 2 % longer by a busy wait. They are made twice: as
rings of three that take turns step by step, and as fresh runs one after the other, which is what turns are to better.
A comparison takes the same few repeats of two arms. There are far fewer runs than comparisons, so these share runs and
are not independent: each draws its repeats at random and, for A/A, also which of the twins stands on which side, repeat
by repeat. The *fresh* lines use every run once: independent, but few.
"""

import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median, stdev

from bench.arms import Step, block_of_steps
from bench.forked import Worker
from bench.ratios import share_interval
from bench.runs import made, run_spec
from scalewise.analysis.comparison import Comparison, compare_runs
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import RunSpec, Turns

SCRIPT = Path(__file__).with_name("slower.py")
STEP_SECONDS, SLOWDOWN = 5e-3, 0.02
STEPS, COMPARISONS, REPEATS = 200, 200, 8
# Narrow and deep, so that it stays in the cache: a wide model's step differed still more from process to process.
DIM, DEPTHS = 128, (8, 12, 16, 20, 24, 30, 36, 44, 52)
ARMS = ("a", "twin", "b")

Trio = dict[str, Run]


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints the shares and gives them back."""
    rounds, rounds_apart = (REPEATS + 4, REPEATS + 4) if quick else (5 * REPEATS, 2 * REPEATS)
    with Servers() as servers:
        machine = machine_facts(servers)
        depth, seconds = _depth()
        print(f"\nAgreement: {DIM} x {depth}, about {seconds * 1e3:.1f} ms a step, {STEPS} steps a run,")
        print(f"{REPEATS} repeats of each side to a comparison; drawn comparisons share runs, fresh ones do not")
        return {
            "depth": depth,
            "step_seconds": seconds,
            "in turns": _agreement("in turns", _trios(rounds, True, depth, seconds, machine, servers)),
            "one after the other": _agreement(
                "one after the other", _trios(rounds_apart, False, depth, seconds, machine, servers)
            ),
        }


def _trios(rounds: int, turns: bool, depth: int, seconds: float, machine: MachineFacts, servers: Servers) -> list[Trio]:
    """So many runs of each arm, read back."""
    with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        made(_specs(rounds, turns, depth, seconds, machine), Path(folder), machine, servers)
        runs = {run.spec.name: run for run in load(Path(folder)).runs}
    return [{arm: runs[f"{arm}-{number}"] for arm in ARMS} for number in range(rounds)]


def _agreement(how: str, trios: Sequence[Trio]) -> dict[str, object]:
    """A/A and 2 %, drawn and fresh."""
    drawn = random.Random(0)
    same = [_compared(trios, drawn, "a", "twin", swap=True) for _ in range(COMPARISONS)]
    slower = [_compared(trios, drawn, "a", "b", swap=False) for _ in range(COMPARISONS)]
    fresh_same, fresh_slower = (_fresh(trios, other) for other in ("twin", "b"))
    print(f"\n{how}: {3 * len(trios)} runs; {slower[0].method}; per repeat, 2 % slower: {_spread(trios, 'b')},")
    print(f"A/A: {_spread(trios, 'twin')}; the wait was really {_true_share(trios) * 100:.2f} % of A's median step")
    different = ("faster", "slower")
    return {
        "A/A drawn": _line("A/A called different, drawn", same, different, "at most 5 %"),
        "A/A fresh": _line("A/A called different, fresh", fresh_same, different, "at most 5 %"),
        "2 % drawn": _line("2 % slowdown found, drawn", slower, ("slower",), "at least 95 %, if quiet"),
        "2 % fresh": _line("2 % slowdown found, fresh", fresh_slower, ("slower",), "at least 95 %, if quiet"),
    }


def _true_share(trios: Sequence[Trio]) -> float:
    """The length of a step was guessed before the runs, and the machine may have changed its mind since."""
    steps = [row.step_ns * 1e-9 for trio in trios for row in trio["a"].ranks[0].steps]
    return float(trios[0]["b"].spec.args[-1]) / median(steps)


def _spread(trios: Sequence[Trio], other: str) -> str:
    """Mean and standard deviation of the change over single repeats: what the number of repeats has to overcome."""
    found = [_compare([trio["a"]], [trio[other]]).change for trio in trios]
    changes = [one.value * 100 for one in found if one is not None]
    return f"{mean(changes):+.2f} % sd {stdev(changes):.2f} %"


def _depth() -> tuple[int, float]:
    """The depth whose step on one core comes nearest to the wanted length, and that length."""
    tried = []
    for depth in DEPTHS:
        step = Step(dim=DIM, depth=depth, batch=32, steps=10, device="cpu", core=max(os.sched_getaffinity(0)))
        with Worker(partial(block_of_steps, step, "raw")) as worker:
            seconds = median(worker.work()[1] for _ in range(9))
        tried.append((abs(seconds - STEP_SECONDS), depth, seconds))
    return min(tried)[1:]


def _specs(rounds: int, turns: bool, depth: int, seconds: float, machine: MachineFacts) -> list[RunSpec]:
    """Three runs to a round, in an order that rotates; with turns, a round is a ring."""
    specs = []
    for number in range(rounds):
        for index, arm in enumerate(ARMS[number % 3 :] + ARMS[: number % 3]):
            wait = SLOWDOWN * seconds if arm == "b" else 0.0
            args = ("--depth", str(depth), "--steps", str(STEPS), "--wait-seconds", f"{wait:.7f}")
            spec = run_spec(SCRIPT, args, f"{arm}-{number}", machine, repeat=number, axes={"arm": arm})
            specs.append(replace(spec, turns=Turns(f"ring-{number}", index, len(ARMS)) if turns else None))
    return specs


def _compared(trios: Sequence[Trio], drawn: random.Random, one: str, other: str, swap: bool) -> Comparison:
    sides: tuple[list[Run], list[Run]] = ([], [])
    for trio in drawn.sample(trios, REPEATS):
        left, right = (other, one) if swap and drawn.random() < 0.5 else (one, other)
        sides[0].append(trio[left])
        sides[1].append(trio[right])
    return _compare(*sides)


def _fresh(trios: Sequence[Trio], other: str) -> list[Comparison]:
    groups = [trios[start : start + REPEATS] for start in range(0, len(trios) - REPEATS + 1, REPEATS)]
    return [_compare([trio["a"] for trio in group], [trio[other] for trio in group]) for group in groups]


def _compare(a: list[Run], b: list[Run]) -> Comparison:
    """The twin is the same script with the same arguments; only the label of its arm differs, and is taken off."""
    one, other = ([replace(run, spec=replace(run.spec, axes={})) for run in side] for side in (a, b))
    return compare_runs(one, other)


def _line(title: str, found: Sequence[Comparison], answers: tuple[str, ...], goal: str) -> dict[str, object]:
    hits = sum(one.answer in answers for one in found)
    refused = sum(one.answer == "refused" for one in found)
    low, high = share_interval(hits, len(found)) if found else (0.0, 1.0)
    changes = [one.change.value for one in found if one.change is not None]
    floors = [one.smallest_visible for one in found if one.smallest_visible is not None]
    change, floor = (median(values) if values else float("nan") for values in (changes, floors))
    share = f"{hits / len(found) * 100:5.1f} % [{low * 100:.1f}, {high * 100:.1f}]"
    print(f"{title:<30}{hits:>4} of {len(found):<4}= {share:<22} goal {goal}")
    print(f"{'':<30}median change {change * 100:+.2f} %, smallest visible {floor * 100:.2f} %, {refused} refused")
    return {
        "hits": hits,
        "comparisons": len(found),
        "refused": refused,
        "median_change": change,
        "smallest_visible": floor,
    }
