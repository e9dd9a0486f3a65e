"""Puts a slower link between the ranks: every message is really sent, and held back until that link would be through.

Emulated are the buckets of DistributedDataParallel, its broadcast of buffers, and what is called through
torch.distributed. Other messages that C++ sends by itself (at construction, functional collectives) are not.
"""

from scalewise.records.folder import RunFolder
from scalewise.records.spec import Intervention, RunSpec
from scalewise.watch.emulation import buckets, collectives
from scalewise.watch.emulation.carrier import Carrier
from scalewise.watch.emulation.readiness import Readiness
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, link: Intervention, spec: RunSpec, folder: RunFolder) -> None:
    """Installs the emulated link before the ordinary hooks, so that they see collectives as long as it makes them."""
    readiness = None
    if spec.nodes is None:
        try:
            readiness = Readiness(folder.link, spec.world_size)
        except (OSError, ValueError) as error:
            recorder.broke("emulated link", error)
    carrier = Carrier(link.seconds, link.bytes_per_second, readiness, recorder.intervene)
    collectives.install(carrier)
    buckets.install(carrier)
