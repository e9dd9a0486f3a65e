"""Made-up runs of practical 7, homework 2 and homework 3, as if the course's suites had been run."""

from dataclasses import replace
from typing import Any

from evidence_factories import arm, make_evidence
from inspection_factory import make_gradients, make_inspection, make_parts, make_pipeline
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import Inspection
from scalewise.records.load import Run
from scalewise.records.spec import Inspected

STEPS = 40
MODEL_BYTES = 8000


def course_arm(experiment: str, seconds: float, axes: dict[str, Any], ranks: int = 2, **step: Any) -> Run:
    """A run with steady steps; `step` goes to every step, `model` and `removed` to the run."""
    run = {key: step.pop(key) for key in ("model", "removed", "outcome", "emulated", "env") if key in step}
    return arm(experiment, [seconds] * STEPS, ranks, axes=axes, step=step, **run)


def course_inspection(experiment: str, axes: dict[str, Any], ranks: int = 2, **seen: Any) -> tuple[Run, Inspection]:
    """An inspected run of that arm and what it saw."""
    run = arm(experiment, [0.5] * 6, ranks, axes=axes, kind=Inspected())
    run = replace(run, spec=replace(run.spec, name=f"{run.spec.name}-inspect"))
    shown = seen.pop("shown", None)
    return run, replace(shown, run=run.spec.name) if shown else make_inspection(run.spec.name, **seen)


def put_together(runs: list[Run], inspected: list[tuple[Run, Inspection]]) -> Evidence:
    """Plain and inspected runs as evidence."""
    return make_evidence(*runs, *(run for run, _ in inspected), inspections=tuple(one for _, one in inspected))


def reduces(times: int = 1) -> dict[str, tuple[int, int]]:
    """DDP's collectives of one step."""
    return {"all_reduce": (2 * times, MODEL_BYTES * times)}


def accumulation_evidence(
    synced: float = 0.010,
    plain: float = 0.020,
    norms: tuple[float, float] = (0.1, 0.4),
    drift: float = 1.0,
    lost: bool = False,
) -> Evidence:
    """P7.1: step times with and without no_sync(), gradient norms divided and not."""
    runs = [
        course_arm("no-sync", synced, {"no_sync": 1}, micro_batches=4, collectives=reduces(), loss=1.0),
        course_arm("no-sync", plain, {"no_sync": 0}, micro_batches=4, collectives=reduces(4), loss=drift),
        course_arm(
            "division", synced, {"divide": 0}, micro_batches=4, collectives=reduces(), loss=3.6, non_finite=lost
        ),
    ]
    inspected = [
        course_inspection("no-sync", {"no_sync": 1}, gradients=make_gradients(norm=norms[0])),
        course_inspection("division", {"divide": 0}, gradients=make_gradients(norm=norms[1])),
    ]
    return put_together(runs, inspected)


def growing_evidence(seconds: dict[int, float] | None = None) -> list[Run]:
    """Micro-batches of 16 samples on two ranks: the batch grows with ACCUM_STEPS."""
    times = seconds or {1: 0.010, 2: 0.014, 4: 0.022, 8: 0.040}
    return [
        course_arm(
            "growing",
            time,
            {"code": "practical7_accumulation", "accum": accum},
            micro_batches=accum,
            samples=8 * accum,
            collectives=reduces(),
        )
        for accum, time in times.items()
    ]


def precision_evidence(
    half: float = 0.010,
    full: float = 0.020,
    parts: dict[str, int] | None = None,
    peaks: tuple[int, int] = (20000, 18000),
) -> Evidence:
    """P7.3: float32 and the half precisions, with memory by purpose; and Code 1 for P7.5."""
    lower = {"activation": 500, "half_copy": 0, **(parts or {})}
    runs = [course_arm("amp", full, {"precision": "float32"}, collectives=reduces())]
    inspected = [course_inspection("amp", {"precision": "float32"}, memory=make_parts(), peak_bytes=peaks[0])]
    for name in ("float16", "bfloat16"):
        runs.append(course_arm("amp", half, {"precision": name}, collectives=reduces(), autocast=name))
        inspected.append(course_inspection("amp", {"precision": name}, memory=make_parts(**lower), peak_bytes=peaks[1]))
    runs.append(course_arm("no-sync", 0.015, {"no_sync": 1}, micro_batches=4, collectives=reduces()))
    inspected.append(
        course_inspection("no-sync", {"no_sync": 1}, memory=make_parts(activation=250), peak_bytes=peaks[0] - 750)
    )
    return put_together(runs, inspected)


def scaler_evidence(zeros: tuple[int, int] = (5, 1000), losses: tuple[float, float] = (1.0, 1.2)) -> Evidence:
    """P7.3: zero gradients (of 1000) and losses with the scaler and without; float32's loss is 1."""
    runs = [course_arm("scaler-reference", 0.01, {}, loss=1.0)]
    inspected = [course_inspection("scaler-reference", {}, gradients=make_gradients(zeros=3))]
    for scaler, zero, loss in zip((1, 0), zeros, losses, strict=True):
        scale = 65536.0 if scaler else None
        runs.append(course_arm("scaler", 0.01, {"scaler": scaler}, loss=loss, scale=scale, autocast="float16"))
        inspected.append(course_inspection("scaler", {"scaler": scaler}, gradients=make_gradients(zeros=zero)))
    return put_together(runs, inspected)


