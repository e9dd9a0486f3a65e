"""A GAN: two models, two optimizers, and a discriminator that is frozen while the generator learns."""
# doctor: expect= style=gan

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LATENT = 8


def build():
    generator = nn.Sequential(nn.Linear(LATENT, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16))
    discriminator = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    return DistributedDataParallel(generator), DistributedDataParallel(discriminator, broadcast_buffers=False)


def train():
    dist.init_process_group(backend="gloo")
    torch.manual_seed(100 + dist.get_rank())
    real_data = TensorDataset(torch.randn(160, 16) * 0.5 + 1)
    sampler = DistributedSampler(real_data)
    loader = DataLoader(real_data, batch_size=16, sampler=sampler, drop_last=True)
    netG, netD = build()
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))

    for epoch in range(3):
        sampler.set_epoch(epoch)
        for (real,) in loader:
            noise = torch.randn(real.size(0), LATENT)
            fake = netG(noise)

            # The discriminator sees both in one batch, so that its buckets are reduced once.
            optD.zero_grad()
            scores = netD(torch.cat([real, fake.detach()]))
            labels = torch.cat([torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)])
            lossD = F.binary_cross_entropy_with_logits(scores, labels)
            lossD.backward()
            optD.step()

            for p in netD.parameters():
                p.requires_grad_(False)
            optG.zero_grad()
            lossG = F.binary_cross_entropy_with_logits(netD.module(fake), torch.ones(real.size(0), 1))
            lossG.backward()
            optG.step()
            for p in netD.parameters():
                p.requires_grad_(True)
        if dist.get_rank() == 0:
            print(f"[{epoch}] D {lossD.item():.3f} G {lossG.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
