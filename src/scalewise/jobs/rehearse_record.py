"""Takes the computing of a rehearsal from a record that was made elsewhere, and writes such a record."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from scalewise.errors import BadRequest
from scalewise.jobs.measure import Here
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import Reporter
from scalewise.plan.python_file import script_digest
from scalewise.plan.seating import Seating
from scalewise.predict.answer import Refused
from scalewise.predict.computing_record import (
    ComputingRecord,
    as_rehearsed,
    different,
    keep_record,
    kept_rank,
    kept_record,
    mismatches,
)
from scalewise.predict.rehearsed import RehearsedRank, rehearsed
from scalewise.records.load import Run
from scalewise.records.spec import Device

UNCOMPARED = "the shapes and the precision of the record could not be compared with a rehearsal here: {}"


class Stage(Protocol):
    """The part of a stage (`jobs.rehearse.RehearsalStage`) that is needed here."""

    request: RehearseRequest
    reporter: Reporter
    here: Here
    device: Device
    seats: Seating

    def rehearse(self, ranks: int, *, company: int | None = None, name: str = "") -> Run:
        """Rehearses that many ranks."""


@dataclass(frozen=True)
class FromRecord:
    """The rehearsals of a record for the numbers of ranks asked for."""

    found: dict[int, RehearsedRank]  # one rank, too, if the record has it
    refused: tuple[Refused, ...]
    warnings: tuple[str, ...]


def record_asked(request: RehearseRequest) -> ComputingRecord | None:
    """The record of the request, which must hold for its script and arguments; None if it names none."""
    if request.computing_from is None:
        return None
    record = kept_record(request.computing_from)
    problems = _contradictions(request) + mismatches(record, request.script, request.args)
    if request.link is None:
        problems.append(
            BadRequest("What joins the ranks of the record is not said.", "Name it: --link nvlink4, or a file in TOML.")
        )
    if problems:
        hints = dict.fromkeys(one.hint for one in problems)
        raise BadRequest(" ".join(one.sentence for one in problems), "\n".join(hints))
    return record


def _contradictions(request: RehearseRequest) -> list[BadRequest]:
    found = []
    if request.keep_computing is not None:
        sentence = f"Computing from {request.computing_from} is not kept in {request.keep_computing}: it is there."
        found.append(BadRequest(sentence, "Leave one of the two files out."))
    if request.also:
        sentence = "Further arguments (--also) are rehearsed here, and computing comes from a record."
        found.append(BadRequest(sentence, "Leave one of the two out."))
    return found


def from_record(stage: Stage, record: ComputingRecord) -> FromRecord:
    """The record's rehearsals, after a rehearsal here has shown that shapes and precision are the same."""
    asked = stage.request.ranks
    kept = {one.ranks: one for one in record.found}
    numbers = [ranks for ranks in asked if ranks in kept]
    have = ", ".join(map(str, record.rank_counts))
    missing = [ranks for ranks in asked if ranks not in kept]
    said = [Refused(ranks, f"The record has {have} ranks, not {ranks}.", "Ask for those.") for ranks in missing]
    if not numbers:
        raise BadRequest(" ".join(one.reason for one in said), f"Ask for those: --ranks {have.replace(' ', '')}")
    first = min(numbers, key=lambda ranks: (ranks == 1, ranks))
    run = stage.rehearse(first, company=1, name="-here")
    here = rehearsed(run)
    warnings = []
    if not isinstance(here, RehearsedRank):
        warnings.append(UNCOMPARED.format(here.reason))
    else:
        compared = kept_rank(run, here)
        if record.device != stage.device:  # a script may choose its precision by the device
            compared = replace(compared, dtypes=kept[first].dtypes, autocast=kept[first].autocast)
            warnings.append(UNCOMPARED.format("it runs on another kind of device").replace("shapes and the ", ""))
        if differs := different(kept[first], compared):
            raise BadRequest(
                f"The record does not hold for {stage.request.script.name} as it runs here: {'; '.join(differs)}.",
                "Make a record with the same data and settings there: --keep-computing FILE.",
            )
    found = {one.ranks: as_rehearsed(record, one) for one in record.found if one.ranks in {1, *numbers}}
    return FromRecord(found, tuple(said), tuple(warnings))


def keep_computing(stage: Stage, found: Mapping[int, RehearsedRank], runs: Mapping[int, Run]) -> None:
    """Writes what was rehearsed, and one rank, to the file that the request names, if it names one."""
    path, facts = stage.request.keep_computing, stage.here.facts
    if path is None:
        return
    kept = {ranks: kept_rank(runs[ranks], one) for ranks, one in found.items()}
    if 1 not in kept:
        alone = stage.rehearse(1)
        one = rehearsed(alone)
        kept |= {1: kept_rank(alone, one)} if isinstance(one, RehearsedRank) else {}
    on_gpu = stage.device == "cuda"
    record = ComputingRecord(
        made_unix_seconds=time.time(),
        versions=facts.versions,
        device=stage.device,
        device_name=facts.gpus[0].name if on_gpu else facts.cpu_model,
        cores_per_rank=0 if on_gpu else stage.seats.cores_per_rank,
        script=stage.request.script.name,
        digest=script_digest(stage.request.script),
        args=stage.request.args,
        found=tuple(one for _, one in sorted(kept.items())),
    )
    keep_record(path, record)
    stage.reporter.say(f"computing of {', '.join(map(str, record.rank_counts))} ranks kept in {path}")
