"""Makes torch.compile look through the watcher: our frames are never traced and never break a graph."""

import sys
from typing import Any

from torch import nn

from scalewise.records.events import COMPILED
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Acts when dynamo is imported, which the first optimizer does, or at once where it already is."""

    def act() -> None:
        try:
            _teach_dynamo()
            _see_compiled_calls(recorder)
        except Exception as error:
            recorder.broke("torch.compile", error)

    after_import("torch._dynamo", act)


def _teach_dynamo() -> None:
    from torch._dynamo import trace_rules

    trace_rules.add("scalewise.watch")
    tell_dynamo(nn.Module.__call__)


def tell_dynamo(module_call: Any) -> None:
    """Dynamo steps over `nn.Module.__call__` only if it is the one it saw when imported: it must take ours for that."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if hasattr(module, "unpatched_nn_module_call"):
            module.unpatched_nn_module_call = module_call


def _see_compiled_calls(recorder: Recorder) -> None:
    """A function compiled whole hides the module calls in it; dynamo's switch, thrown at each entry, does not.

    It is set to a callback there, and to None where dynamo is disabled, as in `Optimizer.zero_grad`.
    """
    frames: Any = sys.modules["torch._dynamo.eval_frame"]
    original = frames.set_eval_frame

    def set_eval_frame(callback: Any) -> Any:
        try:
            recorder.compiles = True
            if callback is not None and recorder.on and not recorder.open and not recorder.compiled_entry:
                recorder.compiled_entry = True
                recorder.note(COMPILED)
        except Exception as error:
            recorder.broke("torch.compile", error)
        return original(callback)

    frames.set_eval_frame = set_eval_frame
