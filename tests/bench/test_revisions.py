"""The comparison of two revisions: what cannot be compared is one sentence, and each side runs its own files."""

from pathlib import Path

import pytest
from bench.revisions import ROOT, Revision, checked_out, run

from scalewise.errors import BadRequest

pytestmark = pytest.mark.processes


def test_a_revision_that_is_not_there_is_named() -> None:
    with pytest.raises(BadRequest, match="'no-such-revision' cannot be checked out"), checked_out("no-such-revision"):
        pass


def test_a_gpu_is_refused() -> None:
    with pytest.raises(BadRequest, match="on the CPU only"):
        run(quick=True, cuda=True, before="HEAD")


def test_each_revision_finds_its_own_source_first(tmp_path: Path) -> None:
    assert Revision("before", tmp_path).environment()["PYTHONPATH"].split(":")[0] == str(tmp_path / "src")
    assert Revision("now", ROOT).environment()["PYTHONPATH"].split(":")[1] == str(ROOT)
