"""The captions of the course's tables: model size, batch, ranks, steps, repeats, and what a bracket means."""

from collections.abc import Collection, Sequence

from scalewise.analysis.evidence import Evidence
from scalewise.course.gpus import GpuStep, Record
from scalewise.records.load import Run
from scalewise.units import listed

BRACKET = "brackets: 95 % intervals"
SHOWN = {"DIM": "DIM", "DEPTH": "DEPTH", "BATCH": "batch", "ACCUM_STEPS": "ACCUM_STEPS", "LR": "LR", "STEPS": "steps"}
INSPECTED = "from one inspected run each"


def setting(
    evidence: Evidence, *experiments: str, but: Collection[str] = (), bracket: bool = True, inspected: bool = False
) -> str:
    """`DIM 1024, DEPTH 2, batch 64, 2 ranks, 45 steps, 3 repeats; brackets: ...`, from the runs that were made.

    Values that the table itself shows in a column are named in `but`. Where the machine could not carry what the course
    asks for, both sizes are said. A table without brackets says so (`bracket`), and so does one whose numbers are those
    of inspected runs.
    """
    named = [run for run in evidence.loaded.runs if run.spec.experiment in experiments]
    runs = [run for run in named if (run.spec.inspected if inspected else run.spec.timed)]
    if not runs:
        return ""
    said = []
    for name, word in SHOWN.items():
        values = list(dict.fromkeys(run.spec.env[name] for run in runs if name in run.spec.env))
        if name in but or not values:
            continue
        asked = dict.fromkeys(run.spec.asked[name] for run in runs if name in run.spec.asked)
        smaller = f" (course: {listed(list(asked))}; {_why_smaller(runs)})" if asked else ""
        said.append(f"{listed(values)} {word}" if word == "steps" else f"{word} {listed(values)}{smaller}")
    ranks = sorted({run.spec.world_size for run in runs})
    if "ranks" not in but and runs[0].spec.mode != "python":
        said.append(f"{listed([str(count) for count in ranks])} rank{'' if ranks == [1] else 's'}")
    said.append(INSPECTED if inspected else _times(runs))
    return f"{', '.join(said)}{f'; {BRACKET}' if bracket else ''}."


def why_lr(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """A note on an LR that looks too large; nothing where the suite set none."""
    named = [run for run in evidence.loaded.runs if run.spec.experiment in experiments and run.spec.timed]
    found = list(dict.fromkeys(run.spec.env["LR"] for run in named if "LR" in run.spec.env))
    if not found:
        return ()
    return (
        f"LR {listed(found)}: gradients of a mean over batch × DIM are small; with 0.01 the loss would hardly move.",
    )


def gpu_rows_heading(where: str, steps: Sequence[GpuStep | Record], *names: str) -> str:
    """A heading over rows of GPUs with the values they were made with: `On two NVIDIA H200, DIM 1024`."""
    told = [where]
    for name in names:
        values = sorted({one.env[name] for one in steps if name in one.env}, key=lambda text: (len(text), text))
        if values:
            word = SHOWN[name]
            told.append(f"{listed(values)} {word}" if word == "steps" else f"{word} {listed(values)}")
    return ", ".join(told)


def _why_smaller(runs: Sequence[Run]) -> str:
    """The suites' rule in short: steps of a GPU are short at any size that fits it."""
    if any(run.spec.device == "cuda" for run in runs):
        return "smaller to fit the memory"
    return "smaller for short steps"


def _times(runs: Sequence[Run]) -> str:
    """A phrase on how often each arm was measured; arms may differ."""
    counts: dict[tuple[object, ...], int] = {}
    for run in runs:
        arm = (
            run.spec.experiment,
            run.spec.world_size,
            *sorted((key, str(value)) for key, value in run.spec.axes.items()),
        )
        counts[arm] = max(counts.get(arm, 0), run.spec.repeat + 1)
    few, many = min(counts.values()), max(counts.values())
    if few < many:
        return f"measured {few} to {many} times"
    return f"measured {many} times" if many > 1 else "measured once"
