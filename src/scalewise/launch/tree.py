"""Lists a user's folder: which files are in it, their states, and which of them a script may resume from."""

import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scalewise.records.outcome import WrittenFile

MOST_FILES = 20_000  # listing so many takes a tenth of a second; a folder with more holds data, not only work
CHECKPOINTS = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors", ".distcp")
CACHES = ("__pycache__",)  # made by an interpreter itself, whatever the script does
NOTES = (".hosts-", ".slurm-")  # folders beside the runs in which hosts meet and jobs are kept
_APART = (".git", "node_modules", *CACHES)


@dataclass(frozen=True)
class FileState:
    """The state of a file; if two states are equal, it was not written in between."""

    bytes: int
    changed_ns: int
    inode: int


@dataclass
class Look:
    """The files of a folder by their path in it, as far as they were listed."""

    files: dict[str, os.DirEntry[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)  # outer ones first
    links: list[str] = field(default_factory=list)  # symbolic links, whole paths
    apart: list[str] = field(default_factory=list)  # folders not listed, by their path in it
    whole: bool = True

    def states(self) -> dict[str, FileState]:
        """The state of each file; files that have gone are left out."""
        found = {}
        for name, entry in self.files.items():
            try:
                found[name] = state_of(entry.stat(follow_symlinks=False))
            except OSError:
                continue
        return found

    def checkpoints(self) -> list[str]:
        """Files from which a script may resume, judged by their names."""
        return [name for name in self.files if name.lower().endswith(CHECKPOINTS)]


def state_of(found: os.stat_result) -> FileState:
    """The parts of a file's metadata that show that it was written."""
    return FileState(found.st_size, found.st_mtime_ns, found.st_ino)


def look_through(folder: str, most: int = MOST_FILES) -> Look:
    """Lists a folder, outer folders first, so that a deep store of data does not hide what lies beside the script."""
    look = Look()
    waiting = deque([""])  # each ends with a slash
    while waiting:
        inside = waiting.popleft()
        for entry in _entries(f"{folder}/{inside}"):
            name = inside + entry.name
            if entry.is_symlink():
                look.links.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                if _is_apart(entry):
                    look.apart.append(name)
                else:
                    look.folders.append(name)
                    waiting.append(f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                look.files[name] = entry
            if len(look.files) + len(look.links) >= most:
                look.whole = False
                return look
    return look


def written_between(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> Iterator[WrittenFile]:
    """Yields the files that were written between two listings of the same folder."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None and old is not None:
            yield WrittenFile(name, "removed", old.bytes)
        elif new is not None and new != old:
            yield WrittenFile(name, "changed" if old else "created", new.bytes)


def foreign_path(folder: str, look: Look) -> str:
    """A path that may be written but belongs to another user or group; empty if none was found."""
    for name in ("", *look.folders, *look.files):
        path = f"{folder}/{name}"
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if (found.st_uid, found.st_gid) != (os.getuid(), os.getgid()) and os.access(path, os.W_OK):
            return path
    return ""


def is_whiteout(found: os.stat_result) -> bool:
    """Tells whether this is an overlay's mark for a removed file."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_apart(entry: os.DirEntry[str]) -> bool:
    """Tells whether no training script writes to the folder: a repository, an environment, or scalewise's own runs."""
    # Path.exists would raise for a folder that may not be entered.
    if entry.name in _APART or entry.name.startswith(NOTES) or os.access(f"{entry.path}/pyvenv.cfg", os.F_OK):
        return True
    return os.access(f"{entry.path}/suite.toml", os.F_OK) and os.access(f"{entry.path}/machine.json", os.F_OK)
