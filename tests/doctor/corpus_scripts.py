"""The doctor's corpus: scripts with a known mistake, the same fixed, and right ones that look suspicious.

`python tests/doctor/corpus_scripts.py [NAME ...] [--fixed] [--notes] [--log]` prints what the doctor finds in them.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Diagnosis
from scalewise.doctor.run_checks import diagnosis_of
from scalewise.launch.forkserver import Servers
from scalewise.launch.local import launcher_of
from scalewise.launch.supervise import run_one
from scalewise.launch.this_machine import usable_cores
from scalewise.plan.seating import seats
from scalewise.records.codec import write_json
from scalewise.records.folder import RunFolder
from scalewise.records.load import load
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Examined as ExaminedKind
from scalewise.records.spec import Mode, RunSpec

CORPUS = Path(__file__).parent / "corpus"
CUDA_CORPUS = Path(__file__).parent / "corpus_cuda"  # scripts that show their mistake on a GPU alone
KINDS = ("broken", "correct")
LIMIT_SECONDS = 60.0
KEYS = ("expect", "also", "style", "ranks", "mode", "on", "stall", "threads", "steps", "env", "args")
# Some CPUs advertise bfloat16 instructions that kill the process.
SAFE_ISA = "AVX512_CORE"

_HEADER = re.compile(r"^# doctor:(.*)$", re.MULTILINE)
_WRONG = re.compile(r"\s# wrong\b")
_MENDING = re.compile(r"^(\s*)#\s?\+ ?")  # formatters write `# +` for `#+`


@dataclass(frozen=True)
class Script:
    """A script of the corpus and what its header says of it."""

    path: Path
    expect: frozenset[str]  # checks that must find something
    also: frozenset[str]  # checks that may: true consequences of the mistake
    style: str
    ranks: int
    mode: Mode
    on_cpu: bool
    stall_seconds: float
    threads: int | None  # per rank; None: left to torch
    enough_steps: int  # the run is ended after so many; 0: it ends by itself
    env: dict[str, str]
    args: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return self.path.stem

    @property
    def text(self) -> str:
        """As it is."""
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Examined:
    """A script that was run, and what the doctor made of it."""

    script: Script
    case: Case
    diagnosis: Diagnosis
    seconds: float

    @property
    def found(self) -> frozenset[str]:
        """The checks that found something."""
        return frozenset(finding.check for finding in self.diagnosis.findings)

    @property
    def missed(self) -> frozenset[str]:
        """What the header promises and no check found."""
        return self.script.expect - self.found

    @property
    def surplus(self) -> frozenset[str]:
        """What was found and is not there."""
        return self.found - self.script.expect - self.script.also

    @property
    def crashed(self) -> tuple[str, ...]:
        """The checks that failed by themselves, with their errors."""
        return tuple(f"{one.check}: {one.reason}" for one in self.diagnosis.unchecked if "itself failed" in one.reason)

    def told(self, everything: bool = False) -> str:
        """Outcome and findings in lines, for a failing test; why checks abstained: that were expected, or all."""
        outcome = self.case.run.outcome
        lines = [f"{self.script.name}: {outcome.kind if outcome else 'no outcome'}, {self.seconds:.2f} s"]
        for one in self.diagnosis.findings:
            where = f"{Path(one.where.file).name}:{one.where.line} {one.where.text}" if one.where else "no line"
            lines += [f"  {one.severity} {one.proof} {one.check}: {one.sentence}", f"    at {where}"]
            lines += [f"    - {fact}" for fact in one.evidence]
        for one in self.diagnosis.unchecked:
            if everything or one.check in self.missed or "itself failed" in one.reason:
                lines.append(f"  not checked: {one.check}: {one.reason}")
        troubles = {f"{row.where}: {row.error}" for rank in self.case.ranks for row in rank.record.trouble}
        return "\n".join([*lines, *(f"  trouble: {one}" for one in sorted(troubles))])


def read_script(path: Path) -> Script:
    """The script with its header; a header that cannot be read is an error of its author's."""
    found = _HEADER.search(path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path} has no line `# doctor: expect=...`")
    options, _, args = (found[1] + " ").partition(" args=")
    values = dict(word.split("=", 1) for word in options.split())
    unknown = set(values) - set(KEYS)
    if unknown:
        raise ValueError(f"{path}: unknown {sorted(unknown)} in its header; there are {', '.join(KEYS)}")
    mode: Mode = "python" if values.get("mode") == "python" else "torchrun"
    threads = values.get("threads", "1")
    return Script(
        path=path,
        expect=_names(values.get("expect", "")),
        also=_names(values.get("also", "")),
        style=values.get("style", ""),
        ranks=1 if mode == "python" else int(values.get("ranks", "2")),
        mode=mode,
        on_cpu=values.get("on") == "cpu",
        stall_seconds=float(values.get("stall", "8")),
        threads=None if threads == "auto" else int(threads),
        enough_steps=int(values.get("steps", "0")),
        env=dict(pair.split("=", 1) for pair in values.get("env", "").split(",") if pair),
        args=tuple(args.split()),
    )


def scripts(kind: str, corpus: Path = CORPUS) -> tuple[Script, ...]:
    """The scripts of a folder of the corpus (broken, correct), by name."""
    return tuple(read_script(path) for path in sorted((corpus / kind).glob("*.py")))


def has_fix(text: str) -> bool:
    """Whether the file says how it is fixed."""
    return fixed_text(text) != text


def fixed_text(text: str) -> str:
    """The corrected script: lines marked `# wrong` are dropped, those that begin with `#+` take their place."""
    kept = (line for line in text.splitlines() if not _WRONG.search(line))
    return "\n".join(_MENDING.sub(r"\1", line) for line in kept) + "\n"


