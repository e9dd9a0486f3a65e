"""The messages for examined runs that end without a finding: missing arguments, packages, GPUs or steps."""

import re
import shlex
from pathlib import Path

from scalewise.errors import BadRequest
from scalewise.launch.failure_logs import MODULE_MISSING, exception_line
from scalewise.plan.python_file import starts_ranks_itself
from scalewise.records.outcome import Outcome, RankEnd
from scalewise.records.spec import RunSpec

_USAGE = re.compile(r"^usage: ", re.IGNORECASE)
_COMPLAINT = re.compile(r"(?:^|: )error: (.*)", re.IGNORECASE)
_NEEDS_GPU = re.compile(
    r"Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|no NVIDIA GPU|no CUDA-capable"
    r"|torch\.cuda\.is_available\(\) is False|only supported with GPUs|built-in NCCL|NCCL (?:backend )?(?:is )?not"
    r"|Cannot access accelerator device|invalid device ordinal"
    r"|module 'torch\._C' has no attribute '_cuda",
    re.IGNORECASE,
)


def refusal(outcome: Outcome, spec: RunSpec) -> BadRequest | None:
    """The reason why nothing could be examined, if the request and not the script's training is to blame; else None."""
    if outcome.kind in ("not_started", "watcher_failed"):
        return BadRequest(_sentence(outcome.sentence), outcome.hint)
    if outcome.kind != "raised":
        return None
    end = first_failed(outcome)
    return _arguments_missing(end, spec) or _package_missing(end, spec) if end is not None else None


def no_steps(outcome: Outcome, spec: RunSpec, forked: bool) -> BadRequest | None:
    """The message about a script that was never seen to train; None if its own failure says enough."""
    name = Path(spec.script).name
    stood = next((f" It stood at {end.stack[0].strip()}." for end in outcome.ranks if end.stack), "")
    if forked or (spec.mode == "python" and starts_ranks_itself(Path(spec.script))):
        return BadRequest(
            f"{name} starts its ranks itself, and none was seen to train: ranks that are forked are not watched.",
            "Start them with torch.multiprocessing.spawn, or let torchrun start them.",
        )
    if outcome.kind == "timed_out":
        return BadRequest(
            f"{name} reached no optimizer step within {spec.limit_seconds:g} s, so there is nothing to judge.{stood}",
            "Give it more time with --limit, or arguments with which it begins sooner: less data, fewer batches.",
        )
    if outcome.kind == "hung":
        return BadRequest(
            f"{name} stood still for {spec.stall_seconds:g} s before its first optimizer step.{stood}",
            "If it only needs that time to begin, raise --stall and --limit.",
        )
    if outcome.measured:
        return BadRequest(
            f"{name} trained, but none of its steps could be examined.",
            "The watcher's troubles are in the run's folder; run the same command again, and report it if it stays so.",
        )
    if outcome.kind == "no_steps" and outcome.world is not None and outcome.world.read:
        read = outcome.world.read[0].text()
        return BadRequest(f"{name} ended in order, but made no optimizer step; it read {read}.", outcome.hint)
    if outcome.kind == "no_steps":
        return BadRequest(
            f"{name} ended in order, but made no optimizer step: there is nothing to judge.",
            f"{outcome.hint[:1].upper()}{outcome.hint[1:]}. "
            "Arguments go after two dashes: scalewise doctor SCRIPT -- ARGS",
        )
    return None


def needs_gpu(outcome: Outcome) -> bool:
    """Tells whether the script ended because there is no GPU for it."""
    end = first_failed(outcome)
    return end is not None and bool(_NEEDS_GPU.search("\n".join(end.last_lines)))


def first_failed(outcome: Outcome) -> RankEnd | None:
    """The end of the rank that failed first; None if none failed."""
    return next((end for end in outcome.ranks if end.rank == outcome.first_failed_rank), None)


def script_words(outcome: Outcome) -> list[str]:
    """Returns the traceback of the rank that failed first, or its last lines; nothing for other ends of a run."""
    end = first_failed(outcome)
    if end is None or outcome.kind not in ("raised", "killed", "out_of_memory"):
        return []
    lines = list(end.last_lines)
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return lines[starts[0] :] if starts else lines


def _arguments_missing(end: RankEnd, spec: RunSpec) -> BadRequest | None:
    lines = list(end.last_lines)
    usage = next((index for index, line in enumerate(lines) if _USAGE.match(line)), None)
    if end.exit_code != 2 or usage is None:
        return None
    complaints = [index for index, line in enumerate(lines) if index >= usage and _COMPLAINT.search(line)]
    said = _COMPLAINT.search(lines[complaints[-1]]) if complaints else None
    name = Path(spec.script).name
    given = f" (it got: {shlex.join(spec.args)})" if spec.args else ""
    quoted = "\n".join(lines[usage : complaints[-1] if complaints else len(lines)])
    return BadRequest(
        f"{name} does not accept its arguments{given}: {said.group(1) if said else lines[-1].strip()}.".replace(
            "..", "."
        ),
        f"{quoted}\nGive the script's own arguments after two dashes: scalewise doctor {name} -- ARGS",
    )


def _package_missing(end: RankEnd, spec: RunSpec) -> BadRequest | None:
    named = exception_line("\n".join(end.last_lines))
    missing = MODULE_MISSING.search(named) if named.startswith(("ModuleNotFoundError", "ImportError")) else None
    if missing is None:
        return None
    package = missing.group(1).partition(".")[0]
    return BadRequest(
        f"{Path(spec.script).name} needs the package {package}, which is not installed here.",
        f"pip install {package} (the name on PyPI may differ); if it is a module of your own, put its folder into "
        "PYTHONPATH or start from there.",
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
