"""The job of Slurm that makes what a command asked for: `submission.json` and the files that the job leaves beside."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Submission:
    """A job that was submitted, kept so that the same command finds it again."""

    job_id: int
    cluster: str  # empty: the only one
    user: str
    submitted_unix_seconds: float
    command: tuple[str, ...]  # the words of the command line
    attempts: int = 1  # jobs that were submitted for the command
    losses: tuple[str, ...] = ()  # hosts that failed under them, each as often as it did


@dataclass(frozen=True)
class JobFolder:
    """The folder of a command's jobs; files of one job have its number in their names."""

    path: Path

    @property
    def submission(self) -> Path:
        """The file with the `Submission` of the newest job."""
        return self.path / "submission.json"

    @property
    def script(self) -> Path:
        """The script that was submitted."""
        return self.path / "job.sh"

    def log(self, job_id: int) -> Path:
        """The file with what Slurm itself says of the job."""
        return self.path / f"job-{job_id}.log"

    def began(self, job_id: int) -> Path:
        """The file with its hosts that the job makes first, which shows that they share the folder."""
        return self.path / f"began-{job_id}"

    def narration(self, job_id: int) -> Path:
        """The file with what the command says while it works."""
        return self.path / f"narration-{job_id}.log"

    def live(self, job_id: int) -> Path:
        """The file with how far the run is that is being made."""
        return self.path / f"live-{job_id}.json"

    def result(self, job_id: int) -> Path:
        """The file with what the command prints in the end."""
        return self.path / f"result-{job_id}.txt"

    def out_of_time(self, job_id: int) -> Path:
        """The file that the job makes when its time is nearly over."""
        return self.path / f"out-of-time-{job_id}"

    def ended(self, job_id: int) -> Path:
        """The file with the exit code of the command, made last."""
        return self.path / f"ended-{job_id}"
