"""A script for one device trains under a strategy as if it had been written for it, and the table says how well."""

import json
import re

import pytest
from strategy_scripts import ACCUMULATED_BY_HAND, BY_HAND, DRAWN, HEAD, IN_THE_MODEL, LOADER, READ_BEFORE

from scalewise.agreement.strategy_table import StrategiesAnswer, StrategyRow
from scalewise.jobs.rehearse_request import asked_link
from scalewise.jobs.strategy_predictions import PredictionRequest
from scalewise.jobs.strategy_runs import known_strategies
from scalewise.report.documents.strategies_document import strategies_document
from shared_servers import CommandLine

pytestmark = pytest.mark.processes


def row(answer: StrategiesAnswer, change: str) -> StrategyRow:
    return next(one for one in answer.rows if one.change == change)


@pytest.mark.parametrize(("change", "by_hand"), [("with_ddp", BY_HAND), ("with_ddp:accumulate=2", ACCUMULATED_BY_HAND)])
def test_a_strategy_trains_what_the_same_strategy_by_hand_trains(room, change, by_hand):
    wanted = room.printed(by_hand)
    assert wanted[0].startswith("weights") and wanted[0] == wanted[1]
    assert room.printed(LOADER, change) == wanted


@pytest.mark.parametrize("script", [DRAWN, READ_BEFORE, IN_THE_MODEL], ids=["drawn", "read before", "in the model"])
def test_a_script_that_draws_its_own_batches_trains_what_one_rank_trains(room, script):
    wanted = room.printed(script, ranks=1) * 2
    assert wanted[0].startswith("weights")
    assert room.printed(script, "with_ddp") == wanted


@pytest.fixture(scope="module")
def every(room) -> StrategiesAnswer:
    """All strategies of one script, with layers wide enough for what a rank holds to show."""
    wide = "nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 4)"
    return room.compare(LOADER.replace("nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4)", wide))


def test_every_strategy_has_a_row_with_steps_memory_bytes_and_parity(every):
    (base, *others) = every.rows
    assert base.change == "" and base.parity is None and base.sent_bytes is None
    assert {one.name for one in others} == set(known_strategies())
    for one in others:
        assert one.kind == "measured" and one.parity is not None and one.parity.kind == "same", one
        assert one.step is not None and one.memory and one.sent_bytes
        assert (one.bubble is not None) == ("pipeline" in one.name)
    assert f"of {len(others)} strategies on 2 ranks" in " ".join(every.sentences)
    assert strategies_document(every).sections[1].blocks


def test_ranks_that_divide_state_hold_less(every):
    ddp, zero, sharded = (row(every, one).memory for one in ("with_ddp", "with_zero1", "with_fsdp2"))
    assert zero["optimizer state"] < 0.6 * ddp["optimizer state"] and zero["weights"] == ddp["weights"]
    assert sharded["optimizer state"] < 0.6 * ddp["optimizer state"]


TOO_SMALL = "a batch of 1 has fewer samples than there are ranks (2)"
SUM = LOADER.replace("model(a), b)", "model(a), b, reduction='sum')")
SUMS = SUM.replace(
    "nn.functional.mse_loss(model(a), b, reduction='sum')",
    "(nn.functional.mse_loss(model(a), b, reduction='sum') - 0.5 * model(a).abs().sum())",
)
GROUP = LOADER.replace(
    "for a, b",
    """
import os, torch.distributed as dist
assert "RANK" not in os.environ and "WORLD_SIZE" not in os.environ
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for a, b""",
)
TWO_MODELS = LOADER.replace(
    "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)",
    "other = nn.Linear(4, 4)\noptimizer = torch.optim.AdamW([*model.parameters(), *other.parameters()], lr=0.01)",
).replace("model(a), b)", "other(model(a)), b)")


PARTLY_USED = LOADER.replace(
    "optimizer = torch",
    """
class PartlyUsed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.unused, self.calls = inner, nn.Linear(3, 2), 0
    def forward(self, x):
        return self.inner(x)
model = PartlyUsed(model)
optimizer = torch""",
)
USED_SOMETIMES = PARTLY_USED.replace("nn.Linear(3, 2)", "nn.Linear(12, 4)").replace(
    "return self.inner(x)",
    "self.calls += self.training\n        return self.inner(x) + (self.unused(x) if self.calls % 3 else 0)",
)


def test_ddp_is_told_of_parameters_that_take_no_part(room):
    answer = room.compare(PARTLY_USED, "with_ddp", "with_zero1")
    for one in answer.rows[1:]:
        assert one.kind == "measured" and one.parity is not None and one.parity.kind == "same", one
    assert any("2 parameters of the model took no part" in note and "DDP and ZeRO-1" in note for note in answer.notes)


