"""Stands in for missing ranks: one process is rank r of N, in a group of one that reports N ranks, every step on tape.

What it computes, holds and sends is real; what other ranks would send is not there, so results are not those of a real
run, and the report says so if a script looks at them.
"""

from scalewise.records.spec import Rehearsed
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal import group, remote_values, streams
from scalewise.watch.rehearsal.fake_group import MessageSink
from scalewise.watch.rehearsal.message_log import TapeRecorder


def install(recorder: Recorder, rehearsal: Rehearsed, local_rank: int) -> None:
    """Installs the rehearsal before the ordinary hooks, which then wrap what is put in place here."""
    tape = TapeRecorder(recorder)
    tape.install()
    lanes = streams.Lanes(tape)
    lanes.install()
    stage = MessageSink(tape, lanes, remote_values.ReadTracker(recorder))
    rank = rehearsal.rank + local_rank
    group.install(recorder, stage, rehearsal.world_size, rank)
    remote_values.notice_polling(recorder)
