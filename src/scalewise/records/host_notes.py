"""The notes that the planner of a run and its hosts leave for each other in the run's folder, which all of them share.

Hosts share neither memory nor a clock. So each side writes a small file of its own again and again, and takes the
other for gone when a number in its file has stopped growing.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from scalewise.records.codec import encode, read_json_or_none
from scalewise.records.outcome import World

# refused: nothing was started here, or what started it is gone; left: somebody interrupted this host.
Stage = Literal["starting", "running", "over", "closed", "refused", "left"]


@dataclass(frozen=True)
class HostedRank:
    """The state of one rank, told by its host; hosts have clocks of their own, so all times are lengths."""

    rank: int
    pid: int
    state: str
    steps: int
    syncs: int
    still_seconds: float | None  # since its last sign of life; None: it gave none yet
    queued_seconds: float
    exit_code: int | None = None
    signal: str | None = None
    ended_seconds: float | None = None  # ago; None: it runs
    secondary: bool = False


@dataclass(frozen=True)
class HostReport:
    """The part of a run that lies on one host, as its host sees it."""

    attempt: str  # the start of the run to which it belongs
    number: int  # grows with each report
    node_rank: int
    host: str
    stage: Stage
    port: int = 0  # on which the ranks meet, chosen by the first host
    all_started: bool = False
    ranks: tuple[HostedRank, ...] = ()
    memory_kills: int = 0
    stacks_asked: int = 0  # the request that `stacks` answers
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by rank
    sentence: str = ""  # why nothing was started here
    hint: str = ""
    world: World | None = None


@dataclass(frozen=True)
class HostOrder:
    """The wishes of the planner for the hosts of one run."""

    attempt: str
    number: int  # grows as long as the planner lives
    stacks: int = 0  # how often stacks were asked for
    end: bool = False


@dataclass(frozen=True)
class PlannerWord:
    """The words of host 0, which plans: which run it makes now, and where."""

    session: str  # one start of host 0
    number: int  # grows as long as host 0 lives
    request: str  # what host 0 was asked for
    suite: str = ""  # folder of the runs, relative to that of all suites
    run: str = ""  # which run; empty: none just now
    attempt: str = ""
    hosts: int = 0  # as many take part
    over: str = ""  # complete, incomplete: host 0 has ended


@dataclass(frozen=True)
class Presence:
    """The words of another host."""

    session: str  # of host 0, as this host sees it
    number: int
    host: str


def leave(path: Path, note: HostReport | HostOrder | PlannerWord | Presence) -> None:
    """Puts the note in place of the last one, by rename; unlike a record it need not survive a crash of the host."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(encode(note)), encoding="utf-8")
    aside.replace(path)


def read_order(path: Path) -> HostOrder | None:
    """The last order; None if there is none, or it cannot be read just now."""
    return read_json_or_none(path, HostOrder)


def read_report(path: Path) -> HostReport | None:
    """The last report; None if there is none, or it cannot be read just now."""
    return read_json_or_none(path, HostReport)
