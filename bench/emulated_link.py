"""Predicts a run over an emulated link: the link's own times, and the real messages that are still sent.

The emulation sleeps for the time of the link, but the message itself is carried by the rank's cores all the same. So
computing waits for that work right where the message is issued; if nothing is left to compute it is hidden behind
the link's time, and if it lasts longer than that, the message is late by as much, as in a real run.
"""

from collections.abc import Callable
from dataclasses import replace

from scalewise.predict.link import Link, Wire
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Compute, Entry, Issue, Tape


def emulated_link(latency_seconds: float, bytes_per_second: float) -> Link:
    """A link over which a message takes the latency and its bytes at the rate, as in the emulation.

    That holds for every kind of message and any number of ranks: the emulation knows no algorithm.
    """
    name = f"emulated {latency_seconds * 1e3:g} ms, {bytes_per_second / 1e9:g} GB/s"
    return Link(name, Wire(latency_seconds, 0.0, bytes_per_second), origin="emulated", carrier="none")


def with_real_messages(rehearsal: RehearsedRank, core_seconds: Callable[[Issue], float]) -> RehearsedRank:
    """The same rehearsal with added work of the cores for every message that it issues."""
    return rehearsal.with_tapes([_with_work(tape, core_seconds) for tape in rehearsal.tapes])


def _with_work(tape: Tape, core_seconds: Callable[[Issue], float]) -> Tape:
    entries: list[Entry] = []
    for entry in tape.entries:
        entries.append(entry)
        if isinstance(entry, Issue):
            entries.append(Compute(core_seconds(entry), "own"))
    return replace(tape, entries=tuple(entries))
