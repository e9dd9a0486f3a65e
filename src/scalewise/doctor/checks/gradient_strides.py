"""Reports DDP's own warning that gradients do not lie in memory as its buckets do."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding
from scalewise.records.notes import WarningNote

CHECK = Check(
    name="gradient-strides",
    group="ddp",
    severity="note",
    detects="DDP warned that the strides of a gradient do not match those of its bucket.",
    why="Each such gradient is copied once more in each step. Often the tensor is small and nothing is lost.",
    example="x = x.transpose(1, 2)\ny = self.conv(x)  # 1 x 1 kernel: the gradient of its weight lies differently",
    fix="x = x.transpose(1, 2).contiguous()\ny = self.conv(x)",
    needs="nothing: DDP warns by itself",
)
TEXT = "Grad strides do not match bucket view strides"


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one note, with the shape that DDP names."""
    warned = [(rank, note) for rank in case.ranks for note in rank.all(WarningNote) if TEXT in note.text]
    if not warned:
        return ()
    rank, note = warned[0]
    lines = [line.strip() for line in note.text.splitlines() if "sizes()" in line]
    finding = Finding(
        check=CHECK.name,
        severity="note",
        sentence="DDP copies some gradients once more per step, for they do not lie in memory as its buckets do.",
        evidence=(
            f"warned on rank {', '.join(str(one.rank) for one, _ in warned)}, once per process",
            *(f"DDP says: {line}" for line in lines[:2]),
        ),
        fix="# call .contiguous() on what a permute or transpose gives to the layer whose weight has that shape",
        where=rank.place(note),
        ranks=tuple(sorted({one.rank for one, _ in warned})),
        steps_seen=len(case.first.windows),
    )
    return (finding,)
