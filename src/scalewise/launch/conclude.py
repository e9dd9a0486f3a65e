"""Turns the evidence of a run's end into its outcome: the kind of end, the first failed rank, a sentence and a hint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scalewise.launch import hints
from scalewise.launch.failure_logs import OUT_OF_MEMORY, RankEvidence, exception_line, last_lines, waits_for_others
from scalewise.launch.verdict import Exit, Verdict
from scalewise.records.outcome import Outcome, OutcomeKind, RankEnd
from scalewise.records.spec import Rehearsed

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


def conclude(ranks: Sequence[RankEvidence], ending: Ending, logs: tuple[str, ...]) -> Outcome:
    """The outcome of a run whose ranks have all ended."""
    cause = find_cause(ranks, ending)
    sentence, hint = hints.explain(
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
    )
