"""The plain values that a suite declares; free of pydantic, which a GPU machine may not have.

A model is made smaller by a stated rule if the machine cannot carry it. The rule rests on sizes alone, never on a
measured rate, so that the same request always gets the same folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Literal

from scalewise.records.machine import MachineFacts
from scalewise.records.spec import AxisValue, Change, Device, LauncherName, Mode, Scaling

SIZED_BY = ("DIM", "DEPTH", "BATCH")  # the variables of the rule; the first is halved
SMALLEST = 64
BYTES_PER_WEIGHT = 20  # weight, gradient, DDP's bucket, an update and what the allocator keeps back: 5 x 4 bytes
_GIGA = 10**9


@dataclass(frozen=True)
class Shrink:
    """The limit on what one step of a model may ask of a machine."""

    gflop_per_core: float

    def rule(self) -> str:
        """The rule in words, for tables."""
        return (
            f"DIM is halved until a step (6 x BATCH x DIM^2 x DEPTH flop) is at most {self.gflop_per_core:g} GFLOP "
            f"per core and the ranks together ({BYTES_PER_WEIGHT} x DIM^2 x DEPTH bytes each) fill at most half "
            "of the memory; on GPUs only the memory counts, each by itself"
        )


def shrunk(
    env: Mapping[str, str], shrink: Shrink, machine: MachineFacts, device: Device, ranks: int
) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that fit, and the values asked for in place of those that were changed.

    `ranks` is the largest world size compared, so that all of them train the same model.
    """
    dim, depth, batch = (int(env[name]) for name in SIZED_BY)
    fitting = dim
    while fitting // 2 >= SMALLEST and not _fits(fitting, depth, batch, shrink, machine, device, ranks):
        fitting //= 2
    if fitting == dim:
        return dict(env), {}
    return {**env, "DIM": str(fitting)}, {"DIM": env["DIM"]}


def _fits(dim: int, depth: int, batch: int, shrink: Shrink, machine: MachineFacts, device: Device, ranks: int) -> bool:
    bytes_per_rank = BYTES_PER_WEIGHT * dim**2 * depth
    if device == "cuda":
        return bytes_per_rank <= min(gpu.memory_bytes for gpu in machine.gpus) / 2
    flop = 6 * batch * dim**2 * depth
    enough_cores = flop <= shrink.gflop_per_core * _GIGA * len(machine.cores)
    return enough_cores and bytes_per_rank * ranks <= machine.memory_bytes / 2


DeviceChoice = Literal["auto", "cpu", "cuda"]
# share: several ranks run on one GPU, emulated; reduce: as many ranks as GPUs, and the table says both.
FewGpus = Literal["refuse", "share", "reduce"]
FewCores = Literal["share", "refuse"]  # share: CPU ranks run on the same cores, and are marked oversubscribed

BUILT_IN = "scalewise:"  # prefix of a script that is one of scalewise's own subjects
COURSE = "course:"  # prefix of a script of the course: ./course/NAME, else the project's own
CASE = "case"  # the axis that `cases` makes
NODES = "nodes"  # the axis that `nodes` makes
RESERVED_AXES = ("ranks", NODES, "change", "repeat")  # names that tables and `base` use for their own columns
LIMIT_SECONDS = 600.0
STALL_SECONDS = 60.0


@dataclass(frozen=True)
class Arm:
    """One point of an experiment, which is measured `repeat` times."""

    axes: dict[str, AxisValue]
    changes: tuple[Change, ...]
    ranks: int  # on all hosts together

    @property
    def nodes(self) -> int:
        """The number of hosts on which its ranks lie."""
        return int(self.axes.get(NODES, 1))


@dataclass(frozen=True)
class Examination:
    """The doctor's settings for examining the runs of an experiment; not a key of a suite's file."""

    on_cpu: bool = False
    enough_steps: int = 0


