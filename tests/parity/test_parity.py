"""The verdict on whole scripts; `python -m bench parity` tries the whole corpus."""

import json
from collections.abc import Iterator

import pytest
from parity_corpus import Bench, Subject, bench, mended_text, subjects, told

from scalewise.agreement.parity_answer import ParityAnswer
from scalewise.report.documents.parity_document import parity_document
from shared_servers import CommandLine, SharedServers

BROKEN, CORRECT = ({one.name: one for one in subjects(kind)} for kind in ("broken", "correct"))
FEW_BROKEN = ("reduced_not_divided", "uneven_last_batch", "norm_below_split_sequence")
FEW_CORRECT = ("fully_sharded", "small_gpt_tied_weights")

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, servers: SharedServers) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("parity"), servers) as opened:
        yield opened


@pytest.mark.parametrize("name", FEW_BROKEN)
def test_a_mistake_is_found_and_its_cause_is_proved(room: Bench, name: str):
    answer = room.compare(BROKEN[name])
    assert answer.kind == "differs", told(answer)
    assert answer.cause is not None and answer.cause.name == BROKEN[name].cause, told(answer)
    assert parity_document(answer).sections


@pytest.mark.parametrize("name", FEW_CORRECT)
def test_a_right_script_that_looks_suspicious_computes_the_same(room: Bench, name: str):
    answer = room.compare(CORRECT[name])
    assert answer.kind == "same", told(answer)


def script(room: Bench, name: str, text: str) -> Subject:
    path = room.folder / f"{name}.py"
    path.write_text(text)
    return Subject(path, "", 2)


HEAD = 'import torch, torch.distributed as dist\ndist.init_process_group("gloo")\nmodel = torch.nn.Linear(2, 1)\n'


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("no_step", "model(torch.ones(2, 2))\n", "made no optimizer step"),
        ("two_or_none", "assert dist.get_world_size() == 2\n", "one rank did not get through the first steps"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_sentence(room: Bench, name: str, body: str, words: str):
    answer: ParityAnswer = room.compare(script(room, name, HEAD + body))
    assert answer.kind == "untold" and words in answer.sentence, told(answer)


ONE_DEVICE = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    model(torch.ones(2, 2)).mean().backward()
    optimizer.step()
"""


def test_a_script_for_one_device_is_sent_to_the_verb_for_it(room: Bench):
    answer: ParityAnswer = room.compare(script(room, "one_device", ONE_DEVICE))
    assert any("made no process group" in note and "scalewise strategies" in note for note in answer.notes), told(
        answer
    )
    grouped = room.compare(CORRECT["fully_sharded"])
    assert not any("no process group" in note for note in grouped.notes), told(grouped)


def test_the_verb_gives_json_and_an_exit_code(scalewise: CommandLine, tmp_path):
    path = BROKEN["reduced_not_divided"].path
    done = scalewise(
        "parity", str(path), "--device", "cpu", "--no-causes", "--steps", "2", "--json", "-q", cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    found = json.loads(done.stdout)
    assert (found["kind"], found["exit_code"], len(found["compared"]["steps"])) == ("differs", 2, 1)


RESUMES = """
import os, sys
from torch.utils.data import DataLoader, DistributedSampler
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
data = torch.randn(16, 4)
sampler = DistributedSampler(data)
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
start = 0
if os.path.exists("saved.pt"):
    saved = torch.load("saved.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # wrong
    start = saved["epoch"]
for epoch in range(start, 6):
    sampler.set_epoch(epoch)
    for x in DataLoader(data, batch_size=4, sampler=sampler):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, "saved.pt")
    dist.barrier()
"""


def test_a_script_that_goes_on_from_its_checkpoint_is_the_same(room: Bench):
    answer = room.compare(script(room, "resumes", f"import torch, torch.distributed as dist{RESUMES}"), resume=True)
    assert answer.kind == "same" and "goes on as if it had not been stopped" in answer.sentence, told(answer)


def test_a_script_that_forgets_its_optimizer_parts_and_the_reason_is_told(room: Bench):
    text = mended_text(f"import torch, torch.distributed as dist{RESUMES}")
    answer = room.compare(script(room, "forgets", text), resume=True)
    assert answer.cause is not None and answer.cause.name == "optimizer-state-not-restored", told(answer)


def test_two_scripts_that_should_compute_the_same_are_compared(room: Bench):
    broken = BROKEN["divided_beside_ddp"]
    right = script(room, "right", mended_text(broken.text))
    assert room.compare(right, against=right.path).kind == "same"
    answer = room.compare(broken, against=right.path)
    assert answer.kind == "differs" and answer.cause is not None, told(answer)
    assert answer.cause.name == broken.cause


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--resume", "--against", "other.py"), "are two questions"),
        (("--ranks", "1"), "compares one rank with itself"),
        (("--steps", "0"), "is no number of steps"),
        (("--limit", "0"), "is not a time"),
        (("--on", "cpu", "--device", "cuda"), "contradict each other"),
    ],
)
def test_a_bad_request_gets_a_sentence(scalewise: CommandLine, tmp_path, words, said):
    done = scalewise("parity", str(BROKEN["reduced_not_divided"].path), *words, cwd=tmp_path)
    assert done.returncode == 1 and said in done.stderr


def test_the_corpus_is_large_and_every_mistake_has_its_mending():
    assert len(BROKEN) >= 24 and len(CORRECT) >= 24
    for one in BROKEN.values():
        assert mended_text(one.text) != one.text, one.name
        compile(mended_text(one.text), str(one.path), "exec")
    for one in CORRECT.values():
        assert mended_text(one.text) == one.text and not one.cause, one.name
