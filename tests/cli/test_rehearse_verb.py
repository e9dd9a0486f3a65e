"""Tests of `scalewise rehearse` as a person uses it: true rehearsals, and all scripts and requests that it refuses."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from factories import make_machine
from scalewise.cli import main
from scalewise.cli.exit_codes import rehearsal_code
from scalewise.cli.request import requested_rehearsal
from scalewise.cli.verbs import verbs
from scalewise.errors import BadRequest
from scalewise.jobs import rehearse
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import SILENT
from scalewise.launch.campaign import run_campaign
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link import Link, Wire
from scalewise.predict.predicted_memory import memory_rows
from scalewise.predict.probe import LinkProbe, Overlap, place_of
from scalewise.predict.self_check import WrittenPrediction
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.codec import read_json

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores")

SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
if 12 % ranks:
    raise ValueError(f"a batch of 12 cannot be shared by {{ranks}}")
{begin}
dist.init_process_group("{backend}")
model = DDP(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    optimizer.zero_grad()
    loss = model(torch.randn(12 // ranks, 64)).pow(2).mean()
    loss.backward()
    {inside}
    optimizer.step()
dist.destroy_process_group()
"""


def script(begin: str = "", inside: str = "", backend: str = "gloo") -> str:
    return SCRIPT.format(begin=begin, inside=inside, backend=backend)


RIGHT = script()
STEERED = script(inside="total = loss.detach().clone(); dist.all_reduce(total); worst = total.item()")
BRANCHES = script(inside="dist.broadcast(torch.zeros(8), 0) if rank == 0 else None")
HANGS = script(begin="while ranks > 2: time.sleep(0.1)")
POLLS = script(begin="while ranks > 2 and not os.path.exists('/nowhere'): time.sleep(0.1)")
# Looks for a package again and again, and so for every place of sys.path, among them one that is not there.
LOOKS = script(
    begin="""
import importlib.metadata
sys.path.append("/nowhere")
for _ in range(30 if ranks > 2 else 0):
    try:
        importlib.metadata.version("of-no-package")
    except importlib.metadata.PackageNotFoundError:
        time.sleep(0.1)
while ranks > 2: time.sleep(0.1)
"""
)
FOREIGN = script(backend="mpi")
# Each hears only of itself in a rehearsal, and of the other in truth.
FAILS_REALLY = script(
    inside="top = torch.tensor([rank]); dist.all_reduce(top, op=dist.ReduceOp.MAX); assert top == rank, 'another'"
)
# Rank 0 tells all how many steps to make; those far from it are told nothing.
TOLD = (
    script()
    .replace("model = DDP", "told = torch.tensor([12 if rank < 2 else 0])\ndist.broadcast(told, 0)\nmodel = DDP")
    .replace("range(12)", "range(int(told))")
)
ALONE = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""
# The work of the stages in the middle takes so long that no load of the machine makes another one slower.
STAGES = """
import os, time
import torch
import torch.distributed as dist
ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
dist.init_process_group("gloo")
first, last = rank == 0, rank == ranks - 1
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    x = torch.randn(4, 16)
    if not first:
        dist.recv(x, rank - 1)
    y = model(x.requires_grad_())
    time.sleep(0.2 if 2 < rank < 5 else 0)  # in the step, so that no load makes another stage slower
    if not last:
        dist.send(y.detach(), rank + 1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, rank + 1)
        y.backward(gradient)
    else:
        y.pow(2).mean().backward()
    if not first:
        dist.send(x.grad, rank - 1)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
SPAWNS = "import torch.multiprocessing as mp\ndef work(rank): pass\nif __name__ == '__main__':\n    mp.spawn(work)\n"
DEFAULTS: dict[str, Any] = {
    "ranks": "2", "link": "nvlink4", "link_file": None, "per_node": None, "scaling": "script", "memory": None,
    "price_per_hour": None, "steps": None, "also": (), "check": False, "advice": False, "device": "cpu",
    "limit_seconds": 60.0, "stall_seconds": 20.0,
}  # fmt: skip
Rehearse = Callable[..., RehearsalAnswer]


def probe_of(facts: Any, rate: float = 1e9) -> LinkProbe:
    """A link as it might have been measured, so that no test measures one."""
    link = Link("true", Wire(300e-6, 0.0, rate))
    sizes = [4.0 * 8**power for power in range(9)]
    points = tuple(MeasuredCollective(2, size, all_reduce(link, size, 2)) for size in sizes)
    return LinkProbe(place_of(facts, "cpu", 1), 1e9, 5.0, points, (Overlap(2, 1.0, 0.1, 0.1, 0.2, 0.2),))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all scripts of this file start from: each further one would need a server of its own."""
    return tmp_path_factory.mktemp("rehearse")


