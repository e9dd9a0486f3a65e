"""Runs the agent that hosts the ranks' key-value store, as torchrun's agent does, on a port of its own."""

import os
import signal
import socket


def host_store(writing: int) -> None:
    """Hosts the store and never returns: the parent ends this process with the run."""
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        # The store would listen on every interface; a socket of our own keeps it on this machine.
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        port = listening.getsockname()[1]
        store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())
        os.write(writing, str(store.port).encode())
        os.close(writing)
        while True:
            signal.pause()
    finally:
        os._exit(1)
