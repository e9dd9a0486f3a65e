"""Whether the tool became slower: two revisions side by side in one run, `python -m bench revisions --before REV`.

The earlier revision is checked out beside the working tree. Every round does each piece of work once with each of the
two, in alternating order, so that whatever else happens on the machine falls on both. A round gives one ratio, now over
before; intervals are over rounds. The pieces are a watched and an examined training step, a further run of two ranks,
and whole commands: help, run, doctor and rehearse.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.overhead import step_near
from bench.ratios import median_with_interval
from scalewise.errors import BadRequest

ROOT = Path(__file__).parents[1]
WORKER = ROOT / "bench" / "revision_worker.py"
SUBJECT = str(ROOT / "src/scalewise/subjects/linear.py")
SMALL = ("--dim", "256", "--batch", "64", "--steps", "60")
BROKEN = str(ROOT / "tests/doctor/corpus/broken/accumulation_zeroed_too_early.py")
COMMANDS = {
    "--help": ("--help",),
    "run, 1 and 2 ranks": ("run", SUBJECT, "--ranks", "1,2", "--again", "--", *SMALL),
    "doctor, 2 ranks": ("doctor", BROKEN, "--ranks", "2"),
    "rehearse, 2 ranks": ("rehearse", SUBJECT, "--ranks", "2", "--", *SMALL),
}
WELL = (0, 2, 3)  # exit codes of a verb that did its work, whatever it found

Times = tuple[float, float]  # wall and CPU seconds
Work = Callable[[], Times]


@dataclass(frozen=True)
class Revision:
    """One of the two: its name, and the folder that holds its `src` and `bench`."""

    name: str
    tree: Path

    def environment(self) -> dict[str, str]:
        """Makes Python find this revision before an installed one, and then what it finds by itself."""
        found = (str(self.tree / "src"), str(self.tree), *filter(None, [os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": os.pathsep.join(found)}


def run(quick: bool, cuda: bool, before: str) -> dict[str, object]:
    """Prints one table and gives the figures back."""
    if cuda:
        raise BadRequest("revisions compares on the CPU only.", "Leave --cuda out.")
    rounds = 3 if quick else 12
    steps = [("0.3 ms", step_near(0.3e-3)), ("5 ms", step_near(5e-3))]
    results: dict[str, object] = {"before": before, "rounds": rounds}
    with checked_out(before) as tree, tempfile.TemporaryDirectory(prefix="scalewise-bench-") as scratch:
        revisions = (Revision("before", tree), Revision("now", ROOT))
        print(f"\nThe working tree (now) against {before} (before), {rounds} rounds taking turns")
        print(f"{'':<24}{'before':>12}{'now':>12}   {'wall, now over before':<26}CPU, now over before")
        for name, step in steps:
            for arm in ("watched", "examined"):
                row = f"{arm} step, {name}"
                work = partial(served, {"kind": "step", "arm": arm, **step.plain()})
                results[row] = _row(row, work, revisions, rounds, 5 if quick else 20)
        further = partial(served, {"kind": "run"})
        results["a further run"] = _row("a further run, 2 ranks", further, revisions, rounds, 3)
        for row, words in COMMANDS.items():
            results[row] = _row(row, partial(command, words, Path(scratch)), revisions, rounds, 1)
    return results


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Gives a folder with the files of a commit, for as long as it is needed; a folder is taken as it is."""
    if (Path(revision) / "src").is_dir():  # a machine without git gets the earlier files as a folder
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="scalewise-before-") as folder:
        tree = Path(folder) / "tree"
        done = _git("worktree", "add", "--detach", str(tree), revision)
        if done.returncode:
            raise BadRequest(f"{revision!r} cannot be checked out: {done.stderr.strip().splitlines()[-1]}")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)


@contextmanager
def served(settings: dict[str, object], revision: Revision) -> Iterator[Work]:
    """Gives work that a fresh process of the revision repeats on request, once it is warm."""
    command = [sys.executable, str(WORKER), json.dumps(settings)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=revision.environment()) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        asked, answers = worker.stdin, worker.stdout

        def answer() -> str:
            line = answers.readline()
            if not line:
                raise RuntimeError(f"the worker of {revision.name} has died; its traceback is above")
            return line

        def work() -> Times:
            print(file=asked, flush=True)
            wall, cpu = answer().split()
            return float(wall), float(cpu)

        answer()  # ready
        yield work
        asked.close()


@contextmanager
def command(words: Sequence[str], scratch: Path, revision: Revision) -> Iterator[Work]:
    """Gives work that runs a command of the revision from its start to its end, all its processes included."""
    whole = [sys.executable, "-m", "scalewise", *words]

    def work() -> Times:
        folder = tempfile.mkdtemp(dir=scratch)
        before = os.times()
        wall = time.perf_counter()
        done = subprocess.run(
            whole, cwd=folder, env=revision.environment(), capture_output=True, text=True, check=False
        )
        wall = time.perf_counter() - wall
        after = os.times()
        if done.returncode not in WELL:
            raise RuntimeError(f"{revision.name}: scalewise {' '.join(words)} failed: {done.stderr[-500:]}")
        return wall, after.children_user - before.children_user + after.children_system - before.children_system

    yield work


def _row(
    name: str,
    work: Callable[[Revision], AbstractContextManager[Work]],
    revisions: Sequence[Revision],
    rounds: int,
    blocks: int,
) -> dict[str, object]:
    """Makes the rounds, each with fresh processes, and prints what came out."""
    seconds = [_one_round(work, revisions, number, blocks) for number in range(rounds)]
    medians = {one.name: median(times[0] for by_name in seconds for times in by_name[one.name]) for one in revisions}
    ratios = {}
    for at, clock in enumerate(("wall", "cpu")):
        by_round = [
            median(now[at] / before[at] for now, before in zip(one["now"], one["before"], strict=True))
            for one in seconds
        ]
        ratios[clock] = median_with_interval(by_round)
    shown = "".join(f"{1e3 * medians[one.name]:>9.2f} ms" for one in revisions)
    print(f"{name:<24}{shown}   {ratios['wall'].text():<26}{ratios['cpu'].text()}", flush=True)
    return {"seconds": medians, **{clock: ratio.plain() for clock, ratio in ratios.items()}}


def _one_round(
    work: Callable[[Revision], AbstractContextManager[Work]],
    revisions: Sequence[Revision],
    number: int,
    blocks: int,
) -> dict[str, list[Times]]:
    seconds: dict[str, list[Times]] = {one.name: [] for one in revisions}
    with ExitStack() as stack:
        workers = {one.name: stack.enter_context(work(one)) for one in revisions}
        for block in range(blocks):
            for name in list(workers) if (number + block) % 2 else reversed(list(workers)):
                seconds[name].append(workers[name]())
    return seconds
