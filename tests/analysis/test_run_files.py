"""What runs did to files is told in a line or two, and nothing is told where nothing was done."""

from dataclasses import replace

import numpy as np

from factories import make_outcome, make_run
from scalewise.analysis.run_files import files_lines, read_lines, run_files_of
from scalewise.records.outcome import ReadFile, World, WrittenFile

STEPS = np.full(40, 0.01)


def runs_with(*worlds):
    outcomes = [replace(make_outcome(), world=world) for world in worlds]
    return run_files_of([make_run(STEPS, repeat=index, outcome=one) for index, one in enumerate(outcomes)])


def written(*names, **changes):
    files = tuple(replace(WrittenFile(name, "created", 1000), **changes) for name in names)
    return {"files": files, "files_in_all": len(files), "bytes_in_all": 1000 * len(files)}


def test_runs_that_wrote_nothing_or_were_not_looked_at_say_nothing():
    found = runs_with(World("overlay"), None)
    assert len(found) == 1 and files_lines(found) == [] == read_lines(found)


def test_what_a_private_run_wrote_is_named_with_its_place():
    (line,) = files_lines(runs_with(World("overlay", **written("a.pt", "b.pt", kept=True))))
    assert line.startswith("exp-ranks1-r0 wrote 2 files (1.95 KiB: a.pt, b.pt) in a private view")
    assert line.endswith("exp-ranks1-r0/files.")


def test_many_runs_and_many_files_still_make_one_line():
    many = World("copy", **written(*"abcde", kept=True))
    (line,) = files_lines(runs_with(many, World("copy", **written("a", kept=True))))
    assert line.startswith("2 runs wrote 1 to 5 files each (4.88 KiB: a, b, c and 2 more) in a private copy")


def test_files_that_were_too_large_to_keep_are_told_of():
    mixed = World("overlay", **written("a", "b"))
    mixed = replace(mixed, files=(replace(mixed.files[0], kept=True), mixed.files[1]))
    assert "the first 1.00 GiB of it" in files_lines(runs_with(mixed))[0]
    assert "none of it is kept" in files_lines(runs_with(World("overlay", **written("a"))))[0]


def test_changes_of_the_users_own_folder_are_not_called_private():
    lines = files_lines(runs_with(World("in_place", **written("a.pt", change="changed"))))
    assert lines == ["exp-ranks1-r0 wrote 1 file (0.98 KiB: a.pt changed) in the working folder itself."]


def test_what_was_not_private_and_what_could_not_be_listed_is_said():
    lines = files_lines(runs_with(World("copy", not_private=("/p/a.pt",), unlisted="/p holds more than 20,000 files")))
    assert lines[0].endswith("where they are: /p/a.pt.")
    assert lines[1] == "What the runs wrote is not listed: /p holds more than 20,000 files."


def test_the_same_checkpoint_read_by_several_runs_is_told_once():
    read = World("overlay", read=(ReadFile("last.pt"),))
    (line,) = read_lines(runs_with(read, read))
    assert line.startswith("last.pt, which was there before the run, was read by exp-ranks1-r0 and 1 more:")
