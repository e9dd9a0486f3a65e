"""Provides the working folder of one run, with a private view if the run is to have one, and lists its changes.

An overlay is best: the script finds the folder at its own path, and writes elsewhere. Where the system allows none, the
script starts in a copy of the folder. A folder too large to copy is refused. Decision 0016.
"""

import ctypes
import os
import struct
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalewise.launch.forkserver import Connection
from scalewise.launch.launcher import LaunchFailed
from scalewise.launch.private_views import (
    Copied,
    Keeper,
    TooLarge,
    copy_folder,
    discard,
    is_below,
    layer_changes,
    left_open,
    linked_outside,
    make_layers,
    private_folders,
)
from scalewise.launch.tree import MOST_FILES, Look, foreign_path, look_through, written_between
from scalewise.records.changes import declared
from scalewise.records.codec import read_json_or_none
from scalewise.records.folder import RunFolder, SuiteFolder
from scalewise.records.orders import Layer, ViewOrder
from scalewise.records.outcome import Outcome, ReadFile, View, World, WrittenFile
from scalewise.records.spec import RunSpec

FORCE = "SCALEWISE_VIEW"  # `overlay` or `copy`: only this way is tried
MOST_LISTED = 100  # files of one run that are listed by name; all are counted
_IN_PLACE = "run it in the folder itself with --in-place, or start it from a folder that holds less"


class NoView(LaunchFailed):
    """The error for a run that cannot have a private view of its folder; says why and what to do."""

    def __init__(self, sentence: str, hint: str = _IN_PLACE) -> None:
        super().__init__(sentence, hint)


@dataclass(frozen=True)
class Seat:
    """The place where a rank is started: its folder, and the process whose view it joins; 0: the ordinary view."""

    cwd: str
    view: int = 0


class OpenWorld(ABC):
    """The working folder of a run from before its start until all of its processes have ended."""

    kind: View = "in_place"

    def __init__(self, spec: RunSpec, run: RunFolder) -> None:
        self.spec, self.run = spec, run
        self.place = run.view.resolve()
        self.reads = Reads()

    def seat(self, rank: int) -> Seat:
        """The place where one rank is started."""
        return Seat(self.spec.cwd)

    def close(self) -> World:
        """Closes the view, which is then gone, and returns what the run did to its files."""
        read = tuple(ReadFile(name, self.writer(name)) for name in self.reads.end())
        try:
            files = sorted(self.changes(), key=lambda one: (one.path, one.rank or 0))
            trouble = self.unlisted()
        except OSError as error:
            files, trouble = [], f"{error.filename or 'the view'} cannot be read: {error.strerror}"
        discard(self.place)
        return World(
            view=self.kind,
            files=tuple(files[:MOST_LISTED]),
            files_in_all=len(files),
            bytes_in_all=sum(one.bytes for one in files if one.change != "removed"),
            read=read,
            not_private=self.not_private(),
            unlisted=trouble,
        )

    @abstractmethod
    def changes(self) -> Iterable[WrittenFile]:
        """The files that were written."""

    def writer(self, name: str) -> str:
        """The earlier run of the suite that wrote a file; empty if none is known."""
        return ""

    def not_private(self) -> tuple[str, ...]:
        """Parts of the folder to which the script could write directly."""
        return ()

    def unlisted(self) -> str:
        """The reason why changes may be missing; empty if none are."""
        return ""


class InPlace(OpenWorld):
    """The user's folder itself; changes are found by listing it before and after."""

    def __init__(self, spec: RunSpec, run: RunFolder) -> None:
        super().__init__(spec, run)
        look = look_through(spec.cwd)
        self._before, self._whole = look.states(), look.whole
        self._writers = _written_before(run, spec)
        for name in dict.fromkeys([*self._writers, *look.checkpoints()]):
            self.reads.watch(f"{spec.cwd}/{name}", name)

    def changes(self) -> Iterable[WrittenFile]:
        """All files that differ now."""
        look = look_through(self.spec.cwd)
        self._whole = self._whole and look.whole
        return written_between(self._before, look.states()) if self._whole else ()

    def writer(self, name: str) -> str:
        """The earlier run that listed this file as written."""
        return self._writers.get(name, "")

    def unlisted(self) -> str:
        """A reason for large folders, for which nothing is listed: each listing may stop at another place."""
        return "" if self._whole else f"{self.spec.cwd} holds more than {MOST_FILES:,} files"


