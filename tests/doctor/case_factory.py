"""Examined runs made of short descriptions: what the checks are tested on, without any process.

A `Sheet` is one rank's notes. Each call adds a note one microsecond after the last; `line` is the text of the script's
line that made it, and two notes with the same text come from the same line.

    sheet = Sheet().window(4, factor=0.25, sync=[False, False, False, True])
    case = make_case(sheet, ranks=2, collectives={"all_reduce": (1, 4096)})
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from factories import make_run
from scalewise.doctor.case import Case, case_of
from scalewise.records.examination import (
    DeviceUseRow,
    DeviceWorkRow,
    ExaminationRow,
    FailureRow,
    GraphRow,
    LoaderRow,
    OptimizerRow,
    ParameterSumsRow,
    PlaceRow,
    SettingsRow,
    WorkerSeedRow,
    WrapperRow,
    WrapperUseRow,
)
from scalewise.records.load import Run
from scalewise.records.notes import (
    NOTE_KINDS,
    NOWHERE,
    BackwardNote,
    BatchNote,
    ClipNote,
    CollectiveDoneNote,
    CollectiveNote,
    ExhaustedNote,
    ForwardNote,
    LoaderNote,
    NoSyncNote,
    Note,
    ScalerNote,
    ScheduleNote,
    StepNote,
    ZeroNote,
)
from scalewise.records.spec import Examined

# What a note says where a test does not: an ordinary loop of one DDP model, one optimizer, one loader.
DEFAULTS: dict[str, dict[str, Any]] = {
    "forward": {"module": "DistributedDataParallel", "wrapper": 0, "bypassed": NOWHERE, "sync": True, "trains": True,
                "rows": 8, "autocast": None, "duration_ns": 1000},
    "backward": {"duration_ns": 1000, "autocast": None, "loss": 1.0, "had_gradient": None, "factor": 1.0,
                 "reduction": "mean", "elements": 8, "closure": False, "gained": None},
    "computed": {"duration_ns": 500},
    "zero": {"optimizer": 0, "had_gradients": True},
    "step": {"optimizer": 0, "duration_ns": 1000, "skipped": False, "scaled": False, "ratio": 1.0, "gradients": 4,
             "parameters": 4},
    "schedule": {"scheduler": 0, "optimizer": 0, "rate": 0.1},
    "scaler": {"call": "scale", "scaler": 0, "scale": 65536.0},
    "clip": {"how": "norm", "limit": 1.0, "norm": None, "ratio": None},
    "autocast": {"device": "cpu", "dtype": "float16"},
    "no_sync": {"wrapper": 0},
    "collective": {"operation": "all_reduce", "size_bytes": 4096, "ranks": [], "peer": NOWHERE, "waits": True},
    "collective_done": {"operation": "all_reduce", "duration_ns": 1000},
    "loader": {"loader": 0},
    "batch": {"loader": 0, "wait_ns": 1000},
    "exhausted": {"loader": 0},
    "sampler": {"sampler": 0, "epoch": 0, "shuffle": True, "seed": 0, "rank": 0, "replicas": 2},
    "set_epoch": {"sampler": 0, "epoch": 0},
    "save": {"path": "/tmp/model.pt", "size_bytes": 4096},
    "host_read": {"call": "item", "device": "cuda:0", "wait_ns": 1000},
    "clock": {"function": "time.perf_counter"},
    "device_sync": {"call": "torch.cuda.synchronize"},
    "kept": {"step": 1, "alive": 0, "seen": 1, "graphs": 0, "held_bytes": None},
    "group": {"event": "init", "backend": "gloo", "world_size": 2},
    "warning": {"category": "UserWarning", "text": ""},
    "training_mode": {"module": "DistributedDataParallel", "trained": True, "dropouts": 1, "batch_norms": 0,
                      "digest": None, "inputs": []},
    "gradients": {"optimizer": 0, "present": 4, "zero": False, "classes": None, "norm": None, "shard_ranks": []},
    "batch_norm": {"layer": 0, "samples": 4, "values": 4, "means": [0.0], "variances": [1.0]},
    "seed": {"call": "torch.manual_seed"},
    "twice": {"loss": "cross_entropy", "before": "softmax"},
    "copy": {"call": "to", "size_bytes": 1 << 24, "pinned": False, "non_blocking": False, "duration_ns": 1000,
             "again": 0},
    "housekeeping": {"call": "torch.cuda.empty_cache", "duration_ns": 1000},
    "compile": {"function": "forward (/scripts/train.py:3)", "reason": "size mismatch", "duration_ns": 1000},
}  # fmt: skip
LINES: dict[str, str] = {
    "forward": "loss = criterion(model(x), y)",
    "backward": "loss.backward()",
    "zero": "optimizer.zero_grad()",
    "step": "optimizer.step()",
    "schedule": "scheduler.step()",
    "clip": "clip_grad_norm_(model.parameters(), 1.0)",
    "no_sync": "with model.no_sync():",
    "collective": "dist.all_reduce(tensor)",
    "collective_done": "dist.all_reduce(tensor)",
    "loader": "for x, y in loader:",
    "batch": "for x, y in loader:",
    "exhausted": "for x, y in loader:",
}
_NAME_OF = {kind: name for name, kind in NOTE_KINDS.items()}


class Sheet:
    """One rank's notes and rows."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.rows: list[ExaminationRow] = []
        self._places: dict[str, int] = {}
        self._fed = 0

    def place(self, line: str) -> int:
        """The number of a line of the script; the first text seen stands on line 1."""
        if line not in self._places:
            self._places[line] = number = len(self._places)
            self.rows.append(PlaceRow(number, "/scripts/train.py", number + 1, "main", line))
        return self._places[line]

    def add(self, kind: type[Note], line: str | None = None, **values: Any) -> Self:
        """Any note; what is not given is that of an ordinary loop."""
        name = _NAME_OF[kind]
        text = LINES.get(name, f"{name}(...)") if line is None else line
        at_ns = values.pop("at_ns", 1000 * (len(self.notes) + 1))
        self.notes.append(kind(at_ns=at_ns, place=self.place(text), **{**DEFAULTS[name], **values}))
        return self

    def row(self, row: ExaminationRow) -> Self:
        """A row about a thing that the notes speak of."""
        self.rows.append(row)
        return self

    def forward(self, **values: Any) -> Self:
        """A training forward pass on data not seen before, unless a digest is given."""
        self._fed += 1
        digest = values.pop("digest", f"input {self._fed}")
        return self.add(ForwardNote, digest=digest, **values)

    def backward(self, **values: Any) -> Self:
        """A backward pass of a mean."""
        return self.add(BackwardNote, **values)

    def zero(self, **values: Any) -> Self:
        """Gradients are thrown away."""
        return self.add(ZeroNote, **values)

    def step(self, **values: Any) -> Self:
        """The optimizer steps: a window ends."""
        return self.add(StepNote, **values)

    def schedule(self, **values: Any) -> Self:
        """The scheduler steps."""
        return self.add(ScheduleNote, **values)

    def scaler(self, call: str, **values: Any) -> Self:
        """A call of the GradScaler: scale, unscale_, step, update."""
        return self.add(ScalerNote, **{"line": f"scaler.{call}(...)", **values, "call": call})

    def clip(self, **values: Any) -> Self:
        """Gradients are clipped."""
        return self.add(ClipNote, **values)

    def no_sync(self, **values: Any) -> Self:
        """`no_sync()` is entered."""
        return self.add(NoSyncNote, **values)

    def collective(self, operation: str = "all_reduce", done: bool = True, **values: Any) -> Self:
        """A collective that the script calls itself, and its return unless it never does."""
        line = values.get("line", f"dist.{operation}(tensor)")
        self.add(CollectiveNote, **{**values, "operation": operation, "line": line})
        return self.add(CollectiveDoneNote, operation=operation, line=line) if done else self

    def batch(self, **values: Any) -> Self:
        """A batch comes from the loader."""
        return self.add(BatchNote, **values)

    def epoch(self, **values: Any) -> Self:
        """A loader is asked for an iterator."""
        return self.add(LoaderNote, **values)

    def exhausted(self, **values: Any) -> Self:
        """The loader has no more."""
        return self.add(ExhaustedNote, **values)

    def micro_batch(
        self, *, zero: str = "", batch: bool = True, forward: dict[str, Any] | None = None, **backward: Any
    ) -> Self:
        """A batch, a forward and a backward pass; `zero` is `before` or `after` it, or empty."""
        if batch:
            self.batch()
        if zero == "before":
            self.zero()
        self.forward(**(forward or {}))
        self.backward(**backward)
        return self.zero() if zero == "after" else self

    def window(
        self,
        micro_batches: int = 1,
        *,
        sync: bool | Sequence[bool] = True,
        zero: str = "after",
        scheduled: bool = False,
        batch: bool = True,
        step: dict[str, Any] | None = None,
        forward: dict[str, Any] | None = None,
        **backward: Any,
    ) -> Self:
        """Micro-batches, a step, and zeroing: `after` the step, `before` the window, `each` micro-batch, `never`.

        A list as the value of `sync` or of a backward pass's field has one entry per micro-batch.
        """
        if zero == "before":
            self.zero()
        for index in range(micro_batches):
            own = {name: _at(value, index) for name, value in backward.items()}
            given = {"sync": _at(sync, index), **{name: _at(value, index) for name, value in (forward or {}).items()}}
            self.micro_batch(zero="before" if zero == "each" else "", batch=batch, forward=given, **own)
            if scheduled:
                self.schedule()
        self.step(**(step or {}))
        return self.zero(had_gradients=True) if zero == "after" else self

    def windows(self, count: int, micro_batches: int = 1, **values: Any) -> Self:
        """So many equal windows."""
        for _ in range(count):
            self.window(micro_batches, **values)
        return self

    @property
    def steps(self) -> int:
        """Windows that ended with a step."""
        return sum(isinstance(note, StepNote) for note in self.notes)


