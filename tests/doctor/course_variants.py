"""The course's scripts, and what is found in them once a line is changed for the worse."""

from dataclasses import dataclass, field
from pathlib import Path

from corpus_scripts import Script

COURSE = Path(__file__).parents[2] / "course"
SMALL = {"DIM": "32", "DEPTH": "2", "BATCH": "32", "STEPS": "12", "WARMUP": "2"}
ALONE = frozenset({"practical5_dp", "practical8_model_parallel", "homework3_model_parallel"})  # one process
SCRIPTS = (
    "practical5_dp",
    "practical5_single",
    "practical6_ddp",
    "practical7_accumulation",
    "practical7_amp",
    "practical8_model_parallel",
    "homework3_model_parallel",
)


@dataclass(frozen=True)
class Variant:
    """A script of the course with one text replaced, or run with other constants."""

    script: str
    text: str  # empty: the script as it is
    replacement: str
    expect: str
    also: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the list of tests."""
        return f"{self.script}-{self.expect}"


SCALED = "    scaler.scale(loss).backward()\n"
STEPPED = "    scaler.step(optimizer)\n"
MICRO_BATCH = "with contextlib.nullcontext() if talk else model.no_sync():\n        output = model(x)\n"
WRAPPED = "DistributedDataParallel(LargeLinearModel(DIM, DEPTH).to(device))"
DIVERGED = ("parameters-diverge",)

VARIANTS = (
    Variant("practical6_ddp", "output = model(x)", "output = model.module(x)", "ddp-bypassed", DIVERGED),
    Variant("practical6_ddp", WRAPPED, WRAPPED[:-1] + ", find_unused_parameters=True)", "needless-find-unused"),
    Variant("practical6_ddp", WRAPPED, WRAPPED[:-1] + ", bucket_cap_mb=0.004)", "tiny-buckets", env={"DEPTH": "10"}),
    Variant("practical6_ddp", "    optimizer.zero_grad()\n", "", "never-zeroed"),
    Variant(
        "practical6_ddp",
        "    optimizer.step()",
        "    optimizer.zero_grad()\n    optimizer.step()",
        "zeroed-before-step",
    ),
    Variant(
        "practical6_ddp",
        "dist.destroy_process_group()\n",
        "torch.save({'rank': rank}, 'model.pt')\ndist.destroy_process_group()\n",
        "checkpoint-by-all-ranks",
    ),
    Variant("practical7_accumulation", "", "", "sync-every-micro-batch", env={"NO_SYNC": "0"}),
    Variant("practical7_accumulation", "", "", "loss-not-divided", env={"DIVIDE_LOSS": "0"}),
    Variant(
        "practical7_accumulation",
        "contextlib.nullcontext() if talk else model.no_sync()",
        "model.no_sync()",
        "never-synchronised",
        DIVERGED,
    ),
    Variant(
        "practical7_accumulation",
        MICRO_BATCH,
        "output = model(x)\n    with contextlib.nullcontext() if talk else model.no_sync():\n",
        "no-sync-around-backward-only",
        ("sync-every-micro-batch",),
    ),
    Variant(
        "practical7_accumulation",
        "        loss.backward()\n",
        "        optimizer.zero_grad()\n        loss.backward()\n",
        "zeroed-every-micro-batch",
    ),
    Variant("practical7_amp", "", "", "fp16-without-scaler", env={"SCALER": "0"}),
    Variant("practical7_amp", "    scaler.update()\n", "", "scaler-never-updated", ("left-early",)),
    Variant(
        "practical7_amp",
        SCALED,
        SCALED + "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "clip-before-unscale",
    ),
    Variant("practical7_amp", STEPPED, "    optimizer.step()\n", "scaler-bypassed"),
    Variant(
        "practical7_amp",
        "enabled=SCALER and dtype == torch.float16",
        "enabled=True",
        "scaler-with-bf16",
        env={"PRECISION": "bfloat16"},
    ),
    Variant("practical7_amp", SCALED, "    " + SCALED, "backward-under-autocast"),
    Variant(
        "practical5_single", "loss = loss_fn(output, y) / ACCUM_STEPS", "loss = loss_fn(output, y)", "loss-not-divided"
    ),
    Variant(
        "practical5_dp",
        "if gpus:\n    model",
        "if True:\n    model",
        "data-parallel",
    ),
)


def course_script(folder: Path, name: str, variant: Variant | None = None) -> Script:
    """The script, or a variant of it, in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (COURSE / f"{name}.py").read_text(encoding="utf-8")
    if variant is not None and variant.text:
        assert text.count(variant.text) == 1, f"{name} has {variant.text!r} {text.count(variant.text)} times"
        text = text.replace(variant.text, variant.replacement)
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return Script(
        path=path,
        expect=frozenset({variant.expect} if variant else ()),
        also=frozenset(variant.also if variant else ()),
        style="course",
        ranks=1 if name in ALONE else 2,
        mode="python" if name in ALONE else "torchrun",
        on_cpu=False,
        stall_seconds=8.0,
        threads=1,
        enough_steps=0,
        env={**SMALL, **(variant.env if variant else {})},
        args=(),
    )