def test_parameters_that_a_function_of_the_model_holds_are_used(room):
    text = PARTLY_USED.replace("nn.Linear(3, 2), 0", "nn.Linear(4, 4), 0\n        held = self.unused\n"
                               "        self.last = lambda x: held(x)").replace(
        "return self.inner(x)", "return self.last(self.inner(x))"
    )  # fmt: skip
    answer = room.compare(text, "with_ddp")
    assert row(answer, "with_ddp").parity.kind == "same"
    assert not any("took no part" in note for note in answer.notes)


def test_parameters_that_are_left_out_in_some_steps_are_told_with_what_to_do(room):
    found = row(room.compare(USED_SOMETIMES, "with_ddp", parity=False), "with_ddp")
    assert found.kind == "failed" and "let the loss use all of them in every step" in found.reason, found


EVALUATES = """
    assert model(x).detach().numpy().shape == model(x).shape == (96, 4) and len(model(x).tolist()) == 96
    assert model(x).detach()[95].shape == (4,) and "tensor(" in str(model(x).detach())
    model.eval()
    assert len(torch.cat([model(a) for a, _ in DataLoader(TensorDataset(x, y), batch_size=12)]).detach()) == 96
    model.train()
"""


@pytest.mark.parametrize("script", [LOADER, DRAWN], ids=["loader", "drawn"])
def test_a_script_that_evaluates_with_gradients_on_trains_what_one_rank_trains(room, script):
    text = script.replace("    optimizer.step()\n", f"    optimizer.step(){EVALUATES}")
    answer = room.compare(text, "with_ddp", "with_fsdp2")
    for one in answer.rows[1:]:
        assert one.kind == "measured" and one.parity is not None and one.parity.kind == "same", one


MIXES = DRAWN.replace("out = model(x[rows])", "out = model(x[rows])[torch.arange(11, -1, -1)]")
NEIGHBOURS = IN_THE_MODEL.replace("x, y):", "x, y):\n        x = torch.ones(12, 12) @ x")

IN_TIME = IN_THE_MODEL.replace("x, y):", "x, y):\n        x = x.cumsum(0)")
AUGMENTS = LOADER.replace(
    "for a, b in DataLoader(TensorDataset(x, y), ",
    """
class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, index):
        return x[index] + 0.1 * torch.randn(12), y[index]
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(list(zip(x, y)))
for a, b in DataLoader(Augmented(), """,
)


@pytest.mark.parametrize("script", [AUGMENTS, AUGMENTS.replace("(Augmented()", "(Stream()")], ids=["drawn", "stream"])
def test_a_data_set_that_draws_random_numbers_or_streams_is_compared(room, script):
    found = row(room.compare(script, "with_ddp"), "with_ddp")
    assert found.parity is not None and found.parity.kind == "same", found


@pytest.mark.parametrize(
    ("script", "change", "said"),
    [
        (MIXES, "with_ddp", "picks rows of what the model returns by their numbers"),
        (NEIGHBOURS, "with_ddp", "the model does not compute on a part of the rows of its batch: RuntimeError: mat1"),
        (IN_TIME, "with_ddp", "depends on the other rows of its batch"),
        (SUM, "with_ddp:accumulate=4", "the loss is a sum over samples"),
        (SUMS, "with_ddp", "the loss is a sum over samples"),
        (TWO_MODELS, "with_ddp", "the script trains more than the module that it calls (Sequential)"),
        (LOADER.replace("batch_size=12", "batch_size=1"), "with_ddp", TOO_SMALL),
        (
            DRAWN.replace("(12,)", "(1,)").replace("    assert out.shape", "    assert True or out.shape"),
            "with_ddp",
            TOO_SMALL,
        ),
        (
            GROUP,
            "with_ddp",
            "the script makes a process group itself",
        ),
        (
            LOADER.replace("nn.Sequential(", "nn.Linear(12, 4)\n(lambda *layers: None)("),
            "with_pipeline:schedule=gpipe",
            "its layers are no chain of 2 or more blocks",
        ),
        (
            LOADER.replace("    optimizer.step()", "    optimizer.step()\n    with torch.no_grad():\n        model(a)"),
            "with_pipeline:schedule=gpipe",
            "the script evaluates its model between training steps",
        ),
        (READ_BEFORE, "with_ddp:accumulate=4", "the script reads its loss or an output before its backward pass"),
    ],
)
def test_what_cannot_be_applied_abstains_with_the_reason(room, script, change, said):
    answer = room.compare(script, change, parity=False)
    found = row(answer, change)
    assert found.kind == "abstained" and said in found.reason, found
    assert "No strategy could be applied on 2 ranks" in answer.sentences[0]


