"""Repeats one piece of work of one revision: `revisions.py` runs this file with that revision's own `src` and `bench`.

It prints a line once it is ready. Each line on stdin asks for the work once; the answer is its wall and CPU seconds.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Work = Callable[[], tuple[float, float]]


@contextmanager
def a_step(settings: dict[str, object]) -> Iterator[Work]:
    """Times a block of training steps: raw, watched or examined."""
    from bench.arms import Step, block_of_steps

    arm = str(settings.pop("arm"))
    yield block_of_steps(Step(**settings), arm)  # type: ignore[arg-type]


@contextmanager
def a_run(settings: dict[str, object]) -> Iterator[Work]:
    """Times a further run of two ranks by the fork launcher, whose server is up.

    It goes by what the revision's own `bench/start.py` has imported: modules of the product move, benchmarks seldom.
    """
    from bench import start

    with start.Servers() as servers, tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        machine = start.machine_facts(servers)
        number = 0

        def one() -> tuple[float, float]:
            nonlocal number
            number += 1
            cpu = time.process_time()
            return start._timed("fork", number, Path(folder), machine, servers), time.process_time() - cpu

        one()  # starts the server
        yield one


def main() -> None:
    """Serves until stdin ends."""
    settings = json.loads(sys.argv[1])
    kind = {"step": a_step, "run": a_run}[settings.pop("kind")]
    answers = sys.stdout
    sys.stdout = sys.stderr
    with kind(settings) as work:
        print("ready", file=answers, flush=True)
        for _ in sys.stdin:
            print(*work(), file=answers, flush=True)


if __name__ == "__main__":
    main()
