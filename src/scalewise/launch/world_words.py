"""Adds to an outcome what the files that the run read and wrote say about it."""

from dataclasses import replace

from scalewise.records.outcome import Outcome, World
from scalewise.records.spec import RunSpec

_UNMAPPED = "Value too large for defined data type"  # an overlay cannot copy a file of another group


def with_world(outcome: Outcome, world: World | None, spec: RunSpec) -> Outcome:
    """The outcome with its files; a script that resumed and had nothing left to train gets a sentence of its own."""
    if world is None:
        return outcome
    outcome = replace(outcome, world=world)
    if outcome.kind == "no_steps" and world.read:
        in_place = spec.folder_use == "in_place"
        instead = "leave --in-place out, so that every run starts from the folder as it was, or " if in_place else ""
        return replace(
            outcome,
            sentence=f"{outcome.sentence}; the script read {world.read[0].text()}",
            hint=f"it seems to have resumed a training that was over: {instead}"
            "move that file away, or let the script train longer",
        )
    if world.view == "overlay" and any(_UNMAPPED in line for end in outcome.ranks for line in end.last_lines):
        return replace(
            outcome, hint="the file belongs to another group, which a private view cannot keep: add --in-place"
        )
    return outcome
