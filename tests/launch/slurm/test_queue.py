"""Tests of reading what Slurm prints, without asking it: lines of 22.05, and fields that newer releases add."""

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from scalewise.errors import BadRequest
from scalewise.launch.slurm import queue
from scalewise.launch.slurm.losses import avoided_hosts, options_without
from scalewise.launch.slurm.queue import (
    JobState,
    accounted_state,
    fields_of,
    job_state,
    queued_ids,
    seconds_of,
    submitted_id,
)

PENDING = (
    "JobId=5 JobName=wrap UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901755 Nice=0 Account=(null) "
    "QOS=(null) JobState=PENDING Reason=BeginTime Dependency=(null) Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A SubmitTime=2026-11-19T14:45:43 "
    "StartTime=2026-11-19T14:47:44 EndTime=2026-11-19T15:47:44 Deadline=N/A Partition=main ReqNodeList=(null) "
    "NodeList= NumNodes=2 TRES=cpu=2,mem=8000M,node=2,billing=2 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* "
    "Command=(null) WorkDir=/tmp/hand StdErr=/tmp/hand/slurm-5.out StdIn=/dev/null Power= "
)
# The fields that newer releases have in addition (ReqTRES, AllocTRES, SubmitLine, TresPerNode, LicensesAlloc).
RUNNING = (
    "JobId=77 JobName=scalewise-ab12 UserId=ada(1815) Account=lab QOS=normal JobState=RUNNING Reason=None "
    "Restarts=0 ExitCode=0:0 TimeLimit=1-00:00:00 StartTime=2026-11-19T14:40:35 Partition=gpu NodeList=gpu[01-02] "
    "BatchHost=gpu01 NumNodes=2 ReqTRES=cpu=2,mem=8G,node=2,gres/gpu=8 AllocTRES=cpu=128,mem=1T,node=2,gres/gpu=8 "
    "LicensesAlloc=(null) Command=/home/ada/runs/.slurm-ab12/job.sh SubmitLine=sbatch --parsable /home/ada/job.sh "
    "WorkDir=/home/ada/a folder TresPerNode=gres/gpu:4"
)


def test_a_waiting_job_has_its_reason_and_its_start_in_words() -> None:
    job = job_state(PENDING)
    assert job is not None and (job.job_id, job.state, job.restarts) == (5, "PENDING", 1)
    assert job.waits and not job.ended and not job.hopeless
    assert job.reason_text == "its begin time has not come (BeginTime)"
    assert job.start == "2026-11-19T14:47:44" and job.node_list == ""


def test_a_line_of_a_newer_release_is_read_as_well() -> None:
    job = job_state(RUNNING)
    assert job is not None and (job.state, job.node_list, job.reason_text) == ("RUNNING", "gpu[01-02]", "")
    fields = fields_of(RUNNING)
    assert fields["WorkDir"] == "/home/ada/a folder" and fields["TresPerNode"] == "gres/gpu:4"
    assert fields["SubmitLine"] == "sbatch --parsable /home/ada/job.sh"
    assert fields["ReqTRES"] == "cpu=2,mem=8G,node=2,gres/gpu=8"


@pytest.mark.parametrize("line", ["", "slurm_load_jobs error: Invalid job id specified", "JobName=x JobState=RUNNING"])
def test_what_is_no_job_is_none(line: str) -> None:
    assert job_state(line) is None


@pytest.mark.parametrize(
    ("state", "waits", "ended"),
    [
        ("PENDING", True, False), ("REQUEUED", True, False), ("PREEMPTED", True, False), ("REQUEUE_HOLD", True, False),
        ("RUNNING", False, False), ("COMPLETING", False, False), ("SUSPENDED", False, False),
        ("COMPLETED", False, True), ("CANCELLED", False, True), ("TIMEOUT", False, True), ("NODE_FAIL", False, True),
        ("OUT_OF_MEMORY", False, True), ("FAILED", False, True), ("CANCELLED by 1000", False, True),
        ("COMPLETED,COMPLETING", False, True),
    ],
)  # fmt: skip
def test_a_preempted_job_waits_and_only_what_cannot_run_again_has_ended(state: str, waits: bool, ended: bool) -> None:
    job = job_state(f"JobId=1 JobState={state} Reason=None")
    assert job is not None and (job.waits, job.ended) == (waits, ended)


