"""Following a job by what the controller answers and the files the job leaves, without any Slurm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scalewise.errors import BadRequest
from scalewise.launch.slurm import follow
from scalewise.launch.slurm.follow import JobEnd, end_text, follow_job
from scalewise.launch.slurm.queue import JobState, SlurmSilent
from scalewise.records.codec import write_json
from scalewise.records.submission import JobFolder, Submission

JOB = 7


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def live(self, data: dict[str, object]) -> None:
        self.lines.append(f"live {data}")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """The commands that were given; no time passes between two looks."""
    given: list[tuple[str, ...]] = []
    monkeypatch.setattr(follow.queue, "ask", lambda *words: given.append(words) or "")
    for name, seconds in (("_ASK_SECONDS", 0.0), ("_LOOK_SECONDS", 0.0), ("_LEFT_SECONDS", 0.0)):
        monkeypatch.setattr(follow, name, seconds)
    yield given


def answering(monkeypatch: pytest.MonkeyPatch, *answers: object) -> None:
    """The controller's answers in turn; the last one stays. A function is called first, as if time had passed."""
    left = list(answers)

    def show_job(_: int) -> JobState | None:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            answer()
            return show_job(JOB)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    monkeypatch.setattr(follow.queue, "show_job", show_job)


def state(name: str, reason: str = "None", **more: object) -> JobState:
    return JobState(JOB, name, reason, **more)  # type: ignore[arg-type]


def test_a_job_is_followed_from_the_queue_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    folder, heard = JobFolder(tmp_path), Heard()

    def begin() -> None:
        folder.began(JOB).write_text("n1\n")
        folder.narration(JOB).write_text("1 run into runs/x\nhalf a li")

    def end() -> None:
        folder.narration(JOB).write_text("1 run into runs/x\nhalf a line\n")
        folder.live(JOB).write_text('{"index": 0}')
        folder.ended(JOB).write_text("3 0")

    waits = state("PENDING", "Resources", start="2026-11-19T20:00")
    answering(monkeypatch, waits, waits, begin, state("RUNNING", node_list="n1"), end, state("COMPLETED"))
    assert follow_job(folder, JOB, heard) == JobEnd("ended", 3)
    assert {*heard.lines} == {
        "job 7 waits in the queue: the hosts are in use by others (Resources); expected to start at 2026-11-19 20:00",
        "job 7 runs on n1",
        "1 run into runs/x",
        "half a line",
        "live {'index': 0}",
    }
    assert len(heard.lines) == 5 and not asked


def test_a_job_that_can_never_run_is_cancelled_with_slurms_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    answering(monkeypatch, state("PENDING", "PartitionTimeLimit"))
    with pytest.raises(BadRequest, match="can never run: the time asked for is more than the partition allows"):
        follow_job(JobFolder(tmp_path), JOB, Heard())
    assert asked == [("scancel", "7")]


def test_a_requeued_job_is_not_over_though_its_command_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    folder, heard = JobFolder(tmp_path), Heard()
    folder.began(JOB).write_text("n1\n")
    folder.ended(JOB).write_text("2 0")
    again = state("PENDING", "BeginTime", restarts=1)
    answering(monkeypatch, again, again, lambda: folder.ended(JOB).write_text("0 1"), state("COMPLETED", restarts=1))
    assert follow_job(folder, JOB, heard) == JobEnd("ended", 0)
    assert "job 7 was preempted or requeued and waits to run again; finished runs are kept" in heard.lines


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("CANCELLED", "cancelled", "was cancelled"), ("TIMEOUT", "timed_out", "time of job 7 was over"),
        ("NODE_FAIL", "node_failed", "host of job 7 failed"), ("OUT_OF_MEMORY", "out_of_memory", "more memory"),
        ("FAILED", "failed", "Job 7 failed"),
    ],
)  # fmt: skip
def test_every_end_of_a_job_has_words_and_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]], name: str, kind: str, words: str
) -> None:
    folder = JobFolder(tmp_path)
    folder.began(JOB).write_text("n1\n")
    answering(monkeypatch, state(name))
    end = follow_job(folder, JOB, Heard())
    assert end.kind == kind and end.code is None
    assert words in end_text(end, JOB) and "finished is kept" in end_text(end, JOB)


