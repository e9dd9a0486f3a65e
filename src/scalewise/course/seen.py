"""Checks each row's label against what was seen: a row whose script did not do what the suite set is refused.

The suite sets constants such as DIM from outside. A student's script may contain them as fixed numbers, and would then
run the same under every label. So what the watcher saw is compared with what was set.
"""

from collections.abc import Iterator, Mapping
from math import isqrt

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.summary import ArmRow
from scalewise.records.load import Run
from scalewise.records.spec import RunSpec

SIZE_SLACK = 0.10  # share of the weights: a script may leave out biases, or add normalisation
LEAST_DELAY_SHARE = 0.25  # share of a set delay that must show in the step, however loaded the machine is
WORK_VARIABLES = ("DIM", "DEPTH", "BATCH", "ACCUM_STEPS", "DELAY", "IMBALANCE")


def label_refusal(evidence: Evidence, row: ArmRow) -> str:
    """Returns why the row's label differs from what was seen, as the end of a sentence; empty if it does not."""
    runs = _timed(evidence, row)
    if not runs:
        return ""
    spec = runs[0].spec
    reasons = (
        _size(spec.env, runs[0]),
        _batch(spec.env, row),
        _micro_batches(spec.env, row),
        _steps(spec.env, runs),
        _ranks(runs),
        _precision(spec.env, row),
        next(_delays(evidence, row, spec), ""),
        next(_same_as_others(evidence, row, runs[0]), ""),
    )
    return next((reason for reason in reasons if reason), "")


def refusals(evidence: Evidence, *experiments: str) -> tuple[str, ...]:
    """Returns every refused row of these experiments as a sentence for a note, the same reason once."""
    found: dict[str, None] = {}
    for name in experiments:
        for row in _rows(evidence, name):
            reason = label_refusal(evidence, row)
            if reason:
                found[f"Refused: {reason}."] = None
    return tuple(found)


def _timed(evidence: Evidence, row: ArmRow) -> list[Run]:
    found = (evidence.run(name) for name in row.run_names)
    return [run for run in found if run is not None and run.measured and run.spec.timed]


def _rows(evidence: Evidence, experiment: str) -> tuple[ArmRow, ...]:
    found = evidence.experiment(experiment)
    return found.rows if found else ()


def _size(env: Mapping[str, str], run: Run) -> str:
    dim, depth = _whole(env, "DIM"), _whole(env, "DEPTH")
    models = [rank.model for rank in run.ranks if rank.model is not None]
    if dim is None or depth is None or not models:
        return ""
    seen, weights = models[0].parameters, dim * dim * depth
    if weights * (1 - SIZE_SLACK) <= seen <= (weights + dim * depth) * (1 + SIZE_SLACK):
        return ""
    other = _as_stack(seen, depth)
    told = f"as many as {other} x {depth}" if other else "another model"
    return (
        f"your script does not read DIM or DEPTH: it was to train {dim} x {depth}, and its model has {_grouped(seen)} "
        f"parameters, {told}"
    )


def _as_stack(parameters: int, depth: int) -> int | None:
    """Returns the width at which so many layers have exactly so many parameters, with biases or without."""
    if parameters % depth:
        return None
    layer = parameters // depth
    root = isqrt(layer)
    return root if layer in (root * root, root * (root + 1)) else None


def _batch(env: Mapping[str, str], row: ArmRow) -> str:
    batch, seen = _whole(env, "BATCH"), row.samples_per_step
    if batch is not None and env.get("GROW_BATCH") == "1":
        batch *= _whole(env, "ACCUM_STEPS") or 1  # here BATCH is the number of samples of one micro-batch
    if batch is None or seen is None or abs(seen - batch) < 0.5:
        return ""
    if abs(seen - batch * row.ranks) < 0.5:
        return (
            f"BATCH is the batch of all ranks together: it was set to {batch}, and {row.ranks} ranks took {seen:g} "
            f"samples a step, {batch} each"
        )
    return f"your script does not read BATCH: it was set to {batch}, and a step took {seen:g} samples"


def _micro_batches(env: Mapping[str, str], row: ArmRow) -> str:
    wanted, seen = _whole(env, "ACCUM_STEPS"), row.micro_batches
    if wanted is None or seen is None or abs(seen - wanted) < 0.5:
        return ""
    return (
        f"your script does not read ACCUM_STEPS: it was set to {wanted}, and an optimizer step held {seen:g} backward "
        "passes"
    )


