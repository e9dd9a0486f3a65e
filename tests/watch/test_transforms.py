"""A step that torch.func computes begins where torch.func begins, and other transforms open no step."""

import json

import pytest

from scalewise.records import events as ev
from scalewise.records.rows import TroubleRow
from scalewise.records.steps import split_events


def _codes(ran) -> list[int]:
    lines = (json.loads(line) for line in ran.out.rank(0).read_text(encoding="utf-8").splitlines())
    lists = [next(iter(value for value in line.values() if isinstance(value, list))) for line in lines
             if line.get("kind") == "events"]  # fmt: skip
    return [code for numbers in lists for code, _, _ in split_events(numbers)]


@pytest.mark.parametrize("how", ["grad", "vmap"])
def test_each_step_of_torch_func_opens_where_it_began(runner, how: str) -> None:
    ran = runner.watched("functional.py", how)

    codes = [code for code in _codes(ran) if code in (ev.TRANSFORM, ev.FORWARD, ev.OPTIMIZER, ev.DATA_END)]
    assert ran.codes == (0,), ran.stderr
    assert not [row for row in ran.rows().rows if isinstance(row, TroubleRow)]
    assert codes[: 4 * 8] == [ev.DATA_END, ev.TRANSFORM, ev.FORWARD, ev.OPTIMIZER] * 8


def test_a_call_without_a_transform_opens_the_step_itself(runner) -> None:
    assert ev.TRANSFORM not in _codes(runner.watched("functional.py", "call"))
