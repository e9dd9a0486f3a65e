"""A record of what a script computes on one device: small enough to send, and used where that device is not.

It keeps one tape for each number of ranks and the computing time of every settled step, not every step's tape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import gmtime, strftime
from typing import get_args

from scalewise.analysis.relation import Relation
from scalewise.errors import BadRequest
from scalewise.plan.python_file import script_digest
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Phase, Tape
from scalewise.records.codec import BadRecord, read_json, write_json
from scalewise.records.load import Run
from scalewise.records.spec import Device


@dataclass(frozen=True)
class RecordedRank:
    """The computing, the memory and the messages of one rank of that many."""

    ranks: int
    rank: int
    company: int  # processes that rehearsed at the same time
    shapes_digest: str  # of the model's parameters as the rank holds them; empty: not known
    dtypes: tuple[str, ...]
    autocast: str  # precision of autocast; empty: none
    tape: Tape
    step_seconds: tuple[float, ...]  # computing of each settled step
    between_seconds: float
    peak_bytes: int | None
    uneven: bool = False
    relation: Relation | None = None


@dataclass(frozen=True)
class ComputingRecord:
    """The rehearsals of one script with its arguments on one device."""

    made_unix_seconds: float
    versions: dict[str, str]  # python, torch, cuda, scalewise, ...
    device: Device
    device_name: str  # of the GPU, or of the CPU
    cores_per_rank: int  # 0: on a GPU
    script: str  # its file name
    digest: str  # of the script, and of the modules beside it that it imports
    args: tuple[str, ...]
    found: tuple[RecordedRank, ...]  # fewest ranks first

    @property
    def rank_counts(self) -> tuple[int, ...]:
        """The numbers of ranks it holds, without the single rank that is the base."""
        return tuple(one.ranks for one in self.found if one.ranks > 1) or tuple(one.ranks for one in self.found)

    @property
    def where(self) -> str:
        """The device and the date, in words: `one NVIDIA A100 on 2026-11-19, with torch 2.13.0`."""
        when = strftime("%Y-%m-%d", gmtime(self.made_unix_seconds))
        cores = f"{self.cores_per_rank} core{'s' * (self.cores_per_rank != 1)} of " if self.cores_per_rank else "one "
        return f"{cores}{self.device_name} on {when}, with torch {self.versions.get('torch', 'of an unknown version')}"


def kept_rank(run: Run, found: RehearsedRank) -> RecordedRank:
    """The rehearsal as it is kept."""
    model = run.ranks[0].model
    autocast = next((row.autocast for row in reversed(run.ranks[0].steps) if row.autocast), "")
    return RecordedRank(
        ranks=found.ranks,
        rank=found.rank,
        company=found.company,
        shapes_digest=model.shapes_digest if model else "",
        dtypes=found.dtypes,
        autocast=autocast or "",
        tape=found.typical,
        step_seconds=tuple(tape.compute_seconds for tape in found.tapes),
        between_seconds=found.between_seconds,
        peak_bytes=found.peak_bytes,
        uneven=found.uneven,
        relation=found.relation,
    )


def as_rehearsed(record: ComputingRecord, one: RecordedRank) -> RehearsedRank:
    """The rehearsal that the record keeps: its tape once for every step, as long as that step computed."""
    usual = one.tape.compute_seconds
    factors = [seconds / usual if usual > 0 else 1.0 for seconds in one.step_seconds]
    tapes = tuple(one.tape.scaled(dict.fromkeys(get_args(Phase), factor)) for factor in factors)
    return RehearsedRank(
        ranks=one.ranks,
        rank=one.rank,
        company=one.company,
        device=record.device,
        tapes=(one.tape,) if one.uneven else tapes,
        between_seconds=one.between_seconds,
        peak_bytes=one.peak_bytes,
        dtypes=one.dtypes,
        uneven=one.uneven,
        relation=one.relation,
    )


def keep_record(path: Path, record: ComputingRecord) -> None:
    """Writes the record; raises a BadRequest if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}.", "Choose another path.") from error


def kept_record(path: Path) -> ComputingRecord:
    """Reads a record; raises a BadRequest if the file is none, or says what cannot be."""
    made_by = "Make one with scalewise rehearse SCRIPT.py --keep-computing FILE."
    try:
        record = read_json(path, ComputingRecord)
    except BadRecord as error:
        raise BadRequest(f"{path} is no computing record: {error}.", made_by) from error
    if not record.found:
        raise BadRequest(f"{path} holds no number of ranks.", made_by)
    for one in record.found:
        if one.ranks < 1 or not one.step_seconds or min(one.step_seconds) < 0 or one.tape.ranks != one.ranks:
            raise BadRequest(f"{path}: what it says of {one.ranks} ranks cannot be.", made_by)
    return record


def mismatches(record: ComputingRecord, script: Path, args: Sequence[str]) -> list[BadRequest]:
    """The reasons why the record does not hold for this script and these arguments, each with what to do."""
    again = "Make a record of this very script and these arguments there: --keep-computing FILE."
    found = []
    if script_digest(script) != record.digest:
        text = f"the text of {script.name}, or of a module beside it, differs"
        found.append(BadRequest(f"The record was made of another {record.script}: {text}.", again))
    if tuple(args) != record.args:
        there, here = (" ".join(words) or "no arguments" for words in (record.args, args))
        found.append(BadRequest(f"The record was made with {there}, not with {here}.", again))
    return found


def different(one: RecordedRank, here: RecordedRank) -> list[str]:
    """The ways in which a rehearsal of as many ranks here differs from the record, each as the end of a sentence."""
    said = []
    if one.shapes_digest and here.shapes_digest and one.shapes_digest != here.shapes_digest:
        said.append("the model has parameters of other shapes here")
    if one.tape.samples is not None and here.tape.samples is not None and one.tape.samples != here.tape.samples:
        said.append(f"a step of a rank has {here.tape.samples:g} samples here and {one.tape.samples:g} there")
    if _sent(one) != _sent(here):
        said.append("a step sends other messages here")
    if (here.dtypes, here.autocast) != (one.dtypes, one.autocast):
        said.append(f"the precision is {_precision(here)} here and {_precision(one)} there")
    return said


def _sent(one: RecordedRank) -> list[tuple[str, float, int]]:
    return (
        [(message.kind, message.size_bytes, message.ranks) for message in one.tape.messages] if not one.uneven else []
    )


def _precision(one: RecordedRank) -> str:
    dtypes = " and ".join(name.removeprefix("torch.") for name in one.dtypes) or "unknown"
    return f"{dtypes} with autocast to {one.autocast.removeprefix('torch.')}" if one.autocast else dtypes
