"""What the doctor's observing run costs: an examined step against the raw one, the ordinary watcher beside it.

The first windows, which are looked at closely, are over before the clock runs: this is the price of the steady state.
"""

from statistics import median

from bench.forked import freeze
from bench.overhead import CPU, GPU_STEP, WALL, judgement, one_round, ratio_to_raw, step_near

ARMS = ("raw", "watched", "examined")
STEP_SECONDS = 5e-3
GOAL = 1.05


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints one table and gives the figures back."""
    freeze()
    rounds, blocks = (4, 10) if quick else (20, 20)
    step = GPU_STEP if cuda else step_near(STEP_SECONDS)
    seconds = [one_round(step, blocks, number, ARMS) for number in range(rounds)]
    raw_ms = 1e3 * median(times[WALL] for one in seconds for times in one["raw"])
    wall = {arm: ratio_to_raw(seconds, arm, WALL) for arm in ARMS[1:]}
    cpu = {arm: ratio_to_raw(seconds, arm, CPU) for arm in ARMS[1:]}
    print(f"\nExamination, a step of {raw_ms:.3f} ms: dim {step.dim}, depth {step.depth}, batch {step.batch}")
    print(f"{rounds} rounds of fresh processes, {blocks} blocks of {step.steps} steps each, taking turns")
    print(f"{'arm':<12}{'wall time over raw [95 %]':<28}{'CPU time over raw [95 %]':<28}")
    for arm in wall:
        print(f"{arm:<12}{wall[arm].text():<28}{cpu[arm].text():<28}")
    print(f"goal for examined: at most {GOAL}; {judgement(wall['examined'], GOAL)}")
    return {
        "step": step.plain(),
        "raw_ms": raw_ms,
        "goal": GOAL,
        "wall": {arm: ratio.plain() for arm, ratio in wall.items()},
        "cpu": {arm: ratio.plain() for arm, ratio in cpu.items()},
    }
