"""Decides from the signs of life and the exits of the ranks whether a run is to go on: values in, verdict out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

VerdictKind = Literal["over", "failed", "left_early", "hung", "timed_out", "enough"]

# A rank that dies takes the others with it; they are given this long to report it. If all failures so far are blamed
# on another rank, the rank at fault may still be about to end.
GRACE_SECONDS = 1.0
GRACE_FOR_CULPRIT_SECONDS = 3.0
WAITING_SECONDS = 2.0
# Until the watcher is in place there is no sign of life: a new interpreter imports torch first, and a disk may be slow.
START_SECONDS = 60.0
_SYNCHRONISING = ("backward", "in a collective")


@dataclass(frozen=True)
class Exit:
    """The end of one rank, as its launcher saw it."""

    code: int | None  # None when a signal ended it
    signal: str | None
    at_seconds: float  # since the start of the run
    secondary: bool = False  # its last output blames another rank: connection closed, timed out

    @property
    def clean(self) -> bool:
        """Tells whether the rank left by itself with exit code 0."""
        return self.code == 0


@dataclass(frozen=True)
class RankView:
    """One rank at one moment: still running or ended, and when it last moved."""

    rank: int
    exit: Exit | None = None
    moved_seconds: float | None = None  # None: no sign of life yet
    state: str = "starting"
    steps: int = 0
    syncs: int = 0
    pid: int = 0
    queued_seconds: float = 0.0  # since it last moved, the time for which it was ready but had no core

    @property
    def waits(self) -> bool:
        """Tells whether the rank was last seen entering an operation that needs the other ranks."""
        return self.state in _SYNCHRONISING


@dataclass(frozen=True)
class Limits:
    """The limits on how long a run may take, and on how long it may stand still."""

    limit_seconds: float
    stall_seconds: float
    enough_steps: int = 0  # of every rank; then the run is ended in order; 0: the script ends it


@dataclass(frozen=True)
class Verdict:
    """The reason for which the run is to be ended now, and the rank that is known to be the cause."""

    kind: VerdictKind
    culprit: int | None = None


def judge(ranks: Sequence[RankView], now_seconds: float, limits: Limits) -> Verdict | None:
    """The verdict on the run; None if it is to continue."""
    live = [view for view in ranks if view.exit is None]
    if not live:
        return Verdict("over")
    failures = [view.exit for view in ranks if view.exit is not None and not view.exit.clean]
    if failures:
        return _after_failure(failures, now_seconds)
    if limits.enough_steps and all(view.steps >= limits.enough_steps for view in ranks):
        return Verdict("enough")
    leaver = _early_leaver(ranks, live, now_seconds)
    if leaver is not None:
        return Verdict("left_early", leaver)
    if now_seconds >= limits.limit_seconds:
        return Verdict("timed_out")
    if all(_stands_still(view, now_seconds, limits.stall_seconds) for view in live):
        return Verdict("hung")
    return None


def _stands_still(view: RankView, now_seconds: float, stall_seconds: float) -> bool:
    still_seconds = now_seconds - (view.moved_seconds or 0.0) - view.queued_seconds
    if view.moved_seconds is None:
        return still_seconds > max(stall_seconds, START_SECONDS)
    return still_seconds > stall_seconds


def _after_failure(failures: Sequence[Exit], now_seconds: float) -> Verdict | None:
    first = min(failure.at_seconds for failure in failures)
    only_secondary = all(failure.secondary for failure in failures)
    grace = GRACE_FOR_CULPRIT_SECONDS if only_secondary else GRACE_SECONDS
    return Verdict("failed") if now_seconds - first > grace else None


def _early_leaver(ranks: Sequence[RankView], live: Sequence[RankView], now_seconds: float) -> int | None:
    """The rank that left in order while another has long been waiting for a synchronisation that it never entered."""
    for gone in ranks:
        if gone.exit is None or now_seconds - gone.exit.at_seconds < WAITING_SECONDS:
            continue
        for view in live:
            stood_seconds = now_seconds - (view.moved_seconds or 0.0)
            if view.waits and view.syncs > gone.syncs and stood_seconds > WAITING_SECONDS:
                return gone.rank
    return None
