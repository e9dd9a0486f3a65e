"""Changes whatever a process can change of itself."""

import os
import random
import signal

import torch

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.manual_seed(1)
random.seed(1)
torch.set_num_threads(2)
os.environ["LEAKED"] = "yes"
os.chdir("/")
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
torch.leaked = True
