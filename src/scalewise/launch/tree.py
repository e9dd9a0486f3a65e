"""Looks through a folder of the user's: which files are in it, how each stands, and which a script may resume from."""

import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scalewise.records.world import WrittenFile

MOST_FILES = 20_000  # looking at so many takes a tenth of a second; a folder with more holds data, not only work
CHECKPOINTS = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors", ".distcp")
CACHES = ("__pycache__",)  # that an interpreter makes by itself, whatever the script does
_APART = (".git", "node_modules", *CACHES)


@dataclass(frozen=True)
class FileState:
    """Equal states: the file was not written in between."""

    bytes: int
    changed_ns: int
    inode: int


@dataclass
class Look:
    """The files of a folder by their path in it, as far as was looked."""

    files: dict[str, os.DirEntry[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)  # outer ones first
    links: list[str] = field(default_factory=list)  # symbolic links, whole paths
    apart: list[str] = field(default_factory=list)  # folders not looked into, by their path in it
    whole: bool = True

    def states(self) -> dict[str, FileState]:
        """How each file stands; those that are gone by now are left out."""
        found = {}
        for name, entry in self.files.items():
            try:
                found[name] = state_of(entry.stat(follow_symlinks=False))
            except OSError:
                continue
        return found

    def checkpoints(self) -> list[str]:
        """Files that a script may resume from, going by their names."""
        return [name for name in self.files if name.lower().endswith(CHECKPOINTS)]


def state_of(found: os.stat_result) -> FileState:
    """What of a file's metadata shows that it was written."""
    return FileState(found.st_size, found.st_mtime_ns, found.st_ino)


def look_through(folder: str, most: int = MOST_FILES) -> Look:
    """Outer folders first, so that a deep store of data does not hide what lies beside the script."""
    look = Look()
    waiting = deque([""])  # each with a slash at its end
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


def differences(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> Iterator[WrittenFile]:
    """What was written between two looks at the same folder."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None and old is not None:
            yield WrittenFile(name, "removed", old.bytes)
        elif new is not None and new != old:
            yield WrittenFile(name, "changed" if old else "created", new.bytes)


def foreign_path(folder: str, look: Look) -> str:
    """What may be written but belongs to another user or group; empty: nothing was found."""
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
    """How an overlay marks a file that was removed."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_apart(entry: os.DirEntry[str]) -> bool:
    """What no training script writes to: a repository, an environment, runs that scalewise has kept."""
    # Path.exists would raise for a folder that may not be entered.
    if entry.name in _APART or os.access(f"{entry.path}/pyvenv.cfg", os.F_OK):
        return True
    return os.access(f"{entry.path}/suite.toml", os.F_OK) and os.access(f"{entry.path}/machine.json", os.F_OK)
