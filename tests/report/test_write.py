"""Reports as files: the same bytes from the same runs, made whatever is missing, and the gaps named."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from specimen import NASTY, specimen

from factories import make_outcome
from run_folders import write_damaged_suite, write_run, write_suite
from scalewise.errors import BadRequest
from scalewise.report import build_document
from scalewise.report.write import (
    ReportOptions,
    parse_formats,
    suite_folders,
    write_document,
    write_merged_report,
    write_report,
    write_reports,
)


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def written(folder: Path, formats: tuple[str, ...] = ("html", "tables")) -> tuple[str, list[str]]:
    """The HTML of the report on a folder, and what was said."""
    said: list[str] = []
    write_report(folder, ReportOptions(folder.parent.parent / "out", formats), said.append)
    (page,) = (folder.parent.parent / "out").glob("*.html")
    return page.read_text(encoding="utf-8"), said


@pytest.mark.processes
def test_the_same_folder_gives_the_same_bytes_in_any_process_and_any_working_folder(tmp_path):
    folder = write_damaged_suite(tmp_path / "runs" / "own-1c9e04ab", NASTY)
    made = []
    for number, seed in enumerate(("1", "77")):
        cwd = tmp_path / "somewhere" / ("x" * number) / "deep"
        cwd.mkdir(parents=True)
        out = tmp_path / f"out{number}"
        shown = os.path.relpath(folder, cwd) if number else str(folder)
        command = [sys.executable, "-m", "scalewise", "report", shown, "--out", str(out)]
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [f"{out}/own.pdf", f"{out}/own.html", f"{out}/own"]
        made.append(digests(out))

    tables = {f"own/exp-{name}.{ending}" for name in ("steps", "phases") for ending in ("csv", "json", "md")}
    assert set(made[0]) == {"own.pdf", "own.html", *tables}
    assert made[0] == made[1]


def test_a_copy_of_the_folder_elsewhere_gives_the_same_pdf(tmp_path):
    first = write_damaged_suite(tmp_path / "a" / "own-1")
    second = write_damaged_suite(tmp_path / "b" / "far" / "own-1")
    made = [
        write_report(folder, ReportOptions(tmp_path / f"out{number}", ("pdf",)))
        for number, folder in enumerate((first, second))
    ]

    assert made[0][0].read_bytes() == made[1][0].read_bytes()


def test_failed_torn_unfinished_and_unreadable_runs_are_named_and_cost_no_report(tmp_path):
    page, said = written(write_damaged_suite(tmp_path / "runs" / "own-1"))

    assert "Rank 1 ran out of memory: my words" in page
    assert "exp-ranks2-r1: not finished" in page
    assert "experiment later: no run of it is here" in page
    assert "exp-ranks8-r0/spec.json" in page
    assert "watcher incomplete" in page and str(tmp_path) not in page
    assert not [line for line in said if "could not be made" in line]


def test_a_suite_of_which_every_run_failed_still_has_a_report(tmp_path):
    folder = tmp_path / "runs" / "own-1"
    write_run(folder, "exp-ranks1-r0", outcome=make_outcome("raised", "Rank 0 raised ValueError: mine."))
    files = write_report(folder, ReportOptions(tmp_path / "out"))

    assert [path.name for path in files] == ["suite.pdf", "suite.html", "suite"]
    assert "Rank 0 raised ValueError: mine." in files[1].read_text()


def test_names_from_scripts_are_text_everywhere(tmp_path):
    folder = write_damaged_suite(tmp_path / "runs" / "own-1", NASTY)
    write_run(folder, "exp-x-ranks1-r0", 1, axes={"lr": "=cmd|' /C calc'!A0", NASTY: "<script>alert(2)</script>"})
    page, _ = written(folder, ("pdf", "html", "tables"))
    table = (tmp_path / "out" / "own" / "exp-steps.csv").read_text()

    assert "<script>alert" not in page and "&lt;script&gt;alert(2)" in page
    assert "\n'=cmd|" in table and "\n=cmd" not in table


def test_a_section_that_raises_is_a_named_hole(tmp_path, monkeypatch):
    def build(evidence):
        raise ZeroDivisionError("no steps")

    broken = ModuleType("scalewise.report.sections.any_broken")
    broken.build = build  # type: ignore[attr-defined]
    right = build_document.section_modules
    monkeypatch.setattr(build_document, "section_modules", lambda suite: (broken, *right(suite)))
    page, said = written(write_suite(tmp_path / "runs" / "own-1"))

    assert "This section could not be made from these runs: ZeroDivisionError: no steps." in page
    assert any("section any_broken could not be made: ZeroDivisionError" in line for line in said)
    assert "Strong scaling" in page


def test_a_parent_folder_gives_one_report_for_each_suite_in_it(tmp_path):
    for name in ("own-1", "own-2"):
        write_suite(tmp_path / "runs" / name)
    (tmp_path / "runs" / "notes").mkdir()
    made = write_reports(suite_folders(tmp_path / "runs"), ReportOptions(tmp_path / "out", ("tables",)))

    assert [path.name for path in made] == ["own", "own-2"]


def test_one_run_alone_has_a_report(tmp_path):
    folder = write_suite(tmp_path / "runs" / "own-1")
    (page,) = write_report(folder / "exp-ranks2-r0", ReportOptions(tmp_path / "out", ("html",), link_raw_rows=True))
    assert "exp-ranks2-r0/rank0.jsonl" in page.read_text()


def test_without_typst_the_rest_is_written_and_the_reason_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    folder = write_suite(tmp_path / "runs" / "own-1")
    said: list[str] = []
    made = write_report(folder, ReportOptions(tmp_path / "out"), said.append)

    assert [path.name for path in made] == ["own.html", "own"]
    assert any("typst" in line and "pip install typst" in line for line in said)
    with pytest.raises(BadRequest, match="typst"):
        write_report(folder, ReportOptions(tmp_path / "out", ("pdf",)))


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(BadRequest, match="Cannot write the report"):
        write_document(specimen(), tmp_path, tmp_path / "taken" / "out", ("tables",), lambda _: None)


@pytest.mark.parametrize(
    ("text", "said"), [("pfd", "did you mean 'pdf'"), ("", "Formats are pdf"), ("pdf,doc", "'doc'")]
)
def test_a_format_that_does_not_exist_is_refused(text, said):
    with pytest.raises(BadRequest) as refused:
        parse_formats(text)
    assert said in f"{refused.value.sentence} {refused.value.hint}"


def test_formats_are_taken_once_and_in_order():
    assert parse_formats("html, pdf,html") == ("html", "pdf")


def test_a_folder_of_which_nothing_can_be_read_still_has_a_report(tmp_path):
    folder = tmp_path / "runs" / "own-1"
    (folder / "a-r0").mkdir(parents=True)
    (folder / "a-r0" / "spec.json").write_text("[")
    page, said = written(folder, ("pdf", "html", "tables"))

    assert "not read: a-r0/spec.json" in page
    assert not [line for line in said if "could not be" in line]


def test_runs_of_two_machines_make_one_report_and_sections_see_both(tmp_path):
    here, there = (write_suite(tmp_path / name / "own-1") for name in ("here", "there"))
    seen: list[int] = []

    class Pages(ModuleType):
        ORDER = 1

        @staticmethod
        def build(evidence):
            seen.append(len(evidence.elsewhere))

    options = ReportOptions(
        tmp_path / "out", ("tables",), pages_of=lambda _: build_document.SuitePages((Pages("pages"),))
    )
    write_merged_report(here, [there], options)
    assert seen == [1]


def test_runs_of_different_suites_are_not_merged(tmp_path):
    here, there = (write_suite(tmp_path / name / "own-1") for name in ("here", "there"))
    (there / "suite.toml").write_text((there / "suite.toml").read_text().replace('name = "own"', 'name = "mine"', 1))
    with pytest.raises(BadRequest, match=r"is of own, and .* is of mine"):
        write_merged_report(here, [there], ReportOptions(tmp_path / "out", ("tables",)))
