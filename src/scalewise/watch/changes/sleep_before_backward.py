"""Makes every rank sleep `seconds` before each backward pass, a delay that no message can overlap."""

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
    """Makes the recorder itself sleep, so that it knows which time is not the script's own."""
    recorder.delay_seconds = float(settings["seconds"])
