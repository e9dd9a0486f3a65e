"""The end of every report: complete, short, and the same wherever the folder lies."""

from dataclasses import replace
from pathlib import Path

from factories import make_machine, make_outcome, make_run, make_suite, noisy
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import summarise
from scalewise.records.spec import Examined, Rehearsed
from scalewise.report.document import Code, Paragraph
from scalewise.report.sections.closing import build


def evidence(*runs, **changes) -> Evidence:
    loaded = replace(make_suite(*runs), **changes)
    return Evidence(loaded, summarise(loaded), (), runs[0].machine if runs else None)


def texts(found: Evidence) -> str:
    return "\n".join(block.text for block in build(found).blocks if isinstance(block, (Paragraph, Code)))


def test_failed_runs_are_named_with_their_reason():
    bad = make_run(noisy(40, 5e-3, 1), ranks=2, outcome=make_outcome("killed", "Rank 1 died of SIGKILL."))
    told = texts(evidence(make_run(noisy(40, 5e-3, 0)), bad))

    assert "Missing or failed (1): exp-ranks2-r0: Rank 1 died of SIGKILL." in told


def test_a_whole_suite_says_that_nothing_is_missing():
    assert "No run failed or is missing, of 1." in texts(evidence(make_run(noisy(40, 5e-3, 0))))


def test_a_caveat_is_said_once_with_the_arms_it_touches():
    runs = [make_run(noisy(12, 5e-3, seed), ranks=ranks) for seed, ranks in enumerate((1, 2, 4))]
    told = texts(evidence(*runs))

    assert told.count("Imprecise, too few steps") == 1 and "Touches exp (3 arms)." in told


def test_long_lists_are_cut_and_counted():
    bad = [
        make_run(noisy(40, 5e-3, 1), repeat=n, name=f"run{n}", outcome=make_outcome("raised", "No.")) for n in range(12)
    ]
    assert "Missing or failed (12): run0: No; run1: No;" in texts(evidence(*bad))
    assert "; and 4 more." in texts(evidence(*bad))


def test_without_machine_or_runs_it_is_still_there():
    assert "Machine: not recorded" in texts(evidence())


def test_the_machine_has_its_gpus_counted():
    run = replace(make_run(noisy(40, 5e-3, 0)), machine=make_machine(gpus=2))
    assert "GPUs: 2 × H200 (128 GiB)" in texts(evidence(run))


def test_the_place_of_the_folder_is_left_out():
    path = Path("/runs/suite-00000000")
    told = texts(evidence(make_run(noisy(40, 5e-3, 0)), notes=(f"{path}/x/spec.json: no JSON",)))
    assert "not read: x/spec.json: no JSON" in told


def test_a_suite_is_repeated_by_name_and_a_script_by_its_ranks_and_arguments():
    run = make_run(noisy(40, 5e-3, 0))
    assert "scalewise run suite\n" in texts(evidence(run, title="A suite"))
    both = evidence(run, make_run(noisy(40, 5e-3, 1), ranks=2, repeat=1), title="train.py")
    assert "scalewise run train.py --ranks 1,2 --repeat 2 -- --batch 64\n" in texts(both)


def test_a_report_of_examined_runs_says_so_and_repeats_them_with_the_doctor():
    observed = make_run(noisy(40, 5e-3, 0), ranks=2, name="observed", kind=Examined())
    told = texts(evidence(observed, title="train.py"))
    assert "Examined, not measured, and in no table: observed." in told
    assert "no run of it is here" not in told
    assert "scalewise doctor train.py --ranks 2 -- --batch 64" in told


def test_a_report_of_rehearsed_runs_says_whom_they_stood_for():
    rehearsed = [make_run([0.01] * 9, name=f"rehearse{n}", kind=Rehearsed(n, 0, n)) for n in (8, 64)]
    told = texts(evidence(make_run(noisy(40, 5e-3, 0), name="measure1"), *rehearsed, title="train.py"))
    assert "Rehearsed, not measured, and in no table: rehearse8 (1 of 8 ranks), rehearse64 (1 of 64 ranks)." in told
    assert "scalewise rehearse train.py --ranks 1,8,64 -- --batch 64" in told
