"""One entry of the table makes a function counted, noted, held back and rehearsed; without the entry it is not."""

from pathlib import Path

import pytest
from watch_runner import Ran, Runner, prepare

from scalewise.records.collectives import KINDS
from scalewise.records.folder import RunFolder
from scalewise.records.load import read_rows
from scalewise.records.notes import CollectiveNote
from scalewise.records.rehearsal import TapeRow, UnrehearsedRow
from scalewise.records.rows import EndRow, StepRow, TroubleRow
from scalewise.records.spec import Change, Examined, Rehearsed

SCRIPT = "new_collective.py"
STEPS = 4
NAMES = ("all_to_all_single", "all_gather_object")
# A torch that has the two functions, and a table that does not know them yet.
UNKNOWN = f"""
from scalewise.records import collectives as table
known = table.COLLECTIVES
table.COLLECTIVES = tuple(one for one in known if one.name not in {NAMES})
"""
# One entry for each.
ADDED = (
    UNKNOWN
    + """
one = table.CollectiveFunction
table.COLLECTIVES += (
    one("all_to_all_single", "all_to_all", argument="input"),
    one("all_gather_object", "all_gather", "objects", objects="every_rank"),
)
"""
)
LINK = (Change("emulate_link", {"seconds": 0.001, "bytes_per_second": 1e9}),)


def of(ran: Ran, kind: type) -> list:
    """The rows of one kind of the first rank, of which none is a fault of ours."""
    assert ran.codes[0] == 0, ran.stderr
    rows = ran.rows(0).rows
    assert not [row.error for row in rows if isinstance(row, TroubleRow)]
    return [row for row in rows if isinstance(row, kind)]


def rehearsed(runner: Runner, table: str) -> Ran:
    """The first of two ranks alone."""

    def request():
        asked = runner._request(SCRIPT, (), 1)
        asked["environment"][0] |= {"RANK": "0", "WORLD_SIZE": "2"}
        changes = {"kind": Rehearsed(2, 0, STEPS)}
        spec = prepare(RunFolder(Path(asked["out"])), SCRIPT, (), Path(asked["cwd"]), 1, changes)
        return {**asked, "spec": str(spec), "sabotage": table}

    return runner._run(request)


def kinds_counted(ran: Ran) -> set[str]:
    return {kind for row in of(ran, StepRow) for kind in row.collectives}


@pytest.mark.parametrize(("table", "known"), [(UNKNOWN, False), (ADDED, True)])
def test_one_entry_makes_a_function_counted_and_noted(runner, table: str, known: bool) -> None:
    ran = runner.watched(SCRIPT, ranks=2, sabotage=table, kind=Examined())
    assert ("all_to_all" in kinds_counted(ran)) == known
    noted = [note.operation for note in read_rows(ran.out.examination(0)).notes if isinstance(note, CollectiveNote)]
    assert noted.count("all_to_all") == (STEPS if known else 0)
    # An object that nobody knows is seen by the messages that it is sent in.
    assert noted.count("all_gather") == STEPS * (1 if known else 2)


@pytest.mark.parametrize(("table", "held_back"), [(UNKNOWN, 2 * STEPS), (ADDED, 3 * STEPS)])
def test_one_entry_makes_a_function_held_back_by_an_emulated_link(runner, table: str, held_back: int) -> None:
    (end,) = of(runner.watched(SCRIPT, ranks=2, sabotage=table, changes=LINK), EndRow)
    assert end.changes_applied["emulate_link"] == held_back


@pytest.mark.parametrize(("table", "known"), [(UNKNOWN, False), (ADDED, True)])
def test_one_entry_makes_a_function_rehearsed(runner, table: str, known: bool) -> None:
    ran = rehearsed(runner, table)
    taped = {kind for row in of(ran, TapeRow) for kind, _, _ in row.messages}
    assert "all_to_all" in taped and taped <= set(KINDS)  # the group takes whatever function has sent it
    said = [row.what for row in of(ran, UnrehearsedRow)]
    assert any("all_gather_object" in one for one in said) == known
