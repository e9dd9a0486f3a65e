"""The parts of a step that make it less certain than the steps whose errors were learnt: few of those have them.

Many messages beside each other, kinds of messages that nobody measured here, and steps of a few milliseconds only: each
counts by as much of the step as is of that kind. A check of the same script tells of them as of the rest.
"""

from dataclasses import replace
from math import exp, hypot, log

from scalewise.predict.collective_times import unmeasured
from scalewise.predict.link import Link
from scalewise.predict.prediction import OnLink
from scalewise.predict.tape import Tape
from scalewise.predict.timeline import Sharing, simulate

# Standard deviations of logarithms. What messages add to each other: ten points of five models with two to four buckets
# on 4 and 8 ranks lay so far around the law. Kinds that were not measured: a guess.
BESIDE_EACH_OTHER, NOT_MEASURED = 0.35, 0.4
# By so much real ranks took longer for the rest of a step of 5 to 15 ms than the rehearsal did, once they had waited
# for a message: their cores had been idle.
AFTER_WAITING_SECONDS = 0.5e-3


def unusual_spread(tape: Tape, link: Link, ranks: int, sharing: Sharing) -> float:
    """The standard deviation, as a logarithm, that these parts add to the step."""
    usual = simulate(tape, OnLink(link, ranks), sharing).step_seconds
    if usual <= 0 or not tape.messages:
        return 0.0

    def longer(on_link: OnLink, with_sharing: Sharing) -> float:
        return log(max(1.0, simulate(tape, on_link, with_sharing).step_seconds / usual))

    parts = [log(1 + AFTER_WAITING_SECONDS / usual)]
    if sharing.beside_seconds > 0:
        more = replace(sharing, beside_seconds=sharing.beside_seconds * exp(BESIDE_EACH_OTHER))
        parts.append(longer(OnLink(link, ranks), more))
    kinds = frozenset(unmeasured(link, {one.kind for one in tape.messages}))
    if kinds:
        parts.append(longer(OnLink(link, ranks, exp(NOT_MEASURED), kinds), sharing))
    return hypot(*parts)
