"""Suites on disk for tests of reports: finished, failed, torn and missing runs, with names nobody wants to meet."""

import json
from pathlib import Path
from typing import Any

from factories import make_machine, make_outcome, make_spec, quiet_sample, rank_lines
from scalewise.records.codec import encode, write_json
from scalewise.records.folder import RunFolder
from scalewise.records.outcome import Outcome

SUITE = """
name = "own"
title = "My own suite"
[[experiment]]
name = "exp"
title = "Strong scaling"
question = "Does it scale?"
[[experiment]]
name = "later"
title = "Never run"
"""


def write_run(folder: Path, name: str, ranks: int = 1, *, outcome: Outcome | None = None, **changes: Any) -> RunFolder:
    """A finished run of 40 steps, unless the outcome says otherwise."""
    run = RunFolder(folder / name)
    run.path.mkdir(parents=True)
    write_json(run.spec, make_spec(ranks, name=name, **changes))
    write_json(run.machine, make_machine(versions={"torch": "2.13.0", "python": "3.12"}))
    for rank in range(ranks):
        run.rank(rank).write_bytes(rank_lines(steps=40, rank=rank))
    run.samples.write_text(f"{json.dumps(encode(quiet_sample()))}\n" * 3)
    run.command.write_text(
        "# Repeats\ncd /x && SCALEWISE_OUT=1 y\n\n# cd /x && OMP_NUM_THREADS=1 /v/bin/torchrun /s/t.py\n"
    )
    write_json(run.outcome, outcome or make_outcome())
    return run


def write_suite(folder: Path) -> Path:
    """Two arms that finished."""
    write_run(folder, "exp-ranks1-r0", 1)
    write_run(folder, "exp-ranks2-r0", 2)
    (folder / "suite.toml").write_text(SUITE)
    return folder


def write_damaged_suite(folder: Path, words: str = "my words") -> Path:
    """One arm finished; others failed, were torn, are unreadable or not finished."""
    write_suite(folder)
    write_run(folder, "exp-ranks4-r0", 4, outcome=make_outcome("out_of_memory", f"Rank 1 ran out of memory: {words}."))
    torn = write_run(folder, "exp-ranks1-r1", 1, repeat=1)
    torn.rank(0).write_bytes(torn.rank(0).read_bytes()[:-40])
    write_run(folder, "exp-ranks2-r1", 2, repeat=1).outcome.unlink()
    write_run(folder, "exp-ranks8-r0", 8).spec.write_text("{ not json")
    return folder
