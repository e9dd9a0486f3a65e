"""A strategy from outside trains to what the same strategy by hand trains to, and both to what one process does."""

from pathlib import Path

import pytest
import torch
from bench.strategies import STRATEGIES
from torch import Tensor
from torch.distributed.tensor import DTensor

from scalewise.plan.words import parse_changes
from watch.watch_runner import Ran, Runner

SCRIPTS = Path(__file__).parent / "scripts"
BY_HAND = str(SCRIPTS / "by_hand.py")
STEPS = ("--steps", "4")
SCRIPT = {
    "chain": (str(SCRIPTS / "large_linear.py"), "--dim", "32", "--depth", "4", "--batch", "8", *STEPS),
    "gpt": (
        *(str(SCRIPTS / "small_gpt.py"), "--width", "32", "--layers", "4", "--heads", "4", "--length", "16"),
        *("--batch", "8", "--plain", "--clip", "0", "--untied", "--loss", "outside", "--seed", "0", *STEPS),
    ),
}
ROUNDING = 1e-5  # a step of Adam moves a parameter by 1e-3

pytestmark = pytest.mark.processes


def saved(ran: Ran) -> dict[str, Tensor]:
    """The parameters in the files of all ranks, with shards put together."""
    assert set(ran.codes) == {0}, "\n".join(ran.stderr)
    parts: dict[str, list[Tensor]] = {}
    for path in sorted(ran.cwd.glob("*.pt")):
        for name, value in torch.load(path, weights_only=False).items():
            parts.setdefault(name, []).append(value)
    return {name: whole(found) for name, found in parts.items()}


def whole(parts: list[Tensor]) -> Tensor:
    first = max(parts, key=lambda one: one.numel())  # ranks hold nothing of other stages of a pipeline
    if not isinstance(first, DTensor):
        return first
    (placement,) = first.placements
    local = [one.to_local() for one in parts]
    return torch.cat(local, placement.dim) if placement.is_shard() else local[0]


def by_hand(runner: Runner, model: str, strategy: str) -> dict[str, Tensor]:
    ranks = 0 if strategy == "one-rank" else 2
    return saved(runner.raw(BY_HAND, model, strategy, "--save", ".", *STEPS, ranks=ranks))


@pytest.fixture(scope="module")
def alone(runner: Runner) -> dict[str, dict[str, Tensor]]:
    """What the scripts train to in one process without the watcher."""
    return {model: saved(runner.raw(*words, "--save", "kept")) for model, words in SCRIPT.items()}


def apart(found: dict[str, Tensor], reference: dict[str, Tensor]) -> float:
    assert set(found) == set(reference)
    return max(float((found[name] - value).abs().max()) for name, value in reference.items())


@pytest.mark.parametrize("model", SCRIPT)
def test_one_rank_by_hand_trains_to_what_the_script_for_one_device_trains_to(runner, alone, model):
    assert apart(by_hand(runner, model, "one-rank"), alone[model]) < ROUNDING


@pytest.mark.parametrize("model", SCRIPT)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_from_outside_and_by_hand_trains_to_what_one_process_trains_to(runner, alone, model, strategy):
    written = by_hand(runner, model, strategy)
    changes = parse_changes(STRATEGIES[strategy])
    outside = saved(runner.watched(*SCRIPT[model], "--save", "kept", ranks=2, changes=changes))
    assert apart(written, alone[model]) < ROUNDING
    assert apart(outside, written) < ROUNDING
    assert apart(outside, alone[model]) < ROUNDING
