"""The price of memory that rehearsed processes take anew in every step, and that real ranks may not pay.

The C library gives the top of a heap back to the system when much of it is free. Whether a step's tensors lie there is
a matter of luck, and of what else lies above them: of two processes with the same work one may take thousands of pages
anew in each step and the other none. So a rehearsal says little about the pages of a real rank: real ranks were seen to
take from none to more than all of them. A quarter of their time is taken out, and both ends belong to the interval.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from scalewise.records.load import RankRecord

# Of the pages, in real ranks. Seen in three sittings of up to 16 models among 2 to 8 ranks: 0.41, 0.51 and 1.23 in the
# mean of ranks, and the slowest, for which others wait, takes more.
KEPT = 0.75
USUAL_PAGE_SECONDS = 1e-6  # where it was not measured
LEAST_STEPS = 8  # a process settles its heap during the first steps
MOST_SHARE = 0.8  # of a step's computing; what would be more was not paid in full


def pages_of_a_step(rank: RankRecord) -> float:
    """The pages that the process takes anew in a settled step; 0 if that was not recorded."""
    rows = [row for row in rank.memory if row.step >= LEAST_STEPS]
    rates = [
        (after.minor_faults - before.minor_faults) / (after.step - before.step)
        for before, after in pairwise(rows)
        if after.step > before.step
    ]
    return median(rates) if rates else 0.0


def page_shares(ranks: Sequence[RankRecord], computing: Sequence[float], page_seconds: float | None) -> list[float]:
    """The share of each process's computing that goes into such pages."""
    cost = USUAL_PAGE_SECONDS if page_seconds is None else page_seconds
    return [
        min(MOST_SHARE, cost * pages_of_a_step(rank) / seconds) if seconds > 0 else 0.0
        for rank, seconds in zip(ranks, computing, strict=True)
    ]
