"""Calls the functions of torch that the watcher wraps, in every legal spelling, and prints what came of each call."""

import functools
import io
import random
import sys
import warnings

import spellings
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

Float = torch.float32


def shown(value):
    """The value in letters, the same in every process."""
    if isinstance(value, torch.Tensor):
        return f"tensor{[round(float(one), 4) for one in value.detach().double().flatten()[:6]]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}={shown(one)}' for key, one in value.items())})"
    if isinstance(value, (int, float, str, bool, type(None))):
        return repr(value)
    if hasattr(value, "wait"):  # a handle, or a future
        value.wait()
        return "done"
    return "object"


def spell(name, function, make, look=lambda values: (), beside=lambda: None):
    """Calls it in every spelling; `make` gives fresh values by name, `look` what else has changed."""
    overloads = spellings.signatures(function, name)
    calls = 0
    for parameters in overloads:
        for by_place, by_name in spellings.spelled(parameters, make()):
            random.seed(0)
            torch.manual_seed(0)
            values = make()
            words = f"{name}({', '.join([*by_place, *(f'{one}=' for one in by_name)])})"
            try:
                result = function(*(values[one] for one in by_place), **{one: values[one] for one in by_name})
                told = f"{shown(result)} {shown(look(values))}"
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
            beside()
            calls += 1
            print(f"{words} -> {told}")
    print(f"# {name}: {calls} spellings")


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def graph(*names):
    """A loss over a leaf, as the named parameters of backward and grad."""

    def make():
        x = leaf()
        known = {
            "tensors": (x * x).sum(), "outputs": (x * x).sum(), "inputs": x, "grad_tensors": torch.tensor(2.0),
            "grad_outputs": torch.tensor(2.0), "retain_graph": True, "create_graph": True, "allow_unused": True,
            "only_inputs": True, "materialize_grads": True,
        }  # fmt: skip
        known["x"] = x
        return {name: known[name] for name in (*names, "x")} | {"always": ()}

    return make


def gradients(values):
    return values["x"].grad


class Model(nn.Module):
    def forward(self, first, second=None, *, third=None):
        return first * 2 + (0 if second is None else second) + (0 if third is None else third)


def with_gradient():
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    return parameter


def stepped(scaler, optimizer):
    parameter = optimizer.param_groups[0]["params"][0]
    parameter.grad = None
    scaler.scale((parameter * parameter).sum()).backward()
    return optimizer


def optimizer():
    return torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)


def spell_autograd():
    spell("torch.autograd.backward", torch.autograd.backward,
          graph("tensors", "grad_tensors", "retain_graph", "create_graph", "inputs"), gradients)  # fmt: skip
    spell("torch.autograd.grad", torch.autograd.grad,
          graph("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
                "materialize_grads"), gradients)  # fmt: skip
    hooks = torch.autograd.graph.saved_tensors_hooks
    spell("torch.autograd.graph.saved_tensors_hooks.__enter__", hooks.__enter__,
          lambda: {"self": hooks(lambda one: one, lambda one: one)})  # fmt: skip
    for _ in range(2):
        torch._C._autograd._pop_saved_tensors_default_hooks()
    spell("torch.autograd.graph.disable_saved_tensors_hooks", torch.autograd.graph.disable_saved_tensors_hooks,
          lambda: {"error_message": "no"})  # fmt: skip


def spell_modules():
    model = Model()
    for call in (model, functools.partial(nn.Module.__call__, model), functools.partial(Model.__call__, self=model)):
        one = torch.ones(2, requires_grad=True)
        told = (
            [call(one), call(one, one), call(first=one, second=one, third=one), call(one, third=one)]
            if not isinstance(call, functools.partial) or not call.keywords
            else [call(first=one), call(first=one, second=one)]
        )
        print(f"torch.nn.Module.__call__ -> {shown(told)}")
    linear = nn.Linear(2, 2)
    spell("torch.nn.Module.zero_grad", nn.Module.zero_grad, lambda: {"self": linear, "set_to_none": False})
    spell("torch.nn.DataParallel.__init__", nn.DataParallel.__init__,
          lambda: {"self": nn.DataParallel.__new__(nn.DataParallel), "module": nn.Linear(2, 2), "device_ids": None,
                   "output_device": None, "dim": 0})  # fmt: skip