@pytest.mark.parametrize(
    ("reason", "hopeless"),
    [
        ("PartitionTimeLimit", True), ("PartitionConfig", True), ("BadConstraints", True), ("QOSMaxGRESPerJob", True),
        ("AssocMaxWallDurationPerJobLimit", True), ("Priority", False), ("Resources", False), ("AssocGrpGRES", False),
        ("QOSMaxCpuPerUserLimit", False), ("AssocMaxJobsLimit", False), ("JobHeldUser", False), ("Nonsense", False),
    ],
)  # fmt: skip
def test_a_limit_that_passes_is_not_taken_for_one_that_stays(reason: str, hopeless: bool) -> None:
    job = JobState(1, "PENDING", reason)
    assert bool(job.hopeless) is hopeless
    assert reason in job.reason_text
    assert not replace(job, state="RUNNING").hopeless


def test_the_number_of_a_submitted_job_is_found_among_other_lines() -> None:
    assert submitted_id("17\n") == (17, "")
    assert submitted_id("sbatch: lua: welcome\n18;blue\n") == (18, "blue")
    with pytest.raises(BadRequest, match="no number of a job"):
        submitted_id("Submitted nothing")
    assert queued_ids("12\n13\n") == (12, 13) and queued_ids("") == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("01:30", 90), ("00:30:00", 1800), ("1-00", 86400), ("2-01:30", 178200), ("1-00:00:01", 86401)],
)
def test_times_are_read_as_slurm_writes_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of("UNLIMITED") is seconds_of("soon") is seconds_of("") is None


