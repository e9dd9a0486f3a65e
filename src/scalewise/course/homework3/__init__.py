"""Homework 3: model parallelism, one file for each question."""

from scalewise.course.homework import Homework, verdicts
from scalewise.course.predictions import Prediction, cell_in, ratio_in


def _copies(devices: str) -> Prediction:
    return Prediction(
        f"copies-{devices}",
        f"How often does x.to() really copy in one forward pass on {devices} GPUs?",
        "",
        cell_in("h3-5-transfers", devices, "Copies in forward"),
        "There is one copy at every border between two blocks of layers: N − 1.",
    )


HOMEWORK = Homework(
    place=4,
    most_pages=2,
    summary=verdicts(
        ("H3.2", 0, "more layers"),
        ("H3.4", 0, "all devices used"),
        ("H3.4", 1, "5 devices against 2"),
        ("H3.5", 1, "transfers"),
    ),
    predictions=(
        _copies("2"),
        _copies("5"),
        Prediction(
            "depth",
            "With DEPTH 24 instead of 6, the step takes how many times as long?",
            "times",
            ratio_in("h3-2-depth", "Step", "6", "24"),
            "The layers run one after another; what a step costs beside its layers keeps the factor below 4.",
        ),
        Prediction(
            "at-once",
            "For how much of a step do two of 5 GPUs compute at the same time?",
            "%",
            cell_in("h3-4-devices", "5", "Two or more busy"),
            "Each layer waits for the one before it, so one GPU computes at a time.",
        ),
        Prediction(
            "five-over-two",
            "The step on 5 GPUs takes how many times as long as on 2?",
            "times",
            ratio_in("h3-4-devices", "Step", "2", "5"),
            "More GPUs hold the same layers and add copies; no layer runs earlier.",
        ),
    ),
)