def _steps(env: Mapping[str, str], runs: list[Run]) -> str:
    wanted = _whole(env, "STEPS")
    seen = [rank.end.steps for run in runs for rank in run.ranks if rank.end is not None]
    micro = _whole(env, "ACCUM_STEPS") or 1
    if wanted is None or not seen or max(seen) in (wanted, wanted // micro, wanted * micro):
        return ""
    return f"your script does not read STEPS: it was set to {wanted}, and {max(seen)} optimizer steps were made"


def _ranks(runs: list[Run]) -> str:
    worlds = {rank.start.world_size for run in runs for rank in run.ranks if rank.start is not None}
    wanted = runs[0].spec.world_size
    if not worlds or worlds == {wanted} or runs[0].spec.mode == "python":
        return ""
    return f"{wanted} ranks were started, and your script saw {max(worlds)}"


def _precision(env: Mapping[str, str], row: ArmRow) -> str:
    wanted = env.get("PRECISION")
    if wanted is None or not row.precision:
        return ""
    autocast = [word.removeprefix("autocast ") for word in row.precision if word.startswith("autocast ")]
    seen = autocast[0] if autocast else row.precision[0]
    if seen == wanted:
        return ""
    return f"your script does not read PRECISION: it was set to {wanted}, and the model computed in {seen}"


def _delays(evidence: Evidence, row: ArmRow, spec: RunSpec) -> Iterator[str]:
    """Yields the reason if a delay that was set does not show in the step."""
    for name in ("DELAY", "IMBALANCE"):
        asked = _number(spec.env, name)
        if not asked or row.step_seconds is None:
            continue
        if row.step_seconds.high < LEAST_DELAY_SHARE * asked:
            yield f"your script does not read {name}: it was set to {asked:g} s, and a whole step took less than that"
            continue
        for other in _siblings(evidence, row, spec, name):
            base = _timed(evidence, other)
            if not base or _number(base[0].spec.env, name) != 0 or other.step_seconds is None:
                continue
            if row.step_seconds.high - other.step_seconds.low < LEAST_DELAY_SHARE * asked:
                yield f"your script does not read {name}: with {asked:g} s a step takes no longer than with 0"


def _same_as_others(evidence: Evidence, row: ArmRow, run: Run) -> Iterator[str]:
    """Yields the reason if two rows that should do different work did the same.

    A row whose model agrees exactly with its label is not refused for it.
    """
    own = _work(row, run)
    if own[0] in _weights(run.spec.env):
        return
    for other in _rows(evidence, run.spec.experiment):
        runs = _timed(evidence, other)
        if not runs or other.ranks != row.ranks or other is row or None in own or _work(other, runs[0]) != own:
            continue
        env = runs[0].spec.env
        apart = [name for name in WORK_VARIABLES[:4] if run.spec.env.get(name) != env.get(name)]
        if apart:
            values = f"{apart[0]}={env.get(apart[0])} and {apart[0]}={run.spec.env.get(apart[0])}"
            yield f"your script does not read {apart[0]}: with {values} it did the same work"


def _weights(env: Mapping[str, str]) -> tuple[int, ...]:
    """Returns the parameters of the stack of layers that the label names, without biases and with them."""
    dim, depth = _whole(env, "DIM"), _whole(env, "DEPTH")
    return (dim * dim * depth, dim * (dim + 1) * depth) if dim and depth else ()


def _work(row: ArmRow, run: Run) -> tuple[object, ...]:
    model = next((rank.model for rank in run.ranks if rank.model is not None), None)
    return model.parameters if model else None, row.samples_per_step, row.micro_batches


def _siblings(evidence: Evidence, row: ArmRow, spec: RunSpec, changed: str) -> Iterator[ArmRow]:
    """Yields the rows that differ from this one in that variable alone."""
    rest = {key: value for key, value in spec.env.items() if key != changed}
    for other in _rows(evidence, spec.experiment):
        runs = _timed(evidence, other)
        if not runs or other.ranks != row.ranks or other.change != row.change:
            continue
        env = runs[0].spec.env
        if env.get(changed) != spec.env.get(changed) and rest == {k: v for k, v in env.items() if k != changed}:
            yield other


def _whole(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _number(env: Mapping[str, str], name: str) -> float | None:
    try:
        return float(env[name])
    except (KeyError, ValueError):
        return None


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