def spell_precision():
    from torch.amp import GradScaler

    def scaler():
        return GradScaler("cpu", init_scale=4.0)

    spell("torch.GradScaler.scale", GradScaler.scale, lambda: {"self": scaler(), "outputs": torch.ones(1)})

    def step():
        one = scaler()
        return {"self": one, "optimizer": stepped(one, optimizer())}

    spell("torch.GradScaler.step", GradScaler.step, step, lambda values: values["optimizer"].param_groups[0]["params"])
    spell("torch.GradScaler.unscale_", GradScaler.unscale_, step)

    def update():
        values = step()
        values["self"].step(values["optimizer"])
        return {"self": values["self"], "new_scale": 2.0}

    spell("torch.GradScaler.update", GradScaler.update, update, lambda values: values["self"].get_scale())
    spell("torch.autocast.__enter__", torch.autocast.__enter__, lambda: {"self": torch.autocast("cpu")})
    for _ in range(2):
        torch.autocast_decrement_nesting()
    torch.set_autocast_enabled("cpu", False)


def spell_training():
    utils = nn.utils
    spell("torch.nn.utils.clip_grad_norm_", utils.clip_grad_norm_,
          lambda: {"parameters": (one for one in [with_gradient()]), "max_norm": 1.0, "norm_type": 2.0,
                   "error_if_nonfinite": True, "foreach": False})  # fmt: skip
    spell("torch.nn.utils.clip_grad_value_", utils.clip_grad_value_,
          lambda: {"parameters": with_gradient(), "clip_value": 1.0, "foreach": False},
          lambda values: values["parameters"].grad)  # fmt: skip
    spell("torch.nn.utils.clip_grads_with_norm_", utils.clip_grads_with_norm_,
          lambda: {"parameters": [with_gradient()], "max_norm": 1.0, "total_norm": torch.tensor(5.0), "foreach": False},
          lambda values: values["parameters"][0].grad)  # fmt: skip
    Optimizer = torch.optim.Optimizer
    spell("torch.optim.Optimizer.add_param_group", Optimizer.add_param_group,
          lambda: {"self": optimizer(), "param_group": {"params": [nn.Parameter(torch.ones(1))]}},
          lambda values: len(values["self"].param_groups))  # fmt: skip
    spell("torch.optim.Optimizer.__init__", Optimizer.__init__,
          lambda: {"self": Optimizer.__new__(torch.optim.SGD), "params": [nn.Parameter(torch.ones(1))],
                   "defaults": {"lr": 0.1}}, lambda values: len(values["self"].param_groups))  # fmt: skip
    spell("torch.optim.Optimizer.zero_grad", Optimizer.zero_grad, lambda: {"self": optimizer(), "set_to_none": False})
    print(f"torch.optim.Optimizer.step -> {shown([optimizer().step(), optimizer().step(closure=lambda: 1.0)])}")
    spell_schedules()


def spell_schedules():
    schedules = torch.optim.lr_scheduler
    makers = {
        "LRScheduler": lambda one: schedules.StepLR(one, 1),
        "ReduceLROnPlateau": schedules.ReduceLROnPlateau,
        "CosineAnnealingWarmRestarts": lambda one: schedules.CosineAnnealingWarmRestarts(one, 2),
        "SequentialLR": lambda one: schedules.SequentialLR(one, [schedules.StepLR(one, 1)] * 2, [1]),
        "ChainedScheduler": lambda one: schedules.ChainedScheduler([schedules.StepLR(one, 1)], one),
    }
    for name, make in makers.items():
        spell(f"torch.optim.lr_scheduler.{name}.step", getattr(schedules, name).step,
              lambda make=make: {"self": make(optimizer()), "metrics": 1.0, "epoch": 1},
              lambda values: values["self"].get_last_lr())  # fmt: skip


