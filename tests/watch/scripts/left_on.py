"""Trains with anomaly detection, garbage collected in every step and a function compiled for fixed shapes."""

import gc
import json

import torch
from torch import nn

torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)
model = nn.Linear(4, 2)
compiled = torch.compile(lambda x: x * 2 + x.shape[0], backend="eager", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
anomalies, collections = 0, gc.get_stats()[2]["collections"]
for step in range(6):
    with torch.autograd.detect_anomaly(check_nan=False):
        loss = model(compiled(torch.ones(2 + step, 4))).square().mean()
        anomalies += torch.is_anomaly_enabled()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gc.collect()
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
collected = gc.get_stats()[2]["collections"] - collections
print(json.dumps({"anomalies": anomalies, "graphs": graphs, "collected": collected, "loss": loss.item()}))
