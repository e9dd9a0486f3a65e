"""Detects a GPU that waits for the host, which launches many small kernels one by one."""

from dataclasses import replace
from statistics import median

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_or_dismissed
from scalewise.doctor.queries.times import gpu_settings, recorded_work, settled_windows
from scalewise.records.examination import DeviceWorkRow, GraphRow, OptimizerRow
from scalewise.records.spec import Change

CHECK = Check(
    name="launch-bound",
    group="gpu",
    severity="slow",
    detects="The GPU is idle for a good part of the step although the host does nothing but launch kernels.",
    why="To launch a kernel takes the host some microseconds, whatever the kernel does. Where kernels are shorter than "
    "that, the GPU waits for the next launch, and a faster GPU would change nothing.",
    example="optimizer = torch.optim.AdamW(model.parameters(), foreach=False)  # a dozen kernels for every parameter",
    fix="optimizer = torch.optim.AdamW(model.parameters(), fused=True)\n"
    'model = torch.compile(model, mode="reduce-overhead")  # or a CUDA graph, or a larger batch',
    needs="a GPU whose work is recorded by CUPTI in a few settled steps",
    silent="Steps that are idle for another reason: few kernels, or long ones.",
)
MOST_BUSY = 0.7  # share of the step in which the GPU is busy
LEAST_KERNELS = 100  # kernels in a step
MOST_KERNEL_NS = 30_000  # average duration of a kernel: a longer one hides the launch of the next
OPTIMIZER_SHARE = 0.3  # share of the kernels
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")  # optimizers that have a fused form


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the GPU's own records of its work with the length of a step that is not recorded."""
    settings = gpu_settings(case)
    if settings.launch_blocking:
        raise Abstain("CUDA_LAUNCH_BLOCKING makes the host wait for every kernel")
    work = recorded_work(case)
    step_ns = _step_ns(case)
    busy_ns, kernels = work.busy_ns / work.steps, work.kernels / work.steps
    average_ns = work.kernel_ns / work.kernels
    if busy_ns > MOST_BUSY * step_ns or kernels < LEAST_KERNELS or average_ns > MOST_KERNEL_NS:
        return ()
    optimizer = _slow_optimizer(case, work)
    rank = case.first
    place = rank.places.get(optimizer.place) if optimizer is not None else None
    launched = f"{work.optimizer_kernels / work.steps:.0f} of them for the optimizer ({_named(optimizer)})"
    return (
        Finding(
            check=CHECK.name,
            severity="slow",
            sentence=f"The GPU is busy for {busy_ns / 1e6:.2f} ms of a step of {step_ns / 1e6:.2f} ms: it waits while "
            f"the host launches {kernels:.0f} kernels of {average_ns / 1e3:.1f} us each.",
            evidence=(
                f"recorded by the GPU in {work.steps} steps: {kernels:.0f} kernels a step, {busy_ns / 1e6:.2f} ms busy",
                launched,
            ),
            fix=_fix(optimizer),
            where=place,
            price=Price(
                (step_ns - busy_ns) / 1e6, "ms per step", "the GPU idle in the step", "computed: step less work"
            ),
            proof="suspected",
            steps_seen=len(rank.windows),
            change=_change(case, optimizer),
        ),
    )


def _step_ns(case: Case) -> float:
    """Returns the median length of the steps that neither the examination nor the recording makes longer."""
    first = settled_windows(case)[0].number
    recorded = recorded_work(case)
    if len(case.first.record.steps) != len(case.first.windows):
        raise Abstain("steps of several optimizers cannot be told apart here")
    usual = [row.step_ns for row in case.first.record.steps[first : recorded.step - 1]]
    if not usual:
        raise Abstain("no step was left alone before the GPU's work was recorded")
    return median(usual)


def _slow_optimizer(case: Case, work: DeviceWorkRow) -> OptimizerRow | None:
    """Returns an optimizer that could be fused and launches a large share of the kernels, or None."""
    if work.optimizer_kernels < OPTIMIZER_SHARE * work.kernels:
        return None
    rows = [row for row in case.first.optimizers if row.optimizer in FUSED and not row.options.get("fused")]
    return rows[0] if rows else None


def _change(case: Case, optimizer: OptimizerRow | None) -> Change | None:
    if optimizer is not None:
        return Change("fused_optimizer")
    compiled = any(row.compiled for row in case.first.rows(GraphRow))
    return None if compiled else Change("compiled_model")


def _named(optimizer: OptimizerRow | None) -> str:
    if optimizer is None:
        return "no fused form of it is known, or it launches few"
    return f"{optimizer.optimizer}, {'foreach' if optimizer.options.get('foreach', True) else 'one by one'}"


def _fix(optimizer: OptimizerRow | None) -> str:
    if optimizer is None:
        return 'model = torch.compile(model, mode="reduce-overhead")  # or a CUDA graph, or a larger batch'
    return f"optimizer = torch.optim.{optimizer.optimizer}(model.parameters(), fused=True, ...)"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the time that fewer launches save; if the fix saves next to nothing, the finding becomes a suspicion."""
    settled = priced_or_dismissed(finding, replayed, f"launches that {replayed.change.name} saves")
    if settled is not None:
        return settled
    words = f"{replayed.change.label()} saves almost nothing; a CUDA graph or a larger batch was not tried"
    return replace(finding, evidence=(*finding.evidence, words), proof="suspected")