@pytest.fixture
def rehearsed(jobs_share_servers: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearse:
    """Rehearses a script by its text on two cores that nobody looks at."""
    monkeypatch.chdir(home)

    facts = replace(make_machine(isa_cap="AVX512_CORE"), cores=tuple(sorted(os.sched_getaffinity(0)))[:2])
    monkeypatch.setattr(rehearse, "machine_facts", lambda _: facts)
    monkeypatch.setattr(rehearse, "known_link", lambda *_: probe_of(facts))
    monkeypatch.setattr(rehearse, "loaded", lambda runs: ())

    def run(text: str, *args: str, **options: object) -> RehearsalAnswer:
        path = home / "train.py"
        path.write_text(text)
        request = requested_rehearsal(DEFAULTS | {"script": path, "args": args, "out": tmp_path / "runs"} | options)
        return rehearse.rehearse(request, SILENT)

    return run


def test_ranks_that_fit_are_predicted_first_and_then_measured(rehearsed, tmp_path):
    answer = rehearsed(RIGHT, ranks="1,2,4", link=None, check=True, advice=True)
    assert [one.ranks for one in answer.at] == [1, 2]
    (check,) = answer.checks
    assert check.ranks == 2
    assert answer.at[1].measured is not None
    assert answer.at[1].measured.step == check.measured
    assert answer.base is not None
    assert answer.base.measured
    (refused,) = answer.refused
    assert "4 ranks do not fit here" in refused.reason
    assert "--link" in refused.hint
    written = Path(answer.folder) / "prediction.json"
    (prediction,) = read_json(written, WrittenPrediction).predictions
    assert prediction == (2, check.predicted.value, check.predicted.low, check.predicted.high)
    assert written.stat().st_mtime <= (Path(answer.folder) / "measure2" / "spec.json").stat().st_mtime
    assert answer.spread.model > 0
    assert answer.fine is not None
    assert len(answer.fine.typical.messages) == 2
    assert answer.parts is not None


def test_real_ranks_that_fail_are_told_with_how_they_ended(rehearsed):
    answer = rehearsed(FAILS_REALLY, link=None, check=True)
    assert answer.check_failed
    assert answer.checks == ()
    (said,) = [warning for warning in answer.warnings if "could not be checked" in warning]
    assert said == "the prediction for 2 ranks could not be checked: rank 0 of 2 raised AssertionError: another"
    assert rehearsal_code(answer) == 2


def test_where_the_last_stage_differs_one_in_the_middle_is_rehearsed_and_the_slowest_predicted(rehearsed):
    answer = rehearsed(STAGES, ranks="8", link="ethernet-10g")
    assert answer.at[0].rehearsal.rank == 3
    said = [warning for warning in answer.warnings if "stages of a pipeline" in warning]
    assert [warning.split(" pass")[0] for warning in said][-2:] == ["ranks 0 and 7", "ranks 0 and 4"]
    assert any("recv" in guess for guess in answer.at[0].predicted.guesses)


def test_a_named_link_takes_ranks_that_are_not_here_and_says_what_is_guessed(rehearsed):
    answer = rehearsed(RIGHT, ranks="4,5,12", link="ethernet-25g")
    assert [one.ranks for one in answer.at] == [4, 12]
    assert [one.predicted.samples for one in answer.at] == [12, 12]
    (refused,) = answer.refused
    assert refused.ranks == 5
    assert refused.reason.endswith("ended as one of 5 ranks: ValueError: a batch of 12 cannot be shared by 5.")
    assert any("Traceback" in line for line in refused.words)
    assert any("computes as fast as 1 core" in guess for guess in answer.guesses)
    assert any("none was checked here" in guess for guess in answer.guesses)
    assert answer.base is not None
    assert not answer.base.measured
    assert answer.link.name == "ethernet-25g"
    assert answer.link.inside.bytes_per_second == pytest.approx(1e9, rel=0.01)  # cores carry no more than here
    assert 0.5 < answer.sharing.work <= 1


def test_weak_scaling_can_be_asked_of_a_script_that_scales_strongly(rehearsed):
    answer = rehearsed(RIGHT, ranks="2,6", scaling="weak", also=("--ignored",))
    assert [one.predicted.samples for one in answer.at] == [24, 72]
    assert len(answer.others) == 1
    assert any("engines of their own carry messages" in guess for guess in answer.guesses)


def test_a_batch_that_was_asked_for_does_not_change_what_a_sample_needs(rehearsed):
    answer = rehearsed(RIGHT, ranks="2", scaling="weak", advice=True)
    assert answer.at[0].rehearsal.typical.samples == 12
    assert answer.at[0].as_run.typical.samples == 6
    assert answer.parts is not None
    (row,) = memory_rows(answer, 2**31)
    assert row.line is not None
    assert row.line.most_samples == 6
    assert row.line.fixed_bytes > 10 * answer.parts.peak_bytes  # the process itself is in it


def test_a_collective_whose_result_is_looked_at_is_told_with_its_line(rehearsed):
    answer = rehearsed(STEERED)
    (warning,) = answer.warnings
    assert warning.startswith("the result of all_reduce is looked at in train.py:17 (item)")
    assert "worst = total.item()" in warning
    assert answer.at


def test_the_last_rank_that_fails_is_told_by_its_own_name(rehearsed):
    answer = rehearsed(script(begin="if rank == 3: raise ValueError('last')"), ranks="4")
    (said,) = [warning for warning in answer.warnings if "could not be rehearsed" in warning]
    assert said.startswith(
        "ranks 2 to 3 of 4 could not be rehearsed, as rank 0 could: rank 3 of 4 raised ValueError: last"
    )


def test_ranks_that_make_no_step_by_what_was_made_up_are_told_so(rehearsed):
    answer = rehearsed(TOLD, ranks="4")
    (said,) = [warning for warning in answer.warnings if "could not be rehearsed" in warning]
    assert "which may be why: train.py:15 looks at the result of broadcast" in said


def test_ranks_that_send_different_messages_are_told(rehearsed):
    (warning,) = rehearsed(BRANCHES).warnings
    assert "ranks 0 and 1 send different messages" in warning
    assert "branches on its rank" in warning


def test_a_script_that_waits_for_others_is_told_where_it_stands(rehearsed):
    answer = rehearsed(HANGS, ranks="2,4", stall_seconds=3.0)
    (refused,) = answer.refused
    assert "train.py as one of 4 ranks stood still for 3 s at " in refused.reason
    assert "train.py" in refused.reason.partition(" at ")[2]
    assert "only another rank can do" in refused.hint


def test_a_script_that_waits_for_a_file_of_another_rank_is_told_which(rehearsed):
    (refused,) = rehearsed(POLLS, ranks="2,4", stall_seconds=3.0).refused
    assert refused.reason == "train.py as one of 4 ranks waits for another to write /nowhere (train.py:9)."
    assert "--in-place" in refused.hint


def test_looking_for_a_package_is_not_taken_for_a_wait_for_a_file(rehearsed):
    (refused,) = rehearsed(LOOKS, ranks="2,4", stall_seconds=3.0).refused
    assert "stood still for 3 s at " in refused.reason and "/nowhere" not in refused.reason


def test_runs_beside_other_load_are_told(rehearsed, monkeypatch):
    monkeypatch.setattr(rehearse, "loaded", lambda runs: tuple(run.spec.name for run in runs))
    assert {"rehearse2", "measure2", "measure1"} <= set(rehearsed(RIGHT, link=None, check=True).warnings)


def test_ctrl_c_while_a_run_is_just_ending_is_not_lost(rehearsed, monkeypatch):
    def campaign(*args):
        outcomes = run_campaign(*args)
        args[-1].asked = True
        return outcomes

    monkeypatch.setattr(rehearse, "run_campaign", campaign)
    with pytest.raises(KeyboardInterrupt):
        rehearsed(RIGHT)


def test_a_backend_whose_times_nobody_knows_is_told(rehearsed):
    answer = rehearsed(FOREIGN)
    assert any("backend mpi" in warning for warning in answer.warnings)


def test_a_backend_that_torch_does_not_know_is_refused_in_the_words_of_torch(rehearsed):
    with pytest.raises(BadRequest) as caught:
        rehearsed(script(backend="glooo"))
    assert "AssertionError: Unknown backend type glooo" in caught.value.sentence
    assert "dist.init_process_group" in caught.value.hint
    assert "scalewise" not in caught.value.hint


def test_a_script_without_a_process_group_is_told_what_to_do(rehearsed):
    with pytest.raises(BadRequest) as caught:
        rehearsed(ALONE)
    assert "No step of train.py sends anything to another rank by torch.distributed" in caught.value.sentence
    assert "DistributedDataParallel(model)" in caught.value.hint


def test_a_link_that_was_measured_badly_is_refused(rehearsed, monkeypatch):
    flat = probe_of(make_machine(), rate=1e30)
    monkeypatch.setattr(rehearse, "known_link", lambda *_: replace(flat, points=flat.points[:2]))
    with pytest.raises(BadRequest) as caught:
        rehearsed(RIGHT, link=None)
    assert "The link of this machine is not known well enough among 2 ranks: only 2 sizes" in caught.value.sentence
    assert "scalewise machine --measure" in caught.value.hint


def test_a_script_that_starts_its_ranks_itself_is_refused(rehearsed):
    with pytest.raises(BadRequest, match="starts its ranks itself"):
        rehearsed(SPAWNS)


def test_numbers_of_ranks_with_which_the_script_never_goes_on_are_refused_with_its_words(rehearsed):
    with pytest.raises(BadRequest) as caught:
        rehearsed(RIGHT, ranks="5,7")
    assert "cannot be shared by 5" in caught.value.sentence
    assert "cannot be shared by 7" in caught.value.sentence
    assert "Traceback" in caught.value.hint


def asked(tmp_path: Path, **options: object) -> RehearseRequest:
    path = tmp_path / "train.py"
    path.write_text("")
    return requested_rehearsal(DEFAULTS | {"script": path, "args": (), "out": tmp_path} | options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": "2,many,0"}, "'many', '0' are no number of ranks"),
        ({"ranks": ""}, "'' is no number of ranks"),
        ({"link": "nvlnk4"}, "did you mean 'nvlink4'?"),
        ({"link": "none.toml"}, "There is no link file none.toml"),
        ({"link_file": Path("a.toml")}, "are two links"),
        ({"memory": "80 apples"}, "--memory '80 apples' is not a size"),
        ({"memory": "80"}, "--memory 80 has no unit, and no device has 80 bytes"),
        ({"price_per_hour": inf, "steps": 1}, "--price inf is not a finite number above 0."),
        ({"limit_seconds": nan}, "--limit nan is not a finite number above 0."),
        ({"price_per_hour": 2.0}, "--price is there and --steps is not"),
        ({"limit_seconds": 0.0}, "--limit 0 is not above 0"),
        ({"per_node": -1}, "--per-node -1 is not above 0"),
        ({"also": ("--batch 8", "--batch '128")}, "--also --batch '128 cannot be split into arguments: no closing"),
        ({"also": ("--batch 8\\",)}, "cannot be split into arguments: no escaped character."),
    ],
)
def test_a_request_that_cannot_be_done_is_refused(tmp_path, options, said):
    with pytest.raises(BadRequest) as caught:
        asked(tmp_path, **options)
    assert said in caught.value.sentence


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    with pytest.raises(BadRequest) as caught:
        asked(tmp_path, ranks="x", link="nvlnk4", memory="?", stall_seconds=-1.0, also=("'", '"'))
    for said in ("--ranks", "--link", "--memory", "--stall", "--also '", '--also "'):
        assert said in caught.value.sentence


