"""Makes a campaign of a fast run and an endless one; started by tests that kill or interrupt it."""

import dataclasses
import sys
from pathlib import Path

from launch_runner import Silent, machine_here, spec_of

from scalewise.launch.campaign import run_campaign
from scalewise.records.folder import SuiteFolder
from scalewise.records.spec import RunSpec


class Announcing(Silent):
    """Tells the test when a run has begun."""

    def started(self, index: int, total: int, spec: RunSpec) -> None:
        print("started", spec.name, flush=True)


def main() -> None:
    fast = dataclasses.replace(spec_of("never_steps.py"), name="fast")
    endless = dataclasses.replace(spec_of("fault.py", "spin"), name="endless")
    outcomes = run_campaign([fast, endless, fast], SuiteFolder(Path(sys.argv[1])), machine_here(), Announcing())
    print("outcomes", [outcome and outcome.kind for outcome in outcomes], flush=True)


main()
