"""Written for a GPU: reads numbers from it in several ways, and waits for it in others."""

import time

import torch


def main():
    x = torch.ones(4, device="cuda")
    y = torch.ones(4)
    print(x.sum().item(), y.sum().item(), f"{x.mean():.1f}", bool(x.any()), x.cpu().tolist())
    x.to("cpu", non_blocking=True)
    x.to(torch.float64)
    print(x)
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    start.synchronize()
    torch.cuda.synchronize()
    torch.cuda.current_stream().synchronize()
    print(time.time() > 0)


if __name__ == "__main__":
    main()
