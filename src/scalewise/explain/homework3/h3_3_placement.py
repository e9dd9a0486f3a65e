"""H3.3: the rule that gives a layer its device, checked against where the layers were found."""

from scalewise.analysis.pipeline import Pipeline, contiguous, placement_rule
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import ALL, DEVICES, arms_along, devices_phrase, layers_phrase

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
    said = [_words(count, one, rules[count]) for count, one in found.items()]
    checked = [f"{devices_phrase(count)}: {'rule' if rules[count] else 'no known rule'}" for count in found]
    condition = f"{', '.join(checked)} gives the device of all {len(next(iter(places.values())))} layers"
    return (Answer(ROW, QUESTION, " ".join(said), condition, (TABLE,)),)


def _words(count: int, pipeline: Pipeline, rule: str | None) -> str:
    depth = len(pipeline.layers)
    where = f"On {devices_phrase(count)} ({layers_phrase(pipeline)})"
    if rule:
        return f"{where} the measured places are those of device = {rule}, with depth = {depth}, N = {count}."
    if contiguous([layer.device for layer in pipeline.layers]):
        return f"{where} every device holds one unbroken block, but in none of the usual proportions."
    return f"{where} the blocks are broken up: a device is used again after another, so data moves more often."
