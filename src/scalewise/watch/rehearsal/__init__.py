"""Lets one process stand for rank r of N: torch's `fake` group in place of the real one, and every step on tape.

What it computes, holds and hands over is real; what other ranks would send is not there, so results are not those of a
real run, and a script that looks at them is told of.
"""

from scalewise.records.spec import Rehearsal
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal import buckets, collectives, group
from scalewise.watch.rehearsal.tape import TapeRecorder


def install(recorder: Recorder, rehearsal: Rehearsal, local_rank: int) -> None:
    """Before the ordinary hooks, which then wrap what is put in place here."""
    tape = TapeRecorder(recorder)
    tape.install()
    group.install(recorder, rehearsal.world_size, rehearsal.rank + local_rank)
    collectives.install(recorder, tape)
    buckets.install(recorder, tape)