def spell_data():
    data = [torch.tensor([float(one)]) for one in range(4)]
    spell("torch.utils.data.DataLoader.__init__", DataLoader.__init__,
          lambda: {"self": DataLoader.__new__(DataLoader), "dataset": data, "batch_size": 2, "shuffle": True,
                   "num_workers": 0, "collate_fn": torch.stack, "pin_memory": False, "drop_last": True, "timeout": 0},
          lambda values: list(values["self"]))  # fmt: skip
    spell("torch.utils.data.DataLoader.__iter__", DataLoader.__iter__, lambda: {"self": DataLoader(data)})
    iterator = type(iter(DataLoader(data)))
    spell("torch.utils.data.dataloader._BaseDataLoaderIter.__next__", iterator.__next__,
          lambda: {"self": iter(DataLoader(data))})  # fmt: skip

    def sampler():
        return DistributedSampler(data, 2, 1, shuffle=True)

    spell("torch.utils.data.DistributedSampler.__iter__", DistributedSampler.__iter__, lambda: {"self": sampler()})
    spell("torch.utils.data.DistributedSampler.set_epoch", DistributedSampler.set_epoch,
          lambda: {"self": sampler(), "epoch": 3}, lambda values: list(values["self"]))  # fmt: skip
    spell("torch.utils.data.Subset.__init__", Subset.__init__,
          lambda: {"self": Subset.__new__(Subset), "dataset": data, "indices": [1, 2]},
          lambda values: list(values["self"]))  # fmt: skip
    spell_fetchers(data)
    spell_storage()


def spell_fetchers(data):
    from torch.utils.data._utils import fetch, pin_memory

    for name, source, wanted in (("Map", data, [1, 2]), ("Iterable", data, [0, 0])):
        kind = getattr(fetch, f"_{name}DatasetFetcher")
        spell(f"torch.utils.data._utils.fetch._{name}DatasetFetcher.fetch", kind.fetch,
              lambda kind=kind, source=source, wanted=wanted: {
                  "self": kind(source, True, list, False), "possibly_batched_index": wanted})  # fmt: skip
    spell("torch.utils.data._utils.pin_memory.pin_memory", pin_memory.pin_memory,
          lambda: {"data": ["a word", 1], "device": None})  # fmt: skip


def spell_storage():
    storage = torch.ones(4).untyped_storage()
    resized = storage.resize_(8)  # its argument has no name
    print(f"torch.UntypedStorage.resize_ -> {(storage.nbytes(), resized is storage)}")


def spell_seeds():
    import numpy

    for name, function in (("torch", torch.manual_seed), ("torch.random", torch.random.manual_seed)):
        spell(f"{name}.manual_seed", function, lambda: {"seed": 3}, lambda values: torch.rand(2))
    spell("random.seed", random.seed, lambda: {"a": 3, "version": 2, "always": ("a",)},
          lambda values: random.random())  # fmt: skip
    # Written in C, and without a signature.
    for by_place, by_name in (((3,), {}), ((), {"seed": 3}), ((), {})):
        told = numpy.random.seed(*by_place, **by_name)
        print(f"numpy.random.seed -> {told} {numpy.random.rand() if by_place or by_name else ''}")


def spell_switches():
    def off():
        torch.set_anomaly_enabled(False)

    switch, context = torch.autograd.set_detect_anomaly, torch.autograd.detect_anomaly
    spell("torch.autograd.set_detect_anomaly.__init__", switch.__init__,
          lambda: {"self": switch.__new__(switch), "mode": True, "check_nan": False},
          lambda values: torch.is_anomaly_enabled(), off)  # fmt: skip
    spell("torch.autograd.detect_anomaly.__enter__", context.__enter__, lambda: {"self": context(check_nan=False)},
          lambda values: torch.is_anomaly_enabled(), off)  # fmt: skip
    for name, kind in (("autograd.profiler", torch.autograd.profiler.profile), ("profiler", torch.profiler.profile)):
        spell(f"torch.{name}.profile.__init__", kind.__init__,
              lambda kind=kind: {"self": kind.__new__(kind), "enabled": True, "record_shapes": True,
                                 "with_stack": False})  # fmt: skip


