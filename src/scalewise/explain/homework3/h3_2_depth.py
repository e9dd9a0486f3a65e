"""H3.2: step time over DEPTH on two devices: do more layers make it faster, and why not."""

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import Line, fit_line, spread_of
from scalewise.analysis.pipeline import Pipeline
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import holes
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import DEPTHS, TWO, arms_along, devices_phrase
from scalewise.explain.words import listed, percent_text, seconds_phrase

ROW = "H3.2"
QUESTION = "Do more layers make it faster, and why not?"
TABLE = "h3-2-depth"
TOGETHER = 0.05  # of the step: less is one device at a time


def depth_times(evidence: Evidence) -> dict[int, Estimate]:
    """Step time of every depth that has one."""
    arms = arms_along(evidence, TWO, "depth", DEPTHS)
    return {depth: row.step_seconds for depth, (row, _) in arms.items() if row and row.step_seconds}


def depth_line(evidence: Evidence) -> Line | None:
    """Step time as a line over DEPTH."""
    times = depth_times(evidence)
    values = list(times.values())
    return fit_line(list(times), [one.value for one in values], spread_of(values))


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer: the slope, and who was busy."""
    line, times = depth_line(evidence), depth_times(evidence)
    if line is None:
        missing = holes(evidence, TWO, "depth", DEPTHS)
        return (unanswered(ROW, QUESTION, missing or "fewer than two depths have a step time"),)
    rise = seconds_phrase(line.slope)
    steps = listed([f"{seconds_phrase(time)} at {depth}" for depth, time in times.items()])
    if line.slope.low > 0:
        verdict = f"No. Every layer adds {rise} to the step ({steps})."
        condition = f"slope of step time over DEPTH {rise}: interval above 0"
    elif line.slope.high < 0:
        verdict = f"Yes, here: every layer takes {rise} off the step ({steps})."
        condition = f"slope of step time over DEPTH {rise}: interval below 0"
    else:
        verdict = f"It cannot be told: the step changes by {rise} per layer ({steps})."
        condition = f"slope of step time over DEPTH {rise}: interval holds 0"
    return (Answer(ROW, QUESTION, f"{verdict} {_why(evidence)}".rstrip(), condition, (TABLE,)),)


def _why(evidence: Evidence) -> str:
    arms = arms_along(evidence, TWO, "depth", DEPTHS)
    pipelines = [pipeline for _, pipeline in arms.values() if pipeline and pipeline.step_seconds]
    return turns_sentence(pipelines[-1]) if pipelines else ""


def turns_sentence(pipeline: Pipeline) -> str:
    """Whether the devices worked one at a time, from the inspected step."""
    together, count = pipeline.together_share, pipeline.device_count
    shares = listed([f"{one.device} {percent_text(one.busy_share)}" for one in pipeline.devices])
    if count == 1:
        return f"The one device is busy for {percent_text(pipeline.devices[0].busy_share)} of the step."
    if together <= TOGETHER:
        often = (
            f"for {percent_text(together)} of the inspected step" if together else "at no moment of the inspected step"
        )
        return (
            f"The {devices_phrase(count)} take turns: more than one was busy {often} ({shares}), because a layer needs "
            f"the output of the one before it."
        )
    return f"More than one of the {devices_phrase(count)} was busy for {percent_text(together)} of it ({shares})."
