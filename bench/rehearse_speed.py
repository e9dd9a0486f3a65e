"""How long it takes to foresee one step at N = 16,384."""

import time
from dataclasses import replace

from bench.rehearse_points import TRANSFORMER
from bench.rehearse_runs import Place, together
from scalewise.predict.link import Link, Wire
from scalewise.predict.prediction import predict
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.records.spec import Rehearsed as StandIns
from scalewise.units import seconds_text

RANKS, PER_NODE = 16_384, 8
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
    return {"one step seconds": one}


def _rehearsed(place: Place) -> RehearsedRank:
    args = ("--batch", str(2 * RANKS), "--steps", "12", "--bucket-mb", "25")
    spec = replace(place, ranks=1).spec(TRANSFORMER, args, "large")
    return together(place.runs([replace(spec, kind=StandIns(RANKS, 0, PER_NODE))]))
