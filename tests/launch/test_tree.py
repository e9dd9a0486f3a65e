"""A user's folder is looked through without surprises, and what changed between two looks is found."""

from pathlib import Path

import pytest

from scalewise.launch.private_views import copy_folder, discard, is_below, linked_outside
from scalewise.launch.tree import look_through, written_between
from scalewise.launch.working_folder import Reads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "data/a.bin", "data/deep/b.bin", "last.pt", ".git/HEAD", "env/pyvenv.cfg", "env/lib.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name in ("runs/suite-1/suite.toml", "runs/suite-1/machine.json", "runs/own/events", "__pycache__/m.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    return tmp_path


def test_repositories_environments_and_kept_runs_are_left_apart(folder: Path) -> None:
    look = look_through(str(folder))
    assert set(look.files) == {"train.py", "last.pt", "data/a.bin", "data/deep/b.bin", "runs/own/events"}
    assert set(look.apart) == {".git", "env", "__pycache__", "runs/suite-1"}
    assert look.links == [str(folder / "link")] and look.checkpoints() == ["last.pt"] and look.whole


def test_looking_ends_at_a_limit_and_says_so(folder: Path) -> None:
    look = look_through(str(folder), most=3)
    assert not look.whole and len(look.files) + len(look.links) == 3
    assert "data/deep/b.bin" not in look.files  # what lies deep comes last


def test_a_link_in_a_copy_never_leads_to_the_users_own_file_in_the_folder(folder: Path, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (folder / "latest.pt").symlink_to(folder / "last.pt")  # absolute, as `ln -s $PWD/last.pt` makes it
    (folder / "near.pt").symlink_to("last.pt")
    (folder / "out").symlink_to(outside)
    look, target = look_through(str(folder)), tmp_path_factory.mktemp("view") / "copy"
    copy_folder(str(folder), look, target)

    for name in ("latest.pt", "near.pt"):
        (target / name).write_text("written by the run")
    assert (folder / "last.pt").read_text() == "x" and (target / "last.pt").read_text() == "written by the run"
    assert linked_outside(str(folder), look) == (str(outside),), "what stays open is told"


def test_folders_whose_names_begin_like_the_systems_are_not_the_systems(tmp_path: Path) -> None:
    assert is_below("/run/user", "/run") and not is_below("/runs/me", "/run")


def test_a_link_in_the_place_of_a_view_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "papers").mkdir(parents=True, mode=0o750)
    (tmp_path / "view").symlink_to(home)
    discard(tmp_path / "view")

    assert (home / "papers").stat().st_mode & 0o777 == 0o750


def test_a_link_that_leads_to_itself_is_only_a_link(folder: Path, tmp_path_factory) -> None:
    (folder / "loop").symlink_to(folder / "loop")
    look = look_through(str(folder))
    copy_folder(str(folder), look, tmp_path_factory.mktemp("view") / "copy")

    assert str(folder / "loop") in look.links


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert look_through(str(tmp_path / "gone")).files == {}


def test_differences_are_what_was_created_changed_and_removed(folder: Path) -> None:
    before = look_through(str(folder)).states()
    (folder / "train.py").write_text("longer")
    (folder / "new").write_text("1234")
    (folder / "last.pt").unlink()
    (folder / "data" / "a.bin").read_text()
    found = [(one.path, one.change, one.bytes) for one in written_between(before, look_through(str(folder)).states())]
    assert found == [("last.pt", "removed", 1), ("new", "created", 4), ("train.py", "changed", 6)]


def test_a_file_counts_as_read_only_before_it_is_written(folder: Path) -> None:
    reads = Reads()
    for name in ("last.pt", "train.py", "data/a.bin", "not there"):
        reads.watch(str(folder / name), name)
    (folder / "last.pt").read_text()
    (folder / "train.py").write_text("new")
    (folder / "train.py").read_text()
    (folder / "data/a.bin").stat()
    assert reads.end() == ["last.pt"]
    assert reads.end() == []
