"""Scripts written for GPUs run on CPU ranks, and compute what the same scripts compute when edited for the CPU."""

from pathlib import Path

import pytest
from watch_runner import Ran, Runner

from scalewise.records.examination import DeviceUseRow
from scalewise.records.load import read_rows
from scalewise.records.rows import TroubleRow
from scalewise.records.spec import Examined

SCRIPTS = Path(__file__).parent / "scripts"

# By hand what redirection does from outside: each line of the script, and the line of a script for CPUs.
GPT_LIKE = {
    'backend = "nccl"': 'backend = "gloo"',
    'device = "cuda"': 'device = "cpu"',
    '    device = f"cuda:{ddp_local_rank}"': '    device = "cpu"',
    "    torch.cuda.set_device(device)": "    pass",
    'if device_type == "cpu" else torch.amp': "if not device_type else torch.amp",
    '(dtype == "float16" and device_type == "cuda")': 'dtype == "float16"',
    'fused=device_type == "cuda"': "fused=True",
    "model = torch.compile(model)": "pass",
    "device_ids=[ddp_local_rank]": "",
}
CUDA_AMP = {
    'assert torch.cuda.is_available(), "needs a GPU"': "",
    '"cpu:gloo,cuda:nccl"': '"gloo"',
    "assert torch.cuda.device_count() > local_rank": "",
    "torch.cuda.set_device(local_rank)": "",
    "torch.cuda.manual_seed_all(0)": "",
    "nn.SyncBatchNorm.convert_sync_batchnorm(": "(",
    "nn.Linear(16, 3))).cuda()": "nn.Linear(16, 3)))",
    "(model, [local_rank], local_rank)": "(model)",
    "pin_memory=True": "",
    "nn.CrossEntropyLoss().cuda(local_rank)": "nn.CrossEntropyLoss()",
    "torch.cuda.amp.GradScaler()": 'torch.amp.GradScaler("cpu")',
    'torch.zeros(1, device="cuda")': "torch.zeros(1)",
    ".cuda(non_blocking=True)": "",
    ".cuda(local_rank, non_blocking=True)": "",
    'assert images.device == torch.device("cuda", local_rank) and images.get_device() == local_rank': "",
    "torch.cuda.amp.autocast()": 'torch.autocast("cpu", torch.float16)',
    "dist.all_reduce(shown, op=dist.ReduceOp.AVG)": "dist.all_reduce(shown); shown /= 2",
    "torch.cuda.max_memory_allocated() >= 0": "True",
    "device_ids=[local_rank]": "",
    ', map_location={"cuda:0": f"cuda:{local_rank}"}': "",
}


def edited(name: str, changes: dict[str, str], folder: Path) -> str:
    """The script with its lines for GPUs replaced."""
    text = (SCRIPTS / name).read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert "nccl" not in text
    (folder / name).write_text(text)
    return str(folder / name)


def device_use(ran: Ran, rank: int = 0) -> DeviceUseRow:
    """The last that was told of the devices."""
    rows = read_rows(ran.out.examination(rank))
    return [row for row in rows.rows if isinstance(row, DeviceUseRow)][-1]


@pytest.mark.parametrize(("name", "changes"), [("gpt_like.py", GPT_LIKE), ("cuda_amp.py", CUDA_AMP)])
def test_a_script_for_gpus_computes_what_it_does_when_edited_for_the_cpu(
    runner: Runner, tmp_path: Path, name: str, changes: dict[str, str]
) -> None:
    redirected = runner.watched(str(SCRIPTS / name), ranks=2, on_cpu=True, kind=Examined())
    by_hand = runner.raw(edited(name, changes, tmp_path), ranks=2)
    assert redirected.codes == by_hand.codes == (0, 0), redirected.stderr
    assert redirected.stdout == by_hand.stdout
    assert redirected.stdout[0].count("\n") >= 2
    use = device_use(redirected)
    assert {"nccl", "cuda:0"} <= set(use.asked) and use.got == "cpu"
    assert not [row for row in redirected.rows().rows if isinstance(row, TroubleRow)]


