"""Python imports this before the script when its folder is on PYTHONPATH; it starts the watcher and steps aside."""

import os
import sys


def _arm() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if here in sys.path:
        sys.path.remove(here)
    if "SCALEWISE_SPEC" not in os.environ or "SCALEWISE_OUT" not in os.environ:
        return
    source = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    sys.path.insert(0, source)
    try:
        from scalewise.watch import arm

        arm.arm_from_environment(here)
    finally:
        sys.path.remove(source)


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
