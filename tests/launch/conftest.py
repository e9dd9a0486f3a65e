"""Runs of small scripts, made by the real launchers from one fork server for all tests."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from launch_runner import SCRIPTS, Launch, Launched

from scalewise.launch.forkserver import Servers
from scalewise.launch.local import Place, run_one
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import RunSpec


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers() as started:
        yield started


@pytest.fixture(scope="session")
def machine() -> MachineFacts:
    return MachineFacts(
        host="here",
        system="Linux",
        cpu_model="some",
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=1 << 30,
        governor=None,
        virtual=False,
        isa_advertised=(),
        isa_cap="",
        probes=(),
        gpus=(),
    )


@pytest.fixture
def make_spec() -> Callable[..., RunSpec]:
    def make(script: str, *args: str, **changes: Any) -> RunSpec:
        spec = RunSpec(
            name="run",
            suite="suite",
            experiment="experiment",
            script=str(SCRIPTS / script),
            args=args,
            cwd=str(SCRIPTS),
            mode="torchrun",
            launcher="fork",
            ranks=2,
            device="cpu",
            shares=(),
            threads_per_rank=1,
            oversubscribed=False,
            repeat=0,
            limit_seconds=60.0,
            stall_seconds=30.0,
        )
        return dataclasses.replace(spec, **changes)

    return make


@pytest.fixture
def launch(servers: Servers, machine: MachineFacts, make_spec: Callable[..., RunSpec], tmp_path: Path) -> Launch:
    """Makes one run and checks that nothing of it is left."""

    def make(script: str, *args: str, **changes: Any) -> Launched:
        spec = make_spec(script, *args, **changes)
        folder = RunFolder(tmp_path / f"{len(list(tmp_path.iterdir()))}")
        folder.path.mkdir()
        write_json(folder.spec, spec)
        heard: list[float] = []
        outcome = run_one(
            spec, Place(folder, folder.spec, machine, servers), lambda _, now: heard.append(now), lambda: False
        )
        left = [other for child in psutil.Process().children() for other in child.children(recursive=True)]
        assert left == []
        return Launched(outcome, folder)

    return make
