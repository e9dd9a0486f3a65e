"""Training loops of one process, each a way of its own to scale, clip, throw away and keep."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

MICRO_BATCHES = 2
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
kept = []


def inputs():
    return torch.randn(6, 8), torch.randint(0, 4, (6,))


def show(loss):
    print(float(loss.detach()).hex(), float(sum(p.detach().sum() for p in model.parameters())).hex(), flush=True)


def divided():
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(3):
        for _ in range(MICRO_BATCHES):
            x, y = inputs()
            loss = F.cross_entropy(model(x), y) / MICRO_BATCHES
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        optimizer.zero_grad()
        show(loss)


def by_hand():
    for _ in range(3):
        for _ in range(MICRO_BATCHES):
            x, y = inputs()
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
        for p in model.parameters():
            p.grad /= MICRO_BATCHES
        torch.nn.utils.clip_grad_value_(model.parameters(), clip_value=0.001)
        optimizer.step()
        for p in model.parameters():
            p.grad = None
        show(loss)


def tokens():
    for _ in range(3):
        batches = [inputs() for _ in range(MICRO_BATCHES)]
        batches[0][1][:3] = -100
        count = sum(int((y != -100).sum()) for _, y in batches)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y, reduction="sum") / count
            loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=False)
        optimizer.zero_grad()
        show(loss)


def masked():
    criterion = nn.CrossEntropyLoss(reduction="none")
    for _ in range(3):
        x, y = inputs()
        mask = (torch.arange(6) < 4).float()
        loss = (criterion(model(x), y) * mask).sum() / mask.sum() + 0.01 * model[0].weight.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show(loss)


def scaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        x, y = inputs()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step == 2:
            model[0].bias.grad.fill_(float("inf"))
            scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {torch.device("cpu"): torch.ones(1)}
        scaler.step(optimizer)
        scaler.update()
        show(loss)


def keeps():
    total = 0
    for _ in range(9):
        x, y = inputs()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        (loss / 2).backward()
        if how == "keeps_sum":
            total = total + loss
        elif how == "keeps_list":
            kept.append(loss)
        else:
            kept.append(loss.detach())
        optimizer.step()
        show(loss)


def evaluates():
    for _ in range(3):
        model.train()
        x, y = inputs()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            show(F.cross_entropy(model(x), y))


def sam():
    for _ in range(3):
        x, y = inputs()
        F.cross_entropy(model(x), y).backward()
        nudges = [0.01 * p.grad for p in model.parameters()]
        with torch.no_grad():
            for p, nudge in zip(model.parameters(), nudges, strict=True):
                p.add_(nudge)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p, nudge in zip(model.parameters(), nudges, strict=True):
                p.sub_(nudge)
        optimizer.step()
        optimizer.zero_grad()
        show(loss)


how = sys.argv[1]
{
    "divided": divided,
    "by_hand": by_hand,
    "tokens": tokens,
    "masked": masked,
    "scaled": scaled,
    "evaluates": evaluates,
    "sam": sam,
}.get(how, keeps)()
