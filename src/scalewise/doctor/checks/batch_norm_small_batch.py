"""Detects batch normalisation by the statistics of a few samples, because every rank uses only its own."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.source import text_of, wrapper_name
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import BatchNormNote
from scalewise.records.spec import Change
from scalewise.units import counted

FEW = 16
LEAST_PASSES = 3
CHECK = Check(
    name="batch-norm-small-batch",
    group="ddp",
    severity="note",
    detects="BatchNorm of a DistributedDataParallel model normalises by the statistics of fewer than 16 samples, and "
    "those differ between ranks as much as those of fewer than 16 independent values would.",
    why="Each rank normalises by its own batch. With 16 independent values a mean is off by a quarter of the standard "
    "deviation and a variance by a third of itself; below that, accuracy is known to fall. Running statistics are "
    "rank 0's alone. SyncBatchNorm takes the samples of all ranks together, at the price of messages in every layer.",
    example="model = DDP(resnet50())  # 4 samples on each rank",
    fix="model = nn.SyncBatchNorm.convert_sync_batchnorm(resnet50())\nmodel = DDP(model)  # or GroupNorm",
    needs="batch normalisation in training on two ranks of a DistributedDataParallel model",
    silent="Layers whose many positions (height, width, time) make up for few samples: what counts is how far the "
    "ranks' statistics really lie apart. SyncBatchNorm, GroupNorm and frozen layers.",
)


@dataclass(frozen=True)
class _Layer:
    """The figures of one layer over several passes of all ranks."""

    samples: int
    values: int  # number of values per channel
    independent: float  # the number of independent values whose statistics would differ as much


def examine(case: Case) -> tuple[Finding, ...]:
    """Measures for every layer how far the ranks' means lie apart, in standard deviations."""
    (wrapper, *_) = case.ddp_models()
    members = [rank for rank in case.ranks if rank.rank in wrapper.ranks]
    layers = list(_layers(members))
    if not layers and any(rank.all(BatchNormNote) for rank in members):
        raise Abstain("batch normalisation was seen, but not in enough passes of two ranks whose statistics differ")
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
        independent = _independent(passes) if len(passes) >= LEAST_PASSES else None
        if independent is not None:
            yield _Layer(passes[0][0].samples, passes[0][0].values, independent)


def _by_layer(rank: RankCase) -> dict[int, list[BatchNormNote]]:
    found: dict[int, list[BatchNormNote]] = {}
    for note in rank.all(BatchNormNote):
        found.setdefault(note.layer, []).append(note)
    return found


def _independent(passes: Sequence[Sequence[BatchNormNote]]) -> float | None:
    """Returns how many independent values would make the ranks' means or variances differ as much (the smaller number).

    The mean of n values has 1/n of their variance; the variance of n normal values is off by sqrt(2/(n - 1)) of itself.
    Behind another batch normalisation the means stay close together, so variances are compared as well.
    """
    means, variances = list[float](), list[float]()
    for channel in range(min(len(note.means) for one in passes for note in one)):
        within = statistics.fmean(note.variances[channel] for one in passes for note in one)
        if within > 0:
            apart = (statistics.variance([note.means[channel] for note in one]) for one in passes)
            means.append(statistics.fmean(apart) / within)
            apart = (statistics.variance([note.variances[channel] for note in one]) for one in passes)
            variances.append(statistics.fmean(apart) / within**2)
    if not means or not any(means) or not any(variances):
        return None
    return min(1 / statistics.fmean(means), 1 + 2 / statistics.fmean(variances))


def _finding(case: Case, wrapper: WrapperRow, small: Sequence[_Layer], layers: int) -> Finding:
    worst = min(small, key=lambda layer: layer.independent)
    note = next(iter(case.first.all(BatchNormNote)), None)
    place = case.first.places.get(wrapper.place)
    off = worst.independent**-0.5
    spread = (2 / max(worst.independent - 1, 1)) ** 0.5
    on_gpu = wrapper.device.startswith("cuda")
    untried = "computed from the statistics measured on each rank" + (
        "" if on_gpu else "; SyncBatchNorm runs on GPUs only, so no replay was made here"
    )
    model = wrapper_name(case.first, wrapper)
    return Finding(
        check=CHECK.name,
        severity="note",
        sentence=f"Batch normalisation takes its statistics from {counted(worst.samples, 'sample')} of one rank: "
        f"they are as uncertain as those of {worst.independent:.1f} independent values.",
        evidence=(
            f"in {len(small)} of {counted(layers, 'layer')} the ranks' statistics lie as far apart as those of fewer "
            f"than {FEW} independent values, at worst of {worst.independent:.1f} (of {worst.values} per channel)",
            f"such a mean is off by {off:.0%} of the standard deviation, such a variance by {spread:.0%} of itself",
            f"SyncBatchNorm over {len(wrapper.ranks)} ranks would take {len(wrapper.ranks) * worst.samples} samples",
        ),
        fix=f"{model} = nn.SyncBatchNorm.convert_sync_batchnorm({model})  # before it is wrapped\n"
        f"{text_of(place, f'{model} = DDP({model})')}",
        where=place or case.first.place(note),
        price=Price(spread, "share", "by which the variance that a rank normalises with is off", untried),
        ranks=wrapper.ranks,
        steps_seen=len(case.first.windows),
        change=Change("sync_batch_norm") if on_gpu else None,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Adds to the finding what the messages of SyncBatchNorm cost per step."""
    saved = replayed.saved
    if replayed.trouble or saved is None:
        return finding
    words = (
        f"replayed with SyncBatchNorm a step takes {-saved.milliseconds.value:.3g} ms more "
        f"({-saved.milliseconds.high:.3g} to {-saved.milliseconds.low:.3g}) of {saved.step_milliseconds:.3g} ms"
    )
    return replace(finding, evidence=(*finding.evidence, words))
