"""Makes a run of a course script with the real launcher and reads back what the watcher saw of it."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalewise.launch.forkserver import Servers
from scalewise.launch.local import launcher_of
from scalewise.launch.supervise import run_one
from scalewise.plan.find import course_folder
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder
from scalewise.records.load import Run, load
from scalewise.records.machine import MachineFacts
from scalewise.records.outcome import Outcome
from scalewise.records.spec import RunSpec

SCRIPTS = course_folder()
SMALL = {"DIM": "64", "DEPTH": "2", "BATCH": "64", "STEPS": "8", "LR": "1"}
ALONE = ("practical5_dp", "practical8_model_parallel", "homework3_model_parallel")  # plain processes
# Some CPUs advertise instructions that kill the process; tests of numbers avoid them.
SAFE_ISA = "AVX512_CORE"


@dataclass(frozen=True)
class Made:
    """A run that is over."""

    run: Run
    outcome: Outcome
    stdout: str
    stderr: tuple[str, ...]

    @property
    def losses(self) -> list[float | None]:
        """Of rank 0, as the watcher saw them."""
        return [step.loss for step in self.run.ranks[0].steps]


@dataclass
class Course:
    """Runs by script, ranks and constants."""

    folder: Path
    servers: Servers
    made: dict[object, Made] = field(default_factory=dict)

    def run(self, script: str, ranks: int | None = None, devices: int = 0, **constants: object) -> Made:
        """A short run of a small model, unless the constants say otherwise; `devices` are stand-ins."""
        ranks = (0 if script in ALONE else 2) if ranks is None else ranks
        env = SMALL | {name: str(value) for name, value in constants.items()}
        key = (script, ranks, devices, tuple(sorted(env.items())))
        if key not in self.made:
            self.made[key] = self._make(SCRIPTS / f"{script}.py", ranks, devices, env)
        return self.made[key]

    def _make(self, script: Path, ranks: int, devices: int, env: dict[str, str]) -> Made:
        name = f"run{len(self.made)}"
        folder = RunFolder(self.folder / name)
        folder.path.mkdir()
        spec = replace(_spec(name, script, ranks, env, self.folder), devices=devices, stand_ins=devices > 0)
        write_json(folder.spec, spec)
        outcome = run_one(spec, folder, launcher_of(spec, _machine(), self.servers), lambda _, __: None, lambda: False)
        write_json(folder.outcome, outcome)
        stderr = tuple(folder.stderr(rank).read_text() for rank in range(spec.ranks))
        return Made(load(folder.path).runs[0], outcome, folder.stdout(0).read_text(), stderr)


def _spec(name: str, script: Path, ranks: int, env: dict[str, str], cwd: Path) -> RunSpec:
    return RunSpec(
        name=name,
        suite="course",
        experiment="tests",
        script=str(script),
        args=(),
        cwd=str(cwd),
        mode="torchrun" if ranks else "python",
        launcher="fork",
        ranks=max(1, ranks),
        device="cpu",
        shares=(),
        threads_per_rank=1,
        oversubscribed=False,
        repeat=0,
        limit_seconds=60.0,
        stall_seconds=30.0,
        env=env,
    )


def _machine() -> MachineFacts:
    return MachineFacts(
        host="here",
        system="Linux",
        cpu_model="some",
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=1 << 34,
        governor=None,
        virtual=False,
        isa_advertised=(),
        isa_cap=SAFE_ISA,
        probes=(),
        gpus=(),
    )
