"""The list of what the watcher replaces in torch is true: torch is compared before and after it has come."""

import functools
import importlib
import itertools
import json
from pathlib import Path

import pytest
import torch

import scalewise
from scalewise.records.spec import Change, Examined, Inspected, Rehearsed
from scalewise.records.wrapped import CONCERNS, WRAPPED, left_out_with
from scalewise.watch.examination import CONCERNS as EXAMINED
from scalewise.watch.examination import OF_DISTRIBUTED
from scalewise.watch.seams import ORDER

REMEMBER = "import torch_state; torch_state.remember()"
CHANGES: dict[str, dict[str, object]] = {
    "across_kinks": {},
    "average_gradients": {},
    "cached_input": {},
    "clip_by_whole_norm": {"limit": 1.0},
    "compiled_model": {},
    "ddp_option": {"bucket_cap_mb": 1},
    "debugging_off": {},
    "divide_loss": {"by": 2},
    "dynamic_shapes": {},
    "eval_mode": {},
    "fixed_seeds": {"seed": 1},
    "fused_attention": {},
    "fused_optimizer": {},
    "joint_batch_norm": {},
    "kept_copies": {},
    "no_dropout": {},
    "no_housekeeping": {},
    "no_scaler": {},
    "no_sync": {"window": 2},
    "other_rounding": {"parts": 2},
    "pinned_memory": {},
    "same_split": {},
    "same_start": {},
    "scale_gradients": {"by": 2},
    "scale_rate": {"by": "2"},
    "scaler": {},
    "seed_by_rank": {},
    "seldom_read": {"lines": "train.py:1"},
    "set_epoch": {},
    "shard_data": {},
    "start_of_ranks": {"folder": "none", "ranks": 2},
    "stop_after": {"steps": 1000},
    "sync_batch_norm": {},
    "sync_last": {"window": 2},
    "tf32": {},
    "threads": {"count": 1},
    "tuned_convolutions": {},
    "unscale_before_clip": {},
    "weigh_ranks": {},
    "with_ddp": {},
    "workers": {"count": 0},
    "remove_communication": {},
}
# Wrappers that are no seams: they lie around what ends or warns the process, clocks that are no functions of Python,
# and classes and private parts of torch for which the stand-in for a GPU has others.
BY_HAND = {
    "crash", "warned_lines", "moved_folders", "examination/around_the_loop", "examination/clocks",
    "redirect/devices", "redirect/streams", "redirect/tensors", "redirect/wrappers",
    # What a comparison of ranks is made of came later, and is still to move.
    "parity/sources",
}  # fmt: skip
# In `emulation`; in the recorder; in `parity/sources`; in `strategy/`, of which one at a time can be applied.
ELSEWHERE = {
    "emulate_link", "slow_rank", "sleep_before_backward", "given_of_all_ranks",
    "with_fsdp2", "with_pipeline", "with_tensor_parallel", "with_zero1",
}  # fmt: skip
RUNS: dict[str, dict[str, object]] = {
    "plain": {},
    "timed": {"ranks": 2},
    "private": {"ranks": 2, "folder_use": "private"},
    "inspected": {"ranks": 2, "kind": Inspected()},
    "examined": {"ranks": 2, "kind": Examined()},
    "rehearsed": {"ranks": 2, "kind": Rehearsed(4, 0, 4)},
    "redirected": {"ranks": 2, "on_cpu": True},
    "emulated": {"ranks": 2, "changes": (Change("emulate_link", {"seconds": 0.001, "bytes_per_second": 1e9}),)},
    "replayed": {
        "ranks": 2,
        "kind": Examined(show_gradients=True),
        "enough_steps": 1000,
        "changes": tuple(Change(name, settings) for name, settings in CHANGES.items()),  # type: ignore[arg-type]
    },
    "compared": {"ranks": 2, "kind": Examined(compared_steps=3, keeps_given=True)},
}


def shown(runner, **how) -> dict[str, dict[str, list]]:
    """What the script finds of torch that is not as it was."""
    ran = runner.watched("show_wrapped.py", sabotage=REMEMBER, **how)
    assert ran.codes[0] == 0, ran.stderr[0]
    return json.loads(ran.stdout[0])


def changed(runner, **how) -> set[tuple[str, str]]:
    """(file of the watcher, name in torch) for all that is not what it was."""
    return names_of(shown(runner, **how))


def names_of(found: dict[str, dict[str, list]]) -> set[tuple[str, str]]:
    return {(file, name) for name, files in found["changes"].items() for file in files}


@pytest.fixture(scope="module")
def each_kind(runner):
    """What each kind of run finds, each run once."""
    return functools.cache(lambda kind: shown(runner, **RUNS[kind]))