def test_strategies_are_rehearsed_for_ranks_that_are_not_here(room):
    asked = PredictionRequest((4,), asked_link("nvlink4", None, 4), memory_bytes=1e12)
    answer = room.compare(LOADER, "with_ddp", "with_fsdp2", "with_pipeline:schedule=gpipe", ranks=1, predict=asked)
    ddp, sharded, piped = answer.predicted
    for one in (ddp, sharded):
        assert one.step is not None and one.samples_per_second is not None and one.fits and one.peak_bytes, one
    assert "no chain of 4 or more blocks" in piped.reason and piped.step is None
    assert [one.name for one in answer.rows] == ["one rank"]
    assert answer.sentences[0].startswith("On 4 ranks (predicted): ")
    assert "strategies-predicted" in str(strategies_document(answer))


def test_gradients_that_nothing_zeroes_are_the_cause(room):
    """`zero_grad` of the model reaches what FSDP has gathered, and not the shards that the optimizer steps with."""
    text = LOADER.replace(
        "    optimizer.zero_grad()\n    nn.functional.mse_loss(model(a), b).backward()",
        "    loss = nn.functional.mse_loss(model(a), b)\n    model.zero_grad()\n    loss.backward()",
    )
    answer = room.compare(text, "with_fsdp2", "with_fsdp2:keep=1", causes=True)
    kept = row(answer, "with_fsdp2:keep=1").parity
    assert kept is not None and kept.step == 2 and kept.cause is not None, kept
    assert kept.cause.name == "gradients-not-zeroed" and "of steps 1 and 2 added up" in kept.cause.sentence
    assert row(answer, "with_fsdp2").parity.kind == "same"


def test_unequal_shares_are_the_cause(room):
    text = DRAWN.replace("(12,)", "(11,)").replace("    assert out.shape", "    assert True or out.shape")
    found = row(room.compare(text, "with_ddp", causes=True), "with_ddp").parity
    assert found is not None and found.cause is not None and found.cause.name == "uneven-last-batch", found


def test_each_rank_has_the_folder_to_itself(room):
    text = LOADER.replace("torch.manual_seed(0)", "import os\nos.makedirs('kept')\ntorch.manual_seed(0)")
    assert row(room.compare(text, "with_ddp", parity=False), "with_ddp").kind == "measured"


def test_a_strategy_that_fails_is_a_row_and_the_others_go_on(room):
    fails = "    optimizer.step()\n    if torch.distributed.is_initialized():\n        raise MemoryError('too much')\n"
    answer = room.compare(LOADER.replace("    optimizer.step()\n", fails), "with_ddp", parity=False)
    assert answer.rows[0].kind == "measured"
    assert row(answer, "with_ddp").kind == "failed" and "too much" in row(answer, "with_ddp").reason


def test_the_verb_gives_json_and_refuses_what_it_cannot_do(scalewise: CommandLine, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(LOADER)
    words = ("strategies", str(path), "--device", "cpu", "-q")
    done = scalewise(
        *words, "--only", "ddp,zero1", "--no-parity", "--repeat", "1", "--steps", "8", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(one["name"] for one in found["rows"]) == ["DDP", "ZeRO-1", "one rank"] and found["verdict"]
    for more, said in (
        (("--ranks", "1"), "leaves nothing to divide"),
        (("--memory", "80GiB"), "--memory says nothing without --predict"),
        (("--predict", "0"), "--predict 0: '0' is no number of ranks"),
        (("--only", "dpp"), "There is no strategy 'dpp'"),
        (("--repeat", "0", "--limit", "0"), "--limit 0 is not a time. --repeat 0 measures nothing."),
    ):
        done = scalewise(*words, *more, cwd=tmp_path)
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_script_for_several_ranks_is_told_the_verb_for_it(scalewise: CommandLine, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BY_HAND)
    done = scalewise("strategies", str(path), "--device", "cpu", "-q", cwd=tmp_path)
    assert done.returncode == 1 and "makes its own process group" in done.stderr, done.stderr
    assert "scalewise parity train.py" in done.stderr and "scalewise run train.py" in done.stderr


def test_runs_are_counted_over_the_whole_command(scalewise: CommandLine, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(LOADER)
    words = ("--only", "with_ddp", "--no-parity", "--repeat", "2", "--steps", "8", "--device", "cpu")
    done = scalewise("strategies", str(path), *words, cwd=tmp_path)
    counts = re.findall(r"^\[(\d+)/(\d+)\]", done.stderr, re.MULTILINE)
    assert counts == [(str(number), "8") for number in range(1, 9)], done.stderr


def test_a_script_without_an_optimizer_step_is_refused_in_a_sentence(scalewise: CommandLine, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}\nmodel(x)\n")
    done = scalewise("strategies", str(path), "--device", "cpu", "-q", cwd=tmp_path)
    assert done.returncode == 1 and "made no optimizer step on one rank" in done.stderr, done.stderr
