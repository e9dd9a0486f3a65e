"""Logical devices: several stand on the cores, or on one GPU, where there are too few GPUs for what a script shows.

What moves between them is really copied, forward and backward; what they compute is what real ones would.
"""

import copy
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


@torch.library.custom_op("logical::move", mutates_args=())
def move(x: torch.Tensor, source: str, target: str) -> torch.Tensor:
    """The hand-over itself: a copy."""
    return x.clone()


def _keep_way(ctx, inputs, output):
    _, ctx.source, ctx.target = inputs


def _move_back(ctx, gradient):
    return torch.ops.logical.move(gradient, ctx.target, ctx.source), None, None


move.register_autograd(_move_back, setup_context=_keep_way)


class LogicalDevice:
    """Stands for a GPU; `x.to(device)` copies a tensor that lies on another one, as it would between GPUs."""

    def __init__(self, index, real):
        self.name, self.real = f"logical:{index}", real

    def __repr__(self):
        return self.name

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        # PyTorch asks here, because the argument of `x.to(device)` is none of its own kinds.
        x, device = args
        source = getattr(x, "logical_device", None)
        if source == device.name:
            return x
        if source is None:  # comes from outside, like a batch from the host
            return mark(x.to(device.real, copy=True), device)
        return mark(torch.ops.logical.move(x, source, device.name), device)


def mark(x, device):
    """Notes on the tensor that it lies on this logical device."""
    x.logical_device = device.name
    return x


def find_devices(count):
    """The GPUs if there are enough, else logical devices on the one GPU or on the cores; says which."""
    gpus = torch.cuda.device_count()
    if count <= gpus:
        print(f"devices: {count} of {gpus} GPUs")
        return [torch.device("cuda", index) for index in range(count)]
    real = torch.device("cuda", 0) if gpus else torch.device("cpu")
    where = "one GPU" if gpus else "the CPU's cores"
    print(f"devices: {count} logical on {where} ({gpus} GPUs can be seen), so times are those of an emulation")
    return [LogicalDevice(index, real) for index in range(count)]


def place(layer, device):
    """`layer.to(device)`, which for a logical device marks the weights and what the layer computes from them."""
    if not isinstance(device, LogicalDevice):
        return layer.to(device)
    for parameter in layer.to(device.real).parameters():
        mark(parameter, device)
    layer.register_forward_hook(lambda _layer, _inputs, output: mark(output, device))
    return layer


def device_of(x):
    """Where a tensor lies, to compare with a device by its name."""
    return getattr(x, "logical_device", str(x.device))


def synchronize(devices):
    """Waits until every GPU has done all that it was given."""
    if torch.cuda.is_available():
        for device in devices:
            torch.cuda.synchronize(getattr(device, "real", device))


def describe(model, devices, forward):
    """Prints what lies on each device; `forward` computes the loss once more, untimed, to see what it keeps."""
    held = memory_per_device(model, devices, forward)
    for device in devices:
        layers = [i for i, layer_device in enumerate(model.layer_devices) if layer_device is device]
        numbers = ", ".join(map(str, layers))
        print(f"{device}: {len(layers)} layers ({numbers}), {held[str(device)] / 1e6:.1f} MB")


def memory_per_device(model, devices, forward):
    """Bytes: on GPUs the peak, on logical devices weights, gradients and what forward keeps for backward."""
    if not isinstance(devices[0], LogicalDevice):
        return {str(device): torch.cuda.max_memory_allocated(device) for device in devices}
    held = {device.name: {} for device in devices}  # device -> storage -> bytes, so that nothing counts twice
    at_work = devices[0].name

    def keep(tensor, device=None):
        storage = tensor.untyped_storage()
        held[device or at_work][storage.data_ptr()] = storage.nbytes()
        return tensor

    def begin(layer, _inputs):
        nonlocal at_work
        at_work = device_of(next(layer.parameters()))

    for parameter in model.parameters():
        keep(parameter, device_of(parameter))
        keep(parameter.grad, device_of(parameter))
    hooks = [layer.register_forward_pre_hook(begin) for layer in model.layers]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward()  # alive until all is counted
    for hook in hooks:
        hook.remove()
    del loss
    return {name: sum(storages.values()) for name, storages in held.items()}


def _begin_thread(real, cores):
    torch.set_num_threads(cores)
    if real.type == "cuda":
        torch.cuda.set_device(real)


class LogicalDataParallel(nn.Module):
    """What nn.DataParallel does in one step, on logical devices: its model and its results lie on the first."""

    def __init__(self, model, devices):
        super().__init__()
        self.module, self.devices = model.to(devices[0].real), devices
        for parameter in model.parameters():
            mark(parameter, devices[0])
        # Shapes without numbers, into which each step puts the weights that it has copied.
        self.shells = [copy.deepcopy(model).to("meta") for _ in devices]
        share = max(1, torch.get_num_threads() // len(devices))
        self.threads = ThreadPoolExecutor(len(devices), initializer=_begin_thread, initargs=(devices[0].real, share))

    def forward(self, x):
        parts = [part.to(device) for part, device in zip(self.scatter(x), self.devices, strict=True)]
        replicas = [self.replicate(device) for device in self.devices]
        outputs = self.threads.map(torch.func.functional_call, self.shells, replicas, parts)
        outputs = [mark(output, device) for output, device in zip(outputs, self.devices, strict=True)]
        return mark(torch.cat([output.to(self.devices[0]) for output in outputs]), self.devices[0])  # gather

    def scatter(self, x):
        return [mark(part, self.devices[0]) for part in x.chunk(len(self.devices))]

    def replicate(self, device):
        """The weights on that device; backward copies their gradients home and adds them up there."""
        return {name: weight.to(device) for name, weight in self.module.named_parameters()}
