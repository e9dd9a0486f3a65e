"""Tracks which modules are trained, and which of their calls led to gradients.

A step is about the modules whose parameters an optimizer holds. Transforms, losses without parameters, frozen teachers
and averaged copies are called in training mode and with gradients enabled, too, but no optimizer holds their
parameters. What kind a module is, is looked up once per module and again when an optimizer takes parameters.

A call of a trained module can still be no part of a step: a rollout or an evaluation that forgot `no_grad`. Whether
gradients came through a call is seen by a hook on the last node of its graph. That costs some microseconds, so it is
done in sampled steps, and in others only for scripts that call a module several times before one backward pass.
"""

import functools
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from scalewise.records.pulse import STAMP
from scalewise.records.rows import RootRow
from scalewise.watch.call_arguments import receiver
from scalewise.watch.recorder import Recorder
from scalewise.watch.wrappers import inner_of

# A module's standing: nothing in it can learn; it could learn but no optimizer holds it; it is trained.
FIXED, DOUBTFUL, TRAINED = range(3)
# At most this many tensors of a call's result are looked at for gradients.
MOST_OUTPUTS = 4
# Passes in a row in which every call led to gradients: enough to assume that all the script's passes do.
ENOUGH_PASSES = 3


class Root:
    """A module that was called from outside all modules."""

    __slots__ = ("axis", "generation", "last_pass", "module", "number", "standing")

    def __init__(self, module: nn.Module, standing: int, generation: int) -> None:
        self.module = weakref.ref(module)
        self.standing = standing
        self.generation = generation
        self.number = -1
        self.last_pass = -1  # the backward pass before which it was last called
        # The dimension of its input that counts samples; None: not known before a call is seen (hooks/batch_rows.py).
        self.axis = None if standing != FIXED and _may_take_time_first(module) else 0


