"""Whatever is asked of a script that saves and resumes, the user's files stay as they are unless --in-place is said."""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared_servers import CommandLine, SharedServers, command_line, lend_to_jobs

SNAPSHOT = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model, start = torch.nn.Linear(8, 8), 0
if os.path.exists("snapshot.pt"):
    saved = torch.load("snapshot.pt")
    model.load_state_dict(saved["model"])
    start = saved["epoch"]
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(start, int(sys.argv[1])):
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "epoch": epoch + 1}, "snapshot.pt")
dist.destroy_process_group()
"""

CACHE = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    torch.save(torch.randn(16, 8), "cache.pt")
if sys.argv[1] == "barrier":
    time.sleep(1)
    dist.barrier()
while sys.argv[1] == "poll" and not os.path.exists("cache.pt"):
    time.sleep(0.05)
data = torch.load("cache.pt")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(60):
    model(data).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


COPY = {"SCALEWISE_VIEW": "copy"}


def digests(folder: Path) -> dict[str, str]:
    """Of all files but scalewise's own."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "runs" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def worlds(folder: Path) -> dict[str, dict[str, object]]:
    found = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("runs/*/*/outcome.json")}
    return {name: outcome["world"] for name, outcome in found.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, servers: SharedServers) -> Path:
    """A folder whose snapshot was trained for 3 epochs."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.py").write_text(SNAPSHOT)
    (folder / "cache.py").write_text(CACHE)
    with pytest.MonkeyPatch.context() as patched:
        lend_to_jobs(servers, patched)
        command_line("run", "train.py", "--in-place", "--", "3", cwd=folder)
    shutil.rmtree(folder / "runs")
    return folder


@pytest.fixture
def project(trained: Path, tmp_path: Path) -> Path:
    """A copy of it for each test."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_run_doctor_and_rehearse_leave_a_real_checkpoint_alone(scalewise: CommandLine, project: Path) -> None:
    before = digests(project)
    assert set(before) == {"train.py", "cache.py", "snapshot.pt"}
    run = scalewise("run", "train.py", "--ranks", "1,2", "--json", "--", "12", cwd=project)
    told = json.loads(run.stdout)
    assert [one["world"]["files"][0]["change"] for one in told["files"]] == ["changed"] * 2, run.stderr
    assert {one["world"]["read"][0]["path"] for one in told["files"]} == {"snapshot.pt"}
    doctor = scalewise("doctor", "train.py", "--", "12", cwd=project)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    said = " ".join(doctor.stdout.split())
    assert "snapshot.pt changed" in said and "which was there before the run" in said
    words = ("--ranks", "8", "--link", "ethernet-25g", "--no-advice", "--no-check", "--", "20")
    rehearsed = scalewise("rehearse", "train.py", *words, cwd=project)
    assert "damaged" not in rehearsed.stdout and rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert digests(project) == before
    assert not list(project.glob("runs/*/*/.view"))


def test_repeats_in_a_copy_start_alike(scalewise: CommandLine, project: Path) -> None:
    before = digests(project)
    done = scalewise("run", "train.py", "--repeat", "2", "--", "8", cwd=project, env=COPY)
    assert digests(project) == before
    assert [world["view"] for world in worlds(project).values()] == ["copy"] * 2, done.stderr
    assert "private copy" in done.stdout and "read an earlier run's file" not in done.stdout


def test_in_place_a_repeat_that_resumed_from_the_one_before_is_named(scalewise: CommandLine, project: Path) -> None:
    (project / "snapshot.pt").unlink()
    done = scalewise("run", "train.py", "--repeat", "2", "--in-place", "--", "6", cwd=project)
    assert (project / "snapshot.pt").is_file() and done.returncode == 2
    assert worlds(project)["train-ranks1-r1"]["read"] == [{"path": "snapshot.pt", "written_by": "train-ranks1-r0"}]
    said = " ".join((done.stdout + done.stderr).split())
    assert "no optimizer step was seen; the script read snapshot.pt, which train-ranks1-r0 had written" in said
    assert "DOUBT read an earlier run's file" in said and "leave --in-place out" in said


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("barrier", "rank 1 of 4 reads cache.pt, which rank 0 writes first"),
        ("poll", "waits for another to write cache.pt"),
    ],
)
def test_ranks_that_need_one_anothers_files_are_not_rehearsed_and_told_why(
    scalewise: CommandLine, how: str, said: str, project: Path
) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one core rehearses rank 0 alone")
    words = ("rehearse", "cache.py", "--ranks", "4", "--stall", "3", "--no-advice", "--no-check", "--", how)
    done = scalewise(*words, cwd=project)
    assert done.returncode == 1 and said in done.stderr, done.stdout + done.stderr
    assert "--in-place" in done.stderr and not (project / "cache.pt").exists()


def test_who_may_not_mount_gets_an_overlay_by_a_user_namespace_or_a_copy(project: Path) -> None:
    before = digests(project)

    def without_mounting() -> None:
        ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)  # an administrator's right to mount; nobody else has it

    command = [sys.executable, "-m", "scalewise", "run", "train.py", "--ranks", "2", "--", "6"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=280, check=False, preexec_fn=without_mounting
    )
    assert [world["view"] in ("overlay", "copy") for world in worlds(project).values()] == [True], done.stderr
    assert digests(project) == before


def test_what_a_killed_scalewise_left_is_removed_by_the_next(scalewise: CommandLine, project: Path) -> None:
    before = digests(project)
    words = ("run", "train.py", "--", "6", "1")
    command = [sys.executable, "-m", "scalewise", *words]
    environment = os.environ | COPY
    with subprocess.Popen(command, cwd=project, env=environment, stderr=subprocess.DEVNULL) as killed:
        end = time.monotonic() + 60
        while not list(project.glob("runs/*/*/.view/all/snapshot.pt")) and time.monotonic() < end:
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
    assert len(list(project.glob("runs/*/*/.view"))) == 1
    done = scalewise(*words, cwd=project, env=COPY)
    assert "1 file (" in done.stdout, done.stderr
    assert not list(project.glob("runs/*/*/.view")) and digests(project) == before
