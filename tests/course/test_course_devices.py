"""Tests of layers on devices: the map, the hand-overs and the memory, as the scripts of a student get them."""

import pytest

from scalewise.records.load import load

SPREAD, HALVES = "homework3_model_parallel", "practical8_model_parallel"
DIM, FLOAT = 64, 4
LAYER = (DIM * DIM + DIM) * FLOAT
OUTPUT = 64 * DIM * FLOAT  # of the whole batch


def devices_of(made):
    (line,) = (line for line in made.stdout.splitlines() if line.startswith("layer devices: "))
    return [int(name.removeprefix("cuda:")) for name in line.removeprefix("layer devices: ").split()]


def transfers_of(made):
    (line,) = (line for line in made.stdout.splitlines() if line.startswith("transfers in one forward pass: "))
    return int(line.rpartition(" ")[2])


@pytest.mark.parametrize(("depth", "count"), [(6, 1), (6, 2), (7, 3), (5, 5), (20, 5), (3, 5)])
def test_layers_are_spread_evenly_and_in_order_and_data_moves_once_over_every_border(course, depth, count):
    made = course.run(SPREAD, DEPTH=depth, devices=count)
    assert made.outcome.measured, made.stderr
    places = devices_of(made)
    sizes = [places.count(index) for index in range(count)]
    assert len(places) == depth and places == sorted(places)
    assert max(sizes) - min(sizes) <= 1
    assert transfers_of(made) == min(count, depth) - 1


@pytest.mark.parametrize(("depth", "first"), [(6, 3), (7, 3), (2, 1)])
def test_the_first_half_lies_on_the_first_device(course, depth, first):
    places = devices_of(course.run(HALVES, DEPTH=depth, devices=2))
    assert places == [0] * first + [1] * (depth - first)


def test_memory_is_that_of_each_device_s_layers(course):
    made = course.run(SPREAD, DEPTH=4, devices=2)
    lines = [line for line in made.stdout.splitlines() if "peak memory" in line]
    peaks = [float(line.split()[-2]) * 1e6 for line in lines]
    # Two layers, their gradients, what comes in and what a layer makes; a few outputs more, and rounded to 0.1 MB.
    least = 2 * 2 * LAYER + 2 * OUTPUT
    assert [line.partition(":")[2].partition(":")[0] for line in lines] == ["0", "1"]
    assert all(least - 5e4 <= peak <= least + 6 * OUTPUT + 5e4 for peak in peaks), peaks


def test_data_parallel_holds_the_most_on_its_first_device(course):
    lines = [line for line in course.run("practical5_dp", devices=3, DIM=256).stdout.splitlines() if "peak" in line]
    first, *others = (float(line.split()[-2]) for line in lines)
    assert len(others) == 2 and all(0 < other < first for other in others)


def test_what_was_stood_in_for_is_marked_in_the_run(course):
    made = course.run(SPREAD, DEPTH=4, devices=2)
    (run,) = load(made.run.folder).runs
    assert run.spec.stand_ins and run.spec.devices == 2
