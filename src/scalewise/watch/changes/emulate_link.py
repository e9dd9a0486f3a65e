"""Emulates a slower link between the ranks: every message is really sent, and held until that link would be done.

The code is in `watch/emulation.py`. It delays the buckets of DistributedDataParallel, its broadcast of buffers, and
calls of torch.distributed, but not messages that C++ sends by itself otherwise (at construction, functional
collectives).
"""

from collections.abc import Mapping

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.emulation import Carrier, Readiness, hold_back_buckets, hold_back_calls
from scalewise.watch.recorder import Recorder

NAME = "emulate_link"
CHANGE = Declared(
    settings={"seconds": "latency", "bytes_per_second": "rate"},
    example="emulate_link:1ms,1GB/s",
    label="emulated link of {seconds}, {bytes_per_second}",
    least_ranks=2,
    void_beside=("remove_communication",),
    cpu_only="a link is emulated on the host, and a GPU would not wait for it",
    before_hooks=True,
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Installs the emulation; the ordinary hooks then see collectives as long as the emulated link makes them.

    A rehearsed rank sends nothing that a link could hold back.
    """
    spec, readiness = recorder.spec, None
    if spec is not None and spec.rehearsed:
        return
    if spec is not None and (spec.nodes is None or spec.nodes.count == 1):
        try:
            readiness = Readiness(recorder.journal.folder.link, spec.world_size)
        except (OSError, ValueError) as error:
            recorder.broke("emulated link", error)
    carrier = Carrier(float(settings["seconds"]), float(settings["bytes_per_second"]), readiness, recorder.intervene)
    hold_back_calls(carrier)
    hold_back_buckets(carrier)
