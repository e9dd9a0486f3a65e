"""How well a script's step is foreseen over emulated links, real gloo and shaped links; its memory; and how fast.

Every point is rehearsed in company and really run, with the emulated link and without, in turns step by step, and
messages are measured right before; the prediction never sees the runs it is held against. Goals are those of the
project, printed beside what was reached.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from statistics import median

from bench import rehearse_memory, rehearse_shaped, rehearse_speed
from bench.rehearse_points import POINTS, QUICK
from bench.rehearse_runs import Checked, Place, Seen, checked
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.units import seconds_text

REPEATS = 3
# A machine drifts, and its link with it; but where small messages take a slice of the scheduler's or none, their mean
# needs many of them. So those of the last points count.
MESSAGE_RUNS, NEW_RUNS = 9, 3  # that count, and of them right before a point
SHARING_EVERY = 7  # points
APART = 1.10  # measured steps that differ by less are not asked to be put in order
WIDTH = 46


def run(quick: bool, cuda: bool) -> dict[str, object]:
    """Prints one table after another and gives their numbers back."""
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="scalewise-bench-") as folder:
        place = Place(servers, machine_facts(servers), 2, Path(folder))
        found: dict[str, object] = {}
        large = len(place.machine.cores) >= 16  # emulated links have nothing to gain from several cores a rank
        for ranks in (2, 4) if large else (2,):
            found |= _times(replace(place, ranks=ranks, emulates=not large), quick)
        found["shaped"] = _asked(lambda: rehearse_shaped.table(place, quick))
        found["memory"] = rehearse_memory.table(place, quick)
        found["speed"] = rehearse_speed.table(place)
    return found


def _times(place: Place, quick: bool) -> dict[str, object]:
    points, repeats = (POINTS[::QUICK], 1) if quick else (POINTS, REPEATS)
    print(f"\nPredicted against measured: {place.ranks} ranks, {repeats} rings of a rehearsal and its runs to a point;")
    print(f"median step in ms, load of the machine before {os.getloadavg()[0]:.1f}")
    seen: Seen | None = None
    for number, point in enumerate(points):
        seen = _looked(place, seen, number % SHARING_EVERY == 0)
        seen = checked(place, point, seen, repeats)
        for one in (*seen.emulated[-1:], seen.plain[-1]):
            show(one)
    assert seen is not None
    ranks = f"{place.ranks} ranks"
    found = {f"gloo, {ranks}": summary(f"real gloo, {ranks}", seen.plain, (0.06, 0.15), covers=True)}
    if seen.emulated:
        found[f"emulated, {ranks}"] = summary(f"emulated links, {ranks}", seen.emulated, (0.03, 0.10), covers=True)
    return found


def _looked(place: Place, before: Seen | None, anew: bool) -> Seen:
    """Messages as they are now, how cores are shared, and what was seen before."""
    if before is None:
        before = Seen(place.messages(MESSAGE_RUNS), place.sharing())
    elif anew:
        before = replace(before, sharing=place.sharing())
    if anew:
        share = before.sharing
        print(f"cores work for {share.work * 100:.0f} % of a message, computing drags {share.drag * 100:.0f} %", end="")
        print(f", a message beside another is spared {seconds_text(share.spared_seconds)}")
    return replace(before, messages=(*before.messages, *place.messages(NEW_RUNS))[-MESSAGE_RUNS:])


def show(one: Checked) -> None:
    """One line."""
    step, late = one.predicted, f"  late {one.late * 100:.0f} %" if one.late > 0.05 else ""
    interval = f"[{step.low * 1e3:.1f}, {step.high * 1e3:.1f}]"
    print(
        f"{one.name:{WIDTH}} {one.link:18} {step.value * 1e3:8.1f} {interval:18} {one.measured * 1e3:8.1f} "
        f"{one.error * 100:+6.1f} % {'in' if one.inside else 'OUT':3}{late}",
        flush=True,
    )


def summary(what: str, points: Sequence[Checked], goals: tuple[float, float], covers: bool = False) -> object:
    """Median and largest error, intervals and order, each against its goal; a goal of 1 is none."""
    errors = sorted(abs(one.error) for one in points)
    inside = sum(one.inside for one in points) / len(points)
    right, pairs = _order(points)
    print(f"{what}, {len(points)} points:")
    print(f"  median error {errors[len(errors) // 2] * 100:.1f} % (goal {goals[0] * 100:g} %)", end="")
    print(f", largest {errors[-1] * 100:.1f} %" + (f" (goal {goals[1] * 100:g} %)" if goals[1] < 1 else ""), end="")
    print(f", median of signed errors {median(one.error for one in points) * 100:+.1f} %")
    simpler = [one.simpler / one.measured - 1 for one in points if one.simpler]
    if simpler:
        print(f"  by the link alone, without the cores' work for messages: median error {_percent(simpler)}", end="")
        print(f", median of signed errors {median(simpler) * 100:+.1f} %")
    if covers:
        print(f"  measured inside the 90 % interval: {inside * 100:.0f} % of points (goal 80 to 97 %)")
    print(f"  order of pairs at least {(APART - 1) * 100:.0f} % apart: {right} of {pairs} right (goal all)")
    return {
        "median error": errors[len(errors) // 2],
        "largest error": errors[-1],
        "inside": inside,
        "order": [right, pairs],
        "points": [asdict(one) for one in points],
    }


def _percent(errors: Sequence[float]) -> str:
    return f"{median(map(abs, errors)) * 100:.1f} %"


def _order(points: Sequence[Checked]) -> tuple[int, int]:
    right = pairs = 0
    for one, other in combinations(points, 2):
        quicker, slower = sorted((one, other), key=lambda point: point.measured)
        if slower.measured >= APART * quicker.measured:
            pairs += 1
            right += quicker.predicted.value < slower.predicted.value
    return right, pairs


def _asked(table: Callable[[], object]) -> object:
    """What cannot be made here is said, and the rest goes on."""
    try:
        return table()
    except rehearse_shaped.NotHere as reason:
        print(f"\nshaped links: not made here: {reason}")
        return {"not made": str(reason)}
