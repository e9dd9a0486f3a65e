"""H3.4: the same model on more devices: are all of them used, is it faster, and what would be the ideal."""

from scalewise.analysis.pipeline import pipeline_bound
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import change_phrase, contrast, hole, step_phrase
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import ALL, DEVICES, arms_along, devices_phrase, emulated
from scalewise.explain.homework3.h3_2_depth import TOGETHER, turns_sentence
from scalewise.explain.homework3.h3_3_placement import pipelines
from scalewise.explain.words import bytes_phrase, listed, percent_text
from scalewise.units import seconds_text

ROW = "H3.4"
USED = "Are all devices used?"
FASTER = "Does adding devices make it faster?"
TABLE = "h3-4-devices"
MICRO_BATCHES = 8  # of the pipeline that is held against the measurement


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """To both questions."""
    return _used(evidence), _faster(evidence)


def _used(evidence: Evidence) -> Answer:
    found = [one for one in pipelines(evidence).values() if one.step_seconds]
    if not found:
        return unanswered(ROW, USED, f"{hole(evidence, ALL)} under inspection")
    widest = max(found, key=lambda one: one.device_count)
    idle = [one.device for one in widest.devices if not one.busy_seconds]
    count = widest.device_count
    if idle:
        text = f"No: of {devices_phrase(count)}, {listed(idle)} did nothing."
    elif count > 1:
        if widest.together_share <= TOGETHER:
            how = "but one at a time"
        else:
            how = "and together" if widest.together_share > 0.5 else "but mostly one at a time"
        text = f"Yes, {how}. {turns_sentence(widest)}"
    else:
        text = turns_sentence(widest)
    memory = [f"{one.device} {bytes_phrase(one.peak_bytes)}" for one in widest.devices if one.peak_bytes is not None]
    if memory:
        text += f" What is shared out is memory: {listed(memory)}."
    condition = (
        f"{count - len(idle)} of {count} devices worked in the inspected step; more than one at once for "
        f"{percent_text(widest.together_share)} of it"
    )
    return Answer(ROW, USED, text, condition, (TABLE,))


def _faster(evidence: Evidence) -> Answer:
    rows = {count: row for count, (row, _) in arms_along(evidence, ALL, "devices", DEVICES).items() if row}
    if len(rows) < 2:
        missing = [count for count in DEVICES if count not in rows]
        return unanswered(ROW, FASTER, listed([hole(evidence, ALL, devices=count) for count in missing]))
    few, many = min(rows), max(rows)
    found = contrast(evidence, rows[few], rows[many])
    if found is None:
        return unanswered(ROW, FASTER, "the arms did not do the same work")
    steps = listed([f"{step_phrase(row)} on {count}" for count, row in rows.items()])
    if found.verdict == "faster":
        verdict = f"Yes: {devices_phrase(many)} take {change_phrase(found)} than {few}"
    elif found.verdict == "slower":
        verdict = f"No, slower: {devices_phrase(many)} take {change_phrase(found)} than {few}"
    else:
        verdict = f"No difference that can be told between {few} and {many} ({change_phrase(found)})"
    widest = pipelines(evidence).get(many)
    lesson = {
        "faster": "",
        "slower": " Without a pipeline, devices add memory, not speed.",
        "cannot tell": " Without a pipeline, devices add memory; no speed shows.",
    }[found.verdict]
    carried = (
        " These are logical devices that share one machine: the times show what the copies cost, and the order of work "
        "is what carries over to real ones."
    )
    text = f"{verdict}: {steps}. {_ideal(rows[many], many)}{lesson}{carried if emulated(widest) else ''}"
    return Answer(ROW, FASTER, text, found.condition, (TABLE,))


def _ideal(row: ArmRow, devices: int) -> str:
    """What a pipeline could make of it at best: the measured step with all devices at work at once."""
    if row.step_seconds is None or devices < 2:
        return ""
    step = row.step_seconds.value
    best, filled = pipeline_bound(step, devices), pipeline_bound(step, devices, MICRO_BATCHES)
    every = "both" if devices == 2 else f"all {devices}"
    return (
        f"A pipeline that kept {every} at work would need {seconds_text(best)} (T/N, predicted), with "
        f"{MICRO_BATCHES} micro-batches {seconds_text(filled)}."
    )