def _at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) else value


def make_wrapper(index: int = 0, **changes: Any) -> WrapperRow:
    """A DDP of 1000 float32 parameters on CPU."""
    row = WrapperRow(index, "DistributedDataParallel", NOWHERE, "cpu", "", 4000, 0, 0, (0, 1), {})
    return replace(row, **changes)


def make_use(wrapper: int = 0, **changes: Any) -> WrapperUseRow:
    """A DDP with one bucket that used every parameter in eight steps."""
    return replace(WrapperUseRow(wrapper, 8, (4000,), {}, 8), **changes)


def make_loader(index: int = 0, **changes: Any) -> LoaderRow:
    """A loader with a DistributedSampler over 128 samples in batches of 8."""
    row = LoaderRow(index, NOWHERE, 0, False, 8, False, "DistributedSampler", True, 128, 64, False, 0)
    return replace(row, **changes)


def make_optimizer(index: int = 0, **changes: Any) -> OptimizerRow:
    """An SGD over four parameters."""
    return replace(OptimizerRow(index, "SGD", NOWHERE, 4, True), **changes)


def make_sums(step: int, *, wrapper: int = 0, weight: float = 1.0) -> ParameterSumsRow:
    """Sum and norm of one parameter after a step."""
    return ParameterSumsRow(step, wrapper, {"weight": (weight, abs(weight))})


