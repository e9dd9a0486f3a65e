"""Tests of cutting notes into windows."""

from case_factory import Sheet
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.windows import windows_of
from scalewise.records.notes import StepNote


def test_a_window_ends_with_its_step_and_the_rest_is_kept():
    sheet = Sheet().window(2).window(2).micro_batch()
    windows, rest = windows_of(sheet.notes)
    assert [len(window.backwards) for window in windows] == [2, 2]
    assert [window.number for window in windows] == [0, 1] and rest.number == 2
    assert len(windows[1].zeros) == 1, "what follows a step belongs to the next window"
    assert rest.step is None and len(rest.backwards) == 1 and windows[0].step is not None


def test_a_window_tells_its_calls_apart():
    sheet = Sheet().batch().forward(trains=False).forward().scaler("scale").backward().scaler("unscale_").clip()
    window = windows_of(sheet.collective().step().notes)[0][0]
    counts = [window.forwards, window.backwards, window.scaler, window.clips, window.collectives, window.batches]
    assert [len(one) for one in counts] == [1, 1, 2, 1, 1, 1], "an evaluation is no forward pass that trains"


def test_no_notes_are_no_window():
    windows, rest = windows_of(())
    assert windows == () and rest.notes == () and rest.step is None


@given(st.lists(st.sampled_from(["forward", "backward", "zero", "step", "batch"]), max_size=40))
def test_nothing_is_lost_and_each_window_has_one_step(calls):
    sheet = Sheet()
    for call in calls:
        getattr(sheet, call)()
    windows, rest = windows_of(sheet.notes)
    assert [note for window in (*windows, rest) for note in window.notes] == sheet.notes
    assert all(len(window.all(StepNote)) == 1 for window in windows) and not rest.all(StepNote)
