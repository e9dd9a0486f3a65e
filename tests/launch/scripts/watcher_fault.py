"""A correct script under a watcher with a fault: one hook finds nothing where its recorder was, and raises."""

import os
import sys

import torch


def own_functions():
    """The watcher's functions that this process calls, by the file they are in."""
    optimizers = sys.modules["torch.optim.optimizer"]
    hooks = [*optimizers._global_optimizer_pre_hooks.values(), *optimizers._global_optimizer_post_hooks.values()]
    wrapped = [torch.autograd.backward, torch.nn.Module.__call__, torch.save]
    seams = sys.modules.get("scalewise.watch.seams")
    while wrapped:
        one = wrapped.pop()
        seam = seams and seams.seam_of(one)
        if seam:
            hooks += [subscriber.act for subscriber in seam.subscribers]
        code = getattr(one, "__code__", None)
        if code is not None and "/scalewise/watch/" in code.co_filename:
            hooks.append(one)
            wrapped.append(getattr(one, "__wrapped__", None))
    return hooks


def break_hook(file):
    """Takes away what the hook of that file holds on to; a watcher without that hook has nothing to break."""
    for function in own_functions():
        if function.__code__.co_filename.endswith(f"/watch/{file}.py"):
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                if name in ("recorder", "notebook"):
                    cell.cell_contents = object()


for name in sys.argv[1:]:
    break_hook(name)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
torch.save(model.state_dict(), os.devnull)
print("trained")