class Overlaid(OpenWorld):
    """Overlays at the folders' own paths, one for all ranks or one for each (`owners`)."""

    kind = "overlay"

    def __init__(self, spec: RunSpec, run: RunFolder, place: Path, server: Connection, look: Look) -> None:
        super().__init__(spec, run)
        self.place = place
        self._layers: dict[int | None, tuple[Layer, ...]] = {}
        self._holders: dict[int | None, int] = {}
        self._direct: list[str] = left_open(spec, look)
        folders = private_folders(spec, look)
        for rank in owners(spec):
            self._hold(rank, folders, server, look)
        for name in look.checkpoints():
            for holder in self._holders.values():
                self.reads.watch(f"/proc/{holder}/root{Path(spec.cwd).resolve()}/{name}", name)

    def _hold(self, rank: int | None, folders: Sequence[str], server: Connection, look: Look) -> None:
        layers = make_layers(folders, self.place / ("all" if rank is None else f"rank{rank}"))
        suite = str(self.run.path.resolve().parent)
        direct = (suite,) if any(is_below(suite, folder) for folder in folders) else ()
        told = server.keep_view(ViewOrder(layers, direct, str(Path(self.spec.cwd).resolve())))
        if "error" in told:
            raise NoView(f"no overlay can be mounted here ({told['error']})")
        if told["own_user"]:
            foreign = foreign_path(self.spec.cwd, look)
            if foreign:
                raise NoView(f"{foreign} belongs to another user or group, which an overlay cannot keep")
        self._layers[rank], self._holders[rank] = layers, told["pid"]
        self._direct += told["direct"]

    def seat(self, rank: int) -> Seat:
        """The same path, in the view."""
        return Seat(self.spec.cwd, self._holders.get(rank, self._holders.get(None, 0)))

    def changes(self) -> Iterable[WrittenFile]:
        """The files that the upper folders of the overlays hold."""
        cwd = str(Path(self.spec.cwd).resolve())
        for rank, layers in self._layers.items():
            keeper = Keeper(self.run.files if rank is None else self.run.files / f"rank{rank}")
            for layer in layers:
                yield from layer_changes(layer, cwd, keeper, rank)

    def not_private(self) -> tuple[str, ...]:
        """Folders for which no overlay is possible."""
        return tuple(dict.fromkeys(self._direct))


class InCopy(OpenWorld):
    """Copies of the folder; absolute paths still lead to the user's own files, which are therefore compared, too."""

    kind = "copy"

    def __init__(self, spec: RunSpec, run: RunFolder, look: Look) -> None:
        super().__init__(spec, run)
        self._copies: dict[int | None, Copied] = {}
        self._originals = look.states()
        for rank in owners(spec):
            place = self.place / ("all" if rank is None else f"rank{rank}")
            self._copies[rank] = copy_folder(spec.cwd, look, place)
        for name in look.checkpoints():
            for folder in (spec.cwd, *(copied.folder for copied in self._copies.values())):
                self.reads.watch(f"{folder}/{name}", name)
        self._written_directly: tuple[str, ...] = ()
        self._outside = linked_outside(spec.cwd, look)

    def seat(self, rank: int) -> Seat:
        """The copy as the rank's folder."""
        copied = self._copies.get(rank) or self._copies[None]
        return Seat(str(copied.folder))

    def changes(self) -> Iterable[WrittenFile]:
        """The files that differ in the copies, and those that differ in the user's folder."""
        for rank, copied in self._copies.items():
            yield from copied.changes(Keeper(self.run.files if rank is None else self.run.files / f"rank{rank}"), rank)
        now = look_through(self.spec.cwd).states()
        for one in written_between(self._originals, now):
            path = f"{self.spec.cwd}/{one.path}"
            self._written_directly += (path,)
            yield WrittenFile(path, one.change, one.bytes)

    def not_private(self) -> tuple[str, ...]:
        """Files that the script wrote by their absolute paths, and the targets of links outside the folder."""
        return (*self._written_directly, *self._outside)


