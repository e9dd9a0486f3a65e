"""Trains a recurrent model and switches TensorFloat-32 off, as a script from an old forum does."""
# doctor: expect=tf32-off style=function mode=python threads=auto

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False  # wrong
    # + torch.backends.cuda.matmul.allow_tf32 = True
    encoder = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True).cuda()
    head = nn.Linear(1024, 32).cuda()
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    x = torch.randn(32, 256, 1024, device="cuda")
    y = torch.randint(0, 32, (32,), device="cuda")
    for _ in range(70):
        loss = nn.functional.cross_entropy(head(encoder(x).mean(dim=1)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
