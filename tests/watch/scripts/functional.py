"""Training without a plain module call: functional_call, plain tensors, torch.func.grad, vmap over the samples."""

import sys

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.utils.data import DataLoader, TensorDataset

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
named = dict(model.named_parameters())
weights = [torch.randn(32, 32, requires_grad=True), torch.randn(1, 32, requires_grad=True)]
optimizer = torch.optim.SGD(weights if how == "tensors" else model.parameters(), lr=0.05)


def loss_of(parameters, x, y):
    return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)


def loss_of_one(parameters, x, y):
    return loss_of(parameters, x.unsqueeze(0), y.unsqueeze(0))


def give(gradients):
    for name, gradient in gradients.items():
        named[name].grad = gradient


for step, (x, y) in enumerate(DataLoader(TensorDataset(torch.randn(128, 32), torch.randn(128, 1)), batch_size=16)):
    optimizer.zero_grad()
    if how == "call":
        loss = loss_of(named, x, y)
        loss.backward()
    elif how == "tensors":
        hidden = torch.tanh(nn.functional.linear(x, weights[0]))
        loss = nn.functional.mse_loss(nn.functional.linear(hidden, weights[1]), y)
        loss.backward()
    elif how == "grad":
        gradients, loss = grad_and_value(loss_of)({name: one.detach() for name, one in named.items()}, x, y)
        give(gradients)
    elif how == "vmap":
        each = vmap(grad(loss_of_one), in_dims=(None, 0, 0))({name: one.detach() for name, one in named.items()}, x, y)
        give({name: one.mean(0) for name, one in each.items()})
        loss = each["0.weight"].sum()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}", flush=True)
