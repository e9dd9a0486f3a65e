"""Measures how fast this device multiplies matrices in each precision, and copies; prints one line of JSON.

python peaks.py --device cpu --seconds 0.4
"""

import argparse
import functools
import json
import time
from collections.abc import Callable

import torch

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
SIZES = {"cuda": (4096, 8192, 16384), "cpu": (256, 512, 1024, 2048)}
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
LEAST_REPEATS = 3


def synchronize(device: str) -> None:
    """Waits until the device has done all it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def shortest_seconds(work: Callable[[], object], device: str, seconds: float) -> float:
    """The shortest of several calls; whatever disturbs one can only make it longer."""
    work()
    synchronize(device)
    best, repeats, began = float("inf"), 0, time.perf_counter()
    while repeats < LEAST_REPEATS or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        work()
        synchronize(device)
        best = min(best, time.perf_counter() - start)
        repeats += 1
    return best


def product_rate(precision: str, device: str, seconds: float) -> float:
    """The operations per second of the best size, a multiply-add being two; random numbers, as in training."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    best = 0.0
    for size in SIZES[device]:
        a, b = (torch.randn(size, size, device=device).to(PRECISIONS[precision]) for _ in range(2))
        multiply = functools.partial(torch.mm, a, b, out=torch.empty_like(a))
        took = shortest_seconds(multiply, device, seconds / len(SIZES[device]))
        best = max(best, 2 * size**3 / took)
        if 8 * took * LEAST_REPEATS > seconds:
            break  # the next size would take eight times as long
    return best


def copy_rate(device: str, seconds: float) -> float:
    """The bytes per second that a copy reads and writes, too large for any cache."""
    source = torch.ones(COPY_BYTES[device] // 4, device=device)
    target = torch.empty_like(source)
    return 2 * COPY_BYTES[device] / shortest_seconds(lambda: target.copy_(source), device, seconds)


def main() -> None:
    """Measures all rates, and leaves out what this device cannot do."""
    parser = argparse.ArgumentParser(description="Measures the peak rates of one rank's device.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure, about")
    args = parser.parse_args()
    torch.manual_seed(0)
    rates, troubles = {}, {}
    for precision in PRECISIONS:
        if precision != "tf32" or args.device == "cuda":
            try:
                rates[precision] = product_rate(precision, args.device, args.seconds)
            except RuntimeError as error:
                troubles[precision] = str(error).splitlines()[0]
    found = {
        "threads": torch.get_num_threads(),
        "flops_per_second": rates,
        "copy_bytes_per_second": copy_rate(args.device, args.seconds),
        "troubles": troubles,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
