"""Reads a clock and ends in the way it is told to."""

import os
import signal
import sys
import time
import warnings


def end(how):
    """One way to end."""
    if how == "raise":
        raise ValueError("no luck")
    if how == "exit":
        sys.exit("cannot go on")
    if how == "code":
        sys.exit(3)
    if how == "os_exit":
        os._exit(5)
    if how == "kill":
        time.sleep(0.6)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fork":
        warnings.simplefilter("error")
        child = os.fork()
        if child == 0:
            time.time()
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    import torch

    print(torch.ones(2).sum().item(), time.monotonic() > 0, flush=True)
    end(sys.argv[1])
    time.process_time()
