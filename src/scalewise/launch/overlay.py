"""Chooses the folders of a run that get an overlay, and lists what the run wrote in them."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from scalewise.launch.kept_files import Keeper
from scalewise.launch.tree import CACHES, Look, is_whiteout
from scalewise.records.orders import Layer
from scalewise.records.outcome import WrittenFile
from scalewise.records.spec import RunSpec

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
