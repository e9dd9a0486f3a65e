"""A fault of the watcher is never the script's: the run is made again without the part that failed, and says so."""

import dataclasses
from pathlib import Path

import pytest
from launch_runner import Silent, machine_here, spec_of

from scalewise.launch import campaign
from scalewise.launch.campaign import run_campaign
from scalewise.launch.failure_logs import raised_in_watcher
from scalewise.launch.forkserver import Servers
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import Run, load
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Examined, RunSpec, Timed
from scalewise.records.wrapped import CONCERNS


class Ends(Silent):
    """Remembers how every try has ended."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def ended(self, index: int, total: int, spec: RunSpec, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def make(servers: Servers, folder: Path, *specs: RunSpec) -> tuple[list[Outcome], list[Run]]:
    ends = Ends()
    run_campaign(specs, SuiteFolder(folder), machine_here(), ends, servers)
    return ends.outcomes, [load(folder / spec.name).runs[0] for spec in specs]


def plain(script: str, *args: str, **changes: object) -> RunSpec:
    return dataclasses.replace(spec_of(script, *args), ranks=1, mode="python", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("hook", ["hooks/backward", "hooks/optimizer", "hooks/forward", "examination/forward"])
def test_a_hook_that_fails_is_left_out_and_the_script_gets_through(tmp_path, servers, hook) -> None:
    spec = plain("watcher_fault.py", hook, kind=Examined() if hook.startswith("examination") else Timed())
    (first, last), (run,) = make(servers, tmp_path, spec)

    assert first.kind == "watcher_failed" and first.raised_by == (hook,)
    assert hook in first.sentence and "AttributeError" in first.sentence
    assert first.hint == "the run is made again without it"
    assert list(run.spec.without_hooks) == [hook] and "AttributeError" in run.spec.without_hooks[hook]
    assert (run.folder / "rank0.stdout.log").read_text() == "trained\n"
    # Without the hook of the optimizer no step can be seen: then that is said, and not that the script makes none.
    assert last.kind == ("no_steps" if hook == "hooks/optimizer" else "finished")
    if hook == "hooks/optimizer":
        assert "could not be seen" in last.sentence and "no step can be timed" in last.hint


def test_the_next_runs_of_a_script_are_made_without_the_hook_from_the_start(tmp_path, servers) -> None:
    specs = [dataclasses.replace(plain("watcher_fault.py", "hooks/backward"), name=name) for name in ("a", "b")]
    outcomes, runs = make(servers, tmp_path, *specs)

    assert [outcome.kind for outcome in outcomes] == ["watcher_failed", "finished", "finished"]
    assert [list(run.spec.without_hooks) for run in runs] == [["hooks/backward"]] * 2


def test_several_hooks_that_fail_are_left_out_one_after_the_other(tmp_path, servers) -> None:
    outcomes, (run,) = make(servers, tmp_path, plain("watcher_fault.py", "hooks/backward", "hooks/optimizer"))

    assert [outcome.kind for outcome in outcomes] == ["watcher_failed", "watcher_failed", "no_steps"]
    assert set(run.spec.without_hooks) == {"hooks/backward", "hooks/optimizer"}


def test_there_is_an_end_to_trying(tmp_path, servers, monkeypatch) -> None:
    monkeypatch.setattr(campaign, "MOST_TIMES_AGAIN", 1)
    outcomes, _ = make(servers, tmp_path, plain("watcher_fault.py", "hooks/backward", "hooks/optimizer"))

    assert [outcome.kind for outcome in outcomes] == ["watcher_failed", "watcher_failed"]
    assert outcomes[-1].hint.startswith("the script is not to blame")


def test_runs_that_take_turns_are_made_again_together(tmp_path, servers) -> None:
    from scalewise.records.spec import Turns

    specs = [
        dataclasses.replace(plain("watcher_fault.py", "hooks/backward"), name=name, turns=Turns("ring", index, 2))
        for index, name in enumerate("ab")
    ]
    outcomes, runs = make(servers, tmp_path, *specs)

    assert [outcome.kind for outcome in outcomes[-2:]] == ["finished"] * 2
    assert [list(run.spec.without_hooks) for run in runs] == [["hooks/backward"]] * 2


@pytest.mark.parametrize("how, words", [("arguments", "missing 1 required"), ("clock", "takes no arguments")])
def test_a_call_that_torch_refuses_is_the_scripts_own_failure_in_the_end(tmp_path, servers, how, words) -> None:
    """Its traceback may look like ours; made again without the hook, it is the same."""
    outcomes, (run,) = make(servers, tmp_path, plain("bad_calls.py", how, kind=Examined()))

    assert outcomes[-1].kind == "raised" and words in outcomes[-1].sentence and len(outcomes) <= 2
    assert "scalewise" not in (run.folder / "rank0.stderr.log").read_text()


def test_what_torch_says_of_a_value_is_the_scripts_own_failure_at_once(tmp_path, servers) -> None:
    (outcome,), _ = make(servers, tmp_path, plain("bad_calls.py", "value", kind=Examined()))

    assert outcome.kind == "raised" and "grad can be implicitly created only for scalar" in outcome.sentence


PRINTED = """Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    main()
  File "/site-packages/scalewise/watch/hooks/backward.py", line 40, in watched
    recorder.stamp(BACKWARD)
  File "/site-packages/scalewise/watch/recorder.py", line 4, in stamp
    nothing()
TypeError: 'NoneType' object is not callable
gave up
"""


def test_a_traceback_that_the_script_prints_itself_is_read_as_well() -> None:
    assert raised_in_watcher(PRINTED) == ("hooks/backward",)
    later = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nZeroDivisionError: by zero\n'
    assert raised_in_watcher(PRINTED + later) == (), "the script caught the first, and died of its own"
    assert raised_in_watcher(PRINTED.replace("/scalewise/watch/recorder.py", "/torch/autograd.py")) == ()
    assert raised_in_watcher("") == ()


def test_what_cannot_be_left_out_is_never_tried_without() -> None:
    from scalewise.records.wrapped import left_out_with

    assert {name for name in CONCERNS if not left_out_with(name)} >= {"redirect/groups", "rehearsal/group", "crash"}
    assert left_out_with("examination/fetching") == "examination/data"
    assert left_out_with("recorder") == ""
