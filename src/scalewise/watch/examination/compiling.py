"""Notes when torch.compile compiles a function, and again with the guard that failed."""

import functools
import sys
from time import perf_counter_ns
from typing import Any

from scalewise.watch.call_arguments import Argument
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.imports import after_import

MOST_LETTERS = 300  # of a guard


def install(notebook: Notebook) -> None:
    """Wraps dynamo's private functions once it is imported; if they are missing, nothing is noted."""

    def act() -> None:
        try:
            _see(notebook)
        except Exception as error:
            notebook.broke("compiling", error)

    after_import("torch._dynamo", act)


def _see(notebook: Notebook) -> None:
    """Wraps dynamo's functions: it first asks for the reasons of a recompilation, then `_compile` compiles."""
    frames: Any = sys.modules["torch._dynamo.convert_frame"]
    reasons_of, compile_ = frames.get_and_maybe_log_recompilation_reasons, frames._compile
    frame_of, code_of = Argument(reasons_of, "frame"), Argument(compile_, "code")
    failed: list[tuple[str, str]] = []  # function and guard of the compilation under way

    @functools.wraps(reasons_of)
    def reasons(*args: Any, **kwargs: Any) -> Any:
        found = reasons_of(*args, **kwargs)
        try:
            failed[:] = [(_name(frame_of.of(args, kwargs).f_code), _guard(found[0] if found else ""))]
        except Exception as error:
            notebook.broke("compiling", error)
        return found

    @functools.wraps(compile_)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        failed.clear()
        began_ns = perf_counter_ns()
        try:
            return compile_(*args, **kwargs)
        finally:
            if notebook.on:
                try:
                    function, guard = failed[0] if failed else (_name(code_of.of(args, kwargs)), "")
                    notebook.note("compile", function, guard, perf_counter_ns() - began_ns)
                except Exception as error:
                    notebook.broke("compiling", error)
            failed.clear()

    frames.get_and_maybe_log_recompilation_reasons = reasons
    frames._compile = compiled


def _name(code: Any) -> str:
    name, file, line = (getattr(code, key, "") for key in ("co_name", "co_filename", "co_firstlineno"))
    return f"{name} ({file}:{line})"


def _guard(reason: Any) -> str:
    """The guard alone: of `0/1: self.calls == 0  # self.calls += 1  # train.py:18 in forward` the condition."""
    text = str(reason).strip().partition("\n")[0].partition("  #")[0].strip()
    number, colon, rest = text.partition(": ")
    return (rest if colon and number.replace("/", "").isdigit() else text)[:MOST_LETTERS] or "a guard that has no name"
