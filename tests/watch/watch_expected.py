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
    samples: int | tuple[int | None, ...] | None = 16  # several: of one step after the other, again and again
    collectives: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind -> count, bytes
    autocast: str | None = None
    skipped: tuple[int, ...] = ()  # the steps that the scaler skipped
    scaled: bool = False
    optimizers: int = 1
    wrapper: str = ""
    exception: str | None = None
    loss_seen: bool = True  # backward was called on it
    opened_by: str | None = ""  # class of the module that opened the last step; empty: not looked at
    samples_unknown: str = ""  # why, where they are None

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
    Expected("lbfgs", micro_batches=4),
    Expected("evaluation", steps=8),
    Expected("wrapper_in_evaluation", ranks=2, collectives=DDP_STEP, wrapper="DistributedDataParallel"),
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
    # Where a layer inside takes time first, that is known from the second step on.
    *(
        Expected("time_first", (kind,), samples=(None, *(5,) * 5))
        for kind in ("lstm", "packed", "masked", "transposed")
    ),
    *(Expected("time_first", (kind,), samples=5) for kind in ("batch_first", "square")),
    Expected("time_first", ("unmasked",), samples=(None, *(5,) * 5)),
    Expected("time_first", ("alone",), opened_by="GRU", samples=(None, *(5,) * 5)),
    Expected("checkpointing"),
    Expected("custom_optimizer"),
    Expected("never_steps", steps=0),
    Expected("child_processes", steps=4),
    Expected("transforms", ("dataset",), opened_by="Sequential", steps=8),
    Expected("transforms", ("collate",), steps=8),
    Expected("transforms", ("generator",), steps=8),
    Expected("transforms", ("loop",), opened_by="Sequential", steps=8),
    Expected("fetches_ahead", steps=8),
    Expected("graphs", ("0",), samples=(16, 16, 12)),
    Expected("graphs", ("2",), samples=(16, 16, 12)),
    Expected("trainer_module", steps=8, samples=(None, *(16,) * 7), opened_by="Sequential"),
    Expected("teacher", ("frozen",), opened_by="Sequential", steps=8),
    Expected("teacher", ("no_grad",), steps=8),
    Expected("teacher", ("trainable",), opened_by="Sequential", steps=8),
    Expected("teacher", ("average",), steps=8),
    Expected("evaluation", ("careless",), steps=24),
    Expected("trains_in_eval", steps=8, samples=(None, *(16,) * 7)),  # known from the second step on
    Expected("rollouts", ("no_grad",), steps=12, samples=20),
    Expected("rollouts", ("grad",), opened_by="Sequential", steps=12, samples=20),
    Expected("several_calls", ("siamese",), steps=8),
    Expected("several_calls", ("unrolled",), steps=8, opened_by="GRUCell"),
    Expected("several_calls", ("parts",), steps=8),
    Expected("several_calls", ("centres",), opened_by="Sequential", steps=8),
    Expected("several_calls", ("no_loader",), steps=8, samples=None, samples_unknown="several calls"),
    Expected("gan_penalty", steps=12, optimizers=2),
    Expected("sam", ("loader",), micro_batches=2),
    Expected("sam", ("evaluates", "loader"), micro_batches=2),
    Expected("sam", ("evaluates", "endless"), micro_batches=2),
    Expected("attacked", steps=8),
    Expected("functional", ("call",), steps=8),
    Expected("functional", ("grad",), steps=8, loss_seen=False),
    Expected("functional", ("vmap",), steps=8, samples=None, samples_unknown="no rows", loss_seen=False),
    Expected("functional", ("tensors",), steps=8, samples=None, samples_unknown="no call", opened_by=None),
    Expected("compiled", ("whole",), samples=None, steps=8, samples_unknown="no call", opened_by=None),
    Expected("scripted", ("script",), steps=8),
    Expected("scripted", ("trace",), steps=8),
    Expected("steps_in_backward", steps=120, optimizers=4),
    Expected("loads_state"),
)

FSDP_LAYERS = 3
FSDP = Expected("fsdp", ranks=2, wrapper="FSDP")
