"""Practical 7: five numbers to guess before measuring."""

from scalewise.course.practical7 import p7_1, p7_3, p7_5
from scalewise.course.predictions import Prediction, cell_at, ratio_at

PREDICTIONS = (
    Prediction(
        id="no-sync",
        question="Without no_sync(), with four micro-batches, the step takes how many times as long?",
        unit="times",
        measured=lambda sections: ratio_at(sections, p7_1.TABLE, ("as in the course", "without no_sync()"), "Step"),
        why="Four times the messages, each waited for; how much that costs depends on the link.",
    ),
    Prediction(
        id="all-reduces",
        question="How many all-reduces does a step make without no_sync(), if it makes 2 with it?",
        unit="",
        measured=lambda sections: cell_at(sections, p7_1.TABLE, "without no_sync()", "All-reduces"),
        why="Every backward pass of the four is followed by its own.",
    ),
    Prediction(
        id="division",
        question="Without the division, the first gradient is how many times as long?",
        unit="times",
        measured=lambda sections: ratio_at(
            sections, p7_1.TABLE, ("as in the course", "loss not divided"), "First gradient"
        ),
        why="backward() adds up four gradients, each of a mean.",
    ),
    Prediction(
        id="amp",
        question="In float16, the step takes how many times as long as in float32?",
        unit="times",
        measured=lambda sections: ratio_at(sections, p7_3.TABLE, ("float32", "float16"), "Step"),
        why="It pays only where products are large and the device has fast 16-bit units.",
    ),
    Prediction(
        id="sent",
        question="With four micro-batches of one size, a sample sends what share of what it sends with one?",
        unit="times",
        measured=lambda sections: ratio_at(sections, p7_5.GROWING, ("1", "4"), "Sent per sample"),
        why="The same bytes are sent for four times the samples.",
    ),
)