def spell_housekeeping():
    import gc

    for name, function in (("cuda.empty_cache", torch.cuda.empty_cache), ("cuda.ipc_collect", torch.cuda.ipc_collect)):
        spell(f"torch.{name}", function, dict)
    if hasattr(torch.accelerator, "empty_cache"):
        spell("torch.accelerator.empty_cache", torch.accelerator.empty_cache, dict)
    print(f"gc.collect -> {[type(one).__name__ for one in (gc.collect(), gc.collect(1), gc.collect(generation=1))]}")


def spell_rest():
    import os
    import time

    def saved():
        return {
            "obj": {"a": torch.ones(1)},
            "f": io.BytesIO(),
            "pickle_protocol": 2,
            "_use_new_zipfile_serialization": True,
        }

    spell("torch.save", torch.save, saved, lambda values: values["f"].tell() > 0)
    spell("torch.save", torch.save, lambda: {**saved(), "f": os.devnull})
    for clock in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
                  "process_time_ns"):  # fmt: skip
        value = getattr(time, clock)()
        try:
            getattr(time, clock)(now=1)
        except TypeError as error:
            print(f"time.{clock} -> {type(value).__name__} {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spell("warnings.warn", warnings.warn, lambda: {"message": "of it", "category": FutureWarning, "stacklevel": 2,
                                                       "source": None})  # fmt: skip
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__"):
        spell(f"torch.Tensor.{name}", getattr(torch.Tensor, name), lambda: {"self": torch.tensor(3)})
    print(f"torch.Tensor.__format__ -> {torch.tensor(3.0):.2f}")
    spell("torch.Tensor.__repr__", torch.Tensor.__repr__, lambda: {"self": torch.tensor(3), "tensor_contents": "3"})
    spell("torch.Tensor.copy_", torch.Tensor.copy_,
          lambda: {"self": torch.ones(2), "other": torch.zeros(2), "non_blocking": True},
          lambda values: values["self"])  # fmt: skip
    spell("torch.Tensor.to", torch.Tensor.to,
          lambda: {"self": torch.ones(2), "dtype": torch.float64, "device": "cpu", "other": torch.ones(1).half(),
                   "non_blocking": True, "copy": True, "memory_format": torch.contiguous_format})  # fmt: skip
    spell("torch.compile", torch.compile, lambda: {"model": nn.Linear(1, 1), "backend": "eager", "disable": True})
    import torch.multiprocessing as mp

    sys.stdout.flush()
    spell("torch.multiprocessing.start_processes", mp.start_processes,
          lambda: {"fn": int, "args": (), "nprocs": 1, "join": True, "daemon": False, "start_method": "fork",
                   "always": ("start_method",)}, lambda values: "started")  # fmt: skip


def plain():
    sections = (spell_autograd, spell_modules, spell_precision, spell_training, spell_data, spell_seeds, spell_switches,
                spell_housekeeping, spell_rest)  # fmt: skip
    for section in sections:
        section()