# The checks that rest on times alone may take a busy machine for a mistake of the script. What they find and is not
# there is looked at once more; what is there must be found at the first look. Of 279 first looks on two cores that 20
# processes shared, one was wrong (0.4 %). A process that tests makes 135 or more of them: if they are independent, more
# than three are wrong in 0.2 % of all sessions at that rate, and in nine of ten at a rate of 5 %. Load that lasts makes
# them depend on one another: beside 24 processes one script was once called a straggler at both looks.
TIMED = frozenset({"input-bound", "straggler"})
MOST_WRONG_LOOKS = 3


class Clinic:
    """Runs scripts of the corpus under examination, all from the same fork servers."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.folder = folder
        self.servers = servers
        self.wrong_looks: list[str] = []
        self._runs = 0

    def examine_calmly(self, script: Script, *, fixed: bool = False) -> Examined:
        """Looks once more where times alone have found something that is not there."""
        examined = self.examine(script, fixed=fixed)
        not_there = examined.found if fixed else examined.surplus
        if not not_there or not not_there <= TIMED:
            return examined
        self.wrong_looks.append(examined.told())
        return self.examine(script, fixed=fixed)

    def examine(self, script: Script, *, fixed: bool = False, **changes: object) -> Examined:
        """What the doctor says to a script, or to its fixed version; `changes` are of the run's spec."""
        began = time.monotonic()
        self._runs += 1
        folder = RunFolder(self.folder / f"{self._runs}-{script.name}{'-mended' if fixed else ''}")
        folder.path.mkdir(parents=True)
        spec = self.spec(script, fixed, **changes)
        write_json(folder.spec, spec)
        launcher = launcher_of(spec, machine_here(), self.servers)
        write_json(folder.outcome, run_one(spec, folder, launcher, lambda pulses, seconds: None, lambda: False))
        (run,) = load(folder.path).runs
        case = case_of(run)
        return Examined(script, case, diagnosis_of(case), time.monotonic() - began)

    def spec(self, script: Script, fixed: bool, **changes: object) -> RunSpec:
        """How the script, or its fixed version, is run."""
        # One working folder for all, as each folder would need a server of its own; emptied before every run.
        cwd = self.folder / "cwd"
        cwd.mkdir(parents=True, exist_ok=True)
        for left in cwd.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        values: dict[str, object] = {
            "name": script.name,
            "suite": "corpus",
            "experiment": script.name,
            "script": str(self._file(script) if fixed else script.path.resolve()),
            "args": script.args,
            "cwd": str(cwd),
            "mode": script.mode,
            "launcher": "fork",
            "ranks": script.ranks,
            "device": "cpu",
            "shares": seats(usable_cores(), script.ranks, (script.ranks,)).shares,
            "threads_per_rank": script.threads,
            "oversubscribed": False,
            "repeat": 0,
            "limit_seconds": LIMIT_SECONDS,
            "stall_seconds": script.stall_seconds,
            "env": script.env,
            "kind": ExaminedKind(),
            "on_cpu": script.on_cpu,
            "enough_steps": script.enough_steps,
            **changes,
        }
        return RunSpec(**values)  # type: ignore[arg-type]

    def _file(self, script: Script) -> Path:
        path = self.folder / "mended" / script.path.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(fixed_text(script.text), encoding="utf-8")
        return path


@contextlib.contextmanager
def clinic(folder: Path | None = None, servers: Servers | None = None) -> Iterator[Clinic]:
    """A clinic with servers and a temporary folder of its own, unless they are given."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalewise-corpus-")))
        opened = Clinic(place, servers or stack.enter_context(Servers()))
        yield opened
        told = "\n".join(opened.wrong_looks)
        assert len(opened.wrong_looks) <= MOST_WRONG_LOOKS, f"checks that rest on times are wrong too often:\n{told}"


def machine_here() -> MachineFacts:
    """This machine's cores; the rest is made up."""
    return MachineFacts(
        host="here",
        system="Linux",
        cpu_model="some",
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=1 << 30,
        governor=None,
        virtual=False,
        isa_advertised=(),
        isa_cap=SAFE_ISA,
        probes=(),
        gpus=(),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)


def _print(examined: Examined, args: argparse.Namespace) -> None:
    print(examined.told(args.unchecked))
    if examined.missed or examined.surplus:
        print(f"  MISSED {sorted(examined.missed)}  SURPLUS {sorted(examined.surplus)}")
    if args.notes and examined.case.ranks:
        first = examined.case.first
        for row in (*first.record.examination, *first.notes):
            print("   ", row)
    if args.log:
        for path in sorted(examined.case.run.folder.glob("*.log")):
            print(f"--- {path.name}", path.read_text(errors="replace")[-2000:], sep="\n")


def main() -> None:
    """For the author of a check or of a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scripts of the corpus, or part of their names; default: all")
    parser.add_argument("--fixed", action="store_true", help="the fixed version, too")
    parser.add_argument("--notes", action="store_true", help="all rows and notes of rank 0")
    parser.add_argument("--unchecked", action="store_true", help="why checks abstained")
    parser.add_argument("--log", action="store_true", help="what the script printed")
    args = parser.parse_args()
    known = tuple(one for corpus in (CORPUS, CUDA_CORPUS) for kind in KINDS for one in scripts(kind, corpus))
    asked = [one for one in known if not args.names or any(part in one.name for part in args.names)]
    if not asked:
        sys.exit(f"no script of the corpus is called like {', '.join(args.names)}")
    with clinic() as opened:
        for script in asked:
            _print(opened.examine(script), args)
            if args.fixed and has_fix(script.text):
                print("fixed:")
                _print(opened.examine(script, fixed=True), args)


if __name__ == "__main__":
    main()
