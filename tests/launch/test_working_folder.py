"""A run never changes the user's files unless it is told to, and whatever it writes is listed and kept."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from launch_runner import SCRIPTS, Launch, Launched

from scalewise.launch import private_views
from scalewise.launch.working_folder import FORCE
from scalewise.records.outcome import World
from scalewise.records.spec import Rehearsed

PLAIN = {"mode": "python", "ranks": 1}


def digests(folder: Path) -> dict[str, str]:
    """Every file of a tree, and what is in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def world_of(run: Launched) -> World:
    assert run.outcome.world is not None, run.outcome.sentence
    return run.outcome.world


def listed(run: Launched) -> dict[str, str]:
    return {one.path: one.change for one in world_of(run).files}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One path for the folders of all tests: each further one would need a server of its own."""
    return tmp_path_factory.mktemp("user's, folder: one")  # an overlay's options could not hold such a path


@pytest.fixture
def project(home: Path) -> Path:
    """A user's folder with work of theirs in it, as new."""
    for left in home.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    (home / "snapshot.pt").write_text("of the user")
    (home / "old.txt").write_text("old")
    (home / "folder").mkdir()
    (home / "folder" / "a.txt").write_text("a")
    (home / "empty").mkdir()
    return home


@pytest.fixture(params=["overlay", "copy"])
def view(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, launch: Launch, project: Path) -> str:
    """Each way to a private view, where the system allows it."""
    monkeypatch.setenv(FORCE, request.param)
    if request.param == "overlay":
        tried = launch("uses_files.py", cwd=str(project), folder_use="private", **PLAIN)
        if tried.outcome.kind == "not_started":
            pytest.skip(tried.outcome.sentence)
    return str(request.param)


def test_a_private_run_leaves_the_users_files_alone_and_its_own_are_kept(
    view: str, launch: Launch, project: Path
) -> None:
    before = digests(project)
    run = launch("uses_files.py", "--read", "--write", "--remove", cwd=str(project), folder_use="private", **PLAIN)
    assert run.outcome.kind == "finished", run.stderr()
    assert digests(project) == before
    assert "read of the user" in run.stdout()
    assert world_of(run).view == view
    assert listed(run) == {
        "snapshot.pt": "changed",
        "out/log.txt": "created",
        "old.txt": "removed",
        "folder/a.txt": "removed",
        "folder/b.txt": "created",
    }
    kept = {one.path for one in world_of(run).files if one.kept}
    assert kept == {"snapshot.pt", "out/log.txt", "folder/b.txt"} == set(digests(run.folder.files))
    assert (run.folder.files / "snapshot.pt").read_text() == "written by the script"
    assert not run.folder.view.exists()


def test_a_folder_that_is_renamed_is_the_one_that_it_is_alone(
    view: str, launch: Launch, project: Path, tmp_path: Path
) -> None:
    (project / "folder" / "link").symlink_to("a.txt")
    alone = tmp_path / "alone"
    shutil.copytree(project, alone, symlinks=True)
    words = ("uses_files.py", "--write", "--rename")
    before, raw = digests(project), launch(*words, cwd=str(alone), folder_use="plain", **PLAIN)
    run = launch(*words, cwd=str(project), folder_use="private", **PLAIN)

    assert raw.outcome.kind == run.outcome.kind == "finished", run.stderr()
    assert _without_folder(run.stdout()) == _without_folder(raw.stdout())
    assert "Directory not empty" in run.stdout() and "'empty/link'" in run.stdout()
    assert digests(project) == before
    assert listed(run)["empty/a.txt"] == "created"


def _without_folder(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("folder ")]


def test_the_next_run_finds_the_folder_as_the_user_left_it(view: str, launch: Launch, project: Path) -> None:
    for _ in range(2):
        run = launch("uses_files.py", "--read", "--write", cwd=str(project), folder_use="private", **PLAIN)
        assert "read of the user" in run.stdout()


def test_in_an_overlay_the_folder_has_its_own_path_and_absolute_paths_are_private(
    view: str, launch: Launch, project: Path
) -> None:
    before = digests(project)
    path = project / "absolute.txt"
    run = launch("uses_files.py", "--absolute", str(path), cwd=str(project), folder_use="private", **PLAIN)
    at_home = f"folder {project.resolve()}\n" in run.stdout()
    if view == "overlay":
        assert at_home and digests(project) == before and listed(run) == {"absolute.txt": "created"}
    else:  # only the folder in which the script starts is private, and what it wrote elsewhere is named
        assert not at_home and path.read_text() == "written by its absolute path"
        assert listed(run) == {str(path): "created"} and world_of(run).not_private == (str(path),)


def test_a_run_that_writes_nothing_lists_and_keeps_nothing(view: str, launch: Launch, project: Path) -> None:
    run = launch("uses_files.py", cwd=str(project), folder_use="private", **PLAIN)
    assert listed(run) == {} and not run.folder.files.exists()


@pytest.mark.parametrize("launcher", ["fork", "torchrun"])
def test_ranks_of_one_run_share_its_view(view: str, launcher: str, launch: Launch, project: Path) -> None:
    """Under torchrun without a step, for which each rank would import torch."""
    words, kind = ((), "finished") if launcher == "fork" else (("untrained",), "no_steps")
    run = launch("shares_files.py", *words, cwd=str(project), folder_use="private", launcher=launcher)
    assert run.outcome.kind == kind, run.stderr()
    assert [run.stdout(rank).splitlines()[0] for rank in (0, 1)] == ["found rank 0 was here"] * 2
    assert listed(run) == {"from0.txt": "created"}
    assert not (project / "from0.txt").exists()


