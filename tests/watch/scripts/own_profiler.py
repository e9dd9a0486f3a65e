"""Profiles some of its steps with a schedule, as training scripts do."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


def main() -> None:
    torch.manual_seed(0)
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []

    def ready(profiler: profile) -> None:
        seen.append(sum(event.count for event in profiler.key_averages() if event.key == "aten::addmm"))

    plan = schedule(wait=4, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready, acc_events=True) as profiler:
        for step in range(10):
            loss = model(torch.randn(8, 16)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
            print(f"step {step} {loss.item().hex()}", flush=True)
    print("profiled", seen)


if __name__ == "__main__":
    main()
