"""All checks together: what is found is ordered and explained, what fails is said, and nothing crashes."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from factories import make_outcome, make_run
from scalewise.doctor.case import Abstain, Case, case_of
from scalewise.doctor.finding import SEVERITIES, Check, Finding, Price, Rule
from scalewise.doctor.run_checks import CONSEQUENCES, diagnosis_of, worst_first
from scalewise.records.examination import DeviceUseRow, FailureRow, PlaceRow
from scalewise.records.notes import StepNote
from scalewise.records.rows import TroubleRow
from scalewise.records.spec import Change

PLACE = PlaceRow(0, "/scripts/train.py", 31, "main", "loss.backward()")


def a_rule(name: str, *findings: Finding, error: Exception | None = None) -> Rule:
    def examine(case: Case) -> tuple[Finding, ...]:
        if error is not None:
            raise error
        return findings

    check = Check(name, "accumulation", "wrong", "it detects", "why", "example", "fix", "needs")
    return Rule(check, examine, None)


def a_finding(check: str = "a", **changes: Any) -> Finding:
    return replace(Finding(check, "wrong", "It is so.", ("1 of 1",), "fix", PLACE), **changes)


def a_price(milliseconds: float) -> Price:
    return Price(milliseconds, "ms per step", "waiting", "measured")


def a_case(rank_changes: dict[str, Any] | None = None, **changes: Any) -> Case:
    run = make_run([0.01] * 4, ranks=2, **changes)
    notes = tuple(StepNote(index, 0, 0, 5, False, False, 1.0, 2, 2) for index in range(3))
    ranks = tuple(replace(rank, notes=notes, **(rank_changes or {})) for rank in run.ranks)
    return case_of(replace(run, ranks=ranks))


def test_what_passes_what_abstains_and_what_fails_are_told_apart() -> None:
    found = diagnosis_of(
        a_case(),
        (
            a_rule("fine"),
            a_rule("blind", error=Abstain("needs 2 optimizer steps, saw 1")),
            a_rule("broken", error=ZeroDivisionError("division by zero")),
            a_rule("wrong", a_finding("wrong")),
        ),
    )
    assert found.passed == ("fine",)
    assert [(one.check, one.reason) for one in found.unchecked] == [
        ("blind", "needs 2 optimizer steps, saw 1"),
        ("broken", "the check itself failed: ZeroDivisionError: division by zero"),
    ]
    assert [one.check for one in found.findings] == ["wrong"]
    assert found.exit_code == 2
    assert (found.steps, found.ranks, found.script) == (3, 2, "/scripts/train.py")


def test_the_real_checks_can_be_asked_of_a_run_without_notes() -> None:
    found = diagnosis_of(case_of(make_run([0.01] * 4, ranks=2)))
    assert found.findings == ()
    assert not any("itself failed" in one.reason for one in found.unchecked), found.unchecked


def test_the_worst_and_dearest_comes_first() -> None:
    cheap, dear = (a_finding("c", severity="slow", price=a_price(value)) for value in (1.0, 40.0))
    suspected = a_finding("s", proof="suspected")
    note = a_finding("n", severity="note")
    wrong = a_finding("w")
    assert worst_first([suspected, note, cheap, dear, wrong]) == (wrong, dear, cheap, suspected, note)


def test_a_consequence_comes_after_its_cause_and_names_it() -> None:
    diverge = a_finding("parameters-diverge")
    cause = a_finding("never-synchronised")
    found = diagnosis_of(a_case(), (a_rule("parameters-diverge", diverge), a_rule("never-synchronised", cause)))
    assert [one.check for one in found.findings] == ["never-synchronised", "parameters-diverge"]
    assert found.findings[1].evidence == ("1 of 1", "a consequence of never-synchronised (line 31)")


def test_a_suspicion_explains_nothing() -> None:
    diverge = a_finding("parameters-diverge")
    cause = a_finding("never-synchronised", proof="suspected", where=None)
    found = diagnosis_of(a_case(), (a_rule("parameters-diverge", diverge), a_rule("never-synchronised", cause)))
    assert found.findings[0] == diverge


def test_nothing_is_a_consequence_of_itself() -> None:
    def causes(check: str) -> set[str]:
        return {one for direct in CONSEQUENCES.get(check, ()) for one in {direct} | causes(direct)}

    assert not [check for check in CONSEQUENCES if check in causes(check)]


def test_the_first_failed_ranks_exception_is_the_scripts() -> None:
    rows = (FailureRow("ValueError", "bad batch", 0),)
    outcome = replace(make_outcome("raised", "Rank 1 raised."), first_failed_rank=1)
    case = a_case(outcome=outcome)
    second = replace(case.run.ranks[1], examination=rows)
    other = replace(case.run.ranks[0], examination=(FailureRow("RuntimeError", "connection closed by peer", 0),))
    found = diagnosis_of(case_of(replace(case.run, ranks=(other, second))), ())
    assert found.failure == "ValueError: bad batch"
    assert found.notes == ("The examined run: Rank 1 raised.",)


def test_the_end_row_tells_the_exception_where_nothing_else_does() -> None:
    case = a_case()
    ranks = tuple(replace(one, end=replace(one.end, exception="KeyError: 'x'")) for one in case.run.ranks if one.end)
    assert diagnosis_of(case_of(replace(case.run, ranks=ranks)), ()).failure == "KeyError: 'x'"


def test_troubles_damage_and_silent_ranks_are_noted() -> None:
    trouble = (TroubleRow("examination: forward", "TypeError: x"),)
    case = a_case({"trouble": trouble, "bad_lines": ("a line",)})
    silent = replace(case.run.ranks[1], notes=(), examination=())
    notes = diagnosis_of(case_of(replace(case.run, ranks=(case.run.ranks[0], silent))), ()).notes
    assert notes[1:] == (
        "No notes of rank 1.",
        "The watcher failed at examination: forward: TypeError: x (2 times). What rests on it may be missing.",
        "1 damaged line of rank 0's notes could not be read.",
        "1 damaged line of rank 1's notes could not be read.",
    )


def test_a_run_on_the_cpu_says_what_it_cannot_show() -> None:
    row = DeviceUseRow(("cuda",), "cpu", {}, ("torch.cuda.CUDAGraph",))
    notes = diagnosis_of(a_case({"examination": (row,)}, on_cpu=True), ()).notes
    assert "Examined on the CPU" in notes[1]
    assert notes[2] == "Nothing stands in for these calls on the CPU: torch.cuda.CUDAGraph."


def test_what_was_changed_from_outside_is_said() -> None:
    changes = (Change("emulate_link", {"seconds": 1e-3, "bytes_per_second": 1e9}), Change("no_sync", {"window": 4}))
    notes = diagnosis_of(a_case(changes=changes), ()).notes
    assert notes[1] == "Changed from outside: emulated link of 1 ms, 1 GB/s, no_sync window=4."


def test_an_unfinished_run_is_said_to_be_so() -> None:
    assert diagnosis_of(a_case(unfinished=True), ()).notes == ("The examined run has not ended.",)


@given(
    st.lists(
        st.builds(
            a_finding,
            st.sampled_from([*CONSEQUENCES, "never-synchronised", "uneven-ranks"]),
            severity=st.sampled_from(SEVERITIES),
            proof=st.sampled_from(["observed", "suspected"]),
            price=st.one_of(st.none(), st.floats(0, 100).map(a_price)),
        ),
        max_size=8,
    )
)
def test_ordering_loses_nothing_and_what_counts_is_in_front(findings: list[Finding]) -> None:
    ordered = worst_first(findings)
    assert sorted(map(repr, ordered)) == sorted(map(repr, findings))
    counts = [one.counts for one in ordered]
    assert counts == sorted(counts, reverse=True)
