"""Sees the calls of the modules that are trained: where a step begins, and how many rows go in."""

import threading
from typing import Any

import torch
from torch import nn

from scalewise.records.events import FORWARD, ROOT
from scalewise.watch.hooks import compiler
from scalewise.watch.hooks.optimizer import steps_under_way
from scalewise.watch.hooks.roots import DOUBTFUL, TRAINED, Call, Root, Roots, Uses, follow
from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder

# Where the thread of control is, as far as modules go: outside all of them, inside one, or not watched for a while.
OUTSIDE, INSIDE, RESTING = range(3)


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps `nn.Module.__call__`: one test for the modules inside, all the work for the one outside."""
    original = nn.Module.__call__
    grad_enabled = torch.is_grad_enabled
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident
    state = OUTSIDE
    classes: set[type[nn.Module]] = set()  # of the modules that were called from outside
    roots = Roots(recorder)
    begin = _TrainedCalls(recorder, probe, roots, classes).begin

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal state
        if state:
            if state == RESTING and not grad_enabled():
                try:
                    recorder.evaluating()
                except Exception as error:
                    recorder.broke("forward", error)
            return original(self, *args, **kwargs)
        # Recomputation inside backward belongs to backward; other threads (DataParallel's) to the call they serve;
        # modules called while a batch is fetched (transforms) to the data.
        if recorder.backward_depth or recorder.fetching or not recorder.on or this_thread() != main_thread:
            return original(self, *args, **kwargs)
        state, call = INSIDE, None
        try:
            try:
                if not grad_enabled():
                    recorder.evaluating()
                elif self.training or recorder.trains_in_evaluation or _holds_training(self):
                    root = roots.of(self)
                    if root.standing == TRAINED or (root.standing == DOUBTFUL and not roots.trained):
                        call = begin(self, root, args, kwargs)
                    elif not recorder.open:
                        recorder.evaluating()  # no part of a step, but a sign of life
                else:
                    recorder.evaluating()
                    recorder.called_in_evaluation |= roots.of(self).standing == TRAINED
            except Exception as error:
                recorder.broke("forward", error)
            result = original(self, *args, **kwargs)
            if call is not None:
                try:
                    follow(call, result)
                except Exception as error:
                    recorder.broke("forward", error)
            return result
        finally:
            state = OUTSIDE

    place = _Place(original, __call__, classes)
    place.everywhere()

    def rest(resting: bool) -> None:
        nonlocal state
        state = RESTING if resting else OUTSIDE
        if resting and not recorder.compiles:
            place.at_roots()

    recorder.on_rest.append(rest)
    recorder.on_unseen_forward = place.everywhere


def _holds_training(wrapper: nn.Module) -> bool:
    """Whether a wrapper is in evaluation mode and the module in it is not: Lightning switches only the inner one."""
    return getattr(wrapper._modules.get("module"), "training", False)


class _TrainedCalls:
    """Notes the calls of the modules that are trained, and opens steps with them."""

    def __init__(self, recorder: Recorder, probe: TorchProbe, roots: Roots, classes: set[type[nn.Module]]) -> None:
        self._recorder, self._probe, self._roots, self._classes = recorder, probe, roots, classes
        self._uses = recorder.uses = Uses(recorder)
        self._last_number = -1  # of the module called last
        self._opened_by = TRAINED  # what the module was that opened the step

    def begin(self, module: nn.Module, root: Root, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The module is about to be called; gives what its result is to be followed with, if it is."""
        recorder = self._recorder
        self._classes.add(type(module))
        if recorder.optimizer_depth and not steps_under_way():
            recorder.drop_step(0)
        number = root.number if root.number >= 0 else self._roots.number(root, module)
        if number != self._last_number:
            self._last_number = number
            recorder.note(ROOT, number)
        if not recorder.open:
            if not recorder.started:
                self._probe.choose_clock(module)
            recorder.open_step()
            self._opened_by = root.standing
        try:
            rows = args[0].size(0)
        except (IndexError, AttributeError, TypeError):
            rows = rows_of(args, kwargs)
        if type(rows) is not int or (_transform_level() is not None and _in_vmap()):
            rows = None  # torch.jit.trace makes a tensor of it, and under vmap a module sees one sample
        recorder.stamp(FORWARD)
        recorder.value(rows)
        call = self._uses.called(root, number, rows)
        if self._opened_by == DOUBTFUL and root.standing == TRAINED:
            self._opened_by = TRAINED
            self._uses.begin_here()
        return call


_transform_level = torch._C._functorch.maybe_current_level


def _in_vmap() -> bool:
    functorch: Any = torch._C._functorch
    return any(one.key() == functorch.TransformType.Vmap for one in functorch.get_interpreter_stack() or ())


class _Place:
    """Where modules are watched: in all of them, or, to spare the inner ones a call, in those called from outside."""

    def __init__(self, original: Any, watched: Any, roots: set[type[nn.Module]]) -> None:
        self._original, self._watched, self._roots = original, watched, roots
        self._at: set[type[nn.Module]] = set()

    def everywhere(self) -> None:
        """In the base class; whatever module is called."""
        for root in self._at:
            del root.__call__
        self._at = set()
        self._put(self._watched)

    def at_roots(self) -> None:
        """In the classes that were called from outside so far; not where one has a way of its own to be called."""
        if not self._at and all(root.__call__ is self._watched for root in self._roots):
            self._at = set(self._roots)
            for root in self._at:
                root.__call__ = self._watched  # type: ignore[method-assign]
            self._put(self._original)

    def _put(self, call: Any) -> None:
        nn.Module.__call__ = call  # type: ignore[method-assign]
        compiler.tell_dynamo(call)


def rows_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """The first dimension of the first tensor among the arguments, which is the batch by custom."""
    tensor = first_tensor((args, kwargs), depth=5)
    if tensor is None or tensor.dim() == 0:
        return None
    return int(tensor.size(0))


def first_tensor(values: Any, depth: int) -> torch.Tensor | None:
    """Depth-first through tuples, lists and dictionaries, as far down as batches are usually nested."""
    if isinstance(values, torch.Tensor):
        return values
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        return None
    if depth:
        for value in values:
            found = first_tensor(value, depth - 1)
            if found is not None:
                return found
    return None
