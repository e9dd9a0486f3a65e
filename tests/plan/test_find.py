"""Tests of finding the suite that a person means."""

import pytest

from scalewise.errors import BadRequest
from scalewise.plan.find import built_in_suites, find_suite


def test_a_name_finds_the_built_in_suite_wherever_it_lies():
    assert find_suite("tour") == built_in_suites()["tour"]
    assert find_suite("homework1").parts[-3:] == ("course", "homework1", "suite.toml")
    assert find_suite("tour").parts[-2:] == ("suites", "tour.toml")


def test_every_built_in_suite_is_a_file_and_names_are_in_order():
    found = built_in_suites()
    assert list(found) == sorted(found) and {"homework1", "homework2", "homework3", "practical7", "tour"} <= set(found)
    assert all(path.is_file() for path in found.values())


def test_a_path_finds_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("")
    assert find_suite(str(path)) == path


def test_an_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(BadRequest) as caught:
        find_suite("tuor")
    assert caught.value.sentence == "There is no suite 'tuor'."
    assert caught.value.hint == f"Did you mean 'tour'? Built-in suites: {', '.join(built_in_suites())}."


def test_a_missing_file_gets_the_nearest_file_beside_it(tmp_path):
    (tmp_path / "scaling.toml").write_text("")
    with pytest.raises(BadRequest) as caught:
        find_suite(str(tmp_path / "scalign.toml"))
    assert "Did you mean 'scaling.toml'?" in caught.value.hint


def test_a_folder_and_a_script_are_no_suites(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(BadRequest, match="is a folder, not a suite"):
        find_suite(str(tmp_path))
    with pytest.raises(BadRequest, match="is not a suite"):
        find_suite(str(script))
