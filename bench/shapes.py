"""Whether a step is what a person would time by hand, whatever the shape of the loop.

For each shape two processes take turns, block by block: a bare copy and a watched one. Both hold a hand timer. The
watcher's step is compared with the hand timer of the same process, step by step, and with that of the bare copy. The
second also holds what watching costs. `SHAPES=gan,siamese python -m bench shapes` runs some of them.
"""

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

from bench.arms import Step, keep_freed_memory, watch
from bench.forked import Times, Worker, freeze
from bench.ratios import Ratio, median_with_interval
from bench.shape_hand import Hand
from bench.shape_loops import SHAPES
from scalewise.analysis.series import series
from scalewise.records.load import load

GOAL = 0.02
CPU_DIM, GPU_DIM = 512, 4096
BLOCK, WARMUP = 6, 12  # iterations
ARMS = ("bare", "watched")


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints one line per shape and gives the figures back."""
    freeze()
    rounds, blocks = (3, 5) if quick else (7, 8)
    wanted = os.environ.get("SHAPES", "").split(",")
    chosen = [shape for shape in SHAPES if shape.__name__ in wanted or wanted == [""]]
    print(f"\nSteps by the watcher over steps by hand; {rounds} rounds of fresh processes, {blocks} blocks of {BLOCK}")
    print(f"{'shape':<30}{'same process [95 %]':<27}{'bare copy [95 %]':<27}{'data ms: tool, hand':<21}samples/s error")
    return {shape.__name__: _shape(shape.__name__, rounds, blocks, cuda) for shape in chosen}


def _shape(name: str, rounds: int, blocks: int, cuda: bool) -> dict[str, object]:
    found = [_round(name, blocks, number, cuda) for number in range(rounds)]
    same, bare = (median_with_interval([one[key] for one in found]) for key in ("same", "bare"))
    data = [1e3 * median(one[key] for one in found) for key in ("data_tool", "data_hand")]
    errors = [one["rate_error"] for one in found]
    rate = f"{median(errors) * 100:+.1f} %" if np.isfinite(errors).all() else "withheld"
    if rate == "withheld" and SHAPES[_by_name(name)] is not None:
        rate = "WITHHELD"
    judged = _judged(same)
    print(f"{name:<30}{same.text():<27}{bare.text():<27}{data[0]:>8.2f} {data[1]:>8.2f}    {rate:<9} {judged}")
    sys.stdout.flush()
    return {"same": same.plain(), "bare": bare.plain(), "data_ms": data, "rate_error": rate, "goal": judged}


def _judged(ratio: Ratio) -> str:
    if abs(ratio.value - 1) <= GOAL:
        return "within 2 %"
    return "MISSED" if ratio.low > 1 + GOAL or ratio.high < 1 - GOAL else "cannot tell"


def _by_name(name: str) -> Callable[[Hand], object]:
    return next(shape for shape in SHAPES if shape.__name__ == name)


def _round(name: str, blocks: int, number: int, cuda: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="scalewise-bench-") as text:
        folder = Path(text)
        with ExitStack() as stack:
            workers = {
                arm: stack.enter_context(Worker(partial(_prepared, name, arm, folder, blocks, cuda))) for arm in ARMS
            }
            for block in range(1 + blocks):
                for arm in ARMS if (block + number) % 2 else reversed(ARMS):
                    workers[arm].work()
        return _compared(name, folder)


def _prepared(name: str, arm: str, folder: Path, blocks: int, cuda: bool) -> Callable[[], Times]:
    """The loop in this process; the last block writes what was timed."""
    atexit._clear()  # what the parent has to do when it ends is not this process's business
    device = "cuda" if cuda else "cpu"
    if not cuda:
        torch.set_num_threads(1)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        keep_freed_memory()
    run_folder = folder / arm
    run_folder.mkdir()
    if arm == "watched":
        watch(run_folder, Step(dim=0, depth=0, batch=0, steps=0, device=device))
    torch.manual_seed(0)
    hand = Hand(device, GPU_DIM if cuda else CPU_DIM)
    loop = _by_name(name)(hand)
    made = 0

    def work() -> Times:
        nonlocal made
        for _ in range(BLOCK if made else WARMUP):
            next(loop)  # type: ignore[call-overload]
        made += 1
        if made == 1 + blocks:
            times = {"steps": hand.steps, "loops": hand.loops, "data": hand.data}
            (folder / f"{arm}.json").write_text(json.dumps(times), encoding="utf-8")
            atexit._run_exitfuncs()
        return 0.0, 0.0

    return work


def _compared(name: str, folder: Path) -> dict[str, float]:
    """The settled iterations of both; a block's first is left out, for the other process has used the caches."""
    bare, own = (json.loads((folder / f"{arm}.json").read_text(encoding="utf-8")) for arm in ARMS)
    (run,) = load(folder).runs
    found = series(run)
    assert found is not None
    numbers = [row.step // found.optimizer_steps for row in found.rows[0]]
    kept = [at for at, number in enumerate(numbers) if number >= WARMUP and (number - WARMUP) % BLOCK]
    tool = found.slowest_seconds
    settled = [number for number in range(WARMUP, len(own["steps"])) if (number - WARMUP) % BLOCK]
    loops = found.loop_seconds.max(axis=0)
    told = np.nan if found.global_samples() is None else found.global_samples()
    true = SHAPES[_by_name(name)] or np.nan
    return {
        "same": median(tool[at] / own["steps"][numbers[at]] for at in kept),
        "bare": median(tool[at] for at in kept) / median(bare["steps"][number] for number in settled),
        "data_tool": median(found.phase_seconds["data"][0][at] for at in kept),
        "data_hand": median(own["data"][numbers[at]] for at in kept),
        "rate_error": told
        / median(loops[at] for at in kept)
        / (true / median(own["loops"][numbers[at]] for at in kept))
        - 1,
    }
