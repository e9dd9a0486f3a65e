"""Tests of the checks of timing: clocks read while the device works, warm-up in averages, reads at every step."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_device_use

from scalewise.doctor.case import Abstain, case_of
from scalewise.doctor.checks import clock_without_synchronise, read_every_step, warm_up_in_average
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import (
    BackwardNote,
    ClockNote,
    CollectiveNote,
    DeviceSyncNote,
    ForwardNote,
    HostReadNote,
    StepNote,
)

MILLISECOND = 1_000_000
PER_STEP = ["start = clock()", "elapsed = clock() - start"]
LOOP = ["start = clock()", "print((clock() - start) / steps)"]
TOTAL = ["start = clock()", "print(clock() - start)"]
CHAIN = ["t0 = clock()", "t1 = clock(); dt = t1 - t0; t0 = t1"]
LISTED = ["start = clock()", "times.append(clock() - start)", "print(mean(times))"]
RATE = ["start = clock()", "meters['rate'].update(samples / (clock() - start))"]
LISTED_LATER = [*LISTED[:2], "print(mean(times[3:]))"]


class Timed(Sheet):
    """Notes whose clocks are read at the lines of a real file, at moments that the test chooses."""

    def __init__(self, folder, lines):
        super().__init__()
        self.file = folder / "timed.py"
        self.file.write_text("\n".join(lines) + "\n")
        self.now_ns = 0
        for number, line in enumerate(lines):
            self.rows.append(PlaceRow(100 + number, str(self.file), number + 1, "main", line))

    def add(self, kind, line=None, **values):
        self.now_ns += 1000
        return super().add(kind, line, **{"at_ns": self.now_ns, **values})

    def clock(self, number):
        self.add(ClockNote)
        self.notes[-1] = replace(self.notes[-1], place=100 + number)
        return self

    def spend(self, milliseconds):
        self.now_ns += round(milliseconds * MILLISECOND)
        return self


def far_on(sheet):
    """The same notes as they are made after the first passes, when nothing is read from the device any more."""
    for index, note in enumerate(sheet.notes):
        if isinstance(note, ForwardNote):
            sheet.notes[index] = replace(note, digest=None, row_digests=[])
        elif isinstance(note, BackwardNote):
            sheet.notes[index] = replace(note, factor=None, reduction="unknown", elements=None, gained=None)
    return sheet


def clocks(sheet, *, on_cpu=True, **run):
    sheet.row(make_device_use("cuda:0"))
    return clock_without_synchronise.examine(make_case(sheet, on_cpu=on_cpu, **run))


def per_step(sheet, steps=6, wait=None):
    for _ in range(steps):
        sheet.clock(0).window(batch=False).spend(1)
        if wait is not None:
            sheet.add(wait)
        sheet.clock(1)
    return sheet


def test_a_step_that_is_timed_without_a_wait_is_found(tmp_path):
    (finding,) = clocks(per_step(Timed(tmp_path, PER_STEP)))
    assert finding.where.text == PER_STEP[1] and finding.also[0].text == PER_STEP[0]
    assert "6 of 6 cases" in finding.sentence and finding.proof == "observed" and finding.price is None


@pytest.mark.parametrize("wait", [DeviceSyncNote, HostReadNote])
def test_a_wait_before_the_second_reading_is_enough(tmp_path, wait):
    assert clocks(per_step(Timed(tmp_path, PER_STEP), wait=wait)) == ()


def test_a_barrier_is_a_wait(tmp_path):
    sheet = Timed(tmp_path, PER_STEP).clock(0).window().add(CollectiveNote, operation="barrier").clock(1)
    assert clocks(sheet) == ()


def test_a_reading_passed_on_leaves_nothing_out(tmp_path):
    sheet = Timed(tmp_path, CHAIN).clock(0)
    for _ in range(6):
        sheet.window().clock(1)
    assert clocks(sheet) == ()


@pytest.mark.parametrize(("lines", "steps", "found"), [(LOOP, 20, True), (TOTAL, 20, False), (LOOP, 60, False)])
def test_a_whole_loop_counts_when_an_average_is_made_of_few_steps(tmp_path, lines, steps, found):
    sheet = Timed(tmp_path, lines).clock(0).windows(steps).clock(1)
    assert bool(clocks(sheet)) is found


def test_times_of_data_alone_are_nothing_to_the_device(tmp_path):
    assert clocks(Timed(tmp_path, PER_STEP).clock(0).batch().clock(1).window()) == ()


def test_on_a_gpu_the_devices_own_time_tells_how_wrong_it_is(tmp_path):
    (finding,) = clocks(far_on(per_step(Timed(tmp_path, PER_STEP))), on_cpu=False, seconds=0.010)
    assert finding.price.unit == "times" and 5 < finding.price.value < 11 and finding.proof == "observed"


def test_on_a_gpu_a_time_that_agrees_with_the_devices_is_right(tmp_path):
    assert clocks(far_on(per_step(Timed(tmp_path, PER_STEP))), on_cpu=False, seconds=0.001) == ()


def test_first_passes_for_which_the_examination_waits_tell_nothing(tmp_path):
    with pytest.raises(Abstain, match="first passes"):
        clocks(per_step(Timed(tmp_path, PER_STEP)), on_cpu=False, seconds=0.010)


def test_a_script_for_the_cpu_is_not_judged(tmp_path):
    case = make_case(per_step(Timed(tmp_path, PER_STEP)))
    for check in (clock_without_synchronise, read_every_step):
        with pytest.raises(Abstain, match="no GPU"):
            check.examine(case)


def warm_up(sheet, between_ns=()):
    """`between_ns`: of what leads to each step, how much the script spent before it opened."""
    case = make_case(sheet)
    (record,) = case.run.ranks
    ends = [0, *(note.at_ns for note in sheet.notes if isinstance(note, StepNote))]
    between = [*between_ns, *[0] * len(ends)]
    steps = tuple(
        replace(row, step_ns=ends[row.step + 1] - ends[row.step] - between[row.step], data_ns=0, data_inside_ns=0)
        for row in record.steps
    )
    return warm_up_in_average.examine(case_of(replace(case.run, ranks=(replace(record, steps=steps),))))


def loop(sheet, first, rest, steps=20):
    sheet.clock(0)
    for step in range(steps):
        sheet.spend(rest if step else first).window(batch=False)
    return sheet.clock(1)


def test_an_average_that_begins_with_a_slow_step_is_found(tmp_path):
    (finding,) = warm_up(loop(Timed(tmp_path, LOOP), first=400, rest=10))
    assert finding.where.text == LOOP[1] and finding.price.value == pytest.approx(2.95, abs=0.05)
    assert "195% too high" in finding.sentence


def test_what_the_script_does_before_its_first_step_opens_is_no_warm_up(tmp_path):
    rollouts = [390 * MILLISECOND]  # until there is enough to learn from
    assert warm_up(loop(Timed(tmp_path, LOOP), first=400, rest=10), rollouts) == ()


@pytest.mark.parametrize(
    ("lines", "first", "rest"),
    [(TOTAL, 400, 10), (LOOP, 10, 10), (LOOP, 25, 1), (LOOP, 30, 20)],
    ids=["no average", "no warm-up", "no more than watching costs", "too little"],
)
def test_what_is_no_wrong_average_is_not_found(tmp_path, lines, first, rest):
    assert warm_up(loop(Timed(tmp_path, lines), first, rest)) == ()


def test_a_warm_up_before_the_first_reading_is_right(tmp_path):
    sheet = Timed(tmp_path, LOOP).spend(400).windows(3)
    assert warm_up(loop(sheet, first=50, rest=10)) == ()


def test_a_clock_that_is_set_anew_shows_settled_steps_too(tmp_path):
    sheet = Timed(tmp_path, ["last = clock()", "now = clock()", "print(steps / (now - last)); last = now"]).clock(0)
    for step in range(30):
        sheet.spend(10 if step else 400).window(batch=False)
        if step % 10 == 9:
            sheet.clock(1)
    assert warm_up(sheet) == ()


def test_a_late_slow_step_is_no_warm_up(tmp_path):
    sheet = Timed(tmp_path, LOOP).clock(0)
    for step in range(20):
        sheet.spend(400 if step == 12 else 10).window(batch=False)
    assert warm_up(sheet.clock(1)) == ()


@pytest.mark.parametrize(("lines", "found"), [(LISTED, True), (LISTED_LATER, False), (RATE, False)])
def test_a_mean_of_listed_times_includes_the_first_unless_it_is_left_out_and_a_rate_of_each_step_is_no_mean(
    tmp_path, lines, found
):
    sheet = Timed(tmp_path, lines)
    for step in range(12):
        sheet.clock(0).spend(10 if step else 300).window(batch=False).clock(1)
    assert bool(warm_up(sheet)) is found


def test_without_clocks_or_steps_nothing_can_be_said(tmp_path):
    with pytest.raises(Abstain, match="no clock"):
        warm_up(Sheet().windows(9))
    with pytest.raises(Abstain, match="8 optimizer steps"):
        warm_up(Timed(tmp_path, LOOP).clock(0).windows(3).clock(1))


def reads(sheet, *, on_cpu=False):
    sheet.row(make_device_use("cuda"))
    return read_every_step.examine(make_case(sheet, on_cpu=on_cpu))


def reading(every=1, wait_ns=MILLISECOND, call="item", steps=12, line="total += loss.item()"):
    sheet = Sheet()
    for step in range(steps):
        sheet.window()
        if step % every == 0:
            sheet.add(HostReadNote, line=line, wait_ns=wait_ns, call=call)
    return far_on(sheet)


def test_a_read_at_every_step_is_found_with_what_it_waits():
    (finding,) = reads(reading())
    assert finding.where.text == "total += loss.item()" and finding.proof == "observed"
    assert (finding.price.value, finding.price.unit) == (1.0, "ms per step")


@pytest.mark.parametrize(
    ("line", "lines"), [("total += loss.item()", 3), ("return loss.item()", 1), ("if torch.isnan(loss):", 1)]
)
def test_a_line_that_decides_what_runs_next_is_not_put_under_a_condition(line, lines):
    (finding,) = reads(reading(line=line))
    assert line in finding.fix and len(finding.fix.splitlines()) == lines


def test_on_a_cpu_it_is_only_suspected():
    (finding,) = reads(reading(wait_ns=100), on_cpu=True)
    assert finding.proof == "suspected" and finding.price is None


@pytest.mark.parametrize(
    "sheet", [reading(every=4), reading(wait_ns=1000), reading(call="item, indirect"), far_on(Sheet().windows(12))]
)
def test_reads_that_do_not_matter_are_not_found(sheet):
    assert reads(sheet) == ()


def test_reads_in_the_first_passes_need_not_wait_and_tell_nothing():
    sheet = reading(wait_ns=0, steps=0).windows(24)
    with pytest.raises(Abstain, match="after the first passes"):
        reads(sheet)


def test_few_steps_are_not_judged():
    with pytest.raises(Abstain, match="optimizer steps"):
        reads(reading(steps=3))
