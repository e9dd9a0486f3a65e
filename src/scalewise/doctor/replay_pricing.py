"""Applies a replay to a finding about time: it gets a price with its interval, or becomes a suspicion."""

from dataclasses import replace

from scalewise.doctor.finding import Finding, Price
from scalewise.doctor.replay import Replayed


def priced_by_time(finding: Finding, replayed: Replayed, of: str) -> Finding:
    """Prices the finding by the time its change saves; a suspicion if the mended script fails or is not faster."""
    if replayed.trouble:
        words = f"with {replayed.change.label()} the script did not run: {replayed.trouble}"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    spared = replayed.spared
    if not replayed.applied or spared is None:
        return finding
    less = spared.milliseconds
    if less.high <= 0:
        words = f"a step takes {-less.value:.3g} ms longer with {replayed.change.label()}, not less"
        return replace(finding, proof="suspected", evidence=(*finding.evidence, words))
    if less.low <= 0:
        words = f"the time it costs cannot be told from nothing here ({less.low:.3g} to {less.high:.3g} ms a step)"
        return replace(finding, evidence=(*finding.evidence, words))
    price = Price(less.value, "ms per step", of, spared.how, less)
    share = less.value / spared.step_milliseconds if spared.step_milliseconds else 0.0
    words = f"a step takes {spared.step_milliseconds:.3g} ms, {share:.1%} less with {replayed.change.label()}"
    return replace(finding, price=price, proof="replayed", evidence=(*finding.evidence, words))


MATTERS = 0.02  # share of a step: a fix that saves less is not worth mentioning
SURELY_NOT = 0.05  # share of a step: a finding is dismissed only if the upper end of the interval is below it


def priced_or_dismissed(finding: Finding, replayed: Replayed, of: str) -> Finding | None:
    """Prices a finding that is a mistake only if it costs time; None if the fix was measured to save next to nothing.

    If the interval is too wide to tell, the finding stays a suspicion.
    """
    settled = priced_by_time(finding, replayed, of)
    spared = replayed.spared
    if replayed.trouble or not replayed.applied or spared is None:
        return settled
    step = spared.step_milliseconds
    if spared.milliseconds.value < MATTERS * step and spared.milliseconds.high < SURELY_NOT * step:
        return None
    return settled if settled.proof == "replayed" else replace(settled, proof="suspected", price=None)
