"""Tests of what is said about the modules that steps open with."""

from dataclasses import replace

from factories import make_run
from scalewise.analysis.series import series
from scalewise.analysis.step_modules import sentence, step_modules
from scalewise.records.rows import RootRow


def modules(opened_by, samples_at, names=("Tower", "Head"), **step):
    run = make_run([0.1] * 12, step={"opened_by": opened_by, "samples_at": samples_at, **step})
    roots = tuple(RootRow(number, name) for number, name in enumerate(names))
    run = replace(run, ranks=(replace(run.ranks[0], roots=roots),))
    return step_modules(run, series(run))


def test_the_module_that_opens_the_steps_and_counts_the_samples_is_named():
    assert sentence(modules(0, 0)) == "A step opens with a call of Tower; samples are counted at its input."


def test_samples_counted_elsewhere_are_said_to_be():
    assert sentence(modules(0, 1)) == "A step opens with a call of Tower; samples are counted at the input of Head."


def test_nothing_is_said_of_files_that_name_no_module():
    assert sentence(modules(None, None)) == ""
    assert sentence(modules(5, 5)) == "", "a row was lost"


def test_no_place_is_named_for_samples_that_are_not_known():
    found = modules(0, 0, samples=None, samples_unknown="no rows")
    assert sentence(found) == "A step opens with a call of Tower."
    assert found.samples_unknown == "the input of Tower holds no tensor with a first dimension"
