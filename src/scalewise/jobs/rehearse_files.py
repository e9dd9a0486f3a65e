"""Refuses scripts whose ranks wait for one another's files, which a rehearsed rank does not see."""

import re
from pathlib import Path

from scalewise.jobs.failure_messages import first_failed
from scalewise.predict.answer import Refused
from scalewise.records.load import Run
from scalewise.records.outcome import WrittenFile
from scalewise.records.rehearsal import PolledRow

_MISSING = re.compile(r"(?:FileNotFoundError|No such file or directory)\D*?'([^']+)'|NotFound.*?'([^']+)'")
_MAKE_FIRST = (
    "A rehearsed rank has a view of the folder of its own, and barriers do not hold it back. Let real ranks make the "
    "file in this folder, then rehearse again: scalewise run {name} --ranks 2 --in-place"
)


def waits_for_file(ranks: int, name: str, run: Run) -> Refused | None:
    """The refusal of a script that failed for lack of a file that another rank writes; else None."""
    if run.spec.rehearsed is None or run.outcome is None:
        return None
    hint = _MAKE_FIRST.format(name=name)
    polled = [row for rank in run.ranks for row in rank.rehearsal if isinstance(row, PolledRow)]
    if polled and run.outcome.kind != "raised":
        row = polled[0]
        where = f"{Path(row.file).name}:{row.line}"
        return Refused(ranks, f"{name} as one of {ranks} ranks waits for another to write {row.path} ({where}).", hint)
    end = first_failed(run.outcome)
    found = _MISSING.search("\n".join(end.last_lines)) if end is not None else None
    if end is None or found is None:
        return None
    path, rank = found[1] or found[2], run.spec.rehearsed.rank + end.rank
    writer = next((one for one in _written(run) if one.rank != end.rank and _same(one.path, path)), None)
    if writer is not None and writer.rank is not None:
        other = run.spec.rehearsed.rank + writer.rank
        sentence = f"rank {rank} of {ranks} reads {path}, which rank {other} writes first."
    elif rank:
        sentence = f"rank {rank} of {ranks} did not find {path}, which another rank may have to write first."
    else:
        return None
    return Refused(ranks, f"{name}: {sentence}", hint, end.last_lines[-1:])


def _written(run: Run) -> tuple[WrittenFile, ...]:
    return run.outcome.world.files if run.outcome is not None and run.outcome.world is not None else ()


def _same(listed: str, named: str) -> bool:
    """Compares two paths by name: one may be relative to the working folder and the other not."""
    return Path(listed).name == Path(named).name
