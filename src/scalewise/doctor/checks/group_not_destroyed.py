"""Detects a process group that still exists when the script ends."""

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding
from scalewise.records.notes import GroupNote
from scalewise.units import named_ranks

CHECK = Check(
    name="group-not-destroyed",
    group="machine",
    severity="note",
    detects="A script ends in order without destroy_process_group().",
    why="PyTorch warns, threads of the group may still run while the interpreter shuts down, and now and then a run "
    "that had finished dies at its very end with an abort.",
    example='dist.init_process_group("gloo")\ntrain()\n# end of the script',
    fix='dist.init_process_group("gloo")\ntry:\n    train()\nfinally:\n    dist.destroy_process_group()',
    needs="a process group, and ranks that ended by themselves",
    silent="Ranks that were ended by an exception or from outside had no chance to.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks for ranks that made a group, ended in order, and never destroyed it."""
    made = {rank.rank: rank.all(GroupNote) for rank in case.ranks}
    made = {rank: notes for rank, notes in made.items() if any(note.event == "init" for note in notes)}
    if not made:
        raise Abstain("no process group was made")
    outcome = case.run.outcome
    if outcome is None or outcome.kind not in ("finished", "no_steps", "aborted_at_exit") or _cut(case):
        raise Abstain("the ranks did not end by themselves")
    if any(rank.record.bad_lines or rank.record.torn_lines or rank.record.end is None for rank in case.ranks):
        raise Abstain("the notes of a rank are not whole")
    left = tuple(rank for rank, notes in made.items() if notes[-1].event == "init")
    aborted = outcome.kind == "aborted_at_exit"
    if not left:
        return ()
    end = "; training was over when the interpreter aborted at exit" if aborted else ""
    return (
        Finding(
            check=CHECK.name,
            severity="note",
            sentence=f"{named_ranks(left)} ended without destroy_process_group(){end}.",
            evidence=(
                f"groups made on {len(made)} ranks, left on {len(left)}",
                *((f"how the run ended: {outcome.sentence}",) if aborted else ()),
            ),
            fix="dist.destroy_process_group()  # the last line of the script, or in a finally clause",
            where=case.first.place(next((note for notes in made.values() for note in notes), None)),
            ranks=left,
            steps_seen=len(case.first.windows),
        ),
    )


def _cut(case: Case) -> bool:
    """Returns True if the run was ended from outside once it had made enough steps."""
    enough = case.run.spec.enough_steps
    return bool(enough) and all(len(rank.windows) >= enough for rank in case.ranks)
