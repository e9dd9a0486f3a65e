"""Where tensors lie, which parameters are a module's own, and which line asked."""

import torch
from torch import nn

from scalewise.watch.inspection.tensor_places import asking_line, device_of, own_parameters, storage_bytes


class Asking(nn.Module):
    def forward(self, x):
        return through_a_function_of_the_script()


def through_a_function_of_the_script():
    return asking_line()


def test_without_stand_ins_a_tensor_lies_where_torch_says():
    tensor = torch.zeros(1)
    tensor.logical_device = "logical:3"
    assert device_of(tensor) == "cpu"


def test_parameters_of_children_and_missing_ones_are_not_a_module_s_own():
    assert own_parameters(nn.Sequential(nn.Linear(2, 2))) == []
    assert len(own_parameters(nn.Linear(2, 2, bias=False))) == 1


def test_views_of_one_storage_count_once():
    whole = torch.zeros(10)
    assert storage_bytes([whole, whole[:5], torch.zeros(1)]) == 44


def test_the_line_that_asked_is_the_one_in_forward_else_the_nearest():
    _, line = Asking()(torch.zeros(1))
    assert line == Asking.forward.__code__.co_firstlineno + 1
    file, line = through_a_function_of_the_script()
    assert (file, line) == (__file__, through_a_function_of_the_script.__code__.co_firstlineno + 1)
