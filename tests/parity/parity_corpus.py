"""The corpus of `parity`: scripts whose ranks do not compute what one computes, the same mended, and right ones.

`python tests/parity/parity_corpus.py [NAME ...] [--mended]` prints what `parity` says of them.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalewise.agreement.parity_answer import ParityAnswer
from scalewise.jobs.measure import Here
from scalewise.jobs.parity import parity_here
from scalewise.jobs.parity_runs import ParityRequest
from scalewise.jobs.reporter import SILENT
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts

CORPUS = Path(__file__).parent / "corpus"
_HEADER = re.compile(r"^# parity:(.*)$", re.MULTILINE)
_WRONG = re.compile(r"\s# wrong\b")
_MENDING = re.compile(r"^(\s*)#\s?\+ ?")


@dataclass(frozen=True)
class Subject:
    """A script of the corpus, and the cause that is expected; empty: none is known for this mistake."""

    path: Path
    cause: str
    ranks: int

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return self.path.stem

    @property
    def text(self) -> str:
        """The script as it is."""
        return self.path.read_text(encoding="utf-8")


def subjects(kind: str) -> tuple[Subject, ...]:
    """The scripts of a folder of the corpus (broken, correct), by name."""
    return tuple(map(_subject, sorted((CORPUS / kind).glob("*.py"))))


def _subject(path: Path) -> Subject:
    found = _HEADER.search(path.read_text(encoding="utf-8"))
    assert found is not None, f"{path} has no line `# parity:`"
    values = dict(word.split("=", 1) for word in found[1].split())
    return Subject(path, values.get("cause", "").replace(",", ", "), int(values.get("ranks", "2")))


def mended_text(text: str) -> str:
    """The corrected script: lines marked `# wrong` are dropped, those that begin with `# +` take their place."""
    kept = (line for line in text.splitlines() if not _WRONG.search(line))
    return "\n".join(_MENDING.sub(r"\1", line) for line in kept) + "\n"


class Bench:
    """Compares scripts of the corpus in one folder, with one set of servers."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.folder = folder
        self.cwd = folder / "cwd"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.here = Here(servers, machine_facts(servers))

    def compare(self, subject: Subject, *, mend: bool = False, **options: object) -> ParityAnswer:
        """What `parity` says of a script, or of its mended version."""
        for left in self.cwd.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        path = subject.path
        if mend:
            path = self.folder / "mended" / subject.path.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(mended_text(subject.text), encoding="utf-8")
        request = ParityRequest(path, ranks=subject.ranks, out=self.folder / "runs", device="cpu", **options)  # type: ignore[arg-type]
        before = Path.cwd()
        os.chdir(self.cwd)
        try:
            return parity_here(request, SILENT, self.here)
        finally:
            os.chdir(before)


@contextlib.contextmanager
def bench(folder: Path | None = None, servers: Servers | None = None) -> Iterator[Bench]:
    """A bench with servers and a temporary folder of its own, unless they are given."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalewise-parity-")))
        yield Bench(place, servers or stack.enter_context(Servers()))


def told(answer: ParityAnswer) -> str:
    """The answer in lines, for a failing test and for a look."""
    steps = answer.compared.steps if answer.compared else ()
    worst = max((step.worst.roundings for step in steps if step.worst), default=0.0)
    lines = [f"{answer.script}: {answer.kind}, {worst:.3g} roundings at most, {answer.seconds:.1f} s", answer.sentence]
    if answer.cause:
        lines.append(f"cause {answer.cause.name}: {answer.cause.sentence} [{answer.cause.change}]")
    return "\n  ".join([*lines, *answer.tried, *answer.notes])


def main() -> None:
    """For the author of a script or of a cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scripts of the corpus, or part of their names; default: all")
    parser.add_argument("--mended", action="store_true", help="the mended version, too")
    args = parser.parse_args()
    known = (*subjects("broken"), *subjects("correct"))
    asked = [one for one in known if not args.names or any(part in one.name for part in args.names)]
    if not asked:
        sys.exit(f"no script of the corpus is called like {', '.join(args.names)}")
    with bench() as opened:
        for subject in asked:
            print(told(opened.compare(subject)), flush=True)
            if args.mended and mended_text(subject.text) != subject.text:
                print("mended:", told(opened.compare(subject, mend=True)), flush=True)


if __name__ == "__main__":
    main()
