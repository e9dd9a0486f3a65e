"""Tells how a run ended, from the evidence: the kind of end, the first failed rank, a sentence and a hint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from scalewise.launch.failure_logs import (
    DISK_FULL,
    MODULE_MISSING,
    MOST_LETTERS,
    OUT_OF_MEMORY,
    PORT_TAKEN,
    RankEvidence,
    exception_line,
    last_lines,
    shortened,
    waits_for_others,
)
from scalewise.launch.verdict import Exit, Verdict
from scalewise.records.outcome import Outcome, OutcomeKind, RankEnd
from scalewise.records.spec import Rehearsed
from scalewise.records.wrapped import CONCERNS, not_observed

_AT_EXIT_SIGNALS = ("SIGABRT", "SIGSEGV")


@dataclass(frozen=True)
class Ending:
    """The facts about the end of the run as a whole."""

    verdict: Verdict | None  # None: interrupted by the user
    launch_seconds: float
    wall_seconds: float
    stall_seconds: float
    limit_seconds: float
    memory_kills: int = 0  # processes the kernel killed for memory while the run lasted
    rehearse: Rehearsed | None = None  # the ranks of many that its processes stood for
    without_hooks: Mapping[str, str] = field(default_factory=dict)  # parts of the watcher that were left out


@dataclass(frozen=True)
class Cause:
    """The kind of end of a run, and the rank that caused it."""

    kind: OutcomeKind
    rank: int | None = None


def outcome_of(ranks: Sequence[RankEvidence], ending: Ending, logs: tuple[str, ...]) -> Outcome:
    """The outcome of a run whose ranks have all ended."""
    cause = find_cause(ranks, ending)
    sentence, hint = explain_end(
        cause.kind,
        cause.rank,
        ranks,
        ending.stall_seconds,
        ending.limit_seconds,
        ending.rehearse,
        ending.without_hooks,
    )
    culprit = next((each for each in ranks if each.view.rank == cause.rank), None)
    return Outcome(
        kind=cause.kind,
        sentence=sentence,
        hint=hint,
        first_failed_rank=cause.rank,
        ranks=tuple(_rank_end(each, ending.wall_seconds) for each in ranks),
        launch_seconds=ending.launch_seconds,
        wall_seconds=ending.wall_seconds,
        logs=logs,
        raised_by=culprit.raised_by if culprit is not None and cause.kind == "watcher_failed" else (),
    )


def find_cause(ranks: Sequence[RankEvidence], ending: Ending) -> Cause:
    """The kind of end, and the rank that came to it first."""
    if ending.verdict is None:
        return Cause("interrupted")
    if ending.verdict.kind == "enough":
        return Cause("enough")
    if ending.verdict.kind == "left_early":
        return Cause("left_early", ending.verdict.culprit)
    if ending.verdict.kind == "hung":
        return _cause_of_standstill(ranks)
    if ending.verdict.kind == "timed_out":
        return Cause("timed_out", _culprit_of_waiting(ranks))
    failures = [each for each in ranks if _failed(each)]
    if not failures:
        return _cause_without_failure(ranks)
    primary = [each for each in failures if not _exit(each).secondary]
    if not primary:
        return _cause_of_secondary(ranks, failures)
    first = min(primary, key=lambda each: _exit(each).at_seconds)
    return Cause(_kind_of_failure(first, ending.memory_kills), first.view.rank)


def _cause_without_failure(ranks: Sequence[RankEvidence]) -> Cause:
    unwritten = [each.view.rank for each in ranks if each.trouble]
    if unwritten:
        return Cause("raised", unwritten[0])
    aborted = [each.view.rank for each in ranks if each.view.exit is not None and not each.view.exit.clean]
    if not any(each.steps for each in ranks):
        return Cause("no_steps")
    return Cause("aborted_at_exit", aborted[0]) if aborted else Cause("finished")


def _cause_of_secondary(ranks: Sequence[RankEvidence], failures: Sequence[RankEvidence]) -> Cause:
    """The cause if every failure blames another rank: one that left in order before, or one that never answered."""
    first_failure = min(failures, key=lambda each: _exit(each).at_seconds)
    gone = [each for each in ranks if each.view.exit is not None and each.view.exit.clean]
    before = [each for each in gone if _exit(each).at_seconds <= _exit(first_failure).at_seconds]
    if before:
        return Cause("left_early", min(before, key=lambda each: _exit(each).at_seconds).view.rank)
    silent = [each for each in ranks if each.view.exit is None]
    if silent:
        return Cause("hung", _culprit_of_waiting(silent) if len(silent) > 1 else silent[0].view.rank)
    return Cause(_kind_of_failure(first_failure, 0), first_failure.view.rank)


def _cause_of_standstill(ranks: Sequence[RankEvidence]) -> Cause:
    gone = [each for each in ranks if each.view.exit is not None]
    live = [each for each in ranks if each.view.exit is None]
    if gone and all(waits_for_others(each.stack) for each in live):
        return Cause("left_early", min(gone, key=lambda each: _exit(each).at_seconds).view.rank)
    return Cause("hung", _culprit_of_waiting(live))


def _culprit_of_waiting(ranks: Sequence[RankEvidence]) -> int | None:
    """The rank that does not wait for the others; None if all wait alike."""
    live = [each for each in ranks if each.view.exit is None]
    others = [each for each in live if not waits_for_others(each.stack)]
    if len(others) == 1:
        return others[0].view.rank
    suspects = others or live
    fewest = min((each.view.syncs for each in suspects), default=0)
    behind = [each.view.rank for each in suspects if each.view.syncs == fewest]
    return behind[0] if len(behind) == 1 else None


def _failed(each: RankEvidence) -> bool:
    end = each.view.exit
    if end is None or end.clean:
        return False
    return not (end.signal in _AT_EXIT_SIGNALS and each.finished_rows)


def _kind_of_failure(each: RankEvidence, memory_kills: int) -> OutcomeKind:
    end = _exit(each)
    if OUT_OF_MEMORY.search(exception_line(each.stderr) or each.stderr[-2000:]):
        return "out_of_memory"
    if end.signal == "SIGKILL" and memory_kills > 0:
        return "out_of_memory"
    if end.signal:
        return "killed"
    return "watcher_failed" if each.raised_by else "raised"


def _exit(each: RankEvidence) -> Exit:
    assert each.view.exit is not None
    return each.view.exit


def _rank_end(each: RankEvidence, wall_seconds: float) -> RankEnd:
    end = each.view.exit
    return RankEnd(
        rank=each.view.rank,
        exit_code=end.code if end else None,
        signal=end.signal if end else None,
        seconds=end.at_seconds if end else wall_seconds,
        doing=each.view.state,
        last_lines=last_lines(each.stderr),
        stack=each.stack,
        raised=exception_line(each.stderr),
    )


def explain_end(
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
