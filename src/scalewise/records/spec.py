"""The description of one run: written by the parent as `spec.json`, read by the launcher and by every rank."""

from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["torchrun", "python"]
LauncherName = Literal["fork", "torchrun"]
Device = Literal["cpu", "cuda"]
InterventionKind = Literal["remove_communication", "sleep_before_backward", "slow_rank", "emulate_link", "workers"]
Scaling = Literal["auto", "strong", "weak", "none"]  # auto: told from the samples that were seen
AxisValue = str | int | float | bool
# private: a run neither sees what others wrote nor changes the user's files; in_place: it works in the folder itself,
# and what it changed is listed; plain: in the folder itself, by a script of ours that writes nothing.
FolderUse = Literal["plain", "private", "in_place"]


@dataclass(frozen=True)
class Intervention:
    """One thing changed from outside to learn its cost; named in the spec and in every rank's records."""

    kind: InterventionKind
    seconds: float = 0.0  # of emulate_link: the latency of a message
    rank: int | None = None  # None: every rank
    bytes_per_second: float = 0.0  # of emulate_link
    count: int = 0  # of workers

    def label(self) -> str:
        """A short name for tables: `slow_rank 20 ms on rank 0`."""
        if self.kind == "emulate_link":
            return f"emulated link of {self.seconds * 1000:g} ms, {self.bytes_per_second / 1e9:g} GB/s"
        if self.kind == "workers":
            return f"{self.count} worker{'' if self.count == 1 else 's'}"
        parts = [self.kind.replace("_", " ")]
        if self.seconds:
            parts.append(f"{self.seconds * 1000:g} ms")
        if self.rank is not None:
            parts.append(f"on rank {self.rank}")
        return " ".join(parts)


@dataclass(frozen=True)
class Remedy:
    """The fix of a finding, applied from outside to learn what it changes: a file of `watch/remedies` by name."""

    name: str  # no_sync, divide_loss, ...
    settings: dict[str, AxisValue] = field(default_factory=dict)

    def label(self) -> str:
        """A short name for tables: `divide_loss by=4`."""
        return " ".join([self.name, *(f"{key}={value}" for key, value in sorted(self.settings.items()))])


@dataclass(frozen=True)
class Rehearsal:
    """The setting of a rehearsal: a few processes act as ranks of a larger group, without exchanging data.

    Processes that run at once affect each other: on a CPU they share its memory as the real ranks would.
    """

    world_size: int
    rank: int  # rank of the first process; the next processes have the next ranks
    ranks_per_node: int  # as the script is told


@dataclass(frozen=True)
class Nodes:
    """The settings for several hosts: torchrun's static rendezvous."""

    count: int
    node_rank: int
    master_address: str
    master_port: int


@dataclass(frozen=True)
class Turns:
    """A place in a ring: runs that are alive together on the same cores and take turns step by step."""

    ring: str  # its name, the same for all its runs and for no other ring of the suite
    index: int  # 0 makes the first step
    size: int


@dataclass(frozen=True)
class RunSpec:
    """One run: which script, how many ranks, where, and what is changed."""

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
    interventions: tuple[Intervention, ...] = ()
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
    shrink_rule: str = ""  # the rule by which those were made smaller, in words
    inspect: bool = False  # watched so closely that its times mean nothing; writes `records.inspection` rows
    examine: bool = False  # writes `records.notes` and `records.examination` rows, for the doctor
    remedies: tuple[Remedy, ...] = ()
    show_gradients: bool = False  # of the first steps, so that the two sides of a replay can be compared
    rehearse: Rehearsal | None = None  # None: all ranks are there
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
