"""The paths of all files of a run and of a suite, which no other module composes, and the list of a suite's runs."""

from dataclasses import dataclass
from pathlib import Path

from scalewise.records.codec import read_json_or_none, write_json


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run: what it was asked to do, what each rank recorded and printed, and how it ended."""

    path: Path

    @property
    def spec(self) -> Path:
        """The file with the `RunSpec`."""
        return self.path / "spec.json"

    @property
    def machine(self) -> Path:
        """The file with the `MachineFacts` at the time of the run."""
        return self.path / "machine.json"

    @property
    def command(self) -> Path:
        """The file with a plain torchrun command that repeats the run."""
        return self.path / "command.txt"

    @property
    def pulses(self) -> Path:
        """The file with the ranks' signs of life."""
        return self.path / "pulse.bin"

    def pulses_on(self, node_rank: int | None) -> Path:
        """The file with the signs of life of the ranks on one host; only its own processes map it into memory."""
        return self.pulses if node_rank is None else self.path / f"pulse.node{node_rank}.bin"

    @property
    def order(self) -> Path:
        """The file with the planner's `HostOrder`, if the run lies on hosts that are asked for their parts."""
        return self.path / "order.json"

    def report(self, node_rank: int) -> Path:
        """The file with the `HostReport` of that host."""
        return self.path / f"host{node_rank}.json"

    def spec_on(self, node_rank: int) -> Path:
        """The file with the `RunSpec` as that host's ranks read it."""
        return self.path / f"spec.node{node_rank}.json"

    def machine_on(self, node_rank: int) -> Path:
        """The file with the `MachineFacts` of that host."""
        return self.path / f"machine.node{node_rank}.json"

    def samples_on(self, node_rank: int | None) -> Path:
        """The file with the `SampleRow` lines of that host; the first one's is `samples.jsonl`."""
        return self.path / f"samples.node{node_rank}.jsonl" if node_rank else self.samples

    @property
    def link(self) -> Path:
        """The file of an emulated link, in which ranks note when their messages are ready."""
        return self.path / "link.bin"

    @property
    def samples(self) -> Path:
        """The file with the `SampleRow` lines."""
        return self.path / "samples.jsonl"

    @property
    def outcome(self) -> Path:
        """The file with the `Outcome`; its presence means that the run is over."""
        return self.path / "outcome.json"

    @property
    def files(self) -> Path:
        """The folder with what the script wrote into its private view of the working folder."""
        return self.path / "files"

    @property
    def view(self) -> Path:
        """The folder of the private view itself, which exists as long as the run does."""
        return self.path / ".view"

    def inbox(self, ring: str, index: int, rank: int) -> Path:
        """The pipe that tells a rank of a ring's run that its turn has come; exists as long as the run does."""
        return self.path.parent / f".turns-{ring}" / f"{index}.{rank}"

    def rank(self, rank: int) -> Path:
        """The file with the rank's rows."""
        return self.path / f"rank{rank}.jsonl"

    def examination(self, rank: int) -> Path:
        """The file with what the doctor needs of the rank: `records.notes` and `records.examination`."""
        return self.path / f"rank{rank}.notes.jsonl"

    def calls(self, rank: int) -> Path:
        """The file with kernels, operators and collectives of the rank's profiled step, for a trace."""
        return self.path / f"rank{rank}.calls.json"

    def stdout(self, rank: int) -> Path:
        """The file with what the rank printed."""
        return self.path / f"rank{rank}.stdout.log"

    def stderr(self, rank: int) -> Path:
        """The file with what the rank wrote to standard error."""
        return self.path / f"rank{rank}.stderr.log"

    def stack(self, rank: int) -> Path:
        """The file with Python stacks, which the rank writes when it is asked for them or crashes."""
        return self.path / f"rank{rank}.stack.txt"

    def rank_files(self) -> tuple[tuple[int, Path], ...]:
        """All ranks that left rows or notes, each with the path of its rows."""
        numbers = {file.name.removeprefix("rank").partition(".")[0] for file in self.path.glob("rank*.jsonl")}
        return tuple((rank, self.rank(rank)) for rank in sorted(int(text) for text in numbers if text.isdecimal()))


@dataclass(frozen=True)
class SuiteFolder:
    """The folder of one suite, which holds the folders of its runs."""

    path: Path

    @property
    def suite(self) -> Path:
        """The file with the suite as it was declared."""
        return self.path / "suite.toml"

    @property
    def machine(self) -> Path:
        """The file with the `MachineFacts` of the suite's first run."""
        return self.path / "machine.json"

    @property
    def made(self) -> Path:
        """The file with `MadeRuns`: the runs that must be there, unless somebody has removed them."""
        return self.path / "made.json"

    def run(self, name: str) -> RunFolder:
        """The folder of the run with that name."""
        return RunFolder(self.path / name)

    def runs(self) -> tuple[RunFolder, ...]:
        """All run folders that hold a spec, by name."""
        return tuple(RunFolder(spec.parent) for spec in sorted(self.path.glob("*/spec.json")))


@dataclass(frozen=True)
class MadeRuns:
    """The runs by name, in the order in which they were made."""

    names: tuple[str, ...]


def made_runs(folder: SuiteFolder) -> tuple[str, ...]:
    """The names of the runs made here, as far as recorded; removing the folder also removes the record."""
    made = read_json_or_none(folder.made, MadeRuns)
    return made.names if made is not None else ()


def keep_made(folder: SuiteFolder, names: tuple[str, ...]) -> None:
    """Writes the list of the runs made."""
    write_json(folder.made, MadeRuns(names))
