"""Tests of where everything of a run lies."""

from scalewise.records.folder import RunFolder, SuiteFolder


def test_rank_files_are_found_in_the_order_of_ranks_and_nothing_else_is(tmp_path):
    for name in ("rank10.jsonl", "rank2.jsonl", "rankx.jsonl", "rank².jsonl", "rank0.stdout.log", "samples.jsonl"):
        (tmp_path / name).write_text("")
    found = RunFolder(tmp_path).rank_files()
    assert [(rank, path.name) for rank, path in found] == [(2, "rank2.jsonl"), (10, "rank10.jsonl")]


def test_runs_of_a_suite_are_the_folders_that_hold_a_spec(tmp_path):
    for name in ("b", "a", "logs"):
        (tmp_path / name).mkdir()
    for name in ("b", "a"):
        (tmp_path / name / "spec.json").write_text("{}")
    assert [folder.path.name for folder in SuiteFolder(tmp_path).runs()] == ["a", "b"]


def test_every_file_lies_inside_its_folder(tmp_path):
    folder = RunFolder(tmp_path)
    files = [folder.spec, folder.machine, folder.command, folder.pulses, folder.samples, folder.outcome]
    files += [folder.rank(3), folder.stdout(3), folder.stderr(3), folder.stack(3)]
    assert len(set(files)) == 10 and {file.parent for file in files} == {tmp_path}
