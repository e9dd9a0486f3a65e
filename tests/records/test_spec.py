"""Tests of what a run's spec says about itself."""

from factories import make_outcome, make_spec
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Intervention, Nodes


def test_interventions_have_names_for_tables():
    assert Intervention("remove_communication").label() == "remove communication"
    assert Intervention("emulate_link", 2e-4, None, 1.5e9).label() == "emulated link of 0.2 ms, 1.5 GB/s"
    assert Intervention("sleep_before_backward", 0.01).label() == "sleep before backward 10 ms"
    assert Intervention("slow_rank", 0.0205, 0).label() == "slow rank 20.5 ms on rank 0"


def test_the_world_counts_ranks_over_all_nodes():
    assert make_spec(ranks=2).world_size == 2
    assert make_spec(ranks=2, nodes=Nodes(3, 0, "127.0.0.1", 29500)).world_size == 6


def test_only_runs_whose_training_was_over_are_measurements():
    kinds = Outcome.__annotations__["kind"].__args__
    measured = {kind for kind in kinds if make_outcome(kind).measured}
    assert measured == {"finished", "aborted_at_exit", "enough"}
