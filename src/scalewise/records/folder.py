"""Where everything of a run lies: one object owns all the paths."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """One run: what it was to do, what each rank recorded and said, and how it ended."""

    path: Path

    @property
    def spec(self) -> Path:
        """`RunSpec`."""
        return self.path / "spec.json"

    @property
    def machine(self) -> Path:
        """`MachineFacts` at the time of the run."""
        return self.path / "machine.json"

    @property
    def command(self) -> Path:
        """A plain torchrun line that repeats the run."""
        return self.path / "command.txt"

    @property
    def pulses(self) -> Path:
        """Signs of life of the ranks."""
        return self.path / "pulse.bin"

    @property
    def link(self) -> Path:
        """When each rank had its messages ready, where a link between them is emulated."""
        return self.path / "link.bin"

    @property
    def samples(self) -> Path:
        """`SampleRow` lines."""
        return self.path / "samples.jsonl"

    @property
    def outcome(self) -> Path:
        """`Outcome`; its presence means the run is over."""
        return self.path / "outcome.json"

    @property
    def files(self) -> Path:
        """What the script wrote into its private view of the working folder."""
        return self.path / "files"

    @property
    def view(self) -> Path:
        """The private view itself, there as long as the run is."""
        return self.path / ".view"

    def inbox(self, ring: str, index: int, rank: int) -> Path:
        """The pipe by which a rank of a ring's run hears that its turn has come; there as long as that run is."""
        return self.path.parent / f".turns-{ring}" / f"{index}.{rank}"

    def rank(self, rank: int) -> Path:
        """The rank's rows."""
        return self.path / f"rank{rank}.jsonl"

    def examination(self, rank: int) -> Path:
        """What the doctor notes of the rank: `records.notes` and `records.examination`."""
        return self.path / f"rank{rank}.notes.jsonl"

    def calls(self, rank: int) -> Path:
        """Kernels, operators and collectives of the rank's profiled step, for a trace."""
        return self.path / f"rank{rank}.calls.json"

    def stdout(self, rank: int) -> Path:
        """What the rank printed."""
        return self.path / f"rank{rank}.stdout.log"

    def stderr(self, rank: int) -> Path:
        """What the rank wrote to standard error."""
        return self.path / f"rank{rank}.stderr.log"

    def stack(self, rank: int) -> Path:
        """Python stacks, written by the rank when it is asked for them or crashes."""
        return self.path / f"rank{rank}.stack.txt"

    def rank_files(self) -> tuple[tuple[int, Path], ...]:
        """Every rank that left rows or notes, with the path of its rows."""
        numbers = {file.name.removeprefix("rank").partition(".")[0] for file in self.path.glob("rank*.jsonl")}
        return tuple((rank, self.rank(rank)) for rank in sorted(int(text) for text in numbers if text.isdecimal()))


@dataclass(frozen=True)
class SuiteFolder:
    """The runs of one suite, side by side."""

    path: Path

    @property
    def suite(self) -> Path:
        """The suite as it was declared."""
        return self.path / "suite.toml"

    @property
    def machine(self) -> Path:
        """`MachineFacts` when the suite was first run."""
        return self.path / "machine.json"

    @property
    def made(self) -> Path:
        """`MadeRuns`: what there must be, unless somebody has removed it."""
        return self.path / "made.json"

    def run(self, name: str) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.path / name)

    def runs(self) -> tuple[RunFolder, ...]:
        """Every run folder that holds a spec, by name."""
        return tuple(RunFolder(spec.parent) for spec in sorted(self.path.glob("*/spec.json")))