def test_events_streams_and_moves_of_one_process(runner: Runner) -> None:
    ran = runner.watched(str(SCRIPTS / "events.py"), on_cpu=True, kind=Examined())
    assert ran.codes == (0,), ran.stderr
    lines = ran.stdout[0].splitlines()
    assert lines[0] == lines[-1].replace("True", "True True") == "True True"
    assert lines[1].endswith("device 0.0000") and not lines[1].startswith("host 0.0000"), "a move is a copy"
    use = device_use(ran)
    assert use.redirected["torch.cuda.Event"] == 2 and use.redirected["torch.cuda.synchronize"] == 5


def test_sharded_models_and_what_only_nccl_knows(runner: Runner) -> None:
    ran = runner.watched(str(SCRIPTS / "sharded.py"), ranks=2, on_cpu=True, kind=Examined())
    assert ran.codes == (0, 0), ran.stderr
    assert ran.stdout == ("fully_shard True\nFSDP True\nnccl [0.5, 0.5] cuda\n",) * 2


def test_every_tensor_is_where_the_script_has_put_it(runner: Runner) -> None:
    ran = runner.watched(str(SCRIPTS / "two_devices.py"), on_cpu=True, kind=Examined())
    assert ran.codes == (0,), ran.stderr
    assert ran.stdout[0].splitlines() == [
        "parameters cuda:0 cuda:1 cuda:1",
        "copies on the host are left alone True",
        "gradient cuda:0 True [2.0, 2.0, 2.0]",
        "thread cuda:0 copy cuda:0",
        "moves 1 cuda:0 cpu cuda:0",
        "made cuda:0 cuda:0 cuda:0 cuda:0 cuda:0",
        "autocast True torch.bfloat16",
    ]
    assert "torch.nn.DataParallel" in device_use(ran).unseen


def test_memory_figures_and_compiled_code_are_said_to_be_unseen(runner: Runner) -> None:
    script = SCRIPTS / "asks.py"
    ran = runner.watched(str(script), on_cpu=True, kind=Examined())
    assert ran.codes == (0,), ran.stderr
    assert {"torch.cuda.max_memory_allocated", "torch.compile", "torch.cuda.CUDAGraph"} <= set(device_use(ran).unseen)
    assert ran.stdout[0] == "True 2 0 cuda:1 nothing stands in\n"


def test_without_redirection_nothing_is_told_and_nothing_believed(runner: Runner) -> None:
    ran = runner.watched("plain.py", kind=Examined())
    rows = read_rows(ran.out.examination(0)).rows
    assert not [row for row in rows if isinstance(row, DeviceUseRow)]


def test_stand_in_devices_copy_and_count_memory_as_gpus_would(runner: Runner) -> None:
    ran = runner.watched(str(SCRIPTS / "stand_ins.py"), devices=3, stand_ins=True)
    assert ran.codes == (0,), ran.stderr
    assert ran.stdout[0].splitlines() == [
        "visible False",
        "there True 3 0",
        "held [1.0, 1.0, 1.0]",
        "moved cuda:1 True True True",
        "lie cuda:1 cuda:2 cuda:0 cuda:1 cuda:2",
        "peaks [2.0, 2.0, 2.0]",
        "after [1.0, 1.0, 1.0]",
        "reset [2.0, 1.0, 2.0]",
        "current 2 cuda:2",
        "threads 1 [0]",
        "loaded cuda:2",
    ]


@pytest.mark.parametrize("devices", [2, 3])
def test_data_parallel_over_stand_ins_gives_the_gradients_of_the_whole_batch(runner: Runner, devices: int) -> None:
    ran = runner.watched(str(SCRIPTS / "replicas.py"), devices=devices, stand_ins=True)
    assert ran.codes == (0,), ran.stderr
    assert ran.stdout[0].splitlines() == [
        f"devices {list(range(devices))} {devices}",
        f"home cuda:0 (7, 3) ({devices},)",
        "gradients True",
        "no gradient False",
        "two of them 7",
        "refused True",
    ]
