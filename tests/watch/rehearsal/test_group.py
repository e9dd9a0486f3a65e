"""The group that stands for all ranks takes the backends that torch knows, and refuses others as torch does."""

import pytest
import torch.distributed as dist
from torch.distributed import HashStore

from scalewise.watch.rehearsal.group import NAME, _refuse_unknown


@pytest.mark.filterwarnings("ignore:Device capability")
@pytest.mark.parametrize("backend", ["glooo", NAME, "cpu:glooo", "cpu:gloo,cuda:ncl"])
def test_a_name_that_torch_does_not_know_is_refused_in_the_words_of_torch(backend: str) -> None:
    with pytest.raises(AssertionError) as real:
        dist.init_process_group(backend, rank=0, world_size=1, store=HashStore())
    with pytest.raises(AssertionError) as ours:
        _refuse_unknown(backend)
    assert str(ours.value) == str(real.value)


@pytest.mark.parametrize("backend", ["undefined", "gloo", "nccl", "mpi", "ucc", "cpu:gloo,cuda:nccl"])
def test_what_torch_knows_is_taken_even_where_it_is_not_built_in(backend: str) -> None:
    _refuse_unknown(backend)