def listed(kind: str) -> set[tuple[str, str]]:
    """The same by the list, as far as this torch and this machine go."""
    kinds = ("every", kind, *(("examined",) if kind in ("replayed", "compared") else ()))  # they are examined as well
    concerns = [one for one in WRAPPED if one.runs in kinds and one.name not in _absent(kind)]
    hidden = {("crash", "sys.excepthook")} if "examined" in kinds else set()  # beneath the doctor's own
    return {(one.name, name) for one in concerns for name in one.wraps if _exists(name)} - hidden


def _absent(kind: str) -> set[str]:
    """The concerns that have nothing to do: without CUDA in torch, without a GPU, or because one is stood in for."""
    no_cuda = torch.version.cuda is None and torch.version.hip is None
    absent = {"examination/device_traffic", "examination/device_work", "hooks/memory"} if no_cuda else set()
    if kind == "redirected":
        absent.add("hooks/memory")
    return absent if torch.cuda.is_available() else {*absent, "rehearsal/streams"}


def test_with_cuda_in_torch_more_is_listed_but_not_for_a_gpu_that_is_stood_in_for(monkeypatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    assert {"hooks/memory", "examination/device_traffic", "examination/device_work"} <= {
        file for file, _ in listed("examined")
    }
    assert "hooks/memory" not in {file for file, _ in listed("redirected")}
    assert "rehearsal/streams" in {file for file, _ in listed("rehearsed")}


def _exists(name: str) -> bool:
    """Whether this version of torch has it."""
    parts = name.partition(" ")[0].split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found is not None
    return False


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_listed_is_replaced_and_nothing_else(each_kind, kind) -> None:
    found, expected = names_of(each_kind(kind)), listed(kind)

    assert found - expected == set(), "replaced, but not in records/wrapped.py"
    assert expected - found == set(), "in records/wrapped.py, but not replaced"


@pytest.mark.parametrize("kind", RUNS)
def test_a_call_has_one_seam_and_those_who_subscribed_are_in_the_declared_order(each_kind, kind) -> None:
    """One beneath the wrapper of an ordinary hook and one around it, where there is such a hook."""
    by_hand, crowded, disordered = set(), {}, {}
    for name, around in each_kind(kind)["layers"].items():
        by_hand |= {one for one in around if isinstance(one, str)}
        seams = [isinstance(one, list) for one in around]
        if any(both == (True, True) for both in itertools.pairwise(seams)) or sum(seams) > 2:
            crowded[name] = around
        flat = [one for each in around for one in (each if isinstance(each, list) else [each])]
        places = [ORDER.index(one.partition("/")[0]) for one in flat if one not in BY_HAND]
        if places != sorted(places, reverse=True):
            disordered[name] = around
    assert crowded == {} and disordered == {}
    assert {one for one in by_hand if not one.startswith("hooks/")} <= BY_HAND


def test_reads_of_a_device_are_watched_where_there_may_be_one(runner) -> None:
    """Only with a GPU, or with one stood in for; then the methods of tensors are wrapped, too."""
    found = changed(runner, ranks=2, on_cpu=True, kind=Examined())

    traffic = {name for file, name in found if file == "examination/device_traffic"}
    assert traffic == set(CONCERNS["examination/device_traffic"].wraps)


@pytest.mark.parametrize("kind", ["timed", "inspected", "examined"])
def test_every_concern_that_can_be_left_out_is_left_out(runner, kind) -> None:
    without = {name: "it failed" for name in CONCERNS if left_out_with(name) == name}
    found = changed(runner, **RUNS[kind], without_hooks=without)

    assert found <= {(file, name) for file, name in listed(kind) if not CONCERNS[file].removable} | {
        ("crash", "sys.excepthook")
    }


def test_one_concern_is_left_out_alone(runner) -> None:
    found = changed(runner, ranks=2, without_hooks={"hooks/backward": "it failed"})

    assert found == {(file, name) for file, name in listed("timed") if file != "hooks/backward"}


def test_each_concern_names_a_file_of_the_watcher_and_says_what_is_lost_without_it() -> None:
    watch = Path(scalewise.__file__).parent / "watch"
    assert [name for name in CONCERNS if not (watch / f"{name}.py").is_file()] == []
    assert [one.name for one in WRAPPED if one.part_of and one.part_of not in CONCERNS] == []
    assert len(CONCERNS) == len(WRAPPED)


def test_every_change_is_listed_and_compared() -> None:
    files = {path.stem for path in (Path(scalewise.__file__).parent / "watch" / "changes").glob("*.py")} - {"__init__"}

    assert files - ELSEWHERE == set(CHANGES)
    listed = {name.removeprefix("changes/") for name in CONCERNS if name.startswith("changes/")}
    assert files - ELSEWHERE == listed - {"__init__"}


def test_every_concern_of_an_examination_is_listed() -> None:
    """What is not listed cannot be left out where it has failed."""
    assert {f"examination/{name}" for name in (*EXAMINED, *OF_DISTRIBUTED)} - set(CONCERNS) == set()
