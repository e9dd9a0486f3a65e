"""Makes torch.compile ignore the watcher: our frames are never traced and never break a graph."""

import sys
from typing import Any

from torch import nn

from scalewise.records.events import COMPILED
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Acts when dynamo is imported, which the first optimizer does, or at once if it already is."""

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
    """Tells dynamo of our `nn.Module.__call__`: it steps over only the one that it saw when it was imported."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if hasattr(module, "unpatched_nn_module_call"):
            module.unpatched_nn_module_call = module_call


def _see_compiled_calls(recorder: Recorder) -> None:
    """Notes compiled calls at dynamo's switch, as a function compiled whole hides the module calls in it.

    At each entry the switch is set to a callback, and to None where dynamo is disabled, as in `Optimizer.zero_grad`.
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
