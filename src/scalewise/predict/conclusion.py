"""Draws conclusions from an answer: scaling, thresholds, changes, memory and cost, each computed once for all views."""

from dataclasses import dataclass

from scalewise.predict.advice import Changes, changes_at
from scalewise.predict.answer import AtRanks, RehearsalAnswer
from scalewise.predict.compute_work import WorkLine
from scalewise.predict.cost import CostRow, Training, cost_rows
from scalewise.predict.efficiency_threshold import EfficiencyThreshold, efficiency_thresholds
from scalewise.predict.order import Order, orders
from scalewise.predict.predicted_memory import PredictedMemory, memory_line, memory_rows
from scalewise.predict.predicted_scaling import CurvePoint, ScalingCurve, ScalingTable, curve_points, scaling_table

NO_TRAINING = Training()


@dataclass(frozen=True)
class Conclusions:
    """All conclusions; empty if there is no prediction."""

    scaling: ScalingTable | None = None
    curve: tuple[CurvePoint, ...] = ()  # predicted efficiency over ranks, for plots
    orders: tuple[Order, ...] = ()  # of each number of ranks and the next
    thresholds: tuple[EfficiencyThreshold, ...] = ()
    changes: tuple[Changes, ...] = ()  # for each number of ranks, fewest first
    memory: tuple[PredictedMemory, ...] = ()
    costs: tuple[CostRow, ...] = ()
    training: Training = NO_TRAINING
    guesses: tuple[str, ...] = ()  # all assumptions of the numbers, each once


def conclusions_from(
    answer: RehearsalAnswer,
    capacity_bytes: float | None = None,
    training: Training = NO_TRAINING,
    *,
    advice: bool = True,
) -> Conclusions:
    """The conclusions from an answer, the memory of a rank and the planned training; no changes without `advice`."""
    table = scaling_table(answer)
    if table is None:
        return Conclusions(training=training)
    line = ScalingCurve(answer, table.kind).line
    return Conclusions(
        scaling=table,
        curve=curve_points(answer, table) if table.further else (),
        orders=orders(table),
        thresholds=efficiency_thresholds(answer, table) if table.goes_on else (),
        changes=tuple(_changes(answer, at, line, capacity_bytes) for at in answer.at if advice),
        memory=memory_rows(answer, capacity_bytes),
        costs=cost_rows(answer, training),
        training=training,
        guesses=_guesses(answer, table, line),
    )


def _changes(answer: RehearsalAnswer, at: AtRanks, line: WorkLine, capacity_bytes: float | None) -> Changes:
    return changes_at(answer, at, line, memory_line(answer, at), capacity_bytes)


def _guesses(answer: RehearsalAnswer, table: ScalingTable, line: WorkLine) -> tuple[str, ...]:
    """The guesses of the table and the thresholds; those of each change are kept with it."""
    of_predictions = [guess for at in answer.at for guess in at.predicted.guesses]
    of_line = line.guesses if table.kind == "strong" else ()
    every = (*answer.guesses, *answer.link.guesses, *of_predictions, *table.guesses, *of_line)
    return tuple(dict.fromkeys(every))
