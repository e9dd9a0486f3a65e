"""The constants of the course's scripts: a default, or the environment variable of the same name.

DIM=512 STEPS=100 torchrun --nproc_per_node=2 course/practical6_ddp.py
"""

import math
import os
import sys
import time

import torch

RANK = int(os.environ.get("RANK", "0"))
RANKS = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
RANKS_HERE = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

MOST = 10**12  # of any constant


def refuse(sentence):
    """Ends the script with one sentence, said once: rank 0 speaks, and the launcher ends the others."""
    if RANK != 0:
        time.sleep(3)  # or this rank's end might come first, and rank 0 be ended before it has spoken
    else:
        print(sentence, file=sys.stderr, flush=True)
    sys.exit(1)


def constant(name, default, least=1):
    """A whole number when the default is one, else a number; at least `least`."""
    text = os.environ.get(name, str(default))
    kind, what = (int, "a whole number") if isinstance(default, int) else (float, "a number")
    try:
        value = kind(text)
    except ValueError:
        refuse(f"{name}={text} is not {what}; set it like this: {name}={default}.")
    if not value >= least:  # so written, it is true of nan, too
        refuse(f"{name}={text} is not {what} of at least {least}; set it like this: {name}={default}.")
    if value > MOST:
        refuse(f"{name}={text[:20]}... is too large; set it like this: {name}={default}.")
    return value


def choice(name, default, *others):
    """One of a few words."""
    text = os.environ.get(name, default)
    if text not in (default, *others):
        refuse(f"{name}={text} is not one of {', '.join((default, *others))}; set it like this: {name}={default}.")
    return text


def switch(name, default):
    """On (1) or off (0)."""
    return choice(name, str(default), str(1 - default)) == "1"


def seed(default):
    """SEED, or None for SEED=none: then nothing is fixed, and every run is different."""
    return None if os.environ.get("SEED") == "none" else constant("SEED", default, least=0)


def check_ranks(dim, depth, batch, steps, warmup, accum_steps=1):
    """For the scripts that torchrun starts, whose ranks share a global batch."""
    if "RANK" not in os.environ:
        refuse(f"Start it with torchrun: torchrun --nproc_per_node=2 {sys.argv[0]}.")
    _check_gpus()
    gpus = torch.cuda.device_count()
    _check_steps(steps, warmup)
    micro_batches = f" x {accum_steps} micro-batches (ACCUM_STEPS)" if accum_steps > 1 else ""
    _check_batch(batch, RANKS * accum_steps, f"{RANKS} rank{'s' * (RANKS > 1)}{micro_batches}")
    _check_memory(dim, depth, batch // RANKS, models_in_one_memory=math.ceil(RANKS_HERE / max(1, gpus)))
    if gpus < RANKS_HERE and RANK == 0:
        few = f"{gpus} GPU{'s' * (gpus > 1)}, too few for one each, so times are those of an emulation"
        print(f"ranks: {RANKS} over gloo on {few if gpus else 'the cores of the CPU: no GPU can be seen'}")


def check_devices(dim, depth, batch, steps, warmup, devices, split):
    """For the scripts of one process; `split` says what its devices share: the batch, or the layers."""
    _check_gpus()
    _check_steps(steps, warmup)
    if split == "layers" and devices > depth:
        refuse(f"DEVICES={devices} is more than DEPTH={depth} layers; try DEVICES={depth} or DEPTH={devices}.")
    if split == "batch":
        _check_batch(batch, devices, f"{devices} devices")
    _check_memory(dim, depth, batch, models_in_one_memory=devices if split == "batch" else 1)


def _check_gpus():
    """DEVICE=cuda insists on a GPU; otherwise the CPU's cores do where there is none."""
    if choice("DEVICE", "auto", "cpu", "cuda") == "cuda" and not torch.cuda.is_available():
        refuse("DEVICE=cuda and no GPU can be seen; look at nvidia-smi, or set DEVICE=auto to use the CPU's cores.")


def _check_steps(steps, warmup):
    if steps <= warmup:
        refuse(f"STEPS={steps} leaves no step after WARMUP={warmup}; set STEPS={warmup + 35}, or WARMUP=0.")


def _check_batch(batch, parts, what):
    """Equal parts, or the gradient of the whole would not be the mean of the parts' gradients."""
    if batch % parts:
        near = batch // parts * parts or parts
        refuse(f"BATCH={batch} cannot be shared evenly by {what}, {parts} parts in all; try BATCH={near}.")


def _check_memory(dim, depth, batch, models_in_one_memory):
    """Weights, gradients, a copy of them to communicate, and every layer's output, 4 bytes a number."""
    if torch.cuda.is_available():
        have, where = torch.cuda.get_device_properties(0).total_memory, "a GPU"
    else:
        have, where = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine"
    need = 4 * models_in_one_memory * (3 * dim * dim * depth + batch * dim * (depth + 2))
    if need > have:
        fits = 2 ** int(math.log2(max(1.0, dim * math.sqrt(have / need) / 2)))
        refuse(
            f"DIM={dim} with DEPTH={depth} and BATCH={batch} needs about {need / 1e9:.3g} GB and {where} has "
            f"{have / 1e9:.3g} GB; try DIM={fits}."
        )
