"""Reduces gradients in the last micro-batch of every window, whatever the script's own `no_sync()` says.

`window`: training forward passes of each wrapper per optimizer step.
"""

from collections.abc import Mapping

from scalewise.records.spec import AxisValue
from scalewise.watch.recorder import Recorder
from scalewise.watch.remedies.no_sync import reduce_in_last

NAME = "sync_last"


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Sets the same flag as `no_sync` does, but counts where the script did not synchronise and should."""

    def tell(wanted: bool, was: bool) -> None:
        if wanted and not was:
            recorder.intervene(f"remedy:{NAME}")

    reduce_in_last(int(settings["window"]), tell)
