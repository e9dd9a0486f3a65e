"""Steps and rehearsals for the tests of predictions: DDP with a bucket for every piece of backward."""

from scalewise.predict.link import Link, Wire
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Compute, Issue, Tape, Wait

MIB = 2**20
QUICK = Link("quick", Wire(5e-6, 1e-6, 100e9), spread=0.05)
SLOW = Link("slow", Wire(50e-6, 10e-6, 1e9), spread=0.05)


def ddp_tape(
    ranks: int = 8,
    samples: float | None = 32,
    *,
    buckets: int = 4,
    bucket_bytes: float = 8 * MIB,
    forward: float = 10e-3,
    per_sample: float = 0.0,
    micro_batches: int = 1,
) -> Tape:
    """Forward, backward twice as long in pieces with a bucket after each, an optimizer that waits for all."""
    work = forward + per_sample * (samples or 0)
    entries: list[object] = []
    for number in range(micro_batches):
        entries.append(Compute(work, "forward"))
        for bucket in range(buckets):
            entries.append(Compute(2 * work / buckets, "backward"))
            if number == micro_batches - 1:
                entries.append(Issue(bucket, "all_reduce", bucket_bytes, ranks))
    entries += [Wait(bucket) for bucket in range(buckets)]
    entries.append(Compute(2e-3, "optimizer"))
    return Tape(tuple(entries), ranks, 0, None if samples is None else samples * micro_batches, micro_batches)


def rehearsal(tape: Tape, **changes) -> RehearsedRank:
    """Three steps, the middle one typical."""
    slower = dict.fromkeys(("forward", "backward", "optimizer"), 1.02)
    quicker = dict.fromkeys(("forward", "backward", "optimizer"), 0.99)
    # As many rehearsed as there are ranks, so that none stands for others.
    known = {"company": 64, "device": "cpu", "between_seconds": 1e-3, "peak_bytes": 2**30, "dtypes": ("float32",)}
    return RehearsedRank(
        ranks=tape.ranks,
        rank=0,
        tapes=(tape.scaled(slower), tape, tape.scaled(quicker)),
        **{**known, **changes},
    )
