"""Practical 7: accumulation and mixed precision, one file for each question."""

from scalewise.course.homework import Homework, verdicts
from scalewise.course.predictions import Prediction, cell_in, ratio_in

ACCUMULATION = "p7-1-accumulation"  # the table of P7.1

HOMEWORK = Homework(
    place=2,
    most_pages=2,
    summary=verdicts(
        ("P7.1", 2, "without no_sync()"), ("P7.3", 0, "mixed precision"), ("P7.5", 0, "memory"), ("P7.5", 1, "speed")
    ),
    predictions=(
        Prediction(
            "no-sync",
            "Without no_sync(), with four micro-batches, the step takes how many times as long?",
            "times",
            ratio_in(ACCUMULATION, "Step", "as in the course", "without no_sync()"),
            "Four times the messages, each waited for; how much that costs depends on the link.",
        ),
        Prediction(
            "all-reduces",
            "How many all-reduces does a step make without no_sync(), if it makes 2 with it?",
            "",
            cell_in(ACCUMULATION, "without no_sync()", "All-reduces"),
            "Every backward pass of the four is followed by its own.",
        ),
        Prediction(
            "division",
            "Without the division, the first gradient is how many times as long?",
            "times",
            ratio_in(ACCUMULATION, "First gradient", "as in the course", "loss not divided"),
            "backward() adds up four gradients, each of a mean.",
        ),
        Prediction(
            "amp",
            "In float16, the step takes how many times as long as in float32?",
            "times",
            ratio_in("p7-3-amp", "Step", "float32", "float16"),
            "It pays only where products are large and the device has fast 16-bit units.",
        ),
        Prediction(
            "sent",
            "With four micro-batches of one size, a sample sends what share of what it sends with one?",
            "times",
            ratio_in("p7-5-growing", "Sent per sample", "1", "4"),
            "The same bytes are sent for four times the samples.",
        ),
    ),
)