class Roots:
    """The modules called so far; when an optimizer takes parameters, all of them are looked up anew."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[int, Root] = {}
        self._optimizers: list[weakref.ref[Optimizer]] = []
        self._generation = 0
        self._numbered = 0
        self.trained = False  # a module that is trained has been called
        self._wrap_add_param_group()

    def of(self, module: nn.Module) -> Root:
        """The facts about a module."""
        root = self._known.get(id(module))
        if root is None or root.generation != self._generation or root.module() is not module:
            root = self._look_up(module, root)
        return root

    def number(self, root: Root, module: nn.Module) -> int:
        """The number of a module, which is written in a row when it is new."""
        if root.number < 0:
            root.number, self._numbered = self._numbered, self._numbered + 1
            self._recorder.journal.row(RootRow(root.number, _name(module)))
        return root.number

    def _look_up(self, module: nn.Module, before: Root | None) -> Root:
        root = Root(module, self._standing(module), self._generation)
        if before is not None and before.module() is module:
            root.number, root.last_pass, root.axis = before.number, before.last_pass, before.axis
        self._known[id(module)] = root
        return root

    def _standing(self, module: nn.Module) -> int:
        parameters = list(module.parameters())
        if not parameters:
            return FIXED
        held = {id(one) for optimizer in self._alive() for group in optimizer.param_groups for one in group["params"]}
        if any(id(one) in held for one in parameters):
            self.trained = True
            return TRAINED
        return DOUBTFUL if any(one.requires_grad for one in parameters) else FIXED

    def _alive(self) -> Iterator[Optimizer]:
        for reference in self._optimizers:
            optimizer = reference()
            if optimizer is not None:
                yield optimizer

    def _wrap_add_param_group(self) -> None:
        original = Optimizer.add_param_group

        @functools.wraps(original)
        def add_param_group(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            try:
                optimizer = receiver(args, kwargs)
                self._generation += 1
                if all(known is not optimizer for known in self._alive()):
                    self._optimizers.append(weakref.ref(optimizer))
            except Exception as error:
                self._recorder.broke("optimizer", error)

        Optimizer.add_param_group = add_param_group  # type: ignore[method-assign]


class FollowedCall:
    """A call whose use is followed."""

    __slots__ = ("number", "rows", "stamp", "used")

    def __init__(self, number: int, rows: int | None, stamp: int) -> None:
        self.number, self.rows, self.stamp = number, rows, stamp
        self.used = False

    def lead_to_gradients(self, gradients: Any) -> None:
        """Notes that autograd has reached the node; passes its gradients through as they are."""
        self.used = True


class Uses:
    """A record of the calls before each backward pass, where that is needed, which shows when a step really began."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.several = False  # the script calls a module several times before one backward pass
        self._all_used = 0  # passes in a row, of those with several calls of a module, that used every call
        self._calls: list[FollowedCall] = []
        self._not_followed = 0  # calls before the pass that came before following began
        self._first_pass = True

    def step_opens(self) -> None:
        """Forgets calls that led to no step."""
        self._calls.clear()
        self._not_followed = 0
        self._first_pass = True

    @property
    def following(self) -> bool:
        """Returns whether the calls of the open step are followed."""
        return self._recorder.sampled or (self.several and self._all_used < ENOUGH_PASSES)

    def called(self, root: Root, number: int, rows: int | None) -> FollowedCall | None:
        """Takes a call of a trained module, just stamped; returns the record to follow its result with, if any."""
        recorder = self._recorder
        if root.last_pass == recorder.passes and not self.several and not recorder.optimizer_depth:
            self.several = True
        root.last_pass = recorder.passes
        if not self.following:
            self._not_followed += 1
            return None
        call = FollowedCall(number, rows, recorder.pulse[STAMP])
        self._calls.append(call)
        return call

    def begin_here(self) -> None:
        """Moves the step's beginning to the call just stamped: the calls before were of modules that nobody trains."""
        before = len(self._calls) + self._not_followed - 1
        self._recorder.begin_later(before, before, self._recorder.pulse[STAMP])
        del self._calls[:-1]
        self._not_followed = 0

    def pass_ends(self) -> None:
        """Reports, when a backward pass is over, the first calls before it that led to no gradient."""
        calls, skipped, first = self._calls, self._not_followed, self._first_pass
        self._first_pass = False
        if not calls:
            self._not_followed = 0
            return
        times = Counter(call.number for call in calls)
        if len(times) < len(calls):
            self._all_used = self._all_used + 1 if all(call.used for call in calls) else 0
        unused = next((index for index, call in enumerate(calls) if call.used), 0)
        if unused:
            used_rows = {call.rows for call in calls if call.used}
            # A module called once, on as many rows, feeds the others by a detached output: a generator its critic.
            begins = next(
                index
                for index, call in enumerate(calls)
                if call.used or (times[call.number] == 1 and call.rows in used_rows)
            )
            began = calls[begins].stamp if first and begins + skipped else 0
            self._recorder.begin_later(unused + skipped, begins + skipped, began)
        self._calls = []
        self._not_followed = 0


def follow(call: FollowedCall, result: Any) -> None:
    """Puts a hook on the last nodes of the call's graph; a result that cannot be followed counts as used."""
    if torch._C._get_tracing_state() is not None:
        return  # torch.jit.trace calls the module to record it: no gradient will come
    nodes = [tensor.grad_fn for tensor in _tensors(result) if tensor.grad_fn is not None]
    if not nodes or torch._C._functorch.maybe_current_level() is not None:
        call.used = True
        return
    for node in nodes[:MOST_OUTPUTS]:
        node.register_prehook(call.lead_to_gradients)


def _tensors(result: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif depth and isinstance(result, (tuple, list, dict)):
        for value in result.values() if isinstance(result, dict) else result:
            yield from _tensors(value, depth - 1)


def _may_take_time_first(module: nn.Module) -> bool:
    return any(isinstance(one, (nn.RNNBase, nn.MultiheadAttention)) and not one.batch_first for one in module.modules())


def _name(module: nn.Module) -> str:
    """The name of a model's class, inside the wrappers that torch puts around it."""
    for _ in range(3):
        inner = getattr(module, "_orig_mod", None)
        if inner is None:
            inner = inner_of(module)
        if not isinstance(inner, nn.Module):
            break
        module = inner
    return getattr(module, "original_name", type(module).__name__)
