"""The account of storages: what is alive, where, what for, and what was there at the peak."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from scalewise.records.inspection import PURPOSES
from scalewise.watch.inspection.ledger import Ledger

FLOAT = 4


def test_a_storage_counts_once_and_until_it_dies():
    ledger = Ledger()
    tensor = torch.zeros(10)
    first, again = ledger.own(tensor, "cpu", "other"), ledger.own(tensor[2:].view(2, 4), "cpu", "weights")
    assert first is again and first.size == 10 * FLOAT and ledger.is_alive(first)
    del tensor
    assert not ledger.is_alive(first)
    ledger.own(torch.zeros(3), "cpu", "other")
    assert ledger.peak_bytes == 10 * FLOAT


def test_a_purpose_learned_later_is_that_of_the_peak():
    ledger = Ledger()
    kept, passing = torch.zeros(10), torch.zeros(5)
    entry = ledger.own(kept, "cpu", "other")
    ledger.own(passing, "cpu", "other")
    del passing
    ledger.own(torch.zeros(1), "cpu", "other")
    ledger.label(entry, "gradients")

    assert ledger.at_peak() == {"gradients": 10 * FLOAT, "other": 5 * FLOAT}


def test_a_weaker_purpose_does_not_replace_a_stronger_one():
    ledger = Ledger()
    tensor = torch.zeros(4)
    entry = ledger.own(tensor, "cpu", "weights")
    ledger.label(entry, "activations")

    assert entry.purpose == "weights"
    assert (ledger.largest("weights"), ledger.largest("activations")) == (4 * FLOAT, 0)


def test_a_storage_that_turns_out_to_lie_elsewhere_is_charged_there():
    ledger = Ledger()
    tensor = torch.zeros(4)
    ledger.move(ledger.own(tensor, "cpu", "weights"), "logical:1")

    assert ledger.device_peaks == {"cpu": 4 * FLOAT, "logical:1": 4 * FLOAT}
    assert ledger.peak_bytes == 4 * FLOAT


def test_a_new_step_has_a_peak_of_its_own():
    ledger = Ledger()
    stays, goes = torch.zeros(2), torch.zeros(8)
    ledger.own(stays, "cpu", "weights")
    ledger.own(goes, "cpu", "activations")
    del goes
    ledger.begin_step()

    assert ledger.peak_bytes == 2 * FLOAT and ledger.at_peak() == {"weights": 2 * FLOAT}
    assert ledger.largest("activations") == 0 and ledger.device_peaks == {"cpu": 10 * FLOAT}


@given(st.lists(st.tuples(st.integers(1, 20), st.sampled_from(PURPOSES), st.booleans()), max_size=30))
def test_the_parts_of_the_peak_always_add_up_to_it(steps):
    ledger, held, now, peak = Ledger(), [], 0, 0
    for size, purpose, drop in steps:
        if drop and held:
            now -= held.pop(0).numel() * FLOAT
        held.append(torch.zeros(size))
        ledger.own(held[-1], "cpu", purpose)
        now += size * FLOAT
        peak = max(peak, now)

    assert ledger.peak_bytes == peak == sum(ledger.at_peak().values())
