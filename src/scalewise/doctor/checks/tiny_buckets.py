"""Detects gradients that are sent in many small pieces because the bucket size was lowered."""

import math
import re
import statistics

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_by_time
from scalewise.doctor.queries.source import assigned, text_of
from scalewise.records.examination import PlaceRow, WrapperRow, WrapperUseRow
from scalewise.records.spec import Change

CHECK = Check(
    name="tiny-buckets",
    group="ddp",
    severity="slow",
    detects="bucket_cap_mb was lowered so far that gradients go out in eight or more buckets of less than 1 MB.",
    why="Each bucket is an all-reduce with a latency of its own. Small ones are over before the link is at speed.",
    example="model = DDP(net, bucket_cap_mb=0.1)",
    fix="model = DDP(net)  # 25 MB",
    needs="the buckets that DDP made, after its first backward pass",
    silent="Small models, which have one or two buckets; parameters too large to share one.",
)
LEAST_BUCKETS = 8
SMALL_BYTES = 1_000_000
DEFAULT_MB = 25
DEFAULT_BYTES = DEFAULT_MB * 2**20
CHANGE = Change("ddp_option", {"bucket_cap_mb": DEFAULT_MB})


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper with tiny buckets."""
    uses = {use.wrapper: use for use in case.first.uses}
    found = []
    for wrapper in case.ddp_models():
        use, cap_bytes = uses.get(wrapper.index), wrapper.options.get("bucket_bytes_cap")
        if use is None or not isinstance(cap_bytes, int | float) or cap_bytes >= DEFAULT_BYTES:
            continue
        if len(use.bucket_bytes) >= LEAST_BUCKETS and statistics.median(use.bucket_bytes) < SMALL_BYTES:
            found += _finding(case, wrapper, use, cap_bytes / 2**20)
    return tuple(found)


def _finding(case: Case, wrapper: WrapperRow, use: WrapperUseRow, cap_mb: float) -> list[Finding]:
    count, total = len(use.bucket_bytes), sum(use.bucket_bytes)
    middle = statistics.median(use.bucket_bytes)
    # DDP makes its first bucket small (1 MB) so that communication can begin early.
    otherwise = 1 + math.ceil(max(0, total - 2**20) / DEFAULT_BYTES)
    if count < 2 * otherwise:
        return []
    where = case.first.places.get(wrapper.place)
    finding = Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"bucket_cap_mb={cap_mb:.3g} cuts {total / 1e6:.3g} MB of gradients into {count} all-reduces per "
        f"step; the default needs {otherwise}.",
        evidence=(
            f"{count} buckets, median {middle / 1e3:.3g} kB, largest {max(use.bucket_bytes) / 1e3:.3g} kB",
            f"with {DEFAULT_MB} MB there would be {otherwise}",
        ),
        fix=_fix(where),
        where=where,
        price=Price(count / otherwise, "times", "as many all-reduces as needed", "computed from the buckets DDP made"),
        steps_seen=use.step,
        change=CHANGE,
    )
    return [finding]


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time that larger buckets save."""
    return priced_by_time(finding, replayed, "sending gradients in small pieces")


def _fix(where: PlaceRow | None) -> str:
    option = re.compile(r",?\s*bucket_cap_mb\s*=\s*[^,()]+(?=[,)])")
    text = text_of(where, "")
    if option.search(text):
        return f"{option.sub('', text)}  # {DEFAULT_MB} MB"
    return f"{assigned(where, 'model')} = DistributedDataParallel(net)  # without bucket_cap_mb: {DEFAULT_MB} MB"
