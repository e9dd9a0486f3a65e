"""The effect of a run on the files of its working folder: which it wrote, and which earlier ones it read."""

from dataclasses import dataclass
from typing import Literal

# overlay: writes go to a layer of the run's own, at the same path; copy: the script starts in a copy of the folder;
# in_place: the script works in the user's folder itself.
View = Literal["overlay", "copy", "in_place"]
Change = Literal["created", "changed", "removed"]


@dataclass(frozen=True)
class WrittenFile:
    """A file that differs from what was there before the run."""

    path: str  # relative to the working folder; absolute outside of it
    change: Change
    bytes: int  # after the run; of a removed file: before it
    kept: bool = False  # in `files/` of the run's folder
    rank: int | None = None  # set if every rehearsed rank has a view of its own


@dataclass(frozen=True)
class ReadFile:
    """A checkpoint that the run opened before it wrote to it."""

    path: str
    written_by: str = ""  # the earlier run of the suite that wrote it; empty: it was there before all of them

    def text(self) -> str:
        """A phrase that says whose file it is: `snapshot.pt, which train-ranks1-r0 had written`."""
        whose = f"{self.written_by} had written" if self.written_by else "was there before the run"
        return f"{self.path}, which {whose}"


@dataclass(frozen=True)
class World:
    """The working folder of one run: its kind of view, and the files written and read."""

    view: View
    files: tuple[WrittenFile, ...] = ()  # the first ones by path
    files_in_all: int = 0
    bytes_in_all: int = 0  # of those created or changed
    read: tuple[ReadFile, ...] = ()
    not_private: tuple[str, ...] = ()  # parts of the folder to which the script wrote, or could write, directly
    unlisted: str = ""  # why changes may be missing from `files`; empty: none is
