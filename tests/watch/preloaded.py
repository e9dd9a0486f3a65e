"""A process with torch loaded that forks fresh ranks on request: the tests' own small launcher.

One JSON object per line on stdin asks for a run, one on stdout answers with the exit codes. A raw rank and a
watched one differ in nothing but the call of `arm_rank`.
"""

import gc
import importlib
import json
import os
import sys
import time
import types
from pathlib import Path

from scalewise.watch import bindings, exit_workarounds

# What the first optimizer, DDP and FSDP import lazily is loaded once here instead of in every rank.
PRELOAD = ("torch._dynamo", "torch.distributed.fsdp", "torch.nn.parallel", "torch.profiler")


def serve():
    """Returns only in a forked rank, with its request.

    At the end of a rank the preloaded modules are left to the kernel, as in the fork server: taking them apart needs
    150 ms of CPU time in each of more than a thousand ranks. What `exit_workarounds` does against hangs comes with it.
    """
    spared, before = exit_workarounds.spare_modules_at_exit(), set(sys.modules)
    for name in PRELOAD:
        importlib.import_module(name)
    spared.update((name, module) for name, module in sys.modules.items() if name not in before)
    exit_workarounds.spare_finalizers_at_exit()
    exit_workarounds.spare_libraries_at_exit()
    bindings.look_through_modules()
    gc.collect()
    gc.freeze()
    sys.__stdout__.write("ready\n")
    sys.__stdout__.flush()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        children = []
        for rank in range(request["ranks"]):
            child = os.fork()
            if child == 0:
                return request, rank
            children.append(child)
        deadline = request["deadline"] + time.monotonic()
        codes = [_end_of(child, deadline) for child in children]
        sys.__stdout__.write(json.dumps(codes) + "\n")
        sys.__stdout__.flush()
    os._exit(0)


def _end_of(child, deadline):
    """The exit code, negative for a signal; None after the deadline."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.003)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def take_place(request, rank):
    """Everything that a new interpreter would find set: descriptors, environment, folder, arguments."""
    streams = ((os.devnull, 0), (request["stdout"][rank], 1), (request["stderr"][rank], 2))
    for path, descriptor in streams:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.update(request["environment"][rank])
    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = str(Path(request["script"]).parent)
    if request["spec"] is not None:
        from scalewise.watch.arm import arm_rank

        exec(request["sabotage"], {"request": request, "Path": Path})
        arm_rank(Path(request["spec"]), Path(request["out"]))
    else:
        exit_workarounds.keep_groups_until_exit()  # as the watcher does; some scripts hang without it


def as_main(script):
    """The script as `__main__`, as the interpreter itself would set it up."""
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    return compile(Path(script).read_text(encoding="utf-8"), script, "exec"), module.__dict__


_request, _rank = serve()
take_place(_request, _rank)
try:
    exec(*as_main(_request["script"]))
except SystemExit as end:
    exit_workarounds.script_ends(end.code)
    raise
except BaseException:
    exit_workarounds.script_ends(1)
    raise
exit_workarounds.script_ends(None)
