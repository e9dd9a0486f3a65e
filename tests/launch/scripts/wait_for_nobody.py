"""Rank 0 waits in a collective that rank 1 never enters, because it sleeps in its own code for ever."""

import time

import torch
import torch.distributed as dist


def rank_one_is_busy() -> None:
    time.sleep(600)


def main() -> None:
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        rank_one_is_busy()
    dist.all_reduce(torch.ones(1))


main()
