"""Notes the calls of the modules that are trained: where a step begins, and how many rows go in."""

import threading
from typing import Any

import torch
from torch import nn

from scalewise.records.events import FORWARD, ROOT
from scalewise.watch.hooks import compiler
from scalewise.watch.hooks.batch_rows import Looking, first_tensor, rows_of
from scalewise.watch.hooks.optimizer import steps_under_way
from scalewise.watch.hooks.roots import DOUBTFUL, TRAINED, FollowedCall, Root, Roots, Uses, follow
from scalewise.watch.hooks.transforms import transform_level
from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder

# The state of the main thread: outside all modules, inside one, not watched for a while, or inside a module of which it
# is not known yet along which dimension its input counts samples.
OUTSIDE, INSIDE, RESTING, LOOKING = range(4)


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps `nn.Module.__call__`: one test for the modules inside, all the work for the one outside."""
    original = nn.Module.__call__
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident
    state = OUTSIDE
    looking: Looking | None = None
    classes: set[type[nn.Module]] = set()  # of the modules that were called from outside
    roots = Roots(recorder)
    outermost = _TrainedCalls(recorder, probe, roots, classes).outermost

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal state, looking
        if state:
            if state != INSIDE:
                _inside(recorder, looking, self, args, kwargs)
            return original(self, *args, **kwargs)
        # Recomputation inside backward belongs to backward; other threads (DataParallel's) to the call they serve;
        # modules called while a batch is fetched (transforms) to the data.
        if recorder.backward_depth or recorder.fetching or not recorder.on or this_thread() != main_thread:
            return original(self, *args, **kwargs)
        state, call = INSIDE, None
        try:
            try:
                call, looking = outermost(self, args, kwargs)
                state = INSIDE if looking is None else LOOKING
            except Exception as error:
                recorder.broke("forward", error)
            result = original(self, *args, **kwargs)
            if call is not None or looking is not None:
                _after(recorder, looking, call, result)
            return result
        finally:
            state, looking = OUTSIDE, None

    place = _Place(original, __call__, classes)
    place.everywhere()

    def rest(resting: bool) -> None:
        nonlocal state
        state = RESTING if resting else OUTSIDE
        if resting and not recorder.compiles:
            place.at_roots()

    def stepped() -> None:
        nonlocal state
        if state == INSIDE:  # a module whose own forward trains, a trainer: what it calls from here on counts
            state = OUTSIDE

    recorder.on_rest.append(rest)
    recorder.on_stepped.append(stepped)
    recorder.on_unseen_forward = place.everywhere


def _inside(recorder: Recorder, looking: Looking | None, module: nn.Module, args: Any, kwargs: Any) -> None:
    """Looks at a module called inside another: it may show along which dimension samples are counted."""
    try:
        if looking is not None:
            looking.look(module, args, kwargs)
        elif not torch.is_grad_enabled():
            recorder.evaluating()
    except Exception as error:
        recorder.broke("forward", error)


def _after(recorder: Recorder, looking: Looking | None, call: FollowedCall | None, result: Any) -> None:
    """Ends the look when the outermost module has returned."""
    try:
        if looking is not None:
            looking.over()
        if call is not None:
            follow(call, result)
    except Exception as error:
        recorder.broke("forward", error)


def _holds_training(wrapper: nn.Module) -> bool:
    """Returns whether a wrapper evaluates while its module trains: Lightning switches only the inner one."""
    return getattr(wrapper._modules.get("module"), "training", False)


class _TrainedCalls:
    """A recorder of the calls of modules that are trained, which opens steps with them."""

    def __init__(self, recorder: Recorder, probe: TorchProbe, roots: Roots, classes: set[type[nn.Module]]) -> None:
        self._recorder, self._probe, self._roots, self._classes = recorder, probe, roots, classes
        self._uses = recorder.uses = Uses(recorder)
        self._last_number = -1  # of the module called last
        self._opened_by = TRAINED  # standing of the module that opened the step

    def outermost(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[FollowedCall | None, Looking | None]:
        """Handles a module called from outside all others: a trained one opens a step or belongs to it."""
        recorder, roots = self._recorder, self._roots
        if not torch.is_grad_enabled():
            recorder.evaluating()
            return None, None
        if not (module.training or recorder.trains_in_evaluation or _holds_training(module)):
            recorder.evaluating()
            recorder.called_in_evaluation |= roots.of(module).standing == TRAINED
            return None, None
        root = roots.of(module)
        if root.standing != TRAINED and not (root.standing == DOUBTFUL and not roots.trained):
            if not recorder.open:
                recorder.evaluating()  # no part of a step, but a sign of life
            return None, None
        call = self._begin(module, root, args, kwargs)
        if root.axis is not None:
            return call, None
        looking = Looking(root, first_tensor((args, kwargs), depth=5))
        looking.look(module, args, kwargs)
        return call, looking

    def _begin(
        self, module: nn.Module, root: Root, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> FollowedCall | None:
        """Begins a call of the module; returns the record to follow its result with, if it is followed."""
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
            if transform_level() is None:
                recorder.open_step()
            else:
                recorder.open_in_transform()
            self._opened_by = root.standing
        try:
            rows = args[0].size(0) if root.axis == 0 else rows_of(args, kwargs, root.axis)
        except (IndexError, AttributeError, TypeError):
            rows = rows_of(args, kwargs, root.axis)
        if type(rows) is not int or (transform_level() is not None and _in_vmap()):
            rows = None  # torch.jit.trace makes a tensor of it, and under vmap a module sees one sample
        recorder.stamp(FORWARD)
        recorder.value(rows)
        call = self._uses.called(root, number, rows)
        if self._opened_by == DOUBTFUL and root.standing == TRAINED:
            self._opened_by = TRAINED
            self._uses.begin_here()
        return call


def _in_vmap() -> bool:
    functorch: Any = torch._C._functorch
    return any(one.key() == functorch.TransformType.Vmap for one in functorch.get_interpreter_stack() or ())


class _Place:
    """The place of the wrapper: in all modules, or, to spare the inner ones a call, in those called from outside."""

    def __init__(self, original: Any, watched: Any, roots: set[type[nn.Module]]) -> None:
        self._original, self._watched, self._roots = original, watched, roots
        self._at: set[type[nn.Module]] = set()

    def everywhere(self) -> None:
        """Puts the wrapper into the base class, so that every module is watched."""
        for root in self._at:
            del root.__call__
        self._at = set()
        self._put(self._watched)

    def at_roots(self) -> None:
        """Puts the wrapper into the classes called from outside so far, unless one has its own way to be called."""
        if not self._at and all(root.__call__ is self._watched for root in self._roots):
            self._at = set(self._roots)
            for root in self._at:
                root.__call__ = self._watched  # type: ignore[method-assign]
            self._put(self._original)

    def _put(self, call: Any) -> None:
        nn.Module.__call__ = call  # type: ignore[method-assign]
        compiler.tell_dynamo(call)
