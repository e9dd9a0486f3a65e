"""H3.3: the rule that gives a layer its device, checked against where the layers were found."""

from scalewise.analysis.pipeline import Pipeline, contiguous, placement_rule
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import ALL, DEVICES, arms_along, devices_phrase, layers_phrase
from scalewise.explain.words import listed

ROW = "H3.3"
QUESTION = "Which rule maps a layer's index to its device?"
TABLE = "h3-3-placement"


def pipelines(evidence: Evidence) -> dict[int, Pipeline]:
    """The inspected step for every number of devices that has one."""
    arms = arms_along(evidence, ALL, "devices", DEVICES)
    return {count: pipeline for count, (_, pipeline) in arms.items() if pipeline}


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer, over every number of devices."""
    found = {count: one for count, one in pipelines(evidence).items() if one.device_count > 1}
    if not found:
        return (unanswered(ROW, QUESTION, f"{hole(evidence, ALL)} on several devices under inspection"),)
    places = {count: [layer.device for layer in one.layers] for count, one in found.items()}
    rules = {count: placement_rule(devices) for count, devices in places.items()}
    depth = len(next(iter(places.values())))
    shares = [f"{layers_phrase(one)} of {devices_phrase(count)}" for count, one in found.items()]
    numbers = listed([str(count) for count in found])
    common = set(rules.values())
    rule = next(iter(common)) if len(common) == 1 else None
    if rule:
        text = f"Device = `{rule}` for layer i, with depth = {depth} and N = {numbers}: {'; '.join(shares)}."
        condition = f"`{rule}` gives the measured device of all {depth} layers for N = {numbers}"
    else:
        text = " ".join(_words(count, one, rules[count]) for count, one in found.items())
        known = [f"{rules[count] or 'no known rule'} for N = {count}" for count in found]
        condition = f"no one rule gives the measured devices: {listed(known)}"
    return (Answer(ROW, QUESTION, text, condition, (TABLE,)),)


def _words(count: int, pipeline: Pipeline, rule: str | None) -> str:
    depth = len(pipeline.layers)
    where = f"On {devices_phrase(count)} ({layers_phrase(pipeline)})"
    if rule:
        return f"{where} the measured places are those of device = `{rule}`, with depth = {depth}, N = {count}."
    if contiguous([layer.device for layer in pipeline.layers]):
        return f"{where} every device holds one unbroken block, but in none of the usual proportions."
    return f"{where} the blocks are broken up: a device is used again after another, so data moves more often."
