"""Keeps a user's folder as it is: a run works in an overlay or a copy, whose changed files are kept up to a limit."""

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalewise.launch.tree import CACHES, MOST_FILES, FileState, Look, is_whiteout, look_through, written_between
from scalewise.records.orders import Layer
from scalewise.records.outcome import WrittenFile
from scalewise.records.spec import RunSpec
from scalewise.units import bytes_text

MOST_KEPT_BYTES = 1 << 30  # of one run: repeats of a script with large checkpoints must not fill the disk


@dataclass
class Keeper:
    """The folder for kept files, and how much room is left in it."""

    folder: Path
    room_bytes: int = MOST_KEPT_BYTES

    def keep(self, source: Path, name: str) -> bool:
        """Moves one file; False if it is too large for the room left, or cannot be moved."""
        size = source.lstat().st_size
        if size > self.room_bytes:
            return False
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)
        except OSError:
            return False
        self.room_bytes -= size
        return True


def discard(folder: Path) -> None:
    """Removes a tree whatever its permissions: the kernel leaves folders of mode 0 in an overlay's scratch space."""
    if folder.is_symlink() or not folder.is_dir():
        return  # through a link, this would change the modes of folders elsewhere
    for top, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(top, name)
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


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


MOST_LINKED = 16  # folders outside the working folder that links lead to
_OPAQUE = "user.overlay.opaque"
_OUTSIDE = "outside"  # in the folder of kept files: for files outside the working folder, by their whole paths
_SYSTEM = ("/proc", "/sys", "/dev", "/run")


def private_folders(spec: RunSpec, look: Look) -> list[str]:
    """The working folder, the script's, the targets of links, and mount points in them; outer ones first."""
    beside = [str(Path(spec.script).resolve().parent), *_linked(look)[:MOST_LINKED]]
    wanted = [str(Path(spec.cwd).resolve()), *(folder for folder in beside if _may_be_written(folder))]
    roots = [one for one in dict.fromkeys(wanted) if not any(is_below(one, other) for other in wanted)]
    mounts = [one for one in _mount_points() if os.access(one, os.F_OK) and any(is_below(one, root) for root in roots)]
    return sorted({*roots, *mounts}, key=lambda path: (path.count("/"), path))


def make_layers(folders: Sequence[str], place: Path) -> tuple[Layer, ...]:
    """Creates empty folders in `place` for the changes of each folder."""
    layers = []
    for number, folder in enumerate(folders):
        upper, work = place / f"layer{number}" / "upper", place / f"layer{number}" / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        upper.chmod(stat.S_IMODE(Path(folder).stat().st_mode))  # the top of an overlay has the mode of its upper folder
        layers.append(Layer(folder, str(upper), str(work)))
    return tuple(layers)


def layer_changes(layer: Layer, cwd: str, keeper: Keeper, rank: int | None) -> Iterator[WrittenFile]:
    """Yields every file that the run created, changed or removed in a folder; those that can be kept are moved away."""
    for top, folders, files in os.walk(layer.upper):
        folders[:] = [name for name in folders if name not in CACHES]
        upper, lower = Path(top), layer.folder / Path(top).relative_to(layer.upper)
        if _hides_lower(top):
            yield from _vanished(lower, upper, cwd, rank)
        for name in [*files, *(one for one in folders if (upper / one).is_symlink())]:
            now, before = (upper / name).lstat(), _state(lower / name)
            shown = shown_path(lower / name, cwd)
            if is_whiteout(now):
                if before is not None:
                    folder = stat.S_ISDIR(before.st_mode)
                    yield WrittenFile(
                        f"{shown}/" if folder else shown, "removed", 0 if folder else before.st_size, rank=rank
                    )
            elif stat.S_ISREG(now.st_mode) or stat.S_ISLNK(now.st_mode):
                if before is not None and (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                    continue  # opened for writing, or given other permissions, but not written
                kept = keeper.keep(upper / name, _OUTSIDE + shown if shown.startswith("/") else shown)
                yield WrittenFile(shown, "created" if before is None else "changed", now.st_size, kept, rank)


def is_below(folder: str, other: str) -> bool:
    """Tells whether the folder lies in the other one."""
    return folder != other and folder.startswith(other.rstrip("/") + "/")


def _linked(look: Look) -> list[str]:
    """Folders to which links of the working folder lead: through them the script writes there."""
    targets = [os.path.realpath(link) for link in look.links]
    # Path.is_dir would raise where a folder on the way may not be entered.
    folders = dict.fromkeys(one if os.path.isdir(one) else str(Path(one).parent) for one in targets)  # noqa: PTH112
    return [folder for folder in folders if _may_be_written(folder)]


def left_open(spec: RunSpec, look: Look) -> list[str]:
    """Folders to which links lead but that get no overlay, because there are too many of them."""
    covered = private_folders(spec, look)
    return [one for one in _linked(look) if one not in covered and not any(is_below(one, other) for other in covered)]


def _may_be_written(folder: str) -> bool:
    system = any(folder == one or is_below(folder, one) for one in _SYSTEM)
    return folder != "/" and not system and os.access(folder, os.W_OK)


def _mount_points() -> list[str]:
    """All mount points; an overlay of a folder does not show what is mounted in it."""
    try:
        return [one.mountpoint for one in psutil.disk_partitions(all=True)]
    except OSError:
        return []


def _hides_lower(folder: str) -> bool:
    """Tells whether the folder was removed and made again, so that its former contents are gone."""
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _vanished(lower: Path, upper: Path, cwd: str, rank: int | None) -> Iterator[WrittenFile]:
    for top, _, files in os.walk(lower):
        for name in files:
            path = Path(top, name)
            state = _state(path)
            if state is not None and _state(upper / path.relative_to(lower)) is None:
                yield WrittenFile(shown_path(path, cwd), "removed", state.st_size, rank=rank)


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def shown_path(path: Path, cwd: str) -> str:
    """The path for people: relative to the working folder if it lies in it."""
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
