"""Tests of finding the suite that a person means."""

import pytest

from scalewise.errors import BadRequest
from scalewise.plan.find import find_suite, suite_names, suites_folder


@pytest.fixture
def built_in(tmp_path):
    folder = tmp_path / "built-in"
    folder.mkdir()
    for name in ("tour", "homework1"):
        (folder / f"{name}.toml").write_text("")
    return folder


def test_a_name_finds_the_built_in_suite(built_in):
    assert find_suite("tour", built_in) == built_in / "tour.toml"
    assert suite_names(built_in) == ("homework1", "tour")


def test_a_path_finds_the_file(built_in, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("")
    assert find_suite(str(path), built_in) == path


def test_an_unknown_name_gets_the_nearest_and_the_list(built_in):
    with pytest.raises(BadRequest) as caught:
        find_suite("tuor", built_in)
    assert caught.value.sentence == "There is no suite 'tuor'."
    assert caught.value.hint == "Did you mean 'tour'? Built-in suites: homework1, tour."


def test_a_missing_file_gets_the_nearest_file_beside_it(built_in, tmp_path):
    (tmp_path / "scaling.toml").write_text("")
    with pytest.raises(BadRequest) as caught:
        find_suite(str(tmp_path / "scalign.toml"), built_in)
    assert "Did you mean 'scaling.toml'?" in caught.value.hint


def test_a_folder_and_a_script_are_no_suites(built_in, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(BadRequest, match="is a folder, not a suite"):
        find_suite(str(tmp_path), built_in)
    with pytest.raises(BadRequest, match="is not a suite"):
        find_suite(str(script), built_in)


def test_the_built_in_suites_lie_in_the_package():
    assert suites_folder().name == "suites"
    assert suites_folder().parent.name == "scalewise"
