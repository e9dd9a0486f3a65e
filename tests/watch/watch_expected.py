"""What the watcher must have recorded of each script: the table that `test_subjects` checks line by line."""

from dataclasses import dataclass, field

MLP_BYTES = (32 * 32 + 32 + 32 + 1) * 4  # gradients of Linear(32, 32) and Linear(32, 1) in float32
LINEAR_BYTES = (32 + 1) * 4


@dataclass(frozen=True)
class Expected:
    """One script, how it is started, and the facts of every step it takes on every rank."""

    script: str
    args: tuple[str, ...] = ()
    ranks: int = 0  # 0: a plain python process
    code: int = 0
    steps: int = 6
    micro_batches: int = 1
    samples: int = 16
    collectives: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind -> count, bytes
    autocast: str | None = None
    skipped: tuple[int, ...] = ()  # the steps that the scaler skipped
    scaled: bool = False
    optimizers: int = 1
    wrapper: str = ""
    exception: str | None = None
    loss_seen: bool = True  # backward was called on it

    @property
    def label(self) -> str:
        """For the names of tests."""
        return "-".join((self.script, *self.args))


def accumulated(how: str, syncs: int) -> Expected:
    """The accumulating DDP script, which communicates so many times per step."""
    return Expected(
        "ddp_accumulate",
        (how,),
        ranks=2,
        micro_batches=4,
        samples=32,
        collectives={"all_reduce": (syncs, syncs * MLP_BYTES)},
        wrapper="DistributedDataParallel",
    )


DDP_STEP = {"all_reduce": (1, MLP_BYTES)}

TABLE = (
    Expected("plain", steps=8),
    Expected("ddp", ranks=2, steps=8, collectives=DDP_STEP, wrapper="DistributedDataParallel"),
    accumulated("no_sync", syncs=1),
    accumulated("flag", syncs=1),
    accumulated("every", syncs=4),
    Expected("amp_bfloat16", steps=8, autocast="bfloat16"),
    Expected("amp_float16_scaler", steps=8, autocast="float16", skipped=(3,), scaled=True),
    Expected(
        "ddp_accumulate_amp_scaler",
        ranks=2,
        micro_batches=3,
        samples=24,
        collectives=DDP_STEP,
        autocast="float16",
        scaled=True,
        wrapper="DistributedDataParallel",
    ),
    Expected("data_parallel", steps=8, wrapper="DataParallel"),
    Expected("layers", steps=8),
    Expected("gan", steps=12, optimizers=2),
    Expected("two_optimizers", steps=8, optimizers=2),
    Expected("lbfgs", micro_batches=4, samples=64),
    Expected("evaluation", steps=8),
    Expected("compiled", ("eager",), steps=8),
    Expected("compiled", ("aot_eager",), steps=8),
    Expected("compiled", ("method",), steps=8),
    Expected("compiled", ("function",), samples=None, steps=8),  # its module call is inside the compiled code
    Expected("loader", ("0",), steps=8),
    Expected("loader", ("2",), steps=8),
    Expected("infinite_loader", micro_batches=2),
    Expected("own_arguments", ("--ranks", "5", "--out", "x y", "--", "--steps", "{dim}")),
    Expected("main_guard", ("first", "--second")),
    Expected("manual_all_reduce", ranks=2, collectives={"all_reduce": (4, MLP_BYTES)}),
    Expected("sam", micro_batches=2, samples=32),
    Expected("autograd_grad", ("penalty",)),
    Expected("autograd_grad", ("penalty_by_name",)),
    Expected("autograd_grad", ("penalty_by_place",)),
    Expected("autograd_grad", ("manual",), loss_seen=False),
    Expected(
        "comm_hook",
        ranks=2,
        collectives={"all_reduce": (1, LINEAR_BYTES)},
        wrapper="DistributedDataParallel",
    ),
    Expected("saves_model"),
    Expected("own_handlers", code=1),
    Expected("raises", code=1, steps=3, exception="RuntimeError: step 3 goes wrong"),
    Expected("raises_inside", ("forward",), code=1, steps=3, exception="ValueError: forward broke"),
    Expected("raises_inside", ("backward",), code=1, steps=3, exception="ValueError: backward broke"),
    Expected("raises_inside", ("optimizer",), code=1, steps=3, exception="ValueError: optimizer broke"),
    Expected("recovers", steps=7),
    Expected("recovers_step", steps=8),
    Expected("recovers_step", ("scaled",), steps=8, scaled=True),
    Expected("exits", code=3, steps=3),
    Expected("random_streams", steps=8),
    Expected("keyword_inputs", samples=12),
    Expected("checkpointing"),
    Expected("custom_optimizer"),
    Expected("never_steps", steps=0),
    Expected("child_processes", steps=4),
)

FSDP_LAYERS = 3
FSDP = Expected("fsdp", ranks=2, wrapper="FSDP")
