"""Do both launchers measure the same: one training of two ranks, by the fork launcher and by torchrun, taking turns.

The losses of every step must be equal to the bit. The step times are compared as `scalewise compare` does it, paired by
round; the answer hoped for is "cannot tell", with a smallest visible difference that would matter to nobody.
"""

import tempfile
from pathlib import Path

from bench.runs import made, run_spec
from scalewise.analysis.comparison import compare_runs
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.experiment import subject_folder
from scalewise.records.load import Run, load
from scalewise.records.spec import LauncherName

SCRIPT = subject_folder() / "linear.py"
ARGS = ("--dim", "512", "--depth", "2", "--batch", "1024", "--steps", "100")
LAUNCHERS: tuple[LauncherName, ...] = ("fork", "torchrun")


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints the comparison for one and for two ranks and gives the figures back."""
    return {f"{ranks} ranks": _compared(ranks, 3 if quick else 10) for ranks in (1, 2)}


def _compared(ranks: int, rounds: int) -> dict[str, object]:
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        machine = machine_facts(servers)
        specs = [
            run_spec(SCRIPT, ARGS, f"{launcher}-{number}", machine, ranks=ranks, repeat=number, launcher=launcher)
            for number in range(rounds)
            for launcher in (LAUNCHERS if number % 2 else LAUNCHERS[::-1])
        ]
        made(specs, Path(folder), machine, servers)
        runs = load(Path(folder)).runs
    sides = {name: [one for one in runs if one.spec.launcher == name] for name in LAUNCHERS}
    comparison = compare_runs(sides["fork"], sides["torchrun"], "fork", "torchrun")
    losses = {_losses(one) for one in runs}
    print(f"\nThe two launchers, {ranks} ranks, {rounds} rounds taking turns")
    print(f"fork {_step_ms(comparison.a_step_seconds)}, torchrun {_step_ms(comparison.b_step_seconds)} a step")
    print(comparison.sentence)
    print(f"losses of all {len(runs)} runs: {'equal to the bit' if len(losses) == 1 else 'NOT equal'}")
    change = comparison.change
    return {
        "rounds": rounds,
        "answer": comparison.answer,
        "change": [change.value, change.low, change.high] if change else None,
        "smallest_visible": comparison.smallest_visible,
        "losses_equal": len(losses) == 1,
    }


def _losses(run: Run) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(row.loss for row in rank.steps[:64]) for rank in run.ranks)


def _step_ms(estimate: object) -> str:
    value = getattr(estimate, "value", None)
    return "-" if value is None else f"{value * 1e3:.2f} ms"
