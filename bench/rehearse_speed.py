"""How long predictions take: a step at N = 16,384, 10,000 what-ifs, a rehearsal of three numbers of ranks."""

import time
from dataclasses import replace

from bench.rehearse_points import LINEAR, TRANSFORMER
from bench.rehearse_runs import Place, together
from scalewise.jobs.rehearse import concluded, rehearse
from scalewise.jobs.rehearse_request import RehearseRequest
from scalewise.jobs.reporter import SILENT
from scalewise.predict.compute_work import work_line
from scalewise.predict.link import Link, Wire
from scalewise.predict.prediction import OnLink, predict
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.timeline import simulate
from scalewise.predict.what_if import among, with_batch, with_smaller_gradients
from scalewise.records.spec import Rehearsed as StandIns
from scalewise.units import seconds_text

RANKS, PER_NODE = 16_384, 8
VARIANTS, VARIANTS_GOAL_SECONDS = 10_000, 1.0
THREE, THREE_GOAL_SECONDS = (2, 8, 64), 60.0
NODES = Link("nodes of 8", Wire(5e-5, 3e-6, 3e11), Wire(5e-5, 1e-5, 4e11), PER_NODE)


def table(place: Place) -> object:
    """Prints it."""
    whole = _rehearsed(place)
    began = time.perf_counter()
    step = predict(whole, NODES).step.value
    one = time.perf_counter() - began
    print(f"\nSpeed: a transformer as rank 0 of {RANKS:,}, {len(whole.typical.messages)} messages to a step")
    print(
        f"one step of {len(whole.tapes)} taped ones foreseen in {seconds_text(one)} (goal under 1 s): "
        f"{seconds_text(step)}"
    )
    found = {"one step seconds": one, "what-ifs seconds": _what_ifs(whole), "three numbers seconds": _three(place)}
    print(f"{VARIANTS:,} what-ifs in {seconds_text(found['what-ifs seconds'])} (goal {VARIANTS_GOAL_SECONDS:g} s)")
    print(
        f"rehearsed for {', '.join(map(str, THREE))} ranks, link and advice included, in "
        f"{seconds_text(found['three numbers seconds'])} (goal {THREE_GOAL_SECONDS:g} s for a step of 50 ms)"
    )
    return found


def _what_ifs(whole: RehearsedRank) -> float:
    """Batches, precisions of gradients, numbers of ranks and links, each combination once."""
    line = work_line([whole])
    tapes = [
        with_smaller_gradients(with_batch(whole.typical, 1 + batch / 10, line), share)
        for batch in range(10)
        for share in (0.25, 0.5, 0.75, 1.0)
    ]
    links = [replace(NODES, inside=replace(NODES.inside, bytes_per_second=rate * 1e10)) for rate in range(1, 26)]
    numbers = [PER_NODE << power for power in range(10)]
    began = time.perf_counter()
    count = 0
    for link in links:
        for ranks in numbers:
            over = OnLink(link, ranks)  # a message of one size is worked out once
            for tape in tapes:
                simulate(among(tape, ranks), over)
                count += 1
    assert count == VARIANTS
    return time.perf_counter() - began


def _three(place: Place) -> float:
    """As a user would ask for it, without the check, which is made of real runs."""
    words = ("--depth", "4", "--batch", "256", "--steps", "40")
    request = RehearseRequest(LINEAR, words, THREE, link=NODES, check=False, device="cpu", out=place.folder / "three")
    began = time.perf_counter()
    concluded(rehearse(request, SILENT), request)
    return time.perf_counter() - began


def _rehearsed(place: Place) -> RehearsedRank:
    args = ("--batch", str(2 * RANKS), "--steps", "12", "--bucket-mb", "1")
    spec = replace(place, ranks=1).spec(TRANSFORMER, args, "large")
    return together(place.runs([replace(spec, kind=StandIns(RANKS, 0, PER_NODE))]))
