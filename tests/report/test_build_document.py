"""From a folder to a document: which sections, in which order, under which title."""

from factories import make_machine
from run_folders import write_suite
from scalewise.course.section_files import pages_of
from scalewise.report.build_document import document_of, evidence_of, machine_parts, section_modules


def names(suite: str) -> list[str]:
    return [module.__name__.rpartition(".")[2] for module in section_modules(pages_of(suite))]


def test_a_suite_of_the_course_has_its_own_sections_and_the_closing_one():
    found = names("homework1")
    assert found[-1] == "closing_section" and "any_experiment" not in found
    assert len(found) > 2
    files = [module.__name__ for module in section_modules(pages_of("homework1"))]
    assert all(name.startswith("scalewise.course.homework1.") for name in files[:-1])
    assert files[-1] == "scalewise.course.closing_section"


def test_any_other_suite_has_the_general_sections():
    assert names("somebody-s-own") == ["any_experiment", "closing"]


def test_sections_come_in_their_order():
    orders = [module.ORDER for suite in ("homework1", "homework2") for module in section_modules(pages_of(suite))]
    half = orders.index(1000) + 1
    assert orders[:half] == sorted(orders[:half]) and orders[half:] == sorted(orders[half:])


def test_the_document_says_what_machine_and_when(tmp_path):
    document = document_of(evidence_of(write_suite(tmp_path / "own-1")), lambda _: None)

    assert (document.id, document.title, document.most_pages) == ("own", "My own suite", None)
    assert document.subtitle == ("cpu, 4 cores", "16.0 GiB", "no GPU", "torch 2.13.0", "measured 1970-01-01")
    assert [section.title for section in document.sections] == [
        "Strong scaling",
        "Machine, caveats, commands to repeat",
    ]


def test_gpus_of_a_kind_are_counted():
    assert "2 × H200" in machine_parts(make_machine(cores=1, gpus=2))
    assert machine_parts(make_machine(cores=1))[0] == "cpu, 1 core"
