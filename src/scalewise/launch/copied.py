"""Copies the working folder, for systems that allow no overlay; small trees only."""

import fcntl
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scalewise.launch.kept_files import Keeper
from scalewise.launch.tree import MOST_FILES, FileState, Look, look_through, written_between
from scalewise.records.outcome import WrittenFile
from scalewise.units import bytes_text

MOST_BYTES = 256 << 20  # copied in about a second; every run makes a new copy
_FICLONE = 0x40049409


class TooLarge(Exception):
    """The error for a folder that is too large to be copied; says what is too large."""


@dataclass(frozen=True)
class Copied:
    """A copy of the working folder, and the states of its files before the script began."""

    folder: Path
    before: dict[str, FileState]

    def changes(self, keeper: Keeper, rank: int | None) -> list[WrittenFile]:
        """The files that the run wrote in the copy; those that can be kept are moved away."""
        after = look_through(str(self.folder)).states()
        return [
            WrittenFile(
                one.path,
                one.change,
                one.bytes,
                one.change != "removed" and keeper.keep(self.folder / one.path, one.path),
                rank,
            )
            for one in written_between(self.before, after)
        ]


def copy_folder(folder: str, look: Look, target: Path) -> Copied:
    """Copies the folder; files that may not be written, and folders that no script writes to, become links to it."""
    if not look.whole:
        raise TooLarge(f"it holds more than {MOST_FILES:,} files")
    target.mkdir(parents=True)
    for name in look.folders:  # outer ones come first
        (target / name).mkdir()
    unwritable = [name for name, entry in look.files.items() if not os.access(entry.path, os.W_OK)]
    for name in (*unwritable, *look.apart):
        (target / name).symlink_to(Path(folder, name).absolute())
    _copy_files(folder, target, {name: state.bytes for name, state in look.states().items() if name not in unwritable})
    for link in look.links:
        _copy_link(link, folder, target)
    return Copied(target, look_through(str(target)).states())


def _copy_files(folder: str, target: Path, sizes: Mapping[str, int]) -> None:
    """Copies files, sharing blocks with the originals if the file system can; otherwise their total size is limited."""
    shared = True
    for name in sizes:
        source = Path(folder, name)
        shared = shared and _clone(source, target / name)
        if not shared:
            _check_size(sizes)
            shutil.copyfile(source, target / name)
        shutil.copystat(source, target / name)


def _check_size(sizes: Mapping[str, int]) -> None:
    size = sum(sizes.values())
    if size > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise TooLarge(
            f"it holds {bytes_text(size)}, more than the {bytes_text(MOST_BYTES)} that are copied "
            f"(largest: {largest}, {bytes_text(sizes[largest])})"
        )


def _clone(source: Path, target: Path) -> bool:
    try:
        with open(source, "rb") as old, open(target, "wb") as new:
            fcntl.ioctl(new, _FICLONE, old.fileno())
    except OSError:
        return False
    return True


def _copy_link(link: str, folder: str, target: Path) -> None:
    """Copies a link: one within the folder leads to the copy's own file, any other to its old target."""
    where, root = Path(os.path.realpath(link)), Path(os.path.realpath(folder))
    # Written again in any case: an absolute link would lead from the copy to the original.
    leads_to = target / where.relative_to(root) if where.is_relative_to(root) else where
    (target / Path(link).relative_to(folder)).symlink_to(leads_to)


def linked_outside(folder: str, look: Look) -> tuple[str, ...]:
    """The writable targets of links outside the folder: through the copy's links, scripts can write there, too."""
    root = Path(os.path.realpath(folder))
    targets = dict.fromkeys(os.path.realpath(link) for link in look.links)
    return tuple(one for one in targets if not Path(one).is_relative_to(root) and os.access(one, os.W_OK))
