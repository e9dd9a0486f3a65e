"""The captions of the course's tables: model size, batch, ranks, steps, repeats, and what a bracket means."""

from collections.abc import Collection

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.phrases import listed

BRACKET = "a bracket is the 95 % interval of the median"
SHOWN = {"DIM": "DIM", "DEPTH": "DEPTH", "BATCH": "batch", "ACCUM_STEPS": "ACCUM_STEPS", "LR": "LR", "STEPS": "steps"}


def setting(evidence: Evidence, experiment: str, *, but: Collection[str] = ()) -> str:
    """Returns `DIM 1024, DEPTH 2, batch 64, 2 ranks, 45 steps, measured 3 times; a bracket is ...`, from the runs made.

    Values that the table itself shows in a column are named in `but`. If the machine was too small for what the course
    asks,
    both sizes are given.
    """
    runs = [run for run in evidence.loaded.runs if run.spec.experiment == experiment and run.spec.timed]
    if not runs:
        return ""
    said = []
    for name, word in SHOWN.items():
        values = list(dict.fromkeys(run.spec.env[name] for run in runs if name in run.spec.env))
        if name in but or not values:
            continue
        asked = dict.fromkeys(run.spec.asked[name] for run in runs if name in run.spec.asked)
        smaller = f" (the course asks for {listed(list(asked))}; smaller, to fit this machine)" if asked else ""
        said.append(f"{listed(values)} {word}" if word == "steps" else f"{word} {listed(values)}{smaller}")
    ranks = sorted({run.spec.world_size for run in runs})
    if "ranks" not in but and runs[0].spec.mode != "python":
        said.append(f"{listed([str(count) for count in ranks])} rank{'' if ranks == [1] else 's'}")
    repeats = max(run.spec.repeat for run in runs) + 1
    said.append(f"measured {repeats} times" if repeats > 1 else "measured once")
    return f"{', '.join(said)}; {BRACKET}."
