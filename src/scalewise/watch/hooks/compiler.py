"""Makes torch.compile look through the watcher: our frames are never traced and never break a graph."""

import sys
from typing import Any

from torch import nn

from scalewise.watch.imports import after_import


def install() -> None:
    """Acts when dynamo is imported, which the first optimizer does, or at once where it already is."""
    after_import("torch._dynamo", _teach_dynamo)


def _teach_dynamo() -> None:
    from torch._dynamo import trace_rules

    trace_rules.add("scalewise.watch")
    # Dynamo inlines a module call only if `nn.Module.__call__` is the one it saw when it was imported; where it came
    # before us, it must take ours for the original, which it then steps over.
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if hasattr(module, "unpatched_nn_module_call"):
            module.unpatched_nn_module_call = nn.Module.__call__
