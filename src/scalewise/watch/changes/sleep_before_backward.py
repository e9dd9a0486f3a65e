"""Every rank sleeps `seconds` before each backward pass: time that no message can hide behind."""

from collections.abc import Mapping

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "sleep_before_backward"
CHANGE = Declared(
    settings={"seconds": "seconds"},
    example="sleep_before_backward:0.01",
    label="sleep before backward {seconds}",
    short="delay",
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """The recorder itself sleeps, so that it knows what is no time of the script's own."""
    recorder.delay_seconds = float(settings["seconds"])