def test_sizes_and_ranks_are_read(tmp_path):
    request = asked(tmp_path, ranks="64, 2,2", memory="1.5GiB", also=("--batch 8",), link="Measured")
    assert request.ranks == (2, 64)
    assert request.memory_bytes == 1.5 * 2**30
    assert asked(tmp_path, memory="85899345920").memory_bytes == 80 * 2**30
    assert request.also == (("--batch", "8"),)
    assert request.link is None
    assert request.measured_asked


def test_the_verb_gives_json_and_a_page(rehearsed, tmp_path):
    rehearsed(RIGHT)
    result = CliRunner().invoke(
        verbs,
        f"rehearse train.py --ranks 2 --link nvlink4 --no-check --no-advice --json -q --html {tmp_path / 'page.html'}",
        standalone_mode=False,
        catch_exceptions=False,
    )
    answer = json.loads(result.stdout)
    assert answer["at"][0]["ranks"] == 2
    assert result.return_value == 0
    assert "train.py" in (tmp_path / "page.html").read_text()


def test_a_script_that_is_not_there_ends_in_a_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["rehearse", "none.py"])
    assert caught.value.code == 1
    assert "The script none.py does not exist" in capsys.readouterr().err


def test_where_only_one_rank_fits_nothing_is_checked_and_that_is_said(rehearsed, monkeypatch):
    facts = replace(make_machine(isa_cap="AVX512_CORE"), cores=tuple(sorted(os.sched_getaffinity(0)))[:1])
    monkeypatch.setattr(rehearse, "machine_facts", lambda _: facts)
    answer = rehearsed(RIGHT, ranks="4", link="nvlink4", check=True)
    assert answer.checks == ()
    assert any("none was checked here" in guess for guess in answer.guesses)
    assert answer.base is not None
    assert answer.base.measured
    assert answer.at[0].rehearsal.company == 1


def test_a_prediction_without_a_part_of_the_watcher_says_what_was_not_observed(rehearsed):
    fault = (Path(__file__).parents[1] / "launch" / "scripts" / "watcher_fault.py").read_text()
    breaking = fault.partition("for name in")[0] + "break_hook('hooks/amp')\nbreak_hook('hooks/backward')\n"
    answer = rehearsed(breaking + RIGHT, ranks="2")
    (said,) = [warning for warning in answer.warnings if "hooks/backward" in warning]
    assert "was left out, so this was not observed: the time of backward" in said
