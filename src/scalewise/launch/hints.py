"""Writes the sentence about how a run ended, and the hint on what to do next."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scalewise.launch.failure_logs import (
    DISK_FULL,
    MODULE_MISSING,
    MOST_LETTERS,
    PORT_TAKEN,
    RankEvidence,
    exception_line,
    shortened,
    waits_for_others,
)
from scalewise.records.outcome import OutcomeKind
from scalewise.records.spec import Rehearsed
from scalewise.records.wrapped import CONCERNS, not_observed


def explain(
    kind: OutcomeKind,
    rank: int | None,
    ranks: Sequence[RankEvidence],
    stall_seconds: float,
    limit_seconds: float,
    rehearse: Rehearsed | None = None,
    without_hooks: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """The sentence and the hint for a run that ended this way."""
    first = next((each for each in ranks if each.view.rank == rank), None)
    who = _who(rank, len(ranks), rehearse)
    match kind:
        case "finished":
            return f"finished after {_steps(ranks)} steps", ""
        case "enough":
            return f"ended after {_steps(ranks)} steps, which were enough", ""
        case "no_steps" if any(name in CONCERNS and CONCERNS[name].essential for name in without_hooks):
            return "every rank exited 0, but its steps could not be seen", "; ".join(not_observed(without_hooks))
        case "no_steps" if passes := max((each.passes_without_step for each in ranks), default=0):
            return (
                f"every rank exited 0, but no optimizer step was seen beside {passes} backward passes",
                "the script seems to update its parameters by hand, which cannot be followed; let an optimizer of "
                "torch.optim do it, if its arguments offer one",
            )
        case "no_steps":
            return (
                "every rank exited 0, but no optimizer step was seen",
                "the script must call step() of a torch optimizer; check that its arguments let it train",
            )
        case "aborted_at_exit":
            return (
                f"finished after {_steps(ranks)} steps; {who} aborted while its interpreter shut down",
                "the measurement stands; call torch.distributed.destroy_process_group() before the script ends",
            )
        case "interrupted":
            return "interrupted; every rank was ended", "run the same command again to continue"
        case "left_early":
            return (
                f"{who} exited 0 while others waited for it",
                "every rank must take part in every collective: check the conditions under which this rank stops",
            )
        case "hung":
            return _explain_hang(who, rank, ranks, stall_seconds)
        case "timed_out":
            return (
                f"the run took longer than its limit of {round(limit_seconds, 1):g} s",
                "raise the limit, or let the script do fewer steps",
            )
        case "not_started":
            return "the ranks could not be started", ""
        case "watcher_failed":
            named = exception_line(first.stderr) if first is not None else ""
            concern = " or ".join(first.raised_by) if first is not None else "watcher"
            return (
                f"scalewise's own {concern} failed inside the script on {who}: {named or 'see its stderr log'}",
                "the script is not to blame; please report it with the run's folder",
            )
        case "out_of_memory" | "killed" | "raised":
            return _explain_failure(kind, who, first)


def _who(rank: int | None, processes: int, rehearse: Rehearsed | None) -> str:
    """The name of the rank for sentences; a rehearsed process is named after the rank that it represents."""
    if rank is None:
        return f"no single one of {processes} ranks"
    return f"rank {rehearse.rank + rank} of {rehearse.world_size}" if rehearse else f"rank {rank} of {processes}"


def _explain_hang(who: str, rank: int | None, ranks: Sequence[RankEvidence], stall_seconds: float) -> tuple[str, str]:
    if rank is None and not any(waits_for_others(each.stack) for each in ranks):
        return (
            f"no rank moved for {stall_seconds:g} s, and none waits for another",
            "the ranks' stacks show where they stood; if the script only needs the time, raise the stall limit",
        )
    if rank is None:
        return (
            f"no rank moved for {stall_seconds:g} s, and all seem to wait for each other",
            "the ranks' stacks show where: they must call the same collectives, in the same order, on equal shapes",
        )
    first = next((each for each in ranks if each.view.rank == rank), None)
    where = f", but at {first.stack[0]}" if first is not None and first.stack else ""
    return (
        f"no rank moved for {stall_seconds:g} s; {who} is not where the others wait{where}",
        "read that rank's stack; if the script only needs more time between steps, raise the stall limit",
    )


def _explain_failure(kind: OutcomeKind, who: str, first: RankEvidence | None) -> tuple[str, str]:
    if first is None:
        return f"{who} failed", ""
    text, end = first.stderr, first.view.exit
    named = exception_line(text)
    if kind == "out_of_memory":
        said = f": {named}" if named else ""
        return f"{who} ran out of memory{said}", "use a smaller batch or model, or fewer ranks on this machine"
    if first.trouble or DISK_FULL.search(named):
        return f"{who} could not write: no space left on the disk", "free some space, then run the same command again"
    if kind == "killed":
        return _explain_signal(who, end.signal or "" if end else "", first.view.state)
    if PORT_TAKEN.search(named or text[-2000:]):
        return (
            f"{who} could not listen on a port that is taken: {named}",
            "let the script use MASTER_PORT or port 0 instead of a fixed port, or end the process that holds it",
        )
    missing = MODULE_MISSING.search(named)
    if missing:
        return f"{who} raised {named}", f"install {missing.group(1).split('.')[0]} in the interpreter of the ranks"
    if named:
        return f"{who} raised {named}", "the traceback is in the rank's stderr log"
    code = end.code if end else None
    said = next((shortened(line.strip(), MOST_LETTERS) for line in reversed(text.splitlines()) if line.strip()), "")
    if said:
        return f"{who} ended with exit code {code}: {said}", "that is the last line of the rank's stderr log"
    return f"{who} ended with exit code {code}", "the rank's logs may say why"


def _explain_signal(who: str, signal: str, state: str) -> tuple[str, str]:
    sentence = f"{who} died of {signal} ({state})"
    hint = {
        "SIGILL": "the CPU advertises instructions it does not run: set ONEDNN_MAX_CPU_ISA=AVX512_CORE, or AVX2",
        "SIGKILL": "somebody killed it; if it was the kernel, for memory, `dmesg` says so",
        "SIGSEGV": "a native library crashed; the rank's stack file shows the Python line that called it",
        "SIGABRT": "a native library gave up; the rank's stderr log says why",
        "SIGBUS": "a mapped file or shared memory ran out of room: look at the free space of /dev/shm and the disk",
    }
    return sentence, hint.get(signal, "the rank's logs may say why")


def _steps(ranks: Sequence[RankEvidence]) -> int:
    return max((each.steps for each in ranks), default=0)
