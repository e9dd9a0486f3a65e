"""Which runs were made in a suite's folder, so that one that was removed since is missed."""

from dataclasses import dataclass

from scalewise.records.codec import BadRecord, read_json, write_json
from scalewise.records.folder import SuiteFolder


@dataclass(frozen=True)
class MadeRuns:
    """The runs by name, in the order in which they were made."""

    names: tuple[str, ...]


def made_runs(folder: SuiteFolder) -> tuple[str, ...]:
    """As far as the folder says so: one that was removed and made anew knows of the runs since."""
    try:
        return read_json(folder.made, MadeRuns).names
    except BadRecord:
        return ()


def keep_made(folder: SuiteFolder, names: tuple[str, ...]) -> None:
    """Writes them down."""
    write_json(folder.made, MadeRuns(names))