def messages():
    """Collectives of two ranks; both spell the same call at the same time."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD

    def one():
        return torch.full((2,), float(me + 1))

    def many(count=ranks):
        return [torch.full((2,), float(me + 1 + index)) for index in range(count)]

    def wide():
        return torch.arange(2.0 * ranks) + me

    op, later = dist.ReduceOp.SUM, {"async_op": True, "group": world}
    cases = {
        "all_reduce": [lambda: {"tensor": one(), "op": op, **later}],
        "all_reduce_coalesced": [lambda: {"tensors": many(), "op": op, **later}],
        "broadcast": [lambda: {"tensor": one(), "src": 0, **later, "always": ("src",)},
                      lambda: {"tensor": one(), "group_src": 1, **later, "always": ("group_src",)}],
        "reduce": [lambda: {"tensor": one(), "dst": 0, "op": op, **later, "always": ("dst",)},
                   lambda: {"tensor": one(), "group_dst": 1, "op": op, **later, "always": ("group_dst",)}],
        "all_gather": [lambda: {"tensor_list": many(), "tensor": one(), **later}],
        "all_gather_into_tensor": [lambda: {"output_tensor": wide(), "input_tensor": one(), **later}],
        "all_gather_single": [lambda: {"output_tensor": wide(), "input_tensor": one(), **later}],
        "all_gather_coalesced": [
            lambda: {"output_tensor_lists": [many(1) for _ in range(ranks)], "input_tensor_list": [one()], **later}],
        "reduce_scatter": [lambda: {"output": one(), "input_list": many(), "op": op, **later}],
        "reduce_scatter_tensor": [lambda: {"output": one(), "input": wide(), "op": op, **later}],
        "reduce_scatter_single": [lambda: {"output": one(), "input": wide(), "op": op, **later}],
        "all_to_all": [lambda: {"output_tensor_list": many(), "input_tensor_list": many(), **later}],
        "all_to_all_single": [lambda: {"output": wide(), "input": wide(), "output_split_sizes": [2] * ranks,
                                       "input_split_sizes": [2] * ranks, **later}],
        "gather": [lambda: {"tensor": one(), "gather_list": many() if me == 0 else None, "dst": 0, **later,
                            "always": ("gather_list", "dst")}],
        "scatter": [lambda: {"tensor": one(), "scatter_list": many() if me == 0 else None, "src": 0, **later,
                             "always": ("scatter_list", "src")}],
        "barrier": [lambda: {**later}],
        "monitored_barrier": [lambda: {"group": world, "timeout": None, "wait_all_ranks": True}],
        "all_gather_object": [lambda: {"object_list": [None] * ranks, "obj": me, "group": world}],
        "broadcast_object_list": [
            lambda: {"object_list": [me], "src": 0, "group": world, "device": torch.device("cpu"), "always": ("src",)},
            lambda: {"object_list": [me], "group_src": 1, "group": world, "always": ("group_src",)}],
        "gather_object": [lambda: {"obj": me, "object_gather_list": [None] * ranks if me == 0 else None, "dst": 0,
                                   "group": world, "always": ("object_gather_list", "dst")}],
        "scatter_object_list": [
            lambda: {"scatter_object_output_list": [None], "scatter_object_input_list": [5, 6], "src": 0,
                     "group": world, "always": ("scatter_object_input_list", "src")}],
    }  # fmt: skip
    for name, makes in cases.items():
        if hasattr(dist, name):
            for make in makes:
                spell(f"torch.distributed.{name}", getattr(dist, name), make, lambda values: list(values.values())[:2])
    functional_messages(one, many, wide)
    point_to_point(me)


def functional_messages(one, many, wide):
    """Those that DTensor calls; they give a new tensor, or a list of them."""
    import torch.distributed._functional_collectives as functional

    ranks, group = dist.get_world_size(), {"group": dist.group.WORLD, "tag": ""}
    split = {"output_split_sizes": [2] * ranks, "input_split_sizes": [2] * ranks}
    gathered, scattered = {"gather_dim": 0}, {"reduceOp": "sum", "scatter_dim": 0}
    lists = {"reduceOp": "sum", "scatter_dim": [0]}
    cases = {
        "all_reduce": lambda: {"self": one(), "reduceOp": "sum"},
        "all_reduce_coalesced": lambda: {"self": many(), "reduceOp": "sum"},
        "broadcast": lambda: {"self": one(), "src": 0},
        "all_gather_single": lambda: {"self": one(), **gathered},
        "all_gather_single_autograd": lambda: {"self": one(), **gathered},
        "all_gather_single_coalesced": lambda: {"self": many()},
        "all_gather_tensor": lambda: {"self": one(), **gathered},
        "all_gather_tensor_autograd": lambda: {"self": one(), **gathered},
        "all_gather_into_tensor_coalesced": lambda: {"self": many()},
        "reduce_scatter_single": lambda: {"self": wide(), **scattered},
        "reduce_scatter_single_autograd": lambda: {"self": wide(), **scattered},
        "reduce_scatter_single_coalesced": lambda: {"inputs": [wide()], **lists},
        "reduce_scatter_tensor": lambda: {"self": wide(), **scattered},
        "reduce_scatter_tensor_autograd": lambda: {"self": wide(), **scattered},
        "reduce_scatter_tensor_coalesced": lambda: {"inputs": [wide()], **lists},
        "all_to_all_single": lambda: {"self": wide(), **split},
        "all_to_all_single_autograd": lambda: {"self": wide(), **split},
    }
    for name, make in cases.items():
        if hasattr(functional, name):
            spell(f"torch.distributed._functional_collectives.{name}", getattr(functional, name),
                  lambda make=make: make() | group)  # fmt: skip


def point_to_point(me):
    """Rank 0 sends and rank 1 receives, each in all spellings of its own function."""

    def tensor():
        return torch.full((2,), float(me + 1))

    world = dist.group.WORLD
    pairs = {
        ("send", "recv"): {"tensor": tensor},
        ("isend", "irecv"): {"tensor": tensor},
        ("send_object_list", "recv_object_list"): {"object_list": lambda: [me, "word"]},
    }
    for (send, receive), first in pairs.items():
        for end in ({"dst": 1, "src": 0}, {"group_dst": 1, "group_src": 0}):

            def make(first=first, end=end):
                made = {name: value() for name, value in first.items()}
                return made | end | {"group": world, "tag": 3, "always": tuple(end)}  # fmt: skip

            name = (send, receive)[me]
            # Both have as many spellings: dst and src, group_dst and group_src are at the same places.
            spell(f"torch.distributed.{name}", getattr(dist, name), make, lambda values: next(iter(values.values())))

    def batch():
        operation = (dist.isend, dist.irecv)[me]
        return {"p2p_op_list": [dist.P2POp(operation, tensor(), 1 - me)]}

    spell("torch.distributed.batch_isend_irecv", dist.batch_isend_irecv, batch)

    def work():
        return {"self": dist.all_reduce(tensor(), async_op=True)}

    wait = dist.distributed_c10d.Work.wait
    print(f"torch.distributed.Work.wait -> {shown([wait(work()['self']), work()['self'].wait()])}")


def wrapped_models():
    def made():
        torch.manual_seed(0)
        return {"self": DistributedDataParallel.__new__(DistributedDataParallel), "module": nn.Linear(2, 2),
                "device_ids": None, "output_device": None, "dim": 0, "broadcast_buffers": True, "process_group": None,
                "bucket_cap_mb": 25, "find_unused_parameters": False, "static_graph": False}  # fmt: skip

    name = "torch.nn.parallel.DistributedDataParallel"
    spell(f"{name}.__init__", DistributedDataParallel.__init__, made)
    model = DistributedDataParallel(nn.Linear(2, 2))
    print(f"{name}.forward -> {shown([model(torch.ones(1, 2)), model(input=torch.ones(1, 2))])}")
    print(f"{name}.forward -> {shown(DistributedDataParallel.forward(self=model, input=torch.ones(1, 2)))}")
    with model.no_sync(), DistributedDataParallel.no_sync(self=model):
        print(f"{name}.no_sync -> {model.require_backward_grad_sync}")

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    spell(f"{name}.register_comm_hook", DistributedDataParallel.register_comm_hook,
          lambda: {"self": DistributedDataParallel(nn.Linear(2, 2)), "state": None, "hook": hook})  # fmt: skip


if sys.argv[1] == "plain":
    plain()
else:
    spelled_inits = {
        "place": lambda: dist.init_process_group("gloo", "env://"),
        "name": lambda: dist.init_process_group(backend="gloo", init_method="env://"),
        "mixed": lambda: dist.init_process_group("gloo", init_method=None, rank=-1, world_size=-1),
    }
    print(f"torch.distributed.init_process_group -> {spelled_inits[sys.argv[1]]()}")
    messages()
    wrapped_models()
    print(f"torch.distributed.destroy_process_group -> {dist.destroy_process_group(group=dist.group.WORLD)}")