def answering(monkeypatch: pytest.MonkeyPatch, **answers: tuple[int, str, str]) -> None:
    """Stands for Slurm's commands: exit code, output and errors by the name of each."""

    def run(words: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        if words[0] not in answers:
            raise FileNotFoundError(words[0])
        code, out, err = answers[words[0]]
        if code == 124:
            raise subprocess.TimeoutExpired(words, 20)
        return subprocess.CompletedProcess(words, code, out, err)

    monkeypatch.setattr(queue.subprocess, "run", run)


def test_slurm_that_is_not_here_refuses_or_is_silent_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch)
    with pytest.raises(BadRequest, match="There is no Slurm here") as caught:
        queue.ask("sbatch")
    assert "--launcher torchrun" in caught.value.hint
    answering(monkeypatch, sbatch=(1, "", "sbatch: error: Batch job submission failed: Invalid account\n"))
    with pytest.raises(BadRequest, match="sbatch refused: Batch job submission failed: Invalid account"):
        queue.ask("sbatch")
    answering(monkeypatch, scontrol=(124, "", ""))
    with pytest.raises(queue.SlurmSilent, match="did not answer"):
        queue.ask("scontrol")
    answering(monkeypatch, scontrol=(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n"))
    with pytest.raises(queue.SlurmSilent, match="Unable to contact"):
        queue.show_job(1)
    answering(monkeypatch, scontrol=(1, "", "slurm_load_jobs error: Invalid job id specified\n"))
    assert queue.show_job(1) is None


PARTITIONS = """PartitionName=main Default=YES MaxTime=01:00:00 State=UP TotalNodes=3
PartitionName=gpu Default=NO MaxTime=UNLIMITED State=DRAIN TotalNodes=8
"""


@pytest.mark.parametrize(
    ("name", "nodes", "time", "said", "hint"),
    [
        ("gpus", 1, "", "no partition 'gpus'", "'gpu'"),
        ("nothing", 1, "", "no partition 'nothing'", "gpu, main"),
        ("", 4, "", "has 3 hosts, and 4 were asked for", "gpu (8 hosts, drain)"),
        ("main", 1, "02:00:00", "more than the partition main allows: 01:00:00", "less"),
        ("gpu", 1, "", "gpu is drain", "main (3 hosts, up)"),
    ],
)
def test_what_a_partition_can_never_give_is_refused_before_queueing(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, time: str, said: str, hint: str
) -> None:
    answering(monkeypatch, scontrol=(0, PARTITIONS, ""))
    with pytest.raises(BadRequest) as caught:
        queue.check_partition(name, nodes, time)
    assert said in caught.value.sentence and hint in caught.value.hint
    queue.check_partition("main", 3, "00:30:00")
    queue.check_partition("", 1, "")


# Fields of 24.05 and later: StepMgrEnabled, SubmitLine, LastSchedEval with the scheduler, ReqTRES and AllocTRES.
NEWER = (
    "JobId=912 ArrayJobId=912 ArrayTaskId=0 JobName=scalewise-1f UserId=ada(1815) GroupId=lab(100) MCS_label=N/A "
    "Priority=1 Nice=0 Account=lab QOS=normal JobState=PENDING "
    "Reason=ReqNodeNotAvail,_UnavailableNodes:gpu[07,09] Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 RunTime=00:00:00 TimeLimit=00:30:00 TimeMin=N/A SubmitTime=2026-11-19T14:45:43 StartTime=Unknown "
    "EndTime=Unknown Deadline=N/A LastSchedEval=2026-11-19T14:46:01 Scheduler=Backfill:* Partition=gpu "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=(null) SchedNodeList=gpu[03-04] StepMgrEnabled=Yes NumNodes=2-2 "
    "ReqTRES=cpu=2,mem=8G,node=2,gres/gpu=8 AllocTRES=(null) TresPerNode=gres/gpu:4 Comment=again: JobState=FAILED "
    "SubmitLine=sbatch --parsable --comment=x NodeList=gpu99 job.sh WorkDir=/home/ada"
)


def test_what_a_user_wrote_into_a_job_is_not_taken_for_slurms_own_words() -> None:
    job = job_state(NEWER)
    assert job is not None and (job.state, job.node_list, job.start) == ("PENDING", "", "")
    assert job.reason_text == ("a host that it needs is not available (ReqNodeNotAvail,_UnavailableNodes:gpu[07,09])")
    assert dict(job.fields)["NumNodes"] == "2-2" and dict(job.fields)["SchedNodeList"] == "gpu[03-04]"


@pytest.mark.parametrize(
    ("printed", "state", "ended"),
    [
        ("COMPLETED|0:0|n1\n", "COMPLETED", True),
        ("CANCELLED by 1815|0:15|n[1-2]\n", "CANCELLED", True),
        ("NODE_FAIL|0:0|n1\nCOMPLETED|0:0|n2\n", "COMPLETED", True),  # the last of several tries
        ("PREEMPTED|0:0|n1\n", "PREEMPTED", False),
        ("OUT_OF_MEMORY|0:125|n1|\n", "OUT_OF_MEMORY", True),
    ],
)
def test_accounting_is_read_where_it_is_there(printed: str, state: str, ended: bool) -> None:
    job = accounted_state(7, printed)
    assert job is not None and (job.state, job.ended) == (state, ended)


def test_without_accounting_nothing_is_known_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accounted_state(7, "") is None and accounted_state(7, "\n") is None
    answering(monkeypatch)
    assert queue.accounted_job(7) is None
    answering(monkeypatch, sacct=(1, "", "Slurm accounting storage is disabled\n"))
    assert queue.accounted_job(7) is None
    answering(monkeypatch, sacct=(0, "TIMEOUT|0:0|n1\n", ""))
    job = queue.accounted_job(7)
    assert job is not None and job.state == "TIMEOUT" and job.node_list == "n1"


NODES = """NodeName=n1 Arch=x86_64 State=DOWN NodeAddr=10.0.0.1
NodeName=n2 Arch=x86_64 State=IDLE+NOT_RESPONDING NodeAddr=10.0.0.2
NodeName=n3 Arch=x86_64 State=MIXED NodeAddr=10.0.0.3
NodeName=n4 Arch=x86_64 State=DOWN* NodeAddr=10.0.0.4
NodeName=n5 Arch=x86_64 State=IDLE* NodeAddr=10.0.0.5
"""


def test_hosts_that_are_down_or_silent_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, scontrol=(0, NODES, ""))
    assert queue.lost_hosts("n[1-5]") == ("n1", "n2", "n4", "n5")


@pytest.mark.parametrize(
    ("options", "nodes", "exclude"),
    [
        ({}, 2, "n1"), ({"exclude": "n3"}, 2, "n3,n1"), ({}, 3, None), ({"nodelist": "n1"}, 1, None),
        ({"partition": "none"}, 1, "n1"),
    ],
)  # fmt: skip
def test_a_host_that_failed_too_often_is_left_out_if_enough_others_are_there(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], nodes: int, exclude: str | None
) -> None:
    answering(monkeypatch, scontrol=(0, PARTITIONS, ""))
    assert avoided_hosts(("n1", "n2", "n1")) == ("n1",) and avoided_hosts(("n1",)) == ()
    assert options_without(options, nodes, ("n1",)).get("exclude") == exclude
    assert options_without(options, nodes, ()) == options
