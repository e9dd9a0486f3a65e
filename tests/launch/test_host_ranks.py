"""How long ranks queue for a core, as the kernel tells of real processes."""

import os
import subprocess
import sys
import time

import pytest

from scalewise.launch.host_ranks import queued_seconds

pytestmark = pytest.mark.processes

BUSY = "import os; os.sched_setaffinity(0, {int(os.environ['CORE'])})\nwhile True: pass"
ASLEEP = "import time; time.sleep(60)"


def test_a_process_that_shares_its_core_queues_for_it_and_one_that_sleeps_does_not() -> None:
    environment = os.environ | {"CORE": str(min(os.sched_getaffinity(0)))}
    busy = [subprocess.Popen([sys.executable, "-c", BUSY], env=environment) for _ in range(2)]
    asleep = subprocess.Popen([sys.executable, "-c", ASLEEP])
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end and not all(queued_seconds(each.pid) > 1.0 for each in busy):
            time.sleep(0.1)
        assert all(queued_seconds(each.pid) > 1.0 for each in busy)
        began = queued_seconds(asleep.pid)
        time.sleep(0.5)
        assert queued_seconds(asleep.pid) - began < 0.25
    finally:
        for each in (*busy, asleep):
            each.kill()
            each.wait()


def test_of_a_process_that_has_gone_nothing_is_told() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert queued_seconds(gone.pid) == 0.0