def make_seed(loader: int = 0, worker: int = 0, **changes: Any) -> WorkerSeedRow:
    """A worker with a state of its own."""
    return replace(WorkerSeedRow(loader, worker, 7, {"torch": f"torch {worker}"}, {}), **changes)


def make_device_use(*asked: str, got: str = "cpu") -> DeviceUseRow:
    """A rank that asked for these devices."""
    return DeviceUseRow(asked, got)


def make_failure(error: str = "RuntimeError", message: str = "", **changes: Any) -> FailureRow:
    """The exception that ended a rank."""
    return replace(FailureRow(error, message, NOWHERE), **changes)


def make_settings(step: int = 1, **changes: Any) -> SettingsRow:
    """torch's switches as they come, on a GPU with TF32."""
    row = SettingsRow(step, "NVIDIA H200", (9, 0), "highest", False, False, False, NOWHERE, False, "OFF")
    return replace(row, **changes)


def make_graph(step: int = 3, **changes: Any) -> GraphRow:
    """Eight float32 matmuls on a GPU."""
    return replace(GraphRow(step, "cuda", 40, {"float32": 8}, 0, "shapes", (), 0, False), **changes)


def make_work(step: int = 30, **changes: Any) -> DeviceWorkRow:
    """Two steps of 500 kernels, 2 us each."""
    row = DeviceWorkRow(step, 2, 1000, 2_000_000, 2_000_000, 20_000_000, 0, {}, {})
    return replace(row, **changes)


def make_case(
    *sheets: Sheet,
    ranks: int | None = None,
    wrapped: bool = True,
    collectives: dict[str, tuple[int, int]] | None = None,
    step: dict[str, Any] | None = None,
    seconds: float = 0.005,
    **run: Any,
) -> Case:
    """A case of these ranks; one sheet for all where `ranks` says how many, else one sheet per rank.

    `wrapped`: each rank has a DDP of index 0 unless it has a wrapper row already.
    """
    all_sheets = sheets if ranks is None else sheets * ranks
    changes = {**(step or {}), **({"collectives": collectives} if collectives is not None else {})}
    count = max((sheet.steps for sheet in all_sheets), default=0)
    made: Run = make_run([seconds] * count, ranks=len(all_sheets), step=changes, kind=Examined(), **run)
    records = tuple(
        replace(
            record,
            steps=record.steps[: sheet.steps],
            notes=tuple(sheet.notes),
            examination=_rows(sheet, wrapped, len(all_sheets)),
        )
        for record, sheet in zip(made.ranks, all_sheets, strict=True)
    )
    return case_of(replace(made, ranks=records))


def _rows(sheet: Sheet, wrapped: bool, ranks: int) -> tuple[ExaminationRow, ...]:
    has_wrapper = any(isinstance(row, WrapperRow) for row in sheet.rows)
    wrapper = (make_wrapper(ranks=tuple(range(ranks))),) if wrapped and not has_wrapper else ()
    return (*sheet.rows, *wrapper)
