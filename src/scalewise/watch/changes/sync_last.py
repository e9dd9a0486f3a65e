"""Reduces gradients in the last micro-batch of every window, whatever the script's own `no_sync()` says.

`window`: training forward passes of each wrapper per optimizer step.
"""

from collections.abc import Mapping

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.changes.no_sync import reduce_in_last
from scalewise.watch.recorder import Recorder

NAME = "sync_last"
CHANGE = Declared(settings={"window": "whole"}, example="sync_last:window=4")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Sets the same flag as the change `no_sync`, but counts where the script did not synchronise and should."""

    def tell(wanted: bool, was: bool) -> None:
        if wanted and not was:
            recorder.intervene(NAME)

    reduce_in_last(ChangeGuard(recorder, NAME), int(settings["window"]), tell)
