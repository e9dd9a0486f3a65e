"""What a campaign keeps, resumes and makes again, with ranks that are on no host."""

from dataclasses import replace
from pathlib import Path

from launch_runner import Silent, machine_here, spec_of

from fake_launcher import FakeLauncher, Part, raising, training
from scalewise.launch.campaign import Interrupts, run_campaign
from scalewise.records.codec import read_json
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.records.outcome import Outcome
from scalewise.records.pulse import Pulse
from scalewise.records.spec import RunSpec

SPECS = [replace(spec_of("train.py"), name=name, ranks=1) for name in ("one", "two", "three")]


def made(folder: Path, parts: dict[str, Part], listener: Silent | None = None, interrupts: Interrupts | None = None):
    launcher = FakeLauncher(lambda spec: [parts.get(spec.name, training())])
    outcomes = run_campaign(
        SPECS, SuiteFolder(folder), machine_here(), listener or Silent(), None, interrupts, launcher
    )
    return [outcome and outcome.kind for outcome in outcomes], [ranks.spec.name for ranks in launcher.started]


def test_a_failed_run_is_a_result_and_what_is_finished_is_not_made_again(tmp_path: Path) -> None:
    assert made(tmp_path, {"two": raising()}) == (["finished", "raised", "finished"], ["one", "two", "three"])
    assert made(tmp_path, {}) == (["finished", "raised", "finished"], [])
    assert [len(rank.steps) for run in load(tmp_path).runs for rank in run.ranks][:1] == [40]


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    interrupts = Interrupts()

    class Impatient(Silent):
        def pulses(self, spec: RunSpec, pulses: tuple[Pulse, ...], seconds: float) -> None:
            interrupts.asked = spec.name == "two"

    kinds, started = made(tmp_path, {}, Impatient(), interrupts)
    assert (kinds, started) == (["finished", "interrupted", None], ["one", "two"])
    assert read_json(SuiteFolder(tmp_path).run("two").outcome, Outcome).kind == "interrupted"
    assert made(tmp_path, {}) == (["finished"] * 3, ["two", "three"])
