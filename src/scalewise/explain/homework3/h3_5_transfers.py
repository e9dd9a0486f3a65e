"""H3.5: how often data really moves in one forward pass, and how that grows with the devices."""

from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import hole
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework3.devices import ALL, devices_phrase
from scalewise.explain.homework3.h3_3_placement import pipelines
from scalewise.explain.words import bytes_phrase, listed

ROW = "H3.5"
QUESTION = "How is the number of devices related to communication?"
TABLE = "h3-5-transfers"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """One answer, over every number of devices."""
    found = pipelines(evidence)
    if not found:
        return (unanswered(ROW, QUESTION, f"{hole(evidence, ALL)} under inspection"),)
    counts = {one.device_count: one.forward.count for one in found.values()}
    linear = all(count == devices - 1 for devices, count in counts.items())
    seen = listed([f"{count} on {devices_phrase(devices)}" for devices, count in counts.items()])
    sizes = {one.forward.bytes / one.forward.count for one in found.values() if one.forward.count}
    each = f" Each copy carries one activation, {bytes_phrase(max(sizes))}." if len(sizes) == 1 else ""
    if linear:
        text = (
            f"N - 1 copies in one forward pass ({seen}), as many back in backward{_backward(evidence)}: one at every "
            f"border between blocks, whatever DEPTH is.{each} Communication grows linearly with the devices."
        )
        condition = f"forward copies = N - 1 for N = {listed([str(devices) for devices in counts])}"
    else:
        text = f"Not N - 1: {seen} in one forward pass.{each} Blocks that are not contiguous move data more often."
        wrong = [f"{count} for N = {devices}" for devices, count in counts.items() if count != devices - 1]
        condition = f"forward copies differ from N - 1: {listed(wrong)}"
    return (Answer(ROW, QUESTION, text, condition, (TABLE,)),)


def _backward(evidence: Evidence) -> str:
    """Said where it is not as many."""
    odd = [one for one in pipelines(evidence).values() if one.backward.count != one.forward.count]
    return f" (not so on {listed([devices_phrase(one.device_count) for one in odd])})" if odd else ""
