"""Notes when torch.compile compiles a function again, with the guard that failed."""

import functools
import sys
from time import perf_counter_ns
from typing import Any

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.imports import after_import

MOST_LETTERS = 300  # of a guard


def install(notebook: Notebook) -> None:
    """When dynamo is imported: by private functions of its own, without which nothing is noted."""

    def act() -> None:
        try:
            _see(notebook)
        except Exception as error:
            notebook.broke("recompiling", error)

    after_import("torch._dynamo", act)


def _see(notebook: Notebook) -> None:
    """`_compile` asks for the reasons first, and has compiled when it returns."""
    frames: Any = sys.modules["torch._dynamo.convert_frame"]
    reasons_of, compile_ = frames.get_and_maybe_log_recompilation_reasons, frames._compile
    failed: list[tuple[str, str]] = []  # function and guard of the compilation under way

    @functools.wraps(reasons_of)
    def reasons(entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        found = reasons_of(entries, frame, *args, **kwargs)
        try:
            code = frame.f_code
            where = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
            failed[:] = [(where, _guard(found[0] if found else ""))]
        except Exception as error:
            notebook.broke("recompiling", error)
        return found

    @functools.wraps(compile_)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        failed.clear()
        began_ns = perf_counter_ns()
        try:
            return compile_(*args, **kwargs)
        finally:
            if failed and notebook.on:
                try:
                    notebook.note("recompile", *failed[0], perf_counter_ns() - began_ns)
                except Exception as error:
                    notebook.broke("recompiling", error)
                failed.clear()

    frames.get_and_maybe_log_recompilation_reasons = reasons
    frames._compile = compiled


def _guard(reason: Any) -> str:
    """The guard alone: `0/1: tensor 'x' size mismatch at index 0. expected 8, actual 9`, without the number."""
    text = str(reason).strip().partition("\n")[0]
    number, colon, rest = text.partition(": ")
    return (rest if colon and number.replace("/", "").isdigit() else text)[:MOST_LETTERS]
