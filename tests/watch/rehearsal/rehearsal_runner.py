"""Rehearses a script in a process forked from the preloaded one."""

from pathlib import Path

from watch_runner import Ran, Runner, prepare

from scalewise.records.folder import RunFolder
from scalewise.records.rehearsal import TapeRow
from scalewise.records.rows import StepRow, TroubleRow
from scalewise.records.spec import Rehearsed


def rehearse(runner: Runner, script: str, *args: str, ranks: int = 2, rank: int = 0, **changes: object) -> Ran:
    """As rank r of so many, which the script is told as torchrun would."""

    def request():
        asked = runner._request(script, args, 1)
        asked["environment"][0] |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        changed = {"kind": Rehearsed(ranks, rank, 8), **changes}
        spec = prepare(RunFolder(Path(asked["out"])), script, args, Path(asked["cwd"]), 1, changed)
        return {**asked, "spec": str(spec), "sabotage": ""}

    ran = runner._run(request)
    assert ran.codes == (0,), ran.stderr
    assert not [row.error for row in of(ran, TroubleRow)]
    return ran


def of(ran: Ran, kind: type, rank: int = 0) -> list:
    """Rows of one kind."""
    return [row for row in ran.rows(rank).rows if isinstance(row, kind)]


def steps(ran: Ran) -> list[StepRow]:
    """What the ordinary watcher made of the steps."""
    return of(ran, StepRow)


def tapes(ran: Ran) -> list[TapeRow]:
    """Every step on tape."""
    return of(ran, TapeRow)
