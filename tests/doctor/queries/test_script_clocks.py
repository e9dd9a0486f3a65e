"""Tests of what a script measures with its clocks, as its source tells."""

import textwrap

import pytest

from scalewise.doctor.queries.script_clocks import measures


def read(tmp_path, text):
    """The measures in a source whose clocks are called `clock()`."""
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    lines = frozenset(number for number, line in enumerate(path.read_text().splitlines(), 1) if "clock()" in line)
    measures.cache_clear()
    return measures(str(path), lines)


@pytest.mark.parametrize(
    ("use", "averaged"),
    [
        ("print(elapsed)", False),
        ("print(elapsed / steps)", True),
        ("print(elapsed * 1000 / steps)", True),
        ("print(samples / elapsed)", True),
        ("print(elapsed / 60)", False),
        ("ms = elapsed * 1e3\nprint(ms / steps)", True),
        ("times.append(elapsed)\nprint(sum(times) / len(times))", True),
        ("times.append(elapsed)\nprint(numpy.mean(times))", True),
        ("times.append(elapsed)\nprint(numpy.mean(times[5:]))", False),
        ("times.append(elapsed)\nprint(statistics.median(times))", False),
        ("total += elapsed\nprint(total / steps)", True),
        ("total += elapsed\ntotal /= steps", True),
        ("print(done / steps)", False),
    ],
)
def test_an_average_is_a_division_by_no_unit_or_a_mean(tmp_path, use, averaged):
    (measure,) = read(tmp_path, f"start = clock()\nwork()\nelapsed = clock() - start\n{use}\n")
    assert (measure.begins, measure.ends, measure.averaged) == ({1}, {3}, averaged)


@pytest.mark.parametrize(
    ("use", "gathered"),
    [
        ("print(samples / elapsed)", False),
        ("meters['rate'].update(samples / elapsed)", False),
        ("rate = samples / elapsed\nrates.append(rate)\nprint(rates)", False),
        ("rate = samples / elapsed\nrates.append(rate)\nprint(numpy.mean(rates))", True),
        ("times.append(elapsed)\nprint(sum(times) / len(times))", True),
        ("total += elapsed\nshown = total * 1000\nprint(shown / steps)", True),
    ],
)
def test_an_average_of_many_differences_is_told_from_the_rate_of_one(tmp_path, use, gathered):
    (measure,) = read(tmp_path, f"start = clock()\nwork()\nelapsed = clock() - start\n{use}\n")
    assert measure.gathered is gathered


def test_a_plain_number_may_be_a_unit_or_the_number_of_steps(tmp_path):
    (measure,) = read(tmp_path, "start = clock()\nprint((clock() - start) / 20)\n")
    assert not measure.averaged and measure.divisors == {20.0}


def test_a_reading_that_is_passed_on_begins_the_next_span(tmp_path):
    (measure,) = read(tmp_path, "t0 = clock()\nwhile True:\n    t1 = clock()\n    dt = t1 - t0\n    t0 = t1\n")
    assert measure.begins == {1, 3} and measure.ends == {3}


def test_attributes_units_and_pairs_are_followed(tmp_path):
    text = """
    class Timer:
        def start(self):
            self.began = clock() * 1000
        def stop(self):
            now, self.last = clock() * 1000, 1
            self.spent = now - self.began
    """
    (measure,) = read(tmp_path, text)
    assert measure.begins == {4} and measure.ends == {6}


@pytest.mark.parametrize("text", ["x = clock()\nprint(5 - x)", "print(clock())", "a - b", "def broken(:"])
def test_what_is_no_difference_of_readings_is_no_measure(tmp_path, text):
    assert read(tmp_path, text) == ()


def test_a_file_that_is_gone_measures_nothing(tmp_path):
    assert measures(str(tmp_path / "gone.py"), frozenset({1})) == ()
