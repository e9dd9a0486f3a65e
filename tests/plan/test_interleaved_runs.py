"""Tests of which runs take turns with which."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_machine
from scalewise.errors import BadRequest
from scalewise.plan.adhoc import script_suite
from scalewise.plan.expand import expand, folder_name
from scalewise.plan.experiment import Experiment, Suite
from scalewise.plan.suite import read_suite
from scalewise.plan.words import parse_changes
from scalewise.records.codec import decode, encode
from scalewise.records.spec import Nodes, RunSpec

SCRIPT = Path(__file__).resolve()
DELAY = parse_changes("sleep_before_backward:0.01")


def suite_of(**changes):
    return Suite("s", (Experiment("e", str(SCRIPT), turns=True, **changes),))


def plan_of(**changes):
    return expand(suite_of(**changes), make_machine(), Path("/"))


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([(1,), (2,), (1, 2), (2, 1, 4)]), st.booleans())
def test_a_ring_holds_the_arms_of_one_repeat_with_the_same_seats(values, repeat, ranks, interleave):
    changes = {"axes": {"a": tuple(range(values))}, "changes": ((), DELAY), "interleave": interleave}
    runs = plan_of(args=("{a}",), repeat=repeat, ranks=ranks, **changes).runs
    assert len(runs) == values * 2 * repeat * len(ranks)
    groups: dict[str, list[RunSpec]] = {}
    for spec in runs:
        assert spec.turns is not None
        groups.setdefault(spec.turns.ring, []).append(spec)
    for group in groups.values():
        assert [spec.turns.index for spec in group] == list(range(2 * values))
        assert {(spec.repeat, spec.ranks, spec.shares) for spec in group} == {
            (group[0].repeat, group[0].ranks, group[0].shares)
        }
        assert len({(spec.args, spec.changes) for spec in group}) == spec.turns.size == 2 * values
    assert [spec for group in groups.values() for spec in group] == list(runs), "a ring's runs follow each other"


def test_who_makes_the_first_step_changes_from_repeat_to_repeat():
    runs = plan_of(changes=((), DELAY), repeat=4).runs
    assert len({spec.changes for spec in runs if spec.turns.index == 0}) == 2


def test_a_ring_may_take_as_much_longer_as_it_has_arms():
    assert {spec.limit_seconds for spec in plan_of(changes=((), DELAY), limit_seconds=100.0).runs} == {200.0}


def test_turns_are_in_the_spec_and_decide_the_folder():
    suite, machine = suite_of(changes=((), DELAY)), make_machine()
    plan = expand(suite, machine, Path("/"))
    assert decode(RunSpec, json.loads(json.dumps(encode(plan.runs[1])))) == plan.runs[1]
    alone = Suite("s", (Experiment("e", str(SCRIPT), changes=((), DELAY)),))
    assert folder_name(suite, plan, machine) != folder_name(alone, expand(alone, machine, Path("/")), machine)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "only one arm"),
        ({"launcher": "torchrun", "changes": ((), DELAY)}, "launcher torchrun starts one run"),
    ],
)
def test_what_cannot_take_turns_is_refused_with_the_reason(changes, words):
    plan = plan_of(ranks=(1, 2), **changes)
    assert not plan.runs
    assert words in plan.refusals[0].reason and plan.refusals[0].remedy


def test_several_hosts_take_no_turns():
    suite = suite_of(launcher="torchrun", changes=((), DELAY))
    (refusal,) = expand(suite, make_machine(), Path("/"), nodes=Nodes(2, 0, "h", 1)).refusals
    assert "one host" in refusal.reason


def test_an_arm_whose_partners_were_refused_is_made_alone():
    runs = plan_of(changes=((), parse_changes("slow_rank:0.01@1")), ranks=(1, 2)).runs
    assert [(spec.ranks, spec.turns and spec.turns.size) for spec in runs] == [(1, None), (2, 2), (2, 2)]


def test_turns_are_asked_for_in_a_suite_and_for_a_script():
    head = f'name = "s"\n[[experiment]]\nname = "e"\nscript = "{SCRIPT}"\n'
    text = head + 'turns = true\nchanges = ["none", "remove_communication"]'
    assert read_suite(text, Path("s.toml")).experiments[0].turns
    suite = script_suite(SCRIPT, turns=True, changes=((), DELAY))
    assert read_suite(suite.source, Path("s.toml")).experiments[0].turns
    with pytest.raises(BadRequest, match="only one arm") as caught:
        script_suite(SCRIPT, turns=True)
    assert "--change" in caught.value.hint
