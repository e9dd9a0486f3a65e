"""How long it takes to foresee: one step at N = 16,384, and ten thousand combinations from one rehearsal."""

import time
from dataclasses import replace

from bench.rehearse_points import TRANSFORMER
from bench.rehearse_runs import Place, together
from scalewise.predict.compute_work import work_line
from scalewise.predict.link import Link, Wire
from scalewise.predict.prediction import predict
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.sweep import Grid, Ground, sweep
from scalewise.records.spec import Rehearsed as StandIns
from scalewise.units import seconds_text

RANKS, PER_NODE = 16_384, 8
NODES = Link("nodes of 8", Wire(5e-5, 3e-6, 3e11), Wire(5e-5, 1e-5, 4e11), PER_NODE)
MIB = 2.0**20


def table(place: Place) -> object:
    """Prints it."""
    whole, fine = (_rehearsed(place, cap) for cap in ("25", "0.01"))
    began = time.perf_counter()
    step = predict(whole, NODES).step.value
    one = time.perf_counter() - began
    links = tuple(replace(NODES, name=f"link {at}", spread=0.01 * at) for at in range(10))
    buckets = (None, MIB, 25 * MIB, 100 * MIB)
    grid = Grid(tuple(2**power for power in range(1, 15)), links, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (1, 2, 4), buckets)
    began = time.perf_counter()
    rows = sweep(Ground(whole.typical, work_line([whole]), fine=fine.typical), grid)
    many = time.perf_counter() - began
    print(f"\nSpeed: a transformer as rank 0 of {RANKS:,}, {len(whole.typical.messages)} messages to a step")
    print(f"one step of {len(whole.tapes)} taped ones foreseen in {seconds_text(one)} (goal under 1 s): ", end="")
    print(f"{seconds_text(step)}; {len(rows):,} combinations in {seconds_text(many)} (goal under 10 s)")
    return {"one step seconds": one, "combinations": len(rows), "sweep seconds": many}


def _rehearsed(place: Place, bucket_mb: str) -> RehearsedRank:
    args = ("--batch", str(2 * RANKS), "--steps", "12", "--bucket-mb", bucket_mb)
    spec = replace(place, ranks=1).spec(TRANSFORMER, args, "large")
    return together(place.runs([replace(spec, kind=StandIns(RANKS, 0, PER_NODE))]))
