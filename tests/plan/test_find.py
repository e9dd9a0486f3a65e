"""Tests of finding the suite that a person means."""

from pathlib import Path

import pytest

from scalewise.errors import BadRequest
from scalewise.plan.experiment import subject_folder
from scalewise.plan.find import built_in_suites, course_folder, find_suite, script_path, script_problem
from scalewise.plan.python_file import script_digest


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


ELSEWHERE = Path("/no/such/folder")


def test_a_script_of_the_course_is_the_projects_own():
    path = script_path("course:practical6_ddp.py", {}, ELSEWHERE)
    assert path == course_folder() / "practical6_ddp.py" and path.is_file()


def test_a_students_copy_in_the_working_folder_wins(tmp_path):
    own = tmp_path / "course" / "practical6_ddp.py"
    own.parent.mkdir()
    own.touch()
    assert script_path("course:practical6_ddp.py", {}, tmp_path) == own
    assert script_path("course:practical7_amp.py", {}, tmp_path) == course_folder() / "practical7_amp.py"


def test_an_axis_can_choose_the_script():
    assert script_path("course:{code}.py", {"code": "practical7_amp"}, ELSEWHERE).name == "practical7_amp.py"
    assert script_path("scalewise:{which}", {"which": "linear"}, ELSEWHERE) == subject_folder() / "linear.py"
    assert script_path("/my/{{odd}}/{a}.py", {"a": 1}, ELSEWHERE) == Path("/my/{odd}/1.py")


@pytest.mark.parametrize(
    ("script", "reason", "remedy"),
    [
        ("course:practical6_dpp.py", "the course has no script practical6_dpp.py", "did you mean 'practical6_ddp.py'?"),
        ("course:zzz.py", "the course has no script zzz.py", "put the script into ./course"),
        ("/no/such.py", "the script /no/such.py does not exist", "correct `script`"),
        ("/", "the script / is a folder", "correct `script`"),
    ],
)
def test_a_script_that_is_not_there_is_explained(script, reason, remedy):
    problem = script_problem(script, script_path(script, {}, ELSEWHERE), ELSEWHERE)
    assert problem is not None and problem[0] == reason and remedy in problem[1]


def test_a_misspelt_script_of_the_students_own_is_found_too(tmp_path):
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "my_own.py").touch()
    problem = script_problem("course:my_onw.py", script_path("course:my_onw.py", {}, tmp_path), tmp_path)
    assert problem == ("the course has no script my_onw.py", "did you mean 'my_own.py'?")


def test_an_edit_of_the_script_or_of_what_it_imports_from_beside_it_is_noticed(tmp_path):
    script, part, other = (tmp_path / name for name in ("a.py", "part.py", "other.py"))
    script.write_text("from part import x\nimport os\n")
    for file in (part, other):
        file.write_text("x = 1\n")
    before = script_digest(script)
    other.write_text("x = 2\n")
    assert script_digest(script) == before
    part.write_text("x = 2\n")
    assert script_digest(script) != before
    assert script_digest(tmp_path / "none.py") == "unreadable"


@pytest.mark.parametrize("where", ["/", "course:"])
def test_a_name_that_no_file_can_have_is_explained(where):
    script = f"{where}{'x' * 5000}.py"
    problem = script_problem(script, script_path(script, {}, ELSEWHERE), ELSEWHERE)
    said = "the course has no script" if where == "course:" else "cannot be looked at: File name too long"
    assert problem is not None and said in problem[0] and len(problem[0]) < 500
