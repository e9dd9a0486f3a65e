"""Odd things that scripts do to models, graphs and optimizers; each must come out as it would alone."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.optim import lr_scheduler
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)


class Odd(nn.Module):
    """Equal to all others of its kind."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4, sparse=True)
        self.out = nn.Linear(4, 2)
        self.phase = nn.Parameter(torch.ones(2, dtype=torch.complex64))

    def __eq__(self, other):
        return isinstance(other, Odd)

    def __hash__(self):
        return 1

    def forward(self, words):
        return self.out(self.words(words).mean(1)) * self.phase.abs()


model = Odd()
dense = torch.optim.Adam([*model.out.parameters(), model.phase], lr=torch.tensor(0.01))
sparse = torch.optim.SparseAdam(list(model.words.parameters()), lr=0.01)
warm = lr_scheduler.LinearLR(sparse, 0.5, total_iters=3)
schedule = lr_scheduler.SequentialLR(sparse, [warm, lr_scheduler.ConstantLR(sparse)], [3])
plateau = lr_scheduler.ReduceLROnPlateau(sparse, patience=0)
for step in range(4):
    words, labels = torch.randint(0, 10, (6, 3)), torch.randint(0, 2, (6,))
    with torch.autograd.detect_anomaly(check_nan=False):
        loss = F.cross_entropy(model(words), labels)
        loss.backward(create_graph=step == 3)
    dense.step()
    sparse.step()
    schedule.step()
    plateau.step(loss.detach())
    dense.zero_grad()
    sparse.zero_grad(set_to_none=False)
    print(step, loss.item().hex(), sparse.param_groups[0]["lr"])

net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(5, 4)
parameters = {name: one.detach() for name, one in net.named_parameters()}
per_sample = vmap(grad(lambda p, one: functional_call(net, p, (one,)).sum()), in_dims=(None, 0))(parameters, x)
print(sum(float(one.sum()) for one in per_sample.values()).hex())
print(torch.jit.trace(net, x).graph.findAllNodes("aten::tanh").__len__())
with FlopCounterMode(display=False) as flops:
    net(x).sum().backward()
print(flops.get_total_flops())
with torch.inference_mode():
    print(net(x).sum().item().hex())
penalty = torch.autograd.grad(net(x.requires_grad_()).sum(), x, create_graph=True)[0].pow(2).sum()
penalty.backward()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.step()
twin = copy.deepcopy(net)
stored = pickle.loads(pickle.dumps(optimizer.state_dict()))
buffer = io.BytesIO()
torch.save(net, buffer)
torch.save(penalty.detach(), buffer)
print(len(stored["param_groups"]), float(twin(x).sum()).hex(), buffer.tell() > 0)
half = copy.deepcopy(net).bfloat16()
half(x.detach().bfloat16()).float().mean().backward()
torch.optim.SGD(half.parameters(), lr=0.1).step()
print(float(half[0].weight.float().sum()).hex())
out = net(x.detach())
out.backward(torch.ones_like(out))
torch.autograd.backward([net(x.detach()).sum(), net(x.detach()).mean()])
print([float(p.grad.sum()).hex() for p in net.parameters()])
