"""Detects ranks that clip their shard of the gradients by the norm of that shard alone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.averaging import TOLERANCE, gap
from scalewise.doctor.queries.inputs import SHARDED
from scalewise.doctor.queries.source import text_of
from scalewise.records.notes import BackwardNote, ClipNote, CollectiveNote, ForwardNote, GradientsNote, StepNote
from scalewise.records.spec import Change
from scalewise.units import named_ranks

CHECK = Check(
    name="clip-of-a-shard",
    group="model parallel",
    severity="wrong",
    detects="Ranks hold shards of the parameters, and each clips its gradients by the norm of its own shard.",
    why="The norm of the whole gradient is longer than that of a shard. So the gradient is clipped too late and too "
    "little, every rank scales its part by another factor, and the direction of the step changes with the "
    "number of ranks.",
    example="norm = torch.stack([p.grad.to_local().norm() for p in model.parameters()]).norm()\n"
    "for p in model.parameters():\n    p.grad.mul_(min(1.0, limit / norm))",
    fix="torch.nn.utils.clip_grad_norm_(model.parameters(), limit)  # knows of DTensor shards\n"
    "# by hand: add up the squared norms over the ranks first\n"
    "squares = sum(p.grad.to_local().square().sum() for p in model.parameters())\n"
    "dist.all_reduce(squares)\nnorm = squares.sqrt()",
    needs="the norm of the gradients that each of two ranks with shards applies, in three steps",
    silent="Shards that are scaled by one common factor; replicas, whose norms are equal by nature; ranks that "
    "train apart.",
)
CHANGE = "clip_by_whole_norm"
LEAST = 3  # steps
SAME = 1e-3  # largest relative difference of norms that count as the same limit


@dataclass(frozen=True)
class _Clipped:
    """A group of ranks whose shards are clipped to the same norm."""

    ranks: tuple[int, ...]
    limit: float
    steps: int  # number of steps in which at least two of them had that norm
    seen: int
    longest: float  # largest norm of all shards together
    factors: tuple[float, ...]  # each rank's factor in one step, if torch's function noted the norm it found


def examine(case: Case) -> tuple[Finding, ...]:
    """Finds shards with equal norms in several steps, which scaling by a common factor could not produce."""
    groups = list(_shard_groups(case))
    if not groups:
        raise Abstain("no two ranks hold shards of the parameters")
    known = [members for members in groups if len(_norms(members)) >= LEAST]
    if not known:
        raise Abstain(f"the norms of the shards' gradients are not known in {LEAST} steps")
    found = [one for members in known if (one := _clipped(members)) is not None]
    return tuple(_finding(case, one) for one in found[:1])


def _shard_groups(case: Case) -> Iterator[tuple[RankCase, ...]]:
    """Yields the groups of ranks that hold shards of the same parameters, as far as is known."""
    by_rank = {rank.rank: rank for rank in case.ranks}
    meshes = {tuple(note.shard_ranks) for rank in case.ranks for note in rank.all(GradientsNote) if note.shard_ranks}
    for mesh in sorted(meshes):
        members = tuple(by_rank[rank] for rank in mesh if rank in by_rank)
        if len(members) > 1:
            yield members
    if not meshes and len(case.ranks) > 1 and (_wrapped(case) or _scattered(case) or _tensor_parallel(case)):
        yield case.ranks


def _wrapped(case: Case) -> bool:
    """Returns True for FSDP version 1: its parameters are plain tensors, and with NO_SHARD the same on all ranks."""
    return any(row.wrapper in SHARDED for row in case.first.wrappers) and _parameters_differ(case) is not False


def _scattered(case: Case) -> bool:
    """Returns True if gradients are reduce-scattered after the last backward pass: each rank updates a shard."""
    for window in case.first.windows:
        backward = max((at for at, note in enumerate(window.notes) if isinstance(note, BackwardNote)), default=-1)
        after = window.notes[backward + 1 :] if backward >= 0 else ()
        if any(isinstance(one, CollectiveNote) and one.operation.startswith("reduce_scatter") for one in after):
            return True
    return False


def _tensor_parallel(case: Case) -> bool:
    """Returns True if ranks see the same inputs and communicate, but hold different parameters."""
    fed = [[note.digest for note in rank.all(ForwardNote) if note.trains and note.digest] for rank in case.ranks]
    same = len(fed[0]) >= LEAST and all(one[:LEAST] == fed[0][:LEAST] for one in fed)
    talks = any(isinstance(note, CollectiveNote) for window in case.first.windows for note in window.notes)
    return same and talks and bool(_parameters_differ(case))


def _parameters_differ(case: Case) -> bool | None:
    """Returns True if the ranks' parameters differ in every step that was compared; None if none was compared."""
    sums = [{row.step: row.sums for row in rank.sums} for rank in case.ranks]
    steps = set.intersection(*map(set, sums))
    return all(_differ([one[step] for one in sums]) for step in steps) if steps else None


