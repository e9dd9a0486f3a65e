"""Homework 1: five numbers to guess before measuring."""

from scalewise.course.homework1 import h1_2, h1_4, h1_5a, h1_5c
from scalewise.course.predictions import Prediction, cell_at, ratio_at

PREDICTIONS = (
    Prediction(
        id="speedup",
        question="With the global batch fixed at 64, the speedup on 2 ranks is?",
        unit="times",
        measured=lambda sections: cell_at(sections, h1_2.TABLE, "2", "Speedup"),
        why="Only computing is divided; what a step costs whatever its batch stays, and communication is added.",
    ),
    Prediction(
        id="efficiency",
        question="The efficiency on 4 ranks is?",
        unit="%",
        measured=lambda sections: cell_at(sections, h1_2.TABLE, "4", "Efficiency"),
        why="Each further rank computes less and exchanges as much.",
    ),
    Prediction(
        id="dp-ddp",
        question="DDP's step takes how many times as long as DataParallel's, on two devices?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h1_4.TABLE, ("DataParallel", "DDP"), "Time/step"),
        why="DataParallel copies weights in every step, DDP exchanges gradients between processes.",
    ),
    Prediction(
        id="delay",
        question="With a delay of 10 ms before backward, the step of one rank takes how many times as long?",
        unit="times",
        measured=lambda sections: ratio_at(sections, h1_5a.TABLE, ("0", "10"), "Step of 1 rank"),
        why="The delay is added to the step: it is serial, and nothing hides it.",
    ),
    Prediction(
        id="imbalance",
        question="Rank 0 sleeps 20 ms in every step: how long does rank 1 wait?",
        unit="ms",
        measured=lambda sections: cell_at(sections, h1_5c.TABLE, "1", "Waiting, one slow"),
        why="No rank leaves the all-reduce before the last one has arrived.",
    ),
)
