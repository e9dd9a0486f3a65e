"""The list of the runs made in a suite's folder, by which a run that was removed later is noticed."""

from dataclasses import dataclass

from scalewise.records.codec import BadRecord, read_json, write_json
from scalewise.records.folder import SuiteFolder


@dataclass(frozen=True)
class MadeRuns:
    """The runs by name, in the order in which they were made."""

    names: tuple[str, ...]


def made_runs(folder: SuiteFolder) -> tuple[str, ...]:
    """The names of the runs made here, as far as recorded; removing the folder also removes the record."""
    try:
        return read_json(folder.made, MadeRuns).names
    except BadRecord:
        return ()


def keep_made(folder: SuiteFolder, names: tuple[str, ...]) -> None:
    """Writes the list of the runs made."""
    write_json(folder.made, MadeRuns(names))