@dataclass(frozen=True)
class Experiment:
    """One question to a script: the axes that vary, and what a speedup means in it."""

    name: str
    script: str  # absolute path, `scalewise:NAME` or `course:NAME`; may hold {axis}
    title: str = ""
    question: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mode: Mode = "torchrun"
    device: DeviceChoice = "auto"
    launcher: LauncherName = "fork"
    ranks: tuple[int, ...] = (1,)
    nodes: tuple[int, ...] = ()  # numbers of hosts on which the ranks lie, equally many on each; empty: one
    repeat: int = 1
    axes: dict[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    changes: tuple[tuple[Change, ...], ...] = ((),)  # from outside, an arm each
    scaling: Scaling = "auto"
    base: dict[str, AxisValue] = field(default_factory=dict)
    interleave: bool = True
    turns: bool = False  # arms of one repeat and equal ranks are alive together and take turns step by step
    cases: dict[str, dict[str, str]] = field(default_factory=dict)  # name -> the variables it sets together
    shrink: Shrink | None = None  # None: the machine must carry what is asked
    devices: str = ""  # devices that one process uses, may be {axis}; empty: one per rank
    few_gpus: FewGpus = "refuse"  # where there are fewer GPUs than ranks
    few_cores: FewCores = "share"  # where there are fewer cores than CPU ranks
    inspect: bool = False  # one more run per arm, watched so closely that its times do not count
    inspect_env: dict[str, str] = field(default_factory=dict)  # set in addition, for the inspected run alone
    gpu_env: dict[str, str] = field(default_factory=dict)  # set in addition, if the ranks compute on GPUs
    rehearse: tuple[int, ...] = ()  # numbers of ranks that are to be predicted if they cannot be measured
    limit_seconds: float = LIMIT_SECONDS
    stall_seconds: float = STALL_SECONDS
    steps: int = 0  # a run ends when every rank has made this many; 0: the script ends it
    examination: Examination | None = None  # None: the runs are measured, not examined
    in_place: bool = False  # the script works in the user's folder itself, not in a private view of it

    def arms(self) -> tuple[Arm, ...]:
        """Every combination; ranks vary fastest because they are read side by side."""
        axes = {CASE: tuple(self.cases), **self.axes} if self.cases else self.axes
        axes = {**axes, NODES: self.nodes} if self.nodes else axes
        points = product(*axes.values(), self.changes, self.ranks)
        return tuple(
            Arm(dict(zip(axes, point[:-2], strict=True)), point[-2], point[-1])  # type: ignore[arg-type]
            for point in points
        )


@dataclass(frozen=True)
class Suite:
    """Experiments that belong together, and the TOML they were declared in."""

    name: str
    experiments: tuple[Experiment, ...]
    title: str = ""
    about: str = ""
    source: str = ""  # kept beside the runs as `suite.toml`

    @property
    def most_nodes(self) -> int:
        """The largest number of hosts on which any of its runs lies."""
        return max((count for one in self.experiments for count in one.nodes), default=1)

    @property
    def under_slurm(self) -> bool:
        """Tells whether any of its runs is a step of a job."""
        return any(one.launcher == "slurm" for one in self.experiments)

    def files(self, *more: Path) -> tuple[Path, ...]:
        """The scripts that are files of the user's, and other files that decide what it is."""
        scripts = (Path(one.script) for one in self.experiments if not one.script.startswith((BUILT_IN, COURSE)))
        return tuple(path for path in (*scripts, *more) if path.is_file())


def changed(
    suite: Suite,
    *,
    ranks: tuple[int, ...] | None = None,
    nodes: tuple[int, ...] | None = None,
    repeat: int | None = None,
    device: DeviceChoice | None = None,
    launcher: LauncherName | None = None,
    full: bool = False,
    in_place: bool = False,
) -> Suite:
    """The suite with what the command line overrides; an experiment of one plain process keeps its single rank."""
    experiments = tuple(
        replace(
            experiment,
            ranks=ranks if ranks and experiment.mode == "torchrun" else experiment.ranks,
            nodes=nodes if nodes and experiment.mode == "torchrun" else experiment.nodes,
            repeat=repeat or experiment.repeat,
            device=device or experiment.device,
            launcher=launcher or experiment.launcher,
            shrink=None if full else experiment.shrink,
            in_place=in_place or experiment.in_place,
        )
        for experiment in suite.experiments
    )
    return replace(suite, experiments=experiments)


def subject_folder() -> Path:
    """The folder of scalewise's own subjects."""
    return Path(__file__).resolve().parent.parent / "subjects"


def subject_names() -> tuple[str, ...]:
    """The subjects that `scalewise:NAME` can name."""
    return tuple(sorted(file.stem for file in subject_folder().glob("*.py") if not file.stem.startswith("_")))
