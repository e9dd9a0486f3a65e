"""Tests of the lines below a table that say what the ranks are to each other."""

from dataclasses import replace

import pytest

from factories import make_run, make_suite, noisy
from scalewise.analysis.summary import summarise
from scalewise.console.output import Output
from scalewise.console.terminal import show_document
from scalewise.records.traffic import StepTraffic, Traffic
from scalewise.report.documents.measurement_document import measurement_document

DDP = StepTraffic(reduced=4000)


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def seen(capsys, *steps: StepTraffic, samples_in_all: int = 64, **model) -> str:
    """What is printed of one rank and of two that show these steps, with the words of a line put together."""
    alone = make_run(noisy(60, 0.010, 1), 1)
    both = make_run(noisy(60, 0.006, 2), 2, samples_in_all=samples_in_all, model=model)
    records = tuple(replace(rank, traffic=Traffic(dict.fromkeys(steps, 60))) for rank in both.ranks)
    show_document(Output(), measurement_document(summarise(make_suite(alone, replace(both, ranks=records)))))
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("samples", "words"), [(64, "Strong scaling: all ranks"), (128, "Weak scaling: each rank has")]
)
def test_the_kind_of_scaling_is_said(capsys, samples, words):
    text = seen(capsys, DDP, samples_in_all=samples)

    assert words in text
    assert ("speedup is of samples/s" in text) == (samples == 128)


def test_ranks_apart_have_no_speedup_and_it_says_why(capsys):
    text = seen(capsys, StepTraffic())

    assert "No speedup for 2 ranks: its ranks train apart" in text
    assert "DOUBT ranks train apart: no gradient, parameter or activation was exchanged" in text
    assert "in any of 60 steps; this is 2 trainings, not a speedup" in text


def test_samples_that_count_once_are_said_to(capsys):
    text = seen(capsys, StepTraffic(), samples_in_all=128, split_over=(0, 1), placements=("Shard(dim=0)",))

    assert "2 ranks: tensor parallel: each parameter is split over 2 ranks (Shard(dim=0))" in text
    assert "samples count once" in text
    assert "Strong scaling" in text


def test_a_missing_column_of_communication_is_explained(capsys):
    assert "no comm. (FSDP, sharded)" in seen(capsys, StepTraffic(forward=4000), wrapper="FSDP")
