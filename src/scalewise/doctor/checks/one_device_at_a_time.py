"""Detects a model spread over devices or ranks of which only one has work at any moment."""

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.ranks import Chain, chains, waiting_share
from scalewise.records.examination import StagesRow
from scalewise.records.notes import CollectiveNote
from scalewise.units import counted, named_ranks

LEAST_PASSES = 2

CHECK = Check(
    name="one-device-at-a-time",
    group="model parallel",
    severity="slow",
    detects="The layers lie on several devices or ranks, and the whole batch goes through them in one piece.",
    why="While one stage works, all others wait for it: N devices do the work of one, and copies come on top.",
    example="hidden = self.first(x)            # cuda:0\nreturn self.second(hidden.to('cuda:1'))  # cuda:0 idles",
    fix="pieces = [self.first(piece).to('cuda:1') for piece in x.chunk(4)]  # cuda:0 goes on with the next piece\n"
    "return torch.cat([self.second(piece) for piece in pieces])",
    needs="a model with parameters on several devices, or ranks that send activations on and gradients back",
    silent="Several pieces in flight (GPipe, 1F1B, a split batch); branches on different devices that do not wait for "
    "each other; batches of a single row.",
)
PIPELINE_FIX = (
    "outputs = []\n"
    "for piece in inputs.chunk(4):  # all pieces go ahead before the first gradient is waited for\n"
    "    outputs.append(stage(piece))\n"
    "    dist.send(outputs[-1].detach(), dst=rank + 1)\n"
    "for output in outputs:\n"
    "    dist.recv(gradient, src=rank + 1)\n"
    "    output.backward(gradient)"
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns findings from the order of calls: no times are needed to see that nothing can overlap."""
    spread = [rank for rank in case.ranks if _rows(rank)]
    found_chains = chains(case)
    if not spread and not found_chains and case.relation.kind == "pipeline":
        raise Abstain("the ranks are stages of a pipeline, but by their calls it cannot be told which piece goes where")
    if not spread and not found_chains:
        raise Abstain("no model on several devices, and no ranks that pass activations on and gradients back")
    alone = [rank for rank in spread if _one_after_the_other(rank)]
    in_one = (_of_devices(alone),) if alone else ()
    return (*in_one, *(_of_ranks(chain) for chain in found_chains if _in_one_piece(chain)))


def _rows(rank: RankCase) -> list[StagesRow]:
    return [row for row in rank.record.examination if isinstance(row, StagesRow)]


def _one_after_the_other(rank: RankCase) -> bool:
    """Returns True if between backward passes each layer was called once, each turn on the previous one's output."""
    rows = _rows(rank)
    if len(rows) < LEAST_PASSES or not all(row.chained and not row.repeated for row in rows):
        return False
    windows = [window for window in rank.windows if window.number + 1 in {row.step for row in rows}]
    return bool(windows) and not any(_single_rows(one.forwards) for one in windows)


def _in_one_piece(chain: Chain) -> bool:
    return chain.in_flight == 1 and not any(_single_rows(window.forwards) for window in chain.windows)


def _single_rows(forwards: tuple[object, ...]) -> bool:
    """Returns True if a batch has only one row, and so cannot be split."""
    return any(getattr(forward, "rows", None) == 1 for forward in forwards)


def _of_devices(ranks: list[RankCase]) -> Finding:
    rows = _rows(ranks[0])
    devices = sorted(set(rows[-1].devices))
    idle = 1 - 1 / len(devices)
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"The model lies on {len(devices)} devices and only one of them has work at a time: "
        f"{idle:.0%} of their time is idle at least.",
        evidence=(
            f"turns up to backward: {', '.join(rows[-1].devices)}; each began with what the last had made",
            f"in {len(rows)} of {counted(len(rows), 'pass')} no layer was called twice before backward was: the batch "
            "goes through in one piece",
        ),
        fix=CHECK.fix,
        where=ranks[0].places.get(rows[-1].place),
        price=Price(idle, "share", "device time", f"computed: one of {len(devices)} devices works at a time"),
        ranks=tuple(rank.rank for rank in ranks),
        steps_seen=len({row.step for row in rows}),
    )


def _of_ranks(chain: Chain) -> Finding:
    first = chain.ranks[0]
    numbers = [rank.rank for rank in chain.ranks]
    shares = {rank.rank: share for rank in chain.ranks if (share := waiting_share(rank)) is not None}
    mean = sum(shares.values()) / len(shares) if shares else None
    waits = next((note for note in first.all(CollectiveNote) if note.operation == "recv"), None)
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{named_ranks(numbers)} are {len(numbers)} stages of a pipeline with 1 piece of the batch in flight: "
        "only one of them works at a time.",
        evidence=(
            f"rank {first.rank} waits for the gradient of each piece before it begins the next, in all of "
            f"{len(chain.windows)} steps",
            *(f"rank {rank} spends {share:.0%} of a step waiting for messages" for rank, share in shares.items()),
        ),
        fix=PIPELINE_FIX,
        where=first.place(waits),
        price=Price(mean, "share", "the ranks' time, waiting for messages", "measured") if mean is not None else None,
        ranks=tuple(numbers),
        steps_seen=len(chain.windows),
    )