def test_a_command_that_was_killed_in_its_job_is_told_as_that() -> None:
    assert "ended by signal 9" in end_text(JobEnd("ended", 137), JOB)
    assert [end_text(JobEnd("ended", code), JOB) for code in (0, 1, 2, 3)] == [""] * 4


def test_a_job_of_which_slurm_no_longer_knows_is_over_only_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    heard = Heard()
    answering(
        monkeypatch, None, SlurmSilent("Unable to contact slurm controller"), None,
        lambda: monkeypatch.setattr(follow, "ABSENT_SECONDS", -1.0), None,
    )  # fmt: skip
    end = follow_job(JobFolder(tmp_path), JOB, heard)
    assert end.kind == "gone" and "no longer knows" in end_text(end, JOB)
    assert heard.lines == ["Slurm does not answer (Unable to contact slurm controller); waiting for it"]


def test_a_forgotten_job_ends_at_once_where_accounting_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    JobFolder(tmp_path).began(JOB).write_text("n1\n")
    answering(monkeypatch, None)
    monkeypatch.setattr(follow.queue, "accounted_job", lambda _: state("OUT_OF_MEMORY", exit_code="0:125"))
    end = follow_job(JobFolder(tmp_path), JOB, Heard())
    assert end.kind == "out_of_memory" and "more memory than it was given" in end_text(end, JOB)


@pytest.mark.parametrize("hosts", ["n1", "n[1-2]"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen to run", "ran between two questions"])
def test_a_host_that_fails_twice_under_a_job_is_left_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]], hosts: str, seen: bool
) -> None:
    folder, heard = JobFolder(tmp_path), Heard()
    folder.began(JOB).write_text(f"{hosts}\n")
    write_json(folder.submission, Submission(JOB, "", "ada", 0.0, ("run",)))
    monkeypatch.setattr(follow.queue, "lost_hosts", lambda asked_for: ("n1",) if asked_for == hosts else ())
    monkeypatch.setattr(follow.queue, "partitions", lambda: {"main": {"TotalNodes": "3"}})
    fields = (("Partition", "main"), ("NumNodes", "1-1"), ("ExcNodeList", "(null)"))
    once, twice = (state("PENDING", "BeginTime", restarts=number, fields=fields) for number in (1, 2))
    runs = [state("RUNNING", node_list=hosts)] if seen else []
    end = lambda: folder.ended(JOB).write_text("0 2")  # noqa: E731
    answering(monkeypatch, *runs, once, *runs, twice, end, state("COMPLETED"))
    assert follow_job(folder, JOB, heard) == JobEnd("ended", 0)
    assert heard.lines.count("n1 failed while job 7 ran there") == 2
    assert "n1 failed more than once: job 7 goes on without it" in heard.lines
    assert asked == [("scontrol", "update", "JobId=7", "ExcNodeList=n1")]
    known = follow.known_submission(folder)
    assert known is not None and known.losses == ("n1", "n1")


def test_a_job_that_runs_and_shows_nothing_shares_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    monkeypatch.setattr(follow, "SHARED_SECONDS", -1.0)
    answering(monkeypatch, state("RUNNING", node_list="n[1-2]"))
    with pytest.raises(BadRequest, match="not shared") as caught:
        follow_job(JobFolder(tmp_path), JOB, Heard())
    assert asked == [("scancel", "7")] and "--out" in caught.value.hint


def test_who_does_not_want_to_wait_for_ever_leaves_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, ...]]
) -> None:
    answering(monkeypatch, state("PENDING", "Priority"))
    with pytest.raises(BadRequest, match="has not begun within 0 s") as caught:
        follow_job(JobFolder(tmp_path), JOB, Heard(), wait_seconds=0.0)
    assert "scancel 7 ends it" in caught.value.hint and not asked
