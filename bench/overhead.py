"""What watching costs: a watched step against the raw one, beside torch.profiler and accelerate on the same step.

Patching is global, so every arm is a process of its own. A round forks one fresh process per arm; they take turns on
the same core (or GPU), a block of steps each, so that whatever else happens on the machine falls on all alike. A round
gives one ratio per arm, the median over its blocks; the interval is over rounds, that is, over fresh processes.

CPU time is shown beside wall time because a busy neighbour cannot stretch it as much: where the two disagree, the
machine was not quiet.
"""

import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import median

from bench.arms import ARMS, Step, block_of_steps
from bench.forked import Times, Worker, freeze
from bench.ratios import Ratio, median_with_interval

CPU_TARGETS_SECONDS = {"0.3 ms": 0.3e-3, "5 ms": 5e-3}
CPU_DIMS = (64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280)
BLOCK_SECONDS = 0.1  # long enough for the watcher to write its rows as often as in one long loop
GPU_STEP = Step(dim=4096, depth=6, batch=64, steps=100, device="cuda")
WALL, CPU = 0, 1
GOALS = {"0.3 ms": 1.03, "5 ms": 1.01, "gpu": 1.005}


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints one table per step and gives the figures back."""
    freeze()
    rounds, blocks = (4, 10) if quick else (20, 20)
    if cuda:
        return {"gpu": _table("on the GPU", GPU_STEP, rounds, blocks, GOALS["gpu"])}
    return {
        name: _table(f"a step of about {name} on one core", step_near(target), rounds, blocks, GOALS[name])
        for name, target in CPU_TARGETS_SECONDS.items()
    }


def step_near(target: float) -> Step:
    """The width whose raw step on this machine comes nearest to the target."""
    core = max(os.sched_getaffinity(0))
    tried = []
    for dim in CPU_DIMS:
        step = Step(dim=dim, depth=2, batch=32, steps=10, device="cpu", core=core)
        with Worker(partial(block_of_steps, step, "raw")) as worker:
            seconds = min(cpu for _, cpu in (worker.work() for _ in range(20)))
        tried.append((abs(seconds / target - 1), seconds, step))
        if seconds > 2 * target:
            break
    _, seconds, step = min(tried, key=lambda one: one[0])
    return replace(step, steps=max(10, round(BLOCK_SECONDS / seconds)))


def _table(title: str, step: Step, rounds: int, blocks: int, goal: float) -> dict[str, object]:
    seconds = [one_round(step, blocks, number, ARMS) for number in range(rounds)]
    raw_ms, raw_cpu_ms = (
        1e3 * median(times[clock] for one in seconds for times in one["raw"]) for clock in (WALL, CPU)
    )
    ratios = {arm: ratio_to_raw(seconds, arm, WALL) for arm in ARMS if arm != "raw"}
    cpu_ratios = {arm: ratio_to_raw(seconds, arm, CPU) for arm in ratios}
    print(f"\nOverhead, {title}: dim {step.dim}, depth {step.depth}, batch {step.batch}")
    print(f"raw step {raw_ms:.3f} ms by the wall clock, {raw_cpu_ms:.3f} ms of CPU time")
    print(f"{rounds} rounds of fresh processes, {blocks} blocks of {step.steps} steps each, taking turns")
    print(f"{'arm':<12}{'wall time over raw [95 %]':<28}{'CPU time over raw [95 %]':<28}{'added CPU':>12}")
    for arm, ratio in ratios.items():
        added_us = (cpu_ratios[arm].value - 1) * raw_cpu_ms * 1e3
        print(f"{arm:<12}{ratio.text():<28}{cpu_ratios[arm].text():<28}{added_us:>9.1f} us")
    print(f"goal for watched: at most {goal}; {judgement(ratios['watched'], goal)}")
    return {
        "step": step.plain(),
        "raw_ms": raw_ms,
        "raw_cpu_ms": raw_cpu_ms,
        "goal": goal,
        "wall": {arm: ratio.plain() for arm, ratio in ratios.items()},
        "cpu": {arm: ratio.plain() for arm, ratio in cpu_ratios.items()},
    }


def one_round(step: Step, blocks: int, number: int, arms: tuple[str, ...]) -> dict[str, list[Times]]:
    """Seconds per step of every block, by arm; the order rotates so that no arm always follows the same one."""
    seconds: dict[str, list[Times]] = {arm: [] for arm in arms}
    with ExitStack() as stack:
        workers = {arm: stack.enter_context(Worker(partial(block_of_steps, step, arm))) for arm in arms}
        for arm in arms:
            workers[arm].work()  # comes back when the warm-up is over
        for block in range(blocks):
            shift = (number + block) % len(arms)
            for arm in arms[shift:] + arms[:shift]:
                seconds[arm].append(workers[arm].work())
    return seconds


def ratio_to_raw(rounds: list[dict[str, list[Times]]], arm: str, clock: int) -> Ratio:
    """Of one clock; the interval is over rounds."""
    pairs = [zip(one[arm], one["raw"], strict=True) for one in rounds]
    return median_with_interval([median(mine[clock] / raw[clock] for mine, raw in pair) for pair in pairs])


def judgement(ratio: Ratio, goal: float) -> str:
    """Whether the goal is reached, as far as the interval tells."""
    if ratio.high <= goal:
        return "reached"
    return "missed" if ratio.low > goal else "cannot tell: the interval holds it"
