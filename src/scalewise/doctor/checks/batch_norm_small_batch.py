"""Batch normalisation takes its statistics from a handful of samples, because every rank has only its own."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.check import Check
from scalewise.doctor.finding import Finding, Price
from scalewise.doctor.replay import Replayed
from scalewise.doctor.script_words import text_of, wrapper_name
from scalewise.doctor.words import counted
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import BatchNormNote
from scalewise.records.spec import Remedy

FEW = 16
LEAST_PASSES = 3
CHECK = Check(
    name="batch-norm-small-batch",
    group="ddp",
    severity="note",
    detects="BatchNorm of a DistributedDataParallel model normalises by the statistics of fewer than 16 samples, and "
    "these differ between ranks as much as those of fewer than 16 independent values would.",
    why="Each rank normalises by its own batch. With n independent values the mean is off by 1/sqrt(n) of the standard "
    "deviation, a quarter for 16; below that, accuracy is known to fall. Running statistics are rank 0's "
    "alone. SyncBatchNorm takes the samples of all ranks together, at the price of messages in every layer.",
    example="model = DDP(resnet50())  # 4 samples on each rank",
    fix="model = nn.SyncBatchNorm.convert_sync_batchnorm(resnet50())\nmodel = DDP(model)  # or GroupNorm",
    needs="batch normalisation in training on two ranks of a DistributedDataParallel model",
    silent="Layers whose many positions (height, width, time) make up for few samples: what counts is how far the "
    "ranks' means really lie apart. SyncBatchNorm, GroupNorm and frozen layers.",
)


@dataclass(frozen=True)
class _Layer:
    """One layer over several passes of all ranks."""

    samples: int
    values: int  # per channel
    independent: float  # so many independent values would differ as much


def examine(case: Case) -> tuple[Finding, ...]:
    """Measures for every layer how far the ranks' means lie apart, in standard deviations."""
    (wrapper, *_) = case.ddp_models()
    members = [rank for rank in case.ranks if rank.rank in wrapper.ranks]
    layers = list(_layers(members))
    if not layers:
        raise Abstain("no batch normalisation was seen in training on two ranks")
    small = [layer for layer in layers if layer.samples < FEW and layer.independent < FEW]
    return (_finding(case, wrapper, small, len(layers)),) if small else ()


def _layers(members: Sequence[RankCase]) -> Iterator[_Layer]:
    by_rank = [_by_layer(rank) for rank in members]
    if len(by_rank) < 2:
        return
    for index in sorted(set.intersection(*map(set, by_rank))):
        passes = list(zip(*(one[index] for one in by_rank), strict=False))
        ratios = [ratio for one in passes for ratio in _ratios(one)]
        if len(passes) >= LEAST_PASSES and ratios and statistics.fmean(ratios) > 0:
            first = passes[0][0]
            yield _Layer(first.samples, first.values, 1 / statistics.fmean(ratios))


def _by_layer(rank: RankCase) -> dict[int, list[BatchNormNote]]:
    found: dict[int, list[BatchNormNote]] = {}
    for note in rank.all(BatchNormNote):
        found.setdefault(note.layer, []).append(note)
    return found


def _ratios(notes: Sequence[BatchNormNote]) -> Iterator[float]:
    """For each channel the variance of the ranks' means over that of the values: 1/n for n independent values."""
    for channel in range(min(len(note.means) for note in notes)):
        within = statistics.fmean(note.variances[channel] for note in notes)
        values = statistics.fmean(note.values for note in notes)
        if within > 0 and values > 1:
            # What is measured inside a batch is too small by (n - 1)/n; n is what is sought, so values stand for it.
            yield statistics.variance([note.means[channel] for note in notes]) / (within * values / (values - 1))


def _finding(case: Case, wrapper: WrapperRow, small: Sequence[_Layer], layers: int) -> Finding:
    worst = min(small, key=lambda layer: layer.independent)
    note = next(iter(case.first.all(BatchNormNote)), None)
    place = case.first.places.get(wrapper.place)
    off = worst.independent**-0.5
    on_gpu = wrapper.device.startswith("cuda")
    untried = "computed from the statistics measured on each rank" + (
        "" if on_gpu else "; SyncBatchNorm runs on GPUs only, so no replay was made here"
    )
    model = wrapper_name(case.first, wrapper)
    return Finding(
        check=CHECK.name,
        severity="note",
        sentence=f"Batch normalisation takes its statistics from {counted(worst.samples, 'sample')} of one rank: "
        f"a mean is off by {off:.0%} of the standard deviation.",
        evidence=(
            f"in {len(small)} of {counted(layers, 'layer')} the ranks' means lie as far apart as those of fewer than "
            f"{FEW} independent values; at worst of {worst.independent:.1f}, with {worst.values} values per channel",
            f"SyncBatchNorm over {len(wrapper.ranks)} ranks would take {len(wrapper.ranks) * worst.samples} samples",
        ),
        fix=f"{model} = nn.SyncBatchNorm.convert_sync_batchnorm({model})  # before it is wrapped\n"
        f"{text_of(place, f'{model} = DDP({model})')}",
        where=place or case.first.place(note),
        price=Price(off, "share", "of the standard deviation by which a rank's mean is off", untried),
        ranks=wrapper.ranks,
        steps_seen=len(case.first.windows),
        remedy=Remedy("sync_batch_norm") if on_gpu else None,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """What the messages of SyncBatchNorm cost, beside what they mend."""
    spared = replayed.spared
    if replayed.trouble or spared is None:
        return finding
    words = (
        f"replayed with SyncBatchNorm a step takes {-spared.milliseconds:.3g} ms more "
        f"({-spared.high:.3g} to {-spared.low:.3g}) of {spared.step_milliseconds:.3g} ms"
    )
    return replace(finding, evidence=(*finding.evidence, words))
