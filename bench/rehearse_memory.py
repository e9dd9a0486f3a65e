"""Memory of a rank as a rehearsal foresees it, against ranks that really ran: the most that its tensors hold at once.

Of DDP the watcher's own inspection counts it. Sharded tensors lie elsewhere than they say, and the inspection abstains:
of FSDP2 the judge is torch's tracker, inside the script. The peak of the process is printed beside both.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.rehearse_points import CONVOLUTION, LINEAR, TRANSFORMER
from bench.rehearse_runs import Place, printed
from scalewise.records.inspection import MemoryPartsRow
from scalewise.records.load import Run
from scalewise.records.spec import Inspected
from scalewise.units import bytes_text

GOAL = 0.03
STEPS = ("--steps", "5")
CASES: tuple[tuple[str, Path, tuple[str, ...]], ...] = (
    ("DDP linear 1024x8 b64", LINEAR, ("--dim", "1024", "--depth", "8", "--batch", "64")),
    ("DDP linear 1024x8 b512 accumulate=4", LINEAR, ("--depth", "8", "--batch", "512", "--accumulate", "4")),
    ("DDP transformer b8", TRANSFORMER, ("--batch", "8")),
    ("DDP transformer b16 bfloat16", TRANSFORMER, ("--batch", "16", "--amp", "bfloat16")),
    ("DDP convolution b32", CONVOLUTION, ("--batch", "32")),
    ("FSDP2 transformer b8", TRANSFORMER, ("--batch", "8", "--wrap", "fsdp")),
    ("FSDP2 transformer 512x6 b8", TRANSFORMER, ("--batch", "8", "--wrap", "fsdp", "--dim", "512", "--layers", "6")),
)


def table(place: Place, quick: bool) -> object:
    """Prints it."""
    print(f"\nPeak memory of a rank's tensors, {place.ranks} ranks, rehearsed against run; of its process in brackets")
    errors = {}
    for name, script, args in CASES[::3] if quick else CASES:
        sharded = "fsdp" in args
        spec = place.spec(script, (*args, *STEPS, *(("--track",) if sharded else ())), "plain")
        plain = spec if sharded else replace(spec, kind=Inspected())
        rehearsed, ran = place.runs([place.rehearsal(plain), plain])
        peaks = [(said_bytes if sharded else peak_bytes)(run) for run in (rehearsed, ran)]
        errors[name] = peaks[0] / peaks[1] - 1
        text = "".join(
            f" {bytes_text(peak):>9} ({bytes_text(process_bytes(run))})"
            for peak, run in zip(peaks, (rehearsed, ran), strict=True)
        )
        print(f"{name:40}{text} {errors[name] * 100:+6.2f} %", flush=True)
    worst = max(map(abs, errors.values()))
    print(f"memory: largest error {worst * 100:.2f} % (goal {GOAL * 100:g} %)")
    return errors


def peak_bytes(run: Run) -> int:
    """The most over steps and ranks."""
    rows: Sequence[object] = [row for rank in run.ranks for row in rank.inspection]
    peaks = [row.peak_bytes for row in rows if isinstance(row, MemoryPartsRow)]
    if not peaks:
        raise RuntimeError(f"{run.spec.name}: no memory was inspected")
    return max(peaks)


def said_bytes(run: Run) -> int:
    """What the tracker inside the script counted, the most over ranks."""
    found = [re.search(r"^peak (\d+)$", text, re.MULTILINE) for text in printed(run)]
    peaks = [int(one[1]) for one in found if one]
    if not peaks:
        raise RuntimeError(f"{run.spec.name}: nothing was tracked")
    return max(peaks)


def process_bytes(run: Run) -> int:
    """The most that a rank's process held, libraries and all."""
    return max(row.peak_rss_bytes for rank in run.ranks for row in rank.memory)
