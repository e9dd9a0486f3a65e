"""Trains a script for one device as a pipeline: each rank has a stage of the model, and batches go through in parts.

`schedule`: gpipe, or 1f1b; `parts`: micro-batches, of which there are twice as many as ranks if it is left out.
"""

import inspect
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, SplitPoint
from torch.distributed.pipelining import pipeline as traced

from scalewise.records.changes import AxisValue, Declared
from scalewise.records.examination import MeasuredRow
from scalewise.watch.recorder import Recorder
from scalewise.watch.strategy.blocks import repeated_blocks
from scalewise.watch.strategy.shares import span
from scalewise.watch.strategy.single_device import SingleDevice
from scalewise.watch.strategy.stand_ins import StandIn, in_one_line, tensors_in_order
from scalewise.watch.strategy.strategy_interface import CannotApply, ModelCall, PassByParts, Strategy, Trained
from scalewise.watch.strategy.whole_norm import clip_by_whole_norm

NAME = "with_pipeline"
CHANGE = Declared(
    settings={"schedule": "words", "parts": "whole"},
    optional=("parts",),
    example="with_pipeline:schedule=gpipe",
    least_ranks=2,
    strategies={
        "pipeline, GPipe": "with_pipeline:schedule=gpipe",
        "pipeline, 1F1B": "with_pipeline:schedule=1f1b",
    },
    feeds_first=True,
)
_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
_SETTLING = 2  # passes, in which stages agree on shapes and memory is first taken


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Cuts the model into stages at its repeated blocks, as `torch.export` sees them."""
    schedule: Any = _SCHEDULES[str(settings["schedule"])]

    def applied(trained: Trained) -> Any:
        return _Piped(recorder, schedule, trained, int(settings.get("parts", 2 * trained.ranks)))

    clip_by_whole_norm(recorder, stages=True)
    SingleDevice(recorder, Strategy(NAME, applied, divides=False, passes=lambda piped, one: piped.train(one)))


class _Piped:
    """The stage of this rank, and the schedule by which the parts of a batch go through it."""

    def __init__(self, recorder: Recorder, schedule: Any, trained: Trained, parts: int) -> None:
        self._recorder = recorder
        self._trained = trained
        self._last = trained.ranks - 1
        self._rows = _rows_of(trained)
        self.parts = next(
            (one for one in range(min(parts, self._rows), trained.ranks - 1, -1) if not self._rows % one), 0
        )
        if not self.parts:
            raise CannotApply(f"a batch of {self._rows} cannot be cut into {parts} equal parts, nor into fewer")
        with trained.unwatched():
            stage, arguments = _stage_of(trained, self._rows // self.parts)
        # What the stage takes, in order: arguments of the whole model by name, and None for what another stage sends.
        self._taken = [arguments.get(name) for name, _ in _placeholders(stage.submod.graph)]
        self._names = inspect.signature(trained.model.forward)
        self._pass: PassByParts | None = None
        self._values: list[dict[int, torch.Tensor]] = []
        self._busy = 0.0
        self._passes = 0
        self._chunk = 0
        if trained.rank and any(self._taken):
            _take_inputs_here(stage, self._with_own_inputs)
        for name in ("forward_one_chunk", "backward_one_chunk"):
            setattr(stage, name, self._timed(getattr(stage, name)))
        self._schedule = schedule(stage, self.parts, loss_fn=self._loss)

    def train(self, one: PassByParts) -> list[dict[int, torch.Tensor]]:
        """Makes forward and backward of all parts; returns what the stand-ins stood for, as far as this rank knows."""
        if one.rows != self._rows or len(one.calls) != 1:
            raise CannotApply(
                f"a batch of {one.rows} came after one of {self._rows}, and the shapes of a stage are fixed"
                if len(one.calls) == 1
                else "the script calls its model more than once before it goes backward"
            )
        self._pass, self._values, self._busy = one, [], 0.0
        (call,) = one.calls
        began, rank = time.perf_counter(), self._trained.rank
        losses: list[torch.Tensor] = []
        given = tuple(self._known(call)[name] for name in self._taken if name) if rank == 0 else ()
        target = torch.arange(self._rows, device=self._trained.device) if rank == self._last else None
        kept = {"target": target, "losses": losses} if rank == self._last else {}
        self._schedule.step(*given, **kept, return_outputs=False)
        self._note_bubble(time.perf_counter() - began)
        return self._shared(losses)

    def _known(self, call: ModelCall) -> dict[str, Any]:
        """The arguments of a call of the whole model, by name."""
        return dict(self._names.bind(*call.args, **call.kwargs).arguments)

    def _with_own_inputs(self, activations: tuple[Any, ...]) -> list[Any]:
        """Everything that this stage takes for a part: what the stage before has sent, and the script's own tensors."""
        assert self._pass is not None
        (call,) = self._pass.calls
        known, received = self._known(call), iter(activations)
        begin, end = span(self._rows, self._chunk, self.parts)

        def part(name: str) -> Any:
            return known[name][begin:end] if isinstance(known[name], torch.Tensor) else known[name]

        return [part(name) if name else next(received) for name in self._taken]

    def _loss(self, output: Any, target: torch.Tensor) -> torch.Tensor:
        """Repeats what the script made of the outputs, on the rows of this part."""
        assert self._pass is not None
        (call,) = self._pass.calls
        wanted, found = tensors_in_order(call.outputs), tensors_in_order(output)
        if len(wanted) != len(found):
            raise CannotApply(f"the model returns {len(wanted)} tensors, of which torch's last stage has {len(found)}")
        pairs = zip(wanted, found, strict=True)
        values = {stands.number: real for stands, real in pairs if isinstance(stands, StandIn)}
        self._pass.recorded.repeat(values, (int(target[0]), int(target[-1]) + 1))
        loss = values[self._pass.loss.number]
        self._pass.look_at_loss(loss)
        self._values.append({number: one.detach() for number, one in values.items()})
        return loss

    def _shared(self, losses: list[torch.Tensor]) -> list[dict[int, torch.Tensor]]:
        """Tells all ranks the loss, which the script may print; outputs stay with the last stage."""
        assert self._pass is not None
        found = torch.zeros(self.parts, device=self._trained.device)
        if losses:
            found = torch.stack([one.detach().float() for one in losses])
        dist.broadcast(found, self._last)
        number = self._pass.loss.number
        return self._values or [{number: one} for one in found]

    def _timed(self, compute: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._chunk = args[0] if args else next(iter(kwargs.values()))
            began = time.perf_counter()
            try:
                return compute(*args, **kwargs)
            finally:
                self._busy += time.perf_counter() - began

        return timed

    def _note_bubble(self, seconds: float) -> None:
        """Notes the share of the pass in which this rank computed nothing; a GPU computes on when a call returns."""
        self._passes += 1
        if self._passes > _SETTLING and self._trained.device.type == "cpu":
            self._recorder.journal.row(MeasuredRow(NAME, "bubble", 1 - self._busy / seconds))


def _take_inputs_here(stage: Any, merged: Callable[[tuple[Any, ...]], list[Any]]) -> None:
    """Gives a later stage the script's own tensors on its own rank, as torch's stage can only receive activations."""
    received, forward = stage._create_act_recv_info, stage.submod.forward

    def activations() -> tuple[Any, ...]:
        return tuple(one for one in received() if not one.is_root_arg)

    stage._create_act_recv_info = activations
    stage.submod.forward = lambda *given: forward(*merged(given))


def _rows_of(trained: Trained) -> int:
    found = tensors_in_order((trained.args, trained.kwargs))
    if any(not one.dim() or one.shape[0] != found[0].shape[0] for one in found):
        raise CannotApply("the model takes tensors that do not have the rows of the batch, which no schedule can cut")
    return found[0].shape[0]


def _placeholders(graph: Any) -> list[tuple[str, str]]:
    """The inputs of a graph: their names, and the names by which the traced function takes them."""
    return [(node.name, node.target) for node in graph.nodes if node.op == "placeholder"]


def _stage_of(trained: Trained, rows: int) -> tuple[Any, dict[str, str]]:
    """Cuts the model, and returns the stage of this rank and the model's arguments by their names in stages.

    The model is cut where the parameters before the cut are nearest to an equal part of all.
    """
    model, ranks = trained.model, trained.ranks
    blocks = repeated_blocks(model)
    if len(blocks) < ranks:
        raise CannotApply(f"its layers are no chain of {ranks} or more blocks (nn.Sequential or nn.ModuleList)")
    sizes = [sum(one.numel() for one in block.parameters()) for _, block in blocks]
    cuts = _cuts(sizes, ranks)
    given = [one[:rows] if isinstance(one, torch.Tensor) else one for one in trained.args]
    named = {name: one[:rows] if isinstance(one, torch.Tensor) else one for name, one in trained.kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's exporter warns of its own calls
            pipe = traced(model, tuple(given), named, {blocks[cut][0]: SplitPoint.BEGINNING for cut in cuts})
    except Exception as error:
        raise CannotApply(f"torch.export cannot follow its layers: {in_one_line(error)}") from error
    if pipe.num_stages != ranks:
        raise CannotApply(f"its layers are no chain: they make {pipe.num_stages} stages and not {ranks}")
    stages = [pipe.get_stage_module(number) for number in range(ranks)]
    _check_apart(model, stages)
    own = {id(one) for one in stages[trained.rank].parameters()}
    for one in model.parameters():
        if id(one) not in own:
            one.data = one.data.new_empty(0)  # it lies on another rank; the script's names for it stay
    return pipe.build_stage(trained.rank, trained.device), dict(_placeholders(pipe.split_gm.graph))


def _check_apart(model: Any, stages: list[Any]) -> None:
    """Raises CannotApply if a parameter is used in two stages: each would have a gradient and a copy of its own."""
    names = [{name for name, _ in stage.named_parameters(remove_duplicate=False)} for stage in stages]
    used: dict[int, set[int]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        used.setdefault(id(one), set()).update(number for number, held in enumerate(names) if name in held)
    for name, one in model.named_parameters():
        if len(used[id(one)]) > 1:
            first, *_, last = sorted(used[id(one)])
            raise CannotApply(f"{name} is used in stages {first} and {last}, and torch's stages share no parameter")


def _cuts(sizes: list[int], parts: int) -> list[int]:
    """The numbers of the blocks with which the further stages begin."""
    whole = sum(sizes)
    cuts: list[int] = []
    for part in range(1, parts):
        wanted = whole * part / parts
        least = cuts[-1] + 1 if cuts else 1
        most = len(sizes) - (parts - part)
        cuts.append(min(range(least, most + 1), key=lambda cut: abs(sum(sizes[:cut]) - wanted)))
    return cuts
