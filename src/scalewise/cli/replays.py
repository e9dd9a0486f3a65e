"""Makes the runs of the doctor's replays beside the observed one, and reads them back."""

from collections.abc import Sequence

from scalewise.cli.measure import Here
from scalewise.doctor.replay_verdict import Make
from scalewise.launch.campaign import Listener, run_campaign
from scalewise.records.folder import SuiteFolder
from scalewise.records.spec import RunSpec
from scalewise.results.load import load
from scalewise.results.run import Run


def maker(folder: SuiteFolder, here: Here, listener: Listener) -> Make:
    """What `replay_findings` makes runs with; those that an interruption has left unmade do not come back."""

    def make(specs: Sequence[RunSpec]) -> tuple[Run, ...]:
        outcomes = run_campaign(specs, folder, here.facts, listener, here.servers)
        made = [spec for spec, end in zip(specs, outcomes, strict=True) if end and end.kind != "interrupted"]
        return tuple(run for spec in made for run in load(folder.run(spec.name).path).runs)

    return make
