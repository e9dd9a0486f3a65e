"""The list of what the watcher replaces in torch: every concern, what it wraps, in which runs, and what it is for.

There is no other list: `tests/watch/test_wrapped.py` compares torch before and after the watcher is installed and fails
if something is replaced that is not listed here, or listed and not replaced. A concern is named after its file below
`watch/`. Outside `hooks/`, a call is replaced in one place, by its seam (`watch/seams.py`), to which its concerns
subscribe.

Besides, for a while only: `hooks/forward` moves `Module.__call__` to the classes of a script's own models while fast
steps are only counted; `examination/fetching` looks at the seeding functions of torch, random and numpy during the
first fetch of an epoch, and gives each fetcher of a loader another collate function, which calls the fetcher's own;
`examination/data` looks at the script's own samplers when a loader is made of them; `examination/graph` looks at
`Module.__call__` between the first backward pass and the next; `changes/scaler` wraps the `step` of each class of
optimizers when its first one is made, and `changes/compiled_model` replaces the `forward` of a model. A strategy
(`strategy/single_device`) gives the model that is trained a class of its own.
`redirect/tensors`, `examination/graph` and `inspection` put modes on torch's stacks, by which they see every function
or operation.

On import: functions of `torch._dynamo`, of `torch.distributed._functional_collectives` and of `numpy.random` are
wrapped as soon as the script, or torch itself, imports these modules.

The files of `changes/` are at work in replays, and in the arms of `--change`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scalewise.records.collectives import DISTRIBUTED, FUNCTIONAL, functions_in
from scalewise.records.spec import RunSpec

WrappedIn = Literal[
    "every",
    "plain",
    "private",
    "inspected",
    "examined",
    "rehearsed",
    "redirected",
    "emulated",
    "replayed",
    "compared",
]


@dataclass(frozen=True)
class Concern:
    """One part of the watcher: a file with wrappers of torch."""

    name: str
    runs: WrappedIn  # plain: of one process that torchrun did not start; private: in a view of the working folder
    wraps: tuple[str, ...]  # by their shortest public name; (before), (after): through a hook that torch offers
    without: str = ""  # what is not known without it; empty: the run is useless without it
    essential: bool = False  # without it the step itself is measured differently, or not seen
    part_of: str = ""  # the concern together with which it is left out

    @property
    def removable(self) -> bool:
        """Tells whether the run can be made without this concern, so that the script continues where it has failed."""
        return bool(self.without)


def _in(place: str, names: str) -> tuple[str, ...]:
    return tuple(f"{place}.{name}" for name in names.split())


_BEFORE_STEP, _AFTER_STEP = "torch.optim.Optimizer.step (before)", "torch.optim.Optimizer.step (after)"
_MESSAGES = tuple(one.path for one in functions_in(DISTRIBUTED) if one.objects is None)
_OBJECTS = tuple(one.path for one in functions_in(DISTRIBUTED) if one.objects is not None)
_FUNCTIONAL = tuple(one.path for one in functions_in(FUNCTIONAL))  # wrapped when their module is imported
_DDP = "torch.nn.parallel.DistributedDataParallel"
_NEXT_BATCH = "torch.utils.data.dataloader._BaseDataLoaderIter.__next__"
_NO_FORWARD = "where steps begin, the time of forward and the samples: a step is counted from its backward pass"
_NO_INSPECTION = "all that an inspection shows: layers, memory, transfers, gradients, the use of the device"
_NO_NOTES = "what the doctor's checks need to know of"

_TIMING = (
    Concern("crash", "every", ("sys.excepthook",)),
    Concern("warned_lines", "every", _in("warnings", "_showwarnmsg warn")),
    Concern("moved_folders", "private", _in("os", "rename replace")),
    Concern("exit_workarounds", "every", ("torch.distributed.destroy_process_group",)),
    Concern("hooks/forward", "every", ("torch.nn.Module.__call__",), _NO_FORWARD, True),
    Concern(
        "hooks/roots", "every", ("torch.optim.Optimizer.add_param_group",), _NO_FORWARD, True, part_of="hooks/forward"
    ),
    Concern(
        "hooks/transforms", "every",
        _in("torch._functorch", "eager_transforms._grad_increment_nesting vmap._vmap_increment_nesting"),
        "what torch.func does in a step before it calls the model",
    ),
    Concern(
        "hooks/backward", "every", _in("torch.autograd", "backward grad"),
        "the time of backward, the micro-batches and the loss",
    ),
    Concern(
        "hooks/optimizer", "every", (_BEFORE_STEP, _AFTER_STEP), "the optimizer's steps: no step can be timed", True
    ),
    Concern(
        "hooks/amp", "every", ("torch.autocast.__enter__", *_in("torch.GradScaler", "scale step")),
        "mixed precision: its type, the scale, and the steps that a scaler skips",
    ),
    Concern("hooks/data", "every", (_NEXT_BATCH,), "the time that the script waits for its data"),
    Concern(
        "hooks/group", "plain", ("torch.distributed.init_process_group",),
        "the ranks of a script that starts them itself",
    ),
    Concern(
        "hooks/collectives", "every", (*_MESSAGES, *_OBJECTS, *_FUNCTIONAL),
        "collectives that the script, FSDP or DTensor calls: their number, bytes and time",
    ),
    Concern(
        "hooks/ddp", "every", _in(_DDP, "__init__ _sync_buffers forward register_comm_hook"),
        "communication of DistributedDataParallel: its number, bytes and exposed time",
    ),
    Concern(
        "hooks/memory", "every",  # where there can be a GPU
        _in(
            "torch._C",
            "_cuda_memoryStats _cuda_resetPeakMemoryStats _accelerator_getDeviceStats _accelerator_resetPeakStats",
        ),
        "the peak of a GPU's memory after warm-up, apart from that of the first steps",
    ),
    Concern(
        "hooks/compiler", "every", ("torch._dynamo.eval_frame.set_eval_frame",),
        "where the steps of a wholly compiled function begin",
    ),
)  # fmt: skip

_INSPECTION = (
    Concern(
        "inspection/inspector", "inspected",
        ("torch.autograd.backward", "torch.GradScaler.step", "torch.compile", _BEFORE_STEP, _AFTER_STEP,
         "torch.nn.Module.__call__ (before)", "torch.nn.Module.__call__ (after)"),
        _NO_INSPECTION,
    ),
    Concern(
        "inspection/close_look", "inspected",
        ("torch.autograd.graph.disable_saved_tensors_hooks", "torch.UntypedStorage.resize_"), _NO_INSPECTION,
        part_of="inspection/inspector",
    ),
    Concern(
        "step_profile", "inspected", _in("torch", "autograd.profiler.profile.__init__ profiler.profile.__init__"),
        _NO_INSPECTION, part_of="inspection/inspector",
    ),
)  # fmt: skip

_LOADER = "torch.utils.data.DataLoader"
_FETCHERS = _in("torch.utils.data._utils.fetch", "_IterableDatasetFetcher.fetch _MapDatasetFetcher.fetch")
_EXAMINATION = (
    Concern("examination/notebook", "examined", ("os._exit",)),
    Concern(
        "examination/wrappers", "examined", ("torch.nn.DataParallel.__init__", *_in(_DDP, "__init__ forward no_sync")),
        f"{_NO_NOTES} wrappers, how DDP is used, and no_sync",
    ),
    Concern("examination/forward", "examined", ("torch.nn.Module.__call__",), f"{_NO_NOTES} forward passes"),
    Concern(
        "examination/backward", "examined",
        ("torch.autograd.backward", "torch.autograd.graph.saved_tensors_hooks.__enter__"),
        f"{_NO_NOTES} backward passes, and of waiting in them",
    ),
    Concern(
        "examination/optimizer", "examined",
        ("torch.optim.Optimizer.__init__", "torch.GradScaler.step", _BEFORE_STEP, _AFTER_STEP,
         *_in("torch.optim.lr_scheduler", "ChainedScheduler.step CosineAnnealingWarmRestarts.step LRScheduler.step "
              "ReduceLROnPlateau.step SequentialLR.step")),
        f"{_NO_NOTES} steps: nothing can be judged", True,
    ),
    Concern(
        "examination/gradients", "examined",
        (_BEFORE_STEP, "torch.nn.Module.zero_grad", "torch.optim.Optimizer.zero_grad",
         *_in("torch.nn.utils", "clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_")),
        f"{_NO_NOTES} gradients, clipping and zero_grad",
    ),
    Concern(
        "examination/torch_modes", "examined",
        ("torch.autocast.__enter__", *_in("torch.GradScaler", "scale unscale_ update"),
         *_in("torch.autograd", "detect_anomaly.__enter__ set_detect_anomaly.__init__"),
         *_in("torch._dynamo.convert_frame", "_compile get_and_maybe_log_recompilation_reasons")),
        f"{_NO_NOTES} mixed precision, torch's switches and torch.compile",
    ),
    Concern(
        "examination/after_steps", "examined", (),
        f"{_NO_NOTES} parameters that differ between ranks, and losses that are kept",
    ),
    Concern(
        "examination/clocks", "examined",
        (*_in("time", "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns"),
         *_in("torch", "accelerator.synchronize cuda.synchronize cuda.Event.record cuda.Event.synchronize "
              "cuda.Stream.synchronize"),
         *_in("torch", "accelerator.empty_cache cuda.empty_cache cuda.ipc_collect"), "gc.collect"),
        f"{_NO_NOTES} the script's own timing, and memory that is tidied up by hand",
    ),
    Concern(
        "examination/data", "examined",
        (*_in(_LOADER, "__init__ __iter__"), _NEXT_BATCH, "torch.utils.data.Subset.__init__",
         *_in("torch.utils.data.DistributedSampler", "__iter__ set_epoch")),
        f"{_NO_NOTES} loading of data",
    ),
    Concern(
        "examination/fetching", "examined",  # and, in the first fetch of an epoch, the functions that seed
        (*_FETCHERS, "torch.utils.data._utils.pin_memory.pin_memory"),
        f"{_NO_NOTES} loading of data", part_of="examination/data",
    ),
    Concern(
        "examination/around_the_loop", "examined",
        ("sys.excepthook", "sys.exit", f"{_DDP}.__init__", _BEFORE_STEP, "torch.multiprocessing.start_processes",
         "torch.save", "warnings._showwarnmsg", "random.seed", "numpy.random.seed",
         # both of torch's: dynamo has put a function of its own in the first
         "torch.manual_seed", "torch.random.manual_seed"),
        f"{_NO_NOTES} the script's seeds, saves, warnings, launchers and failures",
    ),
    Concern(
        "examination/device_traffic", "examined",  # where there can be a GPU, or one is stood in for
        _in("torch.Tensor", "item tolist cpu numpy __bool__ __float__ __int__ __index__ __format__ __repr__ to cuda "
            "copy_"),
        f"{_NO_NOTES} reads from a device, and copies to it",
    ),
    Concern(
        "examination/collectives", "examined",
        (*_MESSAGES, *_OBJECTS, "torch.distributed.Work.wait", f"{_DDP}._sync_buffers",
         *_in("torch.distributed", "destroy_process_group init_process_group")),
        f"{_NO_NOTES} collectives and process groups",
    ),
    Concern("examination/graph", "examined", (), f"{_NO_NOTES} the graphs of backward passes"),
    Concern(
        "examination/device_work", "examined",  # where there can be a GPU
        ("torch.autograd.profiler.profile.__init__",), f"{_NO_NOTES} the work of a GPU",
    ),
)  # fmt: skip

_CUDA_CALLS = (
    "StreamContext can_device_access_peer clock_rate cudart current_device current_stream default_stream device_count "
    "device_memory_used empty_cache get_device_capability get_device_name get_device_properties get_rng_state "
    "get_rng_state_all init initial_seed ipc_collect is_available is_bf16_supported is_current_stream_capturing "
    "is_initialized manual_seed manual_seed_all max_memory_allocated max_memory_cached max_memory_reserved "
    "mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot memory_stats memory_summary "
    "memory_usage nvtx.mark nvtx.range nvtx.range_pop nvtx.range_push power_draw profiler.start profiler.stop "
    "reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats seed "
    "seed_all set_device set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream "
    "set_sync_debug_mode stream synchronize temperature utilization"
)
_ACCELERATOR_CALLS = (
    "current_accelerator current_device_idx current_device_index current_stream device_count empty_cache is_available "
    "max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
    "reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index synchronize"
)
_REDIRECTION = (
    Concern(
        "redirect/redirected_calls", "redirected",
        (*_in("torch.cuda", _CUDA_CALLS), *_in("torch.accelerator", _ACCELERATOR_CALLS),
         *_in("torch.distributed", "get_backend is_nccl_available")),
    ),
    Concern("redirect/devices", "redirected", ("torch.cuda.device", "torch.utils._device.DeviceContext.__init__")),
    Concern(
        "redirect/groups", "redirected",
        (*_in("torch.distributed", "DeviceMesh.__init__ barrier init_device_mesh init_process_group new_group "
              "new_subgroups new_subgroups_by_enumeration"),
         *(one.path for one in functions_in(DISTRIBUTED) if one.averages)),
    ),
    Concern(
        "redirect/precision", "redirected",
        _in("torch", "GradScaler.__init__ amp.custom_bwd amp.custom_fwd autocast.__init__ compile get_autocast_dtype "
            "get_autocast_gpu_dtype is_autocast_enabled"),
    ),
    Concern(
        "redirect/streams", "redirected", _in("torch.cuda", "CUDAGraph Event Stream graph make_graphed_callables")
    ),
    Concern(
        "redirect/tensors", "redirected",
        ("threading.Thread._bootstrap_inner", "torch.Generator", *_in("torch.Tensor", "backward record_stream"),
         "torch.autograd._engine_run_backward", "torch.load", "torch.UntypedStorage.cuda"),
    ),
    Concern(
        "redirect/wrappers", "redirected",
        ("torch.distributed.fsdp.FullyShardedDataParallel.__init__",
         *_in("torch.nn", "Module.to SyncBatchNorm.forward"),
         *_in(_DDP, "__init__ _check_comm_hook _passing_sync_batchnorm_handle"),
         *_in("torch.nn.parallel", "data_parallel._check_balance data_parallel._get_all_device_indices "
              "data_parallel._get_available_device_type data_parallel.parallel_apply "
              "replicate._broadcast_coalesced_reshape scatter_gather.Gather scatter_gather.Scatter")),
    ),
)  # fmt: skip

_REHEARSAL = (
    Concern(
        "rehearsal/group", "rehearsed",
        (*_in("torch.distributed", "batch_isend_irecv init_process_group new_group split_group"),
         # No other rank is needed for sending.
         *(one.path for one in functions_in(DISTRIBUTED) if one.objects not in (None, "nobody"))),
    ),
    Concern("rehearsal/remote_values", "rehearsed", ("os.stat", _BEFORE_STEP)),
    Concern("rehearsal/streams", "rehearsed", _in("torch.cuda.Event", "record wait")),  # where there is a GPU
)  # fmt: skip

_EMULATION = (Concern("emulation", "emulated", (*_MESSAGES, *_in(_DDP, "_ddp_init_helper _sync_buffers"))),)

_CHANGES = (
    Concern("gradient_rows", "replayed", (_BEFORE_STEP,), "the gradients of the first steps"),
    Concern("changes/__init__", "replayed", (_AFTER_STEP,)),
    Concern(
        "changes/remove_communication", "replayed",
        ("torch.distributed.all_reduce", *_in(_DDP, "__init__ register_comm_hook")),
    ),
    Concern("changes/cached_input", "replayed", (f"{_LOADER}.__iter__", _NEXT_BATCH)),
    Concern(
        "changes/clip_by_whole_norm", "replayed",
        ("torch.autograd.backward", "torch.nn.utils.clip_grad_norm_", "torch.optim.Optimizer.__init__", _BEFORE_STEP),
    ),
    Concern("changes/compiled_model", "replayed", ("torch.nn.Module.__call__",)),
    Concern("changes/ddp_option", "replayed", (f"{_DDP}.__init__",)),
    Concern(
        "changes/debugging_off", "replayed",
        (*_in("torch.autograd", "detect_anomaly.__enter__ set_detect_anomaly.__init__"), "torch.cuda._lazy_init"),
    ),
    Concern("changes/divide_loss", "replayed", ("torch.autograd.backward",)),
    Concern("changes/dynamic_shapes", "replayed", ("torch.compile",)),
    Concern("changes/eval_mode", "replayed", ("torch.nn.Module.__call__",)),
    Concern(
        "changes/fused_attention", "replayed",
        (*_in("torch", "bmm matmul nn.MultiheadAttention.forward"), *_in("torch.Tensor", "__matmul__ bmm matmul"),
         *_in("torch.backends.cuda", "enable_cudnn_sdp enable_flash_sdp enable_math_sdp enable_mem_efficient_sdp")),
    ),
    Concern(
        "changes/fused_optimizer", "replayed",
        _in("torch.optim", "Adagrad.__init__ Adam.__init__ AdamW.__init__ SGD.__init__"),
    ),
    Concern("changes/kept_copies", "replayed", _in("torch.Tensor", "cuda to")),
    Concern(
        "changes/no_housekeeping", "replayed",
        (*_in("torch", "accelerator.empty_cache cuda.empty_cache cuda.ipc_collect"), "gc.collect"),
    ),
    Concern("changes/no_scaler", "replayed", ("torch.GradScaler.__init__",)),
    Concern("changes/no_sync", "replayed", (f"{_DDP}.forward", _BEFORE_STEP, _AFTER_STEP)),
    Concern("changes/pinned_memory", "replayed", (f"{_LOADER}.__init__", *_in("torch.Tensor", "cuda to"))),
    Concern("changes/same_split", "replayed", ("torch.utils.data.random_split",)),
    Concern("changes/scaler", "replayed", ("torch.autograd.backward", "torch.optim.Optimizer.__init__")),
    Concern("changes/seed_by_rank", "replayed", _in(_LOADER, "__init__ __iter__")),
    Concern(
        "changes/seldom_read", "replayed",
        _in("torch.Tensor", "item tolist cpu numpy __bool__ __float__ __int__ __index__ __format__ __repr__ to"),
    ),
    Concern("changes/set_epoch", "replayed", (f"{_LOADER}.__iter__",)),
    Concern("changes/shard_data", "replayed", _in(_LOADER, "__init__ __iter__")),
    Concern("changes/sync_batch_norm", "replayed", (f"{_DDP}.__init__",)),
    Concern("changes/sync_last", "replayed", ()),  # by the functions of no_sync
    Concern("changes/tf32", "replayed", ("torch.optim.Optimizer.__init__",)),
    Concern("changes/threads", "replayed", ("torch.set_num_threads",)),
    Concern("changes/tuned_convolutions", "replayed", ()),  # by those of tf32
    Concern(
        "changes/unscale_before_clip", "replayed",
        (*_in("torch.GradScaler", "scale unscale_"), *_in("torch.nn.utils", "clip_grad_norm_ clip_grad_value_"),
         "torch.optim.Optimizer.__init__"),
    ),
    Concern("changes/with_ddp", "replayed", ()),  # by the functions of strategy/
    Concern(
        "strategy/single_device", "replayed",
        ("torch.autograd.backward", "torch.nn.Module.__call__", "torch.optim.Optimizer.__init__", _AFTER_STEP,
         "torch.distributed.init_process_group"),
    ),
    Concern("strategy/shares", "replayed", (*_in(_LOADER, "__init__ __iter__"), *_FETCHERS)),
    Concern("changes/average_gradients", "replayed", (_BEFORE_STEP,)),
    Concern(
        "changes/fixed_seeds", "replayed",
        ("numpy.random.default_rng", "torch.seed"),
    ),
    Concern("changes/joint_batch_norm", "replayed", ("torch.nn.functional.batch_norm",)),
    Concern(
        "changes/no_dropout", "replayed",
        (*_in("torch.nn.functional", "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"),
         *_in("torch", "dropout alpha_dropout feature_alpha_dropout nn.RNNBase.__init__"),
         "torch.nn.functional.scaled_dot_product_attention"),
    ),
    Concern("changes/across_kinks", "replayed", ()),  # by a mode of torch, which stands around all its functions
    Concern("changes/other_rounding", "replayed", ("torch.nn.Module.__call__",)),
    Concern("changes/same_start", "replayed", ("torch.nn.Module.__call__",)),
    Concern("changes/start_of_ranks", "replayed", ("torch.nn.Module.__call__",)),
    Concern("changes/scale_gradients", "replayed", (_BEFORE_STEP,)),
    Concern("changes/scale_rate", "replayed", (_BEFORE_STEP, _AFTER_STEP)),
    Concern("changes/stop_after", "replayed", (_BEFORE_STEP,)),
    Concern("changes/weigh_ranks", "replayed", ("torch.autograd.backward",)),
    Concern("changes/workers", "replayed", (f"{_LOADER}.__init__",)),
)  # fmt: skip

_PARITY = (
    Concern("parity/tensor_rows", "compared", (_BEFORE_STEP, _AFTER_STEP)),
    Concern("parity/given", "compared", ("torch.manual_seed",)),
    Concern(
        "parity/sources", "compared",
        ("torch.nn.Module.__call__", *_in(_LOADER, "__iter__ __len__"), _NEXT_BATCH,
         *_in("torch", "rand randn randint normal rand_like randn_like randint_like bernoulli")),
    ),
)  # fmt: skip

WRAPPED: tuple[Concern, ...] = (
    *_TIMING,
    *_INSPECTION,
    *_EXAMINATION,
    *_REDIRECTION,
    *_REHEARSAL,
    *_EMULATION,
    *_CHANGES,
    *_PARITY,
)
CONCERNS = {concern.name: concern for concern in WRAPPED}


def removable_in(spec: RunSpec) -> tuple[Concern, ...]:
    """The concerns that act in a run and that it can do without."""
    kinds: dict[WrappedIn, bool] = {
        "every": True,
        "plain": True,
        "inspected": spec.inspected,
        "examined": spec.examined is not None,
        "replayed": spec.shows_gradients,
        "compared": spec.compared is not None,
    }
    return tuple(
        one
        for one in WRAPPED
        if kinds.get(one.runs, False) and one.removable and left_out_with(one.name) not in spec.without_hooks
    )


def not_observed(without_hooks: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences about what a run cannot show because these concerns were left out, one for each."""
    return tuple(
        f"scalewise's own {name} failed in this script ({why}) and was left out, so this was not observed: "
        f"{CONCERNS[name].without if name in CONCERNS else 'what it sees'}"
        for name, why in without_hooks.items()
    )


def left_out_with(name: str) -> str:
    """The concern to leave out if this one has failed; empty if the run needs it."""
    concern = CONCERNS.get(name)
    if concern is None or not concern.removable:
        return ""
    return concern.part_of or concern.name
