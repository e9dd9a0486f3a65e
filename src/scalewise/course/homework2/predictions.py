"""Homework 2: five numbers to guess before measuring."""

from scalewise.course.homework2 import h2_2, h2_3
from scalewise.course.predictions import Prediction, cell_at, ratio_at

CODE1, CODE2, CODE3 = "Code 1: accumulation", "Code 2: AMP", "Code 3: accumulation + AMP"

PREDICTIONS = (
    Prediction(
        id="amp",
        question="Code 3 takes how many times the step of Code 1?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h2_2.CODES_TABLE, (CODE1, CODE3), "Time"),
        why="The two differ only in precision, and it pays only for large products on a device with 16-bit units.",
    ),
    Prediction(
        id="pieces",
        question="Code 3 takes how many times the step of Code 2?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h2_2.CODES_TABLE, (CODE2, CODE3), "Time"),
        why="Code 2 computes the same batch in one piece; four pieces are four times the calls.",
    ),
    Prediction(
        id="memory",
        question="The peak of memory of Code 3 is how many times that of Code 1?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h2_2.CODES_TABLE, (CODE1, CODE3), "Memory"),
        why="Activations shrink, and 16-bit copies of the weights are added; which weighs more depends on the batch.",
    ),
    Prediction(
        id="sent",
        question="With eight micro-batches of one size, a sample sends what share of what it sends with one?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h2_2.GROWING_TABLE, ("1", "8"), "Sent per sample"),
        why="The same bytes are sent for eight times the samples.",
    ),
    Prediction(
        id="communication",
        question="How much of Code 1's step does communication add?",
        unit="ms",
        measured=lambda sections: cell_at(sections, h2_3.TIME_TABLE, "Code 1", "Communication adds"),
        why="It is the step less the same step with its all-reduces left out.",
    ),
)