def open_world(spec: RunSpec, run: RunFolder, server: Connection) -> OpenWorld | None:
    """The folder as the spec asks for it; None for scripts of ours that write nothing. Raises `NoView`."""
    discard(run.view)
    if spec.folder_use == "plain":
        return None
    if spec.folder_use == "in_place":
        return InPlace(spec, run)
    if Path(spec.cwd).resolve() == Path("/"):
        raise NoView("the working folder is /, of which no private view can be made")
    look = look_through(spec.cwd)
    forced = os.environ.get(FORCE, "")
    reason = "an overlay was not tried"
    if forced != "copy":
        for beside_run in (True, False):
            place = run.view.resolve() if beside_run else _temporary_place()
            try:
                return Overlaid(spec, run, place, server, look)
            except NoView as problem:
                reason = problem.sentence
                discard(place)
        if forced == "overlay":
            raise NoView(reason, f"unset {FORCE}, or add --in-place")
    try:
        return InCopy(spec, run, look)
    except TooLarge as problem:
        discard(run.view)
        raise NoView(f"no private view can be made of {spec.cwd}: {problem}; {reason}") from None


def _temporary_place() -> Path:
    """A folder on a local disk, as network disks cannot hold an overlay; leftovers of killed processes are removed."""
    temporary, prefix = Path(tempfile.gettempdir()), f"scalewise-view-{os.getuid()}-"
    for old in temporary.glob(f"{prefix}*"):
        pid = old.name.removeprefix(prefix).partition("-")[0]
        if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
            discard(old)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=temporary))


def owners(spec: RunSpec) -> tuple[int | None, ...]:
    """The owners of views: one for all ranks together (None), or each rank its own.

    A rehearsed rank does not wait for others, and a script for one device does not know that there are others.
    """
    alone = spec.rehearsed is not None or any(declared(one.name).strategies for one in spec.changes)
    return tuple(range(spec.ranks)) if alone else (None,)


def _written_before(run: RunFolder, spec: RunSpec) -> dict[str, str]:
    """Files that earlier runs of the suite wrote, each with the last run that wrote it."""
    found: dict[str, str] = {}
    others = [other for other in SuiteFolder(run.path.parent).runs() if other.path.name != run.path.name]
    for other in sorted((one for one in others if one.outcome.is_file()), key=lambda one: one.outcome.stat().st_mtime):
        outcome = read_json_or_none(other.outcome, Outcome)
        world = outcome.world if outcome is not None else None
        if world is not None and world.view == "in_place":
            found |= {one.path: other.path.name for one in world.files if one.change != "removed"}
    return found


_ACCESS, _MODIFY, _CLOSE_NOWRITE = 0x1, 0x2, 0x10
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 1 << 20
MOST_WATCHED = 1000


class Reads:
    """A watch on files; if the system has no way to watch them, none counts as read."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._descriptor = -1  # opened for the first file

    def watch(self, path: str, name: str) -> None:
        """Watches a file from now on; `name` is what the file is called in the result."""
        if sys.platform != "linux" or len(self._names) >= MOST_WATCHED:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        if self._descriptor < 0:
            self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        number = libc.inotify_add_watch(self._descriptor, os.fsencode(path), _ACCESS | _MODIFY | _CLOSE_NOWRITE)
        if number >= 0:
            self._names[number] = name

    def end(self) -> list[str]:
        """The files that were read before anything was written to them."""
        if self._descriptor < 0:
            return []
        first: dict[int, bool] = {}
        while data := self._more():
            offset = 0
            while offset < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size + length
                if mask & (_ACCESS | _MODIFY | _CLOSE_NOWRITE):
                    first.setdefault(number, not mask & _MODIFY)
        os.close(self._descriptor)
        self._descriptor = -1
        return sorted({self._names[number] for number, read in first.items() if read and number in self._names})

    def _more(self) -> bytes:
        try:
            return os.read(self._descriptor, _MOST_BYTES)
        except OSError:
            return b""
