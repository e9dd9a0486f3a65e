"""Tests of the command line as a person uses it: true runs of true scripts, and every kind of bad request."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalewise.cli import main
from scalewise.cli.verbs import verbs

SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        model(torch.randn(64 // dist.get_world_size(), 64)).pow(2).mean().backward()
        optimizer.step()
        if len(sys.argv) > 2:
            time.sleep(float(sys.argv[2]))
    dist.destroy_process_group()

main()
"""


@pytest.mark.parametrize(
    ("verb", "said"),
    [("run", "continues"), ("course", "continues"), ("rehearse", "begins anew"), ("doctor", "begins anew")],
)
def test_who_interrupts_is_told_what_the_same_command_does_then(verb, said, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "main", interrupted)
    with pytest.raises(SystemExit) as caught:
        main([verb, "train.py"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"interrupted; the same command {said}\n"


@pytest.mark.processes
def test_the_program_itself_ends_with_the_code_of_its_verb(tmp_path):
    command = [sys.executable, "-m", "scalewise", "show", "nowhere"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert (ended.returncode, ended.stdout) == (1, "") and "nowhere does not exist" in ended.stderr


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_a_script_is_measured_shown_again_and_compared_with_itself(scalewise, folder):
    ran = scalewise("run", "train.py", "--ranks", "1,2", "--repeat", "2", "--json", "--", "40", cwd=folder)
    assert ran.returncode in (0, 3), ran.stderr
    analysis = json.loads(ran.stdout)
    (suite,) = (folder / "runs").iterdir()
    rows = analysis["experiments"][0]["rows"]
    assert [row["ranks"] for row in rows] == [1, 2]
    assert all(row["samples_per_step"] == 64 and row["runs"] == 2 for row in rows)
    assert rows[1]["scaling"]["kind"] == "strong" and rows[1]["scaling"]["base"] == "1 rank"
    assert [one["arm"] for one in analysis["headlines"]["train"]] == ["1 rank", "2 ranks"]

    again = scalewise("run", "train.py", "--ranks", "1,2", "--repeat", "2", "--json", "--", "40", cwd=folder)
    assert json.loads(again.stdout) == analysis, "finished runs are not made again"
    assert again.stderr.count("made before") == 4

    shown = scalewise("show", str(suite), cwd=folder)
    assert shown.stdout.startswith("1 rank: "), "the answer comes first"
    assert "95 % ±" in shown.stdout and "speedup" in shown.stdout

    headed = f"set -o pipefail; {sys.executable} -m scalewise show {suite} | true"
    piped = subprocess.run(["bash", "-c", headed], capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stderr) == (0, ""), "a reader that goes away is no bad request"

    compared = scalewise("compare", str(suite), str(suite), "--json", cwd=folder)
    assert compared.returncode in (0, 3)
    assert {one["answer"] for one in json.loads(compared.stdout)} == {"cannot tell"}


def test_arms_take_turns_and_two_of_their_runs_stand_for_all_repeats(scalewise, folder):
    words = ["run", "train.py", "--turns", "--change", "sleep_before_backward:0.1", "--ranks", "2", "--repeat", "2"]
    ran = scalewise(*words, "--json", "--", "15", cwd=folder)
    assert ran.returncode in (0, 3), ran.stderr
    (delay,) = json.loads(ran.stdout)["experiments"][0]["in_turns"]
    assert delay["method"].startswith("step by step in turns, 2 pairs")
    # Two pairs of runs bound no difference on a busy machine; what is found of the pairs is tested on values.
    assert delay["a"] == "2 ranks" and delay["answer"] in ("slower", "cannot tell")
    (suite,) = (folder / "runs").iterdir()
    assert "step by step in turns" in " ".join(scalewise("show", str(suite), cwd=folder).stdout.split())
    a, b = (suite / "train-ranks2-r0", suite / "train-sleep_before_backward_0.1-ranks2-r0")
    compared = scalewise("compare", str(a), str(b), "--allow", "changes", cwd=folder)
    assert "They took turns step by step, in 2 pairs." in compared.stdout
    alone = scalewise("run", "train.py", "--turns", cwd=folder)
    assert alone.returncode == 1 and "only one arm" in alone.stderr and "--change" in alone.stderr


def test_a_failed_run_ends_in_exit_code_2_with_the_script_s_own_words(scalewise, folder):
    (folder / "broken.py").write_text("import torch\nraise ValueError('my mistake')\n")
    ran = scalewise("run", "broken.py", "--plain", cwd=folder)

    assert ran.returncode == 2
    assert "raised ValueError: my mistake" in ran.stderr
    assert "rank0.stderr.log" in ran.stderr


def test_killing_everything_loses_nothing_and_the_same_command_continues(scalewise, folder):
    words = ["run", "train.py", "--ranks", "1,2", "--repeat", "2", "--json", "--", "20", "0.05"]
    process = subprocess.Popen(
        [sys.executable, "-m", "scalewise", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("runs/*/*/outcome.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # somewhere in the next run
    os.killpg(process.pid, 9)
    process.wait()
    made = {path: path.read_text() for path in folder.glob("runs/*/*/outcome.json")}
    assert made

    continued = scalewise(*words, cwd=folder)
    assert continued.returncode in (0, 3), continued.stderr
    assert continued.stderr.count("made before") == len(made) < 4
    assert all(path.read_text() == text for path, text in made.items())
    assert len(list(folder.glob("runs/*/*-r*/outcome.json"))) == 4


BAD_REQUESTS = [
    (["run", "trian.py"], "trian.py does not exist", "train.py"),
    (["run", "tuor"], "no suite 'tuor'", "'tour'"),
    (["run", "train.py", "--ranks", "1,two"], "'two' is not a whole number", "--ranks 1,2,4"),
    (["run", "train.py", "--ranks", "0"], "0 is not a number of ranks", "1,2,4"),
    (["run", "train.py", "--repeat", "0"], "--repeat 0 measures nothing", "at least 1"),
    (["run", "train.py", "--change", "remove_comunication"], "remove_comunication", "'remove_communication'"),
    (["run", "train.py", "--emulate-link", "1GB/s"], "lacks its rate", "--emulate-link 1ms,1GB/s"),
    (["run", "train.py", "--emulate-link", "1ms,1GB/s", "--change", "emulate_link:1s,1B/s"], "too", "Say it once"),
    (["run", "train.py", "--limit", "-1"], "--limit -1 is not a time", "above 0"),
    (
        ["run", "train.py", "--nodes", "2", "--launcher", "torchrun"],
        "1 rank cannot be spread evenly over 2",
        "multiple",
    ),
    (["run", "train.py", "--ranks", "2", "--nodes", "2", "--launcher", "torchrun"], "is not HOST:PORT", "host 0"),
    (["run", "train.py", "--ranks", "2", "--nodes", "2"], "need a launcher", "--launcher slurm"),
    (["run", "train.py", "--ranks", "3", "--nodes", "2", "--launcher", "slurm"], "cannot be spread evenly", "multiple"),
    (["run", "train.py", "--nodes", "two", "--launcher", "slurm"], "'two'", "--nodes 1,2,4"),
    (["machine", "--nodes", "2"], "needs hosts to measure between", "--measure --launcher slurm"),
    (["doctor", "train.py", "--nodes", "2"], "need a launcher", "--launcher slurm"),
    (["run", "train.py", "--slurm", "time=1"], "a launcher that was not chosen", "--launcher slurm"),
    (["run", "train.py", "--launcher", "slurm", "--slurm", "nodes=2"], "set by scalewise itself", "Use --nodes"),
    (["run", "train.py", "--launcher", "slurm", "--slurm", "partion=gpu"], "no option of sbatch", "'partition'"),
    (["run", "train.py", "--launcher", "slurm", "--slurm", "time=soon"], "no time of Slurm", "time=00:30:00"),
    (["run", "train.py", "--trace", "nowhere/t.json"], "nowhere/t.json does not exist", "Make it first"),
    (["run", "tour", "--trace", "t.json"], "--trace is for a script", "tour.toml"),
    (["run", "tour", "--plain"], "--plain is for a script", "tour.toml"),
    (["run", "tour", "--", "--batch"], "'--batch' is an argument for a script", "tour.toml"),
    (["run", "bad.toml"], "bad.toml has 3 errors", "did you mean 'ranks'?"),
    (["show", "nowhere"], "nowhere", ""),
    (["show", "."], "", ""),
    (["compare", "nowhere", "nowhere"], "nowhere", ""),
    (["run"], "Missing argument", ""),
    (["rnu", "tour"], "No such command 'rnu'", ""),
]


@pytest.mark.parametrize(("words", "said", "hint"), BAD_REQUESTS, ids=[" ".join(words) for words, _, _ in BAD_REQUESTS])
def test_a_bad_request_is_a_sentence_a_hint_and_exit_code_1(scalewise, folder, words, said, hint):
    (folder / "bad.toml").write_text(
        'name = "x"\n[[experiment]]\nname = "a"\nscript = "train.py"\nrank = [1]\ndevice = "gpu"\nrepeat = 0\n'
    )
    ran = scalewise(*words, cwd=folder)

    assert ran.returncode == 1, ran.stderr
    assert ran.stdout == "" and "Traceback" not in ran.stderr
    said_in_one_line = " ".join(ran.stderr.split())
    assert said in said_in_one_line and hint in said_in_one_line


def test_a_trace_is_written_and_the_use_of_the_device_is_told(scalewise, folder):
    ran = scalewise("run", "train.py", "--ranks", "2", "--trace", "t.json", "--json", "--", "20", cwd=folder)

    assert ran.returncode in (0, 3), ran.stderr
    (use,) = json.loads(ran.stdout)["experiments"][0]["utilisation"]
    assert use["flops_per_step"] > 0 and use["peak_flops_per_second"] > 0 and use["families"]
    assert use["mfu"]["value"] is None or 0 < use["mfu"]["value"] <= 1
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert "ui.perfetto.dev" in ran.stderr


def test_a_run_that_was_not_inspected_cannot_be_traced(scalewise, folder):
    scalewise("run", "train.py", "--", "5", cwd=folder)
    (suite,) = (folder / "runs").iterdir()
    ran = scalewise("show", str(suite), "--trace", "t.json", cwd=folder)

    assert ran.returncode == 1 and "no inspected run" in ran.stderr and "Traceback" not in ran.stderr


def test_a_folder_that_cannot_be_written_is_a_sentence(scalewise, folder):
    (folder / "taken").write_text("a file, not a folder")
    ran = scalewise("run", "train.py", "--out", "taken/runs", "--", "3", cwd=folder)

    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "cannot write to" in ran.stderr


def test_the_machine_is_described_as_a_table_and_as_json(scalewise, folder):
    told = scalewise("machine", cwd=folder)
    facts = json.loads(scalewise("machine", "--json", cwd=folder).stdout)

    assert "precisions" in told.stdout
    assert len(facts["cores"]) == len(os.sched_getaffinity(0))
    assert {probe["precision"] for probe in facts["probes"]} == {"float32", "bfloat16", "float16"}


@pytest.mark.parametrize(
    "words",
    [("run", f"{'x' * 300}.py"), ("show", "x" * 300), ("report", "x" * 300), ("doctor", f"{'x' * 300}.py")],
    ids=lambda words: words[0],
)
def test_a_name_that_no_file_can_have_is_a_sentence(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(words)
    told = capsys.readouterr()
    assert caught.value.code == 1
    assert "too long for the name of a file" in told.err.replace("\n", " ") and "Traceback" not in told.err
