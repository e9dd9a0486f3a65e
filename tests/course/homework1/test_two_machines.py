"""A report of two machines: what the other one measured takes the place of what would be predicted here."""

from dataclasses import replace

import pytest
from test_homework1 import answers, batched, delayed, model_sizes, table
from witness import strangers

from evidence_factories import make_evidence
from homework1_evidence import WEIGHTS, link_in_training, rehearsal, strong
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.homework1 import h1_2_strong_scaling as h1_2
from scalewise.course.homework1 import h1_3_communication as h1_3
from scalewise.course.homework1 import h1_5a_delay as h1_5a
from scalewise.course.homework1 import h1_5b_batch_sizes as h1_5b
from scalewise.report.document import Section


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def measured(ranks: tuple[int, ...], cores: int) -> Evidence:
    """Strong scaling, with predictions that their check finds right."""
    exchange = 1e-4 + 4 * WEIGHTS / 1e9
    runs = [*strong(exchange=exchange, ranks=ranks), link_in_training()]
    runs += [rehearsal(count, 1e-3 + 64e-4 / count) for count in (2, 4)]
    return make_evidence(*runs, cores=cores)


def whole(ranks: tuple[int, ...], cores: int) -> Evidence:
    runs = [*strong(ranks=ranks), *model_sizes(ranks=ranks), *delayed(ranks), *batched(ranks)]
    return make_evidence(*runs, cores=cores)


def merged(here: tuple[int, ...], there: tuple[int, ...]) -> Evidence:
    return replace(measured(here, 2), elsewhere=(measured(there, 8),))


def strong_rows(section: Section):
    return table(section, "h1-2-strong-scaling").rows


def test_ranks_measured_on_the_other_machine_replace_predicted_ones_and_say_where():
    alone, both = h1_2.build(measured((1, 2), 2)), h1_2.build(merged((1, 2), (1, 2, 4)))
    assert [row[0].mark for row in strong_rows(alone)] == ["measured", "measured", "predicted"]
    assert [row[0].mark for row in strong_rows(both)] == ["measured"] * 3
    assert strong_rows(both)[2][1].doubt == (
        "Measured on another machine (8 cores); its speedup is over one rank there."
    )
    assert not any("Predicted" in note for note in table(both, "h1-2-strong-scaling").notes)


def test_a_speedup_compares_two_steps_of_one_machine():
    slow = replace(measured((1, 2), 2), elsewhere=(make_evidence(*strong(overhead=0.1, sample=1e-3, ranks=(1, 4))),))
    one, _, four = strong_rows(h1_2.build(slow))
    assert four[1].number > one[1].number  # the other machine is far slower
    assert four[2].number > 1  # and its four ranks are still faster than its one


def test_what_was_measured_here_stays():
    both = strong_rows(h1_2.build(merged((1, 2), (1, 2, 4))))
    alone = strong_rows(h1_2.build(measured((1, 2), 2)))
    assert both[:2] == alone[:2]


def test_a_machine_of_one_rank_answers_with_what_the_other_measured():
    evidence = replace(whole((1,), 1), elsewhere=(whole((1, 2, 4), 8),))
    sections = [module.build(evidence) for module in (h1_2, h1_3, h1_5a, h1_5b)]
    told = [answer for section in sections for answer in answers(section)]
    # Parts of a step are not split with another machine's numbers.
    assert {one.question for one in told if "cannot be answered" in one.verdict} == {h1_2.WHY.text, h1_3.WHEN.text}
    assert strangers(sections) == {}
    assert "measured on another machine (8 cores)" in " ".join(table(sections[2], "h1-5a-delay").notes)
    assert any("another machine" in heading for _, heading in table(sections[3], "h1-5b-batch").groups)


def test_cpu_ranks_and_gpus_do_not_stand_in_for_one_another():
    other = measured((1, 2, 4), 8)
    runs = tuple(replace(run, spec=replace(run.spec, device="cuda")) for run in other.loaded.runs)
    evidence = replace(measured((1, 2), 2), elsewhere=(make_evidence(*runs, gpus=4),))
    assert [row[0].mark for row in strong_rows(h1_2.build(evidence))][:3] == ["measured", "measured", "predicted"]