def _differ(sums: Sequence[dict[str, tuple[float, float]]]) -> bool:
    shared = set.intersection(*map(set, sums))
    return any(gap([one[name] for one in sums]) > TOLERANCE for name in shared)


def _norms(members: Sequence[RankCase]) -> list[tuple[float, ...]]:
    """Returns the norms of all ranks for each step in which all of them are known."""
    each = [[note.norm for note in rank.all(GradientsNote)] for rank in members]
    steps = [tuple(one for one in step if one is not None) for step in zip(*each, strict=False)]
    return [step for step in steps if len(step) == len(members)]


def _clipped(members: Sequence[RankCase]) -> _Clipped | None:
    steps = _norms(members)
    limit = max(norm for step in steps for norm in step)
    at_limit = [[norm >= (1 - SAME) * limit for norm in step] for step in steps]
    guilty = [step for step, at in zip(steps, at_limit, strict=True) if sum(at) > 1]
    if len(guilty) < LEAST:
        return None
    longest = max(math.hypot(*step) for step in guilty)
    ranks = tuple(rank.rank for rank in members)
    return _Clipped(ranks, limit, len(guilty), len(steps), longest, _factors(members, limit))


def _factors(members: Sequence[RankCase], limit: float) -> tuple[float, ...]:
    """Returns the factor by which each rank scaled its shard in the first step, if torch's own function was used."""
    clips = [next((note for note in rank.all(ClipNote) if note.norm), None) for rank in members]
    return tuple(min(1.0, limit / clip.norm) for clip in clips if clip is not None and clip.norm)


def _finding(case: Case, found: _Clipped) -> Finding:
    clip = next(iter(case.first.all(ClipNote)), None)
    step = next(iter(case.first.all(StepNote)), None)
    place = case.first.place(clip) or case.first.place(step)
    factors = ", ".join(f"{one:.3g}" for one in found.factors)
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{named_ranks(found.ranks)} each clip their shard of the gradient to {found.limit:.4g} by its own "
        f"norm: the whole gradient is up to {found.longest:.4g} long.",
        evidence=(
            f"in {found.steps} of {found.seen} steps two or more shards have the very norm {found.limit:.4g} when "
            "they are applied; with one factor for all, only their squares would add up to its square",
            *([f"factors of the ranks in the first step: {factors}"] if len(found.factors) > 1 else []),
        ),
        fix="torch.nn.utils.clip_grad_norm_(model.parameters(), limit)  # with DTensor: the norm over all shards\n"
        "# by hand: dist.all_reduce the sum of squares over the ranks that hold shards, then take the root\n"
        f"# instead of the norm used before: {text_of(place, 'optimizer.step()')}",
        where=place,
        price=Price(
            found.longest / found.limit,
            "times",
            "as long as the limit is the gradient that is applied",
            "measured from the gradients at the step",
        ),
        ranks=found.ranks,
        steps_seen=found.seen,
        # The change asks all ranks; shards that lie over some of them only would need a group of their own.
        change=Change(CHANGE, {"limit": found.limit}) if len(found.ranks) == case.world_size else None,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by how much longer the applied gradient is than one clipped by the norm of all shards."""
    plain, fixed = (_first_norm(one, finding) for one in (replayed.plain, replayed.fixed))
    if replayed.trouble or not replayed.applied or plain is None or not fixed:
        return finding
    told = (
        f"norm of the whole gradient that the first step applies: {plain:.4g} as it is, {fixed:.4g} clipped by the "
        "norm over all ranks"
    )
    if plain <= (1 + SAME) * fixed:
        return replace(finding, evidence=(*finding.evidence, told))
    return replace(
        finding,
        evidence=(*finding.evidence, told),
        proof="replayed",
        price=Price(
            plain / fixed,
            "times",
            "as long as with the right norm is the gradient that is applied",
            "measured in the first step, with the fix applied",
        ),
    )


def _first_norm(case: Case, finding: Finding) -> float | None:
    """Returns the norm of all shards together in the first step, when the parameters of both runs are still equal."""
    norms = _norms([rank for rank in case.ranks if rank.rank in finding.ranks])
    return math.hypot(*norms[0]) if norms else None
