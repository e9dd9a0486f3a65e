"""Homework 1: scaling of data parallelism, one file for each question."""

from collections.abc import Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.homework import Homework, answers_by_row
from scalewise.course.predictions import Prediction, cell_in, ratio_in
from scalewise.report.document import Section, Summary

SUMMED_UP = (("H1.2", 0), ("H1.2", 2), ("H1.3", 0), ("H1.4", 2), ("H1.5B", 0))  # (row, which of its answers)


def _summary(evidence: Evidence, sections: Sequence[Section]) -> Summary:
    """Returns the verdicts with the number that shows each, and the answers that are based on doubtful numbers."""
    from scalewise.course.homework1.comparable_rows import shaken_answers

    answers = answers_by_row(sections)
    chosen = [answers[row][index] for row, index in SUMMED_UP if len(answers.get(row, ())) > index]
    told = [f"{one.row}: {one.question} {one.verdict}" for one in chosen]
    told[:1] = [f"{told[0]} {chosen[0].number}"] if told else []
    return Summary(tuple(told), shaken_answers(evidence, answers))


HOMEWORK = Homework(
    place=1,
    most_pages=4,
    summary=_summary,
    predictions=(
        Prediction(
            "speedup",
            "With the global batch fixed at 64, the speedup on 2 ranks is?",
            "times",
            cell_in("h1-2-strong-scaling", "2", "Speedup"),
            "Only computing is divided; what a step costs whatever its batch stays, and communication is added.",
        ),
        Prediction(
            "efficiency",
            "The efficiency on 4 ranks is?",
            "%",
            cell_in("h1-2-strong-scaling", "4", "Efficiency"),
            "Each further rank computes less and exchanges as much.",
        ),
        Prediction(
            "dp-ddp",
            "DDP's step takes how many times as long as DataParallel's, on two devices?",
            "times",
            ratio_in("h1-4-dp-ddp", "Time/step", "DataParallel", "DDP"),
            "DataParallel copies weights in every step, DDP exchanges gradients between processes.",
        ),
        Prediction(
            "delay",
            "With a delay of 10 ms before backward, the step of one rank takes how many times as long?",
            "times",
            ratio_in("h1-5a-delay", "Step of 1 rank", "0", "10"),
            "The delay is added to the step: it is serial, and nothing hides it.",
        ),
        Prediction(
            "imbalance",
            "Rank 0 sleeps 20 ms in every step: how long does rank 1 wait?",
            "ms",
            cell_in("h1-5c-imbalance", "1", "Waiting, one slow"),
            "No rank leaves the all-reduce before the last one has arrived.",
        ),
    ),
)
