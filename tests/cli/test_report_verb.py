"""Tests of `scalewise report` as a person uses it: paths on stdout, everything else on stderr."""

import pytest

from run_folders import write_suite
from shared_servers import command_line


def test_reports_of_a_folder_of_suites_go_to_reports_in_the_working_folder(tmp_path):
    write_suite(tmp_path / "runs" / "own-1")
    done = command_line("report", "runs", "--format", "html,tables", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["reports/own.html", "reports/own"]
    assert "writing own.html" in done.stderr
    assert (tmp_path / "reports" / "own" / "exp-steps.md").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["."], "is not a run"),
        (["runs", "--format", "pfd"], "did you mean 'pdf'?"),
        (["runs", "--out", "taken"], "taken"),
    ],
)
def test_a_bad_request_is_a_sentence_and_exit_code_1(tmp_path, words, said):
    write_suite(tmp_path / "deep" / "er" / "own-1")
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "runs").symlink_to(tmp_path / "deep" / "er")
    done = command_line("report", *words, cwd=tmp_path)

    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.split())
