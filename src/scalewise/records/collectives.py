"""The collectives of torch.distributed: what each kind does, and the functions that call it.

There is no other list. The hooks count and the doctor notes what stands here, an emulated link holds it back, a
rehearsal replaces its objects, `records/wrapped.py` names it, and predictions take its time from here. A new function
is one `CollectiveFunction`, and one that does something new is one more `CollectiveKind`.

Two sizes are kept of a call. Rows and notes have that of the first tensor among its arguments, as reading it costs next
to nothing. A link carries the whole message: what ranks hold in the end for a gather, what there was in the beginning
for a scatter, what this rank sends for an all-to-all. An emulated link takes it from the argument that is named here. A
rehearsal stands below these functions, where torch hands over tensors alone, and counts those
(`watch/rehearsal/fake_group.py`); `tests/watch/emulation/test_emulated_sizes.py` holds both equal for each function.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

DISTRIBUTED = "torch.distributed"
FUNCTIONAL = "torch.distributed._functional_collectives"  # which DTensor calls; loaded on first use

# How long it takes, by the functions of `predict/collective_times.py`.
TimeLaw = Literal["all_reduce", "once_around", "passed_around", "level_by_level", "each_to_each", "to_a_neighbour"]
Content = Literal["gradients", "shards", "activations"]
# whole: the message itself; piece: as much as each rank has; both_ways: operations of a batch, of which the larger
# direction counts; signal: nothing; objects: sent in messages of their own, by other functions of this list.
Payload = Literal["whole", "piece", "both_ways", "signal", "objects"]
# Whose objects a rank gets: those of one rank, of every rank, of the other end of a message; none, as it only sends.
ObjectsOf = Literal["one_rank", "every_rank", "sender", "nobody"]


@dataclass(frozen=True)
class CollectiveKind:
    """One kind of collective, by whose name rows, notes and tapes call it."""

    name: str
    law: TimeLaw = "once_around"  # of NCCL
    gloo: TimeLaw | None = None  # None: as NCCL
    carries: tuple[Content, ...] = ()  # what a training step sends by it, apart from statistics and decisions
    message: bool = False  # between two ranks; all others need every rank of a group
    receives: bool = False  # such a message may come from another rank
    signal: bool = False  # nothing but a signal
    same_size: bool = False  # the tensors of all ranks are equally large
    parts: bool = False  # each rank gets a part of its own
    counts_piece: bool = False  # the first tensor of its functions is the piece that a rank keeps

    @property
    def unites(self) -> bool:
        """True if it can make ranks agree on numbers."""
        return not self.message and not self.signal


KINDS = {
    one.name: one
    for one in (
        CollectiveKind("all_reduce", "all_reduce", carries=("gradients",), same_size=True),
        CollectiveKind("all_gather", "once_around", carries=("shards",)),
        CollectiveKind("reduce_scatter", "once_around", "all_reduce", ("gradients", "shards"), counts_piece=True),
        CollectiveKind("broadcast", "passed_around", "level_by_level", same_size=True),
        # Over gloo it is scattered around the ring, then gathered by one rank.
        CollectiveKind("reduce", "passed_around", "all_reduce", ("gradients",), same_size=True),
        CollectiveKind("gather", "once_around"),
        CollectiveKind("scatter", "once_around", parts=True),
        CollectiveKind("all_to_all", "each_to_each", carries=("activations",), parts=True),
        CollectiveKind("send", "to_a_neighbour", carries=("activations",), message=True),
        CollectiveKind("recv", "to_a_neighbour", carries=("activations",), message=True, receives=True),
        CollectiveKind("batch_isend_irecv", "to_a_neighbour", carries=("activations",), message=True, receives=True),
        CollectiveKind("barrier", "all_reduce", "level_by_level", signal=True),
    )
}


@dataclass(frozen=True)
class CollectiveFunction:
    """A function of torch that calls a collective. Versions of torch differ in which ones they have."""

    name: str
    kind: str
    payload: Payload = "whole"
    argument: str = ""  # that the payload is in
    averages: str = ""  # the argument that holds the result, if it can be an average
    objects: ObjectsOf | None = None
    waits: bool = True  # until it is done, unless `async_op` is asked for
    module: str = DISTRIBUTED

    @property
    def path(self) -> str:
        """The name with its module."""
        return f"{self.module}.{self.name}"


_CALLED = (
    CollectiveFunction("all_reduce", "all_reduce", argument="tensor", averages="tensor"),
    CollectiveFunction("all_reduce_coalesced", "all_reduce", argument="tensors"),
    CollectiveFunction("broadcast", "broadcast", argument="tensor"),
    CollectiveFunction("broadcast_object_list", "broadcast", "objects", objects="one_rank"),
    CollectiveFunction("reduce", "reduce", argument="tensor", averages="tensor"),
    CollectiveFunction("all_gather", "all_gather", argument="tensor_list"),
    CollectiveFunction("all_gather_into_tensor", "all_gather", argument="output_tensor"),
    CollectiveFunction("all_gather_single", "all_gather", argument="output_tensor"),
    CollectiveFunction("all_gather_coalesced", "all_gather", argument="output_tensor_lists"),
    CollectiveFunction("all_gather_object", "all_gather", "objects", objects="every_rank"),
    CollectiveFunction("reduce_scatter", "reduce_scatter", argument="input_list", averages="output"),
    CollectiveFunction("reduce_scatter_tensor", "reduce_scatter", argument="input", averages="output"),
    CollectiveFunction("reduce_scatter_single", "reduce_scatter", argument="input", averages="output"),
    CollectiveFunction("all_to_all", "all_to_all", argument="input_tensor_list"),
    CollectiveFunction("all_to_all_single", "all_to_all", argument="input"),
    CollectiveFunction("gather", "gather", "piece", "tensor"),  # the list of all is at the root alone
    CollectiveFunction("gather_object", "gather", "objects", objects="every_rank"),
    CollectiveFunction("scatter", "scatter", "piece", "tensor"),
    CollectiveFunction("scatter_object_list", "scatter", "objects", objects="one_rank"),
    CollectiveFunction("barrier", "barrier", "signal"),
    CollectiveFunction("monitored_barrier", "barrier", "signal"),
    CollectiveFunction("send", "send", argument="tensor"),
    CollectiveFunction("isend", "send", argument="tensor", waits=False),
    CollectiveFunction("send_object_list", "send", "objects", objects="nobody"),
    CollectiveFunction("recv", "recv", argument="tensor"),
    CollectiveFunction("irecv", "recv", argument="tensor", waits=False),
    CollectiveFunction("recv_object_list", "recv", "objects", objects="sender"),
    CollectiveFunction("batch_isend_irecv", "batch_isend_irecv", "both_ways", "p2p_op_list", waits=False),
)
_FUNCTIONAL_NAMES = {
    "all_reduce": "all_reduce all_reduce_coalesced",
    "broadcast": "broadcast",
    "all_gather": "all_gather_single all_gather_single_autograd all_gather_single_coalesced all_gather_tensor "
    "all_gather_tensor_autograd all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter_single reduce_scatter_single_autograd reduce_scatter_single_coalesced "
    "reduce_scatter_tensor reduce_scatter_tensor_autograd reduce_scatter_tensor_coalesced",
    "all_to_all": "all_to_all_single all_to_all_single_autograd",
}
COLLECTIVES: tuple[CollectiveFunction, ...] = (
    *_CALLED,
    # They return what they made. No emulated link holds them back.
    *(
        CollectiveFunction(name, kind, module=FUNCTIONAL)
        for kind, names in _FUNCTIONAL_NAMES.items()
        for name in names.split()
    ),
)  # fmt: skip
# Functions that exchange something between ranks and are left out, with the reason.
LEFT_OUT = {
    f"{DISTRIBUTED}.breakpoint": "stops for a debugger",
    f"{FUNCTIONAL}.all_gather_inplace": "calls the function without the suffix, which is in the list",
    f"{FUNCTIONAL}.all_gather_tensor_inplace": "calls the function without the suffix",
    f"{FUNCTIONAL}.all_reduce_inplace": "calls the function without the suffix",
    f"{FUNCTIONAL}.all_to_all_inplace": "calls the function without the suffix",
    f"{FUNCTIONAL}.reduce_scatter_tensor_inplace": "calls the function without the suffix",
    f"{FUNCTIONAL}.batch_p2p_ops_inplace": "stands for batch_isend_irecv in compiled code only",
    f"{FUNCTIONAL}.irecv_inplace": "stands for irecv in compiled code only",
    f"{FUNCTIONAL}.isend_inplace": "stands for isend in compiled code only",
    f"{FUNCTIONAL}.permute_tensor": "calls all_to_all_single",
    f"{FUNCTIONAL}.wait_tensor": "sends nothing: it waits for what another one began",
}


def functions_in(module: str) -> Iterator[CollectiveFunction]:
    """The functions of one module that call a collective; this torch may not have them all."""
    return (one for one in COLLECTIVES if one.module == module)


def collective_kind(name: str) -> CollectiveKind:
    """The kind of that name; one that does nothing if there is none, as in a folder of another version."""
    return KINDS.get(name) or CollectiveKind(name, signal=True)


def kinds_carrying(*contents: Content) -> frozenset[str]:
    """The names of the kinds by which a training step sends any of these."""
    return frozenset(one.name for one in KINDS.values() if set(contents) & set(one.carries))