def test_rehearsed_ranks_have_a_view_each(view: str, launch: Launch, project: Path) -> None:
    run = launch("shares_files.py", cwd=str(project), folder_use="private", kind=Rehearsed(8, 0, 8))
    assert [run.stdout(rank).splitlines()[0] for rank in (0, 1)] == ["found rank 0 was here", "found nothing"]
    assert [(one.path, one.rank) for one in world_of(run).files] == [("from0.txt", 0)]
    assert (run.folder.files / "rank0" / "from0.txt").is_file()


def test_what_a_link_leads_to_is_private_in_an_overlay(
    view: str, launch: Launch, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project / "out").symlink_to(elsewhere)
    run = launch("uses_files.py", "--write", cwd=str(project), folder_use="private", **PLAIN)
    assert run.outcome.kind == "finished", run.stderr()
    if view == "overlay":
        assert digests(elsewhere) == {} and str(elsewhere / "log.txt") in listed(run)


def test_large_files_are_listed_but_not_kept(
    view: str, launch: Launch, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        private_views.Keeper, "__init__", lambda self, folder: vars(self).update(folder=folder, room_bytes=5)
    )
    run = launch("uses_files.py", "--write", cwd=str(project), folder_use="private", **PLAIN)
    assert {one.path: one.kept for one in world_of(run).files} == {"out/log.txt": True, "snapshot.pt": False}


def test_a_script_beside_another_working_folder_is_private_too(
    view: str, launch: Launch, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cwd = tmp_path_factory.mktemp("cwd")
    script = project / "train.py"
    script.write_text((SCRIPTS / "uses_files.py").read_text())
    before = digests(project)
    target = str(project / "beside.txt")
    run = launch(str(script), "--absolute", target, cwd=str(cwd), folder_use="private", **PLAIN)
    assert run.outcome.kind == "finished", run.stderr()
    if view == "overlay":
        assert digests(project) == before and listed(run) == {target: "created"}


def test_a_folder_too_large_to_copy_is_refused_in_a_sentence(
    launch: Launch, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORCE, "copy")
    monkeypatch.setattr(private_views, "MOST_BYTES", 10)
    run = launch("uses_files.py", cwd=str(project), folder_use="private", **PLAIN)
    assert run.outcome.kind == "not_started"
    assert f"no private view can be made of {project}: it holds 15 B" in run.outcome.sentence
    assert "largest: snapshot.pt" in run.outcome.sentence and "--in-place" in run.outcome.hint
    assert not run.folder.view.exists()


def test_the_root_of_the_file_system_is_refused(launch: Launch) -> None:
    run = launch("uses_files.py", cwd="/", folder_use="private", **PLAIN)
    assert run.outcome.kind == "not_started" and "--in-place" in run.outcome.hint


def test_in_place_changes_stay_and_are_listed(launch: Launch, project: Path) -> None:
    run = launch("uses_files.py", "--read", "--write", "--remove", cwd=str(project), folder_use="in_place", **PLAIN)
    assert (project / "snapshot.pt").read_text() == "written by the script"
    assert listed(run)["snapshot.pt"] == "changed" and listed(run)["old.txt"] == "removed"
    assert world_of(run).view == "in_place" and not any(one.kept for one in world_of(run).files)


@pytest.mark.parametrize("use", ["private", "in_place"])
def test_a_checkpoint_that_was_there_and_is_read_is_named(use: str, launch: Launch, project: Path) -> None:
    run = launch("uses_files.py", "--read", cwd=str(project), folder_use=use, **PLAIN)
    assert [one.path for one in world_of(run).read] == ["snapshot.pt"]
    unread = launch("uses_files.py", "--write", cwd=str(project), folder_use=use, **PLAIN)
    assert world_of(unread).read == ()


def test_a_script_without_a_step_that_read_a_checkpoint_is_told_why(launch: Launch, project: Path) -> None:
    idle = launch("uses_files.py", "--read", "--idle", cwd=str(project), folder_use="private", **PLAIN)
    assert idle.outcome.kind == "no_steps"
    assert idle.outcome.sentence.endswith("the script read snapshot.pt, which was there before the run")
    assert "resumed a training that was over" in idle.outcome.hint
    other = launch("uses_files.py", "--idle", cwd=str(project), folder_use="private", **PLAIN)
    assert "read" not in other.outcome.sentence and "arguments" in other.outcome.hint


def test_scripts_that_write_nothing_are_not_looked_at(launch: Launch, project: Path) -> None:
    assert launch("uses_files.py", cwd=str(project), **PLAIN).outcome.world is None


def test_an_outcome_of_before_is_still_read(launch: Launch, project: Path) -> None:
    from scalewise.records.codec import decode, encode
    from scalewise.records.outcome import Outcome

    data = encode(launch("uses_files.py", cwd=str(project), **PLAIN).outcome)
    del data["world"]
    assert decode(Outcome, json.loads(json.dumps(data))).world is None


def test_no_mount_is_left_in_this_namespace(view: str, launch: Launch, project: Path) -> None:
    launch("uses_files.py", "--write", cwd=str(project), folder_use="private", **PLAIN)
    assert "user's" not in Path("/proc/self/mountinfo").read_text()


def test_a_view_can_be_removed_whatever_its_permissions(tmp_path: Path) -> None:
    inner = tmp_path / "view" / "work" / "work"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    inner.chmod(0)
    private_views.discard(tmp_path / "view")
    assert not (tmp_path / "view").exists()
