"""Homework 2: Codes 1, 2 and 3, one file for each question."""

from scalewise.course.homework import Homework, verdicts
from scalewise.course.predictions import Prediction, cell_in, ratio_in

CODES = "h2-2a-codes"  # the table of H2.2a
CODE_1, CODE_2, CODE_3 = "Code 1: accumulation", "Code 2: AMP", "Code 3: accumulation + AMP"

HOMEWORK = Homework(
    place=3,
    most_pages=2,
    summary=verdicts(
        ("H2.1", 0, "Code 3 trains as Code 1"),
        ("H2.3", 0, "where time goes"),
        ("H2.3", 1, "memory"),
        ("H2.3", 2, "effective batch"),
    ),
    predictions=(
        Prediction(
            "amp",
            "Code 3 takes how many times the step of Code 1?",
            "times",
            ratio_in(CODES, "Time", CODE_1, CODE_3),
            "The two differ only in precision, and it pays only for large products on a device with 16-bit units.",
        ),
        Prediction(
            "pieces",
            "Code 3 takes how many times the step of Code 2?",
            "times",
            ratio_in(CODES, "Time", CODE_2, CODE_3),
            "Code 2 computes the same batch in one piece; four pieces are four times the calls.",
        ),
        Prediction(
            "memory",
            "The peak of memory of Code 3 is how many times that of Code 1?",
            "times",
            ratio_in(CODES, "Memory", CODE_1, CODE_3),
            "Activations shrink, and 16-bit copies of the weights are added; which weighs more depends on the batch.",
        ),
        Prediction(
            "sent",
            "With eight micro-batches of one size, a sample sends what share of what it sends with one?",
            "times",
            ratio_in("h2-2b-growing", "Sent per sample", "1", "8"),
            "The same bytes are sent for eight times the samples.",
        ),
        Prediction(
            "communication",
            "How much of Code 1's step does communication add?",
            "ms",
            cell_in("h2-3-time", "Code 1", "Communication adds"),
            "It is the step less the same step with its all-reduces left out.",
        ),
    ),
)
