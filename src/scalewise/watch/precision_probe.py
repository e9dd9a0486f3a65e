"""Tries one training step in one precision, in a process of its own: some CPUs die of instructions they advertise."""

import os
import sys

from scalewise.records.orders import ProbeOrder

WORKS = 0
RAISED = 3


def run_probe(order: ProbeOrder) -> None:
    """Exits 0 if the step survives; dies if the step makes it die."""
    os.environ.pop("ONEDNN_MAX_CPU_ISA", None)
    if order.isa_cap:
        os.environ["ONEDNN_MAX_CPU_ISA"] = order.isa_cap
    try:
        train_one_step(order.precision)
    except Exception:
        sys.exit(RAISED)
    # The result is known; what the interpreter does at its end is not what is being tried.
    os._exit(WORKS)


def train_one_step(precision: str) -> None:
    """Runs a linear layer forward and backward, large enough for the kernels that real training uses."""
    import torch

    dtype = getattr(torch, precision)
    layer = torch.nn.Linear(128, 128)
    inputs = torch.randn(64, 128)
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
        outputs = layer(inputs)
    outputs.float().sum().backward()
