"""Trains two steps on every rank, then rank 1 does what the first argument says while the others go on.

With `untrained` as the second argument there is no optimizer, whose first step imports a second's worth of torch.
"""

import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def spin() -> None:
    while True:
        time.sleep(0.01)


def take_a_taken_port() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as first:
        socket.create_server(first.getsockname()[:2])


def leave_a_child_behind() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "left-behind"], start_new_session=True)


def explode() -> None:
    raise ValueError("boom")


FAULTS = {
    "raise": explode,
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sigsegv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "sigill": lambda: os.kill(os.getpid(), signal.SIGILL),
    "memory": lambda: torch.empty(1 << 50),
    "leave": lambda: os._exit(0),
    "exit3": lambda: sys.exit(3),
    "spin": spin,
    "port": take_a_taken_port,
    "child": leave_a_child_behind,
}


def train(steps: int) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def meet() -> None:
    for _ in range(2):
        dist.all_reduce(torch.ones(4))


def main() -> None:
    dist.init_process_group("gloo")
    go_on = meet if "untrained" in sys.argv else lambda: train(2)
    go_on()
    if dist.get_rank() == 1:
        FAULTS[sys.argv[1]]()
    go_on()
    dist.destroy_process_group()


main()
