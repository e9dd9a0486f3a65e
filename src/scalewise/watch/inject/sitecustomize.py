"""Python imports this before the script when its folder is on PYTHONPATH; it starts the watcher and steps aside."""

import gc
import os
import sys

# Torchrun's own process looks for garbage when it has made so many more objects. At Python's own figure it does so all
# the while it imports torch, a tenth of the time that ranks wait for it.
_AGENT_ALLOCATIONS = 100_000


def _arm() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if here in sys.path:
        sys.path.remove(here)
    if "SCALEWISE_SPEC" not in os.environ or "SCALEWISE_OUT" not in os.environ:
        return
    if _is_agent():
        gc.set_threshold(_AGENT_ALLOCATIONS)
        return
    source = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    sys.path.insert(0, source)
    try:
        from scalewise.watch import arm

        arm.arm_from_environment(here)
    finally:
        sys.path.remove(source)


def _is_agent() -> bool:
    """Tells whether this is torchrun's own process: ranks wait for it, so nothing of scalewise is imported in it."""
    if "LOCAL_RANK" in os.environ:
        return False
    import json

    try:
        with open(os.environ["SCALEWISE_SPEC"], encoding="utf-8") as file:
            return bool(json.load(file)["mode"] == "torchrun")
    except (OSError, ValueError, LookupError, TypeError):
        return False  # whatever is wrong with the spec is told where it is read


def _import_shadowed() -> None:
    """Imports another sitecustomize that ours hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    found = PathFinder.find_spec("sitecustomize", sys.path)
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


try:
    _arm()
except Exception as trouble:
    # The script must run in any case; without a folder to write to, standard error is the only place left.
    sys.stderr.write(f"scalewise: this process is not watched: {trouble}\n")
_import_shadowed()
