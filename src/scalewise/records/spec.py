"""The description of one run: written by the parent as `spec.json`, read by the launcher and by every rank."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal

from scalewise.records.changes import AxisValue as AxisValue
from scalewise.records.changes import label

Mode = Literal["torchrun", "python"]
LauncherName = Literal["fork", "torchrun", "slurm"]
Device = Literal["cpu", "cuda"]
Scaling = Literal["auto", "strong", "weak", "none"]  # auto: told from the samples that were seen
# private: a run neither sees what others wrote nor changes the user's files; in_place: it works in the folder itself,
# and what it changed is listed; plain: in the folder itself, by a script of ours that writes nothing.
FolderUse = Literal["plain", "private", "in_place"]


@dataclass(frozen=True)
class Change:
    """A change made to a script from outside: to measure its price, or to try the fix of a finding.

    The file of `watch/changes` with its name makes it; the records of every rank name it.
    """

    name: str  # slow_rank, no_sync, ...
    settings: dict[str, AxisValue] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """The only rank that it concerns; None: every rank."""
        return int(self.settings["rank"]) if "rank" in self.settings else None

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.settings.items()))))

    def label(self) -> str:
        """The change in words for tables: `slow rank 20 ms on rank 0`, `divide_loss by=4`."""
        return label(self.name, self.settings)


@dataclass(frozen=True)
class Timed:
    """The kind of a measured run: only the watcher's time stamps are taken. Only such runs stand in tables."""

    name: Literal["timed"] = "timed"


@dataclass(frozen=True)
class Inspected:
    """The kind of a run with `records.inspection` rows, for reports; watching so closely makes its times useless."""

    name: Literal["inspected"] = "inspected"


@dataclass(frozen=True)
class Examined:
    """The kind of a run with `records.notes` and `records.examination` rows, for the doctor and for checks of tasks."""

    show_gradients: bool = False  # of the first steps, so that the sides of a replay can be compared
    inspected: bool = False  # writes the rows of an inspected run as well
    compared_steps: int = 0  # steps of which `records.parity` rows are written; 0: none
    keeps_given: bool = False  # the data of these steps is kept, so that one rank can be given that of all
    shapes: str = ""  # file with the shapes of one rank's tensors; empty: not known
    name: Literal["examined"] = "examined"


@dataclass(frozen=True)
class Rehearsed:
    """The kind of a run whose few processes stand for some of many ranks, and receive nothing from other ranks.

    Processes that run at once affect each other: on a CPU they share its memory as the real ranks would.
    """

    world_size: int
    rank: int  # rank of the first process; the next processes have the next ranks
    ranks_per_node: int  # as the script is told
    inspected: bool = False  # writes the rows of an inspected run as well
    name: Literal["rehearsed"] = "rehearsed"


RunKind = Timed | Inspected | Examined | Rehearsed


@dataclass(frozen=True)
class Nodes:
    """The settings for a run on hosts that each start torchrun: its static rendezvous."""

    count: int
    node_rank: int
    master_address: str  # empty: known when the run starts
    master_port: int  # 0: chosen by the first host when the run starts


@dataclass(frozen=True)
class Turns:
    """A run's place in a ring: runs that exist at once on the same cores and take turns step by step."""

    ring: str  # its name, the same for all its runs and for no other ring of the suite
    index: int  # 0 makes the first step
    size: int


