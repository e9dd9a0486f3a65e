"""Homework 3: five numbers to guess before measuring."""

from collections.abc import Sequence

from scalewise.course.homework3 import h3_2, h3_4, h3_5
from scalewise.course.predictions import Prediction, cell_at, ratio_at
from scalewise.report.document import Cell, Section


def _copies(devices: str) -> Prediction:
    def measured(sections: Sequence[Section]) -> Cell | None:
        return cell_at(sections, h3_5.TABLE, devices, "Copies in forward")

    return Prediction(
        id=f"copies-{devices}",
        question=f"How often does x.to() really copy in one forward pass on {devices} GPUs?",
        unit="",
        measured=measured,
        why="There is one copy at every border between two blocks of layers: N − 1.",
    )


PREDICTIONS = (
    _copies("2"),
    _copies("5"),
    Prediction(
        id="depth",
        question="With DEPTH 24 instead of 6, the step takes how many times as long?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h3_2.TABLE, ("6", "24"), "Step"),
        why="The layers run one after another; what a step costs beside its layers keeps the factor below 4.",
    ),
    Prediction(
        id="at-once",
        question="For how much of a step do two of 5 GPUs compute at the same time?",
        unit="%",
        measured=lambda sections: cell_at(sections, h3_4.TABLE, "5", "Two or more busy"),
        why="Each layer waits for the one before it, so one GPU computes at a time.",
    ),
    Prediction(
        id="five-over-two",
        question="The step on 5 GPUs takes how many times as long as on 2?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h3_4.TABLE, ("2", "5"), "Step"),
        why="More GPUs hold the same layers and add copies; no layer runs earlier.",
    ),
)
