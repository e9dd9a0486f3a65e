"""Asks stand-in devices all that a model-parallel script asks GPUs, and prints the answers."""

import io
import os
import threading

import torch
from torch import nn

MB = 1_000_000


def layer():
    return nn.Linear(500, 500, bias=False)  # 1 MB of weights


print("visible", "CUDA_VISIBLE_DEVICES" in os.environ)
print("there", torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device())
torch.cuda.synchronize(2)
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
first, second = layer().to("cuda:0"), layer().to(torch.device("cuda", 1))
third = layer().cuda(2)
print("held", [torch.cuda.memory_allocated(i) / MB for i in range(3)])
x = torch.randn(4, 500).to("cuda:0")
moved = x.to(1)
print("moved", moved.device, moved.data_ptr() != x.data_ptr(), torch.equal(moved.cpu(), x.cpu()), x.to("cuda:0") is x)
hidden = second(first(x).to("cuda:1"))
output = third(hidden.to("cuda:2"))
output.pow(2).mean().backward()
print(
    "lie", hidden.device, output.device, first.weight.grad.device, second.weight.grad.device, third.weight.grad.device
)
print("peaks", [round(torch.cuda.max_memory_allocated(i) / MB, 1) for i in range(3)])
for one in (first, second, third):
    one.zero_grad()
print("after", [round(torch.cuda.memory_allocated(i) / MB, 1) for i in range(3)])
torch.cuda.reset_peak_memory_stats(1)
print("reset", [round(torch.cuda.max_memory_allocated(i) / MB, 1) for i in range(3)])
with torch.cuda.device(2):
    print("current", torch.cuda.current_device(), torch.zeros(1, device="cuda").device)
found = []
thread = threading.Thread(target=lambda: found.append(torch.cuda.current_device()))
torch.cuda.set_device(1)
thread.start()
thread.join()
print("threads", torch.cuda.current_device(), found)
file = io.BytesIO()
torch.save(first.state_dict(), file)
file.seek(0)
print("loaded", torch.load(file, map_location="cuda:2")["weight"].device)
