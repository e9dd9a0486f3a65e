"""What a call of torch.distributed sleeps over an emulated link is what is predicted of it over that link."""

import inspect
import json
import os
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
import torch.distributed as dist
from bench.emulated_link import emulated_link
from both_sides import BYTES_PER_SECOND, LATENCY_SECONDS, calls
from watch_runner import SAFE_ISA

from scalewise.predict.collective_times import seconds
from scalewise.records.collectives import DISTRIBUTED, functions_in
from scalewise.watch.emulation import WholeBytes

SCRIPT = Path(__file__).parent / "both_sides.py"
# Of the whole message among four ranks, each with a piece of 1000 bytes.
WHOLE_BYTES = {
    "all_reduce": [1000],
    "all_reduce later": [1000],
    "all_reduce of a pair": [1000],
    "all_reduce of others": [],
    "all_reduce_coalesced": [4000],
    "broadcast": [1000],
    "reduce": [1000],
    "all_gather": [4000],
    "all_gather of a pair": [2000],
    "all_gather by name": [4000],
    "all_gather_coalesced": [16000],
    "all_gather_into_tensor": [4000],
    "all_gather_into_tensor by name": [4000],
    "all_gather_single": [4000],
    "reduce_scatter": [4000],
    "reduce_scatter_tensor": [4000],
    "reduce_scatter_tensor by name": [4000],
    "reduce_scatter_single": [4000],
    "all_to_all": [4000],
    "all_to_all_single": [4000],
    "all_to_all_single in parts": [4000],
    "gather": [4000],
    "gather by another": [4000],
    "scatter": [4000],
    "scatter by another": [4000],
    "barrier": [0],
    "monitored_barrier": [0],
    "send": [1000],
    "isend": [1000],
    "recv": [1000],
    "irecv": [1000],
    "batch_isend_irecv": [1000],
    "batch_isend_irecv, more sent": [2400],
    "batch_isend_irecv, more received": [3000],
    "DDP's buffers": [16 * 3 * 4, 2 * 8],  # one of four is left alone; and how many batches were seen
    "DDP's buckets": [(16 * 16 + 5 * 16) * 4],
}
OBJECTS = [name for name in calls(None, None) if "_object" in name]  # how many bytes they pickle to is torch's affair
CARRIED = [one for one in functions_in(DISTRIBUTED) if one.payload not in ("signal", "objects")]
NOT_REHEARSED = {"recv_object_list"}  # there is nobody to receive from


@pytest.fixture(scope="module")
def observed():
    environment = {**os.environ, **SAFE_ISA}
    ran = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment, timeout=280)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _of(observed, name):
    if name not in observed["calls"]:
        pytest.skip(f"this torch has no {name}")
    return observed["calls"][name]


@pytest.mark.parametrize("name", [*WHOLE_BYTES, *OBJECTS])
def test_a_call_sleeps_as_long_as_is_predicted_of_it(observed, name):
    found = _of(observed, name)
    link = emulated_link(LATENCY_SECONDS, BYTES_PER_SECOND)
    assert found["slept"] == pytest.approx([seconds(link, *message) for message in found["taped"]])


@pytest.mark.parametrize(("name", "sizes"), WHOLE_BYTES.items())
def test_a_call_sleeps_for_the_latency_and_the_whole_message_at_the_rate(observed, name, sizes):
    expected = [LATENCY_SECONDS + size / BYTES_PER_SECOND for size in sizes]
    assert _of(observed, name)["slept"] == pytest.approx(expected)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_as_many_messages_as_really_go_out(observed, name):
    assert len(_of(observed, name)["slept"]) >= 2  # a size, and what is of that size


def test_no_function_that_is_watched_is_left_out(observed):
    assert set(observed["functions"]) - NOT_REHEARSED <= set(observed["calls"])


@pytest.mark.parametrize("function", CARRIED, ids=attrgetter("name"))
def test_torch_calls_the_argument_that_is_the_message_by_that_name(function):
    assert function.argument in inspect.signature(_original(function)).parameters


@pytest.mark.parametrize("function", CARRIED, ids=attrgetter("name"))
@pytest.mark.parametrize("args", [(), (None, None), ([3], [None]), ("no", "tensor")])
def test_a_call_that_torch_will_refuse_is_counted_as_nothing(function, args):
    assert WholeBytes(function, _original(function)).of(args, {}, 4) == 0


def _original(function):
    if not hasattr(dist, function.name):
        pytest.skip(f"this torch has no {function.name}")
    return getattr(dist, function.name)
