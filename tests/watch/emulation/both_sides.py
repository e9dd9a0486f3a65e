"""Makes every call of torch.distributed once, of a rehearsed rank, over an emulated link: prints what both made of it.

The call goes through the emulation, which holds it back by a clock that stands still but for its sleeping, into the
group of the rehearsal, which puts it on tape. What torch has no function for in this version is left out.
"""

import json
import os
import sys
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.collectives import DISTRIBUTED, functions_in
from scalewise.watch import emulation
from scalewise.watch.rehearsal import fake_group, group

RANKS = 4
LATENCY_SECONDS, BYTES_PER_SECOND = 0.25, 1e3
TAPED, SLEPT = [], []


class Clock:
    """Moves when somebody sleeps."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def perf_counter_ns(self):
        return int(self.now * 1e9)

    def sleep(self, seconds):
        SLEPT.append(seconds)
        self.now += seconds


def one(floats=250):
    return torch.ones(floats)


def some(count=RANKS, floats=250):
    return [one(floats) for _ in range(count)]


def batch(*ways):
    function = {"isend": dist.isend, "irecv": dist.irecv}
    dist.batch_isend_irecv([dist.P2POp(function[way], one(floats), 1) for way, floats in ways])[0].wait()


def calls(pair, other):
    """By what is called: the name of the function, and how where there are several ways."""
    each = [{"rank": rank} for rank in range(RANKS)]
    return {
        "all_reduce": lambda: dist.all_reduce(one()),
        "all_reduce later": lambda: dist.all_reduce(one(), async_op=True).wait(),
        "all_reduce of a pair": lambda: dist.all_reduce(one(), group=pair),
        "all_reduce of others": lambda: dist.all_reduce(one(), group=other),
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced(some()),
        "broadcast": lambda: dist.broadcast(one(), 0),
        "reduce": lambda: dist.reduce(one(), 0),
        "all_gather": lambda: dist.all_gather(some(), one()),
        "all_gather of a pair": lambda: dist.all_gather(some(2), one(), group=pair),
        "all_gather by name": lambda: dist.all_gather(tensor=one(), tensor_list=some()),
        "all_gather_coalesced": lambda: dist.all_gather_coalesced([some() for _ in range(RANKS)], some()),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(one(1000), one()),
        "all_gather_into_tensor by name": lambda: dist.all_gather_into_tensor(
            input_tensor=one(), output_tensor=one(1000)
        ),
        "all_gather_single": lambda: dist.all_gather_single(one(1000), one()),
        "reduce_scatter": lambda: dist.reduce_scatter(one(), some()),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one(), one(1000)),
        "reduce_scatter_tensor by name": lambda: dist.reduce_scatter_tensor(input=one(1000), output=one()),
        "reduce_scatter_single": lambda: dist.reduce_scatter_single(one(), one(1000)),
        "all_to_all": lambda: dist.all_to_all(some(), some()),
        "all_to_all_single": lambda: dist.all_to_all_single(one(1000), one(1000)),
        "all_to_all_single in parts": lambda: dist.all_to_all_single(
            one(600), one(1000), [150] * RANKS, [100, 200, 300, 400]
        ),
        "gather": lambda: dist.gather(one(), some(), dst=0),
        "gather by another": lambda: dist.gather(one(), dst=1),
        "scatter": lambda: dist.scatter(one(), some(), src=0),
        "scatter by another": lambda: dist.scatter(one(), src=1),
        "barrier": lambda: dist.barrier(),
        "monitored_barrier": lambda: dist.monitored_barrier(),
        "send": lambda: dist.send(one(), 1),
        "isend": lambda: dist.isend(one(), 1).wait(),
        "recv": lambda: dist.recv(one(), 1),
        "irecv": lambda: dist.irecv(one(), 1).wait(),
        "batch_isend_irecv": lambda: batch(("isend", 250), ("irecv", 250)),
        "batch_isend_irecv, more sent": lambda: batch(("isend", 250), ("irecv", 500), ("isend", 350)),
        "batch_isend_irecv, more received": lambda: batch(("irecv", 250), ("irecv", 500), ("isend", 350)),
        "broadcast_object_list": lambda: dist.broadcast_object_list([1, "two"], 0),
        "all_gather_object": lambda: dist.all_gather_object([None] * RANKS, {"loss": 1.0, "seen": one()}),
        "gather_object": lambda: dist.gather_object("mine", [None] * RANKS, dst=0),
        "scatter_object_list": lambda: dist.scatter_object_list([None], each, src=0),
        "send_object_list": lambda: dist.send_object_list(["for", "you"], 1),
    }


def trained():
    """A step of DDP by parts: buffers of two dtypes one of which is left alone, and buckets."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16), torch.nn.BatchNorm1d(16))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["2.running_mean"])
    model = DistributedDataParallel(model)
    for _ in range(2):  # after the first step, buckets are made anew
        model(one(64).view(4, 16)).sum().backward()
    kept = []
    return {
        "DDP's buffers": lambda: kept.append(model(one(64).view(4, 16))),
        "DDP's buckets": lambda: kept.pop().sum().backward(),
    }


def stand_for_one_of_many():
    """Rehearsal first, as the emulation is put around whatever group there is."""
    tape = SimpleNamespace(
        issue=lambda kind, size_bytes, ranks, *_: TAPED.append((kind, size_bytes, ranks)),
        left_out=nullcontext,
        wait_after_backward=lambda ticket: None,
    )
    lanes, ears = SimpleNamespace(wait=lambda ticket: None), SimpleNamespace(hear=lambda kind, tensor: None)
    recorder = SimpleNamespace(journal=SimpleNamespace(row=lambda row: None, flush=lambda: None))
    group.install(recorder, fake_group.MessageSink(tape, lanes, ears), RANKS, 0)
    emulation.time = Clock()
    link = emulation.Carrier(LATENCY_SECONDS, BYTES_PER_SECOND, None, lambda what: None)
    emulation.hold_back_calls(link)
    emulation.hold_back_buckets(link)
    dist.init_process_group("gloo")


def observed(call):
    """Seconds slept for each message, and the messages on tape."""
    TAPED.clear()
    SLEPT.clear()
    call()
    return {"slept": list(SLEPT), "taped": list(TAPED)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("LOCAL_WORLD_SIZE", str(RANKS))
    stand_for_one_of_many()
    made = calls(dist.new_group([0, 1]), dist.new_group([2, 3]))
    there = {name: call for name, call in made.items() if hasattr(dist, name.replace(",", " ").split()[0])}
    found = {name: observed(call) for name, call in (there | trained()).items()}
    json.dump(
        {"calls": found, "functions": [one.name for one in functions_in(DISTRIBUTED) if hasattr(dist, one.name)]},
        sys.stdout,
    )
