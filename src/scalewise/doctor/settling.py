"""What a replay makes of a finding that claims time: a price with its interval, or doubt."""

from dataclasses import replace

from scalewise.doctor.finding import Finding, Price
from scalewise.doctor.replay import Replayed


def priced_by_time(finding: Finding, replayed: Replayed, of: str) -> Finding:
    """The finding with the time that its remedy spares; a suspicion where the mended script fails or is not faster."""
    if replayed.trouble:
        words = f"with {replayed.remedy.label()} the script did not run: {replayed.trouble}"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    spared = replayed.spared
    if not replayed.applied or spared is None:
        return finding
    less = spared.milliseconds
    if less.high <= 0:
        words = f"a step takes {-less.value:.3g} ms longer with {replayed.remedy.label()}, not less"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    if less.low <= 0:
        words = f"the time it costs cannot be told from nothing here ({less.low:.3g} to {less.high:.3g} ms a step)"
        return replace(finding, evidence=(*finding.evidence, words))
    price = Price(less.value, "ms per step", of, spared.how, less)
    share = less.value / spared.step_milliseconds if spared.step_milliseconds else 0.0
    words = f"a step takes {spared.step_milliseconds:.3g} ms, {share:.1%} less with {replayed.remedy.label()}"
    return replace(finding, price=price, proof="replayed", evidence=(*finding.evidence, words))


MATTERS = 0.02  # of a step: what a fix spares below that is not worth a word
SURELY_NOT = 0.05  # of a step: the most that it may spare, at the upper end of the interval, to be dismissed


def priced_or_dismissed(finding: Finding, replayed: Replayed, of: str) -> Finding | None:
    """The same for what is a mistake only where it costs time; None: the fix was measured to spare next to nothing.

    Where the interval is too wide to tell, a suspicion stays.
    """
    settled = priced_by_time(finding, replayed, of)
    spared = replayed.spared
    if replayed.trouble or not replayed.applied or spared is None:
        return settled
    step = spared.step_milliseconds
    if spared.milliseconds.value < MATTERS * step and spared.milliseconds.high < SURELY_NOT * step:
        return None
    return settled if settled.proof == "replayed" else replace(settled, proof="suspected", price=None)