def codes_evidence(
    steps: dict[str, tuple[float, float]] | None = None,
    loss: float = 1.0,
    plain_loss: float = 1.0,
    half_copy: int = 2000,
    activation: int = 500,
    ranks: int = 2,
) -> Evidence:
    """H2: (step, step without communication) of Codes 1, 2, 3; Code 3's losses with AMP on and off; Code 1's is 1."""
    one, two, three = "practical7_accumulation", "practical7_amp", "practical5_single"
    times = steps or {one: (0.020, 0.010), two: (0.030, 0.020), three: (0.035, 0.025)}
    runs, inspected = [], []
    for code, (whole, alone) in times.items():
        micro = 1 if code == two else 4
        mixed = {"autocast": "float16"} if code != one else {}
        step = {
            "ranks": ranks,
            "micro_batches": micro,
            "collectives": reduces() if ranks > 1 else {},
            "loss": loss if mixed else 1.0,
            **mixed,
        }
        runs.append(course_arm("codes", whole, {"code": code}, **step))
        runs.append(course_arm("codes", alone, {"code": code}, removed=True, **step))
        sizes = {"activation": activation if mixed else 1000, "half_copy": half_copy if mixed else 0}
        if code == two:
            sizes["activation"] *= 4
        memory = make_parts(**sizes)
        held = 13000 - 1000 + sizes["activation"] + sizes["half_copy"]
        inspected.append(course_inspection("codes", {"code": code}, ranks, memory=memory, peak_bytes=held))
    runs.append(course_arm("same-loss", 0.02, {"code": one}, micro_batches=4, loss=1.0))
    runs.append(course_arm("same-loss", 0.02, {"code": three}, micro_batches=4, loss=plain_loss))
    return put_together(runs, inspected)


def accum_evidence(
    per_micro_batch: float = 0.001, norm_grows: bool = False, left_out: tuple[int, ...] = ()
) -> Evidence:
    """H2.2b: Codes 1 and 3 at ACCUM_STEPS 4, 8, 16, 32, each further micro-batch at a price."""
    runs, inspected = [], []
    for code in ("practical7_accumulation", "practical5_single"):
        for accum in (4, 8, 16, 32):
            axes = {"code": code, "accum": accum}
            if accum not in left_out:
                runs.append(course_arm("accumulation", 0.04 + per_micro_batch * accum, axes, micro_batches=accum))
            norm = 0.1 * accum if norm_grows else 0.1
            memory = make_parts(activation=4000 // accum)
            seen = {"memory": memory, "peak_bytes": 12000 + 4000 // accum, "gradients": make_gradients(norm=norm)}
            inspected.append(course_inspection("accumulation", axes, **seen))
    return put_together(runs, inspected)


def depth_evidence(per_layer: float = 0.001, *, together: bool = False, text: str = "") -> Evidence:
    """H3.1, H3.2: two devices, DEPTH 6, 12, 24."""
    runs, inspected = [], []
    for depth in (6, 12, 24):
        runs.append(course_arm("two-devices", 0.05 + per_layer * depth, {"depth": depth}, ranks=1))
        shown = make_pipeline(2, depth, together=together, text=text)
        inspected.append(course_inspection("two-devices", {"depth": depth}, ranks=1, shown=shown))
    return put_together(runs, inspected)


def devices_evidence(
    seconds: tuple[float, float, float] = (0.02, 0.021, 0.03), *, together: bool = False, alternate: bool = False
) -> Evidence:
    """H3.3 to H3.5: DEPTH 20 on 1, 2, 5 devices; `alternate` deals the layers out one by one."""
    runs, inspected = [], []
    for count, time in zip((1, 2, 5), seconds, strict=True):
        runs.append(course_arm("all-devices", time, {"devices": count}, ranks=1))
        shown = make_pipeline(count, 20, together=together, alternate=alternate)
        inspected.append(course_inspection("all-devices", {"devices": count}, ranks=1, shown=shown))
    return put_together(runs, inspected)


def beside_evidence(plain: float = 0.015, bfloat: float = 0.010, held: int = 11000) -> Evidence:
    """H2.3: float32 DDP without accumulation, and Code 3 in bfloat16, each with its communication and without."""
    runs, inspected = [], []
    for experiment, seconds, step in (
        ("plain", plain, {"micro_batches": 1}),
        ("bfloat16", bfloat, {"micro_batches": 4, "autocast": "bfloat16"}),
    ):
        runs.append(course_arm(experiment, seconds + 0.010, {}, collectives=reduces(), **step))
        runs.append(course_arm(experiment, seconds, {}, removed=True, collectives=reduces(), **step))
    inspected.append(course_inspection("plain", {}, memory=make_parts(activation=2000), peak_bytes=held))
    return put_together(runs, inspected)


def overflow_evidence(scales: tuple[float, ...] = (65536.0, 32768.0, 16384.0)) -> list[Run]:
    """P7.3: float16 with the scaler and a loss too large for its first scale, which is halved in the first steps."""
    run = course_arm("overflow", 0.01, {}, loss=1.0, autocast="float16", scale=scales[-1])
    ranks = []
    for rank in run.ranks:
        early = [replace(step, scale=scale, skipped=True) for step, scale in zip(rank.steps, scales[:-1], strict=False)]
        ranks.append(replace(rank, steps=(*early, *rank.steps[len(early) :])))
    return [replace(run, ranks=tuple(ranks))]
