"""A critic with a gradient penalty: gradients of gradients, by autograd.grad inside the loss."""
# doctor: expect= style=wgan

import torch
import torch.distributed as dist
from torch import nn

CRITIC_STEPS = 2


def penalty(critic, real, fake):
    mix = torch.rand(real.size(0), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    (gradient,) = torch.autograd.grad(score.sum(), between, create_graph=True)
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()


def reduce_gradients(module):
    flat = torch.cat([p.grad.flatten() for p in module.parameters()])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= dist.get_world_size()
    offset = 0
    for p in module.parameters():
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    generator = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 6))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    torch.manual_seed(dist.get_rank() + 1)
    for iteration in range(6):
        for _ in range(CRITIC_STEPS):
            real, noise = torch.randn(12, 6) + 1, torch.randn(12, 3)
            with torch.no_grad():
                fake = generator(noise)
            loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            reduce_gradients(critic)
            opt_c.step()
        loss_g = -critic(generator(torch.randn(12, 3))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        reduce_gradients(generator)
        opt_g.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
