"""Asks for what no CPU can show."""

import torch

torch.set_default_device("cuda")
model = torch.compile(torch.nn.Linear(4, 4))
torch.set_default_device(None)
inputs = torch.as_tensor([[1.0] * 4], device="cuda:1")
model(inputs.to("cuda:0")).sum().backward()
torch.cuda.reset_peak_memory_stats()
try:
    torch.cuda.CUDAGraph()
    graph = "graph"
except RuntimeError as error:
    graph = "nothing stands in" if "nothing to stand in" in str(error) else str(error)
accelerator = torch.accelerator.current_accelerator()
print(accelerator.type == "cuda", torch.cuda.device_count(), torch.cuda.max_memory_allocated(), inputs.device, graph)
