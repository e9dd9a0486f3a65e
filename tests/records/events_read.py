"""The steps and the traffic in lists of events, as a rank's file has them."""

from collections.abc import Iterable, Sequence
from typing import Any

from scalewise.records.rows import StepRow
from scalewise.records.steps import StepMachine
from scalewise.records.traffic import Traffic, TrafficReader


def steps_of(lists: Iterable[Sequence[Any]]) -> tuple[StepRow, ...]:
    machine = StepMachine()
    for numbers in lists:
        machine.feed(numbers)
    return machine.steps()


def traffic_of(lists: Iterable[Sequence[Any]]) -> Traffic:
    reader = TrafficReader()
    for numbers in lists:
        reader.feed(numbers)
    return reader.traffic()
