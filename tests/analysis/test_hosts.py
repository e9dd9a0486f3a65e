"""Runs on several hosts: on which they lay, and what speaks against comparing them."""

from dataclasses import replace

from factories import make_machine, make_outcome, make_run, make_suite, noisy, quiet_sample
from scalewise.analysis.comparison import compare_runs
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.summary import summarise
from scalewise.records.load import Run
from scalewise.records.spec import Nodes
from scalewise.report.documents.measurement_document import measurement_notes


def on(*hosts: str, repeat: int = 0) -> Run:
    """A run with one rank on each of these hosts."""
    nodes = Nodes(len(hosts), 0, "", 0)
    run = make_run(noisy(80, 0.005, 1), ranks=1, nodes=nodes, repeat=repeat, axes={"nodes": len(hosts)})
    return replace(run, samples=(quiet_sample(),) * 4, outcome=replace(make_outcome(), hosts=hosts))


def doubts(*runs: Run) -> dict[str, str]:
    (experiment,) = summarise(make_suite(*runs)).experiments
    return {one.name: one.evidence for row in experiment.rows for one in row.caveats}


def test_arms_on_the_first_hosts_of_one_job_may_be_compared() -> None:
    assert "other hosts" not in doubts(on("n1"), on("n1", "n2"))


def test_arms_on_other_hosts_are_in_doubt_and_so_are_repeats() -> None:
    assert doubts(on("n1", "n2"), on("n3"))["other hosts"] == "n3, and nodes 2, 2 ranks on n1, n2"
    assert "n1; n2" in doubts(on("n1"), on("n2", repeat=1))["other hosts"]


def test_a_comparison_of_two_jobs_says_that_they_ran_on_other_hosts() -> None:
    apart = compare_runs([on("n1", "n2")], [on("n3", "n4")])
    assert [one.name for one in apart.caveats if one.name == "other hosts"] == ["other hosts"]
    assert not [one for one in compare_runs([on("n1", "n2")], [on("n1", "n2")]).caveats if one.name == "other hosts"]


def test_unlike_hosts_are_in_doubt_with_what_differs() -> None:
    run = on("n1", "n2")
    alike = replace(run, machines=(make_machine(), make_machine()))
    unlike = replace(run, machines=(make_machine(), make_machine(cores=8)))
    assert "unlike hosts" not in doubts(alike)
    assert "8 cores" in doubts(unlike)["unlike hosts"]


def test_the_load_of_the_worst_host_counts() -> None:
    run = on("n1", "n2")
    busy = replace(run, elsewhere=((quiet_sample(foreign=0.4),) * 4,))
    assert not machine_state(run).loaded
    assert machine_state(busy).foreign == 0.4 and "loaded machine" in doubts(busy)


def test_a_note_says_on_which_hosts_the_rows_ran() -> None:
    (experiment,) = summarise(make_suite(on("n1"), on("n1", "n2"))).experiments
    notes = list(measurement_notes(experiment))
    assert "On n1: nodes 1, 1 rank." in notes and "On n1, n2: nodes 2, 2 ranks." in notes
    (alone,) = summarise(make_suite(make_run(noisy(80, 0.005, 1)))).experiments
    assert not [note for note in measurement_notes(alone) if note.startswith("On ")]