@dataclass(frozen=True)
class RunSpec:
    """One run of a subject: which script, how many ranks, where, of which kind, with what changed."""

    SCHEMA: ClassVar[int] = 2

    name: str  # of the run's folder
    suite: str
    experiment: str
    script: str  # absolute path
    args: tuple[str, ...]
    cwd: str
    mode: Mode  # torchrun: ranks with a process group; python: one plain process
    launcher: LauncherName
    ranks: int  # on this node
    device: Device
    shares: tuple[tuple[int, ...], ...]  # cores of each local rank; empty: not pinned
    threads_per_rank: int | None  # None: left to torch
    oversubscribed: bool
    repeat: int
    limit_seconds: float  # for the whole run
    stall_seconds: float  # without any sign of progress from any rank
    env: dict[str, str] = field(default_factory=dict)  # set for the script on top of the user's own
    changes: tuple[Change, ...] = ()
    axes: dict[str, AxisValue] = field(default_factory=dict)  # what varies in the experiment, for tables
    scaling: Scaling = "auto"  # what a speedup means in this experiment
    base: dict[str, AxisValue] = field(
        default_factory=dict
    )  # of speedups: these values, else the same; empty: fewest ranks
    nodes: Nodes | None = None
    turns: Turns | None = None  # None: the run has the machine to itself
    emulated: bool = False  # fewer GPUs than devices: several stand on one GPU, or logical ones on the cores
    python: str = ""  # interpreter of the ranks; empty: the one scalewise runs in
    asked: dict[str, str] = field(default_factory=dict)  # values of `env` that were too large for the machine
    shrink_rule: str = ""  # by which they were made smaller, in words
    kind: RunKind = Timed()
    on_cpu: bool = False  # calls that ask for a GPU are redirected
    devices: int = 0  # GPUs that the script is to see; 0: all there are
    stand_ins: bool = False  # the GPUs are stand-ins, on the one GPU that is there or on the CPU
    enough_steps: int = 0  # the run is ended when every rank has made this many; 0: the script ends it
    without_hooks: dict[str, str] = field(default_factory=dict)  # concerns of `records.wrapped` left out: name -> why
    folder_use: FolderUse = "plain"  # how it uses the working folder

    @property
    def world_size(self) -> int:
        """The number of ranks over all nodes."""
        return self.ranks * (self.nodes.count if self.nodes else 1)

    @property
    def timed(self) -> bool:
        """True if the run's times are those of real ranks with nothing but the watcher beside them."""
        return isinstance(self.kind, Timed)

    @property
    def inspected(self) -> bool:
        """True if the run writes the rows of an inspected run, alone or beside those of its own kind."""
        return isinstance(self.kind, Inspected) or getattr(self.kind, "inspected", False)

    @property
    def examined(self) -> Examined | None:
        """The options of the run's examination; None if it is not examined."""
        return self.kind if isinstance(self.kind, Examined) else None

    @property
    def shows_gradients(self) -> bool:
        """True if the run writes what the gradients of its first steps are."""
        return self.examined is not None and self.examined.show_gradients

    @property
    def compared(self) -> Examined | None:
        """The options of a run whose tensors are compared with another's; None if they are not."""
        return self.kind if isinstance(self.kind, Examined) and self.kind.compared_steps else None

    @property
    def rehearsed(self) -> Rehearsed | None:
        """The ranks that its processes stand for; None if all ranks are there."""
        return self.kind if isinstance(self.kind, Rehearsed) else None

    def key(self, names: tuple[str, ...]) -> tuple[object, ...]:
        """The values of these fields or properties, to compare runs by."""
        return tuple(_comparable(getattr(self, name)) for name in names)

    @staticmethod
    def upgraded(data: dict[str, Any]) -> dict[str, Any]:
        """A spec of schema 1, whose kind is spread over four fields and whose changes stand in two."""
        upgraded = {"kind": _old_kind(data), "changes": _old_changes(data), **data}
        if isinstance(base := data.get("base"), dict) and "intervention" in base:
            upgraded["base"] = {"change" if name == "intervention" else name: value for name, value in base.items()}
        return upgraded


# Which runs are the same. A finished run is not made again if it has the IDENTITY of the one that is asked for.
IDENTITY = (
    "kind", "script", "args", "mode", "ranks", "world_size", "device", "devices", "stand_ins", "on_cpu",
    "threads_per_rank", "env", "changes", "turns", "enough_steps", "folder_use",
)  # fmt: skip
# Timed runs of one ARM are repeats of each other, and an inspected run shows what the arm of the same key does.
ARM = ("experiment", "axes", "changes", "world_size", "device")
# Every field is in IDENTITY or here, with the reason why two runs that differ in it may still be the same.
NOT_IDENTITY = {
    "name": "who compares two runs has found them by their name",
    "suite": "a name",
    "experiment": "a name",
    "cwd": "a folder that was moved still holds its runs",
    "launcher": "all launchers show a script the same",
    "shares": "the cores that are free may have other numbers today",
    "oversubscribed": "follows from the ranks and the machine",
    "emulated": "follows from the devices and the machine",
    "repeat": "a number, which is part of the name",
    "limit_seconds": "a run that has ended did not need another limit",
    "stall_seconds": "likewise",
    "axes": "what they vary stands in the arguments and the environment",
    "scaling": "how a table reads it",
    "base": "likewise",
    "nodes": "the hosts find each other elsewhere the next time; world_size counts their ranks",
    "python": "the interpreter may lie elsewhere",
    "asked": "explains `env`",
    "shrink_rule": "likewise",
    "without_hooks": "learned while the runs are made",
}


def _old_kind(data: dict[str, Any]) -> object:
    inspected, shown = bool(data.get("inspect")), bool(data.get("show_gradients"))
    rehearsal = data.get("rehearse")
    if isinstance(rehearsal, dict):
        return {**rehearsal, "name": "rehearsed", "inspected": inspected}
    if rehearsal is not None:
        return rehearsal  # damage, which the reader names
    if data.get("examine") or shown:
        return {"name": "examined", "show_gradients": shown, "inspected": inspected}
    return {"name": "inspected" if inspected else "timed"}


def _old_changes(data: dict[str, Any]) -> object:
    """Reads interventions, which had the same four numbers whatever they did, and remedies, which look like changes."""
    interventions, remedies = data.get("interventions", []), data.get("remedies", [])
    if not isinstance(interventions, list) or not isinstance(remedies, list):
        return interventions if remedies == [] else remedies  # damage, which the reader names
    return [_old_intervention(one) if isinstance(one, dict) else one for one in interventions] + remedies


def _old_intervention(one: dict[str, Any]) -> dict[str, Any]:
    taken = {"workers": ("count",), "emulate_link": ("seconds", "bytes_per_second"), "remove_communication": ()}
    name = one.get("kind")
    settings = {key: one.get(key) for key in taken.get(str(name), ("seconds", "rank")) if one.get(key) is not None}
    return {"name": name, "settings": settings}


def _comparable(value: object) -> object:
    """The value as something that can be compared and hashed; the order of a table's keys makes no difference."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(_comparable(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, dict):
        return tuple(sorted((str(name), str(one)) for name, one in value.items()))
    return tuple(map(_comparable, value)) if isinstance(value, tuple) else value
