"""Tests of the check for splits that differ between ranks."""

import pytest
from case_factory import Sheet, make_loader
from data_sheets import replay, two

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.split_differs_by_rank import examine, settle
from scalewise.records.examination import PartRow

SPLIT = "train_set, test_set = random_split(dataset, [0.8, 0.2])"


def rank(train, test=(), knows_ranks=True, drawn=64, split=SPLIT):
    sheet = Sheet()
    line = sheet.place("loader = DataLoader(train_set, sampler=sampler)")
    for index, part in enumerate((train, test)):
        sheet.row(make_loader(index, place=line, knows_ranks=knows_ranks, drawn=drawn))
        if part:
            members = tuple(sorted(part))
            sheet.row(PartRow(index, sheet.place(split), 0, 10, len(part), f"{members}", f"{part}", members))
    return sheet.windows(3)


def test_parts_with_other_samples_are_found_with_what_leaks():
    (finding,) = examine(two(rank((0, 1, 2, 3), (4, 5)), rank((2, 3, 4, 5), (0, 1))))
    assert finding.severity == "wrong" and finding.ranks == (0, 1)
    assert "with other samples in it" in finding.sentence
    assert any("2 of 2 samples that rank 0 keeps" in fact for fact in finding.evidence)
    assert finding.price.value == pytest.approx(0.5)
    assert finding.where.text == SPLIT
    assert finding.fix.endswith("random_split(dataset, [0.8, 0.2], generator=generator)")


def test_the_same_samples_in_another_order_are_found_without_a_price():
    (finding,) = examine(two(rank((0, 1, 2, 3)), rank((3, 2, 1, 0))))
    assert "in another order" in finding.sentence and finding.price is None


def test_equal_parts_are_right():
    assert examine(two(rank((0, 1, 2), (3, 4)), rank((0, 1, 2), (3, 4)))) == ()


def test_parts_that_are_dealt_out_by_hand_are_not_judged():
    with pytest.raises(Abstain, match="Subset"):
        examine(two(rank((0, 1), knows_ranks=False), rank((2, 3), knows_ranks=False)))
    with pytest.raises(Abstain, match="Subset"):  # a sampler for one replica draws all of them
        examine(two(rank((0, 1), drawn=128), rank((2, 3), drawn=128)))


def test_a_replay_with_one_seed_proves_it_only_where_the_parts_become_equal():
    case = two(rank((0, 1, 2)), rank((1, 2, 3)))
    (finding,) = examine(case)
    same = two(rank((0, 1, 2)), rank((0, 1, 2)))
    assert settle(case, finding, replay("same_split", case, same)).proof == "replayed"
    assert settle(case, finding, replay("same_split", case, case)) == finding


def test_indices_that_the_script_draws_itself_are_not_replayed():
    made = "part = Subset(dataset, indices[20:])"
    (finding,) = examine(two(rank((0, 1, 2), split=made), rank((1, 2, 3), split=made)))
    assert finding.change is None and finding.fix.endswith(made) and "same seed" in finding.fix
