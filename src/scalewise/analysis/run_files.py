"""Lists what the runs of a suite did to the files of their working folder, as values and in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalewise.launch.private_views import MOST_KEPT_BYTES
from scalewise.records.load import Run
from scalewise.records.outcome import ReadFile, World, WrittenFile
from scalewise.units import bytes_text

MOST_NAMES = 3  # of files in one sentence


@dataclass(frozen=True)
class RunFiles:
    """The files of one run."""

    run: str
    folder: str  # of kept files
    world: World


def run_files_of(runs: Sequence[Run]) -> tuple[RunFiles, ...]:
    """The files of every run whose files were recorded."""
    return tuple(
        RunFiles(run.spec.name, str(run.folder / "files"), run.outcome.world)
        for run in runs
        if run.outcome is not None and run.outcome.world is not None
    )


def files_lines(found: Sequence[RunFiles]) -> list[str]:
    """Sentences on what was written and where it is now; empty if nothing was."""
    return [*_private(found), *_in_place(found), *_beyond(found)]


def read_lines(found: Sequence[RunFiles]) -> list[str]:
    """Sentences on checkpoints from which runs may have resumed, each checkpoint once."""
    reads: dict[ReadFile, list[str]] = {}
    for one in found:
        for file in one.world.read:
            reads.setdefault(file, []).append(one.run)
    return [
        f"{file.text()}, was read by {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: "
        "if the script resumed from it, its steps are those of a training that goes on."
        for file, names in reads.items()
    ]


def _private(found: Sequence[RunFiles]) -> Iterator[str]:
    wrote = [one for one in found if one.world.view != "in_place" and one.world.files_in_all]
    if not wrote:
        return
    view = "copy" if any(one.world.view == "copy" for one in wrote) else "view"
    yield f"{_who(wrote)} {_what(wrote)} in a private {view} of the working folder, {_where(wrote)}."


def _where(wrote: Sequence[RunFiles]) -> str:
    kept = [one for one in wrote if any(file.kept for file in one.world.files)]
    if not kept:
        return "and none of it is kept"
    lost = any(not file.kept and file.change != "removed" for one in wrote for file in one.world.files)
    limit = f", the first {bytes_text(MOST_KEPT_BYTES)} of it" if lost else ""
    return f"kept in {'' if len(kept) == 1 else 'files/ of each run, such as '}{kept[0].folder}{limit}"


def _in_place(found: Sequence[RunFiles]) -> Iterator[str]:
    wrote = [one for one in found if one.world.view == "in_place" and one.world.files_in_all]
    if wrote:
        yield f"{_who(wrote)} {_what(wrote)} in the working folder itself."


def _beyond(found: Sequence[RunFiles]) -> Iterator[str]:
    """Yields sentences on what was not private, and on what could not be listed."""
    direct = list(dict.fromkeys(path for one in found for path in one.world.not_private))
    if direct:
        yield f"Not private, written or open to writing where they are: {_named(direct)}."
    for reason in dict.fromkeys(one.world.unlisted for one in found if one.world.unlisted):
        yield f"What the runs wrote is not listed: {reason}."


def _who(wrote: Sequence[RunFiles]) -> str:
    return f"{wrote[0].run} wrote" if len(wrote) == 1 else f"{len(wrote)} runs wrote"


def _what(wrote: Sequence[RunFiles]) -> str:
    """A text such as `1 file (6.04 KiB: snapshot.pt)`, for runs that wrote the same."""
    counts = sorted({one.world.files_in_all for one in wrote})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    size = bytes_text(max(one.world.bytes_in_all for one in wrote))
    files = dict.fromkeys(_changed(file) for one in wrote for file in one.world.files)
    each = " each" if len(wrote) > 1 else ""
    return f"{number} file{'' if counts[-1] == 1 else 's'}{each} ({size}: {_named(list(files))})"


def _changed(file: WrittenFile) -> str:
    return file.path if file.change == "created" else f"{file.path} {file.change}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
