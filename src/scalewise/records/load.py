"""Reads run folders back as values; damage in them becomes notes on the run, never an exception."""

import json
import os
import tomllib
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from scalewise.errors import BadRequest, did_you_mean
from scalewise.records.codec import BadRecord, decode, read_json
from scalewise.records.examination import AppliedRow, ExaminationRow
from scalewise.records.folder import RunFolder, SuiteFolder, made_runs
from scalewise.records.inspection import InspectionRow, UtilisationRow
from scalewise.records.machine import MachineFacts, SampleRow
from scalewise.records.notes import Note, read_note
from scalewise.records.outcome import Outcome
from scalewise.records.parity import ParityRow
from scalewise.records.rehearsal import RehearsalRow
from scalewise.records.rows import (
    ROW_KINDS,
    EndRow,
    ExposedRow,
    LevelRow,
    MemoryRow,
    ModelRow,
    ParametersRow,
    RootRow,
    Row,
    StartRow,
    StepRow,
    TroubleRow,
)
from scalewise.records.spec import RunSpec
from scalewise.records.steps import StepMachine
from scalewise.records.traffic import Traffic, TrafficReader
from scalewise.units import counted, with_capital


@dataclass(frozen=True)
class RankRecord:
    """Everything that one rank's file holds, by kind."""

    rank: int
    start: StartRow | None = None
    model: ModelRow | None = None
    steps: tuple[StepRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    exposed: tuple[ExposedRow, ...] = ()
    trouble: tuple[TroubleRow, ...] = ()
    end: EndRow | None = None
    torn_lines: int = 0
    bad_lines: tuple[str, ...] = ()
    inspection: tuple[InspectionRow, ...] = ()  # only in an inspected run
    notes: tuple[Note, ...] = ()  # only in an examined run
    examination: tuple[ExaminationRow, ...] = ()
    rehearsal: tuple[RehearsalRow, ...] = ()  # only in a rehearsed run
    levels: tuple[LevelRow, ...] = ()
    traffic: Traffic | None = None  # what the rank exchanged with other ranks; None: not read
    parameters: ParametersRow | None = None
    roots: tuple[RootRow, ...] = ()  # the modules that the script calls itself
    utilisation: tuple[UtilisationRow, ...] = ()  # only in an inspected run
    parity: tuple[ParityRow, ...] = ()  # only in a run that is compared

    def applied(self, change: str) -> int:
        """Returns how often the change took effect; older runs count a finding's fix as `remedy:NAME`."""
        told = [row.applied for row in self.examination if isinstance(row, AppliedRow) and row.change == change]
        counts = self.end.changes_applied if self.end else {}
        return max([counts.get(change, 0), counts.get(f"remedy:{change}", 0), *told])


@dataclass(frozen=True)
class Run:
    """One run; `notes` say what in its folder could not be read."""

    folder: Path
    spec: RunSpec
    outcome: Outcome | None  # None: not finished
    machine: MachineFacts | None
    ranks: tuple[RankRecord, ...]
    samples: tuple[SampleRow, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: tuple[tuple[SampleRow, ...], ...] = ()  # the samples of its other hosts
    machines: tuple[MachineFacts, ...] = ()  # of all its hosts, where each has told its own

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts on which its ranks lay."""
        named = self.outcome.hosts if self.outcome is not None else ()
        return named or tuple(dict.fromkeys(rank.start.host for rank in self.ranks if rank.start))

    @property
    def measured(self) -> bool:
        """Tells whether the run's rows may be used as a measurement."""
        return self.outcome is not None and self.outcome.measured and any(rank.steps for rank in self.ranks)

    @property
    def started_unix_seconds(self) -> float | None:
        """The time at which the first rank started; None if no rank recorded it."""
        return min((rank.start.started_unix_seconds for rank in self.ranks if rank.start), default=None)

    def applied(self, change: str) -> int:
        """Returns how often the change took effect on all ranks, by the last row that each has written of it."""
        return sum(rank.applied(change) for rank in self.ranks)


@dataclass(frozen=True)
class ExperimentText:
    """The texts that the suite gives to an experiment, for headings."""

    name: str
    title: str = ""
    question: str = ""
    ranks: tuple[int, ...] = ()  # numbers of ranks asked for, fewest first; empty: not said


@dataclass(frozen=True)
class LoadedSuite:
    """The runs of a folder, and the texts that the suite gives."""

    path: Path
    name: str
    runs: tuple[Run, ...]
    title: str = ""
    about: str = ""
    experiments: tuple[ExperimentText, ...] = ()  # in the order of the suite
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankRows:
    """The contents of one rank's file, and what could not be read of it."""

    rows: tuple[Row, ...]  # the lines that are rows, in order, then the steps
    torn_lines: int  # the last line, cut off by a kill
    notes: tuple[Note, ...]  # of an examined run, in the order they were made
    bad_lines: tuple[str, ...]  # any other line that cannot be read, with its number and reason
    traffic: Traffic = field(default_factory=Traffic)  # what was exchanged with other ranks, by moments of a step


def read_rows(path: Path) -> RankRows:
    """Reads all that can be read; neither a torn nor a damaged line stops the reading."""
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise BadRecord(f"{path}: {error}") from error
    lines = text.split("\n")
    torn = 1 if lines.pop() else 0
    rows: list[Row] = []
    bad: list[str] = []
    notes: list[Note] = []
    machine, traffic = StepMachine(), TrafficReader()
    for number, line in enumerate(lines, start=1):
        try:
            _read_line(line, rows, notes, machine, traffic)
        except (ValueError, TypeError, RecursionError) as error:
            machine.gap()
            bad.append(f"{path.name}:{number}: {error}")
    return RankRows((*rows, *machine.steps()), torn, tuple(notes), tuple(bad), traffic.traffic())


def _read_line(line: str, rows: list[Row], notes: list[Note], machine: StepMachine, traffic: TrafficReader) -> None:
    data: Any = json.loads(line)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "events":
        if not isinstance(data.get("events"), list):
            raise BadRecord("a line of events without events")
        machine.feed(data["events"])
        traffic.feed(data["events"])
    elif kind == "notes":
        if not isinstance(data.get("notes"), list):
            raise BadRecord("a line of notes without notes")
        notes += map(read_note, data["notes"])
    elif kind in ROW_KINDS:
        rows.append(decode(ROW_KINDS[kind], data))
    else:
        raise BadRecord(f"not a row: {line[:60]!r}")


Kind = TypeVar("Kind")

MOST_NAMED = 5  # in the sentence about runs that are gone
A_MILLION = 10**6  # a file with more ranks is damaged
A_YEAR_NS = 366 * 86_400 * 10**9  # a longer time is damage, and would overflow the arithmetic that follows


def load(path: Path) -> LoadedSuite:
    """The runs under this folder, which is that of a suite or of one run."""
    if RunFolder(path).spec.is_file():
        run, note = _run(RunFolder(path))
        if run is None:
            raise BadRequest(f"{path} holds a run that cannot be read: {note}.", "Measure it again.")
        return LoadedSuite(path, run.spec.suite, (run,), experiments=(ExperimentText(run.spec.experiment),))
    folder = SuiteFolder(path)
    if not path.is_dir() or not folder.runs():
        raise BadRequest(f"{path} {_why_not(path)}.", _where_else(path))
    loaded = [_run(one) for one in folder.runs()]
    runs = tuple(run for run, _ in loaded if run is not None)
    notes = [note for run, note in loaded if run is None]
    notes += _gone(folder)
    texts, text_note = _suite_texts(folder.suite)
    names = dict.fromkeys([one.name for one in texts.experiments] + [run.spec.experiment for run in runs])
    known = {one.name: one for one in texts.experiments}
    return LoadedSuite(
        path=path,
        name=texts.name or next((run.spec.suite for run in runs), path.name),
        runs=runs,
        title=texts.title,
        about=texts.about,
        experiments=tuple(known.get(name, ExperimentText(name)) for name in names),
        notes=(*notes, *text_note),
    )


def _gone(folder: SuiteFolder) -> list[str]:
    """A note that names the runs that were made here and have been removed since; empty if there are none."""
    made = made_runs(folder)
    gone = [name for name in made if not folder.run(name).path.exists()]
    if not gone:
        return []
    some = ", ".join(gone[:MOST_NAMED]) + (f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else "")
    runs = f"{len(gone)} of {len(made)} runs that were made here {'is' if len(gone) == 1 else 'are'} gone"
    return [f"{runs}, removed from {folder.path}: {some}; the same command makes what is missing again"]


def _why_not(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    if not path.is_dir():
        return "is a file, not the folder of a run"
    return "is not a run: it holds neither spec.json nor folders with one"


def _where_else(path: Path) -> str:
    """A hint that names up to five folders near by that do hold runs, after the one with the most similar name."""
    places = [path, path.parent, path.parent / "runs", Path("runs")]
    found = {str(one) for place in places for one in _folders_with_runs(place)}
    if not found:
        return "Measure first: scalewise run tour."
    near = did_you_mean(path.name, [Path(one).name for one in found])
    some = ", ".join(sorted(found)[:5])
    return f"{with_capital(near)} There are runs in: {some}.".strip()


def _folders_with_runs(place: Path) -> list[Path]:
    try:
        folders = [one for one in sorted(place.iterdir()) if one.is_dir()][:200]
        return [one for one in folders if RunFolder(one).spec.is_file() or SuiteFolder(one).runs()]
    except OSError:
        return []


def _run(folder: RunFolder) -> tuple[Run | None, str]:
    """The run and an empty text, or None and the reason why its spec cannot be read."""
    try:
        spec = read_json(folder.spec, RunSpec)
    except BadRecord as problem:
        return None, str(problem)
    if not 1 <= spec.ranks <= spec.world_size < A_MILLION:
        return None, f"{folder.spec}: {spec.ranks} ranks, {spec.world_size} in all, cannot be"
    notes: list[str] = []
    outcome = _optional(folder.outcome, Outcome, notes)
    machine = _optional(folder.machine, MachineFacts, notes)
    ranks = tuple(_rank(number, path, folder.examination(number), notes) for number, path in folder.rank_files())
    samples = _samples(folder.samples, notes)
    count = spec.nodes.count if spec.nodes else 0
    elsewhere = tuple(_samples(folder.samples_on(node), notes) for node in range(1, count))
    found = [_optional(folder.machine_on(node), MachineFacts, notes) for node in range(count)]
    machines = tuple(facts for facts in found if facts is not None)
    return Run(folder.path, spec, outcome, machine, ranks, samples, tuple(notes), elsewhere, machines), ""


def _optional(path: Path, kind: type[Kind], notes: list[str]) -> Kind | None:
    if not os.path.lexists(path):
        return None
    try:
        return read_json(path, kind)
    except BadRecord as problem:
        notes.append(str(problem))
        return None


def _rank(number: int, path: Path, examination: Path, notes: list[str]) -> RankRecord:
    read, noted = _rows(path, notes), _rows(examination, notes)
    steps = sorted((row for row in read.rows if isinstance(row, StepRow)), key=lambda row: row.step)
    whole: list[StepRow] = []
    odd: list[StepRow] = []
    for row in steps:
        twice = bool(whole) and whole[-1].step == row.step
        (odd if twice or not _possible(row) else whole).append(row)
    bad = [f"{path.name}: step {row.step} is there twice or holds impossible times" for row in odd]
    return RankRecord(
        rank=number,
        start=_last(read.rows, StartRow),
        model=_last(read.rows, ModelRow),
        steps=tuple(whole),
        memory=rows_of_kind(read.rows, MemoryRow),
        levels=rows_of_kind(read.rows, LevelRow),
        exposed=rows_of_kind(read.rows, ExposedRow),
        traffic=read.traffic,
        parameters=_last(read.rows, ParametersRow),
        trouble=rows_of_kind(read.rows, TroubleRow),
        end=_last(read.rows, EndRow),
        torn_lines=read.torn_lines + noted.torn_lines,
        bad_lines=(*read.bad_lines, *noted.bad_lines, *bad),
        inspection=tuple(row for row in read.rows if isinstance(row, typing.get_args(InspectionRow))),
        notes=noted.notes,
        rehearsal=tuple(row for row in read.rows if isinstance(row, typing.get_args(RehearsalRow))),
        roots=rows_of_kind(read.rows, RootRow),
        utilisation=tuple(row for row in read.rows if isinstance(row, typing.get_args(UtilisationRow))),
        parity=tuple(row for row in read.rows if isinstance(row, typing.get_args(ParityRow))),
        examination=tuple(row for row in (*noted.rows, *read.rows) if isinstance(row, typing.get_args(ExaminationRow))),
    )


def _rows(path: Path, notes: list[str]) -> RankRows:
    try:
        if path.exists():
            return read_rows(path)
    except BadRecord as problem:
        notes.append(str(problem))
    return RankRows((), 0, (), ())


def _possible(row: StepRow) -> bool:
    """Tells whether the row's durations and counts are possible: a damaged digit must not become a measurement."""
    phases = (row.forward_ns, row.backward_ns, row.optimizer_ns, row.rest_ns, row.between_ns)
    durations = (
        row.data_ns,
        row.data_inside_ns,
        row.collective_ns,
        row.turn_ns or 0,
        *(ns for ns in phases if ns is not None),
    )
    counts = (
        row.micro_batches,
        row.samples or 0,
        row.optimizer,
        row.opened_by or 0,
        row.samples_at or 0,
        *(n for pair in row.collectives.values() for n in pair),
    )
    whole = all(isinstance(value, int) for value in (row.step_ns, *durations, *counts))
    floats = all(value is None or isinstance(value, (int, float)) for value in (row.loss, row.scale))
    return (
        whole
        and floats
        and 0 < row.step_ns < A_YEAR_NS
        and all(0 <= value < A_YEAR_NS for value in durations)
        and all(0 <= value < 2**53 for value in counts)
    )


def rows_of_kind(rows: Iterable[object], kind: type[Kind]) -> tuple[Kind, ...]:
    """Returns the rows of one kind, in their order."""
    return tuple(row for row in rows if isinstance(row, kind))


def _last(rows: tuple[Row, ...], kind: type[Kind]) -> Kind | None:
    found = rows_of_kind(rows, kind)
    return found[-1] if found else None


def _samples(path: Path, notes: list[str]) -> tuple[SampleRow, ...]:
    try:
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return ()
    except OSError as error:
        notes.append(f"{path}: {error}")
        return ()
    samples, bad = [], 0
    for line in lines[:-1]:  # the last is empty, or torn
        try:
            samples.append(decode(SampleRow, json.loads(line)))
        except (BadRecord, ValueError, RecursionError):
            bad += 1
    if bad:
        notes.append(f"{path}: {counted(bad, 'damaged line')}")
    return tuple(samples)


def _suite_texts(path: Path) -> tuple[LoadedSuite, tuple[str, ...]]:
    """Titles and questions of a suite, read leniently: a suite of another version still gives its headings."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return LoadedSuite(path, "", ()), ()
    except (OSError, ValueError, RecursionError) as error:
        return LoadedSuite(path, "", ()), (f"{path}: {error}",)
    text = _text_of(data)
    tables = data.get("experiment")
    found = [_experiment(one) for one in tables if isinstance(one, dict)] if isinstance(tables, list) else []
    experiments = tuple(one for one in found if one.name)
    return LoadedSuite(path, text("name"), (), text("title"), text("about"), experiments), ()


def _experiment(table: dict[str, Any]) -> ExperimentText:
    read, ranks = _text_of(table), table.get("ranks")
    asked = sorted(one for one in ranks if isinstance(one, int)) if isinstance(ranks, list) else ()
    return ExperimentText(read("name"), read("title"), read("question"), tuple(asked))


def _text_of(table: dict[str, Any]) -> Callable[[str], str]:
    def read(field: str) -> str:
        value = table.get(field, "")
        return value if isinstance(value, str) else ""

    return read
