"""Folders that `doctor` and `rehearse` leave, shown and reported: what their runs are, of this schema and the last."""

import json
from pathlib import Path

import pytest

from run_folders import write_run
from scalewise.cli import main
from scalewise.records.folder import RunFolder
from scalewise.records.spec import Change, Examined, Rehearsed

SUITE = 'name = "train-{verb}"\ntitle = "train.py"\n[[experiment]]\nname = "exp"\n'
FIX = {"changes": (Change("no_sync", {"window": 4}),)}
OLD = {"inspect": False, "examine": False, "show_gradients": False, "rehearse": None, "interventions": []}


def of_schema_1(run: RunFolder, **kind: object) -> None:
    """The spec as the version before wrote it."""
    data = json.loads(run.spec.read_text())
    remedies = data.pop("changes")
    del data["kind"]
    run.spec.write_text(json.dumps({**data, **OLD, "remedies": remedies, "schema": 1, **kind}))


def doctors_folder(folder: Path, old: bool) -> Path:
    """An observed run, a replay that was examined, and one that was timed."""
    runs = {
        "observed": write_run(folder, "observed", 2, kind=Examined()),
        "r0-mended": write_run(folder, "r0-mended", 2, kind=Examined(show_gradients=True), **FIX),
        "r1-plain": write_run(folder, "r1-plain", 2, repeat=1),
        "r1-mended": write_run(folder, "r1-mended", 2, repeat=1, **FIX),
    }
    (folder / "suite.toml").write_text(SUITE.format(verb="doctor"))
    for name, run in runs.items() if old else ():
        of_schema_1(run, examine=name[:2] != "r1", show_gradients=name == "r0-mended")
    return folder


def rehearsals_folder(folder: Path, old: bool) -> Path:
    """One measured rank, and one that stood for eight."""
    measured = write_run(folder, "measure1")
    rehearsed = write_run(folder, "rehearse8", kind=Rehearsed(8, 0, 8))
    (folder / "suite.toml").write_text(SUITE.format(verb="rehearse"))
    if old:
        of_schema_1(measured)
        of_schema_1(rehearsed, rehearse={"world_size": 8, "rank": 0, "ranks_per_node": 8})
    return folder


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main(words)
    return " ".join(capsys.readouterr().out.split())


FOLDERS = [
    (
        doctors_folder,
        "Examined, not measured, and in no table: observed, r0-mended (no_sync window=4).",
        "scalewise doctor train.py --ranks 2",
        {"r1-plain", "r1-mended"},
    ),
    (
        rehearsals_folder,
        "Rehearsed, not measured, and in no table: rehearse8 (1 of 8 ranks).",
        "scalewise rehearse train.py --ranks 1,8",
        {"measure1"},
    ),
]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("make", "said", "command", "in_tables"), FOLDERS)
def test_a_folder_says_what_its_runs_are_and_only_timed_ones_are_in_tables(
    tmp_path, capsys, make, said, command, in_tables, old
):
    folder = make(tmp_path / "run", old)
    assert said in told(capsys, "show", str(folder))
    analysis = json.loads(told(capsys, "show", str(folder), "--json"))
    rows = [row for one in analysis["experiments"] for row in one["rows"]]
    assert {name for row in rows for name in row["run_names"]} == in_tables
    told(capsys, "report", str(folder), "--format", "html", "--out", str(tmp_path / "reports"))
    (page,) = (tmp_path / "reports").glob("*.html")
    text = page.read_text().replace("\u00a0", " ").replace("&nbsp;", " ")
    assert said in text and command in text
