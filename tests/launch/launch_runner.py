"""What the tests of the launchers share: where their scripts are, and a run that is over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalewise.records.folder import RunFolder
from scalewise.records.outcome import Outcome

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Launched:
    """A run that is over."""

    outcome: Outcome
    folder: RunFolder

    def stdout(self, rank: int = 0) -> str:
        return self.folder.stdout(rank).read_text()

    def stderr(self, rank: int = 0) -> str:
        return self.folder.stderr(rank).read_text()


Launch = Callable[..., Launched]
