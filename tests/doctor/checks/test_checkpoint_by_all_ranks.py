"""Tests of the check for ranks that write one checkpoint."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain, case_of
from scalewise.doctor.checks.checkpoint_by_all_ranks import examine
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import SaveNote

LINE = 'torch.save(model.state_dict(), "model.pt")'


def saving(path, steps=2):
    return Sheet().windows(steps).add(SaveNote, line=LINE, path=path, size_bytes=1000)


def test_one_file_written_by_all_ranks_is_found():
    (finding,) = examine(make_case(saving("/runs/model.pt"), ranks=3))
    assert "3 ranks of one host" in finding.sentence and finding.counts and finding.ranks == (0, 1, 2)
    assert LINE in finding.fix and finding.price.value == 2000


def test_one_line_is_one_finding():
    sheet = saving("/runs/model.pt").windows(2).add(SaveNote, line=LINE, path="/runs/model.pt")
    (finding,) = examine(make_case(sheet, ranks=2))
    assert any("2 such saves to 1 file in all" in fact for fact in finding.evidence)


def test_a_file_for_each_rank_is_right():
    assert not examine(make_case(saving("/runs/model_0.pt"), saving("/runs/model_1.pt")))


def test_one_saving_rank_is_right():
    assert not examine(make_case(saving("/runs/model.pt"), Sheet().windows(2)))


def test_ranks_that_save_in_turns_are_right():
    assert not examine(make_case(saving("/runs/model.pt", 1).window(), saving("/runs/model.pt", 2)))


def test_what_is_no_file_by_name_is_not_counted():
    assert not examine(make_case(saving(""), ranks=2))
    assert not examine(make_case(saving("/dev/null"), ranks=2))


def test_hosts_have_a_disk_each():
    case = make_case(saving("/runs/model.pt"), ranks=2)
    first, second = case.run.ranks
    apart = replace(case.run, ranks=(first, replace(second, start=replace(second.start, host="other"))))
    assert not examine(case_of(apart))


def test_one_rank_is_not_compared():
    with pytest.raises(Abstain):
        examine(make_case(saving("/runs/model.pt")))


def test_a_function_that_saves_is_guarded_as_a_whole_with_what_else_it_writes(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "def save_checkpoint(state, best):\n"
        "    torch.save(state, 'last.pt')\n"
        "    if best:\n"
        "        shutil.copyfile('last.pt', 'best.pt')\n"
    )
    sheet = Sheet().windows(2)
    sheet.row(PlaceRow(90, str(script), 2, "save_checkpoint", "torch.save(state, 'last.pt')"))
    sheet.notes.append(SaveNote(10**6, 90, "/runs/last.pt", 1000))
    (finding,) = examine(make_case(sheet, ranks=2))
    assert "    save_checkpoint(...)" in finding.fix
    assert "# line 4: shutil.copyfile('last.pt', 'best.pt')" in finding.fix


def test_a_function_with_another_name_is_not_guarded_whole(tmp_path):
    sheet = Sheet().windows(2)
    sheet.row(PlaceRow(90, str(tmp_path / "gone.py"), 2, "main", LINE))
    sheet.notes.append(SaveNote(10**6, 90, "/runs/last.pt", 1000))
    (finding,) = examine(make_case(sheet, ranks=2))
    assert f"    {LINE}\n" in finding.fix and "main(...)" not in finding.fix
