"""Times its steps with CUDA events, on a stream of its own."""

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator(device=device).manual_seed(7)
print(torch.cuda.get_device_name(0) != "", torch.cuda.get_device_properties(0).total_memory > 0)
with torch.cuda.device(0):
    model = torch.nn.Linear(64, 64, device=device)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.rand(parameter.shape, generator=generator, device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
host = torch.rand(16, 64, generator=torch.Generator().manual_seed(1))
kept = host.to(device)
kept.mul_(0)
print(f"host {host.sum().item():.4f} device {kept.sum().item():.4f}")
total = 0.0
for _ in range(5):
    start.record()
    with torch.cuda.stream(stream):
        batch = host.to(device, non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    batch.record_stream(torch.cuda.current_stream())
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    end.record()
    torch.cuda.synchronize()
    total += start.elapsed_time(end)
    assert loss.is_cuda and model.weight.grad.device.type == "cuda" and not loss.cpu().is_cuda
    print(f"{loss.item():.4f}")
print(total > 0)
