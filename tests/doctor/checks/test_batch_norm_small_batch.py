"""Tests of the check for batch normalisation over few samples."""

import random
import statistics

import pytest
from case_factory import Sheet, make_case, make_wrapper

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.batch_norm_small_batch import examine
from scalewise.records.notes import BatchNormNote


def rank(seed, samples, independent=None, passes=5, channels=24, device="cpu"):
    """Statistics of so many independent values, drawn."""
    draw = random.Random(seed)
    sheet = Sheet().row(make_wrapper(device=device))
    for _ in range(passes):
        sheet.window()
        drawn = [[draw.gauss(0, 1) for _ in range(independent or samples)] for _ in range(channels)]
        means, variances = [statistics.fmean(one) for one in drawn], [statistics.pvariance(one) for one in drawn]
        sheet.add(BatchNormNote, samples=samples, values=samples, means=means, variances=variances)
    return sheet


def both(*args, **values):
    return make_case(rank(1, *args, **values), rank(2, *args, **values))


def test_four_samples_on_each_rank_are_noted_with_how_uncertain_they_are():
    (finding,) = examine(both(4))
    assert finding.severity == "note" and not finding.counts
    told = float(finding.sentence.split("those of ")[1].split()[0])
    assert 2.5 < told < 5.5
    assert "GPUs only" in finding.price.how and finding.change is None


def test_on_gpus_synchronised_layers_are_tried():
    (finding,) = examine(both(4, device="cuda:0"))
    assert finding.change.name == "sync_batch_norm" and "GPUs only" not in finding.price.how


def test_many_positions_make_up_for_few_samples():
    assert examine(both(4, independent=200)) == ()


def test_thirty_two_samples_are_enough():
    assert examine(both(32)) == ()


def test_models_without_batch_normalisation_and_few_passes_are_not_judged():
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(4), ranks=2))
    with pytest.raises(Abstain):
        examine(both(4, passes=2))
