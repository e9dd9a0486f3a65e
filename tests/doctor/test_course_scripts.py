"""Tests of the doctor on the course's scripts: nothing to find in them, and what was put into their variants."""

from collections.abc import Iterator

import pytest
from corpus_scripts import Clinic, clinic
from course_variants import COURSE, SCRIPTS, VARIANTS, Variant, course_script

from shared_servers import SharedServers


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, servers: SharedServers) -> Iterator[Clinic]:
    with clinic(tmp_path_factory.mktemp("course"), servers) as opened:
        yield opened


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_is_found_in_a_script_of_the_course(room: Clinic, tmp_path, name: str):
    examined = room.examine_calmly(course_script(tmp_path, name))
    outcome = examined.case.run.outcome
    assert outcome is not None and outcome.kind in ("finished", "aborted_at_exit"), examined.told()
    assert not examined.found and examined.diagnosis.exit_code == 0, examined.told()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_line_changed_for_the_worse_is_found(room: Clinic, tmp_path, variant: Variant):
    examined = room.examine_calmly(course_script(tmp_path, variant.script, variant))
    assert not examined.missed and not examined.surplus, examined.told()


def test_every_script_is_tried():
    assert {path.stem for path in COURSE.glob("*.py")} == set(SCRIPTS)
